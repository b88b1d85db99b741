"""Connections to whichever server of a URL is to be used now: see `hosts` and `clusters`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from eventstore.storage.clusters import NOT_READY, Cluster, Use, runner, standing
from eventstore.storage.mysql.hosts import Hosts

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy import Dialect, Engine
    from sqlalchemy.pool import ConnectionPoolEntry

    from eventstore.storage.mysql.hosts import Place
    from eventstore.storage.sql.backend import Backend

_PLACE, _CHANGES, _PINGED = "place", "changes", "pinged"
"""What a pool keeps with a connection."""


class Routing:
    """The servers of a backend, and which of them its connections go to."""

    def __init__(self, backend: Backend, driver: Callable[[], ModuleType]) -> None:
        self._backend = backend
        self._driver = driver
        self.hosts = Hosts(backend.url)
        self.cluster: Cluster | None = None
        """The kind of cluster that the server is part of, as far as is known."""

    def route(self, engine: Engine) -> Engine:
        """Let an engine connect to one of several servers."""
        if self.hosts:
            event.listen(engine, "do_connect", self._connect)
            event.listen(engine, "invalidate", self._left)
        return engine

    def leave_silent(self, engine: Engine, seconds: int) -> Engine:
        """Let an engine of several servers give one up that is silent for so long."""

        def connected(connection: Any, _: object) -> None:
            _set_limits(connection, seconds, seconds)

        if self.hosts and self._backend.url.query.keys().isdisjoint(_LIMITS):
            event.listen(engine, "connect", connected)
        return engine

    def is_left(self, info: Mapping[Any, Any]) -> bool:
        """Return whether other connections, with other `info`, go to another server by now."""
        return bool(info.get(_CHANGES, self.hosts.changes) != self.hosts.changes)

    def note_ping(self, info: Any) -> None:
        """Take note that a connection is given up because it was idle for too long, perhaps."""
        info[_PINGED] = True

    def check(self, connection: Any) -> None:
        """Refuse a server that is no part of its cluster now; one that takes no writes is read.

        Raises:
            OperationalError: the driver's own, so that it is waited for.
        """
        found = standing(runner(connection), reads_only=True)
        self.cluster = found.cluster
        if found.use is Use.NONE:
            raise self._refusal(found.words)

    def _connect(
        self, dialect: Dialect, record: ConnectionPoolEntry, _: object, options: Mapping[str, Any]
    ) -> Any:
        """Connect to the first server that is to be used; to a spare one where there is none."""
        spare: tuple[Place, Any] | None = None
        failure = self._refusal("no server is named")
        for place in self.hosts:
            try:
                connection = _open(dialect, place, options)
                found = standing(runner(connection), reads_only=self._backend.read_only)
            except self._driver().Error as error:
                if not self._backend.is_connection_lost(error):
                    raise
                failure = error
                continue
            self.cluster = found.cluster
            if found.use is Use.FULL:
                _close(spare)
                return self._taken(record, place, connection)
            if found.use is Use.SPARE and spare is None:
                spare = place, connection
            else:
                _close((place, connection))
                failure = self._refusal(f"{place}: {found.words}")
        if spare is not None:
            return self._taken(record, *spare)
        raise failure

    def _taken(self, record: ConnectionPoolEntry, place: Place, connection: Any) -> Any:
        self.hosts.prefer(place)
        record.info.update({_PLACE: place, _CHANGES: self.hosts.changes})
        return connection

    def _left(self, connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        """Try the server of a connection last that was lost."""
        if not (connection is None or connection.open or record.info.get(_PINGED)):
            self.hosts.leave(record.info[_PLACE])

    def _refusal(self, words: str) -> BaseException:
        error: BaseException = self._driver().OperationalError(NOT_READY, words)
        return error


_LIMITS = ("read_timeout", "write_timeout")


def _open(dialect: Dialect, place: Place, options: Mapping[str, Any]) -> Any:
    """Connect to a server; one that takes the connection and says nothing is left, too."""
    limits = dict.fromkeys(_LIMITS, options["connect_timeout"])
    connection = dialect.connect(**{**options, **place._asdict(), **limits})
    _set_limits(connection, *map(options.get, _LIMITS))
    return connection


def _set_limits(connection: Any, read: object, write: object) -> None:
    """Limit how long a statement waits; the driver takes that only when it connects."""
    connection._read_timeout = read  # noqa: SLF001
    connection._write_timeout = write  # noqa: SLF001


def _close(opened: tuple[Place, Any] | None) -> None:
    if opened is not None:
        with suppress(Exception):
            opened[1].close()
