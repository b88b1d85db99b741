"""What a conversation's log says about each call: the versions of its steps, and its errors.

One pass over the events. It decides nothing; `suspects` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import msgspec

from eventstore import (
    FunctionCall,
    HistoryCompacted,
    HookRaised,
    MessageAdded,
    ModelResponded,
    PayloadsRedacted,
    Recorded,
    RunEnded,
    RunStarted,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolEndedLate,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
    Usage,
    UsageLimitBreach,
)
from eventstore.domain.closing_codes import FORKED
from eventstore.domain.response_turns import ResponseTurns
from eventstore.domain.settlement import settled_as
from projections.debugging.error_results import error_text
from projections.debugging.run_end import RunEnd, own_reason
from projections.projection import fingerprint_of

_RUN_AGAIN = "settled as to be run again"
_OUTCOMES = {"completed": "completed", "failed": "failed", "run_again": "to be run again"}

_MAX_ERROR_MESSAGE_CHARACTERS = 600  # of a message of the model that says an error


class CallError(msgspec.Struct, frozen=True, gc=False):
    """An error: a recorded failure, or a result or message that says one (`is_marked` is false).

    `call` is None for an error that no call made.
    """

    version: int
    text: str
    kind: str | None = None
    call: CallFacts | None = None
    is_marked: bool = True


class CallFacts(msgspec.Struct, gc=False):
    """One call: the versions of its events, and what was wrong in it.

    `settlement` is what a person said of it when it was in doubt, at the version `settled`.
    """

    id: str
    call: FunctionCall
    version: int
    at: int
    fingerprint: str | None
    imported: bool
    turn: int | None = None
    status: str = "pending"
    started: int = 0
    started_at: int = 0
    ended: int = 0
    result: Any = None
    edit: FunctionCall | None = None
    rejection: ToolRejected | None = None
    settlement: str | None = None
    settled: int = 0
    errors: list[CallError] = []

    @property
    def is_open(self) -> bool:
        """Whether the call has no end."""
        return self.status in ("pending", "approved", "running", "paused")

    @property
    def runs_again(self) -> bool:
        """Whether a person said that the call, which was in doubt, is to be run again."""
        return self.settled == self.ended > 0 and _RUN_AGAIN in (self.settlement or "")

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.call.name

    @property
    def is_error(self) -> bool:
        """Whether the last thing known of the call is an error."""
        return bool(self.errors) and self.errors[-1].version == self.ended


class StrayResult(msgspec.Struct, frozen=True, gc=False):
    """A result that answers no call, or a call that has its result; or one of another tool."""

    version: int
    call_id: str | None
    call: CallFacts | None
    problem: str


class LogFacts:
    """The facts of one conversation."""

    def __init__(self) -> None:
        self.calls: dict[str, CallFacts] = {}
        self.errors: list[CallError] = []
        self.strays: list[StrayResult] = []
        self.user_messages: list[int] = []
        self.assistant_messages: list[int] = []
        self.messages: list[tuple[int, str]] = []
        self.responses: list[tuple[int, ModelResponded]] = []
        self.reasons: dict[int, tuple[str | None, str]] = {}  # of messages that are not whole
        self._tail: list[Recorded] = []  # from the last message of the assistant on
        self._turns = ResponseTurns()
        self.breaches: list[tuple[int, UsageLimitBreach]] = []
        self.compactions: list[tuple[int, HistoryCompacted]] = []
        self.started: list[Recorded] = []
        self.ended: Recorded | None = None
        self.first: Recorded | None = None
        self.last: Recorded | None = None
        self.last_said: Recorded | None = None  # without what was done to the log later
        self.redactions: list[PayloadsRedacted] = []
        self.last_progress = 0
        self.largest: tuple[int, int] = (0, 0)
        self.second_largest = 0
        self.characters = 0

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in the events of one conversation."""
        steps = self._steps
        for recorded in events:
            if self.first is None:
                self.first = recorded
            self.last = recorded
            if type(recorded.event) is not PayloadsRedacted:
                self.last_said = recorded
            self._tail.append(recorded)
            step = steps.get(type(recorded.event))
            if step is not None:
                step(self, recorded, recorded.event)
        return self

    def _message(self, recorded: Recorded, event: MessageAdded) -> None:
        version, role = recorded.version, event.role
        self._turns.follow(event)
        if role == "tool":
            self._stray(version, event)
            return
        self.messages.append((version, role))
        part = event.parts[0] if event.parts else None
        text = part.text if type(part) is Text else ""
        self.characters += len(text)
        if role == "user":
            self.user_messages.append(version)
        elif role == "assistant":
            self.assistant_messages.append(version)
            self._tail = [recorded]
            if event.native is not None or event.finish_reason or event.broken_off:
                self._cut_off(version, event)
        if text and len(text) <= _MAX_ERROR_MESSAGE_CHARACTERS and _is_notice(text):
            self.errors.append(CallError(version, text, is_marked=False))

    def _cut_off(self, version: int, event: MessageAdded) -> None:
        if (reason := own_reason(event)) is not None:
            self.reasons[version] = reason

    @property
    def end(self) -> RunEnd:
        """How the conversation ends so far; what was before the last answer does not matter."""
        end = RunEnd()
        for recorded in [*([self.ended] if self.ended is not None else []), *self._tail]:
            end.apply(recorded)
        return end

    @property
    def usage(self) -> Usage:
        """What the responses have used together."""
        return sum((r.usage for _, r in self.responses if r.usage is not None), Usage())

    def _responded(self, recorded: Recorded, event: ModelResponded) -> None:
        if event.completes is None:
            if not self._turns.knows(event):
                self._turns.add_response(event, recorded.version)
                if event.finish_reason and self.assistant_messages:
                    self.reasons.pop(self.assistant_messages[-1], None)
                self.responses.append((recorded.version, event))
            return
        self._turns.complete(event)
        for place in reversed(range(len(self.responses))):
            version, response = self.responses[place]
            if version == event.completes:
                self.responses[place] = version, response.completed_by(event)
                return

    def _hook_raised(self, recorded: Recorded, event: HookRaised) -> None:
        call = self.calls.get(event.call_id or "")
        kind = str(event.failure.kind)
        self.errors.append(CallError(recorded.version, str(event), kind, call))

    def _limit_reached(self, recorded: Recorded, event: UsageLimitBreach) -> None:
        self.breaches.append((recorded.version, event))

    def _compacted(self, recorded: Recorded, event: HistoryCompacted) -> None:
        self.compactions.append((recorded.version, event))

    def _stray(self, version: int, event: MessageAdded) -> None:
        if event.call_id is None:
            return
        call = self.calls.get(event.call_id)
        problem = "a second result of" if call is not None else "a result that answers no call:"
        self.strays.append(StrayResult(version, event.call_id, call, problem))

    def _pending(self, recorded: Recorded, event: ToolPending) -> None:
        call = event.call
        self._turns.follow(event)
        if call.id and call.id not in self.calls:
            self.calls[call.id] = CallFacts(
                call.id,
                call,
                recorded.version,
                recorded.time,
                recorded.fingerprint or fingerprint_of(recorded, call),
                event.imported,
                event.turn,
            )

    def _approved(self, _: Recorded, event: ToolApproved) -> None:
        if (call := self.calls.get(event.call_id)) is not None:
            call.status = "approved"
            call.edit = event.edited_call or call.edit

    def _running(self, recorded: Recorded, event: ToolRunning) -> None:
        if (call := self.calls.get(event.call_id)) is not None:
            call.status = "running"
            call.started, call.started_at = recorded.version, recorded.time
            self.last_progress = recorded.version

    def _paused(self, recorded: Recorded, event: ToolPaused) -> None:
        if (call := self.calls.get(event.call_id)) is not None:
            call.status = "paused"
            self.last_progress = recorded.version

    def _completed(self, recorded: Recorded, event: ToolCompleted) -> None:
        version, result = recorded.version, event.response.result
        call = self.calls.get(event.call_id)
        if call is None:
            problem = "a result that answers no call:"
            self.strays.append(StrayResult(version, event.call_id, None, problem))
            return
        if call.status in ("completed", "rejected"):
            problem = "a second result of" if call.status == "completed" else "a result after"
            self.strays.append(StrayResult(version, event.call_id, call, problem))
            return
        name = event.response.name
        if name and name != call.name:
            problem = f"a result of the tool {name!r} for"
            self.strays.append(StrayResult(version, event.call_id, call, problem))
        self._settled(recorded, event, call)
        call.status, call.ended, call.result = "completed", version, result
        size = len(result) if type(result) is str else _size(result)
        self.characters += size
        if size > self.largest[0]:
            self.largest, self.second_largest = (size, version), self.largest[0]
        elif size > self.second_largest:
            self.second_largest = size
        text = error_text(result, call.edit or call.call)
        if text is None:
            self.last_progress = version
            return
        self._error(CallError(version, text, None, call, is_marked=False), call)

    def _failed(self, recorded: Recorded, event: ToolFailed) -> None:
        call = self.calls.get(event.call_id)
        failure = event.failure
        text = failure.message
        if failure.http_status and str(failure.http_status) not in text:
            text = f"{text} (HTTP {failure.http_status})"
        if event.by is not None:
            text = f"{text} (settled by {event.by})"
        kind = FORKED if failure.code == FORKED else str(failure.kind)
        error = CallError(recorded.version, text, kind, call)
        if call is None:
            self.errors.append(error)
            return
        if call.status not in ("completed", "rejected"):
            self._settled(recorded, event, call)
            call.status, call.ended = "failed", recorded.version
            self.characters += len(failure.message)
        self._error(error, call)

    def _settled(
        self, recorded: Recorded, event: ToolCompleted | ToolFailed, call: CallFacts
    ) -> None:
        has_begun = call.imported or call.status in ("running", "failed")
        outcome = settled_as(event, has_begun=has_begun)
        if outcome is not None:
            by = "" if event.by is None else f" by {event.by}"
            reason = "" if event.reason is None else f": {event.reason}"
            call.settlement = f"settled as {_OUTCOMES[outcome]}{by}{reason}"
            call.settled = recorded.version

    def _error(self, error: CallError, call: CallFacts) -> None:
        self.errors.append(error)
        call.errors = [*call.errors, error]

    def _ended_late(self, recorded: Recorded, event: ToolEndedLate) -> None:
        what = "end" if event.response is None else "result"
        problem = f"a late {what} of attempt {event.attempt}, which others had taken over, of"
        call = self.calls.get(event.call_id)
        self.strays.append(StrayResult(recorded.version, event.call_id, call, problem))

    def _rejected(self, recorded: Recorded, event: ToolRejected) -> None:
        if (call := self.calls.get(event.call_id)) is not None:
            call.status, call.ended, call.rejection = "rejected", recorded.version, event

    def _run_started(self, recorded: Recorded, _: RunStarted) -> None:
        self.started.append(recorded)
        self.ended = None

    def _redacted(self, _: Recorded, event: PayloadsRedacted) -> None:
        self.redactions.append(event)

    def _run_ended(self, recorded: Recorded, _: RunEnded) -> None:
        self.ended = recorded

    _steps: ClassVar[dict[type, Callable[..., None]]] = {
        MessageAdded: _message,
        ModelResponded: _responded,
        ToolPending: _pending,
        ToolApproved: _approved,
        ToolRunning: _running,
        ToolPaused: _paused,
        ToolCompleted: _completed,
        ToolFailed: _failed,
        ToolEndedLate: _ended_late,
        ToolRejected: _rejected,
        RunStarted: _run_started,
        RunEnded: _run_ended,
        HookRaised: _hook_raised,
        HistoryCompacted: _compacted,
        UsageLimitBreach: _limit_reached,
        PayloadsRedacted: _redacted,
    }


_NOTICE = re.compile(
    r"\[?(?:(?:API|Request|Provider|Model|LLM|Server|HTTP) )?(?:Error|error|ERROR)\b\s?"
    r"(?:[:({\[]|\d{3}\b|$)|"
    r"\[?[Rr]equest (?:interrupted|too large)|[Pp]rompt is too long|[Ii]nput is too long|"
    r"[Cc]ontext (?:length|window|limit)\b.{0,30}exceed|"
    r"Rate limit|Invalid API key|Please run /login"
)


def _is_notice(text: str) -> bool:
    """Return whether a host wrote the message to say an error or an interruption."""
    return _NOTICE.match(text) is not None


def _size(result: object) -> int:
    try:
        return len(msgspec.json.encode(result))
    except Exception:  # noqa: BLE001 - a log made by hand may hold anything
        return 0
