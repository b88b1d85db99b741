"""`otlp_trace`: a conversation as a trace of OpenTelemetry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from support.played_logs import STEPS, Step, played
from support.tiers import examples

from eventstore import (
    ErrorKind,
    EventStore,
    Failure,
    ModelResponded,
    RunEnded,
    RunStarted,
    ToolFailed,
    ToolRejected,
    ToolRunning,
    Usage,
)
from eventstore.testing import FrozenClock
from projections import otlp_trace

CONVENTIONS = {
    "error.type",
    "gen_ai.agent.name",
    "gen_ai.conversation.id",
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.id",
    "gen_ai.response.model",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.result",
    "gen_ai.tool.name",
    "gen_ai.tool.type",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.reasoning.output_tokens",
    "service.name",
}
"""Names that the conventions have at version 1.44."""

SECOND = 1_000_000_000


def spans_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the spans of a trace, the root first."""
    (resource,) = trace["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    return list(scope["spans"])


def attributes(item: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span or an event as Python values."""
    values = {}
    for attribute in item["attributes"]:
        ((form, value),) = attribute["value"].items()
        values[attribute["key"]] = int(value) if form == "intValue" else value
    return values


def seconds(span: dict[str, Any]) -> float:
    """Return how long a span lasts."""
    return (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / SECOND


@pytest.fixture
def store() -> Iterator[EventStore]:
    """Return a store whose clock stands still."""
    with EventStore.open("sqlite://", clock=FrozenClock()) as store:
        yield store


def test_a_run_with_a_retry_and_a_refusal(store: EventStore) -> None:
    """Each response and each attempt is a span with its own times; a refusal is an event."""
    clock = store.session.clock
    assert isinstance(clock, FrozenClock)
    chat = store.conversation("support-42")
    chat.append(RunStarted("refunds"))
    chat.add_message("user", "Refund me")
    clock.advance(2)
    usage = Usage(100, 20, cached_tokens=60, reasoning_tokens=5)
    chat.append(
        ModelResponded("gemini", "gemini-3", "resp_1", "tool_use", usage, latency=1_500_000)
    )
    refund = chat.request("refund", {"order": 7})
    other = chat.request("delete", {})
    chat.reject(other.id, "never", by="ann")
    chat.start(refund.id)
    clock.advance(1)
    chat.fail(refund.id, Failure(ErrorKind.TRANSIENT, "line lost", exception="ConnectionError"))
    clock.advance(5)
    chat.start(refund.id)
    clock.advance(3)
    chat.complete(refund.id, {"refunded": True})
    chat.append(RunEnded("completed"))

    trace = otlp_trace(chat.events())
    root, response, first, second = spans_of(trace)
    assert (root["name"], root["kind"], seconds(root)) == ("invoke_agent refunds", 1, 11)
    assert (response["name"], response["kind"], seconds(response)) == ("chat gemini-3", 3, 1.5)
    named = attributes(response)
    assert named["gen_ai.provider.name"] == "gcp.gemini"
    assert named["gen_ai.response.finish_reasons"] == {"values": [{"stringValue": "tool_use"}]}
    assert [named[f"gen_ai.usage.{kind}_tokens"] for kind in ("input", "output")] == [100, 20]
    assert (first["name"], seconds(first)) == ("execute_tool refund", 1)
    assert first["status"] == {"code": 2, "message": "line lost"}
    assert attributes(first)["error.type"] == "ConnectionError"
    assert ("status" in second, seconds(second)) == (False, 3)
    assert [attributes(span)["toolledger.attempt"] for span in (first, second)] == [1, 2]
    assert {span["parentSpanId"] for span in (response, first, second)} == {root["spanId"]}
    (refused,) = root["events"]
    assert refused["name"] == "toolledger.rejected"
    assert attributes(refused)["gen_ai.tool.name"] == "delete"
    assert attributes(refused)["toolledger.reason"] == "never"


def test_arguments_and_results_are_there_on_request(store: EventStore) -> None:
    """Without `content` nothing of them is in the trace."""
    chat = store.conversation("private")
    call = chat.request("login", {"password": "hunter2"})
    chat.start(call.id)
    chat.complete(call.id, {"token": "s3cret"})
    trace = json.dumps(otlp_trace(chat.events()))
    assert "hunter2" not in trace
    assert "s3cret" not in trace
    (_, span) = spans_of(otlp_trace(chat.events(), content=True))
    assert attributes(span)["gen_ai.tool.call.arguments"] == '{"password":"hunter2"}'
    assert attributes(span)["gen_ai.tool.call.result"] == '{"token":"s3cret"}'


def test_an_attempt_that_was_left_lasts_until_the_next(store: EventStore) -> None:
    """A crash leaves an attempt without an end; the log's end closes the last one."""
    clock = store.session.clock
    assert isinstance(clock, FrozenClock)
    chat = store.conversation("crashed")
    call = chat.request("refund", {})
    chat.start(call.id)
    clock.advance(60)
    chat.start(call.id, attempt=2)
    clock.advance(2)
    chat.add_message("user", "and?")
    (_, first, second) = spans_of(otlp_trace(chat.events()))
    assert (seconds(first), seconds(second)) == (60, 2)
    assert attributes(first)["toolledger.open"] is True
    assert attributes(second)["toolledger.open"] is True


def test_a_sub_agent_links_to_its_parent(store: EventStore) -> None:
    """The link leads to the root span of the parent's trace."""
    parent, child = store.conversation("parent"), store.conversation("child")
    parent.add_message("user", "go")
    child.append(RunStarted("helper", "parent", "call_1"))
    (root, *_) = spans_of(otlp_trace(parent.events()))
    (link,) = spans_of(otlp_trace(child.events()))[0]["links"]
    assert (link["traceId"], link["spanId"]) == (root["traceId"], root["spanId"])
    assert attributes(link) == {"toolledger.parent_call_id": "call_1"}


def test_events_of_two_conversations_are_refused(store: EventStore) -> None:
    """The error says what to pass."""
    store.conversation("one").add_message("user", "a")
    store.conversation("two").add_message("user", "b")
    with pytest.raises(ValueError, match=r"2 conversations in the events: .*chat.events\(\)"):
        otlp_trace(store.read())
    with pytest.raises(ValueError, match="0 conversations"):
        otlp_trace([])


@settings(max_examples=examples(30))
@given(steps=STEPS)
def test_any_log_is_a_whole_trace(steps: list[Step]) -> None:
    """Spans are unique, end after they start and have the root as parent; names are known."""
    events = played(steps)
    trace = otlp_trace(events, content=True)
    assert trace == otlp_trace(events, content=True)
    root, *others = spans_of(trace)
    assert len({span["spanId"] for span in (root, *others)}) == len(others) + 1
    for span in (root, *others):
        assert seconds(span) >= 0
        assert len(span["traceId"]) == 32
        assert len(span["spanId"]) == 16
        names = {attribute["key"] for attribute in span["attributes"]}
        assert {name for name in names - CONVENTIONS if not name.startswith("toolledger.")} == set()
    assert {span["parentSpanId"] for span in others} <= {root["spanId"]}
    kinds = [type(recorded.event) for recorded in events]
    tools = [span for span in others if span["name"].startswith("execute_tool")]
    assert len(tools) == kinds.count(ToolRunning)
    assert sum("status" in span for span in tools) == kinds.count(ToolFailed)
    assert len(root["events"]) == kinds.count(ToolRejected)
