"""Ollama: message lists in, `{"messages": [...]}` out.

There are no ids: results follow their calls, in order, with the tool's name. Arguments are objects,
content is one text, images stand beside it, and so does what the model thought.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventstore.message import Document, Image, Opaque, Part, Text, is_base64
from eventstore.wire.content import (
    answer_text,
    as_text,
    chat_message,
    chat_untold,
    copy,
    foreign_text,
    function_call,
    in_words,
    named_part,
    object_arguments,
    shown_apart,
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

NAME = "ollama"
LIST = "messages"
UNNAMED = "unnamed_tool"

ROLES = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant",
    "tool": "tool", "function": "tool", "human": "user", "ai": "assistant", "model": "assistant",
}  # fmt: skip

Test = Callable[[Any], bool]  # of a result, as the provider wrote it


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
        role = "tool" if "tool_name" in message else role
    if role == "tool":
        yield _result(message, is_error, is_rejection)
        return
    made = tuple(_calls(message)) if role == "assistant" else ()
    native = _readable(message)
    parts = tuple(_parts(native))
    exact = given == role and _is_exact(native, role)
    if parts or made or exact:
        yield WireMessage(role, parts, made, native, exact)


def _result(message: dict[str, Any], is_error: Test, is_rejection: Test) -> WireResult:
    content, call_id = message.get("content"), message.get("tool_call_id")
    name = message.get("tool_name") or message.get("name")
    exact = (
        message.get("role") == "tool"
        and isinstance(content, str)
        and isinstance(message.get("tool_name"), str)
        and bool(message["tool_name"])
        and all(message.get(key) is None for key in _NOT_OF_RESULTS)
    )
    return WireResult(
        call_id if isinstance(call_id, str) and call_id else None,
        name if isinstance(name, str) else None,
        as_text(content),
        bool(is_error(message)),
        message if exact else None,
        bool(is_rejection(message)),
        exact,
    )


_NOT_OF_RESULTS = ("images", "thinking", "tool_calls", "tool_call_id")


def _calls(message: dict[str, Any]) -> Iterator[WireCall]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        call_id = call.get("id")
        function = call.get("function")
        made = function if isinstance(function, dict) else call
        yield WireCall(
            call_id if isinstance(call_id, str) and call_id else None,
            function_call(made.get("name"), made.get("arguments")),
        )


def _readable(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its images as base64, which the client takes as well as bytes."""
    images = message.get("images")
    if not isinstance(images, list | tuple):
        return message
    return {**message, "images": [
        b64encode(bytes(image)).decode() if isinstance(image, bytes | bytearray | memoryview)
        else image
        for image in images
    ]}  # fmt: skip


def _parts(message: dict[str, Any]) -> Iterator[Part]:
    thinking = message.get("thinking")
    if isinstance(thinking, str) and thinking:
        yield Opaque(NAME, {"type": "thinking", "thinking": thinking})
    text = as_text(message.get("content"))
    if text:
        yield Text(text)
    images = message.get("images")
    for image in images if isinstance(images, list) else ():
        if isinstance(image, str) and is_base64(image):
            yield Image(None, image)
        elif isinstance(image, str):  # a path on the machine that made the request
            yield Opaque(NAME, {"type": "image", "image": image})


def _is_exact(message: dict[str, Any], role: str) -> bool:
    content, thinking = message.get("content"), message.get("thinking")
    images, calls = message.get("images"), message.get("tool_calls")
    return (
        isinstance(content, str | None)
        and isinstance(thinking, str | None)
        and isinstance(message.get("tool_name"), str | None)
        and (images is None or (isinstance(images, list) and _are_text(images)))
        and (calls is None or (isinstance(calls, list) and all(map(_is_exact_call, calls))))
        and (role == "assistant" or not calls)
    )


def _are_text(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_exact_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and call.get("id") is None
        and isinstance(function.get("name"), str)
        and bool(function["name"])
        and isinstance(function.get("arguments"), dict)
    )


