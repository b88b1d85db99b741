"""The forms in which spans are written: OTLP, Tempo, Jaeger, the console's exporter, Phoenix.

Phoenix gives spans with `context` and flat attributes, and rows of a data frame, in which every
member of a span is a column: `context.span_id`, `attributes.llm.input_messages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.times import time_of

_RESOURCES = ("resourceSpans", "resource_spans", "batches")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_COLUMNS = "attributes."
"""What the columns of a data frame begin with that are attributes of spans."""


class Span(msgspec.Struct, kw_only=True):
    """A span, in whatever form it was written."""

    id: str
    trace_id: str
    parent_id: str
    name: str
    start: int | None
    end: int | None
    attributes: JsonObject
    events: list[JsonObject] = []
    is_error: bool = False
    message: str = ""


def holds_spans(value: JsonObject) -> bool:
    """Return whether a value is an export of spans, or a span by itself."""
    if any(is_json_list(value.get(key)) for key in _RESOURCES):
        return True
    return _is_jaeger(value) or _is_alone(value) or any(map(_is_alone, objects(value, "data")))


def _is_jaeger(value: JsonObject) -> bool:
    return any("spans" in each and "traceID" in each for each in objects(value, "data"))


def _is_alone(value: JsonObject) -> bool:
    """Return whether a value is a span by itself, of a console or of Phoenix."""
    return "start_time" in value and ("trace_id" in member(value, "context") or _is_row(value))


def _is_row(value: JsonObject) -> bool:
    """Return whether a value is a span's row of a data frame."""
    return {"context.trace_id", "context.span_id"} <= value.keys()


def spans_in(value: JsonObject) -> Iterator[Span]:
    """Yield the spans of a value."""
    for each in (value, *objects(value, "data")):
        if _is_alone(each):
            yield _span_alone(_of_row(each) if _is_row(each) else each)
    for trace in objects(value, "data"):
        yield from map(_jaeger_span, objects(trace, "spans"))
    for key in _RESOURCES:
        for resource in objects(value, key):
            for scope in _SCOPES:
                for each in objects(resource, scope):
                    yield from map(_otlp_span, objects(each, "spans"))


def _otlp_span(span: JsonObject) -> Span:
    status = member(span, "status")
    return Span(
        id=text(span, "spanId", "span_id"),
        trace_id=text(span, "traceId", "trace_id"),
        parent_id=text(span, "parentSpanId", "parent_span_id"),
        name=text(span, "name"),
        start=time_of(span.get("startTimeUnixNano", span.get("start_time_unix_nano"))),
        end=time_of(span.get("endTimeUnixNano", span.get("end_time_unix_nano"))),
        attributes=_attributes(objects(span, "attributes")),
        events=[
            {"name": text(event, "name"), **_attributes(objects(event, "attributes"))}
            for event in objects(span, "events")
        ],
        is_error=status.get("code") in (2, "2", "STATUS_CODE_ERROR", "ERROR"),
        message=text(status, "message"),
    )


def _jaeger_span(span: JsonObject) -> Span:
    tags = {text(tag, "key"): tag.get("value") for tag in objects(span, "tags")}
    start, took = span.get("startTime"), span.get("duration")
    parents = (text(each, "spanID") for each in objects(span, "references"))
    logs = [
        {text(field, "key"): field.get("value") for field in objects(log, "fields")}
        for log in objects(span, "logs")
    ]
    end = start + took if isinstance(start, int) and isinstance(took, int) else None
    return Span(
        id=text(span, "spanID"),
        trace_id=text(span, "traceID"),
        parent_id=next(parents, ""),
        name=text(span, "operationName"),
        start=start if isinstance(start, int) else None,
        end=end,
        attributes=tags,
        events=[{**log, "name": log.get("event", "")} for log in logs],
        is_error=tags.get("error") is True or tags.get("otel.status_code") == "ERROR",
        message=text(tags, "otel.status_description"),
    )


def _span_alone(span: JsonObject) -> Span:
    context, status = member(span, "context"), member(span, "status")
    attributes = {**member(span, "attributes")}
    if kind := text(span, "span_kind"):
        attributes.setdefault("openinference.span.kind", kind)
    return Span(
        id=text(context, "span_id"),
        trace_id=text(context, "trace_id"),
        parent_id=text(span, "parent_id"),
        name=text(span, "name"),
        start=time_of(span.get("start_time")),
        end=time_of(span.get("end_time")),
        attributes=attributes,
        events=[
            {"name": text(event, "name"), **member(event, "attributes")}
            for event in objects(span, "events")
        ],
        is_error=(text(status, "status_code") or text(span, "status_code")).endswith("ERROR"),
        message=text(status, "description") or text(span, "status_message"),
    )


def _of_row(row: JsonObject) -> JsonObject:
    """Return a row of a data frame as a span; what a row does not have is null there."""
    attributes: JsonObject = {}
    for key in row:
        if key.startswith(_COLUMNS) and row[key] is not None:
            _flatten(attributes, key.removeprefix(_COLUMNS), row[key])
    context = {"trace_id": row["context.trace_id"], "span_id": row["context.span_id"]}
    return {**row, "context": context, "attributes": attributes}


def _flatten(into: JsonObject, key: str, value: JsonValue) -> None:
    """Put a value under its name, and lists of objects under the names of their members."""
    inner = objects({key: value}, key)
    if inner and is_json_list(value) and len(inner) == len(value):
        for number, each in enumerate(inner):
            for name in each:
                _flatten(into, f"{key}.{number}.{name}", each[name])
    elif value is not None:
        into[key] = value


def _attributes(pairs: Iterable[JsonObject]) -> JsonObject:
    return {text(pair, "key"): _value(pair.get("value")) for pair in pairs}


def _value(given: JsonValue) -> JsonValue:
    if not is_json_object(given):
        return given
    for kind in given:
        value: JsonValue = given[kind]
        if kind in ("intValue", "int_value"):
            is_digits = isinstance(value, str) and value.removeprefix("-").isdecimal()
            return int(str(value)) if is_digits else value
        if kind in ("arrayValue", "array_value"):
            return [_value(each) for each in objects(member(given, kind), "values")]
        if kind in ("kvlistValue", "kvlist_value"):
            return _attributes(objects(member(given, kind), "values"))
        return value
    return None
