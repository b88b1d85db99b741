"""LangGraph's checkpoints in a PostgreSQL, which a URL names in place of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from eventstore.domain.one_line import one_line
from eventstore.importers.frameworks.checkpoints import Thread
from eventstore.importers.reading.problems import Problems, SourceError
from eventstore.importers.reading.transcript import Transcript

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMES: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")

_CONNECT_SECONDS: Final = 30
_TABLES: Final = ("checkpoints", "checkpoint_blobs")
_THREADS: Final = (
    "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints ORDER BY thread_id, checkpoint_ns"
)
_STATES: Final = (
    "SELECT c.checkpoint_id, c.checkpoint ->> 'ts', b.type, b.blob FROM checkpoints c "
    "JOIN checkpoint_blobs b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns "
    "AND b.channel = 'messages' "
    "AND b.version = c.checkpoint -> 'channel_versions' ->> 'messages' "
    "WHERE c.thread_id = %s AND c.checkpoint_ns = %s ORDER BY c.checkpoint_id"
)
_SENT: Final = (
    "SELECT b.type, b.blob FROM checkpoints c JOIN checkpoint_blobs b "
    "ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns "
    "AND b.channel = '__pregel_tasks' "
    "AND b.version = c.checkpoint -> 'channel_versions' ->> '__pregel_tasks' "
    "WHERE c.thread_id = %s AND c.checkpoint_ns = %s ORDER BY c.checkpoint_id DESC LIMIT 1"
)
_COLUMNS: Final = (
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('checkpoint_writes') "
    "AND attnum > 0 AND NOT attisdropped"
)
_WRITES: Final = (
    "SELECT w.task_id, PATH, w.channel, w.type, w.blob FROM checkpoint_writes w "
    "JOIN (SELECT thread_id, checkpoint_ns, max(checkpoint_id) AS last FROM checkpoints "
    "WHERE thread_id = %s AND checkpoint_ns = %s GROUP BY 1, 2) c "
    "ON w.thread_id = c.thread_id AND w.checkpoint_ns = c.checkpoint_ns "
    "AND w.checkpoint_id = c.last "
    "WHERE w.channel IN ('messages', '__error__', '__interrupt__') ORDER BY 2, w.task_id, w.idx"
)


class CheckpointServer:
    """A database of checkpoints; it has no size that is known before."""

    size = position = 0

    def __init__(self, url: str, problems: Problems) -> None:
        self._url = url
        self._problems = problems

    @property
    def name(self) -> str:
        """The URL for people to read, without its secrets."""
        from eventstore.storage.urls import shown  # loads SQLAlchemy

        return shown(self._url)

    def transcripts(self) -> Iterator[Transcript]:
        """Yield a conversation for each thread, and one for each subgraph in it.

        Raises:
            SourceError: the database cannot be read, or holds no checkpoints.
        """
        try:
            import psycopg  # an extra
        except ImportError as error:
            raise SourceError(
                f"{self.name} needs psycopg: pip install 'toolledger[postgresql]'"
            ) from error
        address = self._url.replace("postgresql+psycopg://", "postgresql://", 1)
        if not _is_readable(address):
            raise SourceError(
                f"{self.name} is not a database URL: write postgresql://USER:PASSWORD@HOST:PORT/"
                "NAME, with the signs of the password escaped, such as %40 for @"
            )
        try:
            with psycopg.connect(address, connect_timeout=_CONNECT_SECONDS) as connection:
                connection.read_only = True
                yield from self._threads(connection)
        except psycopg.Error as error:
            raise SourceError(
                f"{self.name} cannot be read: {one_line(str(error), 200)}: see to the server"
            ) from error

    def _threads(self, connection: Connection[Any]) -> Iterator[Transcript]:
        found = connection.execute("SELECT to_regclass(%s), to_regclass(%s)", _TABLES).fetchone()
        if found is None or None in found:
            raise SourceError(
                f"{self.name} holds no checkpoints of LangGraph: name the database that has them"
            )
        for thread, namespace in connection.execute(_THREADS).fetchall():
            reader = Thread(thread, namespace, self._problems)
            with connection.cursor("toolledger_checkpoints") as rows:  # a page at a time
                rows.execute(_STATES, (thread, namespace))
                for checkpoint_id, time, kind, data in rows:
                    reader.add_messages(checkpoint_id, kind, bytes(data or b""), time)
            self._add_pending(connection, reader, (thread, namespace))
            yield from reader.transcripts()

    def _add_pending(
        self, connection: Connection[Any], reader: Thread, of: tuple[str, str]
    ) -> None:
        """Add what the last checkpoint sends to tasks, and what they wrote after it."""
        for kind, data in connection.execute(_SENT, of).fetchall():
            reader.add_sent(kind, bytes(data or b""))
        columns = {name for (name,) in connection.execute(_COLUMNS).fetchall()}
        if columns:
            path = "task_path" if "task_path" in columns else "''"  # earlier versions kept none
            query = _WRITES.replace("PATH", path)
            for task, place, channel, kind, data in connection.execute(query, of).fetchall():
                reader.add_write(task, place, channel, kind, bytes(data or b""))


def _is_readable(address: str) -> bool:
    """Return whether libpq can read a URL; its own error would quote it, and the password."""
    from psycopg import Error  # an extra
    from psycopg.conninfo import conninfo_to_dict

    from eventstore.storage.urls import parsed  # loads SQLAlchemy

    try:
        parsed(address)  # libpq takes `u;password=p` for a user
        conninfo_to_dict(address)
    except (Error, ValueError):
        return False
    return True
