"""Messages in traces: of any provider, of LangChain, or in the parts of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.domain.messages import Text
from eventstore.importers.reading.dialogue import call_of
from eventstore.importers.reading.gemini_contents import instructions_of, is_content, of_content
from eventstore.importers.reading.json_members import member, objects, parsed, text, text_of
from eventstore.providers.detection import likely_provider_of, provider_of
from eventstore.providers.model import ParsedItem, ParsedMessage, ParsedResult
from eventstore.providers.parsing import parse

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "model": "assistant"}
_TEXTS = {"text", "input_text", "output_text"}
_NO_SUCH_TOOL = "Unknown tool name: "
"""How pydantic-ai begins what it answers a call of a tool that there is not: it has no span."""
_HOLDERS = ("messages", "contents", "input", "output", "choices")


def items_of(value: JsonValue, role: str = "user") -> list[ParsedItem]:
    """Return what messages say, in whatever form; a message without a role has the given one."""
    value = parsed(value)
    if value is None or value in ("", [], {}):
        return []
    messages = _listed(value)
    if messages is None:
        return [_message(role, text_of(value))] if isinstance(value, str) else []
    found: list[JsonObject] = []
    items: list[ParsedItem] = list(instructions_of(value))
    for message in messages:
        of_parts = _of_parts if _has_parts(message) else of_content if is_content(message) else None
        if of_parts is not None:
            items += _read(found)
            items += of_parts(message, role)
            found = []
        elif not _is_definition(message):
            found.append(_plain(message, role))
    return items + _read(found)


def _listed(value: JsonValue) -> list[JsonObject] | None:
    """Return the messages that a value holds; None where it holds none."""
    if is_json_object(value):
        return _held(value)
    if not is_json_list(value):
        return None
    if len(value) == 1 and is_json_list(value[0]):  # LangChain's batches
        return _listed(value[0])
    known = [_unwrapped(each) for each in value if is_json_object(each)]
    if known and all("toolCallId" in each and "toolName" in each for each in known):
        return [{"content": [{**each, "type": "tool-call"} for each in known]}]  # the AI SDK's
    return known if any(map(_is_message, known)) else None


def _held(value: JsonObject) -> list[JsonObject] | None:
    for holder in _HOLDERS:
        if is_json_list(value.get(holder)):
            return _listed(value[holder])
    answered = member(value, "content")
    if is_json_list(answered.get("parts")):  # an answer of Gemini
        return [answered]
    return [value] if _is_message(value) else None


def _unwrapped(message: JsonObject) -> JsonObject:
    """Return a message that a choice holds, or that LangChain has serialised."""
    inner = member(message, "message")
    if inner:
        return inner
    return member(message, "kwargs") if message.get("type") == "constructor" else message


def _is_message(value: JsonObject) -> bool:
    said = "content" in value or "parts" in value or "tool_calls" in value
    return said or "call_id" in value or value.get("type") in ("reasoning", "message")


def _is_definition(message: JsonObject) -> bool:
    """Return whether a message is the definition of a tool, which some tracers put among them."""
    return "function" in member(message, "content")


def _plain(message: JsonObject, role: str) -> JsonObject:
    """Return a message with a role, and with calls as OpenAI writes them."""
    if "role" not in message and "call_id" in message:
        return message  # an item of OpenAI Responses
    own = text(message, "role") or text(message, "type")
    own = _ROLES.get(own, own)
    known = own if own in ("system", "developer", "user", "assistant", "tool") else role
    beside = member(message, "additional_kwargs")
    made = objects(message, "tool_calls") + objects(message, "invalid_tool_calls")
    made = made or objects(beside, "tool_calls")
    kept = {"role": known, "content": _content(message.get("content"))}
    if known == "tool":
        kept["tool_call_id"] = text(message, "tool_call_id", "id")
        if message.get("status") == "error":
            kept["is_error"] = True
    if made:
        kept["tool_calls"] = [_call(call) for call in made]
    return kept


def _content(content: JsonValue) -> JsonValue:
    """Return content; parts that are text, by whatever name, as their text."""
    decoded = parsed(content)
    parts = objects({"parts": decoded}, "parts")
    kinds = {text(part, "type") for part in parts}
    if parts and kinds <= _TEXTS:
        return text_of(decoded)
    return decoded if parts else content


def _call(made: JsonObject) -> JsonObject:
    function = member(made, "function") or made
    given: JsonValue = function.get("arguments", function.get("args"))
    written = given if isinstance(given, str) else text_of({} if given is None else given)
    called = {"name": text(function, "name") or "unknown", "arguments": written}
    return {"type": "function", "id": text(made, "id", "tool_call_id"), "function": called}


def _read(messages: list[JsonObject]) -> list[ParsedItem]:
    """Return what a provider's messages say, without their own form."""
    if not messages:
        return []
    provider = likely_provider_of(messages) or provider_of(messages) or "anthropic"
    items = map(_neutral, parse(messages, provider))
    return [item for item in items if isinstance(item, ParsedResult) or item.parts or item.calls]


def _neutral(item: ParsedItem) -> ParsedItem:
    if isinstance(item, ParsedResult):
        return msgspec.structs.replace(item, native=None, well_formed=True)
    said = tuple(part for part in item.parts if isinstance(part, Text))
    return ParsedMessage(item.role, said, item.calls, well_formed=True)


def _message(role: str, said: str) -> ParsedMessage:
    return ParsedMessage(role, (Text(said),), well_formed=True)


# the parts of the GenAI conventions: {"role": "user", "parts": [{"type": "text", "content": …}]}


def _has_parts(message: JsonObject) -> bool:
    if any(isinstance(part.get("type"), str) for part in objects(message, "parts")):
        return True
    kinds = {text(part, "type") for part in objects(message, "content")}
    return bool(kinds & {"tool-call", "tool-result"})  # the AI SDK's


def _of_parts(message: JsonObject, role: str) -> Iterator[ParsedItem]:
    said: list[str] = []
    calls: list[Any] = []
    for part in objects(message, "parts") or objects(message, "content"):
        kind = text(part, "type").replace("-", "_")
        call_id, name = text(part, "id", "toolCallId"), text(part, "name", "toolName")
        if kind == "tool_call":
            held = (part.get(key) for key in ("arguments", "input", "args"))
            calls.append(call_of(call_id, name, next((g for g in held if g is not None), None)))
        elif kind in ("tool_call_response", "tool_result"):
            content: JsonValue = part.get("result", part.get("response", part.get("output")))
            given = text_of(content)
            failed = given.startswith(_NO_SUCH_TOOL)
            yield ParsedResult(call_id or None, name or None, given, failed, well_formed=True)
        elif kind == "text":
            said.append(text_of(part.get("content", part.get("text"))))
    words = "\n".join(filter(None, said))
    own = _ROLES.get(text(message, "role"), text(message, "role")) or role
    if own not in ("system", "user", "assistant"):
        own = "assistant" if calls else "user"
    if words or calls:
        parts = (Text(words),) if words else ()
        yield ParsedMessage(own, parts, tuple(calls), well_formed=True)
