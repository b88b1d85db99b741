"""Anthropic Messages: message lists in, `{"system": ..., "messages": [...]}` out.

Results stand in the one user message right after their calls, before anything else. System
text is a parameter of the request; later in the conversation it becomes a user's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventstore.fingerprint import content_id
from eventstore.message import PDF, Document, Image, Opaque, Part, Text
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
    named_part,
    object_arguments,
    plain_text,
)
from eventstore.wire.items import (
    Answer,
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

NAME = "anthropic"
LIST = "messages"
BLOCKS = "content"
ID_LENGTH = 64
NAME_LENGTH = 128
_SERVED_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
TOOL_CHANGES = ("tool_addition", "tool_removal")
OPENING = "[The conversation begins here.]"

ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "model": "assistant", "tool": "user",
}  # fmt: skip

REASONING = ("thinking", "redacted_thinking")
SERVED = ("server_tool_use", "mcp_tool_use")  # calls that the provider's own servers run

Test = Callable[[Any], bool]  # of a result, as the provider wrote it


# in


def parse(messages: Sequence[Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    """The items of a message list, whatever its form; what says nothing is left out."""
    for message in messages:
        if isinstance(message, str):
            message = {"role": "user", "content": message}  # noqa: PLW2901
        if isinstance(message, dict):
            yield from _items(message, is_error, is_rejection)
        elif message is not None:
            yield WireMessage("user", (Text(as_text(message)),))


def _items(message: dict[str, Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    given = message.get("role")
    role = ROLES.get(given, "user") if isinstance(given, str) else "user"
    content = message.get("content")
    message_id = message.get("id")
    key = message_id if isinstance(message_id, str) else None
    if not isinstance(content, list):
        text = as_text(content)
        if text.strip():
            native = _native(message, role, content)
            exact = given == role and isinstance(content, str)
            yield WireMessage(role, (Text(text),), (), native, exact, key=key)
        return
    results = [block for block in content if _is(block, "tool_result")]
    rest = [block for block in content if not _is(block, "tool_result")]
    exact = given == role
    if role == "assistant":
        yield from _message(_native(message, role, rest), exact=exact, key=key)
        yield from (_result(block, is_error, is_rejection) for block in results)
        return
    yield from (_result(block, is_error, is_rejection) for block in results)
    calls = [block for block in rest if _is(block, "tool_use")]
    said = [block for block in rest if not _is(block, "tool_use")]
    if calls:  # only an assistant can call
        yield from _message(_native({}, "assistant", calls), exact=False)
    exact = exact and not any(_is(block, "tool_result") for block in content[len(results) :])
    native = _native(message, role, [*([None] * len(results)), *said])
    yield from _message(native, exact=exact, key=key, results=len(results))


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


def _native(message: dict[str, Any], role: str, content: Any) -> dict[str, Any]:
    """What may be sent of a message, in its order: a response has more members."""
    return in_order({"role": role, "content": content}, message)


def _message(
    native: dict[str, Any], *, exact: bool, key: str | None = None, results: int = 0
) -> Iterator[WireMessage]:
    """The message that `native` is, its results but None."""
    blocks = native["content"][results:]
    parts: list[Part] = []
    calls: list[WireCall] = []
    for block in blocks:
        if _is(block, "tool_use"):
            call_id = block.get("id")
            calls.append(
                WireCall(
                    call_id if isinstance(call_id, str) and call_id else None,
                    function_call(block.get("name"), block.get("input")),
                )
            )
        else:
            parts.extend(_part(block))
    exact = exact and all(_is_exact_block(block, native["role"]) for block in blocks)
    if parts or calls or (results and exact):
        joined = results > 0
        yield WireMessage(
            native["role"], tuple(parts), tuple(calls), native, exact, joined, key, results=results
        )


def _part(block: Any) -> Iterator[Part]:
    if isinstance(block, dict):
        kind, text = block.get("type"), block.get("text")
        if kind == "text":
            said = as_text(text)
            if said.strip():
                plain = said is not text or len(block) == 2  # noqa: PLR2004 - type and text
                yield Text(said) if plain else Opaque(NAME, block)
        elif kind == "image" and (image := bare(media(block), block)):
            yield image
        elif isinstance(kind, str):
            yield Opaque(NAME, block)
        elif block:
            yield Text(as_text(block))
    elif isinstance(block, str):
        if block.strip():
            yield Text(block)
    elif block is not None:
        yield Text(as_text(block))


def media(block: dict[str, Any]) -> Image | Document | None:
    """The image or document that a block of ours shows, whatever else it says."""
    source = block.get("source")
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


def _document(source: dict[str, Any], title: Any) -> Document | None:
    name = title if isinstance(title, str) and title else None
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Document(source["url"], None, name)
    if source.get("media_type") == PDF and isinstance(source.get("data"), str):
        return Document(None, source["data"], name)
    return None


def _result(block: dict[str, Any], is_error: Test, is_rejection: Test) -> WireResult:
    call_id = block.get("tool_use_id")
    exact = _is_exact_result(block)
    return WireResult(
        call_id if isinstance(call_id, str) and call_id else None,
        None,
        as_text(block.get("content")),
        bool(is_error(block)),
        block if exact else None,
        bool(is_rejection(block)),
        exact,
    )


def _is_exact_result(block: dict[str, Any]) -> bool:
    content = block.get("content")
    if type(block.get("is_error", False)) is not bool:  # 0 is no boolean
        return False
    if content is None or isinstance(content, str):
        return bool(content and content.strip()) or not block.get("is_error")
    if not isinstance(content, list) or (not content and block.get("is_error")):
        return False
    return all(isinstance(item, dict) and _is_exact_block(item) for item in content)


def _is_exact_block(block: Any, role: str = "user") -> bool:
    """Whether a block may go back as it is, in a message of `role` or a result."""
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    if not _is_at_home(block, role):
        return False
    if block["type"] == "text":
        return isinstance(block.get("text"), str) and bool(block["text"].strip())
    if block["type"] == "tool_use":
        name, call_id = block.get("name"), block.get("id")
        return (
            isinstance(name, str)
            and legal_text(name, NAME_LENGTH) == name
            and isinstance(call_id, str)
            and isinstance(block.get("input"), dict)
        )
    return True


def _is_at_home(block: dict[str, Any], role: str) -> bool:
    """Whether the API takes a block from `role`; what was thought only with its signature."""
    kind = block.get("type")
    if role == "assistant":
        signature = block.get("signature")
        signed = isinstance(signature, str) and bool(signature)
        return kind not in ("image", "document") and (signed or kind != "thinking")
    return kind not in REASONING


# out


def render(turns: Sequence[Turn]) -> Rendered:
    """The request for `turns`: every call answered in the user message right after it."""
    changes: list[Change] = []
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    ids = call_ids(turns, ID_LENGTH, changes, per_turn=False)
    for turn, names in each_shown(turns, ids, changes):
        shown = [(call, name) for call, name in zip(turn.calls, names, strict=True)
                 if not call.hidden]  # fmt: skip
        if turn.role == "assistant":
            _add_assistant(messages, turn, shown, changes)
        elif turn.role in ("system", "developer") and not messages:
            system.append(plain_text(turn.parts, changes))
            changes.append(Change("moved", "AN10", "system text is a parameter of the request"))
        else:
            _add_user(messages, turn, changes)
        if shown:
            results = [render_result(call, name) for call, name in shown]
            messages.append(closed(turn, NAME, BLOCKS, results))
    _pair_served(messages, changes)
    if messages and messages[-1]["role"] == "assistant":
        _end(messages[-1], changes)
    if messages and messages[0]["role"] != "user" and not _is_compacted(messages[0]):
        changes.append(Change("added", "AN12", "a conversation starts with the user"))
        messages.insert(0, {"role": "user", "content": OPENING})
    arguments: dict[str, Any] = {"messages": messages}
    if any(system):
        arguments = {"system": "\n\n".join(text for text in system if text), **arguments}
    return Rendered(arguments, changes)


def _add_assistant(
    messages: list[dict[str, Any]],
    turn: Turn,
    shown: list[tuple[Call, str]],
    changes: list[Change],
) -> None:
    if _is_own(turn) and len(shown) == len(turn.calls):
        native: dict[str, Any] = copy(turn.native)
        made = [block for block in _native_blocks(native) if _is(block, "tool_use")]
        if len(made) == len(shown):
            for block, (_, name) in zip(made, shown, strict=True):
                block["id"] = name
            messages.append(native)
            return
    content = _blocks(turn.parts, changes, "assistant")
    whole = len(shown) == len(turn.calls) and not any(map(_is_unsigned, turn.parts))
    if not whole:  # reasoning goes with the turn it belongs to, or not at all
        content = [block for block in content if block.get("type") not in REASONING]
    content += [
        {
            "type": "tool_use",
            "id": name,
            "name": tool_name(call, NAME_LENGTH, changes),
            "input": object_arguments(call, changes),
        }
        for call, name in shown
    ]
    if content:
        messages.append({"role": "assistant", "content": _plain(content)})


def _is_unsigned(part: Part) -> bool:
    """Whether it is reasoning of ours that the API does not take back."""
    if not isinstance(part, Opaque) or part.provider != NAME:
        return False
    return _is(part.data, "thinking") and not _is_at_home(part.data, "assistant")


def _is_own(turn: Turn) -> bool:
    return turn.provider == NAME and turn.exact and turn.native is not None


def untold(native: Any) -> Iterator[str]:
    """The members of a message of ours that no other provider has a place for."""
    for block in _native_blocks(native) if "role" in native else [native]:
        for kind, told in _TOLD.items():
            if _is(block, kind):
                yield from beyond(block, told)


_TOLD = {
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}


def _native_blocks(native: dict[str, Any]) -> list[Any]:
    content = native.get("content")
    return [each for each in content if each is not None] if isinstance(content, list) else []


def _add_user(messages: list[dict[str, Any]], turn: Turn, changes: list[Change]) -> None:
    own = _is_own(turn) and (turn.role == "user" or _changes_tools(turn))
    if own and not turn.joined:
        messages.append(copy(turn.native))
        return
    content = copy(_native_blocks(turn.native)) if own else _blocks(turn.parts, changes)
    if turn.role in ("system", "developer"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "AN11", "a later system message became a user's text"))
        content = [{"type": "text", "text": f"[system] {said}"}] if said else []
    if not content:
        return
    # Neighbours of ours become one message; those that the provider's user kept apart stay so.
    apart = turn.provider == NAME and not turn.joined
    last = messages[-1] if messages else None
    if last is not None and last["role"] == "user" and not apart:
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"].extend(content)
    else:
        messages.append({"role": "user", "content": _plain(content)})


def _changes_tools(turn: Turn) -> bool:
    """Whether it is a message that only the API's newest models take, and no text can replace."""
    return any(_is(block, kind) for block in _native_blocks(turn.native) for kind in TOOL_CHANGES)


