"""How the blocks of Anthropic's messages are read."""

from __future__ import annotations

from operator import is_
from typing import Final, TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.media_types import PDF
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers.adapter_protocol import (
    ResultTest,
)
from eventstore.providers.anthropic.shapes import CLIENT_MEMBERS, FOREIGN_KINDS, RENAMED
from eventstore.providers.call_arguments import function_call
from eventstore.providers.client_members import ClientMembers
from eventstore.providers.identifiers import sanitized
from eventstore.providers.json_values import as_text, in_order_of
from eventstore.providers.media import image_of, plain_image
from eventstore.providers.model import (
    TURN_ROLES,
    Change,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
)

NAME: Final = "anthropic"
MAX_NAME: Final = 128
REASONING = ("thinking", "redacted_thinking")
_SENT_IN_ORDER = ["role", "content"]
_SENT = {*_SENT_IN_ORDER}
"""The members of a message that a request may hold."""
_NO_MEMBERS: Final[JsonObject] = {}


CLIENT: Final = ClientMembers(added=CLIENT_MEMBERS, renamed=RENAMED)


def as_on_wire(message: JsonValue, changes: list[Change]) -> JsonValue:
    """Return a message with the members of the wire: texts have a type, and thinking a text.

    Thinking whose text the API had left out goes back with its signature and an empty text.
    """
    if not isinstance(message, dict):
        return message
    content: JsonValue = message.get("content")
    if not isinstance(content, list):
        return message
    made = [_block_on_wire(block, changes) for block in content]
    is_same = all(map(is_, made, content))
    return message if is_same else {**message, "content": made}


def _block_on_wire(block: JsonValue, changes: list[Change]) -> JsonValue:
    if not isinstance(block, dict):
        return block
    kind: JsonValue = block.get("type")
    if kind == "tool_use" or (kind == "text" and len(block) == len(_TEXT_MEMBERS)):
        return block
    if kind == "tool_result":
        return as_on_wire(block, changes) if isinstance(block.get("content"), list) else block
    if kind is None and isinstance(block.get("text"), str):
        changes.append(Change("added", "AN13", "a block with a text is of the type text"))
        return {"type": "text", **{key: block[key] for key in block if key != "type"}}
    is_signed = kind == "thinking" and isinstance(block.get("signature"), str)
    if is_signed and not isinstance(block.get("thinking"), str):
        changes.append(Change("added", "AN13", "thinking has a text, which may be empty"))
        return {**block, "thinking": ""}
    return CLIENT.without(block, "AN13", changes)


def items_of(
    message: JsonObject, is_error: ResultTest, is_rejection: ResultTest
) -> list[ParsedItem]:
    """Return the items of a message: its results, and what else it says."""
    given = message.get("role")
    role = TURN_ROLES.get(given, "user") if isinstance(given, str) else "user"
    content: JsonValue = message.get("content")
    if isinstance(content, list):
        return _items_of_blocks(message, role, content, is_error, is_rejection)
    text = as_text(content)
    if not text.strip():
        return []
    given_id = message.get("id")
    message_id = given_id if isinstance(given_id, str) else None
    native = _native(message, role, content)
    well_formed = given == role and isinstance(content, str)
    return [ParsedMessage(role, (Text(text),), (), native, well_formed, message_id=message_id)]


def _items_of_blocks(
    message: JsonObject,
    role: str,
    content: list[JsonValue],
    is_error: ResultTest,
    is_rejection: ResultTest,
) -> list[ParsedItem]:
    results: list[ParsedItem] = []
    rest: list[JsonValue] = []
    parts: list[Part] = []
    calls: list[ParsedCall] = []
    well_formed = message.get("role") == role
    for block in content:
        members = block if isinstance(block, dict) else _NO_MEMBERS
        kind: JsonValue = members.get("type")
        if kind == "tool_result":
            results.append(_result(members, is_error, is_rejection))
            well_formed = well_formed and (role == "assistant" or not (rest or calls))
            continue
        if kind == "tool_use":
            calls.append(_call(members))
            if role != "assistant":
                continue
        elif (part := part_of(block)) is not None:
            parts.append(part)
        rest.append(block)
        well_formed = well_formed and _is_well_formed_block(block, role)
    if role == "assistant":
        said = _message(
            message, role, rest if results else content, parts, calls, well_formed=well_formed
        )
        return [*said, *results]
    count = len(results)
    items = results
    if calls:  # only an assistant can call
        native = {"role": "assistant", "content": [b for b in content if is_of_kind(b, "tool_use")]}
        items.append(ParsedMessage("assistant", (), tuple(calls), native))
    blocks = [*([None] * count), *rest]
    return [
        *items,
        *_message(message, role, blocks, parts, [], well_formed=well_formed, count=count),
    ]


def _message(
    message: JsonObject,
    role: str,
    blocks: list[JsonValue],
    parts: list[Part],
    calls: list[ParsedCall],
    *,
    well_formed: bool,
    count: int = 0,
) -> list[ParsedMessage]:
    """Return the message of `blocks`, in which None replaces each result; none if it is empty."""
    if not (parts or calls or (count and well_formed)):
        return []
    stands_alone = 0 < count == len(blocks) and [*message] == _SENT_IN_ORDER and well_formed
    given_id = message.get("id")
    said = ParsedMessage(
        role,
        tuple(parts),
        tuple(calls),
        None if stands_alone else _native(message, role, blocks),
        well_formed,
        count > 0,
        given_id if isinstance(given_id, str) else None,
        result_count=count,
    )
    return [said]


