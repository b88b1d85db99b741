"""OpenAI Chat Completions: message lists in, `{"messages": [...]}` out.

Also spoken by many compatible servers. A tool message has no error flag: an imported result is
a completion unless it bears `is_error`, which some clients add, or the caller says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from eventstore.message import Document, Image, Opaque, Part, Text
from eventstore.tool import FunctionCall
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
    file_name,
    foreign_text,
    function_call,
    image_of,
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
from eventstore.wire.naming import call_ids, legal_text, short_text, tool_name

NAME = "openai"
LIST = "messages"
ID_LENGTH = 40
NAME_LENGTH = 64
DETAILS = frozenset({"auto", "low", "high", "original"})

ROLES = {
    "system": "system", "developer": "developer", "user": "user", "assistant": "assistant",
    "tool": "tool", "function": "tool", "human": "user", "ai": "assistant", "model": "assistant",
    "bot": "assistant",
}  # fmt: skip

# Members beside the content, and what kind of part they are to others.
BESIDE = {
    "reasoning_content": "reasoning", "reasoning": "reasoning", "audio": "audio",
    "refusal": "refusal",
}  # fmt: skip
_BESIDE = frozenset(BESIDE)
_GIVEN = {"function": "arguments", "custom": "input"}

Test = Callable[[Any], bool]  # of a result, as the provider wrote it

NOTHING: dict[str, Any] = {}

_UNNAMED = re.compile(r"[\s<|\\/>]")  # what no speaker's name holds

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


# in


def parse(messages: Sequence[Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    """The items of a message list, whatever its form; what says nothing is left out."""
    for message in messages:
        if isinstance(message, dict):
            item = _item(message, is_error, is_rejection)
            if item is not None:
                yield item
        elif isinstance(message, str):
            native = {"role": "user", "content": message}
            yield WireMessage("user", _parts(message), native=native, exact=True)
        elif message is not None:
            yield WireMessage("user", (Text(as_text(message)),))


def _item(message: dict[str, Any], is_error: Test, is_rejection: Test) -> WireItem | None:
    message = chat_message(message)
    given = message.get("role")
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        role = _unnamed_role(message)
    content = message.get("content")
    if role == "tool":
        call_id, name = message.get("tool_call_id"), message.get("name")
        plain = type(content) is str
        exact = given == "tool" and (plain or _is_text_parts(content))
        return WireResult(
            call_id if isinstance(call_id, str) and call_id else None,
            name if isinstance(name, str) and name else None,
            str(content) if plain else as_text(content),
            bool(is_error(message)),
            message if exact else None,
            bool(is_rejection(message)),
            exact,
        )
    if role != "assistant" and given == role and type(content) is str and "name" not in message:
        return WireMessage(role, (Text(content),) if content else (), (), message, exact=True)
    exact = given == role and _is_exact(message, role) and _is_speaker(message.get("name"))
    parts = _parts(content)
    calls: tuple[WireCall, ...] = ()
    if role == "assistant":
        made = _exact_calls(message) if exact else None
        exact = made is not None
        calls = tuple(_calls(message)) if made is None else made
        if not _BESIDE.isdisjoint(message):
            parts = (*_beside(message), *parts)
    if parts or calls or exact or _extras(message):
        return WireMessage(role, parts, calls, message, exact)
    return None


def _unnamed_role(message: dict[str, Any]) -> str:
    if message.get("tool_calls"):
        return "assistant"
    return "tool" if "tool_call_id" in message else "user"


def _exact_calls(message: dict[str, Any]) -> tuple[WireCall, ...] | None:
    """The calls of a message; None if one of them is not well formed."""
    made = []
    for call in message.get("tool_calls") or ():
        kind: Any = call.get("type", "function") if isinstance(call, dict) else None
        body = call.get(kind) if kind in ("function", "custom") else None
        if not isinstance(body, dict):
            return None
        call_id, name, given = call.get("id"), body.get("name"), body.get(_GIVEN[kind])
        if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(given, str)):
            return None
        if legal_text(name, NAME_LENGTH) != name:
            return None
        try:
            function = FunctionCall(name, _decode_object(given))
        except (ValueError, RecursionError):
            if kind == "function":
                return None
            function = function_call(name, given)
        made.append(WireCall(call_id or None, function))
    return tuple(made)


def _calls(message: dict[str, Any]) -> Iterator[WireCall]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue
        call_id = call.get("id")
        function = call.get("function")
        custom = call.get("custom")
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
        elif isinstance(custom, dict):
            name, arguments = custom.get("name"), custom.get("input")
        else:
            name, arguments = call.get("name"), call.get("arguments")
        yield WireCall(
            call_id if isinstance(call_id, str) and call_id else None,
            function_call(name, arguments),
        )
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        yield WireCall(None, function_call(legacy.get("name"), legacy.get("arguments")))


def _parts(content: Any) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, list):
        return tuple(part for item in content for part in _part(item))
    return (Text(as_text(content)),)


def _part(item: Any) -> Iterator[Part]:
    if isinstance(item, dict):
        kind = item.get("type")
        text = item.get("text")
        if kind == "text" and (not isinstance(text, str) or len(item) == 2):  # noqa: PLR2004
            if text:
                yield Text(as_text(text))
        elif image := _image(item):
            yield image
        elif kind in ("input_text", "output_text"):
            if text:
                yield Text(as_text(text))
        elif isinstance(kind, str):
            yield Opaque(NAME, item)
        elif item:
            yield Text(as_text(item))
    elif item:
        yield Text(as_text(item))


def _beside(message: dict[str, Any]) -> Iterator[Opaque]:
    """What an assistant says beside the content, for those who have a place for it or none."""
    for key, kind in BESIDE.items():
        said = message.get(key)
        if said:
            yield Opaque(NAME, {"type": kind, key: said})


def _image(item: dict[str, Any]) -> Image | None:
    """The image of an item that says nothing else, or says it as in Responses."""
    if item.get("type") == "input_image":
        return image_of(item.get("image_url"), item.get("detail"))
    return bare(media(item), item)


def media(part: dict[str, Any]) -> Image | Document | None:
    """The image or document that a part of ours shows, whatever else it says."""
    kind = part.get("type")
    shown = part.get(kind) if kind in ("image_url", "file") else None
    if not isinstance(shown, dict):
        return None
    if kind == "file":
        return document_of(shown.get("file_data"), shown.get("filename"))
    return image_of(shown.get("url"), shown.get("detail"))


def _is_text_parts(content: Any) -> bool:
    return (
        isinstance(content, list)
        and bool(content)
        and all(
            isinstance(item, dict)
            and item.get("type") == "text"
            and isinstance(item.get("text"), str)
            for item in content
        )
    )


def _is_exact(message: dict[str, Any], role: str) -> bool:
    """Whether a message is well formed, but for its calls."""
    content = message.get("content")
    if isinstance(content, list):
        known = all(_is_exact_part(part, role) for part in content)
        if not known or (role == "assistant" and not content):
            return False
    elif content is not None and not isinstance(content, str):
        return False
    if role != "assistant":
        return content is not None
    if message.get("function_call") is not None:
        return False
    calls = message.get("tool_calls")
    if calls is None:
        return content is not None or bool(message.get("refusal") or message.get("audio"))
    return isinstance(calls, list) and bool(calls)


def _is_speaker(name: Any) -> bool:
    """Whether the API takes it for the name of who speaks."""
    return name is None or (isinstance(name, str) and bool(name) and not _UNNAMED.search(name))


def _is_exact_part(part: Any, role: str) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return False
    if not _is_at_home(part, role):
        return False
    return part["type"] != "text" or isinstance(part.get("text"), str)


def _is_at_home(part: dict[str, Any], role: str) -> bool:
    """Whether the API takes a part of ours from `role`."""
    kind = part.get("type")
    return kind not in _OTHERS and (role == "user" or kind not in _SHOWN_BY_USERS)


_SHOWN_BY_USERS = ("image_url", "input_audio", "file")
_OTHERS = (
    "input_text", "output_text", "input_image", "input_file", "tool_use", "tool_result",
)  # fmt: skip


def _extras(message: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in message.items()
        if key not in _OURS and value is not None and isinstance(key, str)
    }


_OURS = {"role", "content", "tool_calls", "function_call", "tool_call_id"}


# out


def render(turns: Sequence[Turn]) -> Rendered:
    """The messages for `turns`, every call answered right after its turn."""
    changes: list[Change] = []
    messages: list[dict[str, Any]] = []
    ids = call_ids(turns, ID_LENGTH, changes, per_turn=True, spell=short_text)
    for turn, names in each_shown(turns, ids, changes):
        shown = [(call, name) for call, name in zip(turn.calls, names, strict=True)
                 if not call.hidden] if names else []  # fmt: skip
        if turn.role == "assistant":
            message = _assistant(turn, shown, changes)
        else:
            message = _message(turn, changes)
        if message is not None:
            messages.append(message)
        if shown:
            messages.extend(render_result(call, name) for call, name in shown)
            apart = (_message(said, changes) for said in shown_apart(turn, NAME, changes))
            messages.extend(filter(None, apart))
    return Rendered({"messages": messages}, changes)


def _message(turn: Turn, changes: list[Change]) -> dict[str, Any] | None:
    own = turn.provider == NAME
    if own and turn.exact and turn.native is not None:
        return copy(turn.native)  # type: ignore[no-any-return]
    content = _content(turn, changes)
    extras = _copied_extras(turn, changes) if own else {}
    if content is None:
        return None
    return {**extras, "role": turn.role, "content": content}


def _assistant(
    turn: Turn, shown: list[tuple[Call, str]], changes: list[Change]
) -> dict[str, Any] | None:
    own = turn.provider == NAME
    given = _own_calls(turn)
    if own and turn.exact and turn.native is not None and len(given) == len(shown):
        native: dict[str, Any] = copy(turn.native)
        for made, (_, name) in zip(native.get("tool_calls") or (), shown, strict=True):
            made["id"] = name
        return native
    extras = _copied_extras(turn, changes) if own and len(shown) == len(turn.calls) else {}
    extras.pop("role", None)
    content = _content(turn, changes, extras)
    if not shown:
        if content is None and not (extras.get("refusal") or extras.get("audio")):
            if not extras:
                return None
            content = ""
        return {"role": "assistant", "content": content, **extras}
    asked = dict(zip((call.id for call in turn.calls), given, strict=False))
    calls = [_call(call, name, asked.get(call.id), changes) for call, name in shown]
    return {"role": "assistant", "content": content, "tool_calls": calls, **extras}


def _own_calls(turn: Turn) -> list[Any]:
    """The calls of a turn as our own provider wrote them, where that is all of them."""
    if not turn.calls or turn.provider != NAME or turn.native is None:
        return []
    calls = turn.native.get("tool_calls")
    return calls if isinstance(calls, list) and len(calls) == len(turn.calls) else []


def _call(call: Call, name: str, given: Any, changes: list[Change]) -> dict[str, Any]:
    """A call under a new id: as it was given, where it was a custom tool's."""
    custom = given.get("custom") if isinstance(given, dict) else None
    if isinstance(custom, dict) and _is_same(call, custom):
        return {**copy(given), "id": name}
    return {
        "id": name,
        "type": "function",
        "function": {
            "name": tool_name(call, NAME_LENGTH, changes),
            "arguments": _encode(object_arguments(call, changes)).decode(),
        },
    }


