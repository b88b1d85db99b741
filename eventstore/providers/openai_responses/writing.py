"""How the items of OpenAI Responses are written."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count
from typing import Final

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Audio, Document, Image, Opaque, Part, Text
from eventstore.domain.own_texts import CALLED
from eventstore.providers.call_arguments import is_call_of, object_arguments
from eventstore.providers.identifiers import tool_name
from eventstore.providers.json_values import as_text, copy, native_part, other_members
from eventstore.providers.media import file_name, url_of
from eventstore.providers.model import (
    Call,
    Change,
    Turn,
)
from eventstore.providers.openai_responses.client_items import (
    APPROVAL,
    MEMBERS,
    asked,
    caller_of,
    is_client_call,
    is_client_output,
    is_hosted,
    keyed,
    output_of,
    rewritten,
    with_call_id,
)
from eventstore.providers.openai_responses.reading import (
    NAME,
    is_call_item,
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
    TEXT_OUTPUTS,
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
_encode = msgspec.json.Encoder().encode


def messages_for(role: str, parts: tuple[Part, ...], changes: list[Change]) -> list[JsonObject]:
    """Return the messages for `parts`; each text of an assistant becomes its own message."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return [{"role": role, "content": parts[0].text}]
    content = [made for part in parts if (made := _rendered(part, role, changes)) is not None]
    if all(map(_is_plain_words, content)):
        return [{"role": role, "content": part["text"]} for part in content]
    return [{"role": role, "content": content}]


def _is_plain_words(part: JsonObject) -> bool:
    return part["type"] == "output_text" and not any(other_members(part, ("type", "text")))


def _text(text: str, role: str) -> JsonObject:
    """Return a text as a part of a message of `role`, or of an output."""
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _rendered(part: Part, role: str, changes: list[Change]) -> JsonObject | None:
    if isinstance(part, Text):
        return _text(part.text, role)
    if isinstance(part, Image | Document) and role == "assistant":
        why = f"an assistant message may not show {part_label(part)} here"
        changes.append(Change("wrapped", "foreign-part", why))
        return _text(described(part), role)
    if isinstance(part, Image):
        detail = part.detail or "auto"
        return {"type": "input_image", "image_url": url_of(part), "detail": detail}
    if isinstance(part, Document):
        return _file(part)
    return _own_part(part, role, changes)


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
    return _text(text, role) if text else None


def _file(document: Document) -> JsonObject:
    if document.url is not None:
        return {"type": "input_file", "file_url": document.url}
    return {"type": "input_file", "filename": file_name(document), "file_data": url_of(document)}


_ALWAYS = {"type", "id", "status", "call_id", "execution"}
PORTABLE = {
    "message": {*_ALWAYS, "role", "content"},
    **{call: {*_ALWAYS, "name", given} for call, given in CALLS.items()},
    **{output: {*_ALWAYS, "output"} for output in TEXT_OUTPUTS},
    **{kind: {*_ALWAYS, *members} for kind, members in MEMBERS.items()},
}
"""Type of an item to the members that other providers have a place for."""


def is_portable(item: JsonObject) -> bool:
    """Return whether other providers have a place for an item, and not a note alone."""
    kind = item_kind(item)
    if kind in MEMBERS:
        return is_client_call(item) or is_client_output(item)
    return kind in PORTABLE


class _Piece(msgspec.Struct):
    """An item of a turn, with the call that it makes and the output of it."""

    item: JsonObject
    call: Call | None = None
    output: JsonObject | None = None


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
        _Piece(item, piece.call, piece.output)
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
        if piece.output is not None:
            items += each_once(piece.output, used, changes)


def _pieces(turn: Turn, names: list[str], changes: list[Change]) -> list[_Piece]:
    native = _own_items(turn)
    calls = list(zip(turn.calls, names, strict=True))
    if native is None or sum(map(_is_call_by_type, native)) != len(calls):
        said = [_Piece(item) for part in _messages(turn.parts, changes) for item in part]
        made = [
            _answered(call, _new_call(call, name, {}, changes))
            for call, name in calls
            if not call.hidden
        ]
        return said + made
    return _own_pieces(native, calls, changes)


