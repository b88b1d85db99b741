"""Spans and metrics of a store, with the SDK of OpenTelemetry and its exporters in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from support.frameworks import required
from support.pages import run_blocks
from support.played_logs import STEPS, Step, played
from support.tiers import examples

required("opentelemetry.sdk.trace")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode

from eventstore import (
    AsyncEventStore,
    ErrorKind,
    EventStore,
    Failure,
    ModelResponded,
    RunEnded,
    RunStarted,
    Usage,
)
from eventstore.conversation import Conversation
from eventstore.integrations.opentelemetry import Telemetry, export_trace
from eventstore.testing import FrozenClock
from projections import otlp_trace
from projections.exports.genai_spans import SCHEMA_URL

USAGE = Usage(100, 20, cached_tokens=60, reasoning_tokens=5)
SECOND = 1_000_000_000


class Backend:
    """Where the spans and metrics of a test arrive: the SDK's exporters in memory."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False, **options)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    def telemetry(self, store: EventStore | AsyncEventStore, **options: Any) -> Telemetry:
        """Return the telemetry of a store, which arrives here."""
        return Telemetry(store, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in the order of their ends."""
        return list(self.exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [span.name for span in self.spans]

    def points(self, metric: str) -> dict[tuple[str, ...], float]:
        """Return the sum of each point of a metric, by the values of its attributes."""
        data = self.reader.get_metrics_data()
        return {
            tuple(str(value) for _, value in sorted(point.attributes.items())): point.sum
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        }


@pytest.fixture
def store() -> Iterator[EventStore]:
    """Return a store whose clock stands still."""
    with EventStore.open("sqlite://", clock=FrozenClock()) as store:
        yield store


def advance(store: EventStore, seconds: float) -> None:
    """Let time pass on the store's clock."""
    clock = store.session.clock
    assert isinstance(clock, FrozenClock)
    clock.advance(seconds)


def ask(store: EventStore, chat: Conversation) -> str:
    """Record a question and the response, which asks for a call; return the call's id."""
    chat.add_message("user", "Refund me")
    advance(store, 2)
    chat.append(ModelResponded("gemini", "gemini-3", "resp_1", "tool_use", USAGE, 1_500_000))
    return chat.request("refund", {"order": 7, "password": "hunter2"}).id


def refund(store: EventStore, chat: Conversation) -> None:
    """Record a whole run: a refund that fails, is tried again, and is told."""
    call = ask(store, chat)
    chat.start(call)
    advance(store, 1)
    chat.fail(call, Failure(ErrorKind.TRANSIENT, "line lost", exception="ConnectionError"))
    advance(store, 5)
    chat.start(call)
    advance(store, 3)
    chat.complete(call, {"token": "s3cret"})
    chat.add_message("assistant", "Done.")


def test_a_run_is_a_trace(store: EventStore) -> None:
    """Each response and each attempt is a span with its own times, below the run's."""
    backend = Backend()
    with backend.telemetry(store):
        refund(store, store.conversation("support-42"))
    chat, first, second, root = backend.spans
    assert (root.name, root.parent) == ("invoke_agent", None)
    assert [span.parent for span in (chat, first, second)] == [root.context] * 3
    assert (chat.name, chat.kind) == ("chat gemini-3", SpanKind.CLIENT)
    assert dict(chat.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "support-42",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.response.model": "gemini-3",
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
    }
    assert (first.name, first.kind) == ("execute_tool refund", SpanKind.INTERNAL)
    assert first.status.status_code is StatusCode.ERROR
    assert (first.attributes or {})["error.type"] == "ConnectionError"
    assert second.status.status_code is StatusCode.UNSET
    lasted = [(span.end_time - span.start_time) / SECOND for span in backend.spans]
    assert lasted == [1.5, 1, 3, 11]
    scope = root.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == ("toolledger", SCHEMA_URL)


def test_tokens_and_durations_are_measured(store: EventStore) -> None:
    """Attempts count with the time of their own; one that another process left does not."""
    backend = Backend()
    with backend.telemetry(store):
        chat = store.conversation("support-42")
        call = ask(store, chat)
        with pytest.raises(TimeoutError), chat.running(call):
            raise TimeoutError
        chat.start(call, attempt=2)  # and its process dies
        advance(store, 60)
        chat.start(call, attempt=3)
        advance(store, 4)
        chat.complete(call, "done")
    assert backend.points("gen_ai.client.token.usage") == {
        ("chat", "gcp.gemini", "gemini-3", "input"): 100,
        ("chat", "gcp.gemini", "gemini-3", "output"): 20,
    }
    seconds = backend.points("gen_ai.client.operation.duration")
    assert seconds.pop(("chat", "gcp.gemini", "gemini-3")) == 1.5
    assert seconds.pop(("execute_tool", "refund")) == 4
    assert set(seconds) == {("TimeoutError", "execute_tool", "refund")}


def test_arguments_and_results_are_reported_on_request(store: EventStore) -> None:
    """Without `content` nothing of them is in a span."""
    private, open_ = Backend(), Backend()
    with private.telemetry(store), open_.telemetry(store, content=True):
        refund(store, store.conversation("support-42"))
    reported = "".join(span.to_json() for span in private.spans)
    assert "hunter2" not in reported
    assert "s3cret" not in reported
    attributes = open_.spans[2].attributes or {}
    assert attributes["gen_ai.tool.call.arguments"] == '{"order":7,"password":"hunter2"}'
    assert attributes["gen_ai.tool.call.result"] == '{"token":"s3cret"}'


def test_spans_are_reported_while_the_run_goes_on(store: EventStore) -> None:
    """A span arrives when its event does, not when the telemetry is closed."""
    backend = Backend()
    arrived: list[str] = []

    class Arrivals(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            arrived.extend(span.name for span in spans)
            reported.set()
            return SpanExportResult.SUCCESS

    reported = Event()
    backend.tracers.add_span_processor(SimpleSpanProcessor(Arrivals()))
    with backend.telemetry(store):
        ask(store, store.conversation("support-42"))
        assert reported.wait(30)
        assert arrived == ["chat gemini-3"]


def test_a_declared_run_lasts_until_it_ends(store: EventStore) -> None:
    """Messages do not end it; its agent and its failure are those of the root span."""
    backend = Backend()
    with backend.telemetry(store):
        chat = store.conversation("support-42")
        for failure in (None, Failure(ErrorKind.TRANSIENT, "too slow")):
            chat.append(RunStarted("refunds"))
            refund(store, chat)
            refund(store, chat)
            chat.append(RunEnded("completed" if failure is None else "error", failure))
        chat.append(RunStarted("killed"))
        chat.append(RunStarted("refunds"))
    roots = [span for span in backend.spans if span.parent is None]
    assert [root.name for root in roots] == [
        "invoke_agent refunds",
        "invoke_agent refunds",
        "invoke_agent killed",
        "invoke_agent refunds",
    ]
    assert [root.status.description for root in roots] == [None, "too slow", None, None]
    assert [(root.attributes or {}).get("toolledger.open") for root in roots] == [
        None,
        None,
        None,
        True,
    ]
    assert len(backend.spans) == 16


def test_usage_that_is_recorded_after_the_last_message_is_of_its_run(store: EventStore) -> None:
    """The response's span has the root that has ended as its parent."""
    backend = Backend()
    with backend.telemetry(store):
        chat = store.conversation("support-42")
        for question in ("one", "two"):
            chat.add_message("user", question)
            chat.add_message("assistant", "yes")
            chat.append(ModelResponded("openai", "gpt-5", question))
    first, reported, second, reported_again = backend.spans
    assert (reported.parent, reported_again.parent) == (first.context, second.context)
    assert first.context != second.context


def test_a_run_that_began_earlier_is_reported_from_here(store: EventStore) -> None:
    """Events of before are known, and not told; the attempt under way has its real start."""
    chat = store.conversation("support-42")
    refund(store, chat)
    call = ask(store, chat)
    chat.start(call)
    backend = Backend()
    with backend.telemetry(store):
        advance(store, 30)
        chat.complete(call, "done")
        chat.add_message("assistant", "Done.")
    tool, root = backend.spans
    assert (tool.name, tool.parent) == ("execute_tool refund", root.context)
    assert (tool.end_time - tool.start_time) / SECOND == 30
    assert (root.end_time - root.start_time) / SECOND == 32


def test_a_kept_cursor_goes_on_where_it_was(store: EventStore) -> None:
    """Nothing is told twice, and nothing is passed over while no telemetry was there."""
    chat = store.conversation("support-42")
    backend = Backend()
    with backend.telemetry(store) as telemetry:
        call = ask(store, chat)
    kept = str(telemetry.cursor)
    chat.start(call)
    chat.complete(call, "done")
    with backend.telemetry(store, after=kept):
        chat.add_message("assistant", "Done.")
    assert backend.names == [
        "chat gemini-3",
        "invoke_agent",
        "execute_tool refund",
        "invoke_agent",
    ]


def test_forgotten_conversations_are_read_again(store: EventStore) -> None:
    """A span is told once and with its tool's name, however few conversations are remembered."""
    backend = Backend()
    names = ["one", "two", "three"]
    with backend.telemetry(store, conversations=1):
        calls = {name: ask(store, store.conversation(name)) for name in names}
        for name in names:
            store.conversation(name).start(calls[name])
        for name in names:
            advance(store, 10)
            store.conversation(name).complete(calls[name], "done")
    done = [span for span in backend.spans if "toolledger.open" not in (span.attributes or {})]
    assert [span.name for span in done] == ["chat gemini-3"] * 3 + ["execute_tool refund"] * 3
    assert [(span.end_time - span.start_time) / SECOND for span in done[3:]] == [10, 20, 30]
    with pytest.raises(ValueError, match="conversations is 0: pass 1 or more"):
        Telemetry(store, conversations=0)


def test_a_sub_agent_links_to_its_parent(store: EventStore) -> None:
    """The link leads to the root span of the parent's run."""
    backend = Backend()
    with backend.telemetry(store):
        parent, child = store.conversation("parent"), store.conversation("child")
        parent.append(RunStarted("chief"))
        child.append(RunStarted("helper", "parent", "call_1"))
        child.append(RunEnded("completed"))
        parent.append(RunEnded("completed"))
    helper, chief = backend.spans
    (link,) = helper.links
    assert link.context == chief.context
    assert dict(link.attributes or {}) == {"toolledger.parent_call_id": "call_1"}


def test_refusals_are_events_of_the_run(store: EventStore) -> None:
    """No tool ran, so there is no span."""
    backend = Backend()
    with backend.telemetry(store):
        chat = store.conversation("support-42")
        chat.reject(ask(store, chat), "never", by="ann")
    root = backend.spans[-1]
    (refused,) = root.events
    assert refused.name == "toolledger.rejected"
    assert (refused.attributes or {})["gen_ai.tool.name"] == "refund"


def test_the_sampler_of_the_user_decides(store: EventStore) -> None:
    """A run that is not sampled has no spans; it is measured all the same."""
    backend = Backend(sampler=ALWAYS_OFF)
    with backend.telemetry(store):
        refund(store, store.conversation("support-42"))
    assert backend.names == []
    assert sum(backend.points("gen_ai.client.token.usage").values()) == 120


def test_an_asynchronous_store_is_followed(tmp_path: Path) -> None:
    """The loop goes on meanwhile: nothing of the telemetry is awaited."""
    backend = Backend()

    async def run() -> None:
        async with AsyncEventStore.open(f"sqlite:///{tmp_path}/agent.db") as store:
            telemetry = backend.telemetry(store)
            chat = store.conversation("support-42")
            call = await chat.request("refund", {})
            async with chat.running(call.id) as attempt:
                await attempt.complete("done")
            await asyncio.to_thread(telemetry.close)

    asyncio.run(run())
    assert backend.names == ["execute_tool refund", "invoke_agent"]


def test_appends_of_others_are_reported(tmp_path: Path) -> None:
    """Another store on the same log stands for another process."""
    backend = Backend()
    url = f"sqlite:///{tmp_path}/agent.db"
    with EventStore.open(url) as store, backend.telemetry(store), EventStore.open(url) as other:
        other.conversation("support-42").append(ModelResponded("openai", "gpt-5"))
    assert backend.names == ["chat gpt-5", "invoke_agent"]


def test_a_store_that_is_closed_first_ends_the_telemetry(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A warning says that the last events are missing; closing may be repeated."""
    backend = Backend()
    with EventStore.open("sqlite://") as store:
        telemetry = backend.telemetry(store)
    telemetry.close()
    telemetry.close()
    assert backend.names == []
    assert "closed before its telemetry" in caplog.text


def test_the_global_providers_serve_without_others(store: EventStore) -> None:
    """Where the application has set none, nothing is told, and nothing fails."""
    provider = trace.get_tracer_provider()
    with Telemetry(store):
        refund(store, store.conversation("support-42"))
    assert trace.get_tracer_provider() is provider


@settings(max_examples=examples(10))
@given(steps=STEPS)
def test_an_exported_log_is_the_trace_of_otlp(steps: list[Step]) -> None:
    """Ids, names, times and attributes are those of `otlp_trace`, for any log."""
    events = played(steps)
    exporter = InMemorySpanExporter()
    export_trace(events, exporter, content=True)
    (resource,) = otlp_trace(events, content=True)["resourceSpans"]
    (written,) = resource["scopeSpans"]
    spans = exporter.get_finished_spans()
    assert [_facts(span) for span in spans] == [
        (
            each["traceId"],
            each["spanId"],
            each.get("parentSpanId"),
            each["name"],
            int(each["startTimeUnixNano"]),
            int(each["endTimeUnixNano"]),
            {attribute["key"] for attribute in each["attributes"]},
            len(each.get("events", ())),
        )
        for each in written["spans"]
    ]


def _facts(span: ReadableSpan) -> tuple[object, ...]:
    return (
        f"{span.context.trace_id:032x}",
        f"{span.context.span_id:016x}",
        span.parent and f"{span.parent.span_id:016x}",
        span.name,
        span.start_time,
        span.end_time,
        set(span.attributes or {}),
        len(span.events),
    )


def test_an_exporter_that_fails_is_reported(store: EventStore) -> None:
    """The error names the exporter and the conversation."""

    class Broken(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.FAILURE

    chat = store.conversation("support-42")
    refund(store, chat)
    with pytest.raises(RuntimeError, match="Broken did not export the 4 spans of 'support-42'"):
        export_trace(chat.events(), Broken())


def test_an_exported_sub_agent_links_to_the_trace_of_its_parent(store: EventStore) -> None:
    """Both are exported on their own, at any time."""
    parent, child = store.conversation("parent"), store.conversation("child")
    parent.append(RunStarted("chief"))
    child.append(RunStarted("helper", "parent", "call_1"))
    exporter = InMemorySpanExporter()
    for chat in (parent, child):
        export_trace(chat.events(), exporter)
    chief, helper = exporter.get_finished_spans()
    assert helper.resource.attributes["service.name"] == "helper"
    (link,) = helper.links
    assert (link.context.trace_id, link.context.span_id) == (
        chief.context.trace_id,
        chief.context.span_id,
    )


def test_names_are_those_of_the_conventions() -> None:
    """Every name in the source is in OpenTelemetry's own list, at the version that we tell."""
    if SCHEMA_URL not in {schema.value for schema in Schemas}:
        pytest.skip("this SDK has the names of older conventions")
    source = Path(__file__).parents[2]
    text = "".join(
        (source / file).read_text("utf-8")
        for file in (
            "projections/exports/genai_spans.py",
            "eventstore/integrations/opentelemetry.py",
        )
    )
    lists = {**vars(gen_ai_attributes), **vars(gen_ai_metrics)}
    known = {value for value in lists.values() if isinstance(value, str)}
    names = set(re.findall(r'"(gen_ai\.[a-z_.]+)"', text))
    assert len(names) > 15
    assert names - known == set()


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader types them, one after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    run_blocks(Path(__file__).parents[2] / "docs" / "opentelemetry.md")
