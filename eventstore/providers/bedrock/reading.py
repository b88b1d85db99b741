"""How the blocks of Bedrock's messages are read."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Final, TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers.adapter_protocol import (
    ResultTest,
)
from eventstore.providers.bedrock.shapes import BLOCKS, GEMINI_MEMBERS, UNREAD
from eventstore.providers.call_arguments import function_call
from eventstore.providers.identifiers import sanitized
from eventstore.providers.json_values import as_text, copy, in_order_of, members_of
from eventstore.providers.media import plain_image
from eventstore.providers.model import (
    TURN_ROLES,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
)
from eventstore.providers.shapes import misshapen

NAME: Final = "bedrock"
MAX_ID: Final = 64
MAX_NAME: Final = 64
BYTES = "$bytes"
_BLOBS = ("bytes", "redactedContent")
_DEPTH = 8  # blobs are no deeper in a block


def items_of(
    message: JsonObject, is_error: ResultTest, is_rejection: ResultTest
) -> Iterator[ParsedItem]:
    """Yield the items of a message, or of the one in a whole response."""
    output: JsonValue = message.get("output", message)
    held: JsonValue = output.get("message") if isinstance(output, dict) else None
    if isinstance(held, dict):
        message = held  # a whole response
    given = message.get("role")
    role = TURN_ROLES.get(given, "user") if isinstance(given, str) else "user"
    content: JsonValue = message.get("content")
    if not isinstance(content, list):
        text = as_text(content)
        if text.strip():
            yield ParsedMessage(role, (Text(text),))
        return
    blocks = [block for item in content for block in _single(item)]
    well_formed = given == role and len(blocks) == len(content) and None not in content
    results = [block for block in blocks if is_client_block(block, "toolResult")]
    rest = [block for block in blocks if not is_client_block(block, "toolResult")]
    if role == "assistant":
        yield from _message(_native(message, role, rest), well_formed=well_formed)
        yield from (_result(block, is_error, is_rejection) for block in results)
        return
    yield from (_result(block, is_error, is_rejection) for block in results)
    calls = [block for block in rest if is_client_block(block, "toolUse")]
    if calls:  # only an assistant can call
        yield from _message(_native({}, "assistant", calls), well_formed=False)
        blocks = [block for block in blocks if not is_client_block(block, "toolUse")]
    said = [None if is_client_block(block, "toolResult") else block for block in blocks]
    yield from _message(
        _native(message, role, said),
        well_formed=well_formed and not calls,
        result_count=len(results),
    )


def _native(message: JsonObject, role: str, content: Sequence[JsonValue]) -> JsonObject:
    """Return the members of a message that may be sent, in its order."""
    return in_order_of(message, {"role": role, "content": content})


def _single(block: JsonValue) -> Iterator[JsonValue]:
    """Yield a block for each member of a block, as a valid one has a single member."""
    if not isinstance(block, dict) or len(block) == 1:
        yield _packed(block)
    elif isinstance(block.get("type"), str):
        yield {"text": as_text([block])}  # another provider's
    else:
        yield from ({key: _packed(value)} for key, value in block.items())


def _packed(value: JsonValue, depth: int = _DEPTH) -> JsonValue:
    """Return a copy of blocks with bytes as marked base64."""
    if not depth:
        return value
    if isinstance(value, list):
        return [_packed(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    packed: JsonObject = {**value}
    item: JsonValue
    for key, item in value.items():
        if isinstance(item, (dict, list)):
            packed[key] = _packed(item, depth - 1)
        elif key in _BLOBS and _is_blob(item):
            packed[key] = {BYTES: b64encode(bytes(item)).decode()}
    return packed


def _is_blob(value: object) -> TypeGuard[bytes | bytearray | memoryview]:
    return isinstance(value, bytes | bytearray | memoryview)


def with_bytes(value: JsonValue, depth: int = _DEPTH) -> JsonValue:
    """Return a copy of blocks with marked base64 as bytes."""
    if isinstance(value, dict):
        return object_with_bytes(value, depth)
    if isinstance(value, list) and depth:
        return [with_bytes(item, depth - 1) for item in value]
    return copy(value)


def object_with_bytes(value: JsonObject, depth: int = _DEPTH) -> JsonObject:
    """Return a copy of a message or a block with marked base64 as bytes."""
    if not depth:
        return copy(value)
    unpacked: JsonObject = {**value}
    item: JsonValue
    for key, item in value.items():
        if key in _DOCUMENTS:
            unpacked[key] = copy(item)
        elif key in _BLOBS and _is_marked(item):
            unpacked[key] = decoded(item[BYTES])
        elif isinstance(item, (dict, list)):
            unpacked[key] = with_bytes(item, depth - 1)
    return unpacked


_DOCUMENTS = frozenset({"input", "json"})
"""Members that hold any JSON, which has no bytes."""


def _is_marked(value: JsonValue) -> TypeGuard[JsonObject]:
    """Return whether a value is marked base64."""
    return isinstance(value, dict) and value.keys() == {BYTES}


def decoded(text: JsonValue) -> bytes:
    """Return the bytes of base64; none where it was not written by `_packed`."""
    try:
        return b64decode(text) if isinstance(text, str) else b""
    except ValueError:
        return b""


def as_bytes(value: object) -> bytes:
    """Return bytes, as they are or from base64."""
    return bytes(value) if _is_blob(value) else decoded(value if isinstance(value, str) else None)


def is_client_block(block: JsonValue, kind: str) -> TypeGuard[JsonObject]:
    """Return whether a block is a call or result of a tool that the service does not run."""
    inner: JsonValue = block.get(kind) if isinstance(block, dict) else None
    if not isinstance(inner, dict):
        return False
    if kind == "toolUse":
        return inner.get("type") != "server_tool_use"
    return inner.get("type") is None


def _message(
    native: JsonObject, *, well_formed: bool, result_count: int = 0
) -> Iterator[ParsedMessage]:
    """Yield the message in `native`, in which None replaces each result."""
    blocks = blocks_of(native)
    parts: list[Part] = []
    calls: list[ParsedCall] = []
    for block in blocks:
        if is_client_block(block, "toolUse"):
            made: JsonObject = block["toolUse"]
            call_id = made.get("toolUseId")
            calls.append(
                ParsedCall(
                    call_id if isinstance(call_id, str) and call_id else None,
                    function_call(made.get("name"), made.get("input")),
                )
            )
        else:
            parts.extend(parts_of(block))
    well_formed = well_formed and all(
        (is_well_formed_block(block) and is_accepted_from(block, native["role"]))
        or _is_separator(blocks, place)
        for place, block in enumerate(blocks)
    )
    if parts or calls or (result_count and well_formed):
        yield ParsedMessage(
            native["role"],
            tuple(parts),
            tuple(calls),
            native,
            well_formed,
            result_count > 0,
            result_count=result_count,
        )


def blocks_of(native: JsonObject) -> list[JsonValue]:
    """Return the blocks of a native message, without the None that replaces each result."""
    return [block for block in native["content"] if block is not None]


def parts_of(block: JsonValue) -> Iterator[Part]:
    """Yield what a block says or shows, if anything."""
    kind, body = next(iter(block.items()), (None, None)) if isinstance(block, dict) else _NONE
    if kind == "text":
        text = as_text(body)
        if text.strip():
            yield Text(text)
    elif (
        kind == "image"
        and isinstance(block, dict)
        and (image := plain_image(shown_media(block), block))
    ):
        yield image
    elif is_well_formed_block(block) or (isinstance(block, dict) and is_of_service(block)):
        yield Opaque(NAME, block)
    elif (text := as_text(block)).strip() and block != {}:
        yield Text(text)


_NONE = (None, None)


def shown_media(block: JsonObject) -> Image | Document | None:
    """Return the image or document in a block, whatever else the block holds."""
    guarded: JsonValue = block.get("guardContent")
    holder = guarded if isinstance(guarded, dict) else block
    body: JsonValue = holder.get("image", block.get("document"))
    source: JsonValue = body.get("source") if isinstance(body, dict) else None
    data: JsonValue = source.get("bytes") if isinstance(source, dict) else None
    if isinstance(data, dict):
        data = data.get(BYTES)
    if not isinstance(body, dict) or not isinstance(data, str):
        return None
    if "document" not in block:
        return Image(None, data, f"image/{body.get('format')}")
    name = as_text(body.get("name")) or None
    return Document(None, data, name) if body.get("format") == "pdf" else None


def _result(block: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> ParsedResult:
    inner: JsonObject = block["toolResult"]
    call_id = inner.get("toolUseId")
    well_formed = _is_well_formed_result(inner)
    return ParsedResult(
        call_id if isinstance(call_id, str) and call_id else None,
        None,
        _result_text(inner.get("content")),
        inner.get("status") == "error" or bool(is_error(inner)),
        block if well_formed else None,
        is_rejection(inner),
        well_formed,
    )


def _result_text(content: JsonValue) -> str:
    if not isinstance(content, list):
        return as_text(content)
    return "\n".join(map(_block_text, content))


_SHOWN = ("image", "document", "video", "audio", "cachePoint")
"""Blocks of a result that are not text."""


def _block_text(block: JsonValue) -> str:
    """Return the text of a result's block; of an image or a document, that it is one."""
    if not isinstance(block, dict):
        return as_text(block)
    for kind in ("text", "json"):
        if kind in block:
            return as_text(block[kind])
    shown = next((kind for kind in _SHOWN if kind in block), None)
    return as_text(block) if shown is None else f"[{shown}]"