def _is_call_by_type(item: JsonObject) -> bool:
    return item_kind(item) in CALLS or is_client_call(item)


def _answered(call: Call, item: JsonObject) -> _Piece:
    return _Piece(item, call, _output_of(call, item))


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
        if not _is_call_by_type(item):
            well_formed = is_well_formed(item)
            mended = [] if well_formed else _mended(item, changes)
            pieces += [_Piece(each) for each in ([copy(item)] if well_formed else mended)]
            whole = whole and (
                well_formed or (bool(mended) and item_kind(item) in (None, "message"))
            )
            continue
        call, name = next(waiting)
        piece = _own_call(call, name, item)
        if piece is not None and piece.output is not None and not call.hidden:
            pieces.append(piece)
            continue
        whole = False
        if not call.hidden:
            pieces.append(_other_piece(call, name, item, piece, changes))
    return pieces if whole else _broken_up(pieces, native, changes)


def _broken_up(
    pieces: list[_Piece], native: list[JsonObject], changes: list[Change]
) -> list[_Piece]:
    """Return what remains of a turn without its reasoning, and without the ids that ask for it."""
    if any(_needs_whole(piece.item) for piece in pieces):
        changes.append(Change("dropped", "OR04", "reasoning goes with the whole of its turn"))
    gone = {piece.item.get("id") for piece in pieces if _needs_whole(piece.item)}
    has_thought = any(item_kind(item) == "reasoning" for item in native)
    kept = [
        each
        for piece in pieces
        for each in _without_reasoning(piece, gone, changes, has_thought=has_thought)
    ]
    for piece in kept:
        if piece.item.get("type") not in _NEED_ID:
            piece.item.pop("id", None)
    return kept


_NEED_ID: Final = ("computer_call", "local_shell_call", APPROVAL)
"""Types of calls that the API takes with their ids alone."""


def _own_call(call: Call, name: str, item: JsonObject) -> _Piece | None:
    """Return an item that makes a call still, with its output; None if it is to be made anew."""
    is_same = item["type"] == APPROVAL or is_call_of(asked(item), call)
    if not (is_same and is_well_formed(item)):
        return None
    return _answered(call, keyed(copy(item), name))


def _other_piece(
    call: Call, name: str, item: JsonObject, own: _Piece | None, changes: list[Change]
) -> _Piece:
    """Return what stands in the place of an item that cannot make its call, or be answered."""
    if own is None:
        made = rewritten(item, call, name) if is_client_call(item) else None
        own = _answered(call, made or _new_call(call, name, item, changes))
    if own.output is not None:
        return own
    why = f"no output of the {item['type']} can be made up: a note tells of it"
    return _noted(call, Change("wrapped", "OR01", why, call.id), changes)


def _noted(call: Call, why: Change, changes: list[Change]) -> _Piece:
    """Return a note of the user's that tells of a call, and of what is known of its outcome."""
    changes.append(why)
    arguments = call.raw if call.raw is not None else _encode(call.arguments).decode()
    answer = [text for text in (call.answer.text, call.answer.note) if text]
    words = "\n".join([CALLED, f"{call.name} {arguments}", *answer])
    shown = [part for part in call.answer.shown_parts if not isinstance(part, Text)]
    (note,) = messages_for("user", (Text(words), *shown), changes)
    return _Piece(note)


def _without_reasoning(
    piece: _Piece, gone: Collection[object], changes: list[Change], *, has_thought: bool
) -> Iterator[_Piece]:
    """Yield what remains of an item without the reasoning of its turn."""
    item = piece.item
    asked_by = item.get("approval_request_id")
    if piece.call is not None and has_thought and item.get("type") in _NEED_ID:
        why = f"the {item['type']} cannot stay without its reasoning: a note tells of it"
        yield _noted(piece.call, Change("wrapped", "OR04", why, piece.call.id), changes)
    elif not _needs_whole(item) and not (isinstance(asked_by, str) and asked_by in gone):
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
    if kind == "reasoning":
        return True
    return kind != "message" and not _is_call_by_type(item) and item.get("id") is not None


