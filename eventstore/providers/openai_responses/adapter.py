"""OpenAI Responses: items in, `{"input": [...]}` out.

Every item of a response is a message of its own here; those that follow each other directly are
one turn. Within a turn a reasoning item belongs to what comes after it: an item that came with
reasoning goes back under its id with it, or without both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec

from eventstore.message import Document, Image, Opaque, Part, Text
from eventstore.wire.content import (
    address,
    as_text,
    bare,
    beyond,
    copy,
    document_of,
    file_name,
    foreign_text,
    function_call,
    has_words,
    image_of,
    in_words,
    named_part,
    object_arguments,
    unheld,
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

NAME = "openai-responses"
LIST = "input"
ID_LENGTH = 64
NAME_LENGTH = 64
OWN_NAME_LENGTH = 128  # what the API takes
DETAILS = frozenset({"auto", "low", "high", "original"})

ROLES = {
    "system": "system", "developer": "developer", "user": "user", "assistant": "assistant",
    "human": "user", "ai": "assistant", "model": "assistant",
}  # fmt: skip

OUTPUTS = {
    "function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output",
}  # fmt: skip
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
SAID = ("output_text", "refusal")
SHOWN = ("input_text", "input_image", "input_file", "scoped_content")  # by an output
GIVEN = (
    *SHOWN, *SAID, "input_audio", "computer_screenshot", "summary_text", "encrypted_content",
)  # fmt: skip
PREFIXES = {"function_call": "fc_", "reasoning": "rs_", "message": "msg_"}

Test = Callable[[Any], bool]  # of a result, as the provider wrote it

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_encode = msgspec.json.Encoder().encode


# in


def parse(messages: Sequence[Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    """The items of an input, or of whole responses; what says nothing is left out."""
    for message in messages:
        if isinstance(message, str):
            native = {"role": "user", "content": message}
            if message:
                yield WireMessage("user", (Text(message),), native=native, exact=True)
        elif isinstance(message, dict):
            output = message.get("output")
            if isinstance(output, list) and "call_id" not in message:
                yield from parse(output, is_error, is_rejection)
            else:
                yield from _item(message, is_error, is_rejection)
        elif message is not None:
            yield WireMessage("user", (Text(as_text(message)),))


def _item(item: dict[str, Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    kind, role = _kind(item), item.get("role")
    if kind in OUTPUTS.values() or _is_output(item, kind):
        yield _result(item, is_error, is_rejection)
    elif kind in CALLS and not _is_message(item):
        call_id, call = item.get("call_id"), function_call(item.get("name"), item.get(CALLS[kind]))
        given = call_id if isinstance(call_id, str) and call_id else None
        made = (WireCall(given, call),)
        yield WireMessage("assistant", (), made, [item], _is_exact(item), piece=True)
    elif kind not in ("message", *CALLS):
        if item:
            part = Opaque(NAME, item) if kind is not None else Text(as_text(item))
            yield WireMessage("assistant", (part,), (), [item], _is_exact(item), piece=True)
    else:
        name = ROLES.get(role, "user") if isinstance(role, str) else "user"
        parts, exact = _parts(item.get("content")), name == role and _is_exact(item)
        if name == "assistant" and (parts or exact):
            yield WireMessage("assistant", parts, (), [item], exact, piece=True)
        elif parts or exact:
            yield WireMessage(name, parts, (), item, exact)


def _kind(item: dict[str, Any]) -> str | None:
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if kind is None and item.keys() - {"type"} == {"id"}:  # a reference's type may be null
        return "item_reference"
    return "message" if "role" in item or "content" in item else None


def _is_output(item: dict[str, Any], kind: str | None) -> bool:
    """Whether an item is an output by what it holds, whatever type it bears."""
    if kind == "message" and item.get("role") in ("tool", "function"):
        return True
    return kind in _CONFUSED and {"call_id", "output"} <= item.keys() and not _OTHERS & item.keys()


def _is_message(item: dict[str, Any]) -> bool:
    """Whether what bears the type of a call is a message, by what it holds."""
    return "content" in item and not _ASKED & item.keys()


_ASKED = frozenset({*CALLS.values(), "call_id", "name"})
_CONFUSED = frozenset({*CALLS, "message"})
_OTHERS = frozenset({*CALLS.values(), "content", "name"})


def _result(item: dict[str, Any], is_error: Test, is_rejection: Test) -> WireResult:
    call_id = item.get("call_id", item.get("tool_call_id"))
    exact = _kind(item) in OUTPUTS.values() and _is_exact(item)
    return WireResult(
        call_id if isinstance(call_id, str) and call_id else None,
        None,
        as_text(item.get("output", item.get("content"))),
        bool(is_error(item)),
        item if exact else None,
        bool(is_rejection(item)),
        exact,
    )


def _parts(content: Any) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, list):
        return tuple(part for item in content for part in _part(item))
    return tuple(_part(content))


def _part(item: Any) -> Iterator[Part]:
    if not isinstance(item, dict):
        if said := as_text(item):
            yield Text(said)
        return
    kind = item.get("type")
    if kind in ("input_text", "output_text", "text") and not any(beyond(item, _PLAIN)):
        if said := as_text(item.get("text")):
            yield Text(said)
    elif image := _image(item):
        yield image
    elif isinstance(kind, str):
        yield Opaque(NAME, item)
    elif item:
        yield Text(as_text(item))


_PLAIN = frozenset({"type", "text", "logprobs"})


def _image(item: dict[str, Any]) -> Image | None:
    """The image of an item that says nothing else, or says it as in Chat Completions."""
    if item.get("type") == "image_url" and isinstance(item.get("image_url"), dict):
        return image_of(item["image_url"].get("url"), item["image_url"].get("detail"))
    return bare(media(item), item)


def media(part: dict[str, Any]) -> Image | Document | None:
    """The image or document that a part of ours shows, whatever else it says."""
    if part.get("type") == "input_file":
        return document_of(part.get("file_data") or part.get("file_url"), part.get("filename"))
    if part.get("type") not in ("input_image", "image_url"):
        return None
    detail = part.get("detail")
    return image_of(part.get("image_url"), None if detail == "auto" else detail)  # all say auto


def _is_exact(item: dict[str, Any]) -> bool:
    """Whether an item may go back as it is."""
    kind, item_id = _kind(item), item.get("id")
    if not _is_legal_id(kind, item_id):
        return False
    if kind in CALLS:
        name = item.get("name")
        return (
            isinstance(item.get("call_id"), str)
            and isinstance(item.get(CALLS[kind]), str)
            and isinstance(name, str)
            and legal_text(name, OWN_NAME_LENGTH) == name
        )
    if kind in OUTPUTS.values():
        return isinstance(item.get("call_id"), str) and _is_content(item.get("output"), SHOWN)
    if kind == "message":
        role = item.get("role")
        own = isinstance(role, str) and ROLES.get(role) == role
        known = SAID if role == "assistant" else GIVEN
        return own and item.get("type") in (None, kind) and _is_content(item.get("content"), known)
    return kind is not None


def _is_legal_id(kind: str | None, item_id: Any) -> bool:
    if item_id is None:
        return True
    if not isinstance(item_id, str):
        return False
    if _UUID.fullmatch(item_id):  # a compatible server's
        return True
    prefix = PREFIXES.get(kind or "")
    return prefix is None or (item_id.startswith(prefix) and legal_text(item_id, 64) == item_id)


def _is_content(content: Any, known: tuple[str, ...]) -> bool:
    if isinstance(content, str):
        return True
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") in known for part in content
    )


# out


def render(turns: Sequence[Turn]) -> Rendered:
    """The input for `turns`, every output behind the calls of its turn."""
    changes: list[Change] = []
    items: list[dict[str, Any]] = []
    ids = call_ids(turns, ID_LENGTH, changes, per_turn=False, spell=short_text)
    called = {name for names in ids for name in names}
    referred = False  # to what the server keeps
    used: set[str] = set()
    for turn, names in each_shown(turns, ids, changes):
        own = turn.provider == NAME
        if turn.role == "assistant":
            count = len(items)
            _add_turn(items, turn, names, used, changes)
            referred = referred or any(_kind(i) == "item_reference" for i in items[count:])
        elif own and referred and turn.held is not None and turn.held.id not in called:
            items += _once(render_result(turn.held, turn.held.id), used, changes)
        elif own and turn.exact and turn.native is not None:
            items += _once(copy(turn.native), used, changes)
        else:
            if own and turn.held is not None:
                changes.append(unheld(turn.held))
            items += _message(turn.role, turn.parts, changes)
    return Rendered({"input": _settled(items, changes)}, changes)


def _message(role: str, parts: tuple[Part, ...], changes: list[Change]) -> list[dict[str, Any]]:
    """The message that says `parts`, if they say anything; an assistant's texts are one each."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return [{"role": role, "content": parts[0].text}]
    content = [made for part in parts if (made := _rendered(part, role, changes)) is not None]
    if all(part.keys() == {"type", "text"} and part["type"] == "output_text" for part in content):
        return [{"role": role, "content": part["text"]} for part in content]
    return [{"role": role, "content": content}]


