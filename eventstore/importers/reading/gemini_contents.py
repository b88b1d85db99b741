"""Contents of Gemini in traces: `{"role": "model", "parts": [{"functionCall": …}]}`.

Google's ADK writes the members in snake case, and calls and results without ids.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Text
from eventstore.importers.reading.dialogue import call_of
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.providers.model import ParsedCall, ParsedItem, ParsedMessage, ParsedResult

_MEMBERS = {"text", "functionCall", "functionResponse", "function_call", "function_response"}


def instructions_of(value: JsonValue) -> Iterator[ParsedItem]:
    """Yield the system message that a request to Gemini has next to its contents."""
    if not is_json_object(value):
        return
    for holder in (value, member(value, "config")):
        for key in ("system_instruction", "systemInstruction"):
            given: JsonValue = member(holder, key).get("parts") or holder.get(key)
            if said := text_of(given):
                yield ParsedMessage("system", (Text(said),), well_formed=True)
                return


def is_content(message: JsonObject) -> bool:
    """Return whether a message is one of Gemini's contents."""
    return any(_MEMBERS & part.keys() for part in objects(message, "parts"))


def of_content(message: JsonObject, role: str) -> Iterator[ParsedItem]:
    """Yield the results in a content, then what it says and calls; some have no role."""
    said: list[str] = []
    calls: list[ParsedCall] = []
    for part in objects(message, "parts"):
        made = member(part, "functionCall") or member(part, "function_call")
        result = member(part, "functionResponse") or member(part, "function_response")
        if made:
            calls.append(call_of(made.get("id"), made.get("name"), made.get("args")))
        elif result:
            content = text_of(result.get("response"))
            known = text(result, "id") or None, text(result, "name") or None
            yield ParsedResult(*known, content, well_formed=True)
        elif part.get("thought") is not True:
            said.append(text(part, "text"))
    words = "\n".join(filter(None, said))
    own = text(message, "role") or role
    if words or calls:
        parts = (Text(words),) if words else ()
        known_role = "assistant" if calls or own in ("model", "assistant") else "user"
        yield ParsedMessage(known_role, parts, tuple(calls), well_formed=True)
