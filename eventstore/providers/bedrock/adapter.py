"""Amazon Bedrock's Converse: message lists in, `{"system": [...], "messages": [...]}` out.

Results stand in the one user message right after their calls. System text is a parameter of the
request; later in the conversation it becomes a user's text. Bytes, which JSON cannot say, are kept
as base64 under a mark of ours, and go back as bytes. A result that is blank says so.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventstore.message import Document, Image, Opaque, Part, Text
from eventstore.wire.content import (
    as_text,
    bare,
    beyond,
    closed,
    copy,
    foreign_text,
    function_call,
    in_order,
    in_words,
    object_arguments,
    plain_text,
    spoken,
)
from eventstore.wire.items import (
    Call,
    Change,
    Rendered,
    Turn,
    WireCall,
    WireItem,
    WireMessage,
    WireResult,
    each_shown,
)
from eventstore.wire.naming import call_ids, legal_text, tool_name

NAME = "bedrock"
LIST = "messages"
BLOCKS = "content"
ID_LENGTH = 64
NAME_LENGTH = 64
OPENING = "[The conversation begins here.]"
EMPTY = "[The result is empty.]"
DOCUMENT = "[document]"
TOOL_CHANGES = frozenset({"toolAddition", "toolRemoval"})
BYTES = "$bytes"

ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "model": "assistant", "tool": "user",
}  # fmt: skip

_BLOBS = ("bytes", "redactedContent")
_DEPTH = 8  # blobs are no deeper in a block
_FORMATS = {
    "image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif",
    "image/webp": "webp",
}  # fmt: skip

Test = Callable[[Any], bool]  # of a result, as the provider wrote it


# in


def parse(messages: Sequence[Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    """The items of a message list, whatever its form; what says nothing is left out."""
    for message in messages:
        if isinstance(message, dict):
            yield from _items(message, is_error, is_rejection)
        elif message is not None:
            text = as_text(message)
            if text.strip():
                yield WireMessage("user", (Text(text),))


def _items(message: dict[str, Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    output = message.get("output", message)
    if isinstance(output, dict) and isinstance(output.get("message"), dict):
        message = output["message"]  # a whole response
    given = message.get("role")
    role = ROLES.get(given, "user") if isinstance(given, str) else "user"
    content = message.get("content")
    if not isinstance(content, list):
        text = as_text(content)
        if text.strip():
            yield WireMessage(role, (Text(text),))
        return
    blocks = [block for item in content for block in _single(item)]
    exact = given == role and len(blocks) == len(content) and None not in content
    results = [block for block in blocks if _is_ours(block, "toolResult")]
    rest = [block for block in blocks if not _is_ours(block, "toolResult")]
    if role == "assistant":
        yield from _message(_native(message, role, rest), exact=exact)
        yield from (_result(block, is_error, is_rejection) for block in results)
        return
    yield from (_result(block, is_error, is_rejection) for block in results)
    calls = [block for block in rest if _is_ours(block, "toolUse")]
    if calls:  # only an assistant can call
        yield from _message(_native({}, "assistant", calls), exact=False)
        blocks = [block for block in blocks if not _is_ours(block, "toolUse")]
    held = [None if _is_ours(block, "toolResult") else block for block in blocks]
    yield from _message(
        _native(message, role, held), exact=exact and not calls, results=len(results)
    )


def _native(message: dict[str, Any], role: str, content: list[Any]) -> dict[str, Any]:
    """What may be sent of a message, in its order."""
    return in_order({"role": role, "content": content}, message)


def _single(block: Any) -> Iterator[Any]:
    """A block as it should be, with one member: one for each that it has."""
    if not isinstance(block, dict) or len(block) == 1:
        yield _packed(block)
    elif isinstance(block.get("type"), str):
        yield {"text": as_text([block])}  # another provider's
    else:
        yield from ({key: _packed(value)} for key, value in block.items())


def _packed(value: Any, depth: int = _DEPTH) -> Any:
    """Blocks with their bytes as marked base64."""
    if not depth:
        return value
    if isinstance(value, list):
        return [_packed(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {BYTES: b64encode(bytes(item)).decode()}
        if key in _BLOBS and isinstance(item, bytes | bytearray | memoryview)
        else _packed(item, depth - 1)
        for key, item in value.items()
    }


def _unpacked(value: Any, depth: int = _DEPTH) -> Any:
    """A copy of blocks with their bytes as bytes."""
    if not depth:
        return copy(value)
    if isinstance(value, list):
        return [_unpacked(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _decoded(item[BYTES])
        if key in _BLOBS and isinstance(item, dict) and item.keys() == {BYTES}
        else _unpacked(item, depth - 1)
        for key, item in value.items()
    }


def _decoded(text: Any) -> bytes:
    try:
        return b64decode(text)
    except (ValueError, TypeError):  # not ours
        return b""


def _is_ours(block: Any, kind: str) -> bool:
    """Whether it is a call or result of a tool that the service does not run itself."""
    inner = block.get(kind) if isinstance(block, dict) else None
    if not isinstance(inner, dict):
        return False
    if kind == "toolUse":
        return inner.get("type") != "server_tool_use"
    return inner.get("type") is None


def _message(native: dict[str, Any], *, exact: bool, results: int = 0) -> Iterator[WireMessage]:
    """The message that `native` is, its results but None."""
    blocks = _blocks_of(native)
    parts: list[Part] = []
    calls: list[WireCall] = []
    for block in blocks:
        if _is_ours(block, "toolUse"):
            made = block["toolUse"]
            call_id = made.get("toolUseId")
            calls.append(
                WireCall(
                    call_id if isinstance(call_id, str) and call_id else None,
                    function_call(made.get("name"), made.get("input")),
                )
            )
        else:
            parts.extend(_part(block))
    exact = exact and all(map(_is_exact_block, blocks))
    if parts or calls or (results and exact):
        yield WireMessage(
            native["role"], tuple(parts), tuple(calls), native, exact, results > 0, results=results
        )


def _blocks_of(native: dict[str, Any]) -> list[Any]:
    """The blocks of a message of ours, but for the results, which stand apart."""
    return [block for block in native["content"] if block is not None]


def _part(block: Any) -> Iterator[Part]:
    kind, body = next(iter(block.items()), (None, None)) if isinstance(block, dict) else _NONE
    if kind == "text":
        text = as_text(body)
        if text.strip():
            yield Text(text)
    elif kind == "image" and (image := bare(media(block), block)):
        yield image
    elif _is_exact_block(block):
        yield Opaque(NAME, block)
    elif (text := as_text(block)).strip() and block != {}:
        yield Text(text)


_NONE = (None, None)


def media(block: dict[str, Any]) -> Image | Document | None:
    """The image or document that a block of ours shows, whatever else it says."""
    guarded = block.get("guardContent")
    body = (guarded if isinstance(guarded, dict) else block).get("image", block.get("document"))
    source = body.get("source") if isinstance(body, dict) else None
    data = source.get("bytes") if isinstance(source, dict) else None
    if isinstance(data, dict):
        data = data.get(BYTES)
    if not isinstance(body, dict) or not isinstance(data, str):
        return None
    if "document" not in block:
        return Image(None, data, f"image/{body.get('format')}")
    return Document(None, data, body.get("name")) if body.get("format") == "pdf" else None


def _result(block: dict[str, Any], is_error: Test, is_rejection: Test) -> WireResult:
    inner = block["toolResult"]
    call_id = inner.get("toolUseId")
    exact = _is_exact_result(inner)
    return WireResult(
        call_id if isinstance(call_id, str) and call_id else None,
        None,
        _result_text(inner.get("content")),
        inner.get("status") == "error" or bool(is_error(inner)),
        block if exact else None,
        bool(is_rejection(inner)),
        exact,
    )


def _result_text(content: Any) -> str:
    if not isinstance(content, list):
        return as_text(content)
    return "\n".join(map(_block_text, content))


def _block_text(block: Any) -> str:
    kind, body = next(iter(block.items()), (None, None)) if isinstance(block, dict) else _NONE
    if kind in ("text", "json"):
        return as_text(body)
    return f"[{kind}]" if isinstance(kind, str) else as_text(block)


def _is_exact_result(inner: dict[str, Any]) -> bool:
    content = inner.get("content")
    return (
        isinstance(content, list)
        and bool(content)
        and inner.get("status") in ("success", "error", None)
        and all(map(_is_exact_piece, content))
    )


def _is_exact_piece(block: Any) -> bool:
    """Whether a result may hold it."""
    if isinstance(block, dict) and len(block) == 1 and "json" in block:
        return isinstance(block["json"], dict)
    return _is_exact_block(block) and not block.keys() & {"toolUse", "toolResult"}


def _is_exact_call(inner: dict[str, Any]) -> bool:
    name, call_id = inner.get("name"), inner.get("toolUseId")
    return (
        isinstance(name, str)
        and legal_text(name, NAME_LENGTH) == name
        and isinstance(call_id, str)
        and isinstance(inner.get("input"), dict)
    )


def _is_exact_block(block: Any) -> bool:
    if not isinstance(block, dict) or len(block) != 1:
        return False
    kind, body = next(iter(block.items()))
    if kind == "text":
        return isinstance(body, str) and bool(body.strip())
    if not isinstance(kind, str) or not isinstance(body, dict) or kind == "json":
        return False
    if kind not in ("toolUse", "toolResult"):
        return True
    # Of tools that the service runs itself, nobody writes the ids but the service.
    legal = _is_ours(block, kind) or _is_legal_id(body.get("toolUseId"))
    return legal and (_is_exact_call if kind == "toolUse" else _is_exact_result)(body)


def _is_legal_id(call_id: Any) -> bool:
    return isinstance(call_id, str) and legal_text(call_id, ID_LENGTH) == call_id


# out


def render(turns: Sequence[Turn]) -> Rendered:
    """The request for `turns`: every call answered in the user message right after it."""
    changes: list[Change] = []
    system: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    ids = call_ids(turns, ID_LENGTH, changes, per_turn=False)
    for turn, names in each_shown(turns, ids, changes):
        shown = [(call, name) for call, name in zip(turn.calls, names, strict=True)
                 if not call.hidden]  # fmt: skip
        if turn.role == "assistant":
            _add_assistant(messages, turn, shown, changes)
        elif turn.role in ("system", "developer") and not messages:
            text = plain_text(turn.parts, changes)
            system += [{"text": text}] if text.strip() else []
            changes.append(Change("moved", "BE03", "system text is a parameter of the request"))
        else:
            _add_user(messages, turn, changes)
        if shown:
            results = [_answer(call, name, changes) for call, name in shown]
            messages.append(closed(turn, NAME, BLOCKS, results, _unpacked))
    _name_documents(messages, changes)
    for message in messages:
        kinds = {kind for block in message["content"] for kind in block}
        if "document" in kinds and "text" not in kinds:
            changes.append(Change("added", "BE02", "a document has a text beside it"))
            message["content"].append({"text": DOCUMENT})
    if messages and messages[0]["role"] != "user":
        changes.append(Change("added", "BE03", "a conversation starts with the user"))
        messages.insert(0, {"role": "user", "content": [{"text": OPENING}]})
    arguments: dict[str, Any] = {"messages": messages}
    return Rendered({"system": system, **arguments} if system else arguments, changes)


def _add_assistant(
    messages: list[dict[str, Any]],
    turn: Turn,
    shown: list[tuple[Call, str]],
    changes: list[Change],
) -> None:
    if _is_own(turn) and len(shown) == len(turn.calls):
        native = _unpacked(turn.native)
        made = [block["toolUse"] for block in _blocks_of(native) if _is_ours(block, "toolUse")]
        if len(made) == len(shown):
            for each, (_, name) in zip(made, shown, strict=True):
                each["toolUseId"] = name
            messages.append(native)
            return
    content = _blocks(spoken(turn.parts, changes), changes)
    if len(shown) < len(turn.calls):  # reasoning goes with the turn it belongs to, or not at all
        whole = content
        content = [block for block in whole if "reasoningContent" not in block]
        if len(content) < len(whole):
            changes.append(Change("dropped", "reasoning", "a part of its turn is not shown"))
    content += [
        {
            "toolUse": {
                "toolUseId": name,
                "name": tool_name(call, NAME_LENGTH, changes),
                "input": object_arguments(call, changes),
            }
        }
        for call, name in shown
    ]
    _add(messages, "assistant", content, apart=turn.provider == NAME)


def _is_own(turn: Turn) -> bool:
    return turn.provider == NAME and turn.exact and turn.native is not None


def untold(native: Any) -> Iterator[str]:
    """The members of a message of ours that no other provider has a place for."""
    for block in _blocks_of(native) if "role" in native else [native]:
        for kind, told in _TOLD.items():
            if _is_ours(block, kind):
                yield from beyond(block[kind], told)


_TOLD = {
    "toolUse": {"toolUseId", "name", "input"},
    "toolResult": {"toolUseId", "content", "status"},
}


def _add_user(messages: list[dict[str, Any]], turn: Turn, changes: list[Change]) -> None:
    if _is_own(turn) and _changes_tools(turn):
        messages.append(_unpacked(turn.native))
        return
    if turn.role in ("system", "developer"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "BE03", "a later system message became a user's text"))
        content = [{"text": f"[system] {said}"}] if said else []
    elif _is_own(turn):
        content = _unpacked(_blocks_of(turn.native))
    else:
        content = _blocks(turn.parts, changes)
    _add(messages, "user", content, apart=turn.provider == NAME and not turn.joined)


def _changes_tools(turn: Turn) -> bool:
    """Whether it is a message that only the newest models take, and no text can replace."""
    blocks = _blocks_of(turn.native)
    return turn.role == "system" and any(block.keys() & TOOL_CHANGES for block in blocks)


def _add(
    messages: list[dict[str, Any]], role: str, content: list[dict[str, Any]], *, apart: bool
) -> None:
    """Neighbours of ours become one message; those that the provider's user kept apart stay so."""
    if not content:
        return
    if messages and messages[-1]["role"] == role and not apart:
        messages[-1]["content"].extend(content)
    else:
        messages.append({"role": role, "content": content})


