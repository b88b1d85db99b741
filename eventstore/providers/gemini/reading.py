"""How the contents of Gemini are read."""

from __future__ import annotations

import operator
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Final, TypeGuard

from eventstore.domain.calls import FunctionCall
from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.media_types import PDF
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers.adapter_protocol import (
    ResultTest,
)
from eventstore.providers.call_arguments import function_call
from eventstore.providers.gemini.shapes import ALONE, DATA, LEGAL_NAME, MEMBERS, PartShape
from eventstore.providers.json_values import as_text
from eventstore.providers.media import document_of, image_of, plain_image
from eventstore.providers.model import (
    TURN_ROLES,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
)
from eventstore.providers.shapes import misshapen

NAME: Final = "gemini"
_ROLES = {**TURN_ROLES, "function": "user"}
OWN_ROLES = {"user": "user", "function": "user", "model": "assistant"}
CALL = ("functionCall", "function_call")
RESPONSE = ("functionResponse", "function_response")
SIGNATURE = ("thoughtSignature", "thought_signature")
INLINE = ("inlineData", "inline_data")
FILE = ("fileData", "file_data")
MIME = ("mimeType", "mime_type")
URI = ("fileUri", "file_uri")
CALLED = ("displayName", "display_name")
_DATUM_OF: Final = {key: keys for keys in DATA for key in keys}
_NOTHING: tuple[object, ...] = (None, "", [])


def content_of(message: JsonObject) -> JsonObject:
    """Return the content that a whole response or a candidate holds, or that a part alone is."""
    candidates: JsonValue = message.get("candidates")
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        content: JsonValue = candidates[0].get("content")
        return {"role": "model", **content} if isinstance(content, dict) else {}
    if "role" not in message and isinstance(message.get("content"), dict):
        return {"role": "model", **message["content"]}
    if "parts" not in message and "role" not in message and message:
        return {"role": "user", "parts": [message]}
    if (
        message.get("parts") in _NOTHING and "content" in message
    ):  # in the format of Chat Completions
        held: JsonValue = message["content"]
        return {"role": message.get("role"), "parts": held if isinstance(held, list) else [held]}
    return message


def items_of(
    content: JsonObject, is_error: ResultTest, is_rejection: ResultTest
) -> Iterator[ParsedItem]:
    """Yield the items of a content, or of the one in a whole response."""
    given = content.get("role")
    held: JsonValue = content.get("parts")
    given_parts: list[JsonValue] = (
        held if isinstance(held, list) else [] if held is None else [held]
    )
    parts: list[JsonValue] = []
    for part in given_parts:
        parts += _in_own_shape(part)
    results = [part for part in parts if has_member(part, RESPONSE)]
    calls = [part for part in parts if has_member(part, CALL)]
    role = _ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        role = "assistant" if calls else "user"
    own = isinstance(given, str) and OWN_ROLES.get(given) == role
    own = own and isinstance(held, list) and all(map(operator.is_, held, parts))
    if len(results) == len(parts) and own:
        yield from (_result(part, is_error, is_rejection) for part in results)
        if results and role == "user":
            native = {**content, "parts": [None] * len(results)}
            yield ParsedMessage(
                role,
                (),
                (),
                native,
                well_formed=True,
                shares_message=True,
                result_count=len(results),
            )
        return
    rest = [part for part in parts if not has_member(part, RESPONSE)] if results else parts
    native = content if own and not results else {**content, "parts": rest}
    if role == "assistant":
        yield from _message(role, rest, native, own=own)
        yield from (_result(part, is_error, is_rejection) for part in results)
        return
    yield from (_result(part, is_error, is_rejection) for part in results)
    if calls:  # only the model can call
        yield from _message("assistant", calls, None, own=False)
        rest = [part for part in rest if not has_member(part, CALL)]
        native = {**content, "parts": rest}
    yield from _message(role, rest, native, own=own, shares_message=bool(results))


def _in_own_shape(part: JsonValue) -> list[JsonValue]:
    """Return a part with one datum and no members of another API, or several with a datum each.

    A part that has no datum of this API is left as it is.
    """
    if not isinstance(part, dict):
        return [part]
    given = [key for key, value in part.items() if value is not None]
    data = {_DATUM_OF[key] for key in given if key in _DATUM_OF}
    if not data or (len(data) == 1 and MEMBERS.issuperset(given)):
        return [part]
    beside = {key: part[key] for key in part if key in MEMBERS and key not in _DATUM_OF}
    parts: list[JsonValue] = []
    for keys in DATA:
        if keys in data:
            parts.append({**beside, keys[0]: member(part, keys)})
            beside = {}
    return parts


def has_member(part: JsonValue, keys: tuple[str, str]) -> TypeGuard[JsonObject]:
    """Return whether a part is an object with a member, in either spelling."""
    if not isinstance(part, dict):
        return False
    return part.get(keys[0]) is not None or part.get(keys[1]) is not None


def member(part: JsonValue, keys: tuple[str, str]) -> JsonValue:
    """Return a member of a part, in either spelling."""
    if not isinstance(part, dict):
        return None
    value: JsonValue = part.get(keys[0])
    return part.get(keys[1]) if value is None else value


def object_member(part: JsonValue, keys: tuple[str, str]) -> JsonObject:
    """Return the object in a member of a part; any other value counts as an empty one."""
    value = member(part, keys)
    return value if isinstance(value, dict) else {}


def _message(
    role: str,
    given: Sequence[JsonValue],
    native: JsonObject | None,
    *,
    own: bool,
    shares_message: bool = False,
) -> Iterator[ParsedMessage]:
    calls = tuple(
        ParsedCall(id_of(body), function_of(body))
        for part in given
        if (body := member(part, CALL)) is not None
    )
    parts = tuple(part for item in given for part in parts_of(item))
    well_formed = own and native is not None and all(map(is_well_formed_part, given))
    if parts or calls or (well_formed and given):
        yield ParsedMessage(role, parts, calls, native, well_formed, shares_message)


