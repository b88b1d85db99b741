"""Providers' messages to neutral items and turns, and back: one file per provider.

    message list ──parse──► items ──► events … turns ──render──► request

`validate` (in `rules`) is written apart from the renderers, so that they cannot share a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from operator import length_hint
from types import ModuleType
from typing import Any

import msgspec

from eventstore.message import ROLES, Document, Image, Opaque, Part, Text
from eventstore.readable import readable
from eventstore.wire.content import (
    beside,
    copy,
    named_part,
    plain_text,
    refers,
    stored_parts,
    unheld,
)
from eventstore.wire.given import MESSAGES, ForeignForm, listed, refuse_foreign, unwrapped
from eventstore.wire.items import (
    Answer,
    Call,
    Change,
    Closing,
    Rendered,
    Turn,
    WireCall,
    WireItem,
    WireMessage,
    WireResult,
    of_turn,
)
from eventstore.wire.rules import Violation, is_valid, validate
from eventstore.wire.transcript import Finding, Transcript, transcribe, transcribe_alone

_encode = msgspec.json.Encoder().encode

PROVIDERS: dict[str, str | ModuleType] = {
    "anthropic": "eventstore.wire.anthropic",
    "bedrock": "eventstore.wire.bedrock",
    "gemini": "eventstore.wire.gemini",
    "mistral": "eventstore.wire.mistral",
    "ollama": "eventstore.wire.ollama",
    "openai": "eventstore.wire.openai",
    "openai-responses": "eventstore.wire.responses",
}
"""Provider to the module that speaks its form, or that module's name until it is asked for."""


def provider(name: str) -> ModuleType:
    """The module that speaks a provider's form.

    Raises:
        ValueError: nobody here speaks it.
    """
    known = PROVIDERS.get(name)
    if known is None:
        raise ValueError(f"provider is {name!r}: pass one of {', '.join(sorted(PROVIDERS))}")
    if isinstance(known, str):
        known = PROVIDERS[name] = import_module(known)
    return known


def list_key(name: str) -> str:
    """The keyword argument that holds the message list of a provider."""
    key: str = provider(name).LIST
    return key


def parse(
    messages: Sequence[Any] | dict[str, Any],
    name: str,
    is_error: Callable[[Any], bool] | None = None,
    is_rejection: Callable[[Any], bool] | None = None,
) -> list[WireItem]:
    """The items of messages in a provider's form: dicts, or the SDK's own objects.

    `is_error` tells of a result, as the provider wrote it, whether it is a failure; without it,
    the mark `is_error` does. `is_rejection` tells whether a person refused the call. Of a whole
    request, its messages are taken. Never raises on the messages themselves.
    """
    return _parsed(_plain_list(messages, name), name, is_error, is_rejection)


def parse_own(
    messages: Sequence[Any] | dict[str, Any],
    name: str,
    is_error: Callable[[Any], bool] | None = None,
    is_rejection: Callable[[Any], bool] | None = None,
    place: str = MESSAGES,
) -> list[WireItem]:
    """The items of messages that are to be kept; see `parse`.

    Raises:
        ValueError: the calls, or results, are in another provider's form.
    """
    given = _plain_list(messages, name)
    items = _parsed(given, name, is_error, is_rejection)
    refuse_foreign(given, items, name, place)
    return items


def _parsed(
    given: list[Any],
    name: str,
    is_error: Callable[[Any], bool] | None,
    is_rejection: Callable[[Any], bool] | None,
) -> list[WireItem]:
    tests = (is_error or bears_error_mark, is_rejection or _never)
    return list(provider(name).parse(given, *tests))


def _plain_list(messages: Any, name: str) -> list[Any]:
    return [plain(message) for message in listed(messages, list_key(name))]


def parse_in_place(
    messages: list[Any], name: str, is_error: Callable[[Any], bool] | None = None
) -> tuple[list[WireItem], list[int]]:
    """The items of messages, and for each the message that it comes from; see `parse`."""
    known = {*map(type, messages)} <= {dict} and _is_json(messages)
    given = iter(messages)  # every wire takes one message after the other
    last = len(messages) - 1
    items: list[WireItem] = []
    places: list[int] = []
    taken = given if known else map(plain, given)
    for item in provider(name).parse(taken, is_error or bears_error_mark, _never):
        items.append(item)
        places.append(last - length_hint(given))
    return items, places