def _blocks(parts: tuple[Part, ...], changes: list[Change]) -> list[dict[str, Any]]:
    return [block for part in parts if (block := _block(part, changes)) is not None]


def _block(part: Part, changes: list[Change]) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"text": part.text} if part.text.strip() else None
    if isinstance(part, Image):
        return _image_block(part, changes)
    if isinstance(part, Document):
        return _document_block(part, changes)
    if part.provider == NAME:
        return _unpacked(part.data)  # type: ignore[no-any-return]
    text = foreign_text(part, changes)
    return {"text": text} if text and text.strip() else None


def _image_block(image: Image, changes: list[Change]) -> dict[str, Any]:
    form = _FORMATS.get(image.media_type or "image/png")
    if image.data is not None and form is not None:
        data = _decoded(image.data)
        if data:
            return {"image": {"format": form, "source": {"bytes": data}}}
    changes.append(Change("wrapped", "image", "only png, jpeg, gif and webp can be sent, as bytes"))
    return {"text": in_words(image)}


def _document_block(document: Document, changes: list[Change]) -> dict[str, Any]:
    data = _decoded(document.data)
    if not data:
        changes.append(Change("wrapped", "document", "a document can be sent only as bytes"))
        return {"text": in_words(document)}
    name = document.name or "document"
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}