def _is_same(call: Call, custom: dict[str, Any]) -> bool:
    asked = function_call(custom.get("name"), custom.get("input"))
    legal = legal_text(asked.name, NAME_LENGTH) == asked.name and custom.keys() == {"name", "input"}
    return legal and (asked.name, asked.arguments, asked.raw) == (
        call.name, call.arguments, call.raw,
    )  # fmt: skip


def _copied_extras(turn: Turn, changes: list[Change]) -> dict[str, Any]:
    extras = {key: copy(value) for key, value in _extras(turn.native or {}).items()}
    given = extras.get("name")
    if not _is_speaker(given):
        name = _UNNAMED.sub("_", given) if isinstance(given, str) else ""
        changes.append(Change("re-keyed", "OA07", f"the speaker {given!r} is {name!r} here"))
        extras["name"] = name
        if not name:
            del extras["name"]
    return extras


def untold(native: Any) -> Iterator[str]:
    """The members of a message of ours that no other provider has a place for."""
    return chat_untold(native, _TOLD)


_TOLD = {*_OURS, *BESIDE, "is_error"}


def _content(turn: Turn, changes: list[Change], extras: dict[str, Any] = NOTHING) -> Any:
    """The content, but for what stands beside it."""
    parts: Sequence[Part] = turn.parts
    if extras or any(type(part) is Opaque for part in parts):
        said = [*_beside(extras)] if extras else []
        parts = [part for part in parts if part not in said and not _is_only_beside(part)]
    if all(type(part) is Text for part in parts):
        texts = [part.text for part in parts if isinstance(part, Text)]
        if len(texts) < 2:  # noqa: PLR2004 - one text is a plain string
            return texts[0] if texts else None
    content = [item for part in parts if (item := _rendered(part, turn.role, changes)) is not None]
    return content or None


