"""Helpers for content that all adapters share: conversion to text, copies, arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Protocol, TypeVar

import msgspec

from eventstore.domain.calls import FunctionCall
from eventstore.domain.fingerprint import canonical
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, json_members
from eventstore.domain.jsonable import readable, safe_repr
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.domain.nesting import json_text, too_deep
from eventstore.domain.own_texts import error_as_text
from eventstore.providers.media import MEDIA
from eventstore.providers.model import Answer, Call, Change, Turn

_COMPACTIONS = frozenset({"compaction", "compaction_summary"})
SILENT_KINDS = frozenset(
    {
        "additional_tools",
        "cachePoint",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "configuration_update",
        "fallback",
        "item_reference",
        "mcp_list_tools",
        "mcp_tool_listing",
        "toolAddition",
        "toolRemoval",
        "tool_addition",
        "tool_removal",
        "tool_search_call",
        "tool_search_output",
    }
)
"""Parts that are about a provider's own tools and storage, and say nothing to another."""

REASONING_KINDS: Final = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoningContent"}
)
"""Parts that hold what the model thought."""

UNSIGNED: Final = "skip_thought_signature_validator"
"""What Google documents for a call whose thought signature is not known."""

T = TypeVar("T")

_NESTED = frozenset((dict, list))

_encode = msgspec.json.Encoder().encode


def function_call(name: object, arguments: object) -> FunctionCall:
    """Return a call made of the name and arguments in a message, whatever these are."""
    clean = as_text(name)
    try:
        if not isinstance(arguments, str):  # all JSON text has a fingerprint
            canonical(clean, arguments)
        return FunctionCall.of(clean, arguments)
    except (TypeError, ValueError):  # UnhashableArguments is a ValueError
        return FunctionCall.of(clean, raw_text(arguments))


def raw_text(arguments: object) -> str:
    """Return the text of arguments that are nested too deeply, or that JSON cannot express.

    It is never that of other arguments, which would run.
    """
    if too_deep(arguments) is None:
        return safe_repr(arguments)
    try:
        return json_text(arguments)
    except (TypeError, ValueError, OverflowError):
        return safe_repr(arguments)


def is_call_of(made: FunctionCall, call: Call) -> bool:
    """Return whether a call in a native message is still the one that is to be rendered."""
    return (made.name, made.arguments, made.raw) == (call.name, call.arguments, call.raw)


def object_arguments(call: Call, changes: list[Change]) -> JsonObject:
    """Return the arguments as an object, as providers demand; any other value is wrapped in one."""
    if call.free_text is not None:
        why = "a function takes the text of a custom tool as a member"
        changes.append(Change("wrapped", "arguments", why, call.id))
        return {"input": call.free_text}
    if call.raw is None and isinstance(call.arguments, dict):
        return copy(call.arguments)
    changes.append(Change("wrapped", "arguments", "its arguments are not a JSON object", call.id))
    return {"raw_arguments": call.raw if call.raw is not None else call.arguments}


def foreign_text(part: Opaque, changes: list[Change]) -> str | None:
    """Return the text of another provider's part; None if it means nothing to this provider."""
    data = members_of(part.data)
    kind, text = kind_of(data), data.get("text")
    body: JsonValue = data.get(kind)
    if data.get("thought") is True or kind in _BESIDE:
        kind = "thinking"
    beside = [key for key in data if data[key] and key not in ("type", "text", "content")]
    if kind == "citationsContent" and isinstance(body, dict):
        kind, text = "text", as_text(body.get("content"))
        beside = [key for key in body if body[key] and key != "content"]
    if kind in ("text", "input_text", "output_text") and isinstance(text, str):
        if beside:
            why = f"{', '.join(map(str, beside))} of a text is only for {part.provider}"
            changes.append(Change("dropped", "foreign-part", why))
        return text
    others = [str(key) for key in beside if key not in (kind, "id", "source")]
    named = f"{kind} ({', '.join(others)})" if others else kind
    if kind in REASONING_KINDS:
        changes.append(Change("dropped", "reasoning", f"{named} is only for {part.provider}"))
        return None
    if kind == "refusal" and isinstance(data.get("refusal"), str):
        return str(data["refusal"])
    is_summary = _is_text(data.get("content"))
    if kind in _COMPACTIONS and data.get("encrypted_content") and not is_summary:
        why = f"only {part.provider} can read the summary in {named}"
        changes.append(Change("wrapped", "foreign-part", why))
        return f"[A summary of what came before stands here. Only {part.provider} can read it.]"
    if kind in SILENT_KINDS and not is_summary:  # a compaction may be one
        changes.append(Change("dropped", "foreign-part", f"{named} is only for {part.provider}"))
        return None
    changes.append(Change("wrapped", "foreign-part", f"{named} of {part.provider} became text"))
    content = _labelled_content(body, data.get("source"), data) or ", not shown here]"
    return f"[{kind} of {part.provider}{content}"


