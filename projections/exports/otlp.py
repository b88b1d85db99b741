"""A conversation as a trace of OpenTelemetry, in OTLP's JSON form.

1. A conversation is one trace. Its root span, `invoke_agent`, lasts from the first event to the
   last one. Attributes have the names of the GenAI conventions, at the version of `SCHEMA_URL`.
2. Each response of the model is a span `chat`, and each attempt of a tool a span `execute_tool`. A
   call that has ended without a recorded attempt, as in an imported history, has one span from its
   request to its end.
3. A call that no tool was run for (rejected, or answered by a hook or a person) is an event of the
   root span, and so is a usage limit that was exceeded.
4. An attempt without an end lasts until the next one starts, or the log ends, with
   `toolledger.open`.
5. Ids are digests of the conversation's id and the version: the same log gives the same trace.
6. Arguments and results may be private: they are there only on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from eventstore import (
    Failure,
    FunctionCall,
    ModelResponded,
    Recorded,
    RunEnded,
    RunStarted,
    ToolCompleted,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRunning,
    Usage,
    UsageLimitBreach,
)

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the conventions that the names of attributes are taken from."""

PROVIDERS = {
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
}
"""The convention's names of providers, where they differ from ours."""

_INTERNAL = 1
_CLIENT = 3
_ERROR = 2

_Attribute: TypeAlias = str | int | list[str] | None
_Span: TypeAlias = dict[str, Any]


def otlp_trace(events: Iterable[Recorded], *, content: bool = False) -> dict[str, Any]:
    """Return the events of one conversation as a trace: a `TracesData` in OTLP's JSON form.

    With `content` the spans of tools hold arguments and results, which may be private. Times are
    those of the source where they are known (`Recorded.time`).

    Raises:
        ValueError: there is no event, or they are of several conversations.
    """
    events = list(events)
    names = {recorded.conversation_id for recorded in events}
    if len(names) != 1:
        raise ValueError(
            f"{len(names)} conversations in the events: pass those of one, `chat.events()`"
        )
    trace = _Trace(names.pop(), events[0].time, with_content=content)
    for recorded in events:
        trace.add(recorded)
    return trace.ended()


class _Call(msgspec.Struct, gc=False):
    """A call, when it was asked for, and its attempt under way."""

    call: FunctionCall
    requested: Recorded
    attempt: _Span | None = None


