"""What is told again is stored once: ids of events that name what they are of.

Such an id begins with the stem of what was told, a digest, and ends with the number of the event.
It is a UUID of version 8, whose content its maker defines.

A run may be replayed: by a durable runtime after a crash, or by a host after a retry. It names its
steps then, and what a step says has a stem of its own:

1. What the same step says again is stored once, wherever the conversation is by then, and finds
   the calls that it made as they stand.
2. What it says differently is another message: the model was asked anew; see `asked_anew`.
3. Other steps, and messages without a step, are never taken for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventstore.append.command import Command, IdentifiedEvents, PendingAppend
from eventstore.domain.asked_anew import is_replacement, settled_by_new_answer
from eventstore.domain.copies import copy_id
from eventstore.domain.events import Event, MessageAdded, ToolFailed, ToolPending
from eventstore.domain.fingerprint import content_id

if TYPE_CHECKING:
    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.domain.tool import Tool

STEM_BYTES = 12  # of an event id; the rest counts the events of the stem
_CUSTOM_UUID = 8  # the UUID version whose content its maker defines


def stem_of(*parts: bytes) -> bytes:
    """Return the stem that depends only on the parts, their order and their borders."""
    return content_id(*parts)[:STEM_BYTES]


def stem_of_step(step: object, said: object) -> bytes:
    """Return the stem of what a step of a run says; `said` can be written as JSON.

    Raises:
        TypeError: the step is not text.
        ValueError: it is empty.
    """
    if not isinstance(step, str):
        raise TypeError(f"step is {step!r}: pass text, such as the workflow's id and a number")
    if not step:
        raise ValueError("step is empty: pass text, such as the workflow's id and a number")
    # Not msgspec's own JSON: it refuses half of a surrogate pair, which a model may write.
    form = json.dumps(msgspec.to_builtins(said), sort_keys=True)
    return stem_of(b"step", step.encode("utf-8", "surrogatepass"), form.encode())


def event_id_of(stem: bytes, number: int) -> bytes:
    """Return the id of one of the events that a stem names, from 0."""
    return start_of_ids(stem) + number.to_bytes(16 - STEM_BYTES, "big")


def event_ids_of(stem: bytes, count: int) -> list[bytes]:
    """Return the ids of the first events that a stem names."""
    return [event_id_of(stem, number) for number in range(count)]


def has_stem(event_id: bytes) -> bool:
    """Return whether an id has a stem: other ids are UUIDs of other versions."""
    return event_id[6] >> 4 == _CUSTOM_UUID


def start_of_ids(stem: bytes) -> bytes:
    """Return the start of a UUIDv8, with as much of `stem` as there is room for."""
    return bytes(
        (
            *stem[:6],
            stem[6] & 0x0F | 0x80,
            stem[7],
            stem[8] & 0x3F | 0x80,
            *stem[9:STEM_BYTES],
        )
    )


def is_of_stem(event_id: bytes, stem: bytes) -> bool:
    """Return whether a stem names an event, or one that this is a copy of."""
    start = start_of_ids(stem)
    return event_id[:STEM_BYTES] in (start, copy_id(start))


def stored_once(
    command: Command[list[Tool]], stem: bytes, step: str | None = None
) -> Command[list[Tool]]:
    """Return the command, which stores its events once; told again, it returns their calls.

    With `step` the calls are those of a step of a run; see `eventstore.domain.asked_anew`.
    """
    known = [event_id_of(stem, 0)]

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        events = command.decide(state, look_up)
        if step is not None:
            events = _events_of_step(step, events, state, look_up)
        return IdentifiedEvents(events, event_ids_of(stem, len(events)))

    def result(done: PendingAppend) -> list[Tool]:
        if done.stored_ids >= set(known):
            return calls_under(done, stem)
        replaced = {e.call_id for e in done.events if is_replacement(e)}
        return [tool for tool in command.result(done) if tool.id not in replaced]

    return replace(command, decide=decide, result=result, event_ids=known, exclusive=True)


def _events_of_step(
    step: str, events: Sequence[Event], state: ConversationState, look_up: LookUp
) -> list[Event]:
    """Return the events of a step, and what they settle of an earlier answer of the model."""
    of_step = [replace(e, step=step) if type(e) is ToolPending else e for e in events]
    ended = {event.call_id for event in of_step if type(event) is ToolFailed}  # it was cut off
    made = [e for e in of_step if type(e) is ToolPending and e.call_id not in ended]
    is_answer = made or any(type(e) is MessageAdded and e.role == "assistant" for e in of_step)
    earlier = state.tools_of_step(step, look_up) if is_answer else ()
    return [*of_step, *settled_by_new_answer(made, earlier)]


def calls_under(done: PendingAppend, stem: bytes) -> list[Tool]:
    """Return the calls that events of a stem make or answer, as they stand now."""
    start = start_of_ids(stem)
    return calls_of(done, lambda event_id: event_id[:STEM_BYTES] == start)


def calls_of(done: PendingAppend, is_one: Callable[[bytes], bool]) -> list[Tool]:
    """Return the calls that events with these ids name, as they stand now."""
    calls = {
        recorded.call_id
        for recorded in done.log()
        if recorded.call_id
        and is_one(bytes.fromhex(recorded.event_id))
        and not is_replacement(recorded.event)
    }
    return list(done.look_up(calls).values()) if calls else []
