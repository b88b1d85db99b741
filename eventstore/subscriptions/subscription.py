"""Following the log: what it holds after a place, and then what comes.

Who follows proves that it misses nothing. In a lane, and in a conversation, each event's place
is the last one's plus one; what is not so is refused. How one waits for what comes: see `watch`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import TIMEOUT_MAX, Lock
from threading import Event as Signal
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import msgspec

from eventstore.errors import StoreClosed, StoreCorrupt
from eventstore.events import Recorded
from eventstore.feed import Cursor, cursor_at, positions_of
from eventstore.numbers import check_version, is_number
from eventstore.watch import Wanted

if TYPE_CHECKING:
    from eventstore.store import EventStore
    from eventstore.tool import Tool

PAGE = 500
"""Events that are read at once."""

C = TypeVar("C")


class Stop(Protocol):
    """What tells a follower to end: a `threading.Event`, an `asyncio.Event`, or alike."""

    def is_set(self) -> bool:
        """Whether it is to end."""


class Lag(msgspec.Struct, frozen=True):
    """How far a follower is behind: in events, and by the age of the oldest of them.

    Over a store, other tenants' events count among them.
    """

    events: int
    seconds: float


class Page(msgspec.Struct, gc=False):
    """Events read at once, from a place to another; `given` of them were given out."""

    events: Sequence[Recorded]
    start: Any
    end: Any
    given: int = 0


class Source(Protocol[C]):
    """Where a follower reads; its places are cursors, spelled as it likes."""

    start: Any

    @property
    def name(self) -> str | None:
        """The conversation; None where it is all of them."""

    def read(self, place: Any, limit: int) -> Page:
        """The events after a place that are there now."""

    def cursor(self, place: Any, given: Sequence[Recorded]) -> C:
        """The cursor behind events that were read after a place."""

    def ahead(self, cursor: C) -> tuple[int, int | None]:
        """How many events are behind a cursor, and when the oldest was recorded."""


class StoreSource:
    """The feed of a store, proven whole."""

    name = None

    def __init__(self, store: EventStore, after: Cursor | str | None) -> None:
        self._store = store
        self._epoch = store.appender.opened().epoch
        self._round: dict[int, int] = {}  # how far all lanes are read before any goes on
        self.start = positions_of(after, self._epoch)

    def read(self, place: dict[int, int], limit: int) -> Page:
        """The next events; the place behind them is past those of other tenants.

        In rounds: first all lanes up to where they stood as the round began. So one that grows
        as fast as it is read does not keep the others waiting.
        """
        page = self._up_to(self._round, place, limit)
        if page.events:
            return page
        heads = self._store.appender.opened().heads()
        for lane, position in place.items():
            if heads.get(lane, 0) < position:
                raise StoreCorrupt(
                    f"lane {lane} ends at position {heads.get(lane, 0)}, and was read up to "
                    f"{position} before: the database was replaced by an older copy"
                )
        self._round = heads
        return self._up_to(heads, page.end, limit)

    def _up_to(self, heads: dict[int, int], place: dict[int, int], limit: int) -> Page:
        found: Sequence[Recorded] = ()
        if any(end > place.get(lane, 0) for lane, end in heads.items()):
            found = list(self._store.appender.opened().feed(place, limit, heads))
        ends = {lane: max(end, place.get(lane, 0)) for lane, end in heads.items()}
        if len(found) < limit:
            return Page(found, place, place | ends)
        last = found[-1]
        passed = {lane: end for lane, end in ends.items() if lane < last.lane}
        return Page(found, place, place | passed | {last.lane: last.position})

    def cursor(self, place: dict[int, int], given: Sequence[Recorded]) -> Cursor:
        """A position for each lane."""
        positions = place | {recorded.lane: recorded.position for recorded in given}
        return cursor_at(self._epoch, positions)

    def ahead(self, cursor: Cursor) -> tuple[int, int | None]:
        """By the lanes' counters, and the first event of each that is behind them."""
        storage = self._store.appender.opened()
        place = dict(cursor.positions)
        behind = {n: end for n, end in storage.heads().items() if end > place.get(n, 0)}
        firsts = [
            recorded.recorded_at
            for lane, end in behind.items()
            for recorded in storage.feed(place, 1, {lane: end})
        ]
        events = sum(end - place.get(lane, 0) for lane, end in behind.items())
        return events, min(firsts, default=None)


class ConversationSource:
    """One conversation's events, proven to be without gaps."""

    def __init__(self, store: EventStore, conversation_id: str, after: int) -> None:
        check_version("after", after)
        store.appender.opened()
        self._log = store.appender
        self.name = conversation_id
        self.start = after

    def read(self, place: int, limit: int) -> Page:
        """The next events."""
        found = []
        end = place
        for recorded in self._log.events(self.name, place):
            if recorded.version != end + 1:
                raise StoreCorrupt(
                    f"conversation {self.name!r} has no version {end + 1}, though it goes on "
                    "behind it: run `toolledger verify`, and restore the database from a copy"
                )
            found.append(recorded)
            end += 1
            if len(found) == limit:
                break
        return Page(found, place, end)

    def cursor(self, place: int, given: Sequence[Recorded]) -> int:
        """A version."""
        return given[-1].version if given else place

    def ahead(self, cursor: int) -> tuple[int, int | None]:
        """By the versions."""
        first = next(self._log.events(self.name, cursor), None)
        if first is None:
            return 0, None
        return self._log.version(self.name) - cursor, first.recorded_at