def id_of(body: JsonValue) -> str | None:
    """Return the id of a call or a response; None if it has none."""
    call_id: JsonValue = body.get("id") if isinstance(body, dict) else None
    return call_id if isinstance(call_id, str) and call_id else None


def function_of(body: JsonValue) -> FunctionCall:
    """Return what the body of a function call calls."""
    if not isinstance(body, dict):
        return function_call(None, body)
    return function_call(body.get("name"), body.get("args"))


def parts_of(part: JsonValue) -> Iterator[Part]:
    """Yield what a part says or shows, if anything."""
    if not isinstance(part, dict):
        if said := as_text(part):
            yield Text(said)
        return
    held = {key: value for key, value in part.items() if value is not None}
    if not held or has_member(part, CALL):
        return
    text = held.get("text")
    if text is not None and not (held.get("thought") and isinstance(text, str)):
        if said := as_text(text):
            yield Text(said)
    elif image := plain_image(shown_media(held), held):
        yield image
    elif not held.keys() <= MEMBERS and (shown := _media_elsewhere(held)):
        yield shown
    elif held.keys() - set(SIGNATURE) and text != "":
        yield Opaque(NAME, part)


def _media_elsewhere(part: JsonObject) -> Image | Document | None:
    """Return the image or document in a part that is in the form of OpenAI or Anthropic."""
    kind = part.get("type")
    held: JsonValue = part.get("source" if kind in ("image", "document") else "image_url")
    if isinstance(held, dict) and isinstance(held.get("data"), str):
        held = f"data:{held.get('media_type')};base64,{held['data']}"
    elif isinstance(held, dict):
        held = held.get("url")
    return document_of(held) if kind == "document" else image_of(held)


def shown_media(part: JsonObject) -> Image | Document | None:
    """Return the image or document in a part, if other providers could show it too."""
    if part.get("thought"):
        return None
    inline, file = member(part, INLINE), member(part, FILE)
    body = inline if isinstance(inline, dict) else file
    media_type = member(body, MIME)
    if not isinstance(body, dict) or not isinstance(media_type, str):
        return None
    if not (media_type.startswith("image/") or media_type == PDF):
        return None
    data: JsonValue | bytes = body.get("data")
    url, called = member(body, URI), member(body, CALLED)
    name = called if isinstance(called, str) else None
    if isinstance(data, bytes):  # in a dict for the SDK
        data = b64encode(data).decode()
    if body is inline and isinstance(data, str):
        data = data.replace("-", "+").replace("_", "/")
        return Document(None, data, name) if media_type == PDF else Image(None, data, media_type)
    # Only Google can read the files that were uploaded to it.
    if isinstance(url, str) and url.startswith("https://") and "googleapis.com/" not in url:
        return Document(url, None, name) if media_type == PDF else Image(url, None, media_type)
    return None


def _result(part: JsonObject, is_error: ResultTest, is_rejection: ResultTest) -> ParsedResult:
    body = member(part, RESPONSE)
    fields = body if isinstance(body, dict) else {"response": body}
    name = fields.get("name")
    response: JsonValue = fields.get("response")
    well_formed = isinstance(name, str) and bool(name) and isinstance(response, dict)
    well_formed = well_formed and misshapen(part, PartShape) is None
    held = [key for key in part if key not in _BESIDE_DATA and part[key] is not None]
    well_formed = well_formed and len(held) == 1
    return ParsedResult(
        id_of(fields),
        name if isinstance(name, str) and name else None,
        result_text(response, fields.get("parts")),
        bool(is_error(part)) or _is_error_response(response),
        part if well_formed else None,
        is_rejection(part),
        well_formed,
    )


_BESIDE_DATA = MEMBERS - _DATUM_OF.keys()


def result_text(response: JsonValue, parts: JsonValue) -> str:
    """Return a response as text: the value of a single generic member, otherwise all as JSON."""
    text = as_text(response)
    if response == {}:
        text = ""
    elif isinstance(response, dict) and len(response) == 1:
        ((key, value),) = response.items()
        if isinstance(value, str) and key in ("", "output", "result", "error", "return_value"):
            text = value
    shown = [_media_name(part) for part in parts] if isinstance(parts, list) else []
    return "\n".join([*([text] if text or not shown else []), *shown])


def _media_name(part: JsonValue) -> str:
    body = member(part, INLINE) or member(part, FILE)
    return f"[{member(body, MIME) or 'file'}]"


def _is_error_response(response: JsonValue) -> bool:
    return isinstance(response, dict) and response.keys() == {"error"} and bool(response["error"])


def _is_dropped(part: JsonObject, args: JsonValue) -> bool:
    """Return whether args are null in the spelling of the SDK, which does not send what is null."""
    return args is None and CALL[1] in part


def is_well_formed_part(part: JsonValue) -> TypeGuard[JsonObject]:
    """Return whether a part may go back as it is."""
    if not isinstance(part, dict) or _in_own_shape(part) != [part]:
        return False
    if all(part[key] is None for key in part if key in _DATUM_OF):
        return bool(part) and part.keys() <= ALONE
    if misshapen(part, PartShape) is not None:
        return False
    call = member(part, CALL)
    if call is None:
        return True
    return (
        isinstance(call, dict)
        and isinstance(call.get("name"), str)
        and LEGAL_NAME.fullmatch(call["name"]) is not None
        and (isinstance(call.get("args", {}), dict) or _is_dropped(part, call["args"]))
    )
