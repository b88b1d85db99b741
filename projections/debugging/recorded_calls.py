"""The executions of a log: each attempt that ended, with its arguments and its outcome.

1. An execution is known by the tool and the arguments that were really used: an approved edit runs
   in place of what the model asked for.
2. An attempt without a recorded end is an execution only if it was the last of its call. If another
   attempt followed, that one's outcome is what the run continued with.
3. What ran no tool is no execution: a rejection, an answer of a hook, arguments that were refused.
   The calls of an imported history count, because they ran elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from eventstore import (
    Failure,
    FunctionCall,
    Part,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRunning,
    fingerprint,
)
from eventstore.domain.json_types import is_json_object
from projections.formatting import arguments_text


class RecordedCall(msgspec.Struct, frozen=True, gc=False):
    """One execution: what was run, and its outcome.

    `version` is that of the event which ended it, otherwise of the one which started it. `failure`
    is None for a completed one. `has_end` is false for an attempt whose end is not recorded.
    """

    name: str
    arguments: dict[str, Any]
    call_id: str
    version: int
    result: Any = None
    failure: Failure | None = None
    has_end: bool = True

    @property
    def fingerprint(self) -> str:
        """The fingerprint of what was run."""
        return fingerprint(self.name, self.arguments)

    def __str__(self) -> str:
        call = FunctionCall(self.name, self.arguments)
        return f"{self.name} {arguments_text(call, 120)} (version {self.version})"


class _Call(msgspec.Struct, gc=False):
    call: FunctionCall
    imported: bool
    running: ToolRunning | None = None
    started: int = 0


def recorded_calls(events: Iterable[Recorded]) -> list[RecordedCall]:
    """Return the executions of the log of one conversation, in the order of their ends.

    Those without an end come last.
    """
    calls: dict[str, _Call] = {}
    found: list[RecordedCall] = []
    for recorded in events:
        event = recorded.event
        if isinstance(event, ToolPending):
            calls.setdefault(event.call_id, _Call(event.call, event.imported))
            continue
        call = calls.get(recorded.call_id or "")
        if call is None:
            continue
        if isinstance(event, ToolApproved) and event.edited_call is not None:
            call.call = event.edited_call
        elif isinstance(event, ToolRunning):
            call.running, call.started = event, recorded.version
        elif isinstance(event, ToolCompleted | ToolFailed):
            if call.running is not None or (call.imported and not _is_synthetic(event)):
                found += _execution(call, recorded, event)
            call.running = None
    for call in calls.values():
        if call.running is not None and (arguments := _arguments(call)) is not None:
            call_id = call.running.call_id
            found.append(
                RecordedCall(call.call.name, arguments, call_id, call.started, has_end=False)
            )
    return found


def _is_synthetic(event: ToolCompleted | ToolFailed) -> bool:
    return isinstance(event, ToolCompleted) and event.synthetic


def _execution(
    call: _Call, recorded: Recorded, event: ToolCompleted | ToolFailed
) -> list[RecordedCall]:
    arguments = _arguments(call)
    if arguments is None:
        return []
    name, version, call_id = call.call.name, recorded.version, event.call_id
    if isinstance(event, ToolFailed):
        return [RecordedCall(name, arguments, call_id, version, failure=event.failure)]
    result = event.response.result
    if event.in_parts:
        result = msgspec.convert(msgspec.to_builtins(result), list[Part])
    return [RecordedCall(name, arguments, call_id, version, result)]


def _arguments(call: _Call) -> dict[str, Any] | None:
    """Return the arguments really used, if they are a JSON object."""
    used = call.running.arguments if call.running is not None else None
    arguments = call.call.arguments if used is None else used
    return arguments if is_json_object(arguments) else None