def _end(message: dict[str, Any], changes: list[Change]) -> None:
    """The last message's text ends in no blank: the model goes on from it."""
    content = message["content"]
    ends = [(message, "content")] if isinstance(content, str) else [(b, "text") for b in content]
    for holder, key in ends[-1:]:
        text = holder.get(key)
        if isinstance(text, str) and text[-1:].isspace():
            changes.append(Change("rewritten", "AN09", "a final text ends in no blank"))
            holder[key] = text.rstrip()


def _pair_served(messages: list[dict[str, Any]], changes: list[Change]) -> None:
    """Calls that the servers ran without a result, and results without a call, become text.

    A result may still come while nothing but results of ours has followed the call.
    """
    blocks = [
        block
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if isinstance(block, dict)
    ]
    _name_served(blocks, changes)
    asked = [block.get("id") for block in blocks if block.get("type") in SERVED]
    known = [block.get("tool_use_id") for block in blocks if _is_served_result(block)]
    if not asked and not known:
        return
    paired = {each for each in asked if isinstance(each, str)}
    paired &= {each for each in known if isinstance(each, str)}
    running = True
    for message in reversed(messages):
        content = message["content"]
        if isinstance(content, list):
            message["content"] = [
                _unpaired(block, paired, changes, running=running) for block in content
            ]
        running = running and isinstance(content, list) and _is_answer(message["role"], content)


