"""Runs of openai-agents that were saved (`RunState`), and whole answers of OpenAI Responses."""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import ERROR_TEXT
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_SAID = (
    "mcp_approval_request_item",
    "mcp_approval_response_item",
    "message_output_item",
    "reasoning_item",
    "tool_call_item",
    "tool_call_output_item",
    "tool_search_call_item",
    "tool_search_output_item",
)


class AgentRuns:
    """The file format: one saved run, or one response, a document or a line."""

    name = "openai-agents"
    about = About(
        program="openai-agents",
        files="saved runs, and answers of OpenAI Responses",
        failures="text",
        times="of answers",
        kept="items of Responses as they were",
        lost="usage, guardrails, traces",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a saved run, or a response."""
        del unit
        return is_json_object(value) and (_is_run(value) or _is_response(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield a conversation for each run, and for each response."""
        for number, value in content.values:
            if not is_json_object(value) or not self.looks_like(value, content.unit):
                content.report("neither a saved run nor a response", number)
                continue
            messages = _of_run(value) if _is_run(value) else objects(value, "output")
            time = time_of(value.get("completed_at", value.get("created_at")))
            name = content.name or text(value, "conversation_id", "id") or content.stem
            yield Transcript(
                content.unused_name(name),
                "openai-responses",
                messages,
                times=[time] * len(messages),
                error_pattern=ERROR_TEXT,
            )


def _is_run(value: JsonObject) -> bool:
    return "$schemaVersion" in value and is_json_list(value.get("generated_items"))


def _is_response(value: JsonObject) -> bool:
    return value.get("object") == "response" and is_json_list(value.get("output"))


def _of_run(run: JsonObject) -> list[JsonObject]:
    """Return the items of a run; what waits for an approval stands among them as a call."""
    given: JsonValue = run.get("original_input")
    opening: list[JsonObject] = [{"role": "user", "content": given}] if given else []
    if is_json_list(given):
        opening = objects(run, "original_input")
    said = objects(run, "session_items") or objects(run, "generated_items")
    return opening + [member(item, "raw_item") for item in said if item.get("type") in _SAID]
