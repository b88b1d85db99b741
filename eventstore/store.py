"""`EventStore`: the log of all conversations of one tenant."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from eventstore.appending import Appender
from eventstore.bell import forget_bells
from eventstore.conversation import Conversation
from eventstore.events import Recorded
from eventstore.feed import Cursor, Feed, cursor_at
from eventstore.fingerprint import parse
from eventstore.storage import Damage, Storage

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Connection

    from eventstore.following import Follow, Stop
    from eventstore.watch import Watch


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


class EventStore:
    """An append-only log of conversations; safe to share between threads, and over a fork.

    Open one with `EventStore.open(url)`. `storage` may be any `Storage`; `clock` gives
    microseconds since 1970 UTC.
    """

    def __init__(self, storage: Storage, clock: Callable[[], int] = system_clock) -> None:
        self._use(Appender(storage, clock), storage)

    def _use(self, appender: Appender, storage: Storage) -> None:
        """Append through `appender` alone; a host's transaction has one of its own."""
        self.appender = appender
        self._storage = storage
        self._watch()
        _stores.add(self)

    def _watch(self) -> None:
        from eventstore.watch import Watch  # noqa: PLC0415 - of who opens a store

        self.watch: Watch = Watch(self._storage, self.appender.bell)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        tenant: str = "",
        durability: str = "full",
        busy_timeout: float = 30.0,
        create: bool = True,
        clock: Callable[[], int] = system_clock,
    ) -> Self:
        """Open the store at a database URL; create or upgrade its schema.

        A file is `sqlite:///agent.db`; servers are `postgresql://user@host/name` and
        `mysql://user@host/name` (MariaDB, too), with the extra of that name installed.

        `create=False` refuses a database that holds no store yet, and leaves it as it is.
        `durability="full"`: what was appended is on disk. `"normal"` is faster and may lose the
        last commits in a power cut (not in a crash of the process). `busy_timeout` (seconds) is
        how long an append waits for other writers, or for a server that is gone to come back.

        Raises:
            ValueError: the URL, or another argument, makes no sense.
            NotAStore, SchemaTooNew, StorageError: the database cannot be used.
        """
        if not isinstance(tenant, str):
            raise ValueError(f"tenant is {tenant!r}: pass text, for example 'acme'")  # noqa: TRY004
        _check_storable("tenant", tenant)
        from eventstore.storage.opening import open_storage  # noqa: PLC0415 - loads SQLAlchemy

        return cls(open_storage(url, tenant, durability, busy_timeout, new=create), clock)

    def __repr__(self) -> str:
        from sqlalchemy import make_url  # noqa: PLC0415 - loaded by whoever has a store

        where = make_url(self.url).render_as_string(hide_password=True)
        return f"<{type(self).__name__} {where!r}{self.tenant and f' of {self.tenant!r}'}>"

    @property
    def url(self) -> str:
        """Where the log is: what opens it once more, so with the password.

        A file is named in full. `repr(store)` is for printing: it hides the password.
        """
        return self._storage.url

    @property
    def tenant(self) -> str:
        """Whose log it is."""
        return self._storage.tenant

    def conversation(
        self, conversation_id: str, *, connection: Connection | None = None
    ) -> Conversation:
        """A handle on a conversation; the first append creates it.

        With `connection`, a SQLAlchemy `Connection` to the store's database (of an ORM session,
        `session.connection()`), all is read and appended inside the host's own transaction:
        events are there when the host commits, and never where it rolls back. From the first
        append to that end other writers of the lane (on SQLite, all) wait; so does the thread
        itself, in vain, when it appends without the connection meanwhile.

        Raises:
            ValueError: the id is empty, or no text that a database can hold.
            TypeError, ValueError: the connection is none that can be used, said here or by the
                first use.
        """
        if not isinstance(conversation_id, str) or not conversation_id:
            raise ValueError(
                f"a conversation id is text and not empty, got {conversation_id!r}: "
                "pass for example 'support-42'"
            )
        _check_storable("conversation id", conversation_id)
        if connection is not None:
            from eventstore.hosted import within  # noqa: PLC0415 - loads SQLAlchemy

            return within(self, conversation_id, connection)
        return Conversation(self, conversation_id)

    def conversations(self) -> Iterator[tuple[str, int]]:
        """Every conversation's id with its version, oldest first."""
        return self.appender.opened().conversations()

    def read(self, after: Cursor | str | None = None, limit: int | None = None) -> Feed:
        """The events of all conversations after a cursor, in bounded memory.

        Raises:
            ValueError: the cursor is none, or of another store; the limit makes no sense.
        """
        if limit is not None and (type(limit) is not int or limit < 0):
            raise ValueError(f"limit is {limit!r}: pass None, 0 or more")
        return Feed(self.appender.opened(), after, limit)

    def follow(
        self,
        after: Cursor | str | None = None,
        *,
        stop: Stop | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> Follow[Cursor]:
        """The events of all conversations after a cursor, and then those to come, as they come.

        It ends when `stop` (a `threading.Event`) is set, when nothing came for `timeout` seconds,
        or when the store is closed. What this process appends comes at once, what others append
        within `poll` seconds. Nothing is ever passed over: a gap raises `StoreCorrupt`.

        `store.follow(store.end())` gives news alone.

        Raises:
            ValueError: the cursor is none, or of another store; a time makes no sense.
        """
        from eventstore.following import Follow, Following, StoreSource  # noqa: PLC0415

        return Follow(Following(self, StoreSource(self, after), stop, timeout, poll))

    def end(self) -> Cursor:
        """The cursor behind the last event: what is read after it is news."""
        storage = self.appender.opened()
        return cursor_at(storage.epoch, storage.heads())

    def read_call(self, conversation_id: str, call_id: str) -> Iterator[Recorded]:
        """The events of one call, in order."""
        events = self.appender.opened().conversation(conversation_id)
        return (recorded for recorded in events if recorded.call_id == call_id)

    def read_fingerprint(self, fingerprint: str) -> Iterator[Recorded]:
        """The events of every call with these arguments in force, in any conversation.

        Raises:
            ValueError: not a fingerprint (`x1:` and 32 hex digits).
        """
        return self.appender.opened().by_fingerprint(parse(fingerprint))

    def verify(self) -> Iterator[Damage]:
        """What is wrong with the stored log; nothing when all is well."""
        return self.appender.opened().verify()

    def close(self) -> None:
        """Give up the connections; appends and reads raise `StoreClosed` from now on."""
        self.appender.closed = True
        self._storage.close()
        self.watch.wake_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _forked(self) -> None:
        self.appender.forked()
        self._watch()


def _check_storable(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        if "\x00" not in text:
            return
    raise ValueError(
        f"{what} {text!r} has a NUL or half a surrogate pair: databases cannot hold it"
    )


_stores: weakref.WeakSet[EventStore] = weakref.WeakSet()


def _after_fork() -> None:
    forget_bells()
    for store in list(_stores):
        store._forked()  # noqa: SLF001 - one room


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
