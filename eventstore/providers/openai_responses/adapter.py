"""OpenAI Responses: items in, `{"input": [...]}` out.

Every item of a response is parsed as a message; assistant items in direct succession make one turn.
Within a turn a reasoning item belongs to the item after it: the two go back together under their
ids, or the item goes back without its id and the reasoning is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from eventstore.domain.failure import Failure
from eventstore.domain.finish_reasons import why_not_whole
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers import chat_completions as chat
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.identifiers import call_ids, sanitized, shortened, tool_name
from eventstore.providers.media import document_of, file_name, image_of, plain_image, url_of
from eventstore.providers.model import (
    Call,
    Change,
    NativeMessage,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
    Rendered,
    Turn,
    visible_turns,
)
from eventstore.providers.openai_responses.shapes import (
    CALLS,
    GIVEN,
    ITEMS,
    OUTPUTS,
    PARTS,
    PREFIXES,
    SAID,
    SHOWN,
    STATUSES,
    TYPES,
)
from eventstore.providers.parts import (
    answer_text,
    as_text,
    beside_text,
    copy,
    described,
    foreign_text,
    function_call,
    has_text,
    inline_server_call,
    is_call_of,
    native_part,
    object_arguments,
    other_members,
    part_label,
)
from eventstore.providers.shapes import misshapen
from eventstore.providers.tool_definition import ToolDefinition

NAME: Final = "openai-responses"
_MAX_ID: Final = 64
_MAX_NAME: Final = 64
_MAX_NATIVE_NAME = 128  # what the API takes

_ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}

_KNOWN = {"assistant": SAID, "tool": SHOWN}
"""Role to the parts that its messages have, or its outputs; the others have those of `GIVEN`."""
_OWN_REASONING: Final = "rs_"

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_encode = msgspec.json.Encoder().encode


class OpenAIResponsesAdapter(ProviderAdapter):
    """Reads and writes the items of OpenAI Responses."""

    name = NAME
    list_key = "input"
    keeps_server_calls = True
    image_details = frozenset({"auto", "low", "high", "original"})
    signature = FormatSignature(
        call_types=("function_call", "custom_tool_call"),
        result_types=("function_call_output", "custom_tool_call_output"),
    )

    response_members = ResponseMembers(
        finish_reason=(("incomplete_details", "reason"), ("status",)),
        input=(("usage", "input_tokens"),),
        output=(("usage", "output_tokens"),),
        cached=(("usage", "input_tokens_details", "cached_tokens"),),
        reasoning=(("usage", "output_tokens_details", "reasoning_tokens"),),
    )

    def parse(
        self, messages: Iterable[object], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if isinstance(message, str):
                native = {"role": "user", "content": message}
                if message:
                    yield ParsedMessage("user", (Text(message),), native=native, well_formed=True)
            elif is_json_object(message):
                output: JsonValue = message.get("output")
                if isinstance(output, list) and "call_id" not in message:
                    yield from self.parse(output, is_error, is_rejection)
                else:
                    yield from _item(message, is_error, is_rejection)
            elif message is not None:
                yield ParsedMessage("user", (Text(as_text(message)),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the input for `turns`, every output after the calls of its turn."""
        changes: list[Change] = []
        items: list[JsonObject] = []
        ids = call_ids(turns, _MAX_ID, changes, per_turn=False, sanitizer=shortened)
        called = {name for names in ids for name in names}
        referred = False  # to what the server keeps
        used: set[str] = set()
        for turn, names in visible_turns(turns, ids, changes):
            own = turn.provider == NAME
            if turn.role == "assistant":
                count = len(items)
                _add_turn(items, turn, names, used, changes)
                referred = referred or any(_kind(i) == "item_reference" for i in items[count:])
            elif (
                own
                and (referred or turn.is_continued)
                and turn.server_call is not None
                and turn.server_call.id not in called
            ):
                items += _once(
                    self.render_result(turn.server_call, turn.server_call.id), used, changes
                )
            elif (native := turn.own_message(NAME)) is not None:
                items += _once(copy(native), used, changes)
            else:
                if own and turn.server_call is not None:
                    changes.append(inline_server_call(turn.server_call))
                items += _message(turn.role, turn.parts, changes)
        return Rendered({"input": _settled(items, changes)}, changes)

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return one of the request's `tools`.

        Without `strict` the API would hold the schema to the rules of its strict mode.
        """
        return {"type": "function", **tool.with_schema_as("parameters"), "strict": False}

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the item that answers `call`."""
        return _output(call, call_id)

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of items that no other provider has a place for."""
        for item in native if isinstance(native, list) else [native]:
            if known := _PORTABLE.get(_kind(item) or "") if isinstance(item, dict) else None:
                yield from other_members(item, known)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a part shows."""
        return _media(part)

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed output shows."""
        return _parts(native["output"])

    def free_texts(self, native: NativeMessage) -> dict[int, str]:
        """Return the inputs of the calls of custom tools, by their places."""
        items = native if isinstance(native, list) else []
        calls = (item for item in items if isinstance(item, dict) and _is_call(item))
        return {
            place: as_text(call.get("input"))
            for place, call in enumerate(calls)
            if _kind(call) == "custom_tool_call"
        }

    def takes_document_name(self, document: Document) -> bool:
        """Return whether the document is not at an address: one that is has no name."""
        return document.url is None

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether the item is a call or its output."""
        return "role" not in message and "call_id" in message