def _mended(item: JsonObject, changes: list[Change]) -> list[JsonObject]:
    """Return the items that may be sent in place of one that may not go back as it is."""
    if item_kind(item) == "message":
        return messages_for("assistant", parts_of(item.get("content")), changes)
    kind = item.get("type")
    if isinstance(kind, str) and kind not in TYPES:
        changes.append(Change("dropped", "OR05", f"{kind} is not the type of an item"))
        return _as_text_message(item, changes)
    if is_hosted(item) or kind == "shell_call_output":
        changes.append(Change("dropped", "OR05", f"a member of a {kind} is not legal"))
        return _as_text_message(item, changes)
    if isinstance(kind, str):
        changes.append(Change("dropped", "OR03", f"the id of a {kind} item is not legal"))
        return _as_text_message(item, changes)
    return messages_for("assistant", (Text(as_text(item)),), changes)


def _new_call(call: Call, name: str, item: JsonObject, changes: list[Change]) -> JsonObject:
    """Return a call of a function, or of a custom tool; `item` made it before, if it did."""
    more = caller_of(item)
    if item.get("type") in CALLS and isinstance(item.get("namespace"), str):
        more["namespace"] = item["namespace"]
    if call.free_text is not None:
        return {
            "type": "custom_tool_call",
            "call_id": name,
            "name": tool_name(call, _MAX_NAME, changes),
            "input": call.free_text,
            **more,
        }
    return {
        "type": "function_call",
        "call_id": name,
        "name": tool_name(call, _MAX_NAME, changes),
        "arguments": _encode(object_arguments(call, changes)).decode(),
        **more,
    }


def kept_output(call: Call, name: str) -> JsonObject | None:
    """Return the output that this API had of a call, for the call's id here; None without one."""
    answer = call.answer
    if answer.provider != NAME or answer.native is None:
        return None
    item = with_call_id(copy(answer.native), name)
    if answer.note and item.get("type") in TEXT_OUTPUTS:
        item["output"] = f"{answer.text}\n{answer.note}"
    return item


def _output_of(call: Call, item: JsonObject) -> JsonObject | None:
    """Return the output of `call`, which `item` makes; None if its form cannot say the answer."""
    if item["type"] not in CALLS:
        return output_of(call, item)
    native = call.answer.native
    if native is None or native.get("type") in TEXT_OUTPUTS:
        kept = kept_output(call, item["call_id"])
        if kept is not None:
            return {**kept, "type": OUTPUTS[item["type"]]}
    made = text_output(call, item["call_id"])
    return {**made, "type": OUTPUTS[item["type"]], **caller_of(item)}


def text_output(call: Call, name: str) -> JsonObject:
    """Return the output of a function for what is known of a call, whose id here is `name`."""
    answer = call.answer
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


_NAMED_BY_ID: Final = (APPROVAL, "local_shell_call_output")
"""Types of items whose id pairs a call with its output; it is settled with the ids of the calls."""


def _is_paired(item: JsonObject) -> bool:
    return is_call_item(item) or is_client_output(item)


def each_once(item: JsonObject, used: set[str], changes: list[Change]) -> list[JsonObject]:
    """Return an item if its id is legal and unused or missing; otherwise its text or no id."""
    item_id = item.get("id")
    if item_id is None:
        return [item]
    if item.get("type") in _NAMED_BY_ID:
        return [item]
    if is_legal_id(item_kind(item), item_id) and item_id not in used:
        used.add(item_id)
        return [item]
    changes.append(Change("dropped", "OR03", f"the id {item_id!r} is already used or not legal"))
    if item_kind(item) not in ("message", *TEXT_OUTPUTS) and not _is_paired(item):
        return _as_text_message(item, changes)
    item.pop("id")
    if item.get("type") in _NEED_ID:
        item["id"] = next(name for n in count(2) if (name := f"{item_id}_{n}") not in used)
        used.add(item["id"])
    return [item]