def part_label(part: Part) -> str:
    """Return the kind of a part with the names of its members."""
    if isinstance(part, Image | Document):
        return type(part).__name__.lower()
    data = members_of(part.data) if isinstance(part, Opaque) else {}
    kind = kind_of(data)
    held: list[JsonValue] = [data, data.get(kind)]
    keys = (str(key) for each in held if isinstance(each, dict) for key in each if each[key])
    members = [key for key in dict.fromkeys(keys) if key not in ("type", kind)]
    return f"{kind} ({', '.join(members)})" if members else kind


def has_text(data: JsonObject) -> bool:
    """Return whether another provider's part holds text or an address."""
    return bool(_labelled_content(data.get(kind_of(data)), data.get("source"), data))


def _labelled_content(*held: JsonValue) -> str:
    """Return the text or the address in the members of a part, as the end of its label."""
    for each in held:
        if isinstance(each, dict):
            if words := _words(each):
                return f"]\n{words}"
            found: list[str] = [each[key] for key in _ADDRESSES if _is_text(each.get(key))]
            if found and not found[0].startswith("data:"):
                return f": {found[0]}]"
    for each in held:
        if isinstance(each, dict) and (words := "\n".join(_all_words(each))):
            return f"]\n{words}"
    return ""


def members_of(value: JsonValue) -> JsonObject:
    """Return an object's members; a value that is not an object has none."""
    return value if isinstance(value, dict) else {}


def other_members(value: JsonValue, known: Collection[str]) -> Iterator[str]:
    """Yield the names of an object's members that are neither empty nor in `known`."""
    if isinstance(value, dict):
        yield from (
            str(key) for key, item in value.items() if key not in known and item not in _NOTHING
        )


_NOTHING: tuple[object, ...] = (None, "", [], {})


def inline_server_call(call: Call) -> Change:
    """Return the change for a result that becomes text, as the server keeps its call."""
    return Change("wrapped", "orphan", "the result answers no call of this history", call.id)


def references_server_call(parts: tuple[Part, ...]) -> bool:
    """Return whether a message refers to items that the provider's server keeps."""
    return any(isinstance(part, Opaque) and _is_reference(part.data) for part in parts)


def _is_reference(data: JsonValue) -> bool:
    return (
        isinstance(data, dict)
        and data.get("type", "item_reference") in (None, "item_reference")
        and isinstance(data.get("id"), str)
    )


def described(shown: Image | Document) -> str:
    """Return the text that replaces an image or document where it cannot be shown."""
    name = shown.name if isinstance(shown, Document) else None
    return f"[{' '.join(filter(None, (part_label(shown), name, shown.url)))}]"


def without_media(parts: tuple[Part, ...], changes: list[Change]) -> tuple[Part, ...]:
    """Return `parts` with images and documents as text, where only the user may show them."""
    kinds = dict.fromkeys(part_label(p) for p in parts if isinstance(p, Image | Document))
    changes += (Change("wrapped", kind, f"only the user shows {kind}s here") for kind in kinds)
    return tuple(
        Text(described(part)) if isinstance(part, Image | Document) else part for part in parts
    )


def media_turns(turn: Turn, provider: str, changes: list[Change]) -> Iterator[Turn]:
    """Yield a user's turn with the media of results, for results that can only be text."""
    parts: list[Part] = []
    for call in turn.calls:
        answer = call.answer
        if not answer.shown_parts or call.hidden or answer.provider == provider:
            continue
        if shown := [part for part in answer.shown_parts if _is_shown_by_user(part, provider)]:
            why = "what the result shows follows it"
            changes.append(Change("moved", "foreign-part", why, call.id))
            parts += [Text(f"[Shown by {call.name or 'the tool'}:]"), *shown]
    if parts:
        yield Turn("user", tuple(parts))


def _is_shown_by_user(part: Part, provider: str) -> bool:
    """Return whether a user's message may show a part of a result."""
    if isinstance(part, Opaque):
        return part.provider == provider
    return not isinstance(part, Text)


def answer_text(answered: Call | Answer) -> str:
    """Return a call's answer as one text, for a tool message without an error flag.

    An error is the object `{"error": "..."}`. The line that the library adds comes last.
    """
    answer = answered.answer if isinstance(answered, Call) else answered
    text = error_as_text(answer.text) if answer.is_error else answer.text
    return f"{text}\n{answer.note}" if answer.note else text


def plain_text(parts: tuple[Part, ...], changes: list[Change]) -> str:
    """Return parts as one text, for places that take only text, such as a system prompt."""
    said: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            said.append(part.text)
        elif isinstance(part, Image | Document):
            changes.append(Change("wrapped", part_label(part), "only text can stand here"))
            said.append(described(part))
        else:
            said.append(foreign_text(part, changes) or "")
    return "\n".join(filter(None, said))


def shown_text(parts: tuple[Part, ...]) -> str:
    """Return the parts of a result as one text, in which a provider's own media has its name."""
    named = (Text(as_text([part.data])) if isinstance(part, Opaque) else part for part in parts)
    return plain_text(tuple(named), [])