def _rendered(part: Part, role: str, changes: list[Change]) -> dict[str, Any] | None:
    kind = "output_text" if role == "assistant" else "input_text"
    if isinstance(part, Text):
        return {"type": kind, "text": part.text}
    if isinstance(part, Image | Document) and role == "assistant":
        why = f"an assistant shows no {named_part(part)} here"
        changes.append(Change("wrapped", "foreign-part", why))
        return {"type": kind, "text": in_words(part)}
    if isinstance(part, Image):
        detail = part.detail or "auto"
        return {"type": "input_image", "image_url": address(part), "detail": detail}
    if isinstance(part, Document):
        return _file(part)
    if part.provider == NAME and part.data.get("type") in (GIVEN if role != "assistant" else SAID):
        return copy(part.data)  # type: ignore[no-any-return]
    text = foreign_text(part, changes)
    return {"type": kind, "text": text} if text else None


def _file(document: Document) -> dict[str, Any]:
    if not takes_name(document):
        return {"type": "input_file", "file_url": document.url}
    return {"type": "input_file", "filename": file_name(document), "file_data": address(document)}


def takes_name(document: Document) -> bool:
    """Whether a document may have a name: one at an address may not."""
    return document.url is None


def untold(native: Any) -> Iterator[str]:
    """The members of items of ours that no other provider has a place for."""
    for item in native if isinstance(native, list) else [native]:
        if told := _TOLD.get(_kind(item) or "") if isinstance(item, dict) else None:
            yield from beyond(item, told)


