"""Traces of Langfuse: a trace with its observations, or the list that its API gives.

A tool's observation has the id of its call only where a tracer kept it in the attributes of the
span; others are paired by name, arguments and time.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import items, member, objects, parsed, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.traced_messages import items_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.importers.traces.steps import ModelStep, Step, ToolStep, trace_as_dialogue
from eventstore.importers.traces.tool_attributes import (
    CALL_IDS,
    RESULTS,
    TOOL_NAMES,
    first_of,
    without_verb,
)

_TYPES = frozenset(
    {
        "SPAN",
        "EVENT",
        "GENERATION",
        "AGENT",
        "TOOL",
        "CHAIN",
        "RETRIEVER",
        "EVALUATOR",
        "EMBEDDING",
        "GUARDRAIL",
    }
)


class LangfuseTraces:
    """The file format: a trace a document or a line, or observations one by one."""

    name = "langfuse"
    about = About(
        program="Langfuse",
        files="traces with observations",
        failures="level `ERROR`",
        kept="durations, tools that are plain spans",
        lost="scores, costs, usage, metadata",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a trace with its observations, or an observation."""
        if not is_json_object(value):
            return False
        return _is_trace(value) or (unit != "file" and _is_observation(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield a conversation for each trace."""
        traces: dict[str, list[JsonObject]] = {}
        for number, value in content.values:
            if is_json_object(value) and _is_trace(value):
                trace = member(value, "trace") or value
                name = text(trace, "id") or content.stem
                traces.setdefault(name, []).extend(_observations(value))
            elif is_json_object(value) and _is_observation(value):
                traces.setdefault(text(value, "traceId") or content.stem, []).append(value)
            else:
                content.report("not a trace", number)
        for name, observations in traces.items():
            steps = [step for each in observations for step in _steps(each)]
            parents = {text(each, "id"): text(each, "parentObservationId") for each in observations}
            named = f"{content.name}/{name}" if content.name else name
            yield trace_as_dialogue(steps, parents).transcript(content.unused_name(named))


def _is_trace(value: JsonObject) -> bool:
    return any(map(_is_observation, _observations(value)))


def _observations(value: JsonObject) -> list[JsonObject]:
    for key in ("observations", "data"):
        if items(value, key):
            return objects(value, key)
    return objects(member(value, "trace"), "observations")


def _is_observation(value: JsonObject) -> bool:
    return text(value, "type") in _TYPES and "startTime" in value


def _metadata(observation: JsonObject) -> JsonObject:
    """Return the metadata, which exports write as an object or as its JSON text."""
    value = parsed(observation.get("metadata"))
    return value if is_json_object(value) else {}


def _steps(observation: JsonObject) -> Iterator[Step]:
    ids = text(observation, "id"), text(observation, "parentObservationId")
    start = time_of(observation.get("startTime"))
    end = time_of(observation.get("endTime"))
    kind = observation.get("type")
    failed = observation.get("level") == "ERROR"
    if kind == "TOOL":
        metadata = _metadata(observation)
        attributes = member(metadata, "attributes")
        result = observation.get("output")
        if parsed(result) in (None, {}):  # some tracers leave it in the attributes
            result = first_of(attributes, RESULTS) or result
        if result is None and failed:
            result = text(observation, "statusMessage")
        yield ToolStep(
            id=ids[0],
            parent_id=ids[1],
            start=start,
            end=end,
            name=text(attributes, *TOOL_NAMES) or without_verb(text(observation, "name")),
            call_id=text(metadata, "tool_call_id") or text(attributes, *CALL_IDS),
            arguments=parsed(observation.get("input")),
            result=result,
            is_error=failed,
        )
    elif kind == "GENERATION":
        yield ModelStep(
            id=ids[0],
            parent_id=ids[1],
            start=start,
            end=end,
            inputs=items_of(observation.get("input")),
            outputs=items_of(observation.get("output"), "assistant"),
        )
