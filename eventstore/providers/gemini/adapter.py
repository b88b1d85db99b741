"""Google Gemini: contents in, `{"system_instruction": ..., "contents": [...]}` out.

Parsing takes the keys of the REST interface (`functionCall`) and those of the SDK's dumps
(`function_call`); rendering writes the former, which both accept. Calls need no ids: a response
answers by name and place. A signature goes back with the part that it came on. A call of another
provider, and where models sign an unsigned one of the current turn, gets the placeholder that
Google documents for this. In google-genai
the system instruction is a member of `config`: take it out of the arguments, and pass
`config=GenerateContentConfig(system_instruction=...)` with the rest.
"""

from __future__ import annotations

import operator
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeGuard

from eventstore.domain.calls import FunctionCall
from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import PDF, Document, Image, Opaque, Part, Text
from eventstore.domain.own_texts import OPENING
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.gemini.shapes import DATA, MEMBERS, PartShape
from eventstore.providers.identifiers import call_ids, shortened, tool_name
from eventstore.providers.media import Audio, document_of, image_of, plain_image
from eventstore.providers.model import (
    TURN_ROLES,
    Call,
    Change,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
    Rendered,
    Turn,
    visible_turns,
)
from eventstore.providers.parts import (
    UNSIGNED,
    as_text,
    copy,
    foreign_text,
    function_call,
    is_call_of,
    media_turns,
    native_part,
    object_arguments,
    other_members,
    plain_text,
    results_message_for,
)
from eventstore.providers.shapes import misshapen
from eventstore.providers.tool_definition import ToolDefinition

NAME: Final = "gemini"
_BLOCKS: Final = "parts"
_MAX_ID: Final = 64
_MAX_NAME: Final = 64

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

_LEGAL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_NOTHING: tuple[object, ...] = (None, "", [])


