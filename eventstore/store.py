"""`EventStore`: the log of all conversations of one tenant."""

from __future__ import annotations

import os
import random
import time
import weakref
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

import msgspec

from eventstore.conversation import Conversation
from eventstore.errors import EventStoreError, IllegalTransition, StoreClosed, VersionConflict
from eventstore.events import Event, Recorded, ToolEvent
from eventstore.fingerprint import parse, render
from eventstore.state import ConversationState, Identified, Staged
from eventstore.storage import Append, Appended, Damage, Draft, Storage
from eventstore.tool import Tool, evolve

if TYPE_CHECKING:
    from types import TracebackType

CACHED = 1024
"""Conversations whose state is kept in memory."""

Decide = Callable[[ConversationState], Sequence[Event]]

_NOTHING = Staged([], [], {})


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


_chance = random.Random()  # noqa: S311 - ids need chance, not secrecy; seeded by the system


def event_ids(count: int, at: int) -> list[bytes]:
    """`count` UUIDv7 in ascending order, for the microsecond `at`."""
    chance = _chance.getrandbits(74)
    # 12 + 62 bits are free; the lowest are counted up within one append
    first = (
        (at // 1000 & 0xFFFF_FFFF_FFFF) << 80
        | (0x7000 | chance >> 62) << 64
        | 0x8000_0000_0000_0000
        | chance & 0x3FFF_FFFF_FFFF_0000
    )
    return [(first + n).to_bytes(16) for n in range(count)]


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """A place in the feed: a position for each lane, of one store. Opaque; `str()` to keep it."""

    epoch: str
    positions: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor that `str()` wrote.

        Raises:
            ValueError: the text is no cursor.
        """
        try:
            return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{text!r} is no cursor: pass what str(feed.cursor) gave") from error


class Feed:
    """Events after a cursor, as they are read; `cursor` is the place behind the last one given."""

    def __init__(self, storage: Storage, after: Cursor | None, limit: int | None) -> None:
        if after is not None and after.epoch != storage.epoch:
            raise ValueError("the cursor is of another store: start without one")
        self._positions = dict(after.positions) if after else {}
        self._epoch = storage.epoch
        self._events = storage.feed(dict(self._positions), limit)

    @property
    def cursor(self) -> Cursor:
        """Where to read on: behind the last event that was given out."""
        return Cursor(self._epoch, tuple(sorted(self._positions.items())))

    def __iter__(self) -> Iterator[Recorded]:
        return self

    def __next__(self) -> Recorded:
        recorded = next(self._events)
        self._positions[recorded.lane] = recorded.position
        return recorded


class EventStore:
    """An append-only log of conversations; safe to share between threads, and over a fork.

    Open one with `EventStore.open(url)`. `storage` may be any `Storage`; `clock` gives
    microseconds since 1970 UTC.
    """

    def __init__(self, storage: Storage, clock: Callable[[], int] = system_clock) -> None:
        self._storage = storage
        self._clock = clock
        self._lock = RLock()
        self._states: OrderedDict[str, ConversationState] = OrderedDict()
        self._closed = False
        _stores.add(self)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        tenant: str = "",
        durability: str = "full",
        busy_timeout: float = 30.0,
        clock: Callable[[], int] = system_clock,
    ) -> Self:
        """Open the store at a database URL (`sqlite:///agent.db`); create or upgrade its schema.

        `durability="full"`: what was appended is on disk. `"normal"` is faster and may lose the
        last commits in a power cut (not in a crash of the process). `busy_timeout` (seconds) is
        how long an append waits for other writers.

        Raises:
            ValueError: the URL, or another argument, makes no sense.
            NotAStore, SchemaTooNew, StorageError: the database cannot be used.
        """
        from eventstore.storage.sqlite import open_storage  # noqa: PLC0415 - loads SQLAlchemy

        return cls(open_storage(url, tenant, durability, busy_timeout), clock)

    def conversation(self, conversation_id: str) -> Conversation:
        """A handle on a conversation; the first append creates it.

        Raises:
            ValueError: the id is empty, or no text that a database can hold.
        """
        if not isinstance(conversation_id, str) or not conversation_id:
            raise ValueError(
                f"a conversation id is text and not empty, got {conversation_id!r}: "
                "pass for example 'support-42'"
            )
        if "\x00" in conversation_id or not _encodable(conversation_id):
            raise ValueError(
                f"conversation id {conversation_id!r} has a NUL or half a surrogate pair: "
                "databases cannot hold it"
            )
        return Conversation(self, conversation_id)

    def conversations(self) -> Iterator[tuple[str, int]]:
        """Every conversation's id with its version, oldest first."""
        return self._open().conversations()

    def read(self, after: Cursor | str | None = None, limit: int | None = None) -> Feed:
        """The events of all conversations after a cursor, in bounded memory.

        Raises:
            ValueError: the cursor is none, or of another store; the limit is negative.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: pass None, 0 or more")
        if isinstance(after, str):
            after = Cursor.parse(after)
        return Feed(self._open(), after, limit)

    def read_call(self, conversation_id: str, call_id: str) -> Iterator[Recorded]:
        """The events of one call, in order."""
        events = self._open().conversation(conversation_id)
        return (recorded for recorded in events if recorded.call_id == call_id)

    def read_fingerprint(self, fingerprint: str) -> Iterator[Recorded]:
        """The events of every call with these arguments in force, in any conversation.

        Raises:
            ValueError: not a fingerprint (`x1:` and 32 hex digits).
        """
        return self._open().by_fingerprint(parse(fingerprint))

    def verify(self) -> Iterator[Damage]:
        """What is wrong with the stored log; nothing when all is well."""
        return self._open().verify()

    def close(self) -> None:
        """Give up the connections; appends and reads raise `StoreClosed` from now on."""
        self._closed = True
        self._storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> Storage:
        if self._closed:
            raise StoreClosed("the store is closed: EventStore.open() it again")
        return self._storage

    # for Conversation

    def _events(self, conversation_id: str, after: int) -> Iterator[Recorded]:
        return self._open().conversation(conversation_id, after)

    def _append(
        self,
        conversation_id: str,
        decide: Decide,
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
    ) -> Task:
        """Append what `decide` makes of the conversation's state, under `ids` where given.

        `decide` is asked again when others have written meanwhile, so it must be pure.
        """
        storage = self._open()
        with self._lock:
            state = self._state(storage, conversation_id)
            task = Task(self, conversation_id, state, decide, expected_version, ids)
            if ids:
                task.stored = storage.known_ids(conversation_id, ids).keys()
            try:
                while True:
                    try:
                        staged = task.stage()
                    except EventStoreError:
                        # It may be legal after what others have written.
                        if not self._refresh(storage, conversation_id, state):
                            raise
                        continue
                    if staged.drafts:
                        break
                    if not self._refresh(storage, conversation_id, state):
                        return task
                done = task.done = storage.append(
                    Append(
                        conversation_id, state.version, state.as_of, staged.drafts, task.rebase
                    )
                )
                state.commit(task.staged, done.version, done.position)
            except BaseException:
                # Also Ctrl-C: what was read or written may be half taken in.
                self._states.pop(conversation_id, None)
                raise
            return task

    def _tools(self, conversation_id: str, decide: Decide) -> list[Tool]:
        """Append, and give each call that the events name as it then stands."""
        done = self._append(conversation_id, decide)
        written = done.staged.tools
        if len(done.staged.events) == len(done.events):
            return [tool for tool, _ in written.values()]
        # Some were so already, and are as they were.
        names = dict.fromkeys(e.call_id for e in done.events if isinstance(e, ToolEvent))
        tools = {name: tool for name, (tool, _) in written.items()}
        tools.update((n, e[0]) for n in names if n not in tools and (e := done.state.open.get(n)))
        if missing := set(names) - set(tools):
            tools |= self._settled(conversation_id, missing)
        return [tools[name] for name in names]

    def _version(self, conversation_id: str) -> int:
        storage = self._open()
        with self._lock:
            state = self._state(storage, conversation_id)
            self._refresh(storage, conversation_id, state)
            return state.version

    def _state(self, storage: Storage, conversation_id: str) -> ConversationState:
        state = self._states.get(conversation_id)
        if state is None:
            # The heads are read first: what is appended in between counts as news.
            state = ConversationState(min(storage.heads().values()))
            state.extend(storage.conversation(conversation_id))
            self._states[conversation_id] = state
            if len(self._states) > CACHED:
                self._states.popitem(last=False)
        else:
            self._states.move_to_end(conversation_id)
        return state

    def _refresh(self, storage: Storage, conversation_id: str, state: ConversationState) -> bool:
        """Read what others have appended; whether there was anything."""
        before = state.version
        state.extend(storage.conversation(conversation_id, before))
        return state.version != before

    def _settled(self, conversation_id: str, names: set[str]) -> dict[str, Tool]:
        """The calls named, from the log: settled ones are not kept in memory."""
        tools: dict[str, Tool] = {}
        for recorded in self._events(conversation_id, 0):
            event: Any = recorded.event
            if recorded.call_id in names and isinstance(event, ToolEvent):
                with suppress(IllegalTransition):
                    tools[event.call_id] = evolve(
                        tools.get(event.call_id), event, recorded.recorded_at, recorded.fingerprint
                    )
        return tools

    def _forked(self) -> None:
        self._lock = RLock()
        self._states = OrderedDict()


class Task(msgspec.Struct):
    """One append: decided on a state, and again on a newer one; then what it wrote, and where."""

    store: EventStore
    conversation_id: str
    state: ConversationState
    decide: Decide
    expected_version: int | None
    ids: Sequence[bytes]
    stored: Set[bytes] = frozenset()
    events: Sequence[Event] = ()
    staged: Staged = _NOTHING
    done: Appended | None = None

    @property
    def recorded(self) -> list[Recorded]:
        """What was written, with its place in the log."""
        return _recorded(self.conversation_id, self.staged, self.done) if self.done else []

    def stage(self) -> Staged:
        state, ids = self.state, self.ids
        if ids and self.stored.issuperset(ids):
            self.events, self.staged = (), _NOTHING
            return self.staged
        if self.expected_version is not None and self.expected_version != state.version:
            raise VersionConflict(self.expected_version, state.version)
        events = self.events = self.decide(state)
        at = self.store._clock()  # noqa: SLF001 - one room
        if isinstance(events, Identified):
            ids = events.ids
        elif not ids:
            ids = event_ids(len(events), at)
        elif self.stored:
            pairs = [(e, i) for e, i in zip(events, ids, strict=True) if i not in self.stored]
            events, ids = [e for e, _ in pairs], [i for _, i in pairs]
        self.staged = state.stage(events, ids, at, self._settled)
        return self.staged

    def rebase(self, tail: Sequence[Recorded]) -> Sequence[Draft]:
        self.state.extend(tail)
        if self.ids:
            self.stored |= {bytes.fromhex(recorded.event_id) for recorded in tail}
        return self.stage().drafts

    def _settled(self, names: set[str]) -> dict[str, Tool]:
        return self.store._settled(self.conversation_id, names)  # noqa: SLF001


def _recorded(conversation_id: str, staged: Staged, done: Appended) -> list[Recorded]:
    drafts = staged.drafts
    first = len(drafts) - 1
    return [
        Recorded(
            done.lane, done.position - first + n, conversation_id, done.version - first + n,
            draft.event_id.hex(), draft.recorded_at, getattr(event, "call_id", None),
            render(draft.fingerprint) if draft.fingerprint is not None else None, event,
        )
        for n, (event, draft) in enumerate(zip(staged.events, drafts, strict=True))
    ]  # fmt: skip


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_stores: weakref.WeakSet[EventStore] = weakref.WeakSet()


def _after_fork() -> None:
    _chance.seed()
    for store in list(_stores):
        store._forked()  # noqa: SLF001 - one room


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
