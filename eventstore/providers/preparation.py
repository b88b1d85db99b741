"""Turns made ready for a provider: content of another provider is made neutral, turn by turn.

1. Each turn is prepared for itself: what becomes of it depends on no other turn.
2. A turn that came from the same provider goes as it was.
3. What the provider cannot hold is listed as a change. The given turn is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from eventstore.domain.messages import Audio, Document, Image, Opaque, Part, Text
from eventstore.providers.adapter_protocol import ProviderAdapter
from eventstore.providers.crossing import Reasoning, crossed
from eventstore.providers.media import dropped_members
from eventstore.providers.model import Answer, Call, Change, Turn, with_turn_version
from eventstore.providers.parts_as_text import foreign_text, part_label, plain_text
from eventstore.providers.registry import PROVIDERS, adapter_of, audio, media
from eventstore.providers.server_kept_calls import inline_server_call
from eventstore.providers.server_kept_data import ServerKept, without_server_data

LaterSystem: TypeAlias = Literal["keep", "user"]
"""Whether a system message inside of a conversation stays, or becomes one of the user's."""


class Target(msgspec.Struct, frozen=True):
    """What turns are prepared for: a provider, and how it is told what it may not take.

    `takes_later_system` says whether the model takes system messages inside of the conversation;
    None where that is not known.
    """

    provider: str
    takes_later_system: bool | None = None
    later_system: LaterSystem = "keep"
    reasoning: Reasoning = "drop"
    server_kept: ServerKept = "keep"


class PreparedTurn(msgspec.Struct, frozen=True, gc=False):
    """A turn, the turns that its provider's adapter renders for it, and the changes of both."""

    turn: Turn
    said: Turn
    """The turn with a system message inside in the form that the model takes."""
    shown: tuple[Turn, ...]
    of_turn: Sequence[Change] = ()
    of_answers: Sequence[Change] = ()
    left_out_of_turn: Sequence[Change] = ()
    left_out_of_answers: Sequence[Change] = ()
    goes_as_it_was: bool = False
    """Whether nothing of it was changed."""


def prepared(turn: Turn, target: Target) -> PreparedTurn:
    """Return a turn as it goes to a provider."""
    if target.server_kept == "note":
        wording = without_server_data(turn, target.provider)
        if wording is not turn:
            return replace(_prepared(wording, target), turn=turn)
    return _prepared(turn, target)


def _prepared(turn: Turn, target: Target) -> PreparedTurn:
    rich = [call for call in turn.calls if _is_rich(call, target.provider)] if turn.calls else []
    said = _with_later_system(turn, target)
    if said is turn and turn.well_formed and turn.provider == target.provider and not rich:
        return PreparedTurn(turn, turn, (turn,), goes_as_it_was=True)
    adapter = adapter_of(target.provider)
    of_turn: list[Change] = []
    of_answers: list[Change] = []
    shown = _with_shown_parts(said, adapter, of_answers) if rich else said
    turns: tuple[Turn, ...] = (shown,)
    if not (shown.well_formed and shown.provider == target.provider):
        neutral = _with_neutral_parts(shown, adapter, of_turn)
        turns = tuple(crossed(neutral, target.provider, target.reasoning, of_turn))
    left_out: list[Change] = []
    if turn.provider != target.provider and not turn.hidden and _is_native(turn):
        left_out = [with_turn_version(change, turn) for change in _left_out(turn)]
    of_results = [change for call in rich for change in _left_out(call.answer, call.id)]
    return PreparedTurn(turn, said, turns, of_turn, of_answers, left_out, of_results)


def _is_rich(call: Call, provider: str) -> bool:
    """Return whether the result of a call is more than text here, or another provider's."""
    answer = call.answer
    if call.hidden:
        return False
    return bool(answer.stored_parts) or (answer.provider != provider and _is_native(answer))


def _with_later_system(turn: Turn, target: Target) -> Turn:
    """Return a turn, a system message inside in the form that the model takes.

    Its own goes back as it is, unless the user is to say it. Where the model is known to take
    them, one from elsewhere becomes a system message too.
    """
    takes, wanted = target.takes_later_system, target.later_system
    if turn.role not in ("system", "developer") or (takes is None and wanted == "keep"):
        return turn
    if takes is False or (wanted == "user" and turn.is_plain_text):
        return msgspec.structs.replace(turn, well_formed=False)
    said = plain_text(turn.parts, [])
    if wanted == "user" or turn.provider == target.provider or not said.strip():
        return turn
    native = {"role": "system", "content": said}
    return msgspec.structs.replace(turn, provider=target.provider, native=native, well_formed=True)


def _is_native(said: Turn | Answer) -> bool:
    """Return whether a turn or answer is in the form of a known provider."""
    has_form = said.native is not None or (isinstance(said, Turn) and said.server_call is not None)
    return has_form and said.provider in PROVIDERS


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
    if isinstance(part, Audio):
        own = adapter.audio_part(part)
        if own is not None:
            return Opaque(adapter.name, own)
        return Text(foreign_text(part, changes) or "")
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


def _left_out(said: Turn | Answer, call_id: str | None = None) -> Iterator[Change]:
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


def _with_shown_parts(turn: Turn, adapter: ProviderAdapter, changes: list[Change]) -> Turn:
    """Return a turn, its answers with the parts that they show here.

    Where results hold text alone, the parts are shown in a turn after them: `media_of_results`.
    """
    calls = [
        _with_shown_answer(call, adapter, changes) if _is_rich(call, adapter.name) else call
        for call in turn.calls
    ]
    return msgspec.structs.replace(turn, calls=calls)


def _with_shown_answer(call: Call, adapter: ProviderAdapter, changes: list[Change]) -> Call:
    answer = call.answer
    source = adapter_of(str(answer.provider)) if answer.provider in PROVIDERS else None
    if answer.is_error and source and source.error_flag and not adapter.error_flag:
        why = "an error has no flag here: its text says so"
        changes.append(Change("wrapped", "error", why, call.id))
    parts = answer.stored_parts
    if not parts and source is not None and answer.native is not None:
        parts = source.result_parts(answer.native)
    if all(isinstance(part, Text) for part in parts):
        return call
    dropped: list[Change] = []
    shown = tuple(_neutral_part(part, adapter, dropped) for part in parts)
    changes += [msgspec.structs.replace(each, call_id=call.id) for each in dict.fromkeys(dropped)]
    others = (part for part in shown if isinstance(part, Opaque) and part.provider != adapter.name)
    if names := dict.fromkeys(map(part_label, others)):
        why = f"of what the result shows, only text arrives whole: {', '.join(names)}"
        changes.append(Change("wrapped", "foreign-part", why, call.id))
    return msgspec.structs.replace(call, answer=msgspec.structs.replace(answer, shown_parts=shown))