def _is_well_formed_result(inner: JsonObject) -> bool:
    content: JsonValue = inner.get("content")
    return (
        isinstance(content, list)
        and bool(content)
        and inner.get("status", "success") in ("success", "error")
        and all(map(_is_well_formed_piece, content))
    )


def _is_well_formed_piece(block: JsonValue) -> bool:
    """Return whether a result may hold the block."""
    if isinstance(block, dict) and len(block) == 1 and "json" in block:
        return isinstance(block["json"], dict)
    return is_well_formed_block(block) and not block.keys() & _NOT_IN_RESULTS


def _is_well_formed_call(inner: JsonObject) -> bool:
    name, call_id = inner.get("name"), inner.get("toolUseId")
    return (
        isinstance(name, str)
        and sanitized(name, MAX_NAME) == name
        and isinstance(call_id, str)
        and isinstance(inner.get("input"), dict)
    )


def is_well_formed_block(block: JsonValue) -> TypeGuard[JsonObject]:
    """Return whether a message may hold the block as it is."""
    if not isinstance(block, dict) or len(block) != 1:
        return False
    body: JsonValue
    kind, body = next(iter(block.items()))
    if kind == "text":
        return isinstance(body, str) and bool(body.strip())
    if not isinstance(kind, str) or not isinstance(body, dict) or kind in _NOT_IN_MESSAGES:
        return False
    if kind not in ("toolUse", "toolResult"):
        if kind == "document":  # it gets a legal name
            body = {**body, "name": as_text(body.get("name")) or kind}
        return kind not in BLOCKS or misshapen(body, BLOCKS[kind]) is None
    # The service alone writes the ids of the tools that it runs.
    legal = is_client_block(block, kind) or _is_legal_id(body.get("toolUseId"))
    return legal and (_is_well_formed_call if kind == "toolUse" else _is_well_formed_result)(body)