class _Trace:
    """The spans of one conversation, while its events are read."""

    def __init__(self, conversation_id: str, start: int, *, with_content: bool) -> None:
        self._conversation_id = conversation_id
        self._with_content = with_content
        self._calls: dict[str, _Call] = {}
        self._agent = ""
        self._last = start
        self._root: _Span = {
            "traceId": _trace_id(conversation_id),
            "spanId": _span_id(conversation_id, 0),
            "name": "invoke_agent",
            "kind": _INTERNAL,
            "startTimeUnixNano": _nanoseconds(start),
            "attributes": self._attributes("invoke_agent", {}),
            "events": [],
        }
        self._spans = [self._root]

    def add(self, recorded: Recorded) -> None:
        """Take in one event."""
        self._last = max(self._last, recorded.time)
        match recorded.event:
            case RunStarted() as event:
                self._start(event)
            case RunEnded(failure=Failure() as failure):
                _set_failed(self._root, failure)
            case ModelResponded() as event:
                self._add_response(recorded, event)
            case UsageLimitBreach() as event:
                words = {"toolledger.limit": str(event)}
                self._note(recorded, "toolledger.usage_limit", None, words)
            case _:
                self._add_tool_event(recorded)

    def _add_tool_event(self, recorded: Recorded) -> None:
        match recorded.event:
            case ToolPending() as event:
                self._calls.setdefault(event.call_id, _Call(event.call, recorded))
            case ToolRunning() as event:
                self._begin(recorded, event)
            case ToolPaused(attempt=attempt) as event if attempt:
                span = self._end(recorded, event.call_id)
                span["attributes"] += _attributes({"toolledger.paused": True})
            case ToolCompleted() as event:
                self._complete(recorded, event)
            case ToolFailed() as event:
                _set_failed(self._end(recorded, event.call_id), event.failure)
            case ToolRejected() as event:
                words = {"toolledger.source": event.source, "toolledger.reason": event.reason}
                self._note(recorded, "toolledger.rejected", event.call_id, words)
            case _:
                pass

    def ended(self) -> dict[str, Any]:
        """Return the trace, with the end of what is still open."""
        for call in self._calls.values():
            if call.attempt is not None:
                self._leave_open(call.attempt, self._last)
        _close(self._root, self._last)
        scope = {"scope": {"name": "toolledger"}, "spans": self._spans, "schemaUrl": SCHEMA_URL}
        service = _attributes({"service.name": self._agent or "toolledger"})
        return {"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [scope]}]}

    def _start(self, event: RunStarted) -> None:
        if event.agent:
            self._agent = event.agent
            self._root["name"] = f"invoke_agent {event.agent}"
            self._root["attributes"] += _attributes({"gen_ai.agent.name": event.agent})
        parent = event.parent_conversation_id
        if parent is not None:
            self._root["links"] = [
                {
                    "traceId": _trace_id(parent),
                    "spanId": _span_id(parent, 0),
                    "attributes": _attributes({"toolledger.parent_call_id": event.parent_call_id}),
                }
            ]

    def _add_response(self, recorded: Recorded, event: ModelResponded) -> None:
        name = f"chat {event.model}" if event.model else "chat"
        span = self._span(recorded, name, recorded.time - (event.latency or 0), _CLIENT)
        span["attributes"] = self._attributes(
            "chat",
            {
                "gen_ai.provider.name": PROVIDERS.get(event.provider or "", event.provider),
                "gen_ai.response.model": event.model,
                "gen_ai.response.id": event.response_id,
                "gen_ai.response.finish_reasons": event.finish_reason and [event.finish_reason],
                **_usage(event.usage),
            },
        )
        _close(span, recorded.time)

    def _begin(self, recorded: Recorded, event: ToolRunning) -> None:
        call = self._calls.get(event.call_id)
        if call is None:
            return
        if call.attempt is not None:
            self._leave_open(call.attempt, recorded.time)
        arguments = call.call.arguments if event.arguments is None else event.arguments
        call.attempt = self._tool_span(recorded, event.call_id, call.call.name, arguments)
        call.attempt["attributes"] += _attributes({"toolledger.attempt": event.attempt})

    def _complete(self, recorded: Recorded, event: ToolCompleted) -> None:
        if event.synthetic:
            words = {"toolledger.by": event.by, "toolledger.reason": event.reason}
            self._note(recorded, "toolledger.answered", event.call_id, words)
            return
        span = self._end(recorded, event.call_id)
        if self._with_content:
            span["attributes"] += _attributes(
                {"gen_ai.tool.call.result": _json(event.response.result)}
            )

    def _end(self, recorded: Recorded, call_id: str) -> _Span:
        """Return the span of the attempt that has ended; of the whole call, if none was begun."""
        call = self._calls.get(call_id)
        if call is not None and call.attempt is not None:
            span, call.attempt = call.attempt, None
        elif call is not None:
            arguments = call.call.arguments
            span = self._tool_span(recorded, call_id, call.call.name, arguments)
            span["startTimeUnixNano"] = _nanoseconds(min(call.requested.time, recorded.time))
        else:  # a damaged log: the request is not there
            span = self._tool_span(recorded, call_id, "", None)
        _close(span, recorded.time)
        return span

    def _leave_open(self, span: _Span, until: int) -> None:
        _close(span, until)
        span["attributes"] += _attributes({"toolledger.open": True})

    def _tool_span(self, recorded: Recorded, call_id: str, tool: str, arguments: Any) -> _Span:
        span = self._span(recorded, f"execute_tool {tool}".rstrip(), recorded.time, _INTERNAL)
        span["attributes"] = self._attributes(
            "execute_tool",
            {
                "gen_ai.tool.name": tool or None,
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.arguments": _json(arguments) if self._with_content else None,
            },
        )
        return span

    def _span(self, recorded: Recorded, name: str, start: int, kind: int) -> _Span:
        span: _Span = {
            "traceId": self._root["traceId"],
            "spanId": _span_id(self._conversation_id, recorded.version),
            "parentSpanId": self._root["spanId"],
            "name": name,
            "kind": kind,
            "startTimeUnixNano": _nanoseconds(start),
        }
        self._spans.append(span)
        return span

    def _note(
        self,
        recorded: Recorded,
        name: str,
        call_id: str | None,
        words: Mapping[str, _Attribute],
    ) -> None:
        call = self._calls.get(call_id or "")
        tool = None if call is None else call.call.name
        named = {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": call_id, **words}
        time = _nanoseconds(recorded.time)
        note = {"timeUnixNano": time, "name": name, "attributes": _attributes(named)}
        self._root["events"].append(note)

    def _attributes(self, operation: str, more: Mapping[str, _Attribute]) -> list[dict[str, Any]]:
        first = {
            "gen_ai.operation.name": operation,
            "gen_ai.conversation.id": self._conversation_id,
        }
        return _attributes({**first, **more})


def _usage(usage: Usage | None) -> dict[str, _Attribute]:
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _close(span: _Span, end: int) -> None:
    """Set the end of a span, which is not before its start: clocks go back."""
    span["endTimeUnixNano"] = str(max(int(span["startTimeUnixNano"]), int(_nanoseconds(end))))


def _set_failed(span: _Span, failure: Failure) -> None:
    span["status"] = {"code": _ERROR, "message": failure.message}
    span["attributes"] += _attributes({"error.type": failure.exception or str(failure.kind)})


def _attributes(values: Mapping[str, _Attribute]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": _value(value)} for key, value in values.items() if value is not None
    ]


def _value(value: str | int | list[str]) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}  # as JSON has 64-bit integers in OTLP
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case _:
            return {"stringValue": value}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _nanoseconds(microseconds: int) -> str:
    return str(max(microseconds, 0) * 1_000)


def _trace_id(conversation_id: str) -> str:
    return blake2b(conversation_id.encode(), digest_size=16).hexdigest()


def _span_id(conversation_id: str, version: int) -> str:
    return blake2b(f"{version} {conversation_id}".encode(), digest_size=8).hexdigest()