ADAPTER: Final = OpenAIResponsesAdapter()


# reading


def _item(item: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> Iterator[ParsedItem]:
    """Yield what an item says; one that two items were merged into says what both said."""
    if _is_event(item):
        held: JsonValue = item.get("item")
        if item["type"] != "response.output_item.done" or not isinstance(held, dict):
            return
        item = held
    kind = _kind(item)
    is_call = _is_call(item)
    is_result = kind in OUTPUTS.values() or _is_output(item, kind)
    if is_call or (is_result and "output" in item):
        yield from _said_beside(item)
    if is_call:
        yield _call(item)
    if is_result or (is_call and "output" in item):
        yield _result(item, is_error, is_rejection)
    elif not is_call and (kind == "message" or kind in CALLS):
        yield from _message_item(item)
    elif not is_call and item:
        part = Opaque(NAME, item) if kind is not None else Text(as_text(item))
        yield ParsedMessage(
            "assistant", (part,), (), [item], _is_well_formed(item), is_continuation=True
        )


def _said_beside(item: JsonObject) -> Iterator[ParsedMessage]:
    """Yield the message that an item holds beside a call or an output."""
    if parts := _parts(item.get("content")):
        yield ParsedMessage(_speaker(item), parts)


def _call(item: JsonObject) -> ParsedMessage:
    call_id = item.get("call_id")
    call = function_call(item.get("name"), item.get(CALLS[item["type"]]))
    given = call_id if isinstance(call_id, str) and call_id else None
    made = (ParsedCall(given, call),)
    return ParsedMessage(
        "assistant",
        (),
        made,
        [item],
        _is_well_formed(item),
        is_continuation=True,
        not_whole=_not_whole(item),
    )


def _not_whole(item: JsonObject) -> Failure | None:
    """Return why no call of the response that an item is of may run: the item is not whole."""
    status = item.get("status")
    return why_not_whole("openai-responses", status if isinstance(status, str) else None)


def _message_item(item: JsonObject) -> Iterator[ParsedMessage]:
    name = _speaker(item)
    parts, well_formed = _parts(item.get("content")), name == item.get("role")
    well_formed = well_formed and _is_well_formed(item)
    if name == "assistant" and (parts or well_formed):
        yield ParsedMessage(
            "assistant",
            parts,
            (),
            [item],
            well_formed,
            is_continuation=True,
            not_whole=_not_whole(item),
        )
    elif parts or well_formed:
        yield ParsedMessage(name, parts, (), item, well_formed)


def _speaker(item: JsonObject) -> str:
    """Return the role of a message: the user's where it is not known."""
    role = item.get("role")
    return _ROLES.get(role, "user") if isinstance(role, str) else "user"


def _is_event(item: JsonObject) -> bool:
    """Return whether it is an event of a stream: one of each item holds it whole at its end."""
    kind = item.get("type")
    return isinstance(kind, str) and kind.startswith("response.")


def _kind(item: JsonObject) -> str | None:
    kind = item.get("type")
    if isinstance(kind, str) and (kind in TYPES or not {"role", "content"} <= item.keys()):
        return kind
    if kind is None and item.keys() - {"type"} == {"id"}:  # a reference's type may be null
        return "item_reference"
    return "message" if "role" in item or "content" in item else None


def _is_output(item: JsonObject, kind: str | None) -> bool:
    """Return whether an item is an output by its members, whatever its type."""
    if kind == "message" and item.get("role") in ("tool", "function"):
        return True
    others = _OTHERS - {"content"} if kind == "message" else _OTHERS  # it says both
    return kind in _CONFUSED and {"call_id", "output"} <= item.keys() and not others & item.keys()


def _is_call(item: JsonObject) -> bool:
    """Return whether an item calls a tool that the client runs."""
    kind = _kind(item)
    return kind in CALLS and not (_is_output(item, kind) or _is_message(item))


def _is_message(item: JsonObject) -> bool:
    """Return whether an item with the type of a call is a message, by its members."""
    return "content" in item and not _ASKED & item.keys()


_ASKED = frozenset({*CALLS.values(), "call_id", "name"})
_CONFUSED = frozenset({*CALLS, "message"})
_OTHERS = frozenset({*CALLS.values(), "content", "name"})


def _result(item: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> ParsedResult:
    call_id = item.get("call_id", item.get("tool_call_id"))
    well_formed = _kind(item) in OUTPUTS.values() and _is_well_formed(item)
    return ParsedResult(
        call_id if isinstance(call_id, str) and call_id else None,
        None,
        as_text(item.get("output", item.get("content"))),
        bool(is_error(item)),
        item if well_formed else None,
        bool(is_rejection(item)),
        well_formed,
        () if well_formed else beside_text(_parts(item.get("output", item.get("content")))),
    )


def _parts(content: JsonValue) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, list):
        return tuple(part for item in content for part in _part(item))
    return tuple(_part(content))


def _part(item: JsonValue) -> Iterator[Part]:
    if not isinstance(item, dict):
        if said := as_text(item):
            yield Text(said)
        return
    kind = item.get("type")
    if kind in ("input_text", "output_text", "text") and not any(other_members(item, _PLAIN)):
        if said := as_text(item.get("text")):
            yield Text(said)
    elif image := _image(item):
        yield image
    elif isinstance(kind, str):
        yield Opaque(NAME, item)
    elif item:
        yield Text(as_text(item))


_PLAIN = frozenset({"type", "text", "logprobs"})


def _image(item: JsonObject) -> Image | None:
    """Return the image of an item that holds nothing else, also in the Chat Completions format."""
    if item.get("type") == "image_url" and isinstance(item.get("image_url"), dict):
        return image_of(item["image_url"].get("url"), item["image_url"].get("detail"))
    return plain_image(_media(item), item)


def _media(part: JsonObject) -> Image | Document | None:
    """Return the image or document in a part, whatever else the part holds."""
    if part.get("type") == "input_file":
        return document_of(part.get("file_data") or part.get("file_url"), part.get("filename"))
    if part.get("type") not in ("input_image", "image_url"):
        return None
    detail = part.get("detail")
    known = detail if isinstance(detail, str) and detail != "auto" else None  # every SDK adds it
    return image_of(part.get("image_url"), known)


def _is_well_formed(item: JsonObject) -> bool:
    """Return whether an item may go back as it is."""
    kind, item_id = _kind(item), item.get("id")
    if not _is_legal_id(kind, item_id):
        return False
    if kind in CALLS:
        name = item.get("name")
        return (
            isinstance(item.get("call_id"), str)
            and not item.get("content")
            and not item.get("output")
            and isinstance(item.get(CALLS[kind]), str)
            and isinstance(name, str)
            and sanitized(name, _MAX_NATIVE_NAME) == name
            and (kind != "function_call" or chat.is_json_object(item["arguments"]))
        )
    if kind in OUTPUTS.values():
        legal = isinstance(item.get("call_id"), str) and not item.get("content")
        return legal and _is_content(item.get("output"), SHOWN)
    if kind == "message":
        role = item.get("role")
        own = isinstance(role, str) and _ROLES.get(role) == role
        known = SAID if role == "assistant" else GIVEN
        own = own and item.get("type") in (None, kind) and item.get("status") in STATUSES
        return own and _is_content(item.get("content"), known)
    if kind in ITEMS and misshapen(item, ITEMS[kind]) is not None:
        return False
    return kind in TYPES and isinstance(item.get("encrypted_content"), str | None)


def _is_legal_id(kind: str | None, item_id: object) -> bool:
    if item_id is None:
        return True
    if not isinstance(item_id, str):
        return False
    if _UUID.fullmatch(item_id):  # as compatible servers write them
        return True
    prefixes = PREFIXES.get(kind or "")
    return prefixes is None or (item_id.startswith(prefixes) and sanitized(item_id, 64) == item_id)


def _is_content(content: JsonValue, known: tuple[str, ...]) -> bool:
    if isinstance(content, str):
        return True
    return isinstance(content, list) and all(_is_part(part, known) for part in content)


def _is_part(part: JsonValue, known: tuple[str, ...]) -> bool:
    kind: JsonValue = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in known:
        return False
    return kind not in PARTS or misshapen(part, PARTS[kind]) is None


# writing


def _message(role: str, parts: tuple[Part, ...], changes: list[Change]) -> list[JsonObject]:
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


def _own_part(part: Opaque, role: str, changes: list[Change]) -> JsonObject | None:
    """Return a part that came in this API's form or in another's, as a message of `role` has it."""
    known = _KNOWN.get(role, GIVEN)
    if part.provider == NAME and _is_part(part.data, known):
        return native_part(part)
    shown = _media(part.data) if part.provider == NAME else None
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
_PORTABLE = {
    "message": {*_ALWAYS, "role", "content"},
    **{call: {*_ALWAYS, "name", given} for call, given in CALLS.items()},
    **{output: {*_ALWAYS, "output"} for output in OUTPUTS.values()},
}


class _Piece(msgspec.Struct):
    """An item of a turn, with the call that it makes."""

    item: JsonObject
    call: Call | None = None


def _add_turn(
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
        for item in _once(piece.item, used, changes)
    ]
    start, called = 0, -1
    for place, piece in enumerate(pieces):
        if piece.call is not None:
            called = place
        elif called >= start and _kind(piece.item) == "message":
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
            output = _output(piece.call, piece.item["call_id"])
            output["type"] = OUTPUTS[piece.item["type"]]
            items += _once(output, used, changes)


def _pieces(turn: Turn, names: list[str], changes: list[Change]) -> list[_Piece]:
    native = _own_items(turn)
    calls = list(zip(turn.calls, names, strict=True))
    if native is None or sum(_kind(item) in CALLS for item in native) != len(calls):
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
            yield _message("assistant", tuple(said), changes)
            said.clear()
            yield [copy(part.data)]
        else:
            said.append(part)
    yield _message("assistant", tuple(said), changes)


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
        if _kind(item) not in CALLS:
            well_formed = _is_well_formed(item)
            mended = [] if well_formed else _mended(item, changes)
            pieces += [_Piece(each) for each in ([copy(item)] if well_formed else mended)]
            whole = whole and (well_formed or (bool(mended) and _kind(item) in (None, "message")))
            continue
        call, name = next(waiting)
        if _is_well_formed(item) and _is_same(call, item) and not call.hidden:
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
    if _kind(item) == "reasoning" or not has_text(item):
        return []
    text = foreign_text(Opaque(NAME, item), changes)
    return [{"role": "assistant", "content": text or ""}]


def _needs_whole(item: JsonObject) -> bool:
    kind = _kind(item)
    return kind == "reasoning" or (kind not in (*CALLS, "message") and item.get("id") is not None)


def _mended(item: JsonObject, changes: list[Change]) -> list[JsonObject]:
    """Return the items that may be sent in place of one that may not go back as it is."""
    if _kind(item) == "message":
        return _message("assistant", _parts(item.get("content")), changes)
    kind = item.get("type")
    if isinstance(kind, str) and kind not in TYPES:
        changes.append(Change("dropped", "OR05", f"{kind} is not the type of an item"))
        return _as_text_message(item, changes)
    if isinstance(kind, str):
        changes.append(Change("dropped", "OR03", f"the id of a {kind} item is not legal"))
        return _as_text_message(item, changes)
    return _message("assistant", (Text(as_text(item)),), changes)


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


def _output(call: Call, name: str) -> JsonObject:
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


def _once(item: JsonObject, used: set[str], changes: list[Change]) -> list[JsonObject]:
    """Return an item if its id is legal and unused or missing; otherwise its text or no id."""
    item_id = item.get("id")
    if item_id is None:
        return [item]
    if _is_legal_id(_kind(item), item_id) and item_id not in used:
        used.add(item_id)
        return [item]
    changes.append(Change("dropped", "OR03", f"the id {item_id!r} is already used or not legal"))
    if _kind(item) not in ("message", *CALLS, *OUTPUTS.values()):
        return _as_text_message(item, changes)
    item.pop("id")
    return [item]


def _settled(items: list[JsonObject], changes: list[Change]) -> list[JsonObject]:
    """Return the items, without reasoning that nothing follows; each reasoning has a summary."""
    found: list[JsonObject] = []
    belongs = nameless = False
    for item in reversed(items):
        kind = _kind(item)
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
    kind = _kind(item) or ""
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith(("_output", "_response")) or item.get("execution") == "server"
