"""Subscriptions: what the log holds after a cursor, and then what is appended.

1. A subscription reads a page of events after its position, and hands them out one by one.
2. In a lane, and in a conversation, each event's position is the last one's plus one. If one is
   missing, `StoreCorrupt` is raised: a subscription proves that it missed nothing.
   Where its position is not in the log any more, `CursorLost` is raised.
3. When nothing is left to hand out, it waits; see `notifications.watcher`.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Self

import msgspec

from eventstore.domain.events import Recorded
from eventstore.errors import StoreClosed
from eventstore.subscriptions.sources import C, EventSource, Page
from eventstore.subscriptions.waiting import StopSignal, check_waiting, wait

if TYPE_CHECKING:
    from eventstore.session import LogSession


class Lag(msgspec.Struct, frozen=True):
    """How far a follower is behind: in events, and by the age of the oldest of them.

    Over a store, other tenants' events count among them.
    """

    events: int
    seconds: float


class Subscription(Generic[C]):
    """A position in the log that moves on as events are handed out.

    It does not wait by itself: see `waiting.WaitCondition`. Threads may share one: each event
    goes to one of them.
    """

    def __init__(
        self,
        session: LogSession,
        source: EventSource[C, Any],
        stop: StopSignal | None,
        timeout: float | None,
        poll: float,
    ) -> None:
        check_waiting(timeout, poll)
        if stop is not None and not callable(getattr(stop, "is_set", None)):
            raise TypeError(f"stop is {stop!r}: pass for example threading.Event()")
        self.session = session
        self.source = source
        self.timeout = timeout
        self.poll = poll
        self.closed = False
        self._stop = stop
        self._page: Page[Any] = Page((), source.start, source.start)
        self._lock = Lock()

    @property
    def conversation_id(self) -> str | None:
        """The conversation; None for all conversations."""
        return self.source.conversation_id

    @property
    def seen(self) -> object:
        """How far the log was read."""
        return self.source.seen(self._page.end)

    @property
    def stopped(self) -> bool:
        """Whether the stop signal is set."""
        return self._stop is not None and self._stop.is_set()

    @property
    def ended(self) -> bool:
        """Whether nothing more can come: it was stopped, or the store was closed."""
        return self.closed or self.stopped

    @property
    def cursor(self) -> C:
        """The cursor after the last event that was handed out."""
        page = self._page
        if page.returned == len(page.events):
            return self.source.cursor(page.end, ())
        return self.source.cursor(page.start, page.events[: page.returned])

    def next(self) -> Recorded | None:
        """Return the next event of the page that was read, or None."""
        if self.stopped:
            return None
        with self._lock:
            page = self._page
            if page.returned == len(page.events):
                return None
            page.returned += 1
            return page.events[page.returned - 1]

    def is_met(self) -> bool:
        """Read the next page if it is due; return whether there is an event, or the end."""
        page = self._page
        if self.stopped or page.returned < len(page.events):
            return True
        try:
            found = self.source.read(page.end, self.session.settings.page_events)
        except StoreClosed:
            self.closed = True
            return True
        with self._lock:
            if self._page is page:  # otherwise another thread was faster
                self._page = found
        return bool(self._page.events)

    def lag(self) -> Lag:
        """Return how far it is behind."""
        events, oldest = self.source.ahead(self.cursor)
        now = self.session.clock()
        return Lag(events, 0.0 if oldest is None else max(now - oldest, 0) / 1_000_000)


class Follow(Generic[C]):
    """Events after a cursor, and then those to come, as they come.

    The iteration ends when the store is closed, when `stop` is set, or when nothing came for
    `timeout` seconds; it may be taken up again. It raises `StoreCorrupt` if an event is missing,
    and `CursorLost` if the log was put back behind the cursor.
    Threads may share one: each event goes to one of them.
    """

    def __init__(self, subscription: Subscription[C]) -> None:
        self._subscription = subscription

    @property
    def cursor(self) -> C:
        """Where to continue: after the last event that was returned."""
        return self._subscription.cursor

    def lag(self) -> Lag:
        """Return how many events have not been returned yet, and how old the oldest of them is."""
        return self._subscription.lag()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Recorded:
        subscription = self._subscription
        while (found := subscription.next()) is None:
            if not wait(subscription) or subscription.ended:
                raise StopIteration
        return found
