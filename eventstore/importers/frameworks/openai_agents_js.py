"""Items of a session, and saved runs, of openai-agents for JavaScript (npm `@openai/agents`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list
from eventstore.importers.frameworks.saved_messages import (
    SavedMessages,
    media_shown,
    role_of,
    time_of_message,
)
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import ERROR_TEXT, Dialogue, call_of
from eventstore.importers.reading.json_members import member, objects, text

_CALLS: Final = {
    "function_call": ("arguments", ""),
    "computer_call": ("action", "computer"),
    "shell_call": ("action", "shell"),
    "apply_patch_call": ("operation", "apply_patch"),
    "tool_search_call": ("arguments", "tool_search"),
}
"""Type of a call to the member with its arguments, and the tool where the call names none."""
_RESULTS: Final = frozenset(
    {
        *("function_call_result", "computer_call_result", "shell_call_output"),
        *("apply_patch_call_output", "tool_search_output"),
    }
)
_SILENT: Final = frozenset(
    {
        *("reasoning", "compaction", "unknown", "program", "program_output"),
        "hosted_tool_call",  # what ran at the provider
    }
)
_REFUSED: Final = "Tool execution was not approved."
_PROGRAM: Final = "openai-agents for JavaScript"


class AgentItems(SavedMessages):
    """The file format: the items of a session, or a saved run."""

    name = "openai-agents-js"
    about = About(
        program=_PROGRAM,
        files="items of sessions, and saved runs, as JSON",
        failures="text; exit codes of shells",
        times="none",
        kept="calls that were not approved as rejections",
        lost="what ran at the provider",
        tried="0.20.0",
        on="2026-11-28",
    )
    error_pattern = ERROR_TEXT

    def is_message(self, value: JsonObject) -> bool:
        """Return whether a value is a call or a result in camel case."""
        kind = text(value, "type")
        return "role" not in value and "callId" in value and (kind in _CALLS or kind in _RESULTS)

    def belongs(self, value: JsonObject) -> bool:
        """Return whether a value may stand among items."""
        return super().belongs(value) or text(value, "type") in _SILENT | _RESULTS | _CALLS.keys()

    def held_in(self, value: JsonObject) -> Iterator[tuple[str, list[Any]]]:
        """Yield the items of a saved run; a call that waits may stand there twice."""
        if "$schemaVersion" in value and is_json_list(value.get("generatedItems")):
            items = objects(value, "generatedItems")
            asked = [each for each in items if each.get("type") == "tool_approval_item"]
            said = [member(each, "rawItem") for each in items if each not in asked]
            made = {text(each, "callId") for each in said if text(each, "type") in _CALLS}
            waiting = (member(each, "rawItem") for each in asked)
            said += [each for each in waiting if text(each, "callId") not in made]
            given: JsonValue = value.get("originalInput")
            opening = given if is_json_list(given) else [{"role": "user", "content": given}]
            yield "", [*opening, *said]

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add an item."""
        kind, time = text(message, "type"), time_of_message(message)
        call_id = text(message, "callId", "id")
        if kind in _CALLS:
            arguments, tool = _CALLS[kind]
            given: JsonValue = message.get(arguments, message.get("actions"))
            called = call_of(call_id, text(message, "name") or tool, given)
            dialogue.reply_piece("", [called], time)
        elif kind in _RESULTS:
            said = _said(message)
            dialogue.answer(
                text(message, "callId"),
                said,
                time,
                name=text(message, "name") or None,
                is_error=_has_failed(message),
                rejected=said == _REFUSED,
            )
        elif "role" in message:
            content = _words(message.get("content"))
            if role_of(message) == "assistant":
                dialogue.reply_piece(content, (), time)
            else:
                dialogue.say(role_of(message), content, time)
        elif kind not in _SILENT:
            media_shown(message, kind, _PROGRAM)


def _said(message: JsonObject) -> JsonValue:
    output: JsonValue = message.get("output", message.get("tools"))
    if isinstance(output, dict) and output.get("type") == "text":
        return output.get("text")
    return output


def _has_failed(message: JsonObject) -> bool:
    """Return whether a shell ended with another code than 0, or a patch says that it failed."""
    outcomes = [member(each, "outcome") for each in objects(message, "output")]
    is_bad = any(each.get("exitCode") not in (None, 0) for each in outcomes)
    timed_out = any(each.get("type") == "timeout" for each in outcomes)
    return is_bad or timed_out or message.get("status") == "failed"


def _words(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    parts = objects({"parts": content}, "parts")
    shown = (text(part, "text", "refusal", "transcript") for part in parts)
    named = (f"[{text(part, 'type')}]" for part in parts)
    return "\n".join(said or name for said, name in zip(shown, named, strict=True))
