"""`LogSession`: what all handles of one open log share; `Session`: what a conversation needs of it.

`EventStore` makes a `LogSession`. Conversations, subscriptions and imports take it. A conversation
inside the host's own transaction takes another `Session`, see `host_transaction`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from eventstore.append.commands import attempts
from eventstore.append.group_commit import RECHECK_SECONDS, GroupCommitter
from eventstore.append.known_states import MAX_CACHED_STATES
from eventstore.append.lane_committers import Committer, LaneCommitters
from eventstore.append.shared_timeouts import MIN_WAIT_SECONDS
from eventstore.clock import DatabaseClock, system_clock
from eventstore.leases.keeper import Hold, LeaseKeeper
from eventstore.notifications import local
from eventstore.notifications.watcher import IDLE_SECONDS, Watcher
from eventstore.subjects.tags import Tag

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from eventstore.append.command import Command
    from eventstore.append.door import Door
    from eventstore.domain.events import Recorded
    from eventstore.domain.tool import Tool
    from eventstore.policies.prices import Prices
    from eventstore.storage.interface import Storage
    from eventstore.subjects.secret import SubjectSecret
    from eventstore.subjects.vault import Vault

T = TypeVar("T")


class Run(Protocol):
    """Appends what a command decides, and returns its result."""

    def __call__(self, command: Command[T]) -> T:
        """Append."""
        ...


class Session(Protocol):
    """What one conversation is read and appended through."""

    @property
    def durable(self) -> bool:
        """Whether an append that returned is on disk."""
        ...

    @property
    def clock(self) -> Callable[[], int]:
        """The clock of the store, in microseconds since 1970 UTC."""
        ...

    @property
    def prices(self) -> Prices | None:
        """The price table for the responses that are recorded."""
        ...

    def run(self, command: Command[T]) -> T:
        """Append what a command decides, and return its result.

        Raises:
            EventStoreError: nothing was appended.
        """
        ...

    def events(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Return the events of a conversation after a version, in order."""
        ...

    def version(self, conversation_id: str) -> int:
        """Return the version of a conversation now."""
        ...

    def tool(self, conversation_id: str, call_id: str) -> Tool:
        """Return one call as it stands now.

        Raises:
            UnknownCall: the conversation has no such call.
        """
        ...

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return which of the event ids are stored in the conversation, with their versions."""
        ...

    def about(self, subjects: Sequence[str]) -> Session:
        """Return the session whose appends are about these subjects, too.

        Raises:
            ValueError: one is no subject, or the store was opened without a secret.
        """
        ...

    def tagged(self, command: Command[T], tags: Sequence[Tag]) -> Command[T]:
        """Return the command whose events have these tags, too, and are encrypted for them."""
        ...

    def tags_of(self, conversation_id: str) -> Sequence[Tag]:
        """Return the tags of a conversation: the persons that its events are about."""
        ...

    def covered(self, value: Any) -> Any:
        """Return a JSON value as the rules of the store let it be stored; see `redact`.

        Raises:
            RuleFailed: a rule could not look at a text.
        """
        ...

    def in_transaction(self, connection: Connection) -> Session:
        """Return a session inside the host's transaction on a connection.

        Raises:
            TypeError, ValueError: the connection cannot be used.
        """
        ...

    def outside_transaction(self, conversation_id: str, /) -> LogSession:
        """Return the session on the store's own connections, which may wait for other writers.

        Raises:
            EventStoreError: this session is inside a host's transaction.
        """
        ...


BindToConnection = Callable[["LogSession", "Connection"], Session]
"""Makes a session inside the transaction of a connection."""


PAGE_EVENTS = 500
"""Events that a subscription reads in one go."""


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and times (in seconds) that an open log works with.

    Attributes:
        max_cached_states: conversations whose state is kept in memory.
        recheck_interval: see `GroupCommitter`.
        min_shared_wait: see `SharedTimeouts`.
        idle_timeout: see `Watcher`.
        page_events: events that a subscription reads in one go.
    """

    max_cached_states: int = MAX_CACHED_STATES
    recheck_interval: float = RECHECK_SECONDS
    min_shared_wait: float = MIN_WAIT_SECONDS
    idle_timeout: float = IDLE_SECONDS
    page_events: int = PAGE_EVENTS


DEFAULT_SETTINGS = SessionSettings()


