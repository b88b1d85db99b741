"""Google Gemini: contents in, `{"system_instruction": ..., "contents": [...]}` out.

Read are the keys of the REST interface (`functionCall`) and those of the SDK's dumps
(`function_call`); new parts are written in the former, which both take. Calls need no ids: a
response answers by name and place. Signatures belong to the part that they came on, and go back
with it; a call whose signature nobody knows carries Google's own word for that. In google-genai
the system instruction is a member of `config`: take it out of the arguments, and pass
`config=GenerateContentConfig(system_instruction=...)` with the rest.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eventstore.message import PDF, Document, Image, Opaque, Part, Text
from eventstore.wire.content import (
    as_text,
    bare,
    beyond,
    closed,
    copy,
    foreign_text,
    function_call,
    object_arguments,
    plain_text,
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
from eventstore.wire.naming import call_ids, short_text, tool_name

NAME = "gemini"
LIST = "contents"
BLOCKS = "parts"
ID_LENGTH = 64
NAME_LENGTH = 64
OPENING = "[The conversation begins here.]"
UNSIGNED = "skip_thought_signature_validator"
"""What Google documents for a call whose signature is not known."""

ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "function": "user",
    "tool": "user", "model": "assistant", "assistant": "assistant", "ai": "assistant",
}  # fmt: skip

OWN_ROLES = {"user": "user", "function": "user", "model": "assistant"}

CALL = ("functionCall", "function_call")
RESPONSE = ("functionResponse", "function_response")
SIGNATURE = ("thoughtSignature", "thought_signature")
INLINE = ("inlineData", "inline_data")
FILE = ("fileData", "file_data")
MIME = ("mimeType", "mime_type")
URI = ("fileUri", "file_uri")
CALLED = ("displayName", "display_name")

Test = Callable[[Any], bool]  # of a result, as the provider wrote it

_LEGAL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_NOTHING: tuple[Any, ...] = (None, "", [])


# in


def parse(messages: Sequence[Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    """The items of contents, whatever their form; what says nothing is left out."""
    for message in messages:
        if isinstance(message, str) and message:
            message = {"role": "user", "parts": [{"text": message}]}  # noqa: PLW2901
        if isinstance(message, dict):
            yield from _items(_content(message), is_error, is_rejection)
        elif message not in (None, ""):
            yield WireMessage("user", (Text(as_text(message)),))


def _content(message: dict[str, Any]) -> dict[str, Any]:
    """The content that a whole response or a candidate holds, or that a part alone is."""
    candidates = message.get("candidates")
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        content = candidates[0].get("content")
        return content if isinstance(content, dict) else {}
    if "role" not in message and isinstance(message.get("content"), dict):
        return dict(message["content"])
    if "parts" not in message and "role" not in message and message:
        return {"role": "user", "parts": [message]}
    if message.get("parts") in _NOTHING and "content" in message:  # in the form of a chat
        held = message["content"]
        return {"role": message.get("role"), "parts": held if isinstance(held, list) else [held]}
    return message


def _items(content: dict[str, Any], is_error: Test, is_rejection: Test) -> Iterator[WireItem]:
    given, held = content.get("role"), content.get("parts")
    parts: list[Any] = held if isinstance(held, list) else [] if held is None else [held]
    results = [part for part in parts if _of(part, RESPONSE) is not None]
    calls = [part for part in parts if _of(part, CALL) is not None]
    role = ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        role = "assistant" if calls else "user"
    own = isinstance(held, list) and isinstance(given, str) and OWN_ROLES.get(given) == role
    if len(results) == len(parts) and own:
        yield from (_result(part, is_error, is_rejection) for part in results)
        if results and role == "user":
            native = {**content, "parts": [None] * len(results)}
            yield WireMessage(role, (), (), native, exact=True, joined=True, results=len(results))
        return
    rest = [part for part in parts if _of(part, RESPONSE) is None]
    native = {**content, "parts": rest} if results else content
    if role == "assistant":
        yield from _message(role, rest, native, own=own)
        yield from (_result(part, is_error, is_rejection) for part in results)
        return
    yield from (_result(part, is_error, is_rejection) for part in results)
    if calls:  # only the model can call
        yield from _message("assistant", calls, None, own=False)
        rest = [part for part in rest if _of(part, CALL) is None]
        native = {**content, "parts": rest}
    yield from _message(role, rest, native, own=own, joined=bool(results))


def _of(part: Any, keys: tuple[str, str]) -> Any:
    """A member of a part, in either spelling."""
    if not isinstance(part, dict):
        return None
    value = part.get(keys[0])
    return part.get(keys[1]) if value is None else value


def _message(
    role: str, given: list[Any], native: Any, *, own: bool, joined: bool = False
) -> Iterator[WireMessage]:
    calls = tuple(
        WireCall(_id(_of(part, CALL)), _function(_of(part, CALL)))
        for part in given
        if _of(part, CALL) is not None
    )
    parts = tuple(part for item in given for part in _part(item))
    exact = own and native is not None and all(map(_is_exact_part, given))
    if parts or calls or (exact and given):
        yield WireMessage(role, parts, calls, native, exact, joined)


def _id(body: Any) -> str | None:
    call_id = body.get("id") if isinstance(body, dict) else None
    return call_id if isinstance(call_id, str) and call_id else None


def _function(body: Any) -> Any:
    if not isinstance(body, dict):
        return function_call(None, body)
    return function_call(body.get("name"), body.get("args"))


def _part(part: Any) -> Iterator[Part]:
    if not isinstance(part, dict):
        if said := as_text(part):
            yield Text(said)
        return
    held = {key: value for key, value in part.items() if value is not None}
    if not held or _of(part, CALL) is not None:
        return
    text = held.get("text")
    if text is not None and not (held.get("thought") and isinstance(text, str)):
        if said := as_text(text):
            yield Text(said)
    elif image := bare(media(held), held):
        yield image
    elif held.keys() - set(SIGNATURE) and text != "":
        yield Opaque(NAME, part)


def media(part: dict[str, Any]) -> Image | Document | None:
    """The image or document that a part of ours shows, where others could show it."""
    if part.get("thought"):
        return None
    inline, file = _of(part, INLINE), _of(part, FILE)
    body = inline if isinstance(inline, dict) else file
    media_type = _of(body, MIME)
    if not (isinstance(media_type, str) and (media_type.startswith("image/") or media_type == PDF)):
        return None
    data, url, name = body.get("data"), _of(body, URI), _of(body, CALLED)
    if isinstance(data, bytes):  # in a dict for the SDK
        data = b64encode(data).decode()
    if body is inline and isinstance(data, str):
        data = data.replace("-", "+").replace("_", "/")
        return Document(None, data, name) if media_type == PDF else Image(None, data, media_type)
    # Files that were uploaded to Google are for Google alone.
    if isinstance(url, str) and url.startswith("https://") and "googleapis.com/" not in url:
        return Document(url, None, name) if media_type == PDF else Image(url, None, media_type)
    return None


def _result(part: Any, is_error: Test, is_rejection: Test) -> WireResult:
    body = _of(part, RESPONSE)
    fields = body if isinstance(body, dict) else {"response": body}
    name, response = fields.get("name"), fields.get("response")
    exact = isinstance(name, str) and bool(name) and isinstance(response, dict)
    exact = exact and isinstance(fields.get("id", ""), str | None)
    exact = exact and len(part.keys() - _BESIDE_RESPONSES) == 1
    return WireResult(
        _id(fields),
        name if isinstance(name, str) and name else None,
        _result_text(response, fields.get("parts")),
        bool(is_error(part)) or _tells_of_error(response),
        part if exact else None,
        bool(is_rejection(part)),
        exact,
    )


_BESIDE_RESPONSES = {*SIGNATURE, "partMetadata", "part_metadata"}


def _result_text(response: Any, parts: Any) -> str:
    """A response as text: what stands alone under a name that means nothing, else all of it."""
    text = as_text(response)
    if isinstance(response, dict) and len(response) < 2:  # noqa: PLR2004 - one member
        ((key, value),) = response.items() or (("", ""),)
        if isinstance(value, str) and key in ("", "output", "result", "error", "return_value"):
            text = value
    shown = [_media_name(part) for part in parts] if isinstance(parts, list) else []
    return "\n".join([*([text] if text or not shown else []), *shown])


def _media_name(part: Any) -> str:
    body = _of(part, INLINE) or _of(part, FILE)
    return f"[{_of(body, MIME) or 'file'}]"


def _tells_of_error(response: Any) -> bool:
    return isinstance(response, dict) and response.keys() == {"error"} and bool(response["error"])


def _is_exact_part(part: Any) -> bool:
    if not isinstance(part, dict) or all(value is None for value in part.values()):
        return False
    if not isinstance(part.get("text", ""), str | None):
        return False
    call = _of(part, CALL)
    if call is None:
        return True
    return (
        isinstance(call, dict)
        and isinstance(call.get("name"), str)
        and bool(call["name"])
        and isinstance(call.get("args", {}), dict | None)
        and isinstance(call.get("id", ""), str | None)
    )


# out


def render(turns: Sequence[Turn]) -> Rendered:
    """The request for `turns`: the responses to a content's calls stand in the one after it."""
    changes: list[Change] = []
    system: list[str] = []
    contents: list[dict[str, Any]] = []
    ids = call_ids(turns, ID_LENGTH, changes, per_turn=True, spell=short_text)
    for turn, given in each_shown(turns, ids, changes):
        if turn.role in ("system", "developer") and not contents:
            system.append(plain_text(turn.parts, changes))
            changes.append(Change("moved", "GE07", "system text is a parameter of the request"))
        elif turn.role == "assistant":
            _add_model(contents, turn, given, changes)
        else:
            content = _user(turn, changes)
            if content["parts"]:
                contents.append(content)
    arguments: dict[str, Any] = {"contents": contents}
    if any(system):
        arguments = {"system_instruction": "\n\n".join(filter(None, system)), **arguments}
    return Rendered(arguments, changes)


