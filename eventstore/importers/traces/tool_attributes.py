"""Attributes of a tool's span: the GenAI conventions, and what tracers write instead of them."""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue

CALL_IDS = ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id")
TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "gcp.vertex.agent.tool_call_args",
    "tool_arguments",
    "tool.parameters",
    "ai.toolCall.args",
    "input.value",
    "traceloop.entity.input",
)
RESULTS = (
    "gen_ai.tool.call.result",
    "gcp.vertex.agent.tool_response",
    "tool_response",
    "ai.toolCall.result",
    "output.value",
    "traceloop.entity.output",
)


def first_of(attributes: JsonObject, keys: tuple[str, ...]) -> JsonValue:
    """Return the first of the attributes that is there, or None."""
    return next((attributes[key] for key in keys if attributes.get(key) is not None), None)


def without_verb(name: str) -> str:
    """Return the name of a tool's span without what the conventions put before the tool's."""
    return name.removeprefix("execute_tool ")
