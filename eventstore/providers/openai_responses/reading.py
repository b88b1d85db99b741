"""How the items of OpenAI Responses are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from eventstore.domain.failure import Failure
from eventstore.domain.finish_reasons import why_not_whole
from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers import chat_completions as chat
from eventstore.providers.adapter_protocol import (
    ResultTest,
)
from eventstore.providers.identifiers import sanitized
from eventstore.providers.json_values import as_text, other_members
from eventstore.providers.media import document_of, image_of, plain_image
from eventstore.providers.model import (
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
    parts_beyond_text,
)
from eventstore.providers.openai_responses.client_items import (
    Calls,
    asked,
    id_of_call,
    id_of_output,
    is_client_call,
    is_client_output,
    is_hosted,
    is_sound,
    said_by,
)
from eventstore.providers.openai_responses.shapes import (
    CALL_OF,
    CALLS,
    GIVEN,
    ITEMS,
    OUTPUTS,
    PAIRED,
    PARTS,
    PREFIXES,
    SAID,
    SHOWN,
    STATUSES,
    TEXT_OUTPUTS,
    TYPES,
    Called,
)
from eventstore.providers.shapes import misshapen

NAME: Final = "openai-responses"
_MAX_NATIVE_NAME = 128  # what the API takes
_MAX_ID = 64
_ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def parsed_items(
    item: JsonObject, is_error: ResultTest, is_rejection: ResultTest, calls: Calls
) -> Iterator[ParsedItem]:
    """Yield what an item says; one that two items were merged into says what both said.

    The output of what the API itself ran, as `calls` say, is no result of a call.
    """
    if _is_event(item):
        held: JsonValue = item.get("item")
        if item["type"] != "response.output_item.done" or not isinstance(held, dict):
            return
        item = held
    kind = item_kind(item)
    is_call = is_call_item(item)
    is_result = _is_result(item, kind)
    if kind == PAIRED["shell_call"].output and id_of_output(item) in calls.hosted:
        is_result = False
    if is_call or (is_result and "output" in item):
        yield from _said_beside(item)
    if is_call:
        yield _call(item)
    if is_result or (is_call and "output" in item):
        result = _result(item, is_error, is_rejection)
        is_odd = result.native is not None and result.id in calls.particular
        yield msgspec.structs.replace(result, keeps_form=True) if is_odd else result
    elif not is_call and (kind == "message" or kind in CALLS):
        yield from _message_item(item)
    elif not is_call and item:
        part = Opaque(NAME, item) if kind is not None else Text(as_text(item))
        yield ParsedMessage(
            "assistant", (part,), (), [item], is_well_formed(item), is_continuation=True
        )


def _is_result(item: JsonObject, kind: str | None) -> bool:
    if kind in CALL_OF:
        return kind in TEXT_OUTPUTS or is_client_output(item)
    return _is_output(item, kind)


def _said_beside(item: JsonObject) -> Iterator[ParsedMessage]:
    """Yield the message that an item holds beside a call or an output."""
    if parts := parts_of(item.get("content")):
        yield ParsedMessage(_speaker(item), parts)


def _call(item: JsonObject) -> ParsedMessage:
    made = (ParsedCall(id_of_call(item), asked(item)),)
    return ParsedMessage(
        "assistant",
        (),
        made,
        [item],
        is_well_formed(item),
        is_continuation=True,
        not_whole=_not_whole(item),
    )


def _not_whole(item: JsonObject) -> Failure | None:
    """Return why no call of the response that an item is of may run: the item is not whole.

    What the client runs in a form of its own is in progress until its output is there.
    """
    status = item.get("status")
    if status == "in_progress" and is_client_call(item):
        return None
    return why_not_whole("openai-responses", status if isinstance(status, str) else None)


def _message_item(item: JsonObject) -> Iterator[ParsedMessage]:
    name = _speaker(item)
    parts, well_formed = parts_of(item.get("content")), name == item.get("role")
    well_formed = well_formed and is_well_formed(item)
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


def item_kind(item: JsonObject) -> str | None:
    """Return the type of an item; of a message without one, `message`."""
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


def is_call_item(item: JsonObject) -> bool:
    """Return whether an item calls a tool that the client runs."""
    kind = item_kind(item)
    if kind not in CALLS:
        return kind in OUTPUTS and is_client_call(item)
    return not (_is_output(item, kind) or _is_message(item))


def _is_message(item: JsonObject) -> bool:
    """Return whether an item with the type of a call is a message, by its members."""
    return "content" in item and not _ASKED & item.keys()


_ASKED = frozenset({*CALLS.values(), "call_id", "name"})
_CONFUSED = frozenset({*CALLS, "message"})
_OTHERS = frozenset({*CALLS.values(), "content", "name"})


def _result(item: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> ParsedResult:
    kind = item_kind(item)
    well_formed = kind in CALL_OF and is_well_formed(item)
    if kind not in TEXT_OUTPUTS and is_client_output(item):
        said = said_by(item)
        return ParsedResult(
            id_of_output(item),
            None,
            said.text,
            said.is_error or bool(is_error(item)),
            item if well_formed else None,
            said.rejected or is_rejection(item),
            well_formed,
            () if well_formed else said.parts,
        )
    return ParsedResult(
        id_of_output(item),
        None,
        as_text(item.get("output", item.get("content"))),
        bool(is_error(item)),
        item if well_formed else None,
        is_rejection(item),
        well_formed,
        () if well_formed else parts_beyond_text(parts_of(item.get("output", item.get("content")))),
    )


def parts_of(content: JsonValue) -> tuple[Part, ...]:
    """Return the parts of a content: of a text, a list of parts, or any other value."""
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
    return plain_image(shown_media(item), item)


def shown_media(part: JsonObject) -> Image | Document | None:
    """Return the image or document in a part, whatever else the part holds."""
    if part.get("type") == "input_file":
        return document_of(part.get("file_data") or part.get("file_url"), part.get("filename"))
    if part.get("type") not in ("input_image", "image_url"):
        return None
    detail = part.get("detail")
    known = detail if isinstance(detail, str) and detail != "auto" else None  # every SDK adds it
    return image_of(part.get("image_url"), known)


def is_well_formed(item: JsonObject) -> bool:
    """Return whether an item may go back as it is."""
    kind, item_id = item_kind(item), item.get("id")
    if not is_legal_id(kind, item_id):
        return False
    if kind in OUTPUTS or kind in CALL_OF:
        return _is_sound_half(item, kind)
    if kind == "message":
        return _is_sound_message(item)
    if kind in ITEMS and misshapen(item, ITEMS[kind]) is not None:
        return False
    return kind in TYPES and isinstance(item.get("encrypted_content"), str | None)


def _is_sound_half(item: JsonObject, kind: str) -> bool:
    """Return whether a call or an output may go back as it is."""
    if kind in CALLS:
        return _is_sound_call(item, kind)
    if kind in TEXT_OUTPUTS:
        legal = isinstance(item.get("call_id"), str) and not item.get("content")
        return legal and _is_content(item.get("output"), SHOWN) and _has_legal_caller(item)
    if is_hosted(item) and len(id_of_call(item) or "") > _MAX_ID:
        return False
    if is_client_call(item) or is_hosted(item):
        return is_sound(item) and not (item.get("content") or item.get("output"))
    if is_client_output(item):
        return is_sound(item) and not item.get("content")
    return isinstance(item.get("encrypted_content"), str | None)


def _is_sound_call(item: JsonObject, kind: str) -> bool:
    name = item.get("name")
    return (
        isinstance(item.get("call_id"), str)
        and not item.get("content")
        and not item.get("output")
        and isinstance(item.get(CALLS[kind]), str)
        and isinstance(name, str)
        and sanitized(name, _MAX_NATIVE_NAME) == name
        and _has_legal_caller(item)
        and (kind != "function_call" or chat.is_json_object(item["arguments"]))
    )


def _is_sound_message(item: JsonObject) -> bool:
    role = item.get("role")
    own = isinstance(role, str) and _ROLES.get(role) == role
    known = SAID if role == "assistant" else GIVEN
    own = own and item.get("type") in (None, "message") and item.get("status") in STATUSES
    return own and _is_content(item.get("content"), known)


def _has_legal_caller(item: JsonObject) -> bool:
    return "caller" not in item or misshapen(item, Called) is None


def is_legal_id(kind: str | None, item_id: object) -> bool:
    """Return whether an item of this type may have the id, or none."""
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
    return isinstance(content, list) and all(is_part(part, known) for part in content)


def is_part(part: JsonValue, known: tuple[str, ...]) -> bool:
    """Return whether a part is of a known type, and has the members of this type."""
    kind: JsonValue = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in known:
        return False
    return kind not in PARTS or misshapen(part, PARTS[kind]) is None