_ALWAYS = {"type", "id", "status", "call_id"}
_TOLD = {
    "message": {*_ALWAYS, "role", "content"},
    **{call: {*_ALWAYS, "name", given} for call, given in CALLS.items()},
    **{output: {*_ALWAYS, "output"} for output in OUTPUTS.values()},
}


class _Piece(msgspec.Struct):
    """An item of a turn; the call that it makes."""

    item: dict[str, Any]
    call: Call | None = None


def _add_turn(
    items: list[dict[str, Any]],
    turn: Turn,
    names: list[str],
    used: set[str],
    changes: list[Change],
) -> None:
    """Add a turn's items and the outputs of its calls.

    A message that comes after a call comes after the call's output, too.
    """
    pieces = [
        _Piece(item, piece.call)
        for piece in _pieces(turn, names, changes)
        for item in _once(piece.item, used, changes)
    ]
    start, called = 0, -1
    for place, piece in enumerate(pieces):
        if piece.call is not None:
            called = place
        elif called >= start and _kind(piece.item) == "message":
            changes.append(Change("moved", "OR06", "outputs stand right behind their calls"))
            _add_segment(items, pieces[start : called + 1], used, changes)
            start = called + 1
    _add_segment(items, pieces[start:], used, changes)


def _add_segment(
    items: list[dict[str, Any]], pieces: list[_Piece], used: set[str], changes: list[Change]
) -> None:
    items += [piece.item for piece in pieces]
    for piece in pieces:
        if piece.call is not None:
            output = render_result(piece.call, piece.item["call_id"])
            output["type"] = OUTPUTS[piece.item["type"]]
            items += _once(output, used, changes)