def render(turns: Sequence[Turn], name: str) -> Rendered:
    """The keyword arguments of the provider's SDK call for `turns`."""
    module = provider(name)
    told = [turn for turn in turns if turn.provider != name and _is_foreign(turn)]
    heard = [
        call
        for turn in turns
        for call in turn.calls
        if call.answer.given or (call.answer.provider != name and _is_foreign(call.answer))
        if not call.hidden
    ]
    changes: list[Change] = []
    given = [
        turn if turn.exact and turn.provider == name else _crossed(turn, name, changes)
        for turn in _unclosed(turns, name)
    ]
    changes += (change for call in heard for change in _shown(call, name))
    rendered: Rendered = module.render(given)
    rendered.changes += changes
    if told or heard:
        rendered.changes += (
            of_turn(change, turn) for turn in told if not turn.hidden for change in _untold(turn)
        )
        rendered.changes += (change for call in heard for change in _untold(call.answer, call.id))
    return rendered


def _crossed(turn: Turn, name: str, changes: list[Change]) -> Turn:
    """`turn` with the images and documents in other providers' parts as such."""
    if turn.hidden:
        return turn
    for part in turn.parts:
        if type(part) is not Text:
            break
    else:
        return turn
    found: list[Change] = []
    parts = tuple(_neutral(part, name, found) for part in turn.parts)
    changes += (of_turn(change, turn) for change in dict.fromkeys(found))
    return msgspec.structs.replace(turn, parts=parts)


def _neutral(part: Part, name: str, changes: list[Change]) -> Part:
    """What another provider's part shows, as `name` takes it."""
    shown = media(part) if isinstance(part, Opaque) and part.provider != name else part
    if not isinstance(shown, Image | Document):
        return part
    taken = _taken(shown, provider(name))
    given = part.data if isinstance(part, Opaque) else msgspec.to_builtins(part)
    dropped = dict.fromkeys(beside(taken, given))
    if dropped:
        kind = "an image" if isinstance(shown, Image) else "a document"
        why = f"{', '.join(dropped)} of {kind} has no place here"
        changes.append(Change("dropped", "foreign-part", why))
    return taken


def _taken(shown: Image | Document, module: ModuleType) -> Image | Document:
    """An image without the detail, a document without the name, that a provider does not take."""
    if isinstance(shown, Image):
        known = shown.detail is None or shown.detail in getattr(module, "DETAILS", ())
        return shown if known else msgspec.structs.replace(shown, detail=None)
    takes = getattr(module, "takes_name", None)
    known = takes is None or takes(shown)
    return shown if known else msgspec.structs.replace(shown, name=None)


def media(part: Opaque) -> Image | Document | None:
    """The image or document that a provider's part shows, where others can show it, too."""
    if part.provider not in PROVIDERS or not isinstance(part.data, dict):
        return None
    read = getattr(provider(part.provider), "media", None)
    shown: Image | Document | None = read(part.data) if read is not None else None
    return shown


def _is_foreign(said: Turn | Answer) -> bool:
    told = said.native is not None or (isinstance(said, Turn) and said.held is not None)
    return told and said.provider in PROVIDERS


def _unclosed(turns: Sequence[Turn], name: str) -> Sequence[Turn]:
    """`turns`, but for what stands in the message that holds the results before it."""
    closings = [turn.closing for turn in turns if turn.closing is not None and not turn.hidden]
    told = {id(each.native) for each in closings if each.provider == name}
    told.discard(id(None))
    if not told:
        return turns
    return [turn for turn in turns if not (turn.joined and id(turn.native) in told)]


def _untold(said: Turn | Answer, call_id: str | None = None) -> Iterator[Change]:
    """What another provider's message or result holds that only that provider takes."""
    if isinstance(said, Turn) and said.held is not None:
        yield unheld(said.held)
    elif isinstance(said, Turn) and not (said.parts or said.calls):
        yield Change("dropped", "empty", f"a message of {said.provider} that says nothing")
    native = said.native or {}
    members = dict.fromkeys(provider(said.provider).untold(native)) if said.provider else ()
    if members:
        why = f"{', '.join(members)}: only for {said.provider}"
        yield Change("dropped", "foreign-member", why, call_id)