def untold(native: Any) -> Iterator[str]:
    """The members of a content of ours, or of a part, that no other provider has a place for."""
    parts = native.get("parts")
    if "role" in native:
        yield from beyond(native, {"role", "parts", "" if parts else "content"})
    for part in [native] if "role" not in native else parts if isinstance(parts, list) else ():
        body = _of(part, CALL) or _of(part, RESPONSE)
        if body is not None or (isinstance(part, dict) and part.get("text") is not None):
            yield from beyond(part, _TOLD)
            yield from beyond(body, _TOLD_OF_BODIES)


_TOLD = {"text", "thought", *CALL, *RESPONSE}
_TOLD_OF_BODIES = {"id", "name", "args", "response", "parts"}


def _user(turn: Turn, changes: list[Change]) -> dict[str, Any]:
    if _is_own(turn) and turn.role == "user":
        if turn.joined:
            changes.append(Change("moved", "GE08", "it stands in a content of its own"))
        return copy(turn.native)  # type: ignore[no-any-return]
    if turn.role in ("system", "developer"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "GE07", "a later system message became a user's text"))
        return {"role": "user", "parts": [{"text": f"[system] {said}"}] if said else []}
    return {"role": "user", "parts": _parts(turn.parts, changes)}


def _is_own(turn: Turn) -> bool:
    return turn.provider == NAME and turn.exact and turn.native is not None