def beside_text(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts of a result that shows more than text; of any other, nothing."""
    return () if all(isinstance(part, Text) for part in parts) else parts


def stored_parts(result: object) -> tuple[Part, ...]:
    """Return the parts of a result that is stored in parts; no parts if it is damaged."""
    try:
        return msgspec.convert(result, tuple[Part, ...])
    except msgspec.ValidationError:
        return ()


_BESIDE = ("thoughtSignature", "thought_signature")  # members of a part that do not say its kind
_ADDRESSES = ("fileUri", "file_uri", "url", "file_url", "document_url", "filename", "file_id")


def kind_of(data: JsonObject) -> str:
    """Return the kind of a part: its type, or the name of the member that holds its content."""
    kind = data.get("type")
    if isinstance(kind, str):
        return kind
    return str(next((key for key in data if key not in _BESIDE), next(iter(data), "part")))


def _words(held: JsonObject) -> str | None:
    """Return the text of an object that is a text block of some kind, otherwise None."""
    if held.get("type") == "text" and _is_text(held.get("data")):
        return str(held["data"])
    return as_text(held.get("content")) if held.get("type") in _TEXTS else None


def _all_words(held: JsonValue, depth: int = 8) -> Iterator[str]:
    """Yield the texts in the input and output of a provider's own tool: code, queries, prints."""
    if isinstance(held, list) and depth:
        for each in held:
            yield from [each] if isinstance(each, str) else _all_words(each, depth - 1)
    elif isinstance(held, dict) and depth and held.get("type") != "image_generation_call":
        if words := _words(held):
            yield words
            return
        members: dict[str, JsonValue] = held
        for key, value in members.items():
            if key in _INPUT_MEMBERS and value:
                yield as_text(value)
            elif key in _OUTPUT_MEMBERS and isinstance(value, str):
                if value.strip() and not value.startswith("data:"):
                    yield value
            elif key in _OUTPUT_MEMBERS:
                yield from _all_words(value, depth - 1)


_TEXTS = ("compaction", "content", "search_result")
_INPUT_MEMBERS = frozenset({"args", "arguments", "input"})
_OUTPUT_MEMBERS = frozenset(
    {
        "action",
        "code",
        "command",
        "commands",
        "content",
        "document",
        "error",
        "error_code",
        "error_message",
        "filename",
        "json",
        "logs",
        "name",
        "operation",
        "output",
        "outputs",
        "path",
        "pattern",
        "queries",
        "query",
        "reason",
        "response",
        "result",
        "results",
        "s3Location",
        "source",
        "stderr",
        "stdout",
        "text",
        "title",
        "tool_references",
        "tool_name",
        "uri",
        "url",
    }
)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def as_text(value: object) -> str:
    """Return any content as text: text as it is, text parts joined, anything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if is_json_list(value) and value:
        return "\n".join(_item_text(item) for item in value)
    plain = readable(value)[0]
    return plain if isinstance(plain, str) else _encode(plain).decode()


def _item_text(item: JsonValue) -> str:
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        return str(item["text"])
    if isinstance(item, dict) and item.get("type") in MEDIA:
        return f"[{item['type']}]"
    return as_text(item) if not isinstance(item, list) else as_text({"items": item})


def copy(value: T) -> T:
    """Return a deep copy of a JSON value."""
    copied: Any = value
    if type(copied) not in _NESTED:
        return value
    copied = copied.copy()
    unfinished = [copied]
    while unfinished:
        outer = unfinished.pop()
        for key, item in json_members(outer):
            if type(item) in _NESTED:
                outer[key] = inner = item.copy()
                unfinished.append(inner)
    same: T = copied
    return same


class Copier(Protocol):
    """Copies values."""

    def __call__(self, value: T, /) -> T:
        """Return a deep copy."""
        ...


copy_json: Final[Copier] = msgspec.to_builtins
"""Return a deep copy of a value that msgspec encodes, twice as fast as `copy`, which takes any."""


def native_part(part: Opaque) -> JsonObject:
    """Return a copy of what a part holds, for the provider that wrote it."""
    data: JsonObject = part.data
    return copy(data)


def in_order_of(given: JsonObject, members: JsonObject) -> JsonObject:
    """Return `members` in the order in which `given` has them."""
    if list(given) == list(members):
        return members
    return {**{key: members[key] for key in given if key in members}, **members}


def results_message_for(
    turn: Turn,
    provider: str,
    key: str,
    results: list[JsonObject],
    copied: Callable[[Any], Any] = copy,
) -> JsonObject:
    """Return the user message with a turn's results, one for each call that is shown.

    It is the provider's own message where that is known. Its blocks are the member `key`.
    """
    results_message = turn.results_message
    if results_message is None or results_message.provider != provider:
        return {"role": "user", key: results}
    shown = (call.id for call in turn.calls if not call.hidden)
    by_call = dict(zip(shown, results, strict=True))
    ordered = [by_call[call_id] for call_id in results_message.call_ids]
    native = results_message.native if isinstance(results_message.native, dict) else {}
    blocks: JsonValue = native.get(key)
    if not isinstance(blocks, list) or blocks.count(None) != len(ordered):
        return {"role": "user", key: ordered}
    waiting = iter(ordered)
    filled = [next(waiting) if block is None else copied(block) for block in blocks]
    return {name: filled if name == key else copied(value) for name, value in native.items()}
