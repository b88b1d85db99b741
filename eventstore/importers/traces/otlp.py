"""OpenTelemetry spans as JSON: OTLP, Tempo's `batches`, Jaeger's traces, and the console's.

Calls are read by the GenAI conventions, and by what traceloop, OpenInference and Google's ADK
write instead of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import parsed, text
from eventstore.importers.reading.traced_messages import items_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.importers.traces.span_forms import Span, holds_spans, spans_in
from eventstore.importers.traces.steps import ModelStep, Step, ToolStep, trace_as_dialogue
from eventstore.importers.traces.tool_attributes import (
    ARGUMENTS,
    CALL_IDS,
    RESULTS,
    TOOL_NAMES,
    first_of,
    without_verb,
)
from eventstore.providers.model import ParsedItem

_OTHER_SIGNALS = {"resourceLogs", "resourceMetrics", "resource_logs", "resource_metrics"}
_CONVERSATION = (
    "gen_ai.conversation.id",
    "session.id",
    "gcp.vertex.agent.session_id",
    "traceloop.association.properties.session_id",
    "langfuse.session.id",
)
_INPUTS = (
    "gen_ai.input.messages",
    "pydantic_ai.all_messages",
    "all_messages_events",
    "events",
    "ai.prompt.messages",
    "gcp.vertex.agent.llm_request",
)
_OUTPUTS = ("gen_ai.output.messages", "ai.response.text", "gcp.vertex.agent.llm_response")


class OpenTelemetrySpans:
    """The file format: one export a document, or a line."""

    name = "otlp"
    about = About(
        program="OpenTelemetry, GenAI and OpenInference spans",
        files="OTLP JSON, Tempo, Jaeger, the console's exporter, Phoenix",
        failures="status, `error.type`",
        kept="durations, calls that are spans alone",
        lost="spans of other kinds, usage, events without messages",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is an export of spans, or a span of the console's exporter."""
        del unit
        return is_json_object(value) and holds_spans(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the conversations, each in the order of its spans."""
        spans: list[Span] = []
        for number, value in content.values:
            if is_json_object(value) and self.looks_like(value, content.unit):
                spans += spans_in(value)
            else:
                other = is_json_object(value) and bool(_OTHER_SIGNALS & value.keys())
                content.report("not an export of spans", number, is_known=other)
        for name, own in _conversations(spans).items():
            steps = [step for span in own for step in _steps(span)]
            dialogue = trace_as_dialogue(steps, {span.id: span.parent_id for span in own})
            if dialogue:
                named = f"{content.name}/{name}" if content.name else name
                transcript = dialogue.transcript(content.unused_name(named))
                first = min(own, key=lambda span: span.start or 0)
                transcript.part_id = f"{transcript.id}/trace-{first.trace_id}"
                yield transcript


# the conversations


def _conversations(spans: list[Span]) -> dict[str, list[Span]]:
    """Return the spans of each conversation: one without a name belongs to that of its trace."""
    by_id = {(span.trace_id, span.id): span for span in spans}
    traces: defaultdict[str, set[str]] = defaultdict(set)
    for span in spans:
        if own := text(span.attributes, *_CONVERSATION):
            traces[span.trace_id].add(own)
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        names = traces[span.trace_id]
        only = next(iter(names)) if len(names) == 1 else ""
        found[_inherited(span, by_id) or only or f"trace-{span.trace_id}"].append(span)
    return found


def _inherited(span: Span, by_id: dict[tuple[str, str], Span]) -> str:
    seen: set[str] = set()
    here: Span | None = span
    while here is not None and here.id not in seen:
        if own := text(here.attributes, *_CONVERSATION):
            return own
        seen.add(here.id)
        here = by_id.get((here.trace_id, here.parent_id))
    return ""


# what a span says


def _steps(span: Span) -> Iterator[Step]:
    if _is_tool(span):
        yield _tool_step(span)
        return
    inputs, outputs = _inputs(span), _outputs(span)
    if inputs or outputs:
        yield ModelStep(
            id=span.id,
            parent_id=span.parent_id,
            start=span.start,
            end=span.end,
            inputs=inputs,
            outputs=outputs,
        )


def _is_tool(span: Span) -> bool:
    own = span.attributes
    kind = text(own, "openinference.span.kind", "traceloop.span.kind")
    if own.get("gen_ai.operation.name") == "execute_tool" or kind in ("TOOL", "tool"):
        return True
    if span.name.startswith("execute_tool ") or own.get("operation.name") == "ai.toolCall":
        return True
    return span.name.startswith("running tool") and bool(own.get("gen_ai.tool.name"))


def _tool_step(span: Span) -> ToolStep:
    own = span.attributes
    failed = span.is_error or bool(own.get("error.type")) or own.get("tool.status") == "error"
    given = {text(event, "name"): event for event in span.events}
    arguments = first_of(own, ARGUMENTS)
    if arguments is None:
        arguments = given.get("gen_ai.tool.message", {}).get("content")
    result = first_of(own, RESULTS)
    if result is None:
        result = given.get("gen_ai.choice", {}).get("message")
    thrown = next((text(event, "exception.message") for event in span.events), "")
    if failed and result is None:
        result = thrown or span.message or text(own, "error.type")
    return ToolStep(
        id=span.id,
        parent_id=span.parent_id,
        start=span.start,
        end=span.end,
        name=text(own, *TOOL_NAMES) or without_verb(span.name),
        call_id=text(own, *CALL_IDS),
        arguments=arguments,
        result=result,
        is_error=failed,
    )


def _inputs(span: Span) -> list[ParsedItem]:
    own = span.attributes
    flat = _flat(own, "gen_ai.prompt") or _flat(own, "llm.input_messages")
    of_events: JsonValue = [_of_event(event) for event in span.events if _role_of(event)]
    system = items_of(_instructions(own.get("gen_ai.system_instructions")))
    return system + items_of(first_of(own, _INPUTS) or flat or of_events)


def _outputs(span: Span) -> list[ParsedItem]:
    own = span.attributes
    flat = _flat(own, "gen_ai.completion") or _flat(own, "llm.output_messages")
    choices = (event for event in span.events if event.get("name") == "gen_ai.choice")
    chosen: JsonValue = [*map(_of_event, choices)]
    said = items_of(first_of(own, _OUTPUTS) or flat or chosen, "assistant")
    return said + items_of(own.get("ai.response.toolCalls"), "assistant")


def _instructions(given: JsonValue) -> JsonValue:
    value = parsed(given)
    if is_json_list(value):
        return [{"role": "system", "parts": value}]
    return [{"role": "system", "content": value}] if value else None


def _flat(own: JsonObject, prefix: str) -> list[JsonValue]:
    """Return messages whose members are attributes: `gen_ai.prompt.0.tool_calls.1.name`."""
    messages: JsonObject = {}
    for key, value in own.items():
        if key.startswith(f"{prefix}."):
            path = [step for step in key[len(prefix) + 1 :].split(".") if step not in _WRAPPERS]
            _put(messages, path, value)
    return [_listed(each) for _, each in sorted(messages.items(), key=_number)]


_WRAPPERS = ("message", "tool_call", "message_content")
"""What OpenInference puts around a message, a call and a part of a message."""


def _put(into: JsonObject, path: list[str], value: object) -> None:
    for step in path[:-1]:
        inner: JsonValue = into.setdefault(step, {})
        if not is_json_object(inner):
            return
        into = inner
    if path:
        into[path[-1]] = value


def _number(pair: tuple[str, Any]) -> int:
    return int(pair[0]) if pair[0].isdigit() else 0


def _listed(message: Any) -> Any:
    """Return a message whose calls and parts are lists, as before they became attributes."""
    if not is_json_object(message):
        return message
    listed = {
        key: [each for _, each in sorted(message[key].items(), key=_number)]
        for key in ("tool_calls", "contents")
        if is_json_object(message.get(key))
    }
    if "contents" in listed:  # the parts of a message, where it has no `content`
        listed["content"] = message.get("content") or listed.pop("contents")
    return {**message, **listed}


def _role_of(event: JsonObject) -> str:
    """Return the role in an event of the older conventions: `gen_ai.user.message`."""
    head, _, rest = text(event, "name").partition(".")
    role, _, tail = rest.partition(".")
    return role if (head, tail) == ("gen_ai", "message") else ""


def _of_event(event: JsonObject) -> JsonObject:
    inner = parsed(event.get("message"))
    if is_json_object(inner):
        return {"role": "assistant", **inner}
    calls = parsed(event.get("tool_calls"))
    message: JsonObject = {
        "role": _role_of(event) or "assistant",
        "content": event.get("content", inner),
        "tool_call_id": event.get("id", ""),
    }
    return {**message, "tool_calls": calls} if calls else message
