"""Rendering of turns into a provider's request.

A turn that came from the same provider goes back as it was. Content of
another provider is made neutral first; what the target cannot hold is listed as a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers.adapter_protocol import ProviderAdapter
from eventstore.providers.crossing import Reasoning, crossed
from eventstore.providers.media import dropped_members
from eventstore.providers.model import Answer, Call, Change, Rendered, Turn, with_turn_version
from eventstore.providers.models import ModelRules
from eventstore.providers.parts import inline_server_call, part_label, plain_text
from eventstore.providers.registry import PROVIDERS, adapter_of, audio, media, model_rules
from eventstore.providers.server_mends import mend_for_server

LaterSystem: TypeAlias = Literal["keep", "user"]


def render(
    turns: Sequence[Turn],
    provider: str,
    *,
    model: str | None = None,
    prefill: bool = False,
    cache: bool = False,
    later_system: LaterSystem = "keep",
    reasoning: Reasoning = "drop",
) -> Rendered:
    """Return the keyword arguments of the provider's SDK call for `turns`.

    What is known of `model` is kept to. With `prefill` they may end with the assistant's words,
    from which the model goes on, unless it is known to refuse that. With `cache` they are marked
    where the provider is to cache them. With `later_system="user"` the user says what a system
    message inside says. Another provider's reasoning is left out, or with `reasoning="note"` told
    in a note.

    Raises:
        ValueError: the provider is unknown.
    """
    known = model_rules(provider, model)
    provider = known.provider
    adapter = adapter_of(provider)
    foreign_turns = [turn for turn in turns if turn.provider != provider and _is_native(turn)]
    rich_calls = [
        call
        for turn in turns
        for call in turn.calls
        if call.answer.stored_parts
        or (call.answer.provider != provider and _is_native(call.answer))
        if not call.hidden
    ]
    changes: list[Change] = []
    said = _with_later_system(turns, provider, later_system, known)
    neutral: list[Turn] = []
    for turn in _without_merged(said, provider):
        if turn.well_formed and turn.provider == provider:
            neutral.append(turn)
        else:
            known_parts = _with_neutral_parts(turn, adapter, changes)
            neutral += crossed(known_parts, provider, reasoning, changes)
    changes += (change for call in rich_calls for change in _set_shown_parts(call, adapter))
    rendered = adapter.render(neutral)
    adapter.finish_request(rendered, prefill=prefill and known.takes_prefill)
    mend_for_server(rendered, adapter.list_key, known.refuses)
    if cache:
        adapter.mark_for_cache(rendered)
    rendered.changes += changes
    if foreign_turns or rich_calls:
        rendered.changes += (
            with_turn_version(change, turn)
            for turn in foreign_turns
            if not turn.hidden
            for change in _dropped_from(turn)
        )
        rendered.changes += (
            change for call in rich_calls for change in _dropped_from(call.answer, call.id)
        )
    return rendered


def _with_later_system(
    turns: Sequence[Turn], provider: str, wanted: LaterSystem, known: ModelRules
) -> Sequence[Turn]:
    """Return `turns`, their system messages in the form that the model takes inside.

    Its own go back as they are, unless the user is to say them. Where the model is known to take
    them, those from elsewhere become system messages too.
    """
    takes = known.takes_later_system
    if takes is None and wanted == "keep":
        return turns
    return [_later_system(turn, provider, wanted, takes) for turn in turns]


def _later_system(turn: Turn, provider: str, wanted: LaterSystem, takes: bool | None) -> Turn:  # noqa: FBT001 - a fact
    if turn.role not in ("system", "developer"):
        return turn
    if takes is False or (wanted == "user" and turn.is_plain_text):
        return msgspec.structs.replace(turn, well_formed=False)
    said = plain_text(turn.parts, [])
    if wanted == "user" or turn.provider == provider or not said.strip():
        return turn
    native = {"role": "system", "content": said}
    return msgspec.structs.replace(turn, provider=provider, native=native, well_formed=True)


def _is_native(said: Turn | Answer) -> bool:
    """Return whether a turn or answer is in the form of a known provider."""
    has_form = said.native is not None or (isinstance(said, Turn) and said.server_call is not None)
    return has_form and said.provider in PROVIDERS


def _without_merged(turns: Sequence[Turn], provider: str) -> Sequence[Turn]:
    """Return `turns` without those that the message with the results before them holds."""
    messages = [
        turn.results_message
        for turn in turns
        if turn.results_message is not None and not turn.hidden
    ]
    merged = {id(each.native) for each in messages if each.provider == provider}
    merged.discard(id(None))
    if not merged:
        return turns
    return [turn for turn in turns if not (turn.shares_message and id(turn.native) in merged)]


def _with_neutral_parts(turn: Turn, adapter: ProviderAdapter, changes: list[Change]) -> Turn:
    """Return `turn` with the images and documents in other providers' parts made neutral."""
    if turn.hidden or turn.is_plain_text:
        return turn
    found: list[Change] = []
    parts = tuple(_neutral_part(part, adapter, found) for part in turn.parts)
    changes += (with_turn_version(change, turn) for change in dict.fromkeys(found))
    return msgspec.structs.replace(turn, parts=parts)