def _is_only_beside(part: Part) -> bool:
    """Whether no content of ours can hold a part."""
    return (
        isinstance(part, Opaque)
        and part.provider == NAME
        and isinstance(part.data, dict)
        and part.data.get("type") in ("reasoning", "audio")
    )


def _rendered(part: Part, role: str, changes: list[Change]) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Image | Document) and role != "user":
        changes.append(Change("wrapped", "OA11", f"only a user shows {named_part(part)}s here"))
        return {"type": "text", "text": in_words(part)}
    if isinstance(part, Image):
        return chat_image(part)
    if isinstance(part, Document):
        return _file(part, changes)
    if part.provider == NAME and _is_at_home(part.data, role):
        return copy(part.data)  # type: ignore[no-any-return]
    text = foreign_text(part, changes)
    return {"type": "text", "text": text} if text else None


def _file(document: Document, changes: list[Change]) -> dict[str, Any]:
    if document.data is None:
        changes.append(Change("wrapped", "document", "an address of a document became text"))
        return {"type": "text", "text": in_words(document)}
    file = {"filename": file_name(document), "file_data": address(document)}
    return {"type": "file", "file": file}


def render_result(call: Call, name: str) -> dict[str, Any]:
    """The tool message that answers `call`, whose id here is `name`."""
    return chat_answer(call.answer, name, NAME)
