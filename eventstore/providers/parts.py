"""Content as every wire needs it: text of anything, exact copies, arguments as an object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from eventstore.fingerprint import canonical
from eventstore.message import PDF, Document, Image, Opaque, Part, Text
from eventstore.readable import readable
from eventstore.tool import FunctionCall
from eventstore.wire.items import Answer, Call, Change, Turn

MEDIA = ("image", "image_url", "document", "document_url", "file", "input_audio",
         "input_image", "input_file")  # fmt: skip

UNSAID = frozenset({
    "additional_tools", "cachePoint", "compaction", "compaction_summary", "compaction_trigger",
    "configuration_update", "fallback", "item_reference", "mcp_list_tools", "mcp_tool_listing",
    "toolAddition", "toolRemoval", "tool_addition", "tool_removal", "tool_search_call",
    "tool_search_output",
})  # fmt: skip
"""Parts that are about a provider's own tools and storage, and say nothing to another."""

_NESTED = frozenset((dict, list))

_encode = msgspec.json.Encoder().encode


def function_call(name: Any, arguments: Any) -> FunctionCall:
    """A call from whatever a message holds in place of a name and arguments."""
    clean = as_text(name)
    try:
        if not isinstance(arguments, str):  # JSON text can hold nothing that has no fingerprint
            canonical(clean, arguments)
        return FunctionCall.of(clean, arguments)
    except (TypeError, ValueError, RecursionError):  # UnhashableArguments is a ValueError
        return FunctionCall.of(clean, as_text(repr(arguments)))


def object_arguments(call: Call, changes: list[Change]) -> dict[str, Any]:
    """Arguments as the object that a wire demands; text that is none is wrapped."""
    if call.raw is None and isinstance(call.arguments, dict):
        return copy(call.arguments)  # type: ignore[no-any-return]
    changes.append(Change("wrapped", "arguments", "its arguments are no JSON object", call.id))
    return {"raw_arguments": call.raw if call.raw is not None else call.arguments}


def foreign_text(part: Opaque, changes: list[Change]) -> str | None:
    """What another provider's part says in text, None where it says nothing to this one."""
    data = part.data if isinstance(part.data, dict) else {}
    kind, text = _kind(data), data.get("text")
    body = data.get(kind)
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
    if kind in ("thinking", "redacted_thinking", "reasoning", "reasoningContent"):
        changes.append(Change("dropped", "reasoning", f"{named} is only for {part.provider}"))
        return None
    if kind == "refusal" and isinstance(data.get("refusal"), str):
        return str(data["refusal"])
    if kind in UNSAID and not _is_text(data.get("content")):  # a compaction may be a summary
        changes.append(Change("dropped", "foreign-part", f"{named} is only for {part.provider}"))
        return None
    changes.append(Change("wrapped", "foreign-part", f"{named} of {part.provider} became text"))
    told = _told(body, data.get("source"), data) or ", not shown here]"
    return f"[{kind} of {part.provider}{told}"


def named_part(part: Part) -> str:
    """What a part is, and the members that it has, by their names."""
    if isinstance(part, Image | Document):
        return type(part).__name__.lower()
    data = part.data if isinstance(part, Opaque) and isinstance(part.data, dict) else {}
    kind = _kind(data)
    held = [data, data.get(kind)]
    keys = (str(key) for each in held if isinstance(each, dict) for key in each if each[key])
    members = [key for key in dict.fromkeys(keys) if key not in ("type", kind)]
    return f"{kind} ({', '.join(members)})" if members else kind


def has_words(data: dict[str, Any]) -> bool:
    """Whether another provider's part says more than that it is there."""
    return bool(_told(data.get(_kind(data)), data.get("source"), data))


def _told(*held: Any) -> str:
    """What can be told of a part: its words, or where it is."""
    for each in held:
        if isinstance(each, dict):
            if words := _words(each):
                return f"]\n{words}"
            found = [each[key] for key in _ADDRESSES if _is_text(each.get(key))]
            if found and not found[0].startswith("data:"):
                return f": {found[0]}]"
    for each in held:
        if isinstance(each, dict) and (words := "\n".join(_all_words(each))):
            return f"]\n{words}"
    return ""


def beyond(held: Any, told: Collection[str]) -> Iterator[str]:
    """The members of `held` that say something and are none of those that are told elsewhere."""
    if isinstance(held, dict):
        yield from (
            str(key) for key, value in held.items() if key not in told and value not in _NOTHING
        )


def chat_untold(message: Any, told: Collection[str]) -> Iterator[str]:
    """What is beyond those members in a message like those of Chat Completions, and its calls."""
    yield from beyond(message, told)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield from beyond(call, _CALL)
        yield from beyond(call.get("function") if isinstance(call, dict) else None, _FUNCTION)


def chat_message(message: dict[str, Any]) -> dict[str, Any]:
    """The message that a whole response in the form of a chat holds, or a choice of it."""
    if "role" in message:
        return message
    choices = message.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else message
    held = choice.get("message") if isinstance(choice, dict) else None
    return held if isinstance(held, dict) else message