def is_of_kind(block: JsonValue, kind: str) -> TypeGuard[JsonObject]:
    """Return whether a value is a block of this type."""
    return isinstance(block, dict) and block.get("type") == kind


def _native(message: JsonObject, role: str, content: object) -> JsonObject:
    """Return the members of a message that may be sent, in its order; a response has more."""
    if message.keys() == _SENT and message["role"] == role and message["content"] is content:
        return message
    return in_order_of(message, {"role": role, "content": content})


def _call(block: JsonObject) -> ParsedCall:
    call_id = block.get("id")
    return ParsedCall(
        call_id if isinstance(call_id, str) and call_id else None,
        function_call(block.get("name"), block.get("input")),
    )


_TEXT_MEMBERS = {"type", "text"}


def part_of(block: JsonValue) -> Part | None:
    """Return what a block shows, None if that is nothing."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        said = "" if block in (None, {}) else as_text(block)
        return Text(said) if said.strip() else None
    if kind == "text":
        text = block.get("text")
        said = as_text(text)
        plain = said is not text or block.keys() == _TEXT_MEMBERS
        shown: Part = Text(said) if plain else Opaque(NAME, block)
        return shown if said.strip() else None
    if kind in FOREIGN_KINDS:
        return _foreign_part(kind, block)
    image = plain_image(shown_media(block), block) if kind == "image" else None
    return image or Opaque(NAME, block)


def _foreign_part(kind: str, block: JsonObject) -> Part | None:
    """Return what a block of another provider's shows."""
    held: JsonValue = block.get(kind)
    address = held.get("url") if isinstance(held, dict) else block.get("image_url")
    if kind in ("image_url", "input_image") and (image := image_of(address)):
        return image
    said: JsonValue = block.get("text", block.get("refusal"))
    text = as_text(said if isinstance(said, str) else block)
    return Text(text) if text.strip() else None


def shown_media(block: JsonObject) -> Image | Document | None:
    """Return the image or document in a block, whatever else the block holds."""
    source: JsonValue = block.get("source")
    if not isinstance(source, dict):
        return None
    if block.get("type") == "document":
        return _document(source, block.get("title"))
    if block.get("type") != "image":
        return None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Image(source["url"])
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        media_type = source.get("media_type")
        return Image(None, source["data"], media_type if isinstance(media_type, str) else None)
    return None


def _document(source: JsonObject, title: object) -> Document | None:
    name = title if isinstance(title, str) and title else None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Document(source["url"], None, name)
    if source.get("media_type") == PDF and isinstance(source.get("data"), str):
        return Document(None, source["data"], name)
    return None


def _result(block: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> ParsedResult:
    call_id = block.get("tool_use_id")
    well_formed = _is_well_formed_result(block)
    return ParsedResult(
        call_id if isinstance(call_id, str) and call_id else None,
        None,
        as_text(block.get("content")),
        bool(is_error(block)),
        block if well_formed else None,
        is_rejection(block),
        well_formed,
    )


_FLAGS: Final = (bool, type(None))


def _is_well_formed_result(block: JsonObject) -> bool:
    content: JsonValue = block.get("content")
    if type(block.get("is_error", False)) not in _FLAGS:  # 0 is not a boolean
        return False
    if content is None or isinstance(content, str):
        return bool(content and content.strip()) or not block.get("is_error")
    if not isinstance(content, list) or (not content and block.get("is_error")):
        return False
    return all(map(_is_well_formed_in_result, content))


def _is_well_formed_in_result(block: JsonValue) -> bool:
    """Return whether a result may hold a block."""
    kind: JsonValue = block.get("type") if isinstance(block, dict) else None
    return _is_well_formed_block(block) and kind not in ("tool_use", "tool_result")


def _is_well_formed_block(block: JsonValue, role: str = "user") -> bool:
    """Return whether a block may go back as it is, in a message of `role` or in a result."""
    kind: JsonValue = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        return False
    if kind == "text":
        text = block.get("text")
        return isinstance(text, str) and bool(text.strip())
    if kind == "tool_use":
        name, call_id = block.get("name"), block.get("id")
        return (
            isinstance(name, str)
            and sanitized(name, MAX_NAME) == name
            and isinstance(call_id, str)
            and isinstance(block.get("input"), dict)
        )
    return is_accepted_from(block, role)


def is_accepted_from(block: JsonObject, role: str) -> bool:
    """Return whether the API takes a block in a message of `role`; thinking needs a signature."""
    kind: JsonValue = block.get("type")
    if not isinstance(kind, str) or kind in FOREIGN_KINDS:
        return False
    if role != "assistant":
        return kind not in REASONING
    if kind in REASONING:
        opaque = block.get("signature" if kind == "thinking" else "data")
        has_text = kind != "thinking" or isinstance(block.get("thinking"), str)
        return isinstance(opaque, str) and bool(opaque) and has_text
    return kind not in ("image", "document")
