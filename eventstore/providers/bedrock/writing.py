"""How the blocks of Bedrock's messages are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.domain.own_texts import OPENING
from eventstore.providers.bedrock.documents import move_cache_points
from eventstore.providers.bedrock.reading import (
    MAX_NAME,
    NAME,
    blocks_of,
    decoded,
    is_accepted_from,
    is_client_block,
    is_of_service,
    is_well_formed_block,
    object_with_bytes,
    parts_of,
    with_bytes,
)
from eventstore.providers.call_arguments import object_arguments
from eventstore.providers.identifiers import tool_name
from eventstore.providers.json_values import as_text
from eventstore.providers.media_of_results import without_media
from eventstore.providers.model import (
    Call,
    Change,
    Turn,
)
from eventstore.providers.parts_as_text import described, foreign_text, plain_text
from eventstore.providers.results_message import results_message_for

RESULTS_KEY: Final = "content"
_MAX_CACHE_POINTS: Final = 4
EMPTY = "[The result is empty.]"
TOOL_CHANGES = frozenset({"toolAddition", "toolRemoval"})
_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}


def add_assistant(
    messages: list[JsonObject],
    turn: Turn,
    shown: list[tuple[Call, str]],
    changes: list[Change],
) -> None:
    """Add the assistant's message for a turn, with the calls that are shown."""
    own = turn.own_message(NAME)
    if own is not None and len(shown) == len(turn.calls):
        native = object_with_bytes(own)
        made = [
            block["toolUse"] for block in blocks_of(native) if is_client_block(block, "toolUse")
        ]
        if len(made) == len(shown):
            for each, (_, name) in zip(made, shown, strict=True):
                each["toolUseId"] = name
            messages.append(native)
            return
    content = _blocks(without_media(turn.parts, changes), changes, "assistant")
    if len(shown) < len(turn.calls):  # reasoning goes with the turn it belongs to, or not at all
        whole = content
        content = [block for block in whole if "reasoningContent" not in block]
        if len(content) < len(whole):
            changes.append(Change("dropped", "reasoning", "a part of its turn is not shown"))
    content += [
        {
            "toolUse": {
                "toolUseId": name,
                "name": tool_name(call, MAX_NAME, changes),
                "input": object_arguments(call, changes),
            }
        }
        for call, name in shown
    ]
    _add(messages, "assistant", content, separate=turn.provider == NAME)


PORTABLE = {
    "toolUse": {"toolUseId", "name", "input"},
    "toolResult": {"toolUseId", "content", "status"},
}
"""Members of calls and results that arrive at other providers."""


def add_user(messages: list[JsonObject], turn: Turn, changes: list[Change]) -> None:
    """Add the message for a turn of the user, or of the system after the beginning."""
    native = turn.own_message(NAME)
    if native is not None and turn.role == "system" and _changes_tools(native):
        messages.append(object_with_bytes(native))
        return
    if turn.role in ("system", "developer"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "BE03", "a later system message became a user's text"))
        content = [{"text": f"[system] {said}"}] if said else []
    elif native is not None:
        blocks = blocks_of(native)
        content = [object_with_bytes(block) for block in blocks if isinstance(block, dict)]
    else:
        content = _blocks(turn.parts, changes)
    _add(messages, "user", content, separate=turn.provider == NAME and not turn.shares_message)


def let_user_begin(messages: list[JsonObject], changes: list[Change]) -> None:
    """Let the list begin with a message of the user."""
    if messages and messages[0]["role"] != "user":
        changes.append(Change("added", "BE03", "a conversation starts with the user"))
        messages.insert(0, {"role": "user", "content": [{"text": OPENING}]})


def cache_point() -> JsonObject:
    """Return a mark, an object of its own: the caller may change the request."""
    return {"cachePoint": {"type": "default"}}


def limit_cache_points(messages: list[JsonObject]) -> Iterator[Change]:
    """Take out cache points right after reasoning, and all but the newest 4.

    One behind a document that is no PDF moves before it.
    """
    left = _MAX_CACHE_POINTS
    dropped = 0
    for message in reversed(messages):
        content: list[JsonObject] = message["content"]
        if not any("cachePoint" in block for block in content):
            continue
        moved = move_cache_points(content)
        if moved != content:
            why = "a cache point may follow no document but a PDF: it stands before it"
            yield Change("moved", "BE07", why)
            content = moved
        kept: list[JsonObject] = []
        for place in range(len(content) - 1, -1, -1):
            if "cachePoint" in content[place]:
                before = (each for each in content[place::-1] if "cachePoint" not in each)
                if "reasoningContent" in next(before, ()):
                    yield Change("dropped", "BE04", "a cache point may not follow reasoning")
                    continue
                if not left:
                    dropped += 1
                    continue
                left -= 1
            kept.append(content[place])
        message["content"] = kept[::-1]
    messages[:] = [message for message in messages if message["content"]]
    if dropped:
        why = f"{dropped} more than {_MAX_CACHE_POINTS} cache points: the newest stay"
        yield Change("dropped", "BE04", why)


def without_cache_points(message: JsonObject) -> JsonObject:
    """Return a message without its cache points."""
    content = [block for block in message["content"] if "cachePoint" not in block]
    return {**message, "content": content}


