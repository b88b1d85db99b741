"""A fork: the events with which a copy of a conversation begins.

1. The events up to the fork are copied as they are, in their order. Their versions are those of the
   origin; their times and event ids are the copy's own.
2. After them a `RunStarted` names the origin and the version of the fork.
3. A call that was open there belongs to the origin. In the copy it is closed and never runs: a call
   that had not started is rejected; one that may have taken effect, or whose next attempt was
   announced, fails with the code "forked". No attempt is announced in the copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from eventstore.domain.arguments import check_version
from eventstore.domain.closing_codes import FORKED
from eventstore.domain.events import (
    Event,
    Recorded,
    RunStarted,
    ToolEvent,
    ToolFailed,
    ToolPending,
    ToolRejected,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.lifecycle import evolve
from eventstore.domain.statuses import Failed
from eventstore.domain.tool import Tool
from eventstore.errors import VersionConflict


def forked_events(origin: str, events: Iterable[Recorded], at: int) -> list[Event]:
    """Return the events of a copy of the conversation `origin`, forked after version `at`.

    Raises:
        ValueError: `at` is not a version of the conversation.
        IllegalTransition: the log does not keep the table of transitions.
    """
    check_version("at", at)
    copied: list[Event] = []
    tools: dict[str, Tool] = {}
    version = 0
    for recorded in events:
        if recorded.version > at:
            break
        version, event = recorded.version, recorded.event
        copied.append(replace(event, delay=None) if isinstance(event, ToolFailed) else event)
        if isinstance(event, ToolEvent):
            _apply(tools, event, recorded)
    if at == 0 or version < at:
        raise ValueError(
            f"at is {at}: pass a version of {origin!r}, which has {version} to fork at"
        )
    started = RunStarted(parent_conversation_id=origin, forked_at=at)
    return [*copied, started, *_closing(origin, at, tools)]


def _apply(tools: dict[str, Tool], event: ToolEvent, recorded: Recorded) -> None:
    call_id = (event.call.id or "") if isinstance(event, ToolPending) else event.call_id
    tools[call_id] = evolve(tools.get(call_id), event, recorded.time, recorded.fingerprint)


def _closing(origin: str, at: int, tools: dict[str, Tool]) -> Iterable[Event]:
    """Yield the event that closes each open call, each in doubt, and each that is to run again."""
    belongs = f"belongs to {origin!r}, from which this conversation was forked at version {at}"
    for tool in tools.values():
        status = tool.status
        if isinstance(status, Failed) and tool.retry_announced and not tool.in_doubt:
            text = f"{status.model_text}; its next attempt {belongs}, and is not made here"
            yield _left_to_origin(tool, text)
        elif tool.in_doubt:
            text = f"the attempt {belongs}: its outcome is not known here, and it is not run again"
            yield _left_to_origin(tool, text)
        elif not tool.is_resolved:
            yield ToolRejected(tool.id, f"not executed: the call {belongs}", "rule", FORKED)


def _left_to_origin(tool: Tool, text: str) -> ToolFailed:
    failure = Failure(ErrorKind.PERMANENT, text, code=FORKED, in_doubt=False)
    return ToolFailed(tool.id, failure, tool.attempts)


def name_taken(conversation_id: str, version: int) -> VersionConflict:
    """Return the error of a fork to a conversation that has events, up to `version`."""
    return VersionConflict(
        0,
        version,
        f"the conversation {conversation_id!r} exists already, at version {version}: fork to "
        "another id",
    )