def _name_documents(messages: list[dict[str, Any]], changes: list[Change]) -> None:
    """Give documents names that the API takes, each its own; what it takes stays."""
    used: set[str] = set()
    for document in (each for message in messages for each in _documents(message["content"])):
        given = as_text(document.get("name"))
        plain = " ".join(_UNNAMED.sub(" ", given.removesuffix(".pdf")).split())[:180].rstrip()
        name = plain = given if _NAME.fullmatch(given) else plain or "document"
        number = 2
        while name.casefold() in used:
            name, number = f"{plain} {number}", number + 1
        used.add(name.casefold())
        if name != given:
            why = f"the document {given!r} is {name!r} here"
            changes.append(Change("re-keyed", "document", why))
            document["name"] = name


def _documents(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The documents in a message, and those in its results."""
    for block in blocks:
        if isinstance(block.get("document"), dict):
            yield block["document"]
        elif _is_ours(block, "toolResult"):
            yield from _documents(block["toolResult"]["content"])


_NAME = re.compile(r"(?=.{1,200}$)[\w\-()\[\]]+(\s[\w\-()\[\]]+)*", re.ASCII)
_UNNAMED = re.compile(r"[^\w\-()\[\]]+", re.ASCII)  # what no document's name holds


def render_result(call: Call, name: str) -> dict[str, Any]:
    """The block that answers `call`, whose id here is `name`."""
    return _answer(call, name, [])


def _answer(call: Call, name: str, changes: list[Change]) -> dict[str, Any]:
    answer = call.answer
    if answer.provider == NAME and answer.native is not None:
        block: dict[str, Any] = _unpacked(answer.native)
        block["toolResult"]["toolUseId"] = name
        if answer.note:
            block["toolResult"]["content"].append({"text": answer.note})
        return block
    text = f"{answer.text}\n{answer.note}" if answer.note else answer.text
    if not text.strip():
        changes.append(Change("wrapped", "BE02", "a result that is blank says so", call.id))
        text = EMPTY
    content = [{"text": text}]
    if answer.parts and not answer.is_error:
        shown = (*answer.parts, Text(answer.note)) if answer.note else answer.parts
        content = _blocks(shown, changes) or content
    result: dict[str, Any] = {"toolUseId": name, "content": content}
    if answer.is_error:
        result["status"] = "error"
    return {"toolResult": result}


def result_parts(native: Any) -> tuple[Part, ...]:
    """What a result of ours shows."""
    return tuple(part for block in native["toolResult"]["content"] for part in _shown(block))


def _shown(block: dict[str, Any]) -> Iterator[Part]:
    return iter((Text(as_text(block["json"])),)) if "json" in block else _part(block)
