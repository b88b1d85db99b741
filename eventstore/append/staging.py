"""`stage_events`: events checked against the state of their conversation, and encoded to be stored.

1. Each event is encoded first, and what is checked is the event as the log will hold it: a JSON
   value that shares nothing with what the caller passed, without what a rule of the store covers.
2. It must fit its call as the events before it leave that. One that repeats what is so is left out.
3. What a tool returned is stored whatever it is, in the nearest form that JSON has. Arguments that
   JSON cannot express are refused, because they would not be what runs.
4. Nothing of the state changes: it takes the events in when they are stored.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import msgspec

from eventstore.append.conversation_state import ConversationState, Entry, StagedEvents
from eventstore.append.tool_fold import LookUp
from eventstore.domain import codec
from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.events import (
    TOOL_EVENTS,
    Event,
    MessageAdded,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolPending,
)
from eventstore.domain.fingerprint import render
from eventstore.domain.jsonable import readable
from eventstore.domain.lifecycle import DECISIONS, check_decision
from eventstore.domain.lifecycle import STEPS as EVOLVE_BY_TAG
from eventstore.domain.messages import Opaque
from eventstore.domain.nesting import too_deep
from eventstore.domain.shown_results import result_to_store
from eventstore.domain.tool import Tool
from eventstore.errors import UnencodableEvent, UnhashableArguments
from eventstore.storage.interface import Draft

Mark = Callable[[bytes | None, int], bytes | None]
"""Returns the fingerprint to be stored of the arguments that an event at a version brings."""


def stage_events(  # noqa: PLR0913 - the last ones have names
    state: ConversationState,
    events: Sequence[Event],
    event_ids: Sequence[bytes],
    at: int,
    look_up: LookUp,
    *,
    ids_given: bool,
    times: Sequence[int | None] = (),
    salts: Sequence[bytes],
    mark: Mark | None = None,
) -> StagedEvents:
    """Check `events` one after the other and encode them; exact repeats are left out.

    `at` is the time of recording in microseconds, `times` are those at the events' source. `salts`
    are random, one for each event. `mark` changes the fingerprints of what is to be encrypted.
    `look_up` is called once at most. `ids_given` says that the ids come from the caller.

    Raises:
        IllegalTransition, UnhashableArguments, UnencodableEvent: the state is unchanged.
        StoreCorrupt, SchemaTooNew: a call is to be started, and the conversation has an event
            that cannot be read.
        RuleFailed: a rule of the store could not look at a text.
    """
    events = events if state.door is None else at_door(state, events)
    kept: list[Event] = []
    drafts: list[Draft] = []
    tools: dict[str, Entry] = {}
    settled: Mapping[str, Tool] | None = None
    all_times = times or [None] * len(events)
    for given, event_id, occurred_at, salt in zip(events, event_ids, all_times, salts, strict=True):
        step = STEPS.get(type(given))
        digest, begins = None, False
        if step is None:
            event, payload = as_stored(given)
        else:
            encode, evolve, tag = step
            event, payload, digest = encode(given)
            digest = mark(digest, state.version + len(drafts) + 1) if mark else digest
            call_id = event.call.id if tag == "pending" else event.call_id
            if tag == "running":
                state.check_start(call_id)
            entry = tools.get(call_id) or state.open.get(call_id)
            before = None
            if entry is not None:
                before = entry.tool
            elif call_id in state.known:
                if settled is None:
                    settled = {**look_up(_settled(state, events)), **state.settled_uncommitted}
                before = settled.get(call_id)
            time = at if occurred_at is None else occurred_at
            after = evolve(before, event, time, None if digest is None else render(digest))
            if after is before:
                continue
            if before is not None and type(event) in DECISIONS:
                check_decision(before, event)
            if digest is not None:
                begins = True
            else:
                digest = entry.digest if entry else after.effective_call.digest()
            tools[call_id] = Entry(after, digest)
        drafts.append(
            Draft(
                event_id,
                at,
                event.tag,
                event.schema,
                payload,
                digest,
                begins,
                ids_given,
                occurred_at,
                salt,
            )
        )
        kept.append(event)
    return StagedEvents(kept, drafts, tools, state.version)


def at_door(state: ConversationState, events: Sequence[Event]) -> Sequence[Event]:
    """Return events as they may be stored, by the rules of the store.

    Raises:
        RuleFailed: a rule could not look at a text.
        UnhashableArguments, UnencodableEvent: they cannot be written as JSON.
    """
    if state.door is None:
        return events
    return state.door.covered([*map(_encoded, events)], state.arguments_in_force)


def _encoded(event: Event) -> tuple[Event, bytes]:
    step = STEPS.get(type(event))
    return as_stored(event) if step is None else step.encode(event)[:2]


def _settled(state: ConversationState, events: Sequence[Any]) -> set[str]:
    """Return the ids of the settled calls that `events` name."""
    names = {event.call_id for event in events if type(event) in TOOL_EVENTS}
    return (names & state.known) - state.open.keys()


Encoded = tuple[Any, bytes, bytes | None]
"""An event exactly as the log will hold it, its payload, and the digest of new arguments."""


def encode_event(event: ToolEvent) -> Encoded:
    """Return the event as the log will hold it, its payload, and the digest it brings.

    The event shares nothing with what the caller passed. A result of text, images and documents
    is stored in parts. Any other result that JSON cannot express takes its nearest readable form
    and is marked lossy. The digest is that of the arguments that the event brings into force, or
    None.

    Raises:
        UnhashableArguments: arguments that JSON cannot express.
        UnencodableEvent: another member that JSON cannot express.
    """
    return STEPS[type(event)].encode(event)


def _encode_call(event: Any) -> Encoded:
    call = event.call if type(event) is ToolPending else event.edited_call
    if call is None:
        return *codec.as_stored(event), None
    stored: Any = None
    payload, refused = b"", None
    try:
        # Their fingerprint measures arguments that have one of their own.
        stored, payload = codec.as_stored(event, measured=getattr(call, "raw", "") is None)
    except UnencodableEvent as error:
        refused = error
    if refused is not None:
        _require_json(call)  # its error names the path in the arguments
        raise refused
    kept = stored.call if type(stored) is ToolPending else stored.edited_call
    try:
        is_same = kept == call
    except Exception:  # noqa: BLE001 - a subclass of dict may raise anything
        is_same = False
    if not is_same:  # JSON has changed the arguments that were given
        _require_json(call)
    return stored, payload, kept.digest()


def _encode_plain(event: ToolEvent) -> Encoded:
    return *as_stored(event), None


def as_stored(event: Event) -> tuple[Event, bytes]:
    """Return the event as the log will hold it, and its payload; see `codec.as_stored`.

    A model, or a log of another tool, may nest as deep as it likes: the provider's own form of an
    event is then left out, and what is deep in a part of its message becomes text.
    """
    try:
        return codec.as_stored(event)
    except UnencodableEvent:
        shallow = _without_deep_forms(event)
        if shallow is event:
            raise
        return codec.as_stored(shallow)


def _without_deep_forms(event: Event) -> Event:
    native = getattr(event, "native", None)
    if type(event) is MessageAdded:
        if too_deep(event.parts):
            parts = [
                Opaque(part.provider, readable(part.data)[0]) if type(part) is Opaque else part
                for part in event.parts
            ]
            event = msgspec.structs.replace(event, parts=tuple(parts))
        if too_deep(native):
            event = msgspec.structs.replace(event, exact=False, results=())
    return msgspec.structs.replace(event, native=None) if too_deep(native) else event


def _require_json(call: FunctionCall) -> None:
    if type(call.name) is not str:
        raise UnhashableArguments("$.name", f"a tool's name is text, not {reprlib.repr(call.name)}")
    call.digest()


def _encode_result(event: ToolCompleted) -> Encoded:
    response = event.response
    if type(response) is not FunctionResponse:
        return _encode_plain(event)  # raises, and says what is wrong
    try:
        stored, payload = codec.as_stored(event)
        if stored.response.result == response.result:
            return stored, payload, None
    except Exception:  # noqa: BLE001, S110 - foreign objects may raise anything
        pass
    result, lossy, in_parts = result_to_store(response.result)
    event = msgspec.structs.replace(
        event,
        response=FunctionResponse(response.name, result, response.id),
        lossy=event.lossy or lossy,
        in_parts=event.in_parts or in_parts,
    )
    try:
        return _encode_plain(event)
    except UnencodableEvent:
        if event.native is None:
            raise
        return _encode_plain(msgspec.structs.replace(event, native=None, lossy=True))


class Step(NamedTuple):
    """How events of one class are encoded, how they change a call, and their tag."""

    encode: Callable[[Any], Encoded]
    evolve: Callable[[Tool | None, Any, int | None, str | None], Tool]
    tag: str


_ENCODERS: dict[type, Callable[[Any], Encoded]] = {
    ToolCompleted: _encode_result,
    ToolPending: _encode_call,
    ToolApproved: _encode_call,
}

STEPS: dict[type, Step] = {
    kind: Step(_ENCODERS.get(kind, _encode_plain), EVOLVE_BY_TAG[kind.tag], kind.tag)
    for kind in get_args(ToolEvent)
}
"""The step for each class of tool events."""