def _add_model(
    contents: list[dict[str, Any]], turn: Turn, given: list[str], changes: list[Change]
) -> None:
    """Add the model's content, and the responses to its calls."""
    content, made = _model(turn, given, changes)
    if not content["parts"]:
        return
    if made:
        _open(contents, content, changes)
    contents.append(content)
    if made:
        responses = [
            _response(call, _of(part, CALL)["name"], _id(_of(part, CALL))) for call, part in made
        ]
        contents.append(closed(turn, NAME, BLOCKS, responses))
        contents.extend(_user(said, changes) for said in shown_apart(turn, NAME, changes))


def _open(contents: list[dict[str, Any]], content: dict[str, Any], changes: list[Change]) -> None:
    """Give a content with calls its place: right after one of another role."""
    said: list[Any] = []
    while contents and contents[-1]["role"] == "model":
        said = contents.pop()["parts"] + said
    if said:
        changes.append(Change("merged", "GE03", "calls joined what the model said before them"))
        content["parts"][:0] = said
    if not contents:
        changes.append(Change("added", "GE03", "a call does not begin a conversation"))
        contents.append({"role": "user", "parts": [{"text": OPENING}]})


Made = list[tuple[Call, dict[str, Any]]]  # calls, with the parts that make them


def _model(turn: Turn, given: list[str], changes: list[Change]) -> tuple[dict[str, Any], Made]:
    native = turn.native if turn.provider == NAME else None
    parts = native.get("parts") if isinstance(native, dict) else None
    if not isinstance(parts, list):
        parts = []
    if not parts or sum(_of(part, CALL) is not None for part in parts) != len(turn.calls):
        made = [
            (call, _new_call(call, name, changes))
            for call, name in zip(turn.calls, given, strict=True)
            if not call.hidden
        ]
        said = _parts(turn.parts, changes)
        content = {"role": "model", "parts": [*said, *(part for _, part in made)]}
    elif turn.exact:
        content, made = copy(native), []
        parts = content["parts"]
        calls = (part for part in parts if _of(part, CALL) is not None)
        for call, name, part in zip(turn.calls, given, calls, strict=True):
            if call.provider_id is not None:
                _of(part, CALL)["id"] = name
            made.append((call, part))
        if any(call.hidden or not _is_same(call, part) for call, part in made):
            content, made = _mended(turn, parts, given, changes)
    else:
        content, made = _mended(turn, copy(parts), given, changes)
    _sign(made, turn, changes)
    return content, made


