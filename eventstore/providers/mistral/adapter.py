"""Mistral: message lists in, `{"messages": [...]}` out.

Like OpenAI Chat Completions, but for its ids (9 letters and digits), chunks of content (thinking
among them), arguments that may be objects, and its order: system messages come before the
assistant's, and the last message is the user's, a result, or a prefix for the model to go on from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from eventstore.message import Document, Image, Opaque, Part, Text
from eventstore.wire.content import (
    address,
    as_text,
    bare,
    chat_answer,
    chat_image,
    chat_message,
    chat_untold,
    copy,
    document_of,
    foreign_text,
    function_call,
    image_of,
    object_arguments,
    plain_text,
    shown_apart,
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
from eventstore.wire.naming import call_ids, legal_text, nine_characters, tool_name

NAME = "mistral"
LIST = "messages"
ID_LENGTH = 9
NAME_LENGTH = 64
DETAILS = frozenset({"auto", "low", "high"})
OPENING = "[The conversation begins here.]"

ROLES = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant",
    "tool": "tool", "function": "tool", "human": "user", "ai": "assistant", "model": "assistant",
}  # fmt: skip

Test = Callable[[Any], bool]  # of a result, as the provider wrote it

_encode = msgspec.json.Encoder().encode


# in


def parse(messages: Sequence[Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    """The items of a message list, whatever its form; what says nothing is left out."""
    for message in messages:
        if isinstance(message, dict):
            yield from _item(message, is_error, is_rejection)
        elif message is not None:
            text = as_text(message)
            if text:
                yield WireMessage("user", (Text(text),))


def _item(message: dict[str, Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    message = chat_message(message)
    given = message.get("role")
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        role = "assistant" if message.get("tool_calls") else "user"
        role = "tool" if "tool_call_id" in message else role
    if role == "tool":
        yield _result(message, is_error, is_rejection)
        return
    made = tuple(_calls(message)) if role == "assistant" else ()
    parts = _parts(message.get("content"))
    exact = given == role and _is_exact(message, role)
    if parts or made or exact:
        yield WireMessage(role, parts, made, message, exact)


def _result(message: dict[str, Any], is_error: Test, is_rejection: Test) -> WireResult:
    content = message.get("content")
    call_id, name = message.get("tool_call_id"), message.get("name")
    exact = (
        message.get("role") == "tool" and _is_content(content) and (name is None or _is_name(name))
    )
    return WireResult(
        _id(call_id),
        name if isinstance(name, str) and name else None,
        as_text(content),
        bool(is_error(message)),
        message if exact else None,
        bool(is_rejection(message)),
        exact,
    )


def _id(given: Any) -> str | None:
    """An id, None where there is none: the SDK writes "null" then."""
    return given if isinstance(given, str) and given not in ("", "null") else None


def _calls(message: dict[str, Any]) -> Iterator[WireCall]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        function = call.get("function")
        made = function if isinstance(function, dict) else call
        yield WireCall(
            _id(call.get("id")),
            function_call(made.get("name"), made.get("arguments")),
        )


def _parts(content: Any) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, list):
        return tuple(part for chunk in content for part in _part(chunk))
    return (Text(as_text(content)),)


def _part(chunk: Any) -> Iterator[Part]:
    kind = chunk.get("type") if isinstance(chunk, dict) else None
    if kind == "text" and (not isinstance(chunk.get("text"), str) or len(chunk) == 2):  # noqa: PLR2004
        if chunk.get("text"):
            yield Text(as_text(chunk["text"]))
    elif kind == "image_url" and (image := bare(media(chunk), chunk)):
        yield image
    elif isinstance(kind, str):
        yield Opaque(NAME, chunk)
    elif chunk:
        yield Text(as_text(chunk))


def media(chunk: dict[str, Any]) -> Image | Document | None:
    """The image or document that a chunk of ours shows, whatever else it says."""
    if chunk.get("type") == "document_url":
        return document_of(chunk.get("document_url"), chunk.get("document_name"))
    if chunk.get("type") != "image_url":
        return None
    shown = chunk.get("image_url")
    held = shown if isinstance(shown, dict) else {"url": shown}
    return image_of(held.get("url"), held.get("detail"))


def _is_content(content: Any) -> bool:
    if not isinstance(content, list):
        return isinstance(content, str)
    return all(
        isinstance(chunk, dict)
        and isinstance(chunk.get("type"), str)
        and (chunk["type"] != "text" or isinstance(chunk.get("text"), str))
        for chunk in content
    )


def _is_exact(message: dict[str, Any], role: str) -> bool:
    content = message.get("content")
    if role != "assistant":
        return _is_content(content)
    if content is not None and not _is_content(content):
        return False
    calls = message.get("tool_calls")
    if not calls:
        return calls in (None, []) and bool(content)
    return isinstance(calls, list) and all(map(_is_exact_call, calls))


def _is_exact_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and isinstance(call.get("id"), str)
        and _is_name(function.get("name"))
        and isinstance(function.get("arguments"), str | dict)
    )


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and legal_text(name, NAME_LENGTH) == name


def _extras(message: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in message.items()
        if key not in _OURS and value is not None and isinstance(key, str)
    }


_OURS = {"role", "content", "tool_calls", "tool_call_id", "prefix"}


# out


def render(turns: Sequence[Turn]) -> Rendered:
    """The messages for `turns`, every call answered right after its turn."""
    changes: list[Change] = []
    messages: list[dict[str, Any]] = []
    ids = call_ids(turns, ID_LENGTH, changes, per_turn=True, spell=nine_characters)
    for turn, names in each_shown(turns, ids, changes):
        shown = [(call, name) for call, name in zip(turn.calls, names, strict=True)
                 if not call.hidden]  # fmt: skip
        if turn.role == "assistant":
            message = _assistant(turn, shown, changes)
        elif turn.role in ("system", "developer"):
            before = messages[-1]["role"] if messages else None
            message = _system(turn, before, changes)
        else:
            message = _message(turn, changes)
        if message is not None:
            messages.append(message)
        if shown:
            messages.extend(render_result(call, name) for call, name in shown)
            # Results may hold images, too, but not for the models before v15.
            apart = (_message(said, changes) for said in shown_apart(turn, NAME, changes))
            messages.extend(filter(None, apart))
    _open(messages, changes)
    _close(messages, changes)
    return Rendered({"messages": messages}, changes)


def _open(messages: list[dict[str, Any]], changes: list[Change]) -> None:
    """Results of calls in the very first message are not counted: somebody speaks before it."""
    first = messages[0] if messages else {}
    if first.get("role") == "assistant" and (first.get("tool_calls") or len(messages) == 1):
        changes.append(Change("added", "MI02", "a conversation starts with the user"))
        messages.insert(0, {"role": "user", "content": OPENING})


def _close(messages: list[dict[str, Any]], changes: list[Change]) -> None:
    """The last message is one that the model can go on from."""
    for message in messages[:-1]:
        if message.get("prefix"):
            changes.append(Change("dropped", "MI03", "only the last message can be a prefix"))
            del message["prefix"]
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant" and not last.get("prefix"):
        changes.append(Change("added", "MI03", "the last message is a prefix to go on from"))
        last["prefix"] = True
    elif last.get("role") == "system":
        changes.append(Change("added", "MI03", "the last message is the user's"))
        messages.append({"role": "user", "content": OPENING})


def _is_own(turn: Turn) -> bool:
    return turn.provider == NAME and turn.exact and turn.native is not None


def _message(turn: Turn, changes: list[Change]) -> dict[str, Any] | None:
    if _is_own(turn):
        return copy(turn.native)  # type: ignore[no-any-return]
    content = _content(turn.parts, changes)
    if content is None:
        return None
    return {**_copied_extras(turn), "role": turn.role, "content": content}


def _system(turn: Turn, before: str | None, changes: list[Change]) -> dict[str, Any] | None:
    if before in ("assistant", "tool"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "MI03", "a later system message became a user's text"))
        return {"role": "user", "content": f"[system] {said}"} if said else None
    if _is_own(turn):
        return copy(turn.native)  # type: ignore[no-any-return]
    content = _content(spoken(turn.parts, changes), changes)
    return None if content is None else {"role": "system", "content": content}


def _assistant(
    turn: Turn, shown: list[tuple[Call, str]], changes: list[Change]
) -> dict[str, Any] | None:
    if _is_own(turn) and _is_whole(turn, shown):
        native: dict[str, Any] = copy(turn.native)
        for made, (_, name) in zip(native.get("tool_calls") or (), shown, strict=True):
            made["id"] = name
        return native
    whole = len(shown) == len(turn.calls)
    parts = turn.parts if whole else _without_thinking(turn.parts, changes)
    content = _content(spoken(parts, changes), changes)
    extras = _copied_extras(turn) if whole else {}
    if not shown:
        return None if content is None else {**extras, "role": "assistant", "content": content}
    calls = [
        {
            "id": name,
            "type": "function",
            "function": {
                "name": tool_name(call, NAME_LENGTH, changes),
                "arguments": _encode(object_arguments(call, changes)).decode(),
            },
        }
        for call, name in shown
    ]
    return {**extras, "role": "assistant", "content": content or "", "tool_calls": calls}


def _is_whole(turn: Turn, shown: list[tuple[Call, str]]) -> bool:
    return len(turn.native.get("tool_calls") or ()) == len(shown) == len(turn.calls)


def untold(native: Any) -> Iterator[str]:
    """The members of a message of ours that no other provider has a place for."""
    return chat_untold(native, _TOLD)


_TOLD = {*_OURS, "name", "is_error"} - {"prefix"}


def _copied_extras(turn: Turn) -> dict[str, Any]:
    if turn.provider != NAME:
        return {}
    return {key: copy(value) for key, value in _extras(turn.native or {}).items()}


def _without_thinking(parts: tuple[Part, ...], changes: list[Change]) -> tuple[Part, ...]:
    """Reasoning goes with the whole turn, or not at all."""
    kept = tuple(part for part in parts if not _is_thinking(part))
    if len(kept) < len(parts):
        changes.append(Change("dropped", "reasoning", "a part of its turn is not shown"))
    return kept


def _is_thinking(part: Part) -> bool:
    data = part.data if isinstance(part, Opaque) and part.provider == NAME else None
    return isinstance(data, dict) and data.get("type") == "thinking"


def _content(parts: tuple[Part, ...], changes: list[Change]) -> Any:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text or None
    return [chunk for part in parts if (chunk := _chunk(part, changes)) is not None] or None


def _chunk(part: Part, changes: list[Change]) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, Image):
        return chat_image(part)
    if isinstance(part, Document):
        name = {"document_name": part.name} if part.name else {}
        return {"type": "document_url", "document_url": address(part), **name}
    if part.provider == NAME:
        return copy(part.data)  # type: ignore[no-any-return]
    text = foreign_text(part, changes)
    return {"type": "text", "text": text} if text else None


def render_result(call: Call, name: str) -> dict[str, Any]:
    """The tool message that answers `call`, whose id here is `name`."""
    return chat_answer(call.answer, name, NAME)


def result_parts(native: Any) -> tuple[Part, ...]:
    """What a result of ours shows."""
    return _parts(native["content"])
