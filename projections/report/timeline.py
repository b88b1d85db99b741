"""The timeline: one row for each message, call and other event of a conversation.

1. The events of a call are one row, at the place of its request. A row has the versions of all its
   events. An event of a call that the log does not know has a row of its own.
2. A call runs from the start of an attempt to that attempt's end. Between all its other events it
   waits: for a decision, for its start, for the time to which it was put off, for the next attempt.
3. Times are those of the events' source where they are known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from eventstore import FunctionCall, MessageAdded, Recorded, Tool, ToolPending, ToolRunning
from eventstore.domain.one_line import one_line
from projections.debugging.call_facts import CallFacts, LogFacts
from projections.debugging.error_line import error_line
from projections.formatting import arguments_text
from projections.history.turns import result_text
from projections.repeats.projection import Cycle, Finding
from projections.replay import Frame, Replay, describe

TEXT_CHARACTERS = 140
"""Characters of what a row says."""


class Row(msgspec.Struct, array_like=True, gc=False):
    """One row; times are in microseconds.

    - `kind` is message, call or event; `label` the role, the tool or the event's tag.
    - `versions` are those of its events, `at` is the time of the first.
    - `steps` are the statuses of a call, each with the version that led to it; `status` is that of
      the end.
    - `waited` and `ran` are how long a call waited, and how long its attempts ran.
    - `marks` are words: error, recovered, open, repeat, imported, left out, does not fit. `errors`
      are the versions of its errors.
    """

    kind: str
    versions: list[int]
    at: int
    label: str
    text: str
    outcome: str = ""
    status: str = ""
    turn: int | None = None
    steps: list[tuple[int, str]] = []
    waited: int = 0
    ran: int = 0
    attempts: int = 0
    call_id: str = ""
    fingerprint: str = ""
    marks: list[str] = []
    errors: list[int] = []


class _OpenRow(msgspec.Struct, gc=False):
    """The row of a call, and its last event so far."""

    row: Row
    last: Recorded
    tool: Tool


class Timeline:
    """The rows so far of one conversation."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._calls: dict[str, _OpenRow] = {}
        self._replay = Replay()

    def add(self, recorded: Recorded) -> None:
        """Take in the next event."""
        frame = self._replay.frame(recorded)
        call = self._calls.get(recorded.call_id or "")
        if frame.after is None:
            row = _event_row(recorded)
            self.rows.append(row)
        elif call is None:
            row = _call_row(recorded, frame.after)
            self.rows.append(row)
            self._calls[frame.after.id] = _OpenRow(row, recorded, frame.after)
        else:
            row = call.row
            _add_step(call, frame)
        if frame.anomalies:
            _mark(row, "does not fit")

    def finish(self, facts: LogFacts, loops: Sequence[Finding], left_out: Iterable[str]) -> None:
        """Say what is known at the end; the next prompt leaves out the calls of `left_out`."""
        for call_id, call in self._calls.items():
            _finish(call.row, call.tool, facts.calls.get(call_id))
        for error in facts.errors:
            if error.call is None:
                for row in self._between(error.version, error.version):
                    _add_errors(row, [error.version])
        for call_id in left_out:
            if (hidden := self._calls.get(call_id)) is not None:
                _mark(hidden.row, "left out")
        for loop in loops:
            marks = set(loop.fingerprints if isinstance(loop, Cycle) else (loop.fingerprint,))
            for row in self._between(loop.run_first.version, loop.run_last.version):
                if row.fingerprint in marks:
                    _mark(row, "repeat")

    def _between(self, first: int, last: int) -> Sequence[Row]:
        """Return the rows that begin between two versions."""
        start = bisect_left(self.rows, first, key=_begin)
        return self.rows[start : bisect_right(self.rows, last, lo=start, key=_begin)]


def _begin(row: Row) -> int:
    return row.versions[0]


def _event_row(recorded: Recorded) -> Row:
    event = recorded.event
    text = describe(recorded, TEXT_CHARACTERS)
    if not isinstance(event, MessageAdded):
        return Row("event", [recorded.version], recorded.time, event.tag, text)
    text = text.removeprefix(f"{event.role}:").lstrip()
    return Row("message", [recorded.version], recorded.time, event.role, text, turn=event.turn)


def _call_row(recorded: Recorded, tool: Tool) -> Row:
    event = recorded.event
    return Row(
        "call",
        [recorded.version],
        recorded.time,
        tool.call.name,
        _arguments(tool.call),
        turn=event.turn if isinstance(event, ToolPending) else None,
        steps=[(recorded.version, tool.status.name)],
        call_id=tool.id,
        fingerprint=tool.fingerprint or "",
        marks=["imported"] if isinstance(event, ToolPending) and event.imported else [],
    )


def _add_step(call: _OpenRow, frame: Frame) -> None:
    row, recorded = call.row, frame.recorded
    took = max(recorded.time - call.last.time, 0)
    if isinstance(call.last.event, ToolRunning):
        row.ran += took
    else:
        row.waited += took
    row.versions.append(recorded.version)
    call.last = recorded
    if frame.after is not None and frame.after is not call.tool:
        call.tool = frame.after
        row.steps.append((recorded.version, call.tool.status.name))


def _finish(row: Row, tool: Tool, facts: CallFacts | None) -> None:
    row.status, row.attempts = tool.status.name, tool.attempts
    if tool.edit is not None:
        row.text = f"{row.text} as {_arguments(tool.edit)}"
    if facts is None:
        return
    if facts.is_open:
        _mark(row, "open")
    if facts.errors:
        _add_errors(row, [error.version for error in facts.errors])
        row.outcome = error_line(facts.errors[-1].text)
        if not facts.is_error:
            _mark(row, "recovered")
    if facts.rejection is not None:
        row.outcome = one_line(facts.rejection.reason or "", TEXT_CHARACTERS)
    elif facts.status == "completed" and not facts.is_error:
        row.outcome = one_line(_result(facts.result), TEXT_CHARACTERS)


def _result(result: object) -> str:
    try:
        return result_text(result)
    except Exception:  # noqa: BLE001 - a log made by hand may hold anything
        return type(result).__name__


def _arguments(call: FunctionCall) -> str:
    return arguments_text(call, TEXT_CHARACTERS)


def _add_errors(row: Row, versions: list[int]) -> None:
    _mark(row, "error")
    row.errors = [*row.errors, *versions]


def _mark(row: Row, mark: str) -> None:
    if mark not in row.marks:
        row.marks = [*row.marks, mark]
