"""`StoreView`: what the pages show of a whole store, as a fold that continues where it stopped.

Calls and errors are counted by the rules of `ErrorStatistics`: a later attempt of a call is open as
the first one was, and what a person says of a call in doubt is no failure. The line of a
conversation counts all that it has; over the store, an error that was copied counts where it
happened. Memory grows with the conversations and the unsettled calls, not with the log.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from eventstore import Failed, Recorded, Tool, ToolFailed
from eventstore.domain.one_line import one_line
from eventstore.domain.settlement import settled_as
from projections.approvals import PendingApproval, approvals_among
from projections.debugging.error_line import error_line
from projections.debugging.run_end import RunEnd
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
    """One conversation: its counts, and its `end` so far. Times are microseconds since 1970."""

    id: str
    version: int = 0
    last_at: int = 0
    calls: int = 0
    failed: int = 0
    open: int = 0
    end: RunEnd = msgspec.field(default_factory=RunEnd)


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
        self._imported = UnsettledCalls(imported=True)

    def approvals(self, now: int) -> list[PendingApproval]:
        """Return the calls that wait for a decision, the longest wait first."""
        return approvals_among(self._unsettled.unsettled(), now)

    def doubts(self, now: int) -> list[Doubt]:
        """Return the calls in doubt now, the oldest doubt first; see `doubts_among`."""
        return doubts_among(self._unsettled, now)

    def extend(self, events: Iterable[Recorded]) -> None:
        """Take in events, each conversation in its order."""
        for recorded in events:
            before = self._call(recorded)
            self._unsettled.apply(recorded)
            self._imported.apply(recorded)
            self._count(recorded, before, self._call(recorded))
            self.newest.append(
                NewEvent(
                    recorded.conversation_id,
                    recorded.version,
                    recorded.time,
                    recorded.event.tag,
                    describe(recorded, _TEXT_CHARACTERS),
                )
            )

    def _call(self, recorded: Recorded) -> Tool | None:
        """Return the call of an event, unless it is settled."""
        key = recorded.conversation_id, recorded.call_id or ""
        return self._unsettled.get(*key) or self._imported.get(*key)

    def _count(self, recorded: Recorded, before: Tool | None, after: Tool | None) -> None:
        event, name = recorded.event, recorded.conversation_id
        line = self.conversations.get(name)
        if line is None:
            line = self.conversations[name] = ConversationLine(name)
        line.version, line.last_at = recorded.version, recorded.time
        line.end.apply(recorded)
        line.calls += before is None and after is not None
        line.open += _is_open(after) - _is_open(before)
        if (
            isinstance(event, ToolFailed)
            and before is not None
            and after is not before
            and type(before.status) is not Failed  # that would be the end of a doubt
            and settled_as(event, has_begun=True) is None
        ):
            line.failed += 1
            if not recorded.is_copy:
                self._add_error(recorded, event, before.call.name)

    def _add_error(self, recorded: Recorded, event: ToolFailed, tool: str) -> None:
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


def _is_open(tool: Tool | None) -> bool:
    return tool is not None and not tool.is_resolved
