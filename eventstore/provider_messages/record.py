"""The commands that record messages as they come: one, several in one append, or a turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from eventstore.append.command import Command, IdentifiedEvents, PendingAppend
from eventstore.append.conversation_state import ConversationState
from eventstore.append.stored_once import (
    STEM_BYTES,
    calls_of,
    event_id_of,
    stem_of,
    stem_of_step,
    stored_once,
)
from eventstore.append.tool_fold import LookUp
from eventstore.domain.arguments import check_version, event_ids_as_bytes
from eventstore.domain.events import Event, MessageAdded, ModelResponded, ToolFailed
from eventstore.domain.finish_reasons import BROKEN_OFF, is_of_cut_off_response, why_not_whole
from eventstore.domain.json_types import is_json_object
from eventstore.provider_messages.history_messages import content_of
from eventstore.provider_messages.message_events import NewMessage, with_response
from eventstore.provider_messages.repeated_history import refuse_known
from eventstore.provider_messages.repeated_response import NamedResponse
from eventstore.providers.detection import listed
from eventstore.providers.failed_responses import FailedResponse, failure_of
from eventstore.providers.model import NativeMessage, ParsedCall, ParsedMessage
from eventstore.providers.native_form import without_restorable_native
from eventstore.providers.parsing import parse_own, parse_own_numbered
from eventstore.providers.registry import known_provider, list_key
from eventstore.providers.response_facts import model_responded, stated_facts
from eventstore.providers.responses import refuse_fragments, response_digest
from eventstore.providers.to_events import to_events

if TYPE_CHECKING:
    from uuid import UUID

    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.messages import Part
    from eventstore.domain.tool import Tool
    from eventstore.policies.prices import Prices
    from eventstore.providers.adapter_protocol import ResultTest
    from eventstore.session import Session


def record(  # noqa: PLR0913 - each with a default
    conversation_id: str,
    message: object,
    provider: str,
    event_ids: Sequence[UUID | str | bytes] | None = None,
    expected_version: int | None = None,
    *,
    step: str | None = None,
    usage: bool = True,
    latency: float | None = None,
    prices: Prices | None = None,
    broken_off: bool = False,
) -> Command[list[Tool]]:
    """Record one message; see `Conversation.record`.

    With `broken_off` it is what came of a response whose stream broke off: the message is marked.
    The calls of a response that is not whole fail at once, without having run. `prices` is for its
    `usage`. Of a response that a budget told of before its message, only what is new is stored
    (`recorded_responses`).
    """
    if expected_version is not None:
        check_version("expected_version", expected_version)
    refuse_fragments(message)
    given = [*listed(message if is_json_object(message) else [message], list_key(provider))]
    failures = [failure_of(each, known_provider(provider)) for each in given]
    failed = failures[0] if given and given[0] is message else None
    parsed = parse_own(given, provider, None, None, "the message", failures)
    items = [without_restorable_native(item, provider) for item in parsed]
    if broken_off:
        items = [
            msgspec.structs.replace(item, not_whole=BROKEN_OFF)
            if isinstance(item, ParsedMessage)
            else item
            for item in items
        ]
    facts = None
    if usage:
        facts = stated_facts(message, known_provider(provider), prices, latency, failed=failed)
    if broken_off and usage and facts is None:  # it was made all the same, and counts
        facts = ModelResponded(known_provider(provider))
    new = NewMessage(conversation_id, items, provider, facts, broken_off)
    if step is not None:
        command = _of_step(step, new, event_ids, expected_version)
    elif event_ids is not None:
        command = _identified(new, event_ids, expected_version)
    else:
        command = _of_response(new, message, expected_version)
    if failed is None or any(isinstance(item, ParsedMessage) and item.calls for item in items):
        return command
    return msgspec.structs.replace(command, result=partial(_raise, failed))


def _raise(failed: FailedResponse, _: PendingAppend) -> NoReturn:
    raise failed.exception()


def _of_response(
    new: NewMessage, message: object, expected_version: int | None
) -> Command[list[Tool]]:
    """Record a message; a response with an id is stored once.

    One that failed is, too: only what is new of it is stored (`NewMessage`).
    """
    name, facts = new.conversation_id, new.facts
    if new.items or (facts and not facts.failed):  # a response may say nothing at all
        stem = response_digest(message, new.items, new.provider)[:STEM_BYTES]
        if stem:
            response = NamedResponse(new, stem, expected_version)
            return Command(name, response.decide, response.result, exclusive=True)
    return Command(name, new.events, PendingAppend.tools, expected_version, exclusive=True)


def _identified(
    new: NewMessage, event_ids: Sequence[UUID | str | bytes], expected_version: int | None
) -> Command[list[Tool]]:
    """Record a message under the ids that the caller named."""
    ids = event_ids_as_bytes(event_ids, len(event_ids))
    if not new.items:
        ids = ids[:1]  # it said nothing, so that what it says of itself is all of it

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        events = new.events(state, look_up)
        named = _ids_with_added(events, ids) if new.items else ids[: len(events)]
        return IdentifiedEvents(events, named)

    def result(done: PendingAppend) -> list[Tool]:
        return _recorded_tools(done, ids)

    return Command(new.conversation_id, decide, result, expected_version, ids, exclusive=True)


def _of_step(
    step: str, message: NewMessage, event_ids: Sequence[object] | None, expected_version: int | None
) -> Command[list[Tool]]:
    """Record what a step of a run says; see `eventstore.append.stored_once`."""
    if event_ids is not None:
        raise ValueError(f"step is {step!r}, and event_ids are given: pass one of them")
    said = [content_of(item) for item in message.items]
    if message.facts is not None and message.facts.failed:
        said = [("failed", message.facts.response_id, message.facts.finish_reason)]
    stem = stem_of_step(step, said)
    recording = Command(
        message.conversation_id, message.events, PendingAppend.tools, expected_version
    )
    return stored_once(recording, stem, step)


def record_messages(
    session: Session,
    conversation_id: str,
    messages: Sequence[Any] | JsonObject,
    provider: str,
    is_error: ResultTest | None = None,
    is_rejection: ResultTest | None = None,
    *,
    imported: bool = True,
) -> Command[list[Tool]]:
    """Record messages as one append; see `Conversation.record_messages`."""
    given = [*listed(messages, list_key(provider))]
    failures = [failure_of(each, provider) for each in given]
    items, numbers = parse_own_numbered(given, provider, is_error, is_rejection, failures=failures)
    compacted = [without_restorable_native(item, provider) for item in items]
    failed = {n: why for n, why in enumerate(failures) if why is not None}
    facts = {n: model_responded(given[n], known_provider(provider)) for n in failed}

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        if state.version:
            refuse_known(items, numbers, session, conversation_id)
        made = to_events(compacted, state, look_up, provider, imported=imported)
        by_message: list[list[Event]] = [[] for _ in given]
        for events, number in zip(made.by_item, numbers, strict=True):
            by_message[number] += events
        for number, each in facts.items():
            if each.failed:
                by_message[number].append(each)
        return state.last_turn.with_not_run([e for events in by_message for e in events])

    last = failed.get(len(given) - 1)
    result = PendingAppend.tools if last is None else partial(_raise, last)
    return Command(conversation_id, decide, result, exclusive=True)


def record_turn(
    conversation_id: str,
    parts: Sequence[Part],
    calls: Sequence[ParsedCall],
    provider: str,
    native: NativeMessage | None,
    response_id: bytes,
    responded: ModelResponded | None = None,
    step: str | None = None,
) -> Command[list[Tool]]:
    """Record what a model said and the calls it made, as a host or framework gives them.

    `provider` names the form of `native`; it need not be registered. A turn with the same
    `response_id` is stored once, and with it what the response says of itself (`responded`). If
    the response is not whole, its calls fail. Ids of calls that were used before are qualified.
    `step` names a step of a run that may have to ask the model anew.
    """
    stem = stem_of(b"turn", provider.encode(), response_id)
    why = None
    if responded is not None:
        why = why_not_whole(responded.provider, responded.finish_reason)
    item = ParsedMessage("assistant", tuple(parts), tuple(calls), not_whole=why)

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        made = to_events([item], state, look_up, "openai", imported=False).events
        events: list[Event] = [
            msgspec.structs.replace(event, provider=provider, native=native)
            if type(event) is MessageAdded
            else event
            for event in made
        ]
        return with_response(events, responded, state)

    return stored_once(Command(conversation_id, decide, PendingAppend.tools), stem, step)


def _ids_with_added(events: Sequence[Event], given: Sequence[bytes]) -> list[bytes]:
    """Return the ids of events, where the caller named the ids of the message and its calls.

    What a response says of itself, and that a call did not run, are added to them.
    """
    added = [_is_added(event) for event in events]
    event_ids_as_bytes(given, len(events) - sum(added))
    rest = iter(given)
    return [
        event_id_of(stem_of(given[0], number.to_bytes(8, "big")), 0) if is_added else next(rest)
        for number, is_added in enumerate(added)
    ]


def _is_added(event: Event) -> bool:
    if type(event) is ToolFailed:
        return is_of_cut_off_response(event.failure)
    return type(event) is ModelResponded


def _recorded_tools(done: PendingAppend, known: Sequence[bytes]) -> list[Tool]:
    """Return the calls of a message; as they stand now, if it was recorded before."""
    if not known or not done.stored_ids >= set(known):
        return done.tools()
    return calls_of(done, lambda event_id: event_id in known)
