"""`EventStore`: the log of all conversations of one tenant."""

from __future__ import annotations

import os
import time
import weakref
from binascii import a2b_base64, b2a_base64
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import count
from struct import Struct
from threading import Lock, RLock, get_ident
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from eventstore.bell import bell_of, forget_bells
from eventstore.conversation import Conversation
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    StoreClosed,
    UnknownCall,
    VersionConflict,
)
from eventstore.events import Event, Recorded, ToolEvent
from eventstore.fingerprint import parse, render
from eventstore.state import ConversationState, Entry, Identified, Staged, apart, apart_event
from eventstore.storage import Append, Appended, Damage, Draft, Storage
from eventstore.tool import Tool, evolve

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Connection

    from eventstore.following import Follow, Stop
    from eventstore.watch import Watch

CACHED = 1024
"""Conversations whose state is kept in memory."""

PATIENCE = 1.0
"""Seconds after which a waiting append looks for itself whether somebody is at work."""

TOGETHER = 256
"""Appends at most that one commit takes along."""

Decide = Callable[[ConversationState], Sequence[Event]]
T = TypeVar("T")

_UNREAD = ConversationState(0)


def system_clock() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def _by_chance() -> count[int]:
    return count(int.from_bytes(os.urandom(8)) >> 3)


_low = _by_chance()
_pack = Struct(">QQ").pack


def event_ids(count: int, at: int) -> list[bytes]:
    """`count` UUIDv7 in ascending order, for the microsecond `at`.

    Their lower half counts up from a number that each process draws by chance.
    """
    high = at // 1000 << 16 | 0x7000 | at % 1000 << 2
    if count == 1:
        return [_pack(high, 0x8000_0000_0000_0000 | next(_low))]
    return [_pack(high, 0x8000_0000_0000_0000 | next(_low)) for _ in range(count)]


