"""`KeptFolds`: a fold that each handle of a conversation keeps, and continues with new events.

1. A handle keeps one fold and the last event of it. Both are given up with the handle.
2. The next question reads from that event on. Where the log has another event there, or none (an
   older copy was put back, a host's transaction was rolled back), the fold begins anew.
3. After events that the fold has were redacted, it begins anew, too, so that nothing of them stays.
4. A thread takes the fold away while it asks. A second thread finds none, and folds anew. No lock
   is held, so none is left behind in a forked child.

The answer is that of a new fold over the conversation's events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from eventstore import Conversation, PayloadsRedacted, Recorded
from projections.projection import Projection

F = TypeVar("F", bound=Projection)
T = TypeVar("T")


class KeptFolds(Generic[F]):
    """The folds by handle; `new` makes an empty one."""

    def __init__(self, new: Callable[[], F]) -> None:
        self._new = new
        self._kept: WeakKeyDictionary[Conversation, _KeptFold[F]] = WeakKeyDictionary()

    def ask(self, conversation: Conversation, question: Callable[[F], T]) -> T:
        """Return the answer to a question about the conversation as it is in the log now."""
        kept = self._kept.pop(conversation, None)
        if kept is None or not kept.catch_up(conversation):
            kept = _KeptFold(self._new())
            kept.extend(conversation.events())
        try:
            return question(kept.fold)
        finally:
            self._kept[conversation] = kept


class _KeptFold(Generic[F]):
    """A fold, and the last event that it took in."""

    def __init__(self, fold: F) -> None:
        self.fold = fold
        self._last: Recorded | None = None

    def extend(self, events: Iterable[Recorded]) -> None:
        """Take in events."""
        for recorded in events:
            self.fold.apply(recorded)
            self._last = recorded

    def catch_up(self, conversation: Conversation) -> bool:
        """Take in the events after the last one; return False where the fold must begin anew."""
        if self._last is None:
            return False
        events = conversation.events(after=self._last.version - 1)
        found = next(events, None)
        if found is None or _envelope(found) != _envelope(self._last):
            return False
        for recorded in events:
            if type(recorded.event) is PayloadsRedacted:
                return False
            self.extend((recorded,))
        return True


def _envelope(recorded: Recorded) -> tuple[str, int, int, int]:
    """Return what tells one append from any other, also from one with the same event id."""
    return recorded.event_id, recorded.recorded_at, recorded.lane, recorded.position