def _pieces(turn: Turn, names: list[str], changes: list[Change]) -> list[_Piece]:
    native = turn.native if turn.provider == NAME and isinstance(turn.native, list) else None
    calls = list(zip(turn.calls, names, strict=True))
    if native is None or sum(_kind(item) in CALLS for item in native) != len(calls):
        said = [_Piece(item) for part in _messages(turn.parts, changes) for item in part]
        made = [_Piece(_new_call(call, name, changes), call)
                for call, name in calls if not call.hidden]  # fmt: skip
        return said + made
    return _own_pieces(native, calls, changes)


def _messages(parts: tuple[Part, ...], changes: list[Change]) -> Iterator[list[dict[str, Any]]]:
    """Parts as items: our own ones as they are, the rest as messages."""
    said: list[Part] = []
    for part in parts:
        if isinstance(part, Opaque) and part.provider == NAME and _stands_alone(part.data):
            yield _message("assistant", tuple(said), changes)
            said.clear()
            yield [copy(part.data)]
        else:
            said.append(part)
    yield _message("assistant", tuple(said), changes)


def _stands_alone(data: Any) -> bool:
    """Whether a part is an item, and not one of a message's parts."""
    return isinstance(data, dict) and data.get("type") not in ("refusal", "output_text")


def _own_pieces(
    native: list[Any], calls: list[tuple[Call, str]], changes: list[Change]
) -> list[_Piece]:
    """The turn's own items, each as it was where it may be.

    Reasoning stays when every call does, as it was made; otherwise all of it goes, and with it
    the ids under which the provider knows that there was some.
    """
    pieces: list[_Piece] = []
    waiting = iter(calls)
    whole = True
    for item in native:
        if _kind(item) not in CALLS:
            exact = _is_exact(item)
            mended = [] if exact else _mended(item, changes)
            pieces += [_Piece(each) for each in ([copy(item)] if exact else mended)]
            whole = whole and (exact or (bool(mended) and _kind(item) in (None, "message")))
            continue
        call, name = next(waiting)
        if _is_exact(item) and _is_same(call, item) and not call.hidden:
            pieces.append(_Piece({**copy(item), "call_id": name}, call))
            continue
        whole = False
        if not call.hidden:
            pieces.append(_Piece(_new_call(call, name, changes), call))
    if whole:
        return pieces
    if any(_needs_whole(piece.item) for piece in pieces):
        changes.append(Change("dropped", "OR04", "reasoning goes with the whole of its turn"))
    gone = {piece.item.get("id") for piece in pieces if _needs_whole(piece.item)}
    kept = [each for piece in pieces for each in _without_reasoning(piece, gone, changes)]
    for piece in kept:
        piece.item.pop("id", None)
    return kept


def _without_reasoning(
    piece: _Piece, gone: Collection[Any], changes: list[Change]
) -> Iterator[_Piece]:
    """What stays of an item without the reasoning of its turn: what was said and done."""
    item = piece.item
    asked = item.get("approval_request_id")
    if not _needs_whole(item) and not (isinstance(asked, str) and asked in gone):
        yield piece
    else:
        yield from map(_Piece, _told(item, changes))


def _told(item: dict[str, Any], changes: list[Change]) -> list[dict[str, Any]]:
    """What an item of the API's own says, as a message, where it cannot stay."""
    if _kind(item) == "reasoning" or not has_words(item):
        return []
    text = foreign_text(Opaque(NAME, item), changes)
    return [{"role": "assistant", "content": text or ""}]


