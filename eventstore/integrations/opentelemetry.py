"""OpenTelemetry: spans and metrics of a store, live or of a stored log.

    telemetry = Telemetry(store)

1. `Telemetry` follows the log in a thread of its own, and the agent waits for nothing. It sees the
   appends of all processes: one of those that share a log has one.
2. Which span and attribute comes from which event stands in `projections.exports.genai_spans`,
   at the version of the conventions in `SCHEMA_URL`.
3. A run of an agent is a trace. It lasts from `RunStarted` to `RunEnded`; where those are not
   recorded, from the first event to a message of the model that makes no calls.
4. Of a conversation that began earlier, the events before are read, and not exported.
5. Arguments and results may be private: they are there only on request.
"""

from __future__ import annotations

import logging
from threading import Thread
from typing import TYPE_CHECKING, Final, Self

from eventstore.aio.store import AsyncEventStore
from eventstore.domain.events import MessageAdded, ModelResponded, Recorded, RunEnded, RunStarted
from eventstore.errors import CursorLost, StoreClosed
from eventstore.integrations.extras import missing_extra
from eventstore.latch import Latch
from projections.exports.genai_spans import (
    SCHEMA_URL,
    Attribute,
    ConversationSpans,
    GenAISpan,
    service_name,
    span_id,
    spans_of_log,
    trace_id,
)

try:
    from opentelemetry.context import Context
    from opentelemetry.metrics import get_meter_provider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits
    from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import (
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
        get_current_span,
        get_tracer_provider,
        set_span_in_context,
    )
except ImportError as error:
    raise missing_extra("opentelemetry", error) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from eventstore.store import EventStore
    from eventstore.subscriptions.feed import Cursor

_log = logging.getLogger(__name__)

_TOKEN_BOUNDARIES: Final = tuple(4**power for power in range(14))
_SECOND_BOUNDARIES: Final = tuple(0.01 * 2**power for power in range(14))
_DIMENSIONS: Final = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.response.model",
    "gen_ai.tool.name",
    "error.type",
)
"""The attributes of a span that its measurements have, too: those with few values."""