# base64 for URLs; the module that has it loads regular expressions
_URL_SAFE = str.maketrans("+/", "-_")
_FROM_URL_SAFE = str.maketrans("-_", "+/")


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """A place in the feed: a position for each lane, of one store. Opaque; `str()` to keep it."""

    epoch: str
    positions: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        text = b2a_base64(msgspec.json.encode(self), newline=False).decode()
        return text.rstrip("=").translate(_URL_SAFE)

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor that `str()` wrote.

        Raises:
            ValueError: the text is no cursor.
        """
        try:
            padded = text.translate(_FROM_URL_SAFE) + "=" * (-len(text) % 4)
            return msgspec.json.decode(a2b_base64(padded), type=cls)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{text!r} is no cursor: pass what str(feed.cursor) gave") from error


class Feed:
    """Events after a cursor, as they are read; `cursor` is the place behind the last one given."""

    def __init__(self, storage: Storage, after: Cursor | None, limit: int | None) -> None:
        if after is not None and after.epoch != storage.epoch:
            raise ValueError("the cursor is of another store: start without one")
        self._positions = dict(after.positions) if after else {}
        self._epoch = storage.epoch
        self._last: Recorded | None = None
        self._storage = storage
        self._limit = limit
        self._events = self._give_out(storage.feed(dict(self._positions), limit))

    def outlines(self) -> Iterator[Sequence[Recorded]]:
        """The same events from the beginning, many at a time, each without its content.

        The fastest way over a long log for who counts calls: see `eventstore.outline`. `cursor`
        does not move.
        """
        return self._storage.outlines(dict(self._positions), self._limit)

    @property
    def cursor(self) -> Cursor:
        """Where to read on: behind the last event that was given out."""
        positions = self._positions
        if self._last is not None:
            positions = positions | {self._last.lane: self._last.position}
        return Cursor(self._epoch, tuple(sorted(positions.items())))

    def __iter__(self) -> Iterator[Recorded]:
        return self._events

    def __next__(self) -> Recorded:
        return next(self._events)

    def _give_out(self, events: Iterator[Recorded]) -> Iterator[Recorded]:
        # One lane after the other: the place in it is told when it is asked for.
        lane = -1
        for recorded in events:
            if recorded.lane != lane:
                if self._last is not None:
                    self._positions[lane] = self._last.position
                lane = recorded.lane
            self._last = recorded
            yield recorded


class EventStore:
    """An append-only log of conversations; safe to share between threads, and over a fork.

    Open one with `EventStore.open(url)`. `storage` may be any `Storage`; `clock` gives
    microseconds since 1970 UTC.
    """

    def __init__(self, storage: Storage, clock: Callable[[], int] = system_clock) -> None:
        self._storage = storage
        self._clock = clock
        self._lock = RLock()
        self._states: dict[str, ConversationState] = {}  # the last used comes last
        self._gate = RLock()  # held for a moment: who leads, and who waits to be carried out
        self._led = False
        self._waiting: deque[Task] = deque()
        self._leader = 0  # the thread that appends
        self._closed = False
        self._bell = bell_of(storage.epoch)
        self._watch: Watch | None = None
        _stores.add(self)

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
        return self._open().conversations()

    def read(self, after: Cursor | str | None = None, limit: int | None = None) -> Feed:
        """The events of all conversations after a cursor, in bounded memory.

        Raises:
            ValueError: the cursor is none, or of another store; the limit is negative.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: pass None, 0 or more")
        if after is not None and not isinstance(after, Cursor):
            after = Cursor.parse(after)
        return Feed(self._open(), after, limit)

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

        if after is not None and not isinstance(after, Cursor):
            after = Cursor.parse(after)
        return Follow(Following(self, StoreSource(self, after), stop, timeout, poll))

    def end(self) -> Cursor:
        """The cursor behind the last event: what is read after it is news."""
        storage = self._open()
        return Cursor(storage.epoch, tuple(sorted(storage.heads().items())))

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
        if self._watch is not None:
            self._watch.wake_all()

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
        *,
        alone: bool = False,
    ) -> Task:
        """Append what `decide` makes of the conversation's state, under `ids` where given.

        `decide` is asked again when others have written meanwhile, so it must be pure.
        """
        task = Task(self, conversation_id, decide, expected_version, ids, alone or bool(ids))
        leads = False
        try:
            with self._gate:
                if self._led:
                    turn = task.turn = Lock()
                    turn.acquire()
                    self._waiting.append(task)
                else:
                    self._led = leads = True
            if not leads:
                self._wait(task)
            if not task.ended:
                with self._lock:
                    if not task.ended:
                        self._lead(task)
        finally:
            if leads or not task.ended or task.leads:
                self._pass_on(task)
        if task.error is not None:
            raise task.error
        return task

    def _wait(self, task: Task) -> None:
        """Until another has carried out the task, or it is its turn to lead."""
        self._forbid_nesting()
        if not task.turn.acquire(timeout=PATIENCE):
            # A leader may have been interrupted just as it should have passed on. If not, there
            # are two for a while, and one waits for the other.
            task.leads = True

    def _forbid_nesting(self) -> None:
        if self._leader == get_ident():
            raise EventStoreError(
                "this thread is in the middle of an append already (this one comes from a "
                "signal handler, a finalizer or the clock): append when that is done"
            )

    def _lead(self, own: Task, beside: Sequence[Task] = ()) -> None:
        """Carry out `own`, and together with it those `beside` it and all that were waiting."""
        self._forbid_nesting()
        storage = self._open()
        tasks = [own]
        self._leader = get_ident()
        try:
            if beside or self._waiting:
                tasks += [*beside, *self._others(own)]
                self._carry_out_together(tasks, storage)
            else:
                self._carry_out(own, storage)
        finally:
            self._leader = 0
            if self._bell.listeners:
                self._bell.ring({task.conversation_id for task in tasks})

    def _append_together(self, tasks: Sequence[Task]) -> None:
        """Carry out tasks that nobody waits for in a thread: the outcome of each is in it."""
        try:
            with self._lock:
                self._lead(tasks[0], tasks[1:])
        except BaseException as error:  # noqa: BLE001 - for those who asked
            for task in tasks:
                if not task.ended:
                    task.error, task.ended = error, True

    def _others(self, own: Task) -> list[Task]:
        with self._gate:
            waiting = self._waiting
            taken = [waiting.popleft() for _ in range(min(len(waiting), TOGETHER))]
        return [task for task in taken if task is not own and not task.ended]

    def _pass_on(self, task: Task) -> None:
        """Let another lead; and take the task out of the queue, should it be there still."""
        with self._gate:
            waiting = self._waiting
            if not task.ended:
                with suppress(ValueError):
                    waiting.remove(task)
            if task.turn is None or task.leads:
                heir = waiting[0] if waiting else None
                self._led = heir is not None
                if heir is not None:
                    heir.leads = True
                    heir.wake()

    def _carry_out_together(self, tasks: list[Task], storage: Storage) -> None:
        """All in one commit, each with its own outcome; one by one where that fails."""
        states: dict[str, ConversationState] = {}
        joined = [task for task in tasks if not task.alone]
        try:
            for task in joined:
                name = task.conversation_id
                if name not in states:
                    states[name] = self._take(name)
                task.state = states[name]
            done = storage.append_all(
                [
                    Append(t.conversation_id, t.state.version, t.state.as_of, (), t.join)
                    for t in joined
                ]
            )
        except Exception:  # noqa: BLE001 - whose fault it was comes out below
            states.clear()
        else:
            for task, outcome in zip(joined, done, strict=True):
                task.end(outcome)
        for name, state in states.items():
            state.settling.clear()
            self._keep(name, state)
        for task in tasks:
            if not task.ended:
                try:
                    self._carry_out(task, storage)
                except Exception as error:  # noqa: BLE001 - for the one who asked for it
                    task.end(error)
                task.wake()

    def _carry_out(self, task: Task, storage: Storage) -> None:
        name = task.conversation_id
        state = task.state = self._take(name)
        if task.staged is not None and self._was_stored(task, storage):
            self._keep(name, state)
            return
        if task.ids:
            task.stored = storage.known_ids(name, task.ids).keys()
        while True:
            try:
                drafts = task.stage()
            except EventStoreError:
                # It may be legal after what others have written.
                if task.take_in(storage.conversation(name, state.version)):
                    continue
                self._keep(name, state)
                raise
            if drafts:
                done = storage.append(Append(name, state.version, state.as_of, drafts, task.rebase))
                if task.staged is not None:  # else others had stored all of it
                    state.commit(task.staged, done.version, done.position)
                task.done = done
                break
            if not task.take_in(storage.conversation(name, state.version)):
                break
        task.ended = True
        self._keep(name, state)

    def _was_stored(self, task: Task, storage: Storage) -> bool:
        """Whether an attempt to store it with others, broken off, had been successful."""
        name, drafts = task.conversation_id, task.staged.drafts if task.staged else []
        known = storage.known_ids(name, [draft.event_id for draft in drafts])
        if not drafts or len(known) < len(drafts):
            task.staged = None
            return False
        version = max(known.values())
        last = next(storage.conversation(name, version - 1))
        task.end(Appended(last.lane, version, last.position))
        return True

    def _do(
        self,
        conversation_id: str,
        decide: Decide,
        then: Callable[[Task], T],
        expected_version: int | None = None,
        ids: Sequence[bytes] = (),
    ) -> T:
        """Append, and give what `then` makes of it."""
        return then(self._append(conversation_id, decide, expected_version, ids))

    def _tool(self, conversation_id: str, decide: Decide) -> Tool:
        """Append one call's event, and give the call as it then stands."""
        return self._the_tool(conversation_id, self._append(conversation_id, decide))

    def _the_tool(self, conversation_id: str, done: Task) -> Tool:
        if done.staged is not None:
            for tool, _ in done.staged.tools.values():
                return apart(tool)
        return self._named(conversation_id, done)[0]

    def _tools(self, conversation_id: str, decide: Decide) -> list[Tool]:
        """Append, and give each call that the events name as it then stands."""
        return self._named(conversation_id, self._append(conversation_id, decide, alone=True))

    def _named(self, conversation_id: str, done: Task) -> list[Tool]:
        names = dict.fromkeys(e.call_id for e in done.events if isinstance(e, ToolEvent))
        tools = {name: tool for name, (tool, _) in done.tools.items()}
        # Those that were so already are as they were.
        tools.update((n, e[0]) for n in names if n not in tools and (e := done.state.open.get(n)))
        if missing := set(names) - set(tools):
            tools |= self._settled(conversation_id, missing)
        return [apart(tools[name]) for name in names]

    def _version(self, conversation_id: str) -> int:
        storage = self._open()
        with self._lock:
            state = self._take(conversation_id)
            state.extend(storage.conversation(conversation_id, state.version))
            self._keep(conversation_id, state)
            return state.version

    def _tool_now(self, conversation_id: str, call_id: str) -> tuple[int, Tool]:
        """The version of a conversation, and one of its calls as it stands in the log now."""
        storage = self._open()
        with self._lock:
            state = self._take(conversation_id)
            state.extend(storage.conversation(conversation_id, state.version))
            self._keep(conversation_id, state)
            version, entry = state.version, state.open.get(call_id)
            if entry is not None:
                return version, apart(entry[0])
            if call_id not in state.known:
                raise UnknownCall(call_id, conversation_id)
        return version, self._settled(conversation_id, {call_id})[call_id]

    def _watching(self) -> Watch:
        """Who waits for events."""
        from eventstore.watch import Watch  # noqa: PLC0415 - of who waits

        with self._gate:
            if self._watch is None:
                self._watch = Watch(self._storage, self._bell)
            return self._watch

    def _take(self, conversation_id: str) -> ConversationState:
        """The state, out of the cache while it changes.

        So who is interrupted, by Ctrl-C too, leaves nothing behind that is only half true.
        """
        state = self._states.pop(conversation_id, None)
        if state is None:
            storage = self._storage
            # The heads are read first: what is appended in between counts as news.
            state = ConversationState(min(storage.heads().values(), default=0))
            state.extend(storage.conversation(conversation_id))
        return state

    def _keep(self, conversation_id: str, state: ConversationState) -> None:
        self._states[conversation_id] = state
        if len(self._states) > CACHED:
            del self._states[next(iter(self._states))]

    def _remembered(self, conversation_id: str) -> ConversationState:
        """A copy of the state in the cache; without one, or while another appends, the first."""
        state = None
        # Not to wait: who appends may himself wait for who asks, with a lane locked.
        if self._lock.acquire(blocking=False):
            try:
                state = self._states.get(conversation_id)
                state = state and state.copy()
            finally:
                self._lock.release()
        return state or ConversationState(0)

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
        self._states = {}
        self._gate = RLock()
        self._led = False
        self._waiting = deque()
        self._leader = 0
        self._bell = bell_of(self._storage.epoch)
        self._watch = None


