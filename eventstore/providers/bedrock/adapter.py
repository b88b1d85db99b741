"""Amazon Bedrock's Converse: message lists in, `{"system": [...], "messages": [...]}` out.

Results stand in the one user message right after their calls. System text is a parameter of the
request; later in the conversation it becomes a user's text. Bytes, which JSON cannot hold, are
stored as base64 under the member `$bytes`, and go back as bytes. A blank result gets a text.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.domain.own_texts import OPENING, STOPPED
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.bedrock.shapes import BLOCKS, GEMINI_MEMBERS
from eventstore.providers.cache_ends import ends_of_requests
from eventstore.providers.identifiers import call_ids, sanitized, tool_name
from eventstore.providers.media import plain_image
from eventstore.providers.model import (
    TURN_ROLES,
    Call,
    Change,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
    Rendered,
    Turn,
    visible_calls,
    visible_turns,
)
from eventstore.providers.parts import (
    as_text,
    copy,
    described,
    foreign_text,
    function_call,
    in_order_of,
    object_arguments,
    other_members,
    plain_text,
    results_message_for,
    without_media,
)
from eventstore.providers.shapes import misshapen
from eventstore.providers.tool_definition import ToolDefinition

NAME: Final = "bedrock"
_BLOCKS: Final = "content"
_MAX_ID: Final = 64
_MAX_NAME: Final = 64
_MAX_CACHE_POINTS: Final = 4
EMPTY = "[The result is empty.]"
DOCUMENT = "[document]"
TOOL_CHANGES = frozenset({"toolAddition", "toolRemoval"})
BYTES = "$bytes"

_BLOBS = ("bytes", "redactedContent")
_DEPTH = 8  # blobs are no deeper in a block
_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}


class BedrockAdapter(ProviderAdapter):
    """Reads and writes the messages of Bedrock's Converse."""

    name = NAME
    list_key = "messages"
    system_key = "system"
    results_key = _BLOCKS
    error_flag = True
    signature = FormatSignature(calls=("toolUse",), results=("toolResult",))

    response_members = ResponseMembers(
        response_id=(("ResponseMetadata", "RequestId"),),
        model=(("trace", "promptRouter", "invokedModelId"),),
        finish_reason=(("stopReason",),),
        input=(
            ("usage", "inputTokens"),
            ("usage", "cacheReadInputTokens"),
            ("usage", "cacheWriteInputTokens"),
        ),
        output=(("usage", "outputTokens"),),
        cached=(("usage", "cacheReadInputTokens"),),
    )

    def parse(
        self, messages: Iterable[object], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if is_json_object(message):
                yield from _items(message, is_error, is_rejection)
            elif message is not None:
                text = as_text(message)
                if text.strip():
                    yield ParsedMessage("user", (Text(text),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the request for `turns`, every call answered right after its message."""
        changes: list[Change] = []
        system: list[JsonObject] = []
        messages: list[JsonObject] = []
        ids = call_ids(turns, _MAX_ID, changes, per_turn=False)
        for turn, names in visible_turns(turns, ids, changes):
            shown = visible_calls(turn, names)
            if turn.role == "assistant":
                _add_assistant(messages, turn, shown, changes)
            elif turn.role in ("system", "developer") and not messages:
                text = plain_text(turn.parts, changes)
                system += [{"text": text}] if text.strip() else []
                changes.append(Change("moved", "BE03", "system text is a parameter of the request"))
            else:
                _add_user(messages, turn, changes)
            if shown:
                messages.append(_results_message(turn, shown, changes))
        _name_documents(messages, changes)
        for message in messages:
            kinds = {kind for block in message["content"] for kind in block}
            if "document" in kinds and "text" not in kinds:
                changes.append(Change("added", "BE02", "a document needs a text beside it"))
                message["content"].append({"text": DOCUMENT})
        _let_user_begin(messages, changes)
        arguments: JsonObject = {"messages": messages}
        return Rendered({"system": system, **arguments} if system else arguments, changes)

    def finish_request(self, rendered: Rendered, *, prefill: bool) -> None:
        """Let the user speak last: newer models do not go on from the assistant's words.

        Cache points keep their limits.
        """
        messages: list[JsonObject] = rendered.arguments["messages"]
        rendered.changes += _limit_cache_points(messages)
        _let_user_begin(messages, rendered.changes)
        if not messages or messages[-1]["role"] != "assistant":
            return
        if not prefill and not _goes_on(messages[-1]):
            rendered.changes.append(Change("added", "BE05", "a request ends with the user"))
            messages.append({"role": "user", "content": [{"text": STOPPED}]})

    def mark_for_cache(self, rendered: Rendered) -> None:
        """Put a `cachePoint` after the system text, and at the ends of the last two requests."""
        arguments = rendered.arguments
        if "system" in arguments:
            arguments["system"] = [*arguments["system"], _cache_point()]
        messages = [_without_cache_points(message) for message in arguments["messages"]]
        messages = [message for message in messages if message["content"]]
        for place in ends_of_requests(messages):
            content = [*messages[place]["content"], _cache_point()]
            messages[place] = {**messages[place], "content": content}
        arguments["messages"] = messages

    def mark_tools_for_cache(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return the tools with a `cachePoint` after them."""
        return [*tools, _cache_point()] if tools else []

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return one of the tools of the request's `toolConfig`."""
        spec = tool.with_schema_as("inputSchema")
        spec["inputSchema"] = {"json": spec["inputSchema"]}
        return {"toolSpec": spec}

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the block that answers `call`."""
        return _answer(call, call_id, [])

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of a message that no other provider has a place for."""
        blocks: list[JsonValue] = [native]
        if isinstance(native, dict) and "role" in native:
            blocks = _blocks_of(native)
        for block in blocks:
            for kind, portable in _PORTABLE.items():
                if _is_client_block(block, kind):
                    yield from other_members(block[kind], portable)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a block shows."""
        return _media(part)

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed result shows."""
        return tuple(part for block in native["toolResult"]["content"] for part in _shown(block))

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether a block of the message names its kind by its only member."""
        content: JsonValue = message.get("content")
        blocks = content if isinstance(content, list) else ()
        return any(isinstance(block, dict) and "type" not in block for block in blocks)

    def system_text(self, arguments: JsonObject) -> str | None:
        """Return the text of the system blocks."""
        blocks: list[JsonObject] | None = arguments.get("system")
        return "\n\n".join(block["text"] for block in blocks) if blocks else None


ADAPTER: Final = BedrockAdapter()


# reading


def _items(
    message: JsonObject, is_error: ResultTest, is_rejection: ResultTest
) -> Iterator[ParsedItem]:
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
    results = [block for block in blocks if _is_client_block(block, "toolResult")]
    rest = [block for block in blocks if not _is_client_block(block, "toolResult")]
    if role == "assistant":
        yield from _message(_native(message, role, rest), well_formed=well_formed)
        yield from (_result(block, is_error, is_rejection) for block in results)
        return
    yield from (_result(block, is_error, is_rejection) for block in results)
    calls = [block for block in rest if _is_client_block(block, "toolUse")]
    if calls:  # only an assistant can call
        yield from _message(_native({}, "assistant", calls), well_formed=False)
        blocks = [block for block in blocks if not _is_client_block(block, "toolUse")]
    said = [None if _is_client_block(block, "toolResult") else block for block in blocks]
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


def _unpacked(value: JsonValue, depth: int = _DEPTH) -> JsonValue:
    """Return a copy of blocks with marked base64 as bytes."""
    if isinstance(value, dict):
        return _unpacked_object(value, depth)
    if isinstance(value, list) and depth:
        return [_unpacked(item, depth - 1) for item in value]
    return copy(value)


def _unpacked_object(value: JsonObject, depth: int = _DEPTH) -> JsonObject:
    """Return a copy of a message or a block with marked base64 as bytes."""
    if not depth:
        return copy(value)
    unpacked: JsonObject = {**value}
    item: JsonValue
    for key, item in value.items():
        if key in _DOCUMENTS:
            unpacked[key] = copy(item)
        elif key in _BLOBS and _is_marked(item):
            unpacked[key] = _decoded(item[BYTES])
        elif isinstance(item, (dict, list)):
            unpacked[key] = _unpacked(item, depth - 1)
    return unpacked


_DOCUMENTS = frozenset({"input", "json"})
"""Members that hold any JSON, which has no bytes."""


def _is_marked(value: JsonValue) -> TypeGuard[JsonObject]:
    """Return whether a value is marked base64."""
    return isinstance(value, dict) and value.keys() == {BYTES}


def _decoded(text: JsonValue) -> bytes:
    """Return the bytes of base64; none where it was not written by `_packed`."""
    try:
        return b64decode(text) if isinstance(text, str) else b""
    except ValueError:
        return b""


def _is_client_block(block: JsonValue, kind: str) -> TypeGuard[JsonObject]:
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
    blocks = _blocks_of(native)
    parts: list[Part] = []
    calls: list[ParsedCall] = []
    for block in blocks:
        if _is_client_block(block, "toolUse"):
            made: JsonObject = block["toolUse"]
            call_id = made.get("toolUseId")
            calls.append(
                ParsedCall(
                    call_id if isinstance(call_id, str) and call_id else None,
                    function_call(made.get("name"), made.get("input")),
                )
            )
        else:
            parts.extend(_part(block))
    well_formed = well_formed and all(
        _is_well_formed_block(block) and _is_accepted_from(block, native["role"])
        for block in blocks
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


def _blocks_of(native: JsonObject) -> list[JsonValue]:
    """Return the blocks of a native message, without the None that replaces each result."""
    return [block for block in native["content"] if block is not None]


def _part(block: JsonValue) -> Iterator[Part]:
    kind, body = next(iter(block.items()), (None, None)) if isinstance(block, dict) else _NONE
    if kind == "text":
        text = as_text(body)
        if text.strip():
            yield Text(text)
    elif (
        kind == "image" and isinstance(block, dict) and (image := plain_image(_media(block), block))
    ):
        yield image
    elif _is_well_formed_block(block):
        yield Opaque(NAME, block)
    elif (text := as_text(block)).strip() and block != {}:
        yield Text(text)


_NONE = (None, None)


def _media(block: JsonObject) -> Image | Document | None:
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
        bool(is_rejection(inner)),
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
    return _is_well_formed_block(block) and not block.keys() & _NOT_IN_RESULTS


def _is_well_formed_call(inner: JsonObject) -> bool:
    name, call_id = inner.get("name"), inner.get("toolUseId")
    return (
        isinstance(name, str)
        and sanitized(name, _MAX_NAME) == name
        and isinstance(call_id, str)
        and isinstance(inner.get("input"), dict)
    )


def _is_well_formed_block(block: JsonValue) -> TypeGuard[JsonObject]:
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
    legal = _is_client_block(block, kind) or _is_legal_id(body.get("toolUseId"))
    return legal and (_is_well_formed_call if kind == "toolUse" else _is_well_formed_result)(body)


def _is_accepted_from(block: JsonObject, role: str) -> bool:
    """Return whether a message of `role` may hold a block: users show, assistants reason."""
    return not block.keys() & (_OF_USERS if role == "assistant" else _OF_ASSISTANTS)


_NOT_IN_MESSAGES = frozenset({"json", *GEMINI_MEMBERS})
"""Members that only a result's block has, or a part of Gemini's."""
_NOT_IN_RESULTS = frozenset({"toolUse", "toolResult", "reasoningContent", "cachePoint"})
_OF_USERS = frozenset({"image", "document", "video"})
_OF_ASSISTANTS = frozenset({"reasoningContent"})


def _is_legal_id(call_id: object) -> bool:
    return isinstance(call_id, str) and sanitized(call_id, _MAX_ID) == call_id


# writing


def _add_assistant(
    messages: list[JsonObject],
    turn: Turn,
    shown: list[tuple[Call, str]],
    changes: list[Change],
) -> None:
    own = turn.own_message(NAME)
    if own is not None and len(shown) == len(turn.calls):
        native = _unpacked_object(own)
        made = [
            block["toolUse"] for block in _blocks_of(native) if _is_client_block(block, "toolUse")
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
                "name": tool_name(call, _MAX_NAME, changes),
                "input": object_arguments(call, changes),
            }
        }
        for call, name in shown
    ]
    _add(messages, "assistant", content, separate=turn.provider == NAME)


_PORTABLE = {
    "toolUse": {"toolUseId", "name", "input"},
    "toolResult": {"toolUseId", "content", "status"},
}
"""Members of calls and results that arrive at other providers."""


def _add_user(messages: list[JsonObject], turn: Turn, changes: list[Change]) -> None:
    native = turn.own_message(NAME)
    if native is not None and turn.role == "system" and _changes_tools(native):
        messages.append(_unpacked_object(native))
        return
    if turn.role in ("system", "developer"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "BE03", "a later system message became a user's text"))
        content = [{"text": f"[system] {said}"}] if said else []
    elif native is not None:
        blocks = _blocks_of(native)
        content = [_unpacked_object(block) for block in blocks if isinstance(block, dict)]
    else:
        content = _blocks(turn.parts, changes)
    _add(messages, "user", content, separate=turn.provider == NAME and not turn.shares_message)


def _let_user_begin(messages: list[JsonObject], changes: list[Change]) -> None:
    if messages and messages[0]["role"] != "user":
        changes.append(Change("added", "BE03", "a conversation starts with the user"))
        messages.insert(0, {"role": "user", "content": [{"text": OPENING}]})


def _cache_point() -> JsonObject:
    """Return a mark, an object of its own: the caller may change the request."""
    return {"cachePoint": {"type": "default"}}


def _limit_cache_points(messages: list[JsonObject]) -> Iterator[Change]:
    """Take out cache points right after reasoning, and all but the newest 4."""
    left = _MAX_CACHE_POINTS
    dropped = 0
    for message in reversed(messages):
        content: list[JsonObject] = message["content"]
        if not any("cachePoint" in block for block in content):
            continue
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


def _without_cache_points(message: JsonObject) -> JsonObject:
    content = [block for block in message["content"] if "cachePoint" not in block]
    return {**message, "content": content}


def _goes_on(message: JsonObject) -> bool:
    """Return whether the service itself goes on from the assistant's message, which it paused."""
    last: JsonValue = message["content"][-1] if message["content"] else None
    return isinstance(last, dict) and bool(last.keys() & {"toolUse", "toolResult"})


def _changes_tools(native: JsonObject) -> bool:
    """Return whether a message adds or removes tools, which no text can replace."""
    blocks = _blocks_of(native)
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
    if part.provider == NAME and _is_accepted_from(part.data, role):
        return _unpacked_object(part.data)
    text = foreign_text(part, changes)
    return {"text": text} if text and text.strip() else None


def _image_block(image: Image, changes: list[Change]) -> JsonObject:
    form = _FORMATS.get(image.media_type or "image/png")
    if image.data is not None and form is not None:
        data = _decoded(image.data)
        if data:
            return {"image": {"format": form, "source": {"bytes": data}}}
    changes.append(Change("wrapped", "image", "only png, jpeg, gif and webp can be sent, as bytes"))
    return {"text": described(image)}


def _document_block(document: Document, changes: list[Change]) -> JsonObject:
    data = _decoded(document.data)
    if not data:
        changes.append(Change("wrapped", "document", "a document can be sent only as bytes"))
        return {"text": described(document)}
    name = document.name or "document"
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}


def _name_documents(messages: list[JsonObject], changes: list[Change]) -> None:
    """Give documents legal and unique names; a legal name that is not in use stays."""
    used: set[str] = set()
    for document in (each for message in messages for each in _documents(message["content"])):
        given = as_text(document.get("name"))
        plain = " ".join(_UNNAMED.sub(" ", given.removesuffix(".pdf")).split())[:180].rstrip()
        name = plain = given if _NAME.fullmatch(given) else plain or "document"
        number = 2
        while name.casefold() in used:
            name, number = f"{plain} {number}", number + 1
        used.add(name.casefold())
        if name != document.get("name"):
            why = f"the document {given!r} is {name!r} here"
            changes.append(Change("re-keyed", "document", why))
            document["name"] = name


def _documents(blocks: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield the documents in a message, and those in its results."""
    for block in blocks:
        if isinstance(block.get("document"), dict):
            yield block["document"]
        elif _is_client_block(block, "toolResult"):
            yield from _documents(block["toolResult"]["content"])


_NAME = re.compile(r"(?=.{1,200}$)[\w\-()\[\]]+(\s[\w\-()\[\]]+)*", re.ASCII)
_UNNAMED = re.compile(r"[^\w\-()\[\]]+", re.ASCII)  # characters that a document's name may not have


def _results_message(
    turn: Turn, shown: list[tuple[Call, str]], changes: list[Change]
) -> JsonObject:
    """Return the message with the results of a turn, what errors show behind them."""
    results = [_answer(call, name, changes) for call, name in shown]
    message = results_message_for(turn, NAME, _BLOCKS, results, _unpacked)
    behind: list[JsonObject] = []
    for (call, _), block in zip(shown, results, strict=True):
        if block["toolResult"].get("status") == "error":
            behind += _shown_by_error(call, block["toolResult"], changes)
    if behind:
        content: list[JsonObject] = message[_BLOCKS]
        place = max(n for n, block in enumerate(content, 1) if "toolResult" in block)
        message[_BLOCKS] = [*content[:place], *behind, *content[place:]]
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


def _answer(call: Call, name: str, changes: list[Change]) -> JsonObject:
    answer = call.answer
    if answer.provider == NAME and answer.native is not None:
        block = _unpacked_object(answer.native)
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


def _shown(block: JsonObject) -> Iterator[Part]:
    return iter((Text(as_text(block["json"])),)) if "json" in block else _part(block)
