"""`StoreView`: what the pages show of a whole store, as a fold that goes on where it stopped.

Memory grows with the conversations and with the calls that have no end, not with the log.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from eventstore import Recorded, RunEnded, ToolCompleted, ToolFailed, ToolPending, ToolRejected
from eventstore.domain.one_line import one_line
from projections.approvals import PendingApproval, approvals_among
from projections.debugging.error_line import error_line
from projections.doubts import Doubt, doubts_among
from projections.replay import describe
from projections.unsettled_calls import UnsettledCalls

MAX_NEWEST = 200
"""Events that the page of the newest ones shows."""

MAX_LINES = 1_000
"""Different errors that are counted; the rarest of more are forgotten."""

HOUR = 3_600_000_000
_TEXT_CHARACTERS = 160


class ConversationLine(msgspec.Struct, gc=False):
    """One conversation: its counts, and how it ends so far. Times are microseconds since 1970."""

    id: str
    version: int = 0
    last_at: int = 0
    calls: int = 0
    failed: int = 0
    last: str = ""
    open: set[str] = set()


class ErrorLine(msgspec.Struct, gc=False):
    """One error by its error line: how often it came, and where it came last."""

    line: str
    tool: str
    kind: str
    count: int = 0
    conversation_id: str = ""
    version: int = 0
    last_at: int = 0


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """One of the newest events, as a line."""

    conversation_id: str
    version: int
    at: int
    tag: str
    text: str


class StoreView:
    """The conversations, errors, approvals, doubts and newest events of a store so far."""

    def __init__(self) -> None:
        self.conversations: dict[str, ConversationLine] = {}
        self.errors: dict[tuple[str, str], ErrorLine] = {}
        self.errors_by_hour: Counter[int] = Counter()
        self.newest: deque[NewEvent] = deque(maxlen=MAX_NEWEST)
        self._unsettled = UnsettledCalls()
        self._tools: dict[tuple[str, str], str] = {}

    @property
    def approvals(self) -> list[PendingApproval]:
        """The calls that wait for a decision, the longest wait first."""
        return approvals_among(self._unsettled)

    def doubts(self, now: int) -> list[Doubt]:
        """Return the calls in doubt now, the oldest doubt first; see `doubts_among`."""
        return doubts_among(self._unsettled, now)

    def extend(self, events: Iterable[Recorded]) -> None:
        """Take in events, each conversation in its order."""
        for recorded in events:
            self._unsettled.apply(recorded)
            self._count(recorded)
            self.newest.append(
                NewEvent(
                    recorded.conversation_id,
                    recorded.version,
                    recorded.time,
                    recorded.event.tag,
                    describe(recorded, _TEXT_CHARACTERS),
                )
            )

    def _count(self, recorded: Recorded) -> None:
        event, name = recorded.event, recorded.conversation_id
        line = self.conversations.get(name)
        if line is None:
            line = self.conversations[name] = ConversationLine(name, open=set())
        line.version, line.last_at = recorded.version, recorded.time
        line.last = f"run {event.reason}" if isinstance(event, RunEnded) else event.tag
        if isinstance(event, ToolPending):
            line.calls += 1
            line.open.add(event.call_id)
            self._tools[name, event.call_id] = event.call.name
        elif isinstance(event, ToolFailed):
            line.failed += 1
            line.open.discard(event.call_id)
            self._add_error(recorded, event)
        elif isinstance(event, ToolCompleted | ToolRejected):
            line.open.discard(event.call_id)
            self._tools.pop((name, event.call_id), None)

    def _add_error(self, recorded: Recorded, event: ToolFailed) -> None:
        tool = self._tools.get((recorded.conversation_id, event.call_id), "")
        text = error_line(event.failure.message)
        key = tool, text
        error = self.errors.get(key)
        if error is None:
            if len(self.errors) >= MAX_LINES:
                del self.errors[min(self.errors, key=lambda line: self.errors[line].count)]
            error = self.errors[key] = ErrorLine(text, one_line(tool, 64), str(event.failure.kind))
        error.count += 1
        error.conversation_id, error.version = recorded.conversation_id, recorded.version
        error.last_at = recorded.time
        self.errors_by_hour[recorded.time // HOUR] += 1
