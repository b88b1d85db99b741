"""How the items of OpenAI Responses are written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Audio, Document, Image, Opaque, Part, Text
from eventstore.providers.call_arguments import function_call, is_call_of, object_arguments
from eventstore.providers.identifiers import tool_name
from eventstore.providers.json_values import as_text, copy, native_part
from eventstore.providers.media import file_name, url_of
from eventstore.providers.model import (
    Call,
    Change,
    Turn,
)
from eventstore.providers.openai_responses.reading import (
    NAME,
    is_legal_id,
    is_part,
    is_well_formed,
    item_kind,
    parts_of,
    shown_media,
)
from eventstore.providers.openai_responses.shapes import (
    CALLS,
    GIVEN,
    OUTPUTS,
    SAID,
    SHOWN,
    TYPES,
)
from eventstore.providers.parts_as_text import (
    answer_text,
    described,
    foreign_text,
    has_text,
    part_label,
)

_MAX_NAME: Final = 64
_KNOWN = {"assistant": SAID, "tool": SHOWN}
"""Role to the parts that its messages have, or its outputs; the others have those of `GIVEN`."""
_OWN_REASONING: Final = "rs_"
_encode = msgspec.json.Encoder().encode


def messages_for(role: str, parts: tuple[Part, ...], changes: list[Change]) -> list[JsonObject]:
    """Return the messages for `parts`; each text of an assistant becomes its own message."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return [{"role": role, "content": parts[0].text}]
    content = [made for part in parts if (made := _rendered(part, role, changes)) is not None]
    if all(part.keys() == {"type", "text"} and part["type"] == "output_text" for part in content):
        return [{"role": role, "content": part["text"]} for part in content]
    return [{"role": role, "content": content}]


def _rendered(part: Part, role: str, changes: list[Change]) -> JsonObject | None:
    kind = _text_kind(role)
    if isinstance(part, Text):
        return {"type": kind, "text": part.text}
    if isinstance(part, Image | Document) and role == "assistant":
        why = f"an assistant message may not show {part_label(part)} here"
        changes.append(Change("wrapped", "foreign-part", why))
        return {"type": kind, "text": described(part)}
    if isinstance(part, Image):
        detail = part.detail or "auto"
        return {"type": "input_image", "image_url": url_of(part), "detail": detail}
    if isinstance(part, Document):
        return _file(part)
    return _own_part(part, role, changes)