class Telemetry:
    """Spans and metrics of what is appended to a store from now on, by any process.

    They go to the given providers of OpenTelemetry, otherwise to the global ones. With `content`
    the spans of tools hold arguments and results. `after` is a cursor to begin at: the `cursor` of
    an earlier one, kept over a restart. What the last `conversations` did is remembered, and
    read again for older ones that continue.

    Close it before the store: what was appended until then is exported.
    """

    def __init__(
        self,
        store: EventStore | AsyncEventStore,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
        after: Cursor | str | None = None,
        conversations: int = 1_000,
    ) -> None:
        if conversations < 1:
            raise ValueError(f"conversations is {conversations}: pass 1 or more")
        self._store = store.sync_store if isinstance(store, AsyncEventStore) else store
        tracers = get_tracer_provider() if tracer_provider is None else tracer_provider
        meters = get_meter_provider() if meter_provider is None else meter_provider
        self._tracer = tracers.get_tracer("toolledger", schema_url=SCHEMA_URL)
        self._measures = _Measures(meters.get_meter("toolledger", schema_url=SCHEMA_URL))
        self._content = content
        self._kept = conversations
        self._runs: dict[str, _LiveRuns] = {}  # the one of the latest event last
        self._stop = Latch()
        self._feed = self._store.follow(self._store.end() if after is None else after)
        self._thread = Thread(target=self._export_all, name="toolledger-telemetry", daemon=True)
        self._thread.start()

    @property
    def cursor(self) -> Cursor:
        """The place in the log up to which everything was exported."""
        return self._feed.cursor

    def close(self) -> None:
        """Export what was appended until now, end what is still open, and stop following."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _export_all(self) -> None:
        try:
            while not self._export_to_end():
                pass
        except StoreClosed:
            _log.warning("the store was closed before its telemetry: the last events are missing")
        finally:
            for runs in self._runs.values():
                runs.finish()

    def _export_to_end(self) -> bool:
        """Follow the log; return whether everything up to the end was exported."""
        try:
            self._feed = self._store.follow(self._feed.cursor, stop=self._stop)
            for recorded in self._feed:
                self._export(recorded)
            self._feed = self._store.follow(self._feed.cursor, timeout=0)
            for recorded in self._feed:
                self._export(recorded)
        except CursorLost as lost:
            _log.warning("the log was put back: its telemetry continues at %s", lost.restart)
            self._runs.clear()
            self._feed = self._store.follow(lost.restart)
            return False
        return True

    def _export(self, recorded: Recorded) -> None:
        name = recorded.conversation_id
        runs = self._runs.pop(name, None) or self._met(recorded)
        self._runs[name] = runs
        runs.add(recorded)
        if len(self._runs) > self._kept:
            self._runs.pop(next(iter(self._runs))).finish()

    def _met(self, recorded: Recorded) -> _LiveRuns:
        """Return the runs of a conversation that is new here, with what was before the event."""
        name, version = recorded.conversation_id, recorded.version
        past: list[Recorded] = []
        if version > 1:
            events = self._store.conversation(name).events()
            past = [earlier for earlier in events if earlier.version < version]
        spans = ConversationSpans(name, (*past, recorded)[0].time, content=self._content)
        emitter = _Emitter(self._tracer, self._root_of, self._measures)
        runs = _LiveRuns(spans, emitter)
        for earlier in past:
            runs.add(earlier)
        runs.is_live = True
        return runs

    def _root_of(self, conversation_id: str) -> SpanContext | None:
        runs = self._runs.get(conversation_id)
        return None if runs is None else get_current_span(runs.root_context()).get_span_context()


def export_trace(
    events: Iterable[Recorded], exporter: SpanExporter, *, content: bool = False
) -> None:
    """Hand the trace of a stored conversation to an exporter of the SDK.

    It is the trace of `projections.otlp_trace`, with the same ids: exported twice, it is the same.
    With `content` the spans of tools hold arguments and results.

    Raises:
        ValueError: there is no event, or they are of several conversations.
        RuntimeError: the exporter failed.
    """
    conversation_id, (root, *others) = spans_of_log(events, content=content)
    ids = _LogIds(conversation_id)
    made = InMemorySpanExporter()
    provider = SDKTracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource({"service.name": service_name(root)}),
        id_generator=ids,
        span_limits=SpanLimits(max_events=SpanLimits.UNSET, max_links=SpanLimits.UNSET),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(made))
    tracer = provider.get_tracer("toolledger", schema_url=SCHEMA_URL)
    emitter = _Emitter(tracer, _stored_root)
    parent = set_span_in_context(emitter.emit(root), Context())
    for span in others:
        ids.version = span.version
        emitter.emit(span, parent)
    finished = made.get_finished_spans()
    provider.shutdown()
    if exporter.export(finished) is not SpanExportResult.SUCCESS:
        raise RuntimeError(
            f"{type(exporter).__name__} did not export the {len(finished)} spans of "
            f"{conversation_id!r}: its own log says why; export them again"
        )


class _LiveRuns:
    """The runs of one conversation, one after the other, each a trace."""

    def __init__(self, spans: ConversationSpans, emitter: _Emitter) -> None:
        self.is_live = False
        """Whether spans are emitted: not while events of before are taken in."""
        self._spans = spans
        self._emitter = emitter
        self._root: Context | None = None  # once the root of the run was emitted
        self._is_declared = False  # by a RunStarted without its RunEnded

    def add(self, recorded: Recorded) -> None:
        """Take in an event, and emit the spans that began or ended with it."""
        event = recorded.event
        if self._begins_run(event):
            self._end_run(recorded.time)
            self._spans.begin_run(recorded.version, recorded.time)
            self._root = None
        self._is_declared = self._is_declared or isinstance(event, RunStarted)
        for span in self._spans.add(recorded):
            self._emit(span)
        if self._ends_run(event):
            self._end_run(recorded.time)
            self._is_declared = False

    def finish(self) -> None:
        """Emit what is still open, marked as such."""
        root = self._spans.root
        has_ended = root.end is not None
        for span in self._spans.finish():
            self._emit(span)
        if not has_ended:
            root.attributes["toolledger.open"] = True
            self._emit_root()

    def root_context(self) -> Context:
        """Return the context of the run under way, or of the last one."""
        if self._root is None:
            self._root = set_span_in_context(self._emitter.emit(self._spans.root), Context())
        return self._root

    def _begins_run(self, event: object) -> bool:
        """Return whether an event is of another run; what a run used may be told after its end."""
        if self._spans.root.end is not None:
            return not isinstance(event, ModelResponded)
        return self._is_declared and isinstance(event, RunStarted)  # the process before died

    def _ends_run(self, event: object) -> bool:
        match event:
            case RunEnded():
                return True
            case MessageAdded(role="assistant", calls=0):
                return not self._is_declared
            case _:
                return False

    def _end_run(self, time: int) -> None:
        if self._spans.root.end is None:
            self._spans.root.close(time)
            self._emit_root()

    def _emit(self, span: GenAISpan) -> None:
        if self.is_live:
            self._emitter.emit(span, self.root_context())

    def _emit_root(self) -> None:
        if not self.is_live:
            return
        if self._root is None:
            self.root_context()
        else:
            self._emitter.emit(self._spans.root)


class _Emitter:
    """Starts and ends the spans of a tracer as ours begin and end."""

    def __init__(
        self,
        tracer: Tracer,
        root_of: Callable[[str], SpanContext | None],
        measures: _Measures | None = None,
    ) -> None:
        self._tracer = tracer
        self._root_of = root_of
        self._measures = measures
        self._open: dict[GenAISpan, Span] = {}

    def emit(self, span: GenAISpan, parent: Context | None = None) -> Span:
        """Start a span unless it was started, and end it if it has an end."""
        emitted = self._open.pop(span, None)
        if emitted is None:
            emitted = self._tracer.start_span(
                span.name,
                context=Context() if parent is None else parent,
                kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
                attributes=span.attributes,
                start_time=_nanoseconds(span.start),
            )
        if span.end is None:
            self._open[span] = emitted
        else:
            self._end(emitted, span, span.end)
        return emitted

    def _end(self, emitted: Span, span: GenAISpan, end: int) -> None:
        emitted.update_name(span.name)
        emitted.set_attributes(span.attributes)
        for note in span.notes:
            emitted.add_event(note.name, note.attributes, timestamp=_nanoseconds(note.time))
        parent = span.link and self._root_of(span.link.conversation_id)
        if span.link and parent:
            emitted.add_link(parent, span.link.attributes)
        if span.failure is not None:
            emitted.set_status(Status(StatusCode.ERROR, span.failure.message))
        if self._measures is not None:
            self._measures.record(span, set_span_in_context(emitted, Context()))
        emitted.end(end_time=_nanoseconds(end))


class _Measures:
    """The metrics of the conventions: tokens of a response, seconds of an operation."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDARIES,
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of an operation",
            explicit_bucket_boundaries_advisory=_SECOND_BOUNDARIES,
        )

    def record(self, span: GenAISpan, context: Context) -> None:
        """Record what a span that ended says of tokens and of its operation's own time."""
        named: dict[str, Attribute] = {
            name: span.attributes[name] for name in _DIMENSIONS if name in span.attributes
        }
        if span.duration is not None:
            self._seconds.record(span.duration / 1_000_000, named, context)
        for kind in ("input", "output"):
            tokens = span.attributes.get(f"gen_ai.usage.{kind}_tokens")
            if isinstance(tokens, int):
                self._tokens.record(tokens, {**named, "gen_ai.token.type": kind}, context)


class _LogIds(IdGenerator):
    """The ids of the log's own trace, in place of random ones."""

    def __init__(self, conversation_id: str) -> None:
        self.version = 0
        self._conversation_id = conversation_id

    def generate_trace_id(self) -> int:
        """Return the id of the conversation's trace."""
        return int(trace_id(self._conversation_id), 16)

    def generate_span_id(self) -> int:
        """Return the id of the span that began with the version."""
        return int(span_id(self._conversation_id, self.version), 16)


def _stored_root(conversation_id: str) -> SpanContext:
    """Return the root span of the trace that `export_trace` makes of a conversation."""
    return SpanContext(
        int(trace_id(conversation_id), 16),
        int(span_id(conversation_id, 0), 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _nanoseconds(microseconds: int) -> int:
    return max(microseconds, 0) * 1_000