def _is_compacted(message: dict[str, Any]) -> bool:
    """Whether it stands for what came before: nothing needs to."""
    content = message["content"]
    return isinstance(content, list) and _is(content[0], "compaction")


def _name_served(blocks: list[dict[str, Any]], changes: list[Change]) -> None:
    """Give calls that the servers ran, and their results, ids as only the servers write them."""
    for block in blocks:
        key = "id" if block.get("type") == "server_tool_use" else "tool_use_id"
        given = block.get(key)
        own = key == "id" or (_is_served_result(block) and block["type"] != "mcp_tool_result")
        if own and isinstance(given, str) and not _SERVED_ID.fullmatch(given):
            mark = content_id(given.encode("utf-8", "surrogatepass")).hex()[:24]
            block[key] = f"srvtoolu_{mark}"
            why = f"id {given!r} is {block[key]!r} here"
            changes.append(Change("re-keyed", "AN06", why))


def _unpaired(block: Any, paired: set[str], changes: list[Change], *, running: bool) -> Any:
    if _is_served_result(block):
        call_id = block.get("tool_use_id")
        told = f"[{block['type']}] {as_text(block.get('content'))}"
    elif isinstance(block, dict) and block.get("type") in SERVED:
        call_id = block.get("id")
        if running and isinstance(call_id, str):
            return block
        told = f"[{block.get('name')} was called, no result came: {as_text(block.get('input'))}]"
    else:
        return block
    if isinstance(call_id, str) and call_id in paired:
        return block
    changes.append(Change("wrapped", "AN16", f"{block['type']} has no counterpart: kept as text"))
    return {"type": "text", "text": told}