def _text_kind(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"


def _own_part(part: Audio | Opaque, role: str, changes: list[Change]) -> JsonObject | None:
    """Return a part that came in this API's form or in another's, as a message of `role` has it."""
    known = _KNOWN.get(role, GIVEN)
    own = part if isinstance(part, Opaque) and part.provider == NAME else None
    if own is not None and is_part(own.data, known):
        return native_part(own)
    shown = None if own is None else shown_media(own.data)
    if shown is not None:
        changes.append(Change("rewritten", "OR05", "a file's members are not of the right types"))
        return _rendered(shown, role, changes)
    text = foreign_text(part, changes)
    return {"type": _text_kind(role), "text": text} if text else None


def _file(document: Document) -> JsonObject:
    if document.url is not None:
        return {"type": "input_file", "file_url": document.url}
    return {"type": "input_file", "filename": file_name(document), "file_data": url_of(document)}


_ALWAYS = {"type", "id", "status", "call_id"}
PORTABLE = {
    "message": {*_ALWAYS, "role", "content"},
    **{call: {*_ALWAYS, "name", given} for call, given in CALLS.items()},
    **{output: {*_ALWAYS, "output"} for output in OUTPUTS.values()},
}


class _Piece(msgspec.Struct):
    """An item of a turn, with the call that it makes."""

    item: JsonObject
    call: Call | None = None


def add_turn(
    items: list[JsonObject],
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
        for item in each_once(piece.item, used, changes)
    ]
    start, called = 0, -1
    for place, piece in enumerate(pieces):
        if piece.call is not None:
            called = place
        elif called >= start and item_kind(piece.item) == "message":
            changes.append(Change("moved", "OR06", "outputs come right after their calls"))
            _add_segment(items, pieces[start : called + 1], used, changes)
            start = called + 1
    _add_segment(items, pieces[start:], used, changes)


def _add_segment(
    items: list[JsonObject], pieces: list[_Piece], used: set[str], changes: list[Change]
) -> None:
    items += [piece.item for piece in pieces]
    for piece in pieces:
        if piece.call is not None:
            output = output_for(piece.call, piece.item["call_id"])
            output["type"] = OUTPUTS[piece.item["type"]]
            items += each_once(output, used, changes)


def _pieces(turn: Turn, names: list[str], changes: list[Change]) -> list[_Piece]:
    native = _own_items(turn)
    calls = list(zip(turn.calls, names, strict=True))
    if native is None or sum(item_kind(item) in CALLS for item in native) != len(calls):
        said = [_Piece(item) for part in _messages(turn.parts, changes) for item in part]
        made = [
            _Piece(_new_call(call, name, changes), call) for call, name in calls if not call.hidden
        ]
        return said + made
    return _own_pieces(native, calls, changes)


def _own_items(turn: Turn) -> list[JsonObject] | None:
    """Return the items that this API made a turn of; None where it did not make the turn."""
    native: JsonValue = turn.native if turn.provider == NAME else None
    if not isinstance(native, list):
        return None
    return [item for item in native if isinstance(item, dict)]


def _messages(parts: tuple[Part, ...], changes: list[Change]) -> Iterator[list[JsonObject]]:
    """Yield the items for parts: items of this API unchanged, other parts as messages."""
    said: list[Part] = []
    for part in parts:
        if isinstance(part, Opaque) and part.provider == NAME and part.data.get("type") in TYPES:
            yield messages_for("assistant", tuple(said), changes)
            said.clear()
            yield [copy(part.data)]
        else:
            said.append(part)
    yield messages_for("assistant", tuple(said), changes)


def _own_pieces(
    native: list[JsonObject], calls: list[tuple[Call, str]], changes: list[Change]
) -> list[_Piece]:
    """Return the turn's own items, each unchanged where that is possible.

    Reasoning stays only if every call stays unchanged. Otherwise all reasoning is dropped together
    with the ids of the items, by which the provider would miss it.
    """
    pieces: list[_Piece] = []
    waiting = iter(calls)
    whole = True
    for item in native:
        if item_kind(item) not in CALLS:
            well_formed = is_well_formed(item)
            mended = [] if well_formed else _mended(item, changes)
            pieces += [_Piece(each) for each in ([copy(item)] if well_formed else mended)]
            whole = whole and (
                well_formed or (bool(mended) and item_kind(item) in (None, "message"))
            )
            continue
        call, name = next(waiting)
        if is_well_formed(item) and _is_same(call, item) and not call.hidden:
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
    piece: _Piece, gone: Collection[object], changes: list[Change]
) -> Iterator[_Piece]:
    """Yield what remains of an item without the reasoning of its turn."""
    item = piece.item
    asked = item.get("approval_request_id")
    if not _needs_whole(item) and not (isinstance(asked, str) and asked in gone):
        yield piece
    else:
        yield from map(_Piece, _as_text_message(item, changes))


def _as_text_message(item: JsonObject, changes: list[Change]) -> list[JsonObject]:
    """Return the text of an item that cannot stay, as a message; nothing if it has no text."""
    if item_kind(item) == "reasoning" or not has_text(item):
        return []
    text = foreign_text(Opaque(NAME, item), changes)
    return [{"role": "assistant", "content": text or ""}]


def _needs_whole(item: JsonObject) -> bool:
    kind = item_kind(item)
    return kind == "reasoning" or (kind not in (*CALLS, "message") and item.get("id") is not None)