# out


def render(turns: Sequence[Turn]) -> Rendered:
    """The messages for `turns`, every call answered right after its turn, in order."""
    changes: list[Change] = []
    messages: list[dict[str, Any]] = []
    for turn, _ in each_shown(turns, [[]] * len(turns), changes):
        shown = [call for call in turn.calls if not call.hidden]
        message = _message(turn, shown, changes)
        if message is not None:
            messages.append(message)
        if shown:
            messages.extend(render_result(call, "") for call in shown)
            apart = (_message(said, [], changes) for said in shown_apart(turn, NAME, changes))
            messages.extend(filter(None, apart))
    if any(call.provider_id and not call.hidden for turn in turns for call in turn.calls
           if not turn.hidden):  # fmt: skip
        changes.append(Change("dropped", "OL01", "ids have no place here: results go by order"))
    return Rendered({"messages": messages}, changes)


def _message(turn: Turn, shown: list[Call], changes: list[Change]) -> dict[str, Any] | None:
    own = turn.provider == NAME and turn.native is not None
    if own and turn.exact and len(shown) == len(turn.calls):
        return copy(turn.native)  # type: ignore[no-any-return]
    thoughts: list[str] = []
    texts: list[str] = []
    images: list[str] = []
    for part in turn.parts:
        _sort(part, thoughts, texts, images, changes)
    if len(texts) > 1:
        changes.append(Change("merged", "text", "several texts of a message became one"))
    if thoughts and len(shown) < len(turn.calls):
        changes.append(Change("dropped", "reasoning", "a part of its turn is not shown"))
        thoughts = []
    if not (texts or images or shown or thoughts):
        return None
    role = "system" if turn.role == "developer" else turn.role
    message: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if thoughts:
        message["thinking"] = "\n".join(thoughts)
    if images:
        message["images"] = images
    if shown:
        message["tool_calls"] = [
            {
                "function": {
                    "name": _name(call, changes),
                    "arguments": object_arguments(call, changes),
                }
            }
            for call in shown
        ]
    return message


def untold(native: Any) -> Iterator[str]:
    """The members of a message of ours that no other provider has a place for."""
    return chat_untold(native, _TOLD)


_TOLD = {"role", "content", "thinking", "images", "tool_calls", "tool_name", "is_error"}


def _sort(
    part: Part, thoughts: list[str], texts: list[str], images: list[str], changes: list[Change]
) -> None:
    """Put a part where it belongs in a message."""
    if isinstance(part, Text):
        texts.append(part.text)
    elif isinstance(part, Image) and part.data is not None:
        images.append(part.data)
    elif isinstance(part, Image | Document):
        kind = "an address of an image" if isinstance(part, Image) else "a document"
        changes.append(Change("wrapped", named_part(part), f"{kind} became text"))
        texts.append(in_words(part))
    elif part.provider == NAME and isinstance(part.data, dict):
        if part.data.get("type") == "thinking":
            thoughts.append(as_text(part.data.get("thinking")))
        else:
            images.append(as_text(part.data.get("image")))
    else:
        text = foreign_text(part, changes)
        texts += [text] if text else []


def _name(call: Call, changes: list[Change]) -> str:
    if not call.name:
        changes.append(Change("re-keyed", "name", f"a tool without a name is {UNNAMED!r} here",
                              call.id))  # fmt: skip
    return call.name or UNNAMED


def render_result(call: Call, _: str) -> dict[str, Any]:
    """The tool message that answers `call`; there are no ids."""
    answer = call.answer
    name = call.name or UNNAMED
    if answer.provider == NAME and answer.native is not None:
        message: dict[str, Any] = copy(answer.native)
        message["tool_name"] = name
        if answer.note:
            message["content"] = f"{answer.text}\n{answer.note}"
        return message
    return {"role": "tool", "content": answer_text(answer), "tool_name": name}