class Task(msgspec.Struct, eq=False):
    """One append: decided on a state, and again on a newer one; then what it wrote, and where."""

    store: EventStore
    conversation_id: str
    decide: Decide
    expected_version: int | None
    ids: Sequence[bytes]
    alone: bool
    """It looks things up in the log, so that no other may share its transaction."""
    state: ConversationState = _UNREAD
    stored: AbstractSet[bytes] = frozenset()
    events: Sequence[Event] = ()
    staged: Staged | None = None
    done: Appended | None = None
    ended: bool = False
    error: BaseException | None = None
    turn: Any = None
    """The lock that whoever waits with it waits for."""
    leads: bool = False

    def wake(self) -> None:
        """Let its thread go on."""
        if self.turn is not None:
            with suppress(RuntimeError):  # it is up already
                self.turn.release()

    def end(self, outcome: Appended | Exception) -> None:
        """Note what became of it."""
        if isinstance(outcome, Appended):
            self.done = outcome
            self.state.as_of = max(self.state.as_of, outcome.position)
        else:
            self.error = outcome
        self.ended = True
        self.wake()

    @property
    def tools(self) -> Mapping[str, Entry]:
        """The calls as they stand after it."""
        return self.staged.tools if self.staged else {}

    @property
    def recorded(self) -> list[Recorded]:
        """What was written, with its place in the log."""
        if self.done is None or self.staged is None:
            return []
        return _recorded(self.conversation_id, self.staged, self.done)

    def stage(self) -> Sequence[Draft]:
        """Decide on the state as it is."""
        state, ids = self.state, self.ids
        if ids and self.stored >= set(ids):
            self.events, self.staged = (), None
            return ()
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
        staged = self.staged = state.stage(events, ids, at, self._settled)
        return staged.drafts

    def rebase(self, tail: Sequence[Recorded]) -> Sequence[Draft]:
        """Decide again, behind what others have appended."""
        self.take_in(tail)
        return self.stage()

    def join(self, tail: Sequence[Recorded]) -> Sequence[Draft]:
        """Decide behind others of the same transaction; the state is as if it were committed."""
        drafts = self.rebase(tail)
        if self.staged is not None:
            self.state.foresee(self.staged)
        return drafts

    def take_in(self, tail: Iterable[Recorded]) -> bool:
        """Learn what others have appended; whether that was anything."""
        before = self.state.version
        for recorded in tail:
            self.state.extend((recorded,))
            if self.ids:
                self.stored |= {bytes.fromhex(recorded.event_id)}
        return self.state.version != before

    def _settled(self, names: set[str]) -> dict[str, Tool]:
        return self.store._settled(self.conversation_id, names)  # noqa: SLF001


def _recorded(conversation_id: str, staged: Staged, done: Appended) -> list[Recorded]:
    recorded: list[Recorded] = []
    drafts = staged.drafts
    position, version = done.position - len(drafts), done.version - len(drafts)
    for event, draft in zip(staged.events, drafts, strict=True):
        position += 1
        version += 1
        fingerprint = None
        if draft.fingerprint is not None:
            fingerprint = render(draft.fingerprint)
            event = apart_event(event, draft, staged.tools)  # noqa: PLW2901
        recorded.append(Recorded(
            done.lane, position, conversation_id, version, draft.event_id.hex(),
            draft.recorded_at, getattr(event, "call_id", None), fingerprint, event,
        ))  # fmt: skip
    return recorded


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
    global _low  # noqa: PLW0603 - the parent goes on with its own
    _low = _by_chance()
    forget_bells()
    for store in list(_stores):
        store._forked()  # noqa: SLF001 - one room


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