def _is_separator(blocks: Sequence[JsonValue], place: int) -> bool:
    """Return whether a blank text parts a document from a cache point, which the service takes."""
    near = [members_of(block) for block in blocks[max(place - 1, 0) : place + 2]]
    kinds = [next(iter(each), None) for each in near]
    return kinds == ["document", "text", "cachePoint"] and near[1] not in ({"text": ""}, {})


def is_of_service(block: JsonObject) -> bool:
    """Return whether only the service can have written a block: it never becomes words."""
    return UNREAD in block or any(
        isinstance(block.get(kind), dict) and not is_client_block(block, kind)
        for kind in ("toolUse", "toolResult")
    )


def is_accepted_from(block: JsonObject, role: str) -> bool:
    """Return whether a message of `role` may hold a block: users show, assistants reason."""
    return not block.keys() & (_OF_USERS if role == "assistant" else _OF_ASSISTANTS)


_NOT_IN_MESSAGES = frozenset({"json", UNREAD, *_BLOBS, *GEMINI_MEMBERS})
"""Members that only a result's block has, or the body of one, or a part of Gemini's."""
_NOT_IN_RESULTS = frozenset({"toolUse", "toolResult", "reasoningContent", "cachePoint"})
_OF_USERS = frozenset({"image", "document", "video"})
_OF_ASSISTANTS = frozenset({"reasoningContent"})


def legal_id(text: str, most: int = MAX_ID) -> str:
    """Return an id that the service takes, with points and colons, otherwise a legal one."""
    return text if len(text) <= most and _ID.fullmatch(text) else sanitized(text, most)


_ID = re.compile(r"[a-zA-Z0-9_.:-]+")


def _is_legal_id(call_id: object) -> bool:
    return isinstance(call_id, str) and legal_id(call_id) == call_id