class Following(Generic[C]):
    """What following is, but for how one waits. Of many who share it, each event goes to one."""

    def __init__(
        self,
        store: EventStore,
        source: Source[C],
        stop: Stop | None,
        timeout: float | None,
        poll: float,
    ) -> None:
        check_waiting(timeout, poll)
        if stop is not None and not callable(getattr(stop, "is_set", None)):
            raise TypeError(f"stop is {stop!r}: pass for example threading.Event()")
        self.store = store
        self.source = source
        self.timeout = timeout
        self.poll = poll
        self.closed = False
        self._stop = stop
        self._page = Page((), source.start, source.start)
        self._lock = Lock()

    @property
    def name(self) -> str | None:
        """The conversation; None where it is all of them."""
        return self.source.name

    @property
    def seen(self) -> Any:
        """Behind the last event that was read."""
        return self._page.end

    @property
    def stopped(self) -> bool:
        """Whether it is to end."""
        return self._stop is not None and self._stop.is_set()

    @property
    def over(self) -> bool:
        """Whether no more is to come."""
        return self.closed or self.stopped

    @property
    def cursor(self) -> C:
        """Behind the last event given out."""
        page = self._page
        if page.given == len(page.events):
            return self.source.cursor(page.end, ())
        return self.source.cursor(page.start, page.events[: page.given])

    def next(self) -> Recorded | None:
        """The next event of those that were read."""
        if self.stopped:
            return None
        with self._lock:
            page = self._page
            if page.given == len(page.events):
                return None
            page.given += 1
            return page.events[page.given - 1]

    def look(self) -> bool:
        """Read on, where that is due; whether there is anything, or the end."""
        page = self._page
        if self.stopped or page.given < len(page.events):
            return True
        try:
            found = self.source.read(page.end, PAGE)
        except StoreClosed:
            self.closed = True
            return True
        with self._lock:
            if self._page is page:  # else another was sooner
                self._page = found
        return bool(self._page.events)

    def lag(self) -> Lag:
        """How far it is behind."""
        events, oldest = self.source.ahead(self.cursor)
        now = self.store.appender.clock()
        return Lag(events, 0.0 if oldest is None else max(now - oldest, 0) / 1_000_000)


class Follow(Generic[C]):
    """Events after a cursor, and then those to come, as they come.

    The iteration ends when the store is closed, when `stop` is set, or when nothing came for
    `timeout` seconds; it may be taken up again. It raises `StoreCorrupt` where an event is
    missing. Threads may share one: each event goes to one of them.
    """

    def __init__(self, following: Following[C]) -> None:
        self._following = following

    @property
    def cursor(self) -> C:
        """Where to go on: behind the last event that was given out."""
        return self._following.cursor

    def lag(self) -> Lag:
        """How many events have not been given out yet, and how old the oldest of them is."""
        return self._following.lag()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Recorded:
        following = self._following
        while (found := following.next()) is None:
            if not wait(following) or following.over:
                raise StopIteration
        return found


def check_waiting(timeout: float | None, poll: float) -> None:
    """Refuse times that make no sense.

    Raises:
        ValueError: one is negative, or no number, or `poll` is 0.
    """
    if timeout is not None and not (is_number(timeout) and timeout >= 0):
        raise ValueError(f"timeout is {timeout!r}: pass None, or seconds, 0 or more")
    if not (is_number(poll) and poll > 0):
        raise ValueError(f"poll is {poll!r}: pass seconds, more than 0")


class Sought(Wanted, Protocol):
    """What somebody waits for, and how he looks for it."""

    store: EventStore
    timeout: float | None

    def look(self) -> bool:
        """Whether it is there, or never will be."""


class Decision:
    """The decision on a call, but for how one waits for it."""

    stopped = False

    def __init__(
        self,
        store: EventStore,
        conversation_id: str,
        call_id: str,
        timeout: float | None,
        poll: float,
    ) -> None:
        check_waiting(timeout, poll)
        self.store = store
        self.name = conversation_id
        self.timeout = timeout
        self.poll = poll
        self.seen = 0
        self._call_id = call_id
        self._tool: Tool | None = None

    def look(self) -> bool:
        """Whether the call does not wait any more."""
        self.seen, self._tool = self.store.appender.tool_now(self.name, self._call_id)
        return not self._tool.is_pending

    @property
    def made(self) -> Tool:
        """The call, with the decision.

        Raises:
            TimeoutError: it still waits.
        """
        if self._tool is None or self._tool.is_pending:
            raise TimeoutError(
                f"nobody has approved or rejected call {self._call_id!r} within "
                f"{self.timeout:g} s: the call still waits; wait again, or reject() it"
            )
        return self._tool


def wait(sought: Sought) -> bool:
    """Until what is sought is there, or never will be; False when its timeout came first."""
    watch = sought.store.watch
    patience = Patience(sought.timeout)
    rung = Signal()
    with watch.joined(sought, rung.set) as waiter:
        while not sought.look():
            left = patience.left()
            if left == 0:
                return False
            watch.expect(waiter)
            rung.wait(left)
            rung.clear()
    return True


class Patience:
    """How long to wait."""

    def __init__(self, timeout: float | None) -> None:
        self._until = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """The seconds left; None for ever."""
        if self._until is None:
            return None
        return min(max(self._until - time.monotonic(), 0), TIMEOUT_MAX)
