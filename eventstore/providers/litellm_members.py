"""litellm's messages: Chat Completions with members of its own, which no provider takes.

1. Signed thinking is a part of the provider that signed it. litellm has it as `thinking_blocks`,
   whichever provider that is: Gemini, if it signed a call or the message, too; Bedrock, if the ids
   of the calls are; otherwise Anthropic.
2. Gemini's signature of a call is a part, too, with the id of the call. litellm has it behind that
   id, and in `provider_specific_fields`.
3. litellm's own members stay with the message, and reach litellm alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Opaque, Part
from eventstore.providers.json_values import as_text, members_of
from eventstore.providers.shapes import LITELLM_FIELDS, LITELLM_MARKS

_OWN: Final = LITELLM_MARKS | {"images", "reasoning_content"}
_OWN_OF_CALLS: Final = frozenset({LITELLM_FIELDS, "index"})
_SEPARATOR: Final = "__thought__"
_BEDROCK_ID: Final = "tooluse_"


def is_of_litellm(message: JsonObject) -> bool:
    """Return whether a message of Chat Completions has members of litellm's own."""
    if not LITELLM_MARKS.isdisjoint(message):
        return True
    calls: JsonValue = message.get("tool_calls")
    return isinstance(calls, list) and any(map(_is_call_of_litellm, calls))


def without_own_members(message: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return a message as providers take it, and the names of the members that were taken out."""
    names = [key for key in message if key in _OWN]
    plain = {key: value for key, value in message.items() if key not in _OWN}
    if not isinstance(message.get("tool_calls"), list):
        return plain, names
    calls: list[JsonValue] = []
    for call in message["tool_calls"]:
        body = members_of(call)
        own = _OWN_OF_CALLS.intersection(body)
        function: JsonValue = body.get("function")
        kept = {key: value for key, value in body.items() if key not in own}
        if isinstance(function, dict) and LITELLM_FIELDS in function:
            kept["function"] = {key: function[key] for key in function if key != LITELLM_FIELDS}
            own |= {LITELLM_FIELDS}
        names += sorted(own)
        calls.append(kept if own else call)
    return {**plain, "tool_calls": calls}, list(dict.fromkeys(names))


def signed_parts(message: JsonObject) -> Iterator[Opaque]:
    """Yield what providers have signed in a message, each in its provider's own form."""
    calls = [*_calls(message)]
    signatures = [(str(call.get("id")), _signature(call)) for call in calls]
    signed = [(call_id, signature) for call_id, signature in signatures if signature]
    blocks: JsonValue = message.get("thinking_blocks")
    thinking = [members_of(block) for block in (blocks if isinstance(blocks, list) else ())]
    if signed or "thought_signatures" in members_of(message.get(LITELLM_FIELDS)):
        yield from (_thought_of_gemini(block) for block in thinking if block.get("signature"))
        for call_id, signature in signed:
            yield signature_of_call(call_id, signature)
        return
    of_bedrock = any(call_id.startswith(_BEDROCK_ID) for call_id, _ in signatures)
    for block in thinking:
        if block.get("signature") or block.get("type") == "redacted_thinking":
            yield _reasoning_of_bedrock(block) if of_bedrock else Opaque("anthropic", block)


def joined_thinking(pieces: Sequence[JsonValue]) -> list[JsonValue]:
    """Return the blocks that the pieces of a stream make: a signature ends a block."""
    blocks: list[JsonValue] = []
    text = ""
    for piece in map(members_of, pieces):
        if piece.get("type") == "redacted_thinking":
            blocks.append({"type": "redacted_thinking", "data": piece.get("data")})
            continue
        text += as_text(piece.get("thinking"))
        if signature := piece.get("signature"):
            blocks.append({"type": "thinking", "thinking": text, "signature": signature})
            text = ""
    return [*blocks, {"type": "thinking", "thinking": text}] if text else blocks


def signature_of_call(call_id: str, signature: str) -> Opaque:
    """Return Gemini's signature of a call, as a part that tells others nothing."""
    data = {"thought": True, "functionCall": {"id": call_id}, "thoughtSignature": signature}
    return Opaque("gemini", data)


def signatures_of_calls(parts: tuple[Part, ...]) -> Mapping[str, str]:
    """Return Gemini's signatures of calls, by the ids that litellm gave these."""
    return {
        part.data["functionCall"]["id"]: part.data["thoughtSignature"]
        for part in parts
        if is_signature_of_call(part)
    }


def is_signature_of_call(part: Part) -> TypeGuard[Opaque]:
    """Return whether a part is Gemini's signature of a call."""
    if not isinstance(part, Opaque) or part.provider != "gemini":
        return False
    data = members_of(part.data)
    return data.get("thought") is True and members_of(data.get("functionCall")).keys() == {"id"}


def _is_call_of_litellm(call: JsonValue) -> bool:
    if not isinstance(call, dict):
        return False
    call_id, function = call.get("id"), call.get("function")
    return (
        LITELLM_FIELDS in call
        or (isinstance(call_id, str) and _SEPARATOR in call_id)
        or (isinstance(function, dict) and LITELLM_FIELDS in function)
    )


def _calls(message: JsonObject) -> Iterator[JsonObject]:
    calls: JsonValue = message.get("tool_calls")
    return (call for call in (calls if isinstance(calls, list) else ()) if isinstance(call, dict))


def _signature(call: JsonObject) -> str | None:
    """Return Gemini's signature of a call, in whichever of its places litellm has it."""
    for held in (call, members_of(call.get("function"))):
        signature = members_of(held.get(LITELLM_FIELDS)).get("thought_signature")
        if isinstance(signature, str) and signature:
            return signature
    call_id = call.get("id")
    return call_id.partition(_SEPARATOR)[2] or None if isinstance(call_id, str) else None


def _thought_of_gemini(block: JsonObject) -> Opaque:
    data = {"text": block.get("thinking") or "", "thought": True}
    return Opaque("gemini", {**data, "thoughtSignature": block["signature"]})


def _reasoning_of_bedrock(block: JsonObject) -> Opaque:
    if block.get("type") == "redacted_thinking":
        return Opaque("bedrock", {"reasoningContent": {"redactedContent": block.get("data")}})
    said = {"text": block.get("thinking") or "", "signature": block.get("signature")}
    return Opaque("bedrock", {"reasoningContent": {"reasoningText": said}})
