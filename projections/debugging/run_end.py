"""How a conversation ends so far: answered, cut off, ended, waiting or under way.

One small fold over the events; it keeps no more than the calls of the last turn.

1. The end of a run that was recorded stands above all else.
2. A call of the last turn without an end is under way if it has started; otherwise it waits.
3. An answer of the assistant ends the conversation, as its response ended: whole, or cut off.
4. A result, or a user's message, after the last answer: the run is under way, as far as the log
   knows. Whether its process still lives, no log can tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from eventstore import (
    Event,
    FunctionCall,
    MessageAdded,
    ModelResponded,
    Recorded,
    RunEnded,
    RunStarted,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UsageLimitBreach,
)
from eventstore.domain.finish_reasons import Ending, ending_of
from eventstore.domain.json_types import is_json_object
from eventstore.domain.one_line import one_line

NOT_WHOLE: dict[Ending, tuple[str, str]] = {
    "truncated": ("truncated", "cut off"),
    "withheld": ("refused", "withheld"),
    "malformed": ("truncated", "malformed"),
    "broken": ("truncated", "ended by an error"),
}
"""The kind of cause, and the words, of a response that is not whole."""

_FINISHES = re.compile(
    r"(?:final_?result|final_?answer|finish(?:_?(?:task|run))?|submit(?:_?(?:answer|solution|patch))?|"
    r"attempt_?completion|(?:mark_)?(?:task_?)?(?:complete|done)|end_?(?:task|run))\Z",
    re.IGNORECASE,
)
"""Names of tools by which a model says that it is done."""
_SUBMITS = re.compile(r"(?:submit\b|echo [\"']?COMPLETE_TASK_AND_SUBMIT)")
"""Commands by which agents in a shell say that they are done."""
_INTERRUPTED = re.compile(r"\[?[Rr]equest interrupted")


def finishes(call: FunctionCall) -> bool:
    """Return whether a model says by the call that it is done."""
    arguments = call.arguments
    given = arguments if is_json_object(arguments) else {}
    command = given.get("command") or given.get("action")
    if isinstance(command, str) and _SUBMITS.match(command.lstrip()):
        return True
    return _FINISHES.match(call.name) is not None


def own_reason(event: MessageAdded) -> tuple[str | None, str] | None:
    """Return provider and reason of a message that says itself that its response is not whole."""
    native = event.native
    reason = event.finish_reason
    if reason is None and is_json_object(native):  # of a log that an earlier version imported
        reason = native.get("finish_reason")
    if isinstance(reason, str) and ending_of(event.provider, reason) in NOT_WHOLE:
        return event.provider, reason
    if event.broken_off:
        return event.provider, "error"
    return None


class RunEnd:
    """How one conversation ends so far."""

    __slots__ = (
        "_breach",
        "_failed",
        "_finished",
        "_interrupted",
        "_open",
        "_reason",
        "_run",
        "_said",
        "_stepped",
        "_user",
        "_wants",
    )

    def __init__(self) -> None:
        self._run: tuple[int, RunEnded] | None = None
        self._said = self._user = self._stepped = self._failed = self._breach = 0
        self._wants = self._interrupted = False
        self._finished = ""
        self._reason: tuple[str | None, str] | None = None
        self._open: dict[str, tuple[int, str, str]] = {}

    def apply(self, recorded: Recorded) -> None:
        """Take in the next event."""
        step = self._steps.get(type(recorded.event))
        if step is not None:
            step(self, recorded.version, recorded.event)

    @property
    def name(self) -> str:
        """How it ends, in a word or two; empty where nothing was said."""
        return self._found()[0]

    @property
    def text(self) -> str:
        """How it ends, with the version."""
        return self._found()[1]

    @property
    def ends_well(self) -> bool:
        """Whether it ends with a whole answer, or as its agent wanted."""
        return self.name in ("answered", "run completed") or bool(self._finished)

    @property
    def is_under_way(self) -> bool:
        """Whether more is to come, as far as the log knows."""
        return self.name in ("under way", "waiting")

    def _found(self) -> tuple[str, str]:
        for way in (
            self._of_run,
            self._of_limit,
            self._of_finish,
            self._of_open_calls,
            self._of_failed_response,
            self._of_answer,
            self._of_interruption,
        ):
            if (found := way()) is not None:
                return found
        return self._of_what_waits()

    @property
    def _after(self) -> int:
        """The version of the last thing that the assistant is to answer."""
        return max(self._stepped, self._user)

    def _of_run(self) -> tuple[str, str] | None:
        if self._run is None:
            return None
        version, run = self._run
        cause = f" ({run.failure.kind})" if run.failure is not None else ""
        return f"run {run.reason}", f"the run ended at version {version}: {run.reason}{cause}"

    def _of_limit(self) -> tuple[str, str] | None:
        if self._breach <= max(self._after, self._said):
            return None
        return "limit reached", f"the usage limit was reached at version {self._breach}"

    def _of_finish(self) -> tuple[str, str] | None:
        if not self._finished or any(state != "imported" for _, state, _ in self._open.values()):
            return None
        return "answered", f"the assistant ended with {self._finished} at version {self._stepped}"

    def _of_open_calls(self) -> tuple[str, str] | None:
        if not self._open:
            return None
        running = [each for each in self._open.values() if each[1] == "running"]
        version, _, tool = (running or [*self._open.values()])[-1]
        if running:
            return "under way", f"under way or stopped at version {version}: {tool} has started"
        return "waiting", f"waiting at version {version} for {tool}"

    def _of_failed_response(self) -> tuple[str, str] | None:
        if self._failed <= max(self._after, self._said):
            return None
        return "response failed", f"the model's response failed at version {self._failed}"

    def _of_answer(self) -> tuple[str, str] | None:
        if self._said <= self._after or self._wants:
            return None
        ending = "whole" if self._reason is None else ending_of(*self._reason)
        if self._reason is None or ending not in NOT_WHOLE:
            return "answered", f"the assistant answered at version {self._said}"
        shown = f"{NOT_WHOLE[ending][1]} ({self._reason[1]})"
        return shown, f"the last answer, version {self._said}, was {shown}"

    def _of_interruption(self) -> tuple[str, str] | None:
        if not self._interrupted:
            return None
        return "interrupted", f"the user interrupted at version {self._user}"

    def _of_what_waits(self) -> tuple[str, str]:
        version = max(self._after, self._said)
        if not version:
            return "", "nothing was said"
        what = "the assistant's message" if version == self._said else "the last result"
        what = "the user's message" if version == self._user else what
        return "under way", f"under way or stopped at version {version}: {what} has no answer"

    # the events

    def _message(self, version: int, event: MessageAdded) -> None:
        if event.role == "assistant":
            self._said, self._wants, self._finished = version, event.calls > 0, ""
            self._reason = own_reason(event)
            self._open.clear()
        elif event.role == "user":
            self._user, self._finished = version, ""
            part = event.parts[0] if event.parts else None
            text = part.text if type(part) is Text else ""
            self._interrupted = _INTERRUPTED.match(text) is not None
            for call_id in [key for key, call in self._open.items() if call[1] == "imported"]:
                del self._open[call_id]  # the user went on without it
        elif event.role == "tool":
            self._stepped = version

    def _responded(self, version: int, event: ModelResponded) -> None:
        if event.failed:
            self._failed = version
        elif event.finish_reason is not None and self._said > self._user:
            self._reason = event.provider, event.finish_reason

    def _pending(self, version: int, event: ToolPending) -> None:
        self._wants = True
        tool = one_line(event.call.name, 64)
        self._open[event.call_id] = version, "imported" if event.imported else "waiting", tool
        self._finished = tool if finishes(event.call) else ""
        self._stepped = version

    def _waits(self, version: int, event: ToolApproved | ToolPaused) -> None:
        self._moves(version, event.call_id, "waiting")

    def _running(self, version: int, event: ToolRunning) -> None:
        self._moves(version, event.call_id, "running")

    def _moves(self, version: int, call_id: str, state: str) -> None:
        if (call := self._open.get(call_id)) is not None:
            self._open[call_id] = version, state, call[2]
            self._stepped = version

    def _ends(self, version: int, event: ToolCompleted | ToolFailed | ToolRejected) -> None:
        if self._open.pop(event.call_id, None) is not None:
            self._stepped = version
            if type(event) is not ToolCompleted:
                self._finished = ""

    def _breached(self, version: int, _: UsageLimitBreach) -> None:
        self._breach = version

    def _run_started(self, *_: object) -> None:
        self._run = None

    def _run_ended(self, version: int, event: RunEnded) -> None:
        self._run = version, event

    _steps: ClassVar[dict[type[Event], Callable[..., None]]] = {
        MessageAdded: _message,
        ModelResponded: _responded,
        ToolPending: _pending,
        ToolApproved: _waits,
        ToolPaused: _waits,
        ToolRunning: _running,
        ToolCompleted: _ends,
        ToolFailed: _ends,
        ToolRejected: _ends,
        UsageLimitBreach: _breached,
        RunStarted: _run_started,
        RunEnded: _run_ended,
    }
