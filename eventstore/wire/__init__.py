"""Providers' messages to neutral items and turns, and back: one file per provider.

    message list ──parse──► items ──► events … turns ──render──► request

`validate` (in `rules`) is written apart from the renderers, so that they cannot share a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec

from eventstore.message import ROLES, Opaque, Part, Text
from eventstore.readable import readable
from eventstore.wire.content import copy
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
    key: str = getattr(provider(name), "LIST", "messages")
    return key


def parse(
    messages: Sequence[Any],
    name: str,
    is_error: Callable[[Any], bool] | None = None,
    is_rejection: Callable[[Any], bool] | None = None,
) -> list[WireItem]:
    """The items of messages in a provider's form: dicts, or the SDK's own objects.

    `is_error` tells of a result, as the provider wrote it, whether it is a failure; without it,
    the mark `is_error` does. `is_rejection` tells whether a person refused the call. Never raises
    on the messages themselves.
    """
    module = provider(name)
    if isinstance(messages, str | dict):  # one, which would be taken to pieces
        messages = [messages]
    given = [plain(message) for message in messages]
    return list(module.parse(given, is_error or bears_error_mark, is_rejection or _never))


def parse_in_place(
    messages: Sequence[Any], name: str, is_error: Callable[[Any], bool] | None = None
) -> tuple[list[WireItem], list[int]]:
    """The items of messages, and for each the message that it comes from; see `parse`."""
    place = -1
    known = all(type(message) is dict for message in messages) and _is_json(messages)

    def given() -> Iterator[Any]:  # every wire takes one message after the other
        nonlocal place
        for message in messages:
            place += 1
            yield message if known else plain(message)

    items: list[WireItem] = []
    places: list[int] = []
    for item in provider(name).parse(given(), is_error or bears_error_mark, _never):
        items.append(item)
        places.append(place)
    return items, places


def render(turns: Sequence[Turn], name: str) -> Rendered:
    """The keyword arguments of the provider's SDK call for `turns`."""
    module = provider(name)
    shows = hasattr(module, "result_parts") and getattr(module, "SHOWS_RESULTS", True)
    unshown = _show_results(turns, name, shows=shows)
    rendered: Rendered = module.render(_unclosed(turns, name))
    rendered.changes += unshown
    rendered.changes += _untold(turns, name)
    return rendered


def _unclosed(turns: Sequence[Turn], name: str) -> Sequence[Turn]:
    """`turns`, but for what stands in the message that holds the results before it."""
    told = {
        id(turn.closing.native)
        for turn in turns
        if turn.closing is not None and turn.closing.provider == name and not turn.hidden
    }
    if not told:
        return turns
    return [turn for turn in turns if not (turn.joined and id(turn.native) in told)]


def _untold(turns: Sequence[Turn], name: str) -> Iterator[Change]:
    """What other providers' messages hold that `name` has no place for, or that nobody has."""
    for turn in turns:
        if turn.hidden:
            continue
        if _is_foreign(turn, name):
            if not (turn.parts or turn.calls):
                why = f"a message of {turn.provider} that says nothing"
                yield Change("dropped", "empty", why)
            yield from _members(turn.provider or "", turn.native, None)
        for call in turn.calls:
            told = call.answer
            if _is_foreign(told, name) and not call.hidden:
                yield from _members(told.provider or "", told.native, call.id)


def _is_foreign(said: Turn | Answer, name: str) -> bool:
    return said.native is not None and said.provider != name and said.provider in PROVIDERS


def _members(speaker: str, native: Any, call_id: str | None) -> Iterator[Change]:
    members = dict.fromkeys(provider(speaker).untold(native))
    if members:
        why = f"{', '.join(members)}: only for {speaker}"
        yield Change("dropped", "foreign-member", why, call_id)


def _show_results(turns: Sequence[Turn], name: str, *, shows: bool) -> list[Change]:
    """Give other providers' results the parts that they show; a change where `name` cannot.

    A provider whose results hold more than text has `result_parts`.
    """
    changes: list[Change] = []
    for turn in turns:
        for call in turn.calls:
            answer = call.answer
            if answer.native is None or answer.provider == name or call.hidden:
                continue
            speaker = answer.provider or ""
            if answer.is_error and speaker in _FLAG_ERRORS and name not in _FLAG_ERRORS:
                why = "an error has no flag here: its text says so"
                changes.append(Change("wrapped", "error", why, call.id))
            known = speaker in PROVIDERS
            read = getattr(provider(speaker), "result_parts", None) if known else None
            parts: tuple[Part, ...] = read(answer.native) if read is not None else ()
            if all(isinstance(part, Text) for part in parts):
                continue
            answer.parts = parts
            if not shows or answer.is_error or any(isinstance(part, Opaque) for part in parts):
                why = "what the result shows beside its text is named only"
                changes.append(Change("wrapped", "foreign-part", why, call.id))
    return changes


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


__all__ = [
    "PROVIDERS",
    "ROLES",
    "Answer",
    "Call",
    "Change",
    "Closing",
    "Finding",
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
    "parse",
    "parse_in_place",
    "plain",
    "provider",
    "render",
    "transcribe",
    "transcribe_alone",
    "validate",
]
