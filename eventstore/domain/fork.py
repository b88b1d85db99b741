"""A fork: the events with which a copy of a conversation begins.

1. The events up to the fork are copied as they are, in their order. Their versions are those of the
   origin; their times and event ids are the copy's own, and the ids say that they are copies (see
   `eventstore.domain.copies`).
2. After them a `RunStarted` names the origin and the version of the fork.
3. Of an event that was redacted, what is left is copied, without its marker. The records of the
   redactions are copied with the name of the origin; those after the fork follow it. So nothing
   starts in the copy that would not start in the origin.
4. A call that was open there belongs to the origin. In the copy it is closed and never runs: a call
   that had not started is rejected; one that may have taken effect, or whose next attempt was
   announced, fails with the code "forked". No attempt is announced in the copy. What closes a call
   counts as a copy, too: nothing happened.
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
    UnknownEvent,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.lifecycle import evolve
from eventstore.domain.redaction import PayloadsRedacted
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
    later: list[Event] = []
    tools: dict[str, Tool] = {}
    version, is_redacted = 0, False
    for recorded in events:
        event = recorded.event
        if recorded.version > at:
            if not is_redacted:
                break
            later += _later_record(origin, event, at)
            continue
        version = recorded.version
        is_redacted = is_redacted or recorded.redacted is not None
        copied.append(_copy(origin, event))
        if isinstance(event, ToolEvent):
            _apply(tools, event, recorded)
    if at == 0 or version < at:
        raise ValueError(
            f"at is {at}: pass a version of {origin!r}, which has {version} to fork at"
        )
    started = RunStarted(parent_conversation_id=origin, forked_at=at)
    return [*copied, started, *later, *_closing(origin, at, tools)]


def _copy(origin: str, event: Event) -> Event:
    if isinstance(event, ToolFailed):
        return replace(event, delay=None)
    if isinstance(event, PayloadsRedacted):
        return replace(event, origin=event.origin or origin)
    if isinstance(event, UnknownEvent) and event.is_redacted:
        return UnknownEvent(event.tag, event.schema, "{}")
    return event


def _later_record(origin: str, event: Event, at: int) -> Iterable[Event]:
    """Yield the record of a redaction, as far as it is of versions that were copied."""
    if isinstance(event, PayloadsRedacted):
        copied = tuple(each for each in event.payloads if each.version <= at)
        if copied:
            yield replace(event, payloads=copied, origin=event.origin or origin)


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