_CALL = frozenset({"id", "type", "function", "custom", "index"})
_FUNCTION = frozenset({"name", "arguments", "index"})


_NOTHING: tuple[Any, ...] = (None, "", [], {})


def in_order(members: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """`members` in the order in which `given` has them."""
    return {**{key: members[key] for key in given if key in members}, **members}


def unheld(call: Call) -> Change:
    """The result of a call that the server keeps is text where nothing refers to it."""
    return Change("wrapped", "orphan", "the result answers no call of this history", call.id)


def refers(parts: tuple[Part, ...]) -> bool:
    """Whether a message stands for items that the provider's server keeps."""
    return any(
        isinstance(part, Opaque)
        and isinstance(part.data, dict)
        and part.data.get("type", "item_reference") in (None, "item_reference")
        and isinstance(part.data.get("id"), str)
        for part in parts
    )


def image_of(url: Any, detail: Any = None) -> Image | None:
    """The image at an address, which may hold the image itself."""
    if not isinstance(url, str):
        return None
    told = detail if isinstance(detail, str) else None
    media_type, data = _held(url)
    return Image(url, detail=told) if data is None else Image(None, data, media_type, told)


def document_of(url: Any, name: Any = None) -> Document | None:
    """The PDF document at an address, which may hold it; None where it may be something else."""
    if not isinstance(url, str):
        return None
    told = name if isinstance(name, str) and name else None
    media_type, data = _held(url)
    if data is not None:
        return Document(None, data, told) if media_type == PDF else None
    is_pdf = url.startswith("https://") and url.partition("?")[0].lower().endswith(".pdf")
    return Document(url, None, told) if is_pdf else None


def _held(url: str) -> tuple[str | None, str | None]:
    """The media type and base64 that an address holds, if it does."""
    if not (url.startswith("data:") and ";base64," in url):
        return None, None
    media_type, _, data = url[5:].partition(";base64,")
    return media_type, data


def bare(image: Image | Document | None, part: dict[str, Any]) -> Image | None:
    """`image`, where the part that shows it says nothing else."""
    if not isinstance(image, Image) or image.detail is not None or any(beside(image, part)):
        return None
    return image


def beside(shown: Image | Document, part: dict[str, Any]) -> Iterator[str]:
    """The members of a part that say more than the image or document that it shows."""
    if isinstance(shown, Image):
        told = _OF_IMAGES | _DETAIL if shown.detail else _OF_IMAGES
    else:
        told = _OF_DOCUMENTS | _NAMES if shown.name else _OF_DOCUMENTS
    for key, value in part.items():
        if key not in told:
            yield from () if value in (None, "auto") else (str(key),)
        elif isinstance(value, dict):
            yield from beside(shown, value)


_HELD = frozenset({
    "$bytes", "bytes", "data", "fileData", "fileUri", "file_data", "file_uri", "format",
    "inlineData", "inline_data", "media_type", "mimeType", "mime_type", "source", "type", "url",
})  # fmt: skip
_OF_IMAGES = _HELD | {"image", "image_url"}
_OF_DOCUMENTS = _HELD | {"document", "document_url", "file", "file_url"}
_DETAIL = frozenset({"detail"})
_NAMES = frozenset({
    "displayName", "display_name", "document_name", "filename", "name", "title",
})  # fmt: skip


def address(shown: Image | Document) -> str:
    """The address of an image or document, which holds it where it has no other."""
    media_type = (shown.media_type or "image/png") if isinstance(shown, Image) else PDF
    return shown.url or f"data:{media_type};base64,{shown.data}"


def in_words(shown: Image | Document) -> str:
    """What stands for an image or document where none can be shown."""
    name = shown.name if isinstance(shown, Document) else None
    return f"[{' '.join(filter(None, (named_part(shown), name, shown.url)))}]"


def spoken(parts: tuple[Part, ...], changes: list[Change]) -> tuple[Part, ...]:
    """What the user alone may show, as text."""
    kinds = dict.fromkeys(named_part(p) for p in parts if isinstance(p, Image | Document))
    changes += (Change("wrapped", kind, f"only the user shows {kind}s here") for kind in kinds)
    return tuple(
        Text(in_words(part)) if isinstance(part, Image | Document) else part for part in parts
    )


def file_name(document: Document) -> str:
    """What a document's file is called."""
    name = document.name or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def chat_image(image: Image) -> dict[str, Any]:
    """An image as Chat Completions, and what is like it, show one."""
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": address(image), **detail}}


def shown_apart(turn: Turn, provider: str, changes: list[Change]) -> Iterator[Turn]:
    """The user's turn that shows what results do beside their text, where they hold text alone."""
    parts: list[Part] = []
    for call in turn.calls:
        answer = call.answer
        if not answer.parts or call.hidden or answer.is_error or answer.provider == provider:
            continue
        if shown := [part for part in answer.parts if isinstance(part, Image | Document)]:
            why = "what the result shows follows it"
            changes.append(Change("moved", "foreign-part", why, call.id))
            parts += [Text(f"[Shown by {call.name or 'the tool'}:]"), *shown]
    if parts:
        yield Turn("user", tuple(parts))


def chat_answer(answer: Answer, name: str, provider: str) -> dict[str, Any]:
    """The tool message of Chat Completions, and what is like it; `name` is the call's id there."""
    if answer.provider == provider and answer.native is not None:
        message: dict[str, Any] = copy(answer.native)
        message["tool_call_id"] = name
        if answer.note:
            message["content"] = f"{answer.text}\n{answer.note}"
        return message
    return {"role": "tool", "tool_call_id": name, "content": answer_text(answer)}


def answer_text(answer: Answer) -> str:
    """What a tool message without a mark for errors says of an answer that is not its own."""
    text = _encode({"error": answer.text}).decode() if answer.is_error else answer.text
    return f"{text}\n{answer.note}" if answer.note else text


def plain_text(parts: tuple[Part, ...], changes: list[Change]) -> str:
    """Parts where only text can stand, such as a system prompt."""
    said = []
    for part in parts:
        if isinstance(part, Text):
            said.append(part.text)
        elif isinstance(part, Image | Document):
            changes.append(Change("wrapped", named_part(part), "only text can stand here"))
            said.append(in_words(part))
        else:
            said.append(foreign_text(part, changes) or "")
    return "\n".join(filter(None, said))


def stored_parts(result: Any) -> tuple[Part, ...]:
    """The parts of a result that is stored in parts; of a damaged one, none."""
    try:
        return msgspec.convert(result, tuple[Text | Image | Document, ...])
    except msgspec.ValidationError:
        return ()


_BESIDE = ("thoughtSignature", "thought_signature")  # what no part is, but stands on one
_ADDRESSES = ("fileUri", "file_uri", "url", "file_url", "document_url", "filename", "file_id")


def _kind(data: dict[str, Any]) -> str:
    """What a part is: its type, or the member that it is kept under."""
    kind = data.get("type")
    if isinstance(kind, str):
        return kind
    return str(next((key for key in data if key not in _BESIDE), next(iter(data), "part")))


def _words(held: dict[str, Any]) -> str | None:
    """The words of what is a text of its own."""
    if held.get("type") == "text" and _is_text(held.get("data")):
        return str(held["data"])
    return as_text(held.get("content")) if held.get("type") in _TEXTS else None


def _all_words(held: Any, depth: int = 8) -> Iterator[str]:
    """What a tool of the provider's own was asked and gave: code, searches, what they printed."""
    if isinstance(held, list) and depth:
        for each in held:
            yield from [each] if isinstance(each, str) else _all_words(each, depth - 1)
    elif isinstance(held, dict) and depth and held.get("type") != "image_generation_call":
        if words := _words(held):
            yield words
            return
        for key, value in held.items():
            if key in _ASKED and value:
                yield as_text(value)
            elif key in _TELLING and isinstance(value, str):
                if value.strip() and not value.startswith("data:"):
                    yield value
            elif key in _TELLING:
                yield from _all_words(value, depth - 1)


_TEXTS = ("compaction", "content", "search_result")
_ASKED = frozenset({"args", "arguments", "input"})
_TELLING = frozenset({
    "action", "code", "command", "commands", "content", "document", "error", "error_code",
    "error_message", "filename", "json", "logs", "name", "operation", "output", "outputs", "path",
    "pattern", "queries", "query", "reason", "response", "result", "results", "s3Location",
    "source", "stderr", "stdout", "text", "title", "tool_references", "tool_name", "uri", "url",
})  # fmt: skip


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def as_text(value: Any) -> str:
    """Any content as text: text as it is, text parts joined, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return "\n".join(_item_text(item) for item in value)
    value = readable(value)[0]
    return value if isinstance(value, str) else _encode(value).decode()


def _item_text(item: Any) -> str:
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        return str(item["text"])
    if isinstance(item, dict) and item.get("type") in MEDIA:
        return f"[{item['type']}]"
    return as_text(item) if not isinstance(item, list) else as_text({"items": item})


def copy(value: Any) -> Any:
    """A copy of JSON values that shares nothing with them."""
    kind = type(value)
    if kind is dict:
        copied = value.copy()
        for key, item in value.items():
            if type(item) in _NESTED:
                copied[key] = copy(item)
        return copied
    if kind is list:
        return [copy(item) if type(item) in _NESTED else item for item in value]
    return value


def closed(
    turn: Turn, provider: str, key: str, results: list[Any], copied: Callable[[Any], Any] = copy
) -> dict[str, Any]:
    """The user message with a turn's results, one for each call that is shown.

    As the provider had it, where that is known; its blocks are under `key`.
    """
    closing = turn.closing
    if closing is None or closing.provider != provider:
        return {"role": "user", key: results}
    shown = (call.id for call in turn.calls if not call.hidden)
    by_call = dict(zip(shown, results, strict=True))
    ordered = [by_call[call_id] for call_id in closing.results]
    native = closing.native if isinstance(closing.native, dict) else {}
    blocks = native.get(key)
    if not isinstance(blocks, list) or blocks.count(None) != len(ordered):
        return {"role": "user", key: ordered}
    waiting = iter(ordered)
    filled = [next(waiting) if block is None else copied(block) for block in blocks]
    return {**copied(native), key: filled}
