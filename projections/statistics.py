"""Error statistics: what became of the calls, per tool, error kind and fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from eventstore import (
    ErrorKind,
    Failed,
    Failure,
    FunctionCall,
    Pending,
    Recorded,
    Running,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
    evolve,
)
from eventstore.recovery import outcome_unknown
from projections.figures import Numbers, Statistics
from projections.fold import (
    NAMELESS,
    Anomaly,
    Projection,
    anomaly,
    fingerprint_of,
    misplaced,
    unreadable,
)
from projections.tallies import KindTally, LiveCall, MarkTally, ToolTally

_N = TypeVar("_N", bound=Numbers)

ANOMALIES = 100
"""So many anomalies are kept; all are counted."""

FINGERPRINTS = 50_000
"""So many fingerprints are kept, unless asked otherwise."""

_ENDS = ("completed", "rejected")
_NUMBER_BITS = 40
_NUMBERS = (1 << _NUMBER_BITS) - 1


class ErrorStatistics(Projection):
    """The numbers so far; `result()` sums them up.

    A settled call is forgotten, and a failed one kept as little more than its name: memory grows
    with the open and failed calls, the conversations and the `fingerprints` kept, not with the
    log. When there are more, the half that failed and repeated least is forgotten.

    Each number is booked under the fingerprint in force: calls, repeats and rejections under what
    the model asked for, what follows an edit under the edit's.
    """

    _call: ClassVar[type[LiveCall]] = LiveCall

    def __init__(self, fingerprints: int = FINGERPRINTS) -> None:
        if fingerprints < 1:
            raise ValueError(f"fingerprints is {fingerprints}: pass 1 or more")
        self._limit = fingerprints
        self._events = 0
        self._streams: dict[str, _Stream] = {}
        self._tools: dict[str, ToolTally] = {}
        self._kinds: dict[ErrorKind, KindTally] = {}
        self._marks: dict[str, MarkTally] = {}
        self._numbered = 0
        self._forgotten = 0
        self._seen: set[int] = set()  # of each conversation, the fingerprints asked for
        self._ends: dict[tuple[ErrorKind, bool], Failed] = {}
        self._anomaly_count = 0
        self._anomalies: list[Anomaly] = []

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        self._events += 1
        stream = self._streams.get(recorded.conversation_id)
        if stream is None:
            number = len(self._streams)
            stream = self._streams[recorded.conversation_id] = _Stream(number, recorded.version - 1)
        if recorded.version != stream.version + 1:
            self._note(recorded, misplaced(recorded.version, stream.version))
            if recorded.version <= stream.version:
                return
        stream.version = recorded.version
        event: Any = recorded.event
        tag = event.tag  # of a whole event, or of its outline
        if type(event) is UnknownEvent:
            if problem := unreadable(event):
                self._note(recorded, problem)
        elif tag == "pending":
            self._requested(stream, recorded, event)
        elif tag in self._steps:
            self._step(stream, stream.calls.get(event.call_id), recorded, event)

    def _note(self, recorded: Recorded, problem: str) -> None:
        self._anomaly_count += 1
        if len(self._anomalies) < ANOMALIES:
            self._anomalies.append(anomaly(recorded, problem))

    # the life of a call

    def _requested(self, stream: _Stream, recorded: Recorded, event: ToolPending) -> None:
        asked = event.call
        if not asked.id:
            self._note(recorded, NAMELESS)
            return
        if known := stream.calls.get(asked.id):
            self._step(stream, known, recorded, event)  # for what the table says of it
            return
        named = self._tools.get(asked.name) or self._tool(asked.name)
        mark = self._mark(fingerprint_of(recorded, asked), asked)
        tool = evolve(None, event, recorded.recorded_at, recorded.fingerprint)
        stream.calls[asked.id] = self._call(tool, named, mark)
        if mark.calls:
            mark.describe(asked)
        named.calls += 1
        mark.calls += 1
        if self._is_again(stream, mark):
            named.repeated += 1
            mark.repeated += 1

    def _is_again(self, stream: _Stream, mark: MarkTally) -> bool:
        """Whether the conversation has asked for the same before; from now on it has."""
        if not mark.number:
            return False
        before = len(self._seen)
        self._seen.add(stream.number << _NUMBER_BITS | mark.number)
        return len(self._seen) == before

    def _step(self, stream: _Stream, call: LiveCall | None, recorded: Recorded, event: Any) -> None:
        before = call.tool if call else None
        try:
            after = evolve(before, event, recorded.recorded_at, recorded.fingerprint)
        except Exception as error:  # noqa: BLE001 - an IllegalTransition, or a value not JSON
            self._note(recorded, str(error))
            return
        if call is None or before is None or after is before:
            return
        call.tool = after
        tag = event.tag
        self._steps[tag](self, call, before, recorded, event)
        if tag in _ENDS:
            del stream.calls[event.call_id]

    def _approved(
        self, call: LiveCall, before: Tool, recorded: Recorded, event: ToolApproved
    ) -> None:
        call.named.waiting.add(_between(before.requested_at, recorded.recorded_at))
        if event.edited_call is not None:
            call.mark = self._mark(fingerprint_of(recorded, event.edited_call), event.edited_call)

    def _rejected(
        self, call: LiveCall, before: Tool, recorded: Recorded, event: ToolRejected
    ) -> None:
        if event.source == "human" and type(before.status) is Pending:
            call.named.waiting.add(_between(before.requested_at, recorded.recorded_at))
        call.mark.describe(before.effective_call)
        for tally in call.tallies:
            tally.rejected(event.source)

    def _running(self, call: LiveCall, before: Tool, recorded: Recorded, _: ToolRunning) -> None:
        call.named.attempts += 1
        call.mark.attempts += 1
        status = before.status
        if type(status) is Failed:
            self._kind(status.failure.kind).retried += 1
        elif type(status) is Running:
            self._lost(call)
        else:
            since = before.requested_at if before.decided_at is None else before.decided_at
            call.named.queueing.add(_between(since, recorded.recorded_at))
        if before.attempts:
            for tally in call.tallies:
                tally.retries += 1

    def _lost(self, call: LiveCall) -> None:
        """The next attempt began, and nobody knows how the last one ended."""
        call.went_wrong()
        for tally in call.tallies:
            tally.lost += 1

    def _completed(
        self, call: LiveCall, before: Tool, recorded: Recorded, event: ToolCompleted
    ) -> None:
        self._took(call, before, recorded, event.duration)
        call.named.completions += 1
        call.mark.completions += 1
        if call.mishap:
            self._mended(call, before)
        if call.mishap or event.synthetic or event.lossy:
            for tally in call.tallies:
                tally.not_at_once += call.mishap or event.synthetic
                tally.synthetic += event.synthetic
                tally.lossy += event.lossy

    def _mended(self, call: LiveCall, before: Tool) -> None:
        """A call completed after all: in a later attempt, or its answer came late."""
        status = before.status
        if type(status) is not Failed:
            if call.kind is not None:
                self._kind(call.kind).recovered += 1
            for tally in call.tallies:
                tally.recovered += 1
        elif outcome_unknown(status.failure):
            for tally in call.tallies:
                tally.lost -= 1  # now it is known

    def _failed(self, call: LiveCall, before: Tool, recorded: Recorded, event: ToolFailed) -> None:
        self._took(call, before, recorded, event.duration)
        call.went_wrong()
        call.mark.describe(before.effective_call)
        call.kind = kind = event.failure.kind
        self._kind(kind).failed(before.call.name)
        unknown = outcome_unknown(event.failure)
        for tally in call.tallies:
            tally.failed(kind)
            tally.lost += unknown
        # It may stay failed for good: keep what a retry or a late answer needs, and no more.
        end = self._end(kind, unknown=unknown)
        call.tool = Tool(before.id, call.named.name_only, end, before.attempts)

    def _took(self, call: LiveCall, before: Tool, recorded: Recorded, duration: int | None) -> None:
        """Note how long an attempt took: as it was measured, else as the log has it."""
        if duration is not None:
            call.named.took.add(duration)
        elif type(before.status) is Running:
            call.named.took.add(_between(before.started_at, recorded.recorded_at))

    _steps: ClassVar[dict[str, Callable[..., None]]] = {
        "approved": _approved,
        "rejected": _rejected,
        "running": _running,
        "completed": _completed,
        "failed": _failed,
    }

    # the tallies

    def _tool(self, name: str) -> ToolTally:
        tally = self._tools[name] = ToolTally(name_only=FunctionCall(name, None))
        return tally

    def _kind(self, kind: ErrorKind) -> KindTally:
        tally = self._kinds.get(kind)
        if tally is None:
            tally = self._kinds[kind] = KindTally()
        return tally

    def _end(self, kind: ErrorKind, *, unknown: bool) -> Failed:
        end = self._ends.get((kind, unknown))
        if end is None:
            failure = Failure(kind, "", code="interrupted" if unknown else None)
            end = self._ends[kind, unknown] = Failed(failure)
        return end

    def _mark(self, fingerprint: str | None, call: FunctionCall) -> MarkTally:
        if fingerprint is None:
            return MarkTally(tool=call.name)  # arguments that nothing can equal: kept by nobody
        tally = self._marks.get(fingerprint)
        if tally is None:
            if len(self._marks) >= self._limit:
                self._forget()
            self._numbered += 1
            tally = self._marks[fingerprint] = MarkTally(tool=call.name, number=self._numbered)
        return tally

    def _forget(self) -> None:
        """Make room: of the fingerprints, keep the half that failed and repeated most."""
        worst = sorted(self._marks.values(), key=MarkTally.weight)
        kept = {tally.number for tally in worst[(len(worst) + 1) // 2 :]}
        self._forgotten += len(worst) - len(kept)
        self._marks = {mark: t for mark, t in self._marks.items() if t.number in kept}
        self._seen = {pair for pair in self._seen if pair & _NUMBERS in kept}

    # the result

    def result(self) -> Statistics:
        """The numbers of all events so far."""
        self._count_live()
        overall = ToolTally()
        for tool in self._tools.values():
            overall.include(tool)
        by_kind = {str(kind): tally.numbers() for kind, tally in self._kinds.items()}
        return Statistics(
            events=self._events,
            conversations=len(self._streams),
            overall=overall.numbers(),
            by_tool=_worst_first({name: tally.numbers() for name, tally in self._tools.items()}),
            by_kind=dict(sorted(by_kind.items(), key=lambda item: (-item[1].failures, item[0]))),
            by_fingerprint=_worst_first({mark: t.numbers() for mark, t in self._marks.items()}),
            forgotten=self._forgotten,
            anomaly_count=self._anomaly_count,
            anomalies=tuple(self._anomalies),
        )

    def _count_live(self) -> None:
        """Count the calls that are not settled, as they stand now."""
        for tally in (*self._tools.values(), *self._marks.values()):
            tally.open = tally.running = tally.terminal = 0
        for kind in self._kinds.values():
            kind.terminal = 0
        for stream in self._streams.values():
            for call in stream.calls.values():
                self._count(call)

    def _count(self, call: LiveCall) -> None:
        status = call.tool.status
        if type(status) is Failed:
            self._kind(status.failure.kind).terminal += 1
        for tally in call.tallies:
            tally.open += type(status) is not Failed
            tally.running += type(status) is Running
            tally.terminal += type(status) is Failed


class _Stream:
    """One conversation: its number, its highest version so far, and its calls in progress."""

    __slots__ = ("calls", "number", "version")

    def __init__(self, number: int, version: int) -> None:
        self.number = number
        self.version = version
        self.calls: dict[str, LiveCall] = {}


def _between(start: int | None, end: int) -> int:
    return end - start if start is not None else 0


def _worst_first(numbers: dict[str, _N]) -> dict[str, _N]:
    return dict(sorted(numbers.items(), key=lambda item: (item[1].goodness, item[0])))


def error_statistics(events: Iterable[Recorded], *, fingerprints: int = FINGERPRINTS) -> Statistics:
    """What became of the calls of `events`; `print` it, or encode it as JSON.

    At most `fingerprints` fingerprints are told apart at a time; see `ErrorStatistics`.
    """
    return ErrorStatistics(fingerprints).extend(events).result()