class GeminiAdapter(ProviderAdapter):
    """Reads and writes the contents of Gemini."""

    name = NAME
    list_key = "contents"
    system_key = "system_instruction"
    results_key = _BLOCKS
    call_ids = "optional"
    error_flag = True
    signature = FormatSignature(
        calls=("functionCall",),
        results=("functionResponse", "function_response"),
        part_calls=("function_call",),
    )

    response_members = ResponseMembers(  # as the SDK names them, and as the API does
        response_id=(("response_id",), ("responseId",)),
        model=(("model_version",), ("modelVersion",)),
        finish_reason=(
            ("candidates", "finish_reason"),
            ("candidates", "finishReason"),
            ("prompt_feedback", "block_reason"),
            ("promptFeedback", "blockReason"),
        ),
        input=(
            ("usage_metadata", "prompt_token_count"),
            ("usage_metadata", "tool_use_prompt_token_count"),
            ("usageMetadata", "promptTokenCount"),
            ("usageMetadata", "toolUsePromptTokenCount"),
        ),
        output=(
            ("usage_metadata", "candidates_token_count"),
            ("usage_metadata", "thoughts_token_count"),
            ("usageMetadata", "candidatesTokenCount"),
            ("usageMetadata", "thoughtsTokenCount"),
        ),
        cached=(
            ("usage_metadata", "cached_content_token_count"),
            ("usageMetadata", "cachedContentTokenCount"),
        ),
        reasoning=(
            ("usage_metadata", "thoughts_token_count"),
            ("usageMetadata", "thoughtsTokenCount"),
        ),
    )

    def parse(
        self, messages: Iterable[object], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if is_json_object(message):
                yield from _items(_content(message), is_error, is_rejection)
            elif isinstance(message, str) and message:
                content = {"role": "user", "parts": [{"text": message}]}
                yield from _items(content, is_error, is_rejection)
            elif message not in (None, ""):
                yield ParsedMessage("user", (Text(as_text(message)),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the request for `turns`, responses in the content after their calls."""
        changes: list[Change] = []
        system: list[str] = []
        contents: list[JsonObject] = []
        current: Made = []  # the first call of each content since the user spoke
        ids = call_ids(turns, _MAX_ID, changes, per_turn=True, sanitizer=shortened)
        for turn, given in visible_turns(turns, ids, changes):
            if turn.role in ("system", "developer") and not contents:
                system.append(plain_text(turn.parts, changes))
                changes.append(Change("moved", "GE07", "system text is a parameter of the request"))
            elif turn.role == "assistant":
                current += _add_model(contents, turn, given, changes)[:1]
            else:
                content = _user(turn, changes)
                if content["parts"]:
                    contents.append(content)
                    current.clear()
        _sign_current_turn(contents, current, changes)
        arguments: JsonObject = {"contents": contents}
        if any(system):
            arguments = {"system_instruction": "\n\n".join(filter(None, system)), **arguments}
        return Rendered(arguments, changes)

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return a function declaration, one of those in a tool of the request's `config`."""
        return tool.with_schema_as("parameters_json_schema")

    def tool_list(self, definitions: list[JsonObject]) -> list[JsonObject]:
        """Return the `tools` of the request's `config`: one, with all declarations."""
        return [{"function_declarations": definitions}] if definitions else []

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the part that answers `call`."""
        return _response(call, call.name, call_id or None)

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of a content, or a part, that no other provider has a place for."""
        parts: JsonValue = [native]
        if isinstance(native, dict) and "role" in native:
            parts = native.get("parts")
            yield from other_members(native, {"role", "parts", "" if parts else "content"})
        for part in parts if isinstance(parts, list) else ():
            body = _of(part, CALL) or _of(part, RESPONSE)
            if body is not None or (isinstance(part, dict) and part.get("text") is not None):
                yield from other_members(part, _PORTABLE)
                yield from other_members(body, _PORTABLE_OF_BODIES)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a part shows."""
        return _media(part)

    def audio(self, part: JsonObject) -> Audio | None:
        """Return the sound that a part holds."""
        body = _object_of(part, INLINE)
        media_type = _of(body, MIME)
        data: JsonValue | bytes = body.get("data")
        if not isinstance(media_type, str) or not media_type.startswith("audio/"):
            return None
        if isinstance(data, bytes):
            data = b64encode(data).decode()
        if not isinstance(data, str) or part.get("thought"):
            return None
        return Audio(data.replace("-", "+").replace("_", "/"), media_type)

    def audio_part(self, audio: Audio) -> JsonObject | None:
        """Return the part that plays a sound."""
        return {"inlineData": {"mimeType": audio.media_type, "data": audio.data}}

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed response shows."""
        body = _object_of(native, RESPONSE)
        shown: JsonValue = body.get("parts")
        text = Text(_result_text(body.get("response"), None))
        parts = [part for item in shown for part in _part(item)] if isinstance(shown, list) else []
        return (text, *parts)

    def takes_document_name(self, document: Document) -> bool:
        """Return False: only Vertex takes the name of a document."""
        del document
        return False

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether the message is a list of parts."""
        return isinstance(message.get("parts"), list)


ADAPTER: Final = GeminiAdapter()


# reading


def _content(message: JsonObject) -> JsonObject:
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


def _items(
    content: JsonObject, is_error: ResultTest, is_rejection: ResultTest
) -> Iterator[ParsedItem]:
    given = content.get("role")
    held: JsonValue = content.get("parts")
    given_parts: list[JsonValue] = (
        held if isinstance(held, list) else [] if held is None else [held]
    )
    parts: list[JsonValue] = []
    for part in given_parts:
        parts += _in_own_shape(part)
    results = [part for part in parts if _has(part, RESPONSE)]
    calls = [part for part in parts if _has(part, CALL)]
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
    rest = [part for part in parts if not _has(part, RESPONSE)] if results else parts
    native = content if own and not results else {**content, "parts": rest}
    if role == "assistant":
        yield from _message(role, rest, native, own=own)
        yield from (_result(part, is_error, is_rejection) for part in results)
        return
    yield from (_result(part, is_error, is_rejection) for part in results)
    if calls:  # only the model can call
        yield from _message("assistant", calls, None, own=False)
        rest = [part for part in rest if not _has(part, CALL)]
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
            parts.append({**beside, keys[0]: _of(part, keys)})
            beside = {}
    return parts


def _has(part: JsonValue, keys: tuple[str, str]) -> TypeGuard[JsonObject]:
    """Return whether a part is an object with a member, in either spelling."""
    if not isinstance(part, dict):
        return False
    return part.get(keys[0]) is not None or part.get(keys[1]) is not None


def _of(part: JsonValue, keys: tuple[str, str]) -> JsonValue:
    """Return a member of a part, in either spelling."""
    if not isinstance(part, dict):
        return None
    value: JsonValue = part.get(keys[0])
    return part.get(keys[1]) if value is None else value


def _object_of(part: JsonValue, keys: tuple[str, str]) -> JsonObject:
    """Return the object in a member of a part; any other value counts as an empty one."""
    value = _of(part, keys)
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
        ParsedCall(_id(body), _function(body))
        for part in given
        if (body := _of(part, CALL)) is not None
    )
    parts = tuple(part for item in given for part in _part(item))
    well_formed = own and native is not None and all(map(_is_well_formed_part, given))
    if parts or calls or (well_formed and given):
        yield ParsedMessage(role, parts, calls, native, well_formed, shares_message)


def _id(body: JsonValue) -> str | None:
    call_id: JsonValue = body.get("id") if isinstance(body, dict) else None
    return call_id if isinstance(call_id, str) and call_id else None


def _function(body: JsonValue) -> FunctionCall:
    if not isinstance(body, dict):
        return function_call(None, body)
    return function_call(body.get("name"), body.get("args"))


def _part(part: JsonValue) -> Iterator[Part]:
    if not isinstance(part, dict):
        if said := as_text(part):
            yield Text(said)
        return
    held = {key: value for key, value in part.items() if value is not None}
    if not held or _has(part, CALL):
        return
    text = held.get("text")
    if text is not None and not (held.get("thought") and isinstance(text, str)):
        if said := as_text(text):
            yield Text(said)
    elif image := plain_image(_media(held), held):
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


def _media(part: JsonObject) -> Image | Document | None:
    """Return the image or document in a part, if other providers could show it too."""
    if part.get("thought"):
        return None
    inline, file = _of(part, INLINE), _of(part, FILE)
    body = inline if isinstance(inline, dict) else file
    media_type = _of(body, MIME)
    if not isinstance(body, dict) or not isinstance(media_type, str):
        return None
    if not (media_type.startswith("image/") or media_type == PDF):
        return None
    data: JsonValue | bytes = body.get("data")
    url, called = _of(body, URI), _of(body, CALLED)
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
    body = _of(part, RESPONSE)
    fields = body if isinstance(body, dict) else {"response": body}
    name = fields.get("name")
    response: JsonValue = fields.get("response")
    well_formed = isinstance(name, str) and bool(name) and isinstance(response, dict)
    well_formed = well_formed and misshapen(part, PartShape) is None
    well_formed = well_formed and len(part.keys() - _BESIDE_RESPONSES) == 1
    return ParsedResult(
        _id(fields),
        name if isinstance(name, str) and name else None,
        _result_text(response, fields.get("parts")),
        bool(is_error(part)) or _is_error_response(response),
        part if well_formed else None,
        bool(is_rejection(part)),
        well_formed,
    )


_BESIDE_RESPONSES = {*SIGNATURE, "partMetadata", "part_metadata"}


def _result_text(response: JsonValue, parts: JsonValue) -> str:
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
    body = _of(part, INLINE) or _of(part, FILE)
    return f"[{_of(body, MIME) or 'file'}]"


def _is_error_response(response: JsonValue) -> bool:
    return isinstance(response, dict) and response.keys() == {"error"} and bool(response["error"])


def _is_well_formed_part(part: JsonValue) -> TypeGuard[JsonObject]:
    if not isinstance(part, dict) or _in_own_shape(part) != [part]:
        return False
    if all(part[key] is None for key in part if key in _DATUM_OF):
        return False
    if misshapen(part, PartShape) is not None:
        return False
    call = _of(part, CALL)
    if call is None:
        return True
    return (
        isinstance(call, dict)
        and isinstance(call.get("name"), str)
        and bool(call["name"])
        and isinstance(call.get("args", {}), dict | None)
    )


# writing


_PORTABLE = {"text", "thought", *CALL, *RESPONSE}
_PORTABLE_OF_BODIES = {"id", "name", "args", "response", "parts"}


def _user(turn: Turn, changes: list[Change]) -> JsonObject:
    native = turn.own_message(NAME)
    if native is not None and turn.role == "user":
        if turn.shares_message:
            changes.append(
                Change("moved", "GE08", "text beside responses moves to its own content")
            )
        return copy(native)
    if turn.role in ("system", "developer"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "GE07", "a later system message became a user's text"))
        return {"role": "user", "parts": [{"text": f"[system] {said}"}] if said else []}
    return {"role": "user", "parts": _parts(turn.parts, changes)}


def _add_model(
    contents: list[JsonObject], turn: Turn, given: list[str], changes: list[Change]
) -> Made:
    """Add the model's content, and the responses to its calls; return these, with their parts."""
    content, made = _model(turn, given, changes)
    if not content["parts"]:
        return []
    if made:
        _open(contents, content, changes)
    contents.append(content)
    if made:
        asked = [(call, _object_of(part, CALL)) for call, part in made]
        responses = [_response(call, body["name"], _id(body)) for call, body in asked]
        contents.append(results_message_for(turn, NAME, _BLOCKS, responses))
        contents.extend(_user(said, changes) for said in media_turns(turn, NAME, changes))
    return made


def _open(contents: list[JsonObject], content: JsonObject, changes: list[Change]) -> None:
    """Make room for a content with calls, which must follow a content of another role."""
    said: list[JsonValue] = []
    while contents and contents[-1]["role"] == "model":
        said = contents.pop()["parts"] + said
    if said:
        changes.append(Change("merged", "GE03", "calls join the content of the model before them"))
        content["parts"][:0] = said
    if not contents:
        changes.append(Change("added", "GE03", "a call may not begin a conversation"))
        contents.append({"role": "user", "parts": [{"text": OPENING}]})


Made = list[tuple[Call, JsonObject]]  # calls, with the parts that make them


def _model(turn: Turn, given: list[str], changes: list[Change]) -> tuple[JsonObject, Made]:
    native: JsonValue = turn.native if turn.provider == NAME else None
    if not isinstance(native, dict):
        native = {}
    parts: JsonValue = native.get("parts")
    if not isinstance(parts, list):
        parts = []
    made: Made
    if not parts or sum(_has(part, CALL) for part in parts) != len(turn.calls):
        made = [
            (call, _new_call(call, name, changes))
            for call, name in zip(turn.calls, given, strict=True)
            if not call.hidden
        ]
        said = _parts(turn.parts, changes)
        content: JsonObject = {"role": "model", "parts": [*said, *(part for _, part in made)]}
    elif turn.well_formed:
        content, made = copy(native), []
        copied: list[JsonValue] = content["parts"]
        calls = (part for part in copied if _has(part, CALL))
        for call, name, part in zip(turn.calls, given, calls, strict=True):
            if call.provider_id is not None:
                _object_of(part, CALL)["id"] = name
            made.append((call, part))
        if not any(call.hidden or not _is_same(call, part) for call, part in made):
            return content, made
        content, made = _mended(turn, copied, given, changes)
    else:
        content, made = _mended(turn, copy(parts), given, changes)
    _sign(made, turn, changes)
    return content, made


def _is_same(call: Call, part: JsonObject) -> bool:
    asked = _function(_of(part, CALL))
    return bool(asked.name) and is_call_of(asked, call)


def _mended(
    turn: Turn, parts: list[JsonValue], given: list[str], changes: list[Change]
) -> tuple[JsonObject, Made]:
    """Return a content of Gemini's with its parts, each unchanged where that is possible.

    Thoughts and signatures stay only if every call stays unchanged.
    """
    found: list[JsonObject] = []
    made: Made = []
    calls = iter(zip(turn.calls, given, strict=True))
    whole = True
    for part in parts:
        if not _has(part, CALL):
            found += [part] if _is_well_formed_part(part) else _parts(tuple(_part(part)), changes)
            continue
        call, name = next(calls)
        if call.hidden:
            whole = False
            continue
        calling = part
        if not (_is_well_formed_part(part) and _is_same(call, part)):
            whole = whole and not _is_well_formed_part(part)
            calling = _new_call(call, name, changes)
        elif call.provider_id is not None:
            _object_of(part, CALL)["id"] = name
        found.append(calling)
        made.append((call, calling))
    if not whole:
        if any(part.get("thought") or _of(part, SIGNATURE) for part in found):
            changes.append(Change("dropped", "reasoning", "it goes with the whole of its turn"))
        found = [part for part in found if not part.get("thought")]
        for part in found:
            for key in SIGNATURE:
                part.pop(key, None)
        found = [part for part in found if part and part != {"text": ""}]
    return {"role": "model", "parts": found}, made


def _sign(made: Made, turn: Turn, changes: list[Change]) -> None:
    """Give the first call of a content the placeholder signature where it has none."""
    if made and not _of(made[0][1], SIGNATURE):
        made[0][1][SIGNATURE[0]] = UNSIGNED
        if turn.provider == NAME:
            changes.append(Change("added", "GE06", "its signature is not known", made[0][0].id))


def _sign_current_turn(contents: list[JsonObject], calls: Made, changes: list[Change]) -> None:
    """Give the unsigned calls of the current turn the placeholder, where models sign."""
    unsigned = [(call, part) for call, part in calls if not _of(part, SIGNATURE)]
    if unsigned and any(_of(p, SIGNATURE) for content in contents for p in content["parts"]):
        for call, part in unsigned:
            part[SIGNATURE[0]] = UNSIGNED
            changes.append(Change("added", "GE06", "its signature is not known", call.id))


def _new_call(call: Call, name: str, changes: list[Change]) -> JsonObject:
    body: JsonObject = {"name": _name(call, changes), "args": object_arguments(call, changes)}
    return {"functionCall": {"id": name, **body}}


def _name(call: Call, changes: list[Change]) -> str:
    if _LEGAL_NAME.fullmatch(call.name):
        return call.name
    return tool_name(call, _MAX_NAME, changes)


def _response(call: Call, name: str, call_id: str | None) -> JsonObject:
    answer = call.answer
    given = {} if call_id is None else {"id": call_id}
    said = {"error" if answer.is_error else "output": answer.text}
    if answer.note:
        said = {key: f"{text}\n{answer.note}" for key, text in said.items()}
    if answer.provider != NAME or answer.native is None:
        return {"functionResponse": {**given, "name": name, "response": said}}
    part = copy(answer.native)
    body = _object_of(part, RESPONSE)
    if call_id is None:
        body.pop("id", None)
    body.update(given, name=name)
    if answer.note:
        body["response"] = said
    return part


def _parts(parts: tuple[Part, ...], changes: list[Change]) -> list[JsonObject]:
    return [made for part in parts if (made := _rendered(part, changes)) is not None]


def _rendered(part: Part, changes: list[Change]) -> JsonObject | None:
    if isinstance(part, Text):
        return {"text": part.text} if part.text.strip() else None
    if isinstance(part, Image | Document):
        media_type = part.media_type if isinstance(part, Image) else PDF
        if part.url is not None:
            kind = {"mimeType": media_type} if media_type else {}
            return {"fileData": {**kind, "fileUri": part.url}}
        return {"inlineData": {"mimeType": media_type or "image/png", "data": part.data or ""}}
    if part.provider == NAME and _is_well_formed_part(part.data):
        return native_part(part)
    text = foreign_text(part, changes)
    return {"text": text} if text and text.strip() else None