def _mended(item: JsonObject, changes: list[Change]) -> list[JsonObject]:
    """Return the items that may be sent in place of one that may not go back as it is."""
    if item_kind(item) == "message":
        return messages_for("assistant", parts_of(item.get("content")), changes)
    kind = item.get("type")
    if isinstance(kind, str) and kind not in TYPES:
        changes.append(Change("dropped", "OR05", f"{kind} is not the type of an item"))
        return _as_text_message(item, changes)
    if isinstance(kind, str):
        changes.append(Change("dropped", "OR03", f"the id of a {kind} item is not legal"))
        return _as_text_message(item, changes)
    return messages_for("assistant", (Text(as_text(item)),), changes)


def _is_same(call: Call, item: JsonObject) -> bool:
    asked = function_call(item.get("name"), item.get(CALLS[item["type"]]))
    return is_call_of(asked, call)


def _new_call(call: Call, name: str, changes: list[Change]) -> JsonObject:
    if call.free_text is not None:
        return {
            "type": "custom_tool_call",
            "call_id": name,
            "name": tool_name(call, _MAX_NAME, changes),
            "input": call.free_text,
        }
    return {
        "type": "function_call",
        "call_id": name,
        "name": tool_name(call, _MAX_NAME, changes),
        "arguments": _encode(object_arguments(call, changes)).decode(),
    }


def output_for(call: Call, name: str) -> JsonObject:
    """Return the item that answers `call`, whose id here is `name`."""
    answer = call.answer
    if answer.provider == NAME and answer.native is not None:
        item: JsonObject = copy(answer.native)
        item["call_id"] = name
        if answer.note:
            item["output"] = f"{answer.text}\n{answer.note}"
        return item
    text = answer_text(answer)
    output: str | list[JsonObject] = text
    shown = answer.shown_parts
    if shown:
        if answer.is_error:
            shown = (Text(text), *(part for part in shown if not isinstance(part, Text)))
        elif answer.note:
            shown = (*shown, Text(answer.note))
        output = [made for part in shown if (made := _rendered(part, "tool", [])) is not None]
    return {"type": "function_call_output", "call_id": name, "output": output}


def each_once(item: JsonObject, used: set[str], changes: list[Change]) -> list[JsonObject]:
    """Return an item if its id is legal and unused or missing; otherwise its text or no id."""
    item_id = item.get("id")
    if item_id is None:
        return [item]
    if is_legal_id(item_kind(item), item_id) and item_id not in used:
        used.add(item_id)
        return [item]
    changes.append(Change("dropped", "OR03", f"the id {item_id!r} is already used or not legal"))
    if item_kind(item) not in ("message", *CALLS, *OUTPUTS.values()):
        return _as_text_message(item, changes)
    item.pop("id")
    return [item]


def settled(items: list[JsonObject], changes: list[Change]) -> list[JsonObject]:
    """Return the items, without reasoning that nothing follows; each reasoning has a summary."""
    found: list[JsonObject] = []
    belongs = nameless = False
    for item in reversed(items):
        kind = item_kind(item)
        if kind != "reasoning":
            belongs = _is_the_models(item)
            nameless = kind == "message" and item.get("id") is None
        elif not belongs:
            changes.append(Change("dropped", "OR04", "no item follows the reasoning"))
            continue
        else:
            if nameless and _is_kept(item):
                # With the id the API would demand the item that followed the reasoning.
                changes.append(
                    Change("dropped", "OR04", "the id of reasoning whose message has none")
                )
                item.pop("id")
            if not isinstance(item.get("summary"), list):
                changes.append(
                    Change("added", "OR05", "reasoning needs a summary, which may be empty")
                )
                item["summary"] = []
        found.append(item)
    return found[::-1]


def _is_kept(item: JsonObject) -> bool:
    """Return whether reasoning is only a reference by id, without its content."""
    kept = str(item.get("id", "")).startswith(_OWN_REASONING)
    return kept and not item.get("encrypted_content")


def _is_the_models(item: JsonObject) -> bool:
    kind = item_kind(item) or ""
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response")) or item.get("execution") == "server"