def _is_served_result(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind.endswith("_tool_result")


def _is_answer(role: str, content: list[Any]) -> bool:
    return role == "user" and bool(content) and all(_is(b, "tool_result") for b in content)


def _plain(content: list[dict[str, Any]]) -> Any:
    """One plain text is a string, as people write it."""
    if len(content) == 1 and content[0].keys() == {"type", "text"}:
        return content[0]["text"]
    return content


def _blocks(
    parts: tuple[Part, ...], changes: list[Change], role: str = "user"
) -> list[dict[str, Any]]:
    return [block for part in parts if (block := _block(part, changes, role)) is not None]


def _block(part: Part, changes: list[Change], role: str) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if isinstance(part, Image | Document) and role == "assistant":
        why = f"an assistant shows no {named_part(part)} here"
        changes.append(Change("wrapped", "AN13", why))
        return {"type": "text", "text": in_words(part)}
    if isinstance(part, Image):
        return {"type": "image", "source": _source(part, part.media_type or "image/png")}
    if isinstance(part, Document):
        title = {"title": part.name} if part.name else {}
        return {"type": "document", "source": _source(part, PDF), **title}
    if part.provider == NAME and _is_at_home(part.data, role):
        return copy(part.data)  # type: ignore[no-any-return]
    text = foreign_text(part, changes)
    return {"type": "text", "text": text} if text and text.strip() else None


def _source(shown: Image | Document, media_type: str) -> dict[str, Any]:
    if shown.url is not None:
        return {"type": "url", "url": shown.url}
    return {"type": "base64", "media_type": media_type, "data": shown.data or ""}


def render_result(call: Call, name: str) -> dict[str, Any]:
    """The block that answers `call`, whose id here is `name`."""
    answer = call.answer
    if answer.provider == NAME and answer.native is not None:
        block: dict[str, Any] = copy(answer.native)
        block["tool_use_id"] = name
        if answer.note:
            block["content"] = f"{answer.text}\n{answer.note}"
        return block
    return _new_result(answer, name)


def _new_result(answer: Answer, name: str) -> dict[str, Any]:
    text = f"{answer.text}\n{answer.note}" if answer.note else answer.text
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": name, "content": text}
    if answer.is_error:
        block["content"] = text if text.strip() else "error"
        block["is_error"] = True
    elif answer.parts:
        noted = (*answer.parts, Text(answer.note)) if answer.note else answer.parts
        block["content"] = _blocks(noted, [])
    return block


def result_parts(native: Any) -> tuple[Part, ...]:
    """What a result of ours shows."""
    content = native.get("content")
    return tuple(part for block in content for part in _part(block)) if isinstance(
        content, list) else ()  # fmt: skip