def _is_same(call: Call, part: dict[str, Any]) -> bool:
    asked = _function(_of(part, CALL))
    return bool(asked.name) and (asked.name, asked.arguments, asked.raw) == (
        call.name, call.arguments, call.raw,
    )  # fmt: skip


def _mended(
    turn: Turn, parts: list[Any], given: list[str], changes: list[Change]
) -> tuple[dict[str, Any], Made]:
    """Parts of our own content, each as it was where it may be.

    Thoughts and signatures stay when every call does, as it was made; otherwise all of them go.
    """
    found: list[dict[str, Any]] = []
    made: Made = []
    calls = iter(zip(turn.calls, given, strict=True))
    whole = True
    for part in parts:
        if _of(part, CALL) is None:
            found += [part] if _is_exact_part(part) else _parts(tuple(_part(part)), changes)
            continue
        call, name = next(calls)
        if call.hidden:
            whole = False
            continue
        if not (_is_exact_part(part) and _is_same(call, part)):
            whole = whole and not _is_exact_part(part)
            part = _new_call(call, name, changes)  # noqa: PLW2901
        elif call.provider_id is not None:
            _of(part, CALL)["id"] = name
        found.append(part)
        made.append((call, part))
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
    """The first call of a content carries a signature, or the word that stands for none."""
    if made and not _of(made[0][1], SIGNATURE):
        made[0][1][SIGNATURE[0]] = UNSIGNED
        if turn.provider == NAME:
            changes.append(Change("added", "GE06", "its signature is not known", made[0][0].id))


def _new_call(call: Call, name: str, changes: list[Change]) -> dict[str, Any]:
    body: dict[str, Any] = {"name": _name(call, changes), "args": object_arguments(call, changes)}
    return {"functionCall": {"id": name, **body}}


def _name(call: Call, changes: list[Change]) -> str:
    if _LEGAL_NAME.fullmatch(call.name):
        return call.name
    return tool_name(call, NAME_LENGTH, changes)


def render_result(call: Call, name: str) -> dict[str, Any]:
    """The part that answers `call`, whose id here is `name`."""
    return _response(call, call.name, name or None)


def _response(call: Call, name: str, call_id: str | None) -> dict[str, Any]:
    answer = call.answer
    given = {} if call_id is None else {"id": call_id}
    said = {"error" if answer.is_error else "output": answer.text}
    if answer.note:
        said = {key: f"{text}\n{answer.note}" for key, text in said.items()}
    if answer.provider != NAME or answer.native is None:
        return {"functionResponse": {**given, "name": name, "response": said}}
    part: dict[str, Any] = copy(answer.native)
    body = _of(part, RESPONSE)
    if call_id is None:
        body.pop("id", None)
    body.update(given, name=name)
    if answer.note:
        body["response"] = said
    return part


def takes_name(_: Document) -> bool:
    """Whether a document may have a name: in Vertex alone."""
    return False


def result_parts(native: Any) -> tuple[Part, ...]:
    """What a response of ours shows."""
    body = _of(native, RESPONSE)
    shown = body.get("parts")
    text = Text(_result_text(body.get("response"), None))
    parts = [part for item in shown for part in _part(item)] if isinstance(shown, list) else []
    return (text, *parts)


def _parts(parts: tuple[Part, ...], changes: list[Change]) -> list[dict[str, Any]]:
    return [made for part in parts if (made := _rendered(part, changes)) is not None]


def _rendered(part: Part, changes: list[Change]) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"text": part.text} if part.text.strip() else None
    if isinstance(part, Image | Document):
        media_type = part.media_type if isinstance(part, Image) else PDF
        if part.url is not None:
            kind = {"mimeType": media_type} if media_type else {}
            return {"fileData": {**kind, "fileUri": part.url}}
        return {"inlineData": {"mimeType": media_type or "image/png", "data": part.data or ""}}
    if part.provider == NAME:
        return copy(part.data)  # type: ignore[no-any-return]
    text = foreign_text(part, changes)
    return {"text": text} if text and text.strip() else None