class LogSession:
    """The session of an open store: its group commit, its watcher and its clock."""

    durable = True

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], int] | None,
        bind_to_connection: BindToConnection,
        settings: SessionSettings = DEFAULT_SETTINGS,
        prices: Prices | None = None,
        secret: SubjectSecret | None = None,
        vault: Vault | None = None,
        door: Door | None = None,
    ) -> None:
        clock = self.clock = clock or _clock_of(storage)
        self.prices = prices
        self.settings = settings
        new = partial(
            GroupCommitter,
            clock=clock,
            max_cached_states=settings.max_cached_states,
            recheck_interval=settings.recheck_interval,
            min_shared_wait=settings.min_shared_wait,
            door=door,
        )
        self.committer: Committer = new(storage)
        if storage.commits_by_lane:
            self.committer = LaneCommitters(self.committer, new)
        self.run: Run = self.committer.run
        """Appends what a command decides, and returns its result."""
        self.threads = self._new_threads()
        self._bind_to_connection = bind_to_connection
        self.tags: tuple[Tag, ...] = ()
        """The persons that all that is appended is about."""
        self.secret = secret
        self.vault = vault
        self.whole: LogSession = self
        """The session of the store itself, which one with tags keeps alive."""
        _sessions.add(self)

    @property
    def watcher(self) -> Watcher:
        """What wakes the readers that wait."""
        return self.whole.threads.watcher

    @property
    def leases(self) -> LeaseKeeper:
        """What renews the leases."""
        return self.whole.threads.leases

    def digest_of(self, subject: str) -> bytes:
        """Return what stands for a subject in the index.

        Raises:
            ValueError: it is no subject, or the store was opened without a secret.
        """
        if self.secret is None:
            raise ValueError(
                "the store was opened without the secret of its index of subjects: pass "
                "EventStore.open(url, subjects='subjects.secret'), a file that "
                "SubjectSecret.create() makes"
            )
        return self.secret.digest(subject)

    def about(self, subjects: Sequence[str]) -> LogSession:
        """Return the session whose appends are about these subjects, too."""
        tags = dict.fromkeys((*self.tags, *(Tag(self.digest_of(each)) for each in subjects)))
        session = copy(self)
        session.tags = tuple(tags)
        session.run = _about(self.committer.run, session.tags, self.vault)
        return session

    def on(self, storage: Storage) -> LogSession:
        """Return a session like this one on another storage, which it closes."""
        if self.vault is not None:
            storage.unlock(self.vault)
        return LogSession(
            storage,
            self.clock,
            self._bind_to_connection,
            self.settings,
            self.prices,
            self.secret,
            self.vault,
            self.committer.door,
        )

    def tagged(self, command: Command[T], tags: Sequence[Tag]) -> Command[T]:
        """Return the command whose events have these tags, too, and are encrypted for them."""
        return command.about(tags, self.vault)

    def tags_of(self, conversation_id: str) -> Sequence[Tag]:
        """Return the tags of a conversation: the persons that its events are about."""
        return self.storage.subjects.tags_of(conversation_id)

    def covered(self, value: Any) -> Any:
        """Return a JSON value as the rules of the store let it be stored."""
        door = self.committer.door
        return value if door is None else door.value(value)

    @property
    def storage(self) -> Storage:
        """The storage.

        Raises:
            StoreClosed: the store was closed.
        """
        return self.committer.opened()

    def now(self) -> int:
        """Return the time of the store; a server is asked again where its last answer is old."""
        self.committer.keep_time()
        return self.clock()

    def check_open(self) -> None:
        """Raise `StoreClosed` if the store was closed."""
        self.committer.opened()

    def events(self, conversation_id: str, after: int = 0) -> Iterator[Recorded]:
        """Return the events of a conversation after a version, in order."""
        return self.storage.conversation(conversation_id, after)

    def version(self, conversation_id: str) -> int:
        """Return the version of a conversation now."""
        return self.committer.version(conversation_id)

    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return which of the event ids are stored in the conversation, with their versions."""
        return self.storage.known_ids(conversation_id, event_ids)

    def tool(self, conversation_id: str, call_id: str) -> Tool:
        """Return one call as it stands now; see `tool_now`."""
        _, tool = self.tool_now(conversation_id, call_id)
        return tool

    def tool_now(self, conversation_id: str, call_id: str) -> tuple[int, Tool]:
        """Return the version of a conversation, and one of its calls as it stands now.

        Raises:
            UnknownCall: the conversation has no such call.
        """
        return self.committer.tool_now(conversation_id, call_id)

    def open_tools(self, conversation_id: str, call_ids: Iterable[str]) -> dict[str, Tool]:
        """Return the calls that have no end yet; see `GroupCommitter.open_tools`."""
        return self.committer.open_tools(conversation_id, call_ids)

    def in_transaction(self, connection: Connection) -> Session:
        """Return a session inside the host's transaction on a connection."""
        return self._bind_to_connection(self, connection)

    def outside_transaction(self, _: str, /) -> LogSession:
        """Return this session: it is on the store's own connections."""
        return self

    def close(self) -> None:
        """Give up the connections; appends and reads raise `StoreClosed` from now on."""
        self.committer.closed = True
        self.committer.storage.close()
        self.watcher.wake_all()

    def reset_after_fork(self) -> None:
        """Start again: a forked child does not have the threads that held a lock or waited."""
        self.committer.reset_after_fork()
        self.threads = self._new_threads()

    def _new_threads(self) -> _Threads:
        committer = self.committer
        watcher = Watcher(
            committer.storage, committer.notifier, idle_timeout=self.settings.idle_timeout
        )
        return _Threads(watcher, LeaseKeeper(partial(_renew, committer)))


class _Threads(NamedTuple):
    """What has threads of its own, which a forked child does not have."""

    watcher: Watcher
    leases: LeaseKeeper


def _about(run: Run, tags: Sequence[Tag], vault: Vault | None) -> Run:
    """Return what runs commands as `run` does, and tags their events."""

    def run_about(command: Command[T]) -> T:
        return run(command.about(tags, vault))

    return run_about


def _clock_of(storage: Storage) -> Callable[[], int]:
    """Return the clock that all workers share: the server's, or the machine's."""
    ask = storage.server_time
    return system_clock if ask is None else DatabaseClock(ask)


def _renew(committer: Committer, hold: Hold) -> None:
    """Store the renewal of a lease. It takes no session, so that a hold keeps none alive."""
    committer.run(attempts.renew(hold.conversation_id, hold.call_id, hold.attempt, hold.lease))


_sessions: weakref.WeakSet[LogSession] = weakref.WeakSet()


def _reset_after_fork() -> None:
    local.reset_after_fork()
    for session in list(_sessions):
        session.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