def _neutral_part(part: Part, adapter: ProviderAdapter, changes: list[Change]) -> Part:
    """Return what another provider's part shows or plays, as this provider takes it."""
    if isinstance(part, Opaque) and part.provider != adapter.name and (heard := audio(part)):
        own = adapter.audio_part(heard)
        return part if own is None else Opaque(adapter.name, own)
    shown = media(part) if isinstance(part, Opaque) and part.provider != adapter.name else part
    if not isinstance(shown, Image | Document):
        return part
    taken = _as_taken(shown, adapter)
    given = part.data if isinstance(part, Opaque) else msgspec.to_builtins(part)
    dropped = dict.fromkeys(dropped_members(taken, given))
    if dropped:
        kind = "an image" if isinstance(shown, Image) else "a document"
        why = f"{', '.join(dropped)} of {kind} has no place here"
        changes.append(Change("dropped", "foreign-part", why))
    return taken


def _as_taken(shown: Image | Document, adapter: ProviderAdapter) -> Image | Document:
    """Return the image or document without a detail or name that the provider does not take."""
    if isinstance(shown, Image):
        known = shown.detail is None or shown.detail in adapter.image_details
        return shown if known else msgspec.structs.replace(shown, detail=None)
    known = adapter.takes_document_name(shown)
    return shown if known else msgspec.structs.replace(shown, name=None)


def _dropped_from(said: Turn | Answer, call_id: str | None = None) -> Iterator[Change]:
    """Yield what another provider's message or result holds that only that provider takes."""
    if isinstance(said, Turn) and said.server_call is not None:
        yield inline_server_call(said.server_call)
    elif isinstance(said, Turn) and not (said.parts or said.calls):
        yield Change("dropped", "empty", f"a message of {said.provider} that says nothing")
    if not said.provider:
        return
    members = dict.fromkeys(adapter_of(said.provider).provider_only_members(said.native or {}))
    if members:
        why = f"{', '.join(members)}: only for {said.provider}"
        yield Change("dropped", "foreign-member", why, call_id)


def _set_shown_parts(call: Call, adapter: ProviderAdapter) -> Iterator[Change]:
    """Give an answer the parts that it shows here; yield what of them does not arrive.

    Where results hold text alone, the parts are shown in a turn after them: `parts.media_turns`.
    """
    answer = call.answer
    source = adapter_of(answer.provider) if answer.provider else None
    if answer.is_error and source and source.error_flag and not adapter.error_flag:
        why = "an error has no flag here: its text says so"
        yield Change("wrapped", "error", why, call.id)
    parts = answer.stored_parts
    if not parts and source is not None and answer.native is not None:
        parts = source.result_parts(answer.native)
    if all(isinstance(part, Text) for part in parts):
        return
    dropped: list[Change] = []
    answer.shown_parts = tuple(_neutral_part(part, adapter, dropped) for part in parts)
    for change in dict.fromkeys(dropped):
        yield msgspec.structs.replace(change, call_id=call.id)
    others = (
        part
        for part in answer.shown_parts
        if isinstance(part, Opaque) and part.provider != adapter.name
    )
    if names := dict.fromkeys(map(part_label, others)):
        why = f"of what the result shows, only text arrives whole: {', '.join(names)}"
        yield Change("wrapped", "foreign-part", why, call.id)