def _needs_whole(item: dict[str, Any]) -> bool:
    kind = _kind(item)
    return kind == "reasoning" or (kind not in (*CALLS, "message") and item.get("id") is not None)


def _mended(item: Any, changes: list[Change]) -> list[dict[str, Any]]:
    """What may be sent of an item of ours that may not go back as it is."""
    if isinstance(item, dict) and _kind(item) == "message":
        return _message("assistant", _parts(item.get("content")), changes)
    kind = item.get("type") if isinstance(item, dict) else None
    if isinstance(kind, str):
        changes.append(Change("dropped", "OR03", f"the id of a {kind} item is none"))
        return _told(item, changes)
    return _message("assistant", (Text(as_text(item)),), changes)


def _is_same(call: Call, item: dict[str, Any]) -> bool:
    asked = function_call(item.get("name"), item.get(CALLS[item["type"]]))
    return (asked.name, asked.arguments, asked.raw) == (call.name, call.arguments, call.raw)


def _new_call(call: Call, name: str, changes: list[Change]) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": name,
        "name": tool_name(call, NAME_LENGTH, changes),
        "arguments": _encode(object_arguments(call, changes)).decode(),
    }


def render_result(call: Call, name: str) -> dict[str, Any]:
    """The item that answers `call`, whose id here is `name`."""
    answer = call.answer
    if answer.provider == NAME and answer.native is not None:
        item: dict[str, Any] = copy(answer.native)
        item["call_id"] = name
        if answer.note:
            item["output"] = f"{answer.text}\n{answer.note}"
        return item
    text: Any = answer.text
    if answer.is_error:
        text = _encode({"error": text}).decode()
    if answer.note:
        text = f"{text}\n{answer.note}"
    if answer.parts and not answer.is_error:
        shown = (*answer.parts, Text(answer.note)) if answer.note else answer.parts
        text = [made for part in shown if (made := _rendered(part, "user", [])) is not None]
    return {"type": "function_call_output", "call_id": name, "output": text}


def result_parts(native: Any) -> tuple[Part, ...]:
    """What an output of ours shows."""
    return _parts(native["output"])


def _once(item: dict[str, Any], used: set[str], changes: list[Change]) -> list[dict[str, Any]]:
    """An item whose id is its own, or has none; else what it says."""
    item_id = item.get("id")
    if item_id is None:
        return [item]
    if _is_legal_id(_kind(item), item_id) and item_id not in used:
        used.add(item_id)
        return [item]
    changes.append(Change("dropped", "OR03", f"the id {item_id!r} is used or none"))
    if _kind(item) not in ("message", *CALLS, *OUTPUTS.values()):
        return _told(item, changes)
    item.pop("id")
    return [item]


def _settled(items: list[dict[str, Any]], changes: list[Change]) -> list[dict[str, Any]]:
    """The items, and no reasoning without a summary or what it belongs to."""
    found: list[dict[str, Any]] = []
    belongs = nameless = False
    for item in reversed(items):
        if _kind(item) != "reasoning":
            belongs = _is_the_models(item)
            nameless = _kind(item) == "message" and item.get("id") is None
        elif not belongs:
            changes.append(Change("dropped", "OR04", "nothing comes after the reasoning"))
            continue
        else:
            if nameless and _is_kept(item):
                # By its id it would be missed what came after.
                changes.append(
                    Change("dropped", "OR04", "the id of reasoning whose message has none")
                )
                item.pop("id")
            if not isinstance(item.get("summary"), list):
                changes.append(Change("added", "OR05", "reasoning has a summary, be it empty"))
                item["summary"] = []
        found.append(item)
    return found[::-1]


def _is_kept(item: dict[str, Any]) -> bool:
    """Whether reasoning is there by its id alone, and not what was thought."""
    kept = str(item.get("id", "")).startswith(PREFIXES["reasoning"])
    return kept and not item.get("encrypted_content")


def _is_the_models(item: dict[str, Any]) -> bool:
    kind = _kind(item) or ""
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response")) or item.get("execution") == "server"
