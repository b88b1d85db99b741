"""Error statistics: what became of the calls, per tool, error kind and fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self, TypeVar

from eventstore import (
    ErrorKind,
    FunctionCall,
    Recorded,
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
        if type(fingerprints) is not int or fingerprints < 1:
            raise ValueError(f"fingerprints is {fingerprints!r}: pass 1 or more")
        self._limit = fingerprints
        self._events = 0
        self._streams: dict[str, _Stream] = {}
        self._tools: dict[str, ToolTally] = {}
        self._kinds: dict[ErrorKind, KindTally] = {}
        self._marks: dict[str, MarkTally] = {}
        self._numbered = 0
        self._forgotten = 0
        self._seen: set[int] = set()  # of each conversation, the fingerprints asked for
        self._anomaly_count = 0
        self._anomalies: list[Anomaly] = []

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        self.extend((recorded,))

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, each conversation in its order."""
        # The loop that every event of a log goes through: nothing is called that need not be.
        streams, steps = self._streams, self._steps
        for recorded in events:
            self._events += 1
            version = recorded.version
            stream = streams.get(recorded.conversation_id)
            if stream is None:
                stream = streams[recorded.conversation_id] = _Stream(len(streams), version)
            elif version == stream.version + 1:
                stream.version = version
            else:
                self._note(recorded, misplaced(version, stream.version))
                if version <= stream.version:
                    continue
                stream.version = version
            event: Any = recorded.event
            if type(event) is UnknownEvent:
                if problem := unreadable(event):
                    self._note(recorded, problem)
                continue
            tag = event.tag  # of a whole event, or of its outline
            if tag == "pending":
                self._requested(stream, recorded, event)
            elif tag in steps:
                step, after = steps[tag]
                call = stream.calls.get(event.call_id) or self._kept(stream, event.call_id)
                if call is not None and call.status in after:
                    step(self, stream, call, recorded, event)
                else:
                    self._refuse(recorded, event, call)
        return self

    def _note(self, recorded: Recorded, problem: str) -> None:
        self._anomaly_count += 1
        if len(self._anomalies) < ANOMALIES:
            self._anomalies.append(anomaly(recorded, problem))

    def _refuse(self, recorded: Recorded, event: Any, call: LiveCall | None) -> None:
        """Note what is wrong with a step that cannot follow; to repeat the last one is no wrong."""
        try:
            evolve(call.tool() if call else None, event)
        except Exception as error:  # noqa: BLE001 - an IllegalTransition, or a value not JSON
            self._note(recorded, str(error))

    # the life of a call

    def _requested(self, stream: _Stream, recorded: Recorded, event: ToolPending) -> None:
        asked = event.call
        call_id = asked.id
        if not call_id:
            self._note(recorded, NAMELESS)
            return
        if call := stream.calls.get(call_id) or self._kept(stream, call_id):
            self._refuse(recorded, event, call)
            return
        at = recorded.recorded_at
        named = self._named(asked.name, at)
        mark = self._mark(recorded.fingerprint or fingerprint_of(recorded, asked), asked.name)
        stream.calls[call_id] = self._call(call_id, asked, named, mark, at)
        if mark.calls:
            mark.describe(asked)
        named.calls += 1
        mark.calls += 1
        if mark.number and self._is_again(stream, mark):
            named.repeated += 1
            mark.repeated += 1

    def _kept(self, stream: _Stream, call_id: str) -> LiveCall | None:  # noqa: ARG002
        """A call that is not settled, from where the calls are kept that nothing happens to."""
        return None

    def _is_again(self, stream: _Stream, mark: MarkTally) -> bool:
        """Whether the conversation has asked for the same before; from now on it has."""
        before = len(self._seen)
        self._seen.add(stream.number << _NUMBER_BITS | mark.number)
        return len(self._seen) == before

    def _approved(
        self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolApproved
    ) -> None:
        at = recorded.recorded_at
        call.named.waiting.add(at - call.since)
        call.status, call.since, call.edit = "Approved", at, event.edited_call
        if call.edit is not None:
            call.mark = self._mark(fingerprint_of(recorded, call.edit), call.edit.name)

    def _rejected(
        self, stream: _Stream, call: LiveCall, recorded: Recorded, event: ToolRejected
    ) -> None:
        if event.source == "human" and call.status == "Pending":
            call.named.waiting.add(recorded.recorded_at - call.since)
        call.mark.describe(call.edit or call.asked)
        for tally in call.tallies:
            tally.rejected(event.source)
        del stream.calls[call.id]

    def _running(self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolRunning) -> None:
        attempt = call.attempts + 1
        if event.attempt != attempt:
            self._refuse(recorded, event, call)
            return
        at, named, mark = recorded.recorded_at, call.named, call.mark
        named.attempts += 1
        mark.attempts += 1
        if call.status == "Failed":
            self._last_kind(call).retried += 1
        elif call.status == "Running":  # and nobody knows how the last attempt ended
            call.went_wrong()
            named.lost += 1
            mark.lost += 1
        else:
            named.queueing.add(at - call.since)
        if attempt > 1:
            named.retries += 1
            mark.retries += 1
        call.status, call.since, call.attempts = "Running", at, attempt

    def _completed(
        self, stream: _Stream, call: LiveCall, recorded: Recorded, event: ToolCompleted
    ) -> None:
        named, mark = call.named, call.mark
        self._took(call, recorded, event.duration)
        named.completions += 1
        mark.completions += 1
        if call.mishap:
            self._mended(call)
        if call.mishap or event.synthetic or event.lossy:
            for tally in call.tallies:
                tally.not_at_once += call.mishap or event.synthetic
                tally.synthetic += event.synthetic
                tally.lossy += event.lossy
        del stream.calls[call.id]

    def _mended(self, call: LiveCall) -> None:
        """A call completed after all: in a later attempt, or its answer came late."""
        if call.status != "Failed":
            if call.kind is not None:
                self._last_kind(call).recovered += 1
            for tally in call.tallies:
                tally.recovered += 1
        elif call.in_doubt:
            for tally in call.tallies:
                tally.lost -= 1  # now it is known

    def _failed(self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolFailed) -> None:
        self._took(call, recorded, event.duration)
        call.went_wrong()
        call.mark.describe(call.edit or call.asked)
        call.kind = kind = event.failure.kind
        call.in_doubt = outcome_unknown(event.failure)
        self._last_kind(call).failed(call.asked.name)
        for tally in call.tallies:
            tally.failed(kind)
            tally.lost += call.in_doubt
        # It may stay failed for good: keep what a retry or a late answer needs, and no more.
        call.status, call.asked, call.edit = "Failed", call.named.name_only, None

    def _took(self, call: LiveCall, recorded: Recorded, duration: int | None) -> None:
        """Note how long an attempt took: as it was measured, else as the log has it."""
        if duration is not None:
            call.named.took.add(duration)
        elif call.status == "Running":
            call.named.took.add(recorded.recorded_at - call.since)

    # of each step, the statuses that it may follow: what `evolve` allows, and nothing else
    _steps: ClassVar[dict[str, tuple[Callable[..., None], tuple[str, ...]]]] = {
        "approved": (_approved, ("Pending",)),
        "rejected": (_rejected, ("Pending", "Approved")),
        "running": (_running, ("Pending", "Approved", "Failed", "Running")),
        "completed": (_completed, ("Pending", "Approved", "Running", "Failed")),
        "failed": (_failed, ("Pending", "Approved", "Running")),
    }

    # the tallies

    def _named(self, name: str, at: int) -> ToolTally:  # noqa: ARG002
        """Where a call of a tool is counted that was asked for at a time."""
        tally = self._tools.get(name)
        if tally is None:
            tally = self._tools[name] = ToolTally(name_only=FunctionCall(name, None))
        return tally

    def _kinds_of(self, call: LiveCall) -> dict[ErrorKind, KindTally]:  # noqa: ARG002
        """Where the failures of a call are counted."""
        return self._kinds

    def _last_kind(self, call: LiveCall) -> KindTally:
        """The numbers of the kind that a call failed with last."""
        kinds = self._kinds_of(call)
        assert call.kind is not None  # noqa: S101 - it failed
        tally = kinds.get(call.kind)
        if tally is None:
            tally = kinds[call.kind] = KindTally()
        return tally

    def _mark(self, fingerprint: str | None, tool: str) -> MarkTally:
        if fingerprint is None:
            return MarkTally(tool=tool)  # arguments that nothing can equal: kept by nobody
        tally = self._marks.get(fingerprint)
        if tally is None:
            if len(self._marks) >= self._limit:
                self._forget()
            self._numbered += 1
            tally = self._marks[fingerprint] = self._new_mark(fingerprint, tool)
        return tally

    def _new_mark(self, fingerprint: str, tool: str) -> MarkTally:  # noqa: ARG002
        return MarkTally(tool=tool, number=self._numbered)

    def _forget(self) -> None:
        """Make room: of the fingerprints, keep the half that failed and repeated most."""
        # Of equals the oldest stands first, and stays there.
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
                self._weigh(call, 1)

    def _weigh(self, call: LiveCall, sign: int) -> None:
        """Count a call that is not settled as it stands, or no more so."""
        if call.status == "Failed":
            self._last_kind(call).terminal += sign
        for tally in (call.named, call.mark):
            if call.status == "Failed":
                tally.terminal += sign
                continue
            tally.open += sign
            tally.running += sign * (call.status == "Running")


class _Stream:
    """One conversation: its number, its highest version so far, and its calls in progress."""

    __slots__ = ("calls", "number", "version")

    def __init__(self, number: int, version: int) -> None:
        self.number = number
        self.version = version
        self.calls: dict[str, LiveCall] = {}


def _worst_first(numbers: dict[str, _N]) -> dict[str, _N]:
    alike: dict[tuple[int, ...], list[str]] = {}
    for name, its in numbers.items():
        alike.setdefault(its.goodness, []).append(name)
    return {name: numbers[name] for goodness in sorted(alike) for name in sorted(alike[goodness])}


def error_statistics(events: Iterable[Recorded], *, fingerprints: int = FINGERPRINTS) -> Statistics:
    """What became of the calls of `events`; `print` it, or encode it as JSON.

    At most `fingerprints` fingerprints are told apart at a time; see `ErrorStatistics`.
    """
    return ErrorStatistics(fingerprints).extend(events).result()
