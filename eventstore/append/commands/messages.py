"""Commands that record what was said: events as they come, messages, and the calls asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventstore.append.command import Command, IdentifiedEvents, PendingAppend
from eventstore.append.compactions import check_places
from eventstore.append.inputs import check_event, copied_event, has_no_turn, times_at_source
from eventstore.append.last_turn import mint_call_id
from eventstore.append.stored_once import event_id_of, stem_of_step, stored_once
from eventstore.domain.arguments import check_version, event_ids_as_bytes
from eventstore.domain.calls import FunctionCall, is_tool_name
from eventstore.domain.events import Event, HistoryCompacted, MessageAdded, Recorded, ToolPending
from eventstore.domain.messages import ROLES, Part, as_parts

if TYPE_CHECKING:
    from uuid import UUID

    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.domain.times import Moment
    from eventstore.domain.tool import Tool


def append(
    conversation_id: str,
    events: Sequence[Event],
    expected_version: int | None = None,
    event_ids: Sequence[UUID | str | bytes] | None = None,
    occurred_at: Sequence[Moment | None] | None = None,
) -> Command[list[Recorded]]:
    """Append events, all or none; see `Conversation.append`."""
    if expected_version is not None:
        check_version("expected_version", expected_version)
    checked = tuple(map(check_event, events))
    ids = event_ids_as_bytes(event_ids, len(checked))
    times = times_at_source(occurred_at, len(checked))
    return _append(conversation_id, checked, expected_version, ids, times)


def append_copies(
    conversation_id: str, events: Sequence[Event], own: int
) -> Command[list[Recorded]]:
    """Append events of another conversation to a new one: also the records of redactions.

    The one at the index `own` is the new one's own.
    """
    copies = tuple(map(copied_event, events))
    are_copies = [index != own for index in range(len(copies))]
    return _append(conversation_id, copies, 0, are_copies=are_copies)


def _append(
    conversation_id: str,
    checked: Sequence[Event],
    expected_version: int | None,
    ids: Sequence[bytes] = (),
    times: Sequence[int | None] = (),
    are_copies: Sequence[bool] = (),
) -> Command[list[Recorded]]:
    lacks_turn = any(map(has_no_turn, checked))
    compacts = any(type(event) is HistoryCompacted for event in checked)

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        numbered: Sequence[Event] = checked
        if compacts:
            check_places(checked, state.version)
        if lacks_turn:
            numbered = state.last_turn.numbered(checked, conversation_id, state.known)
        if times or are_copies:
            return IdentifiedEvents(numbered, times=times, are_copies=are_copies)
        return numbered

    def result(done: PendingAppend) -> list[Recorded]:
        return _recorded_under(done, ids)

    return Command(conversation_id, decide, result, expected_version, ids, exclusive=bool(ids))


def _recorded_under(done: PendingAppend, ids: Sequence[bytes]) -> list[Recorded]:
    """Return what was written, or was there under these ids before."""
    recorded = done.recorded()
    if len(recorded) == len(ids) or not ids:
        return recorded
    wanted = {event_id.hex() for event_id in ids}
    return [found for found in done.log() if found.event_id in wanted]


def add_message(
    conversation_id: str,
    role: str,
    content: str | Part | Sequence[Part],
    step: str | None = None,
) -> Command[Recorded]:
    """Add a message; see `Conversation.add_message`."""
    if role not in ROLES or role == "tool":
        raise ValueError(
            f"role is {role!r}: pass system, developer, user or assistant "
            "(a tool's answer is complete() or fail())"
        )
    parts = as_parts(content)
    ids = [] if step is None else [event_id_of(stem_of_step(step, (role, parts)), 0)]

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        turn = state.last_turn.number + 1 if role == "assistant" else None
        return (MessageAdded(role, parts, turn),)

    def result(done: PendingAppend) -> Recorded:
        return _recorded_under(done, ids)[0]

    return Command(conversation_id, decide, result, None, ids, exclusive=bool(ids))


def request(
    conversation_id: str, name: str, arguments: object = None, call_id: str | None = None
) -> Command[Tool]:
    """Record that the model asks for a call; see `Conversation.request`."""
    if not is_tool_name(name):
        raise ValueError(f"a tool's name is text and not blank, got {name!r}")
    if call_id is not None and (not isinstance(call_id, str) or not call_id):
        raise ValueError(f"call_id is {call_id!r}: pass text, or None for a new id")

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        turn, index = state.last_turn.next_call()
        minted = call_id or mint_call_id(conversation_id, turn, index, state.known)
        asked = ToolPending(FunctionCall.of(name, arguments, minted), call_id, turn, index)
        return state.last_turn.with_not_run((asked,))

    return Command(conversation_id, decide, PendingAppend.tool)


def turn(
    conversation_id: str,
    content: str | Part | Sequence[Part],
    calls: Sequence[FunctionCall],
    step: str | None = None,
) -> Command[list[Tool]]:
    """Record what the model said and the calls that it made; see `Conversation.turn`."""
    parts = () if content == "" else as_parts(content)
    said = MessageAdded("assistant", parts, calls=len(calls))
    events = (said, *map(_asked_for, calls))

    def decide(state: ConversationState, _: LookUp) -> Sequence[Event]:
        last = state.last_turn
        return last.with_not_run(last.numbered(events, conversation_id, state.known))

    command = Command(conversation_id, decide, PendingAppend.tools)
    if step is None:
        return command
    asked = [(call.id, call.name, call.arguments, call.raw) for call in calls]
    return stored_once(command, stem_of_step(step, (parts, asked)), step)


def _asked_for(call: object) -> Event:
    if not isinstance(call, FunctionCall):
        raise TypeError(f"a call is {call!r}: pass FunctionCall.of(name, arguments)")
    return check_event(ToolPending(call, call.id))
