"""A conversation as a trace of OpenTelemetry, in OTLP's JSON form.

A conversation is one trace. Its root span lasts from the first event to the last one; what the
spans are is told in `genai_spans`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eventstore import Recorded
from projections.exports.genai_spans import (
    SCHEMA_URL,
    Attribute,
    Attributes,
    GenAISpan,
    service_name,
    span_id,
    spans_of_log,
    trace_id,
)

_INTERNAL = 1
_CLIENT = 3
_ERROR = 2


def otlp_trace(events: Iterable[Recorded], *, content: bool = False) -> dict[str, Any]:
    """Return the events of one conversation as a trace: a `TracesData` in OTLP's JSON form.

    With `content` the spans of tools hold arguments and results, which may be private. Times are
    those of the source where they are known (`Recorded.time`).

    Raises:
        ValueError: there is no event, or they are of several conversations.
    """
    conversation_id, (root, *others) = spans_of_log(events, content=content)
    trunk: dict[str, Any] = {"events": [], **_span(conversation_id, root)}
    below = {"parentSpanId": trunk["spanId"]}
    spans = [trunk, *({**_span(conversation_id, span), **below} for span in others)]
    scope = {"scope": {"name": "toolledger"}, "spans": spans, "schemaUrl": SCHEMA_URL}
    service = _attributes({"service.name": service_name(root)})
    return {"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [scope]}]}


def _span(conversation_id: str, span: GenAISpan) -> dict[str, Any]:
    written: dict[str, Any] = {
        "traceId": trace_id(conversation_id),
        "spanId": span_id(conversation_id, span.version),
        "name": span.name,
        "kind": _CLIENT if span.is_client else _INTERNAL,
        "startTimeUnixNano": _nanoseconds(span.start),
        "endTimeUnixNano": _nanoseconds(span.end or span.start),
        "attributes": _attributes(span.attributes),
    }
    if span.failure is not None:
        written["status"] = {"code": _ERROR, "message": span.failure.message}
    if span.notes:
        written["events"] = [
            {
                "timeUnixNano": _nanoseconds(note.time),
                "name": note.name,
                "attributes": _attributes(note.attributes),
            }
            for note in span.notes
        ]
    if span.link is not None:
        parent = span.link.conversation_id
        written["links"] = [
            {
                "traceId": trace_id(parent),
                "spanId": span_id(parent, 0),
                "attributes": _attributes(span.link.attributes),
            }
        ]
    return written


def _attributes(values: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Attribute) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}  # as JSON has 64-bit integers in OTLP
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case _:
            return {"stringValue": value}


def _nanoseconds(microseconds: int) -> str:
    return str(max(microseconds, 0) * 1_000)
