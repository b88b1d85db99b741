"""How the contents of Gemini are written."""

from __future__ import annotations

from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.media_types import PDF
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.domain.own_texts import OPENING
from eventstore.providers.call_arguments import is_call_of, object_arguments
from eventstore.providers.gemini.reading import (
    CALL,
    NAME,
    RESPONSE,
    SIGNATURE,
    function_of,
    has_member,
    id_of,
    is_well_formed_part,
    member,
    object_member,
    parts_of,
)
from eventstore.providers.gemini.shapes import LEGAL_NAME, UNSIGNED
from eventstore.providers.identifiers import sanitized
from eventstore.providers.json_values import copy, native_part
from eventstore.providers.litellm_members import is_signature_of_call, signatures_of_calls
from eventstore.providers.media_of_results import media_turns
from eventstore.providers.model import (
    Call,
    Change,
    Turn,
)
from eventstore.providers.parts_as_text import foreign_text, plain_text
from eventstore.providers.results_message import results_message_for

BLOCKS: Final = "parts"
_MAX_NAME: Final = 64


PORTABLE = {"text", "thought", *CALL, *RESPONSE}
PORTABLE_OF_BODIES = {"id", "name", "args", "response", "parts"}


def user_content(turn: Turn, changes: list[Change]) -> JsonObject:
    """Return the content for a turn of the user."""
    native = turn.own_message(NAME)
    if turn.shares_message and turn.provider == NAME and turn.role == "user":
        changes.append(Change("moved", "GE08", "text beside responses moves to its own content"))
    if native is not None and turn.role == "user":
        return copy(native)
    if turn.role in ("system", "developer"):
        said = plain_text(turn.parts, changes)
        changes.append(Change("moved", "GE07", "a later system message became a user's text"))
        return {"role": "user", "parts": [{"text": f"[system] {said}"}] if said else []}
    return {"role": "user", "parts": _parts(turn.parts, changes)}


def add_model(
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
        asked = [(call, object_member(part, CALL)) for call, part in made]
        responses = [response_for(call, body["name"], id_of(body)) for call, body in asked]
        contents.append(results_message_for(turn, NAME, BLOCKS, responses))
        contents.extend(user_content(said, changes) for said in media_turns(turn, NAME, changes))
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
    if not parts or sum(has_member(part, CALL) for part in parts) != len(turn.calls):
        made = [
            (call, _new_call(call, name, changes))
            for call, name in zip(turn.calls, given, strict=True)
            if not call.hidden
        ]
        signatures = signatures_of_calls(turn.parts)
        for call, part in made if turn.well_formed else ():
            if signature := signatures.get(call.provider_id or call.id):
                part[SIGNATURE[0]] = signature
        shown = tuple(part for part in turn.parts if not is_signature_of_call(part))
        said = _parts(shown, changes)
        content: JsonObject = {"role": "model", "parts": [*said, *(part for _, part in made)]}
    elif turn.well_formed:
        content, made = copy(native), []
        copied: list[JsonValue] = content["parts"]
        calls = (part for part in copied if has_member(part, CALL))
        for call, name, part in zip(turn.calls, given, calls, strict=True):
            if call.provider_id is not None:
                object_member(part, CALL)["id"] = name
            made.append((call, part))
        if not any(call.hidden or not _is_same(call, part) for call, part in made):
            return content, made
        content, made = _mended(turn, copied, given, changes)
    else:
        content, made = _mended(turn, copy(parts), given, changes)
    _sign(made, turn, changes)
    return content, made


def _is_same(call: Call, part: JsonObject) -> bool:
    asked = function_of(member(part, CALL))
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
    for part in map(_without_nulls, parts):
        if not has_member(part, CALL):
            found += [part] if is_well_formed_part(part) else _parts(tuple(parts_of(part)), changes)
            continue
        call, name = next(calls)
        if call.hidden:
            whole = False
            continue
        calling = part
        if not (is_well_formed_part(part) and _is_same(call, part)):
            whole = whole and not is_well_formed_part(part)
            calling = _new_call(call, name, changes)
        elif call.provider_id is not None:
            object_member(part, CALL)["id"] = name
        found.append(calling)
        made.append((call, calling))
    if not whole:
        if any(part.get("thought") or member(part, SIGNATURE) for part in found):
            changes.append(Change("dropped", "reasoning", "it goes with the whole of its turn"))
        found = [part for part in found if not part.get("thought")]
        for part in found:
            for key in SIGNATURE:
                part.pop(key, None)
        found = [part for part in found if part and part != {"text": ""}]
    return {"role": "model", "parts": found}, made


def _without_nulls(part: JsonValue) -> JsonValue:
    """Return a part with a call, without what is null in the call."""
    body = member(part, CALL)
    if not isinstance(part, dict) or not isinstance(body, dict) or None not in body.values():
        return part
    call = {key: value for key, value in body.items() if value is not None}
    return {key: call if value is body else value for key, value in part.items()}


def _sign(made: Made, turn: Turn, changes: list[Change]) -> None:
    """Give the first call of a content the placeholder signature where it has none."""
    if made and not member(made[0][1], SIGNATURE):
        made[0][1][SIGNATURE[0]] = UNSIGNED
        if turn.provider == NAME:
            changes.append(Change("added", "GE06", "its signature is not known", made[0][0].id))


def sign_current_turn(contents: list[JsonObject], calls: Made, changes: list[Change]) -> None:
    """Give the unsigned calls of the current turn the placeholder, where models sign."""
    unsigned = [(call, part) for call, part in calls if not member(part, SIGNATURE)]
    if unsigned and any(member(p, SIGNATURE) for content in contents for p in content["parts"]):
        for call, part in unsigned:
            part[SIGNATURE[0]] = UNSIGNED
            changes.append(Change("added", "GE06", "its signature is not known", call.id))


def _new_call(call: Call, name: str, changes: list[Change]) -> JsonObject:
    body: JsonObject = {"name": _name(call, changes), "args": object_arguments(call, changes)}
    return {"functionCall": {"id": name, **body}}


def _name(call: Call, changes: list[Change]) -> str:
    """Return a name that Gemini takes: it begins with a letter or an underscore."""
    if LEGAL_NAME.fullmatch(call.name):
        return call.name
    name = sanitized(call.name, _MAX_NAME - 1) if call.name else "unnamed_tool"
    name = name if LEGAL_NAME.fullmatch(name) else f"_{name}"
    changes.append(Change("re-keyed", "name", f"tool {call.name!r} is {name!r} here", call.id))
    return name


def response_for(call: Call, name: str, call_id: str | None) -> JsonObject:
    """Return the part that answers a call."""
    answer = call.answer
    given = {} if call_id is None else {"id": call_id}
    said = {"error" if answer.is_error else "output": answer.text}
    if answer.note:
        said = {key: f"{text}\n{answer.note}" for key, text in said.items()}
    if answer.provider != NAME or answer.native is None:
        return {"functionResponse": {**given, "name": name, "response": said}}
    part = copy(answer.native)
    body = object_member(part, RESPONSE)
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
    if isinstance(part, Opaque) and part.provider == NAME and is_well_formed_part(part.data):
        return native_part(part)
    text = foreign_text(part, changes)
    return {"text": text} if text and text.strip() else None
