"""The spans of a conversation, by the GenAI conventions of OpenTelemetry: a fold.

This is the one place that says which span and which attribute comes from which event. `otlp_trace`
writes the spans down; `eventstore.integrations.opentelemetry` hands them to a tracer.

1. The root span, `invoke_agent`, is the run of an agent.
2. Each response of the model is a span `chat`, and each attempt of a tool a span `execute_tool`.
   What completes a response later has no span: that of the response has ended. A call that has
   ended without a recorded attempt, as in an imported history, has one span from its request to
   its end.
3. A call that no tool was run for (rejected, or answered by a hook or a person) is a note of the
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
    ToolEndedLate,
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

Attribute: TypeAlias = str | int | list[str]
Attributes: TypeAlias = dict[str, Attribute]


class Note(msgspec.Struct, frozen=True):
    """Something that happened while a span lasted, at a time."""

    name: str
    time: int
    attributes: Attributes


class ParentLink(msgspec.Struct, frozen=True):
    """The conversation whose root span caused a span."""

    conversation_id: str
    attributes: Attributes


class GenAISpan(msgspec.Struct, eq=False):
    """A span; times are microseconds since 1970 UTC.

    `version` is that of the event that began it, 0 for the first root. `is_client` tells requests
    to a model from what runs here. `duration` (microseconds) is there where the operation came
    to its end in a time that is known; the span itself may last longer.
    """

    name: str
    version: int
    start: int
    attributes: Attributes
    is_client: bool = False
    end: int | None = None
    duration: int | None = None
    failure: Failure | None = None
    notes: list[Note] = []
    link: ParentLink | None = None

    def close(self, time: int) -> None:
        """Set the end, which is not before the start: clocks go back."""
        self.end = max(self.start, time)

    def leave_open(self, time: int) -> None:
        """Set an end that is only the end of what is known."""
        self.close(time)
        self.attributes["toolledger.open"] = True

    def fail(self, failure: Failure) -> None:
        """Set the failure, with its type as an attribute."""
        self.failure = failure
        self.attributes["error.type"] = failure.exception or str(failure.kind)


class ConversationSpans:
    """The spans of one conversation, while its events are read."""

    def __init__(self, conversation_id: str, start: int, *, content: bool = False) -> None:
        self.root: GenAISpan
        """The root span, of the run under way."""
        self._conversation_id = conversation_id
        self._content = content
        self._calls: dict[str, _Call] = {}
        self._last = start
        self.begin_run(0, start)

    def begin_run(self, version: int, start: int) -> None:
        """Begin another root span; the attempts under way continue."""
        attributes = self._attributes("invoke_agent", {})
        self.root = GenAISpan("invoke_agent", version, start, attributes)

    def add(self, recorded: Recorded) -> list[GenAISpan]:
        """Take in one event; return the spans below the root that began or ended with it."""
        self._last = max(self._last, recorded.time)
        match recorded.event:
            case RunStarted() as event:
                self._start(event)
            case RunEnded(failure=Failure() as failure):
                self.root.fail(failure)
            case ModelResponded(completes=None) as event:
                return [self._response(recorded, event)]
            case UsageLimitBreach() as event:
                words = {"toolledger.limit": str(event)}
                self._note(recorded, "toolledger.usage_limit", None, words)
            case _:
                return self._add_tool_event(recorded)
        return []

    def _add_tool_event(self, recorded: Recorded) -> list[GenAISpan]:
        match recorded.event:
            case ToolPending() as event:
                self._calls.setdefault(event.call_id, _Call(event.call, recorded))
            case ToolRunning() as event:
                return self._begin(recorded, event)
            case ToolPaused(attempt=attempt) as event if attempt:
                span = self._end(recorded, event.call_id)
                span.attributes["toolledger.paused"] = True
                span.duration = None
                return [span]
            case ToolCompleted() as event:
                ended = self._complete(recorded, event)
                self._calls.pop(event.call_id, None)
                return ended
            case ToolFailed() as event:
                span = self._end(recorded, event.call_id, event.duration)
                span.fail(event.failure)
                return [span]
            case ToolEndedLate() as event:
                late = {"toolledger.attempt": event.attempt}
                self._note(recorded, "toolledger.ended_late", event.call_id, late)
            case ToolRejected() as event:
                words = {"toolledger.source": event.source, "toolledger.reason": event.reason}
                self._note(recorded, "toolledger.rejected", event.call_id, words)
                self._calls.pop(event.call_id, None)
            case _:
                pass
        return []

    def finish(self) -> list[GenAISpan]:
        """End what is still open where the log ends; return the attempts among it."""
        attempts = [call.attempt for call in self._calls.values() if call.attempt is not None]
        for span in attempts:
            span.leave_open(self._last)
        self.root.close(self._last)
        return attempts

    def _start(self, event: RunStarted) -> None:
        if event.agent:
            self.root.name = f"invoke_agent {event.agent}"
            self.root.attributes["gen_ai.agent.name"] = event.agent
        if event.parent_conversation_id is not None:
            call = _known({"toolledger.parent_call_id": event.parent_call_id})
            self.root.link = ParentLink(event.parent_conversation_id, call)

    def _response(self, recorded: Recorded, event: ModelResponded) -> GenAISpan:
        attributes = self._attributes(
            "chat",
            {
                "gen_ai.provider.name": PROVIDERS.get(event.provider or "", event.provider),
                "gen_ai.response.model": event.model,
                "gen_ai.response.id": event.response_id,
                "gen_ai.response.finish_reasons": (
                    [event.finish_reason] if event.finish_reason else None
                ),
                **_usage(event.usage),
            },
        )
        start = recorded.time - (event.latency or 0)
        name = f"chat {event.model}" if event.model else "chat"
        span = GenAISpan(name, recorded.version, start, attributes, is_client=True)
        span.close(recorded.time)
        span.duration = event.latency
        return span

    def _begin(self, recorded: Recorded, event: ToolRunning) -> list[GenAISpan]:
        call = self._calls.get(event.call_id)
        if call is None:
            return []
        left = [] if call.attempt is None else [call.attempt]
        for span in left:
            span.leave_open(recorded.time)
        arguments = call.call.arguments if event.arguments is None else event.arguments
        call.attempt = self._tool_span(recorded, event.call_id, call.call.name, arguments)
        call.attempt.attributes["toolledger.attempt"] = event.attempt
        return [*left, call.attempt]

    def _complete(self, recorded: Recorded, event: ToolCompleted) -> list[GenAISpan]:
        if event.synthetic:
            words = {"toolledger.by": event.by, "toolledger.reason": event.reason}
            self._note(recorded, "toolledger.answered", event.call_id, words)
            return []
        span = self._end(recorded, event.call_id, event.duration)
        if self._content:
            span.attributes["gen_ai.tool.call.result"] = _json(event.response.result)
        return [span]

    def _end(self, recorded: Recorded, call_id: str, duration: int | None = None) -> GenAISpan:
        """Return the span of the attempt that has ended; of the whole call, if none was begun."""
        call = self._calls.get(call_id)
        if call is not None and call.attempt is not None:
            span, call.attempt = call.attempt, None
            span.duration = max(recorded.time - span.start, 0) if duration is None else duration
        elif call is not None:
            arguments = call.call.arguments
            span = self._tool_span(recorded, call_id, call.call.name, arguments)
            span.start = min(call.requested.time, recorded.time)
        else:  # a damaged log: the request is not there
            span = self._tool_span(recorded, call_id, "", None)
        span.close(recorded.time)
        return span

    def _tool_span(self, recorded: Recorded, call_id: str, tool: str, arguments: Any) -> GenAISpan:
        attributes = self._attributes(
            "execute_tool",
            {
                "gen_ai.tool.name": tool or None,
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.arguments": _json(arguments) if self._content else None,
            },
        )
        name = f"execute_tool {tool}".rstrip()
        return GenAISpan(name, recorded.version, recorded.time, attributes)

    def _note(
        self,
        recorded: Recorded,
        name: str,
        call_id: str | None,
        words: Mapping[str, Attribute | None],
    ) -> None:
        call = self._calls.get(call_id or "")
        tool = None if call is None else call.call.name
        named = {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": call_id, **words}
        self.root.notes.append(Note(name, recorded.time, _known(named)))

    def _attributes(self, operation: str, more: Mapping[str, Attribute | None]) -> Attributes:
        first = {
            "gen_ai.operation.name": operation,
            "gen_ai.conversation.id": self._conversation_id,
        }
        return _known({**first, **more})


class _Call(msgspec.Struct, gc=False):
    """A call, when it was asked for, and its attempt under way."""

    call: FunctionCall
    requested: Recorded
    attempt: GenAISpan | None = None


def spans_of_log(
    events: Iterable[Recorded], *, content: bool = False
) -> tuple[str, list[GenAISpan]]:
    """Return the conversation that the events are of, and all its spans, the root first.

    Raises:
        ValueError: there is no event, or they are of several conversations.
    """
    events = list(events)
    names = {recorded.conversation_id for recorded in events}
    if len(names) != 1:
        raise ValueError(
            f"{len(names)} conversations in the events: pass those of one, `chat.events()`"
        )
    folded = ConversationSpans(conversation_id := names.pop(), events[0].time, content=content)
    spans = [span for recorded in events for span in folded.add(recorded)]
    folded.finish()
    return conversation_id, list(dict.fromkeys([folded.root, *spans]))


def service_name(root: GenAISpan) -> str:
    """Return the name of the service that a trace tells of: the agent's, where it has one."""
    return str(root.attributes.get("gen_ai.agent.name", "toolledger"))


def trace_id(conversation_id: str) -> str:
    """Return the id of a conversation's trace, as 32 hex digits."""
    return blake2b(conversation_id.encode(), digest_size=16).hexdigest()


def span_id(conversation_id: str, version: int) -> str:
    """Return the id of the span that began with a version, as 16 hex digits."""
    return blake2b(f"{version} {conversation_id}".encode(), digest_size=8).hexdigest()


def _usage(usage: Usage | None) -> Attributes:
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _known(values: Mapping[str, Attribute | None]) -> Attributes:
    return {name: value for name, value in values.items() if value is not None}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