def _shown(call: Call, name: str) -> Iterator[Change]:
    """Give a result that is not `name`'s own the parts that it shows; a change where it cannot.

    Where results hold text alone, they are shown apart; see `content.shown_apart`.
    """
    answer = call.answer
    if answer.is_error and answer.provider in _FLAG_ERRORS and name not in _FLAG_ERRORS:
        why = "an error has no flag here: its text says so"
        yield Change("wrapped", "error", why, call.id)
    parts = answer.given or _result_parts(answer)
    if all(isinstance(part, Text) for part in parts):
        return
    dropped: list[Change] = []
    answer.parts = tuple(_neutral(part, name, dropped) for part in parts)
    if not answer.is_error:
        for change in dict.fromkeys(dropped):
            yield msgspec.structs.replace(change, call_id=call.id)
        parts = tuple(part for part in answer.parts if isinstance(part, Opaque))
    if names := dict.fromkeys(named_part(part) for part in parts if not isinstance(part, Text)):
        why = f"of what the result shows, only text arrives whole: {', '.join(names)}"
        yield Change("wrapped", "foreign-part", why, call.id)


def _result_parts(answer: Answer) -> tuple[Part, ...]:
    """The parts of a provider's own result; who has no `result_parts` gives text alone."""
    read = getattr(provider(answer.provider or ""), "result_parts", None)
    parts: tuple[Part, ...] = read(answer.native) if read is not None else ()
    return parts


_FLAG_ERRORS = frozenset({"anthropic", "bedrock", "gemini"})  # whose results bear a mark for it


def compact(item: WireItem, name: str) -> WireItem:
    """`item` without its native form where ours gives it back byte for byte."""
    if item.native is None or (isinstance(item, WireMessage) and not item.exact):
        return item
    if item.rejected if isinstance(item, WireResult) else item.piece:
        return item
    module = provider(name)
    ours: Any
    if isinstance(item, WireMessage) and item.results and not item.parts:
        ours = {"role": "user", module.BLOCKS: [None] * item.results}
    elif isinstance(item, WireResult):
        call = Call(item.id or "", item.name or "", {}, Answer(item.text, item.is_error))
        ours = module.render_result(call, item.id or "")
    else:
        calls = [
            Call(c.id or "", c.call.name, c.call.arguments, Answer(""), c.id, c.call.raw)
            for c in item.calls
        ]
        messages = module.render([Turn(item.role, item.parts, calls)]).arguments[list_key(name)]
        ours = messages[0] if messages else None
    if ours != item.native or _encode(ours) != _encode(item.native):  # 1 is 1.0, bytes are base64
        return item
    return msgspec.structs.replace(item, native=None)


def bears_error_mark(result: Any) -> bool:
    """Whether a result bears `is_error: true`."""
    return isinstance(result, dict) and result.get("is_error") is True


def _never(_: Any) -> bool:
    return False


def plain(message: Any) -> Any:
    """A message as plain JSON values, whatever it was made of."""
    if type(message) is dict and _is_json(message):
        return message
    message = _dumped(message)
    for key in _HOLDERS if isinstance(message, dict) else ():
        held = message.get(key)
        if isinstance(held, list) and not all(type(each) is dict for each in held):
            message = {**message, key: [_dumped(each) for each in held]}
    return message if _is_json(message) else readable(message)[0]


def _is_json(value: Any) -> bool:
    try:
        _encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_HOLDERS = ("content", "parts", "output")  # members that may hold an SDK's objects


def _dumped(value: Any) -> Any:
    """A dict of an SDK's object; members that are None say nothing, but for `content`."""
    try:
        value = _spoken(value)
        dump = getattr(value, "model_dump", None)
        if not callable(dump):
            return value
        fields = dump(mode="json", exclude_none=True)
    except Exception:  # noqa: BLE001 - foreign code, which may look for files
        return value
    if isinstance(fields, dict) and fields.get("role") == "assistant":
        fields.setdefault("content", None)
        if fields.get("annotations") == []:  # says nothing, and some servers refuse it
            del fields["annotations"]
    return fields


def _spoken(value: Any) -> Any:
    """The message in an SDK's whole response, or a choice of it."""
    choices = getattr(value, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else value
    held = getattr(choice, "message", None)
    return held if callable(getattr(held, "model_dump", None)) else value


__all__ = [
    "MESSAGES",
    "PROVIDERS",
    "ROLES",
    "Answer",
    "Call",
    "Change",
    "Closing",
    "Finding",
    "ForeignForm",
    "Rendered",
    "Transcript",
    "Turn",
    "Violation",
    "WireCall",
    "WireItem",
    "WireMessage",
    "WireResult",
    "bears_error_mark",
    "compact",
    "copy",
    "is_valid",
    "list_key",
    "listed",
    "parse",
    "parse_in_place",
    "parse_own",
    "plain",
    "plain_text",
    "provider",
    "refers",
    "refuse_foreign",
    "render",
    "stored_parts",
    "transcribe",
    "transcribe_alone",
    "unwrapped",
    "validate",
]