def goes_on(message: JsonObject) -> bool:
    """Return whether the service itself continues the assistant's message, which it paused."""
    last: JsonValue = message["content"][-1] if message["content"] else None
    return isinstance(last, dict) and bool(last.keys() & {"toolUse", "toolResult"})


def _changes_tools(native: JsonObject) -> bool:
    """Return whether a message adds or removes tools, which no text can replace."""
    blocks = blocks_of(native)
    return any(isinstance(block, dict) and block.keys() & TOOL_CHANGES for block in blocks)


def _add(
    messages: list[JsonObject], role: str, content: list[JsonObject], *, separate: bool
) -> None:
    """Add a message; it joins the last one of its role unless it is to stay `separate`."""
    if not content:
        return
    if messages and messages[-1]["role"] == role and not separate:
        messages[-1]["content"].extend(content)
    else:
        messages.append({"role": role, "content": content})


def _blocks(parts: tuple[Part, ...], changes: list[Change], role: str = "user") -> list[JsonObject]:
    return [block for part in parts if (block := _block(part, changes, role)) is not None]


def _block(part: Part, changes: list[Change], role: str) -> JsonObject | None:
    if isinstance(part, Text):
        return {"text": part.text} if part.text.strip() else None
    if isinstance(part, Image):
        return _image_block(part, changes)
    if isinstance(part, Document):
        return _document_block(part, changes)
    own = part if isinstance(part, Opaque) and part.provider == NAME else None
    if own is not None and is_of_service(own.data) and not is_well_formed_block(own.data):
        changes.append(Change("dropped", "BE02", "a block of the service's own is not whole"))
        return None
    if own is not None and is_accepted_from(own.data, role):
        return object_with_bytes(own.data)
    text = foreign_text(part, changes)
    return {"text": text} if text and text.strip() else None


def _image_block(image: Image, changes: list[Change]) -> JsonObject:
    form = _FORMATS.get(image.media_type or "image/png")
    if image.data is not None and form is not None:
        data = decoded(image.data)
        if data:
            return {"image": {"format": form, "source": {"bytes": data}}}
    changes.append(Change("wrapped", "image", "only png, jpeg, gif and webp can be sent, as bytes"))
    return {"text": described(image)}


def _document_block(document: Document, changes: list[Change]) -> JsonObject:
    data = decoded(document.data)
    if not data:
        changes.append(Change("wrapped", "document", "a document can be sent only as bytes"))
        return {"text": described(document)}
    name = document.name or "document"
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}


def results_message(turn: Turn, shown: list[tuple[Call, str]], changes: list[Change]) -> JsonObject:
    """Return the message with the results of a turn, what errors show behind them."""
    results = [answer_block(call, name, changes) for call, name in shown]
    message = results_message_for(turn, NAME, RESULTS_KEY, results, with_bytes)
    behind: list[JsonObject] = []
    for (call, _), block in zip(shown, results, strict=True):
        if block["toolResult"].get("status") == "error":
            behind += _shown_by_error(call, block["toolResult"], changes)
    if behind:
        content: list[JsonObject] = message[RESULTS_KEY]
        place = max(n for n, block in enumerate(content, 1) if "toolResult" in block)
        message[RESULTS_KEY] = [*content[:place], *behind, *content[place:]]
    return message


def _shown_by_error(call: Call, result: JsonObject, changes: list[Change]) -> Iterator[JsonObject]:
    """Yield what an error shows beside text, which it may not hold; it is taken out of it."""
    answer = call.answer
    if answer.provider == NAME and answer.native is not None:
        content: list[JsonObject] = result["content"]
        others = [block for block in content if not block.keys() & _TOLD]
        if others:
            kept = [block for block in content if block.keys() & _TOLD]
            result["content"] = kept or [{"text": "error"}]
    else:
        others = [block for block in _blocks(answer.shown_parts, changes) if "text" not in block]
    if others:
        changes.append(Change("moved", "BE06", "an error holds only text: it follows", call.id))
        yield {"text": f"[Shown by {call.name or 'the tool'}:]"}
    yield from others


_TOLD = frozenset({"text", "json"})
"""What an error may hold: Claude on Bedrock refuses anything else in it."""


def answer_block(call: Call, name: str, changes: list[Change]) -> JsonObject:
    """Return the block that answers a call."""
    answer = call.answer
    if answer.provider == NAME and answer.native is not None:
        block = object_with_bytes(answer.native)
        block["toolResult"]["toolUseId"] = name
        if answer.note:
            block["toolResult"]["content"].append({"text": answer.note})
        return block
    text = f"{answer.text}\n{answer.note}" if answer.note else answer.text
    if not text.strip():
        changes.append(Change("wrapped", "BE02", "a blank result gets a text", call.id))
        text = EMPTY
    content = [{"text": text}]
    if answer.shown_parts and not answer.is_error:
        shown = (*answer.shown_parts, Text(answer.note)) if answer.note else answer.shown_parts
        content = _blocks(shown, changes) or content
    result: JsonObject = {"toolUseId": name, "content": content}
    if answer.is_error:
        result["status"] = "error"
    return {"toolResult": result}


def shown_parts(block: JsonObject) -> Iterator[Part]:
    """Return the parts of a result's block."""
    return iter((Text(as_text(block["json"])),)) if "json" in block else parts_of(block)
