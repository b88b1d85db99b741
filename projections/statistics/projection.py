"""Error statistics: what became of the calls, per tool, error kind and fingerprint.

1. A call is counted when the model asks for it, and again at each step of its life, under its
   tool and under its fingerprint.
2. A step that the call's status does not allow changes no count. It is noted as an anomaly, and
   so is a missing, late or repeated version.
3. A call that completed or was rejected is forgotten. Of a failed call only its tool, its last
   error kind and its attempts are kept: a retry or a late answer may follow.
4. What a person says of a call in doubt is counted apart, as a settlement: the tool did not fail.
5. What changes from moment to moment (open, running, terminally failed) is counted in `result()`.

Folding a prefix and then the rest equals folding the whole.
"""

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
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
    UnknownEvent,
    evolve,
)
from eventstore.domain.lifecycle import TRANSITIONS
from eventstore.domain.settlement import settled_as
from projections.projection import (
    NO_CALL_ID,
    Anomaly,
    Projection,
    anomaly,
    fingerprint_of,
    outlined,
    version_problem,
)
from projections.statistics.counters import (
    ErrorKindCounter,
    FingerprintCounter,
    LiveCall,
    ToolCounter,
)
from projections.statistics.results import CallStatistics, Statistics

_S = TypeVar("_S", bound=CallStatistics)

MAX_ANOMALIES = 100
"""Anomalies that are kept; all are counted."""

MAX_FINGERPRINTS = 50_000
"""Fingerprints that are counted one by one, unless the caller asks for another limit."""

_NUMBER_BITS = 40  # of a fingerprint's number, in a pair of conversation and fingerprint
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1


class ErrorStatistics(Projection):
    """The counts so far; `result()` sums them up.

    Memory grows with the open and failed calls, the conversations and the `fingerprints` kept,
    not with the log. When there are more fingerprints than that, the half with the fewest
    failures and repeats is forgotten.

    Each count is kept under the fingerprint in force: calls, repeats and rejections under what
    the model asked for, what follows an edit under the edit's fingerprint.

    Raises:
        ValueError: `fingerprints` is not 1 or more.
    """

    _call_class: ClassVar[type[LiveCall]] = LiveCall

    def __init__(self, fingerprints: int = MAX_FINGERPRINTS) -> None:
        if type(fingerprints) is not int or fingerprints < 1:
            raise ValueError(f"fingerprints is {fingerprints!r}: pass 1 or more")
        self._max_fingerprints = fingerprints
        self._events = 0
        self._streams: dict[str, _Stream] = {}
        self._tools: dict[str, ToolCounter] = {}
        self._kinds: dict[ErrorKind, ErrorKindCounter] = {}
        self._fingerprints: dict[str, FingerprintCounter] = {}
        self._last_number = 0
        self._forgotten = 0
        self._requested: set[int] = set()  # pairs of conversation and fingerprint, by number
        self._anomaly_count = 0
        self._anomalies: list[Anomaly] = []

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        self.extend((recorded,))

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, each conversation in its order."""
        # Every event of a log goes through this loop: it makes no call that it can do without.
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
                self._note(recorded, version_problem(version, stream.version))
                if version <= stream.version:
                    continue
                stream.version = version
            event: Any = recorded.event
            if type(event) is UnknownEvent:
                if problem := event.problem:
                    self._note(recorded, problem)
                continue
            tag = event.tag  # of a whole event, or of its header
            if tag == "pending":
                self._count_request(stream, recorded, event)
            elif tag in steps:
                step, allowed_after = steps[tag]
                call = stream.calls.get(event.call_id) or self._resting_call(stream, event.call_id)
                if call is not None and call.status in allowed_after:
                    step(self, stream, call, recorded, event)
                else:
                    self._note_illegal(recorded, event, call)
        return self

    def _note(self, recorded: Recorded, problem: str) -> None:
        self._anomaly_count += 1
        if len(self._anomalies) < MAX_ANOMALIES:
            self._anomalies.append(anomaly(recorded, problem))

    def _note_illegal(self, recorded: Recorded, event: Any, call: LiveCall | None) -> None:
        """Note why a step cannot follow; a repetition of the last step is not an anomaly."""
        try:
            evolve(call.tool() if call else None, event)
        except Exception as error:  # noqa: BLE001 - IllegalTransition, or a value that is not JSON
            self._note(recorded, str(error))

    # the life of a call

    def _count_request(self, stream: _Stream, recorded: Recorded, event: ToolPending) -> None:
        asked = event.call
        call_id = asked.id
        if not call_id:
            self._note(recorded, NO_CALL_ID)
            return
        if call := stream.calls.get(call_id) or self._resting_call(stream, call_id):
            self._note_illegal(recorded, event, call)
            return
        at = recorded.time
        tool = self._tool_counter(asked.name, at)
        fingerprint = self._fingerprint_counter(
            recorded.fingerprint or fingerprint_of(recorded, asked), asked.name
        )
        stream.calls[call_id] = self._call_class(
            call_id, asked, tool, fingerprint, at, imported=event.imported
        )
        if fingerprint.calls:
            fingerprint.describe(asked)
        tool.calls += 1
        fingerprint.calls += 1
        if fingerprint.number and self._is_repeated(stream, fingerprint):
            tool.repeated += 1
            fingerprint.repeated += 1

    def _resting_call(self, _stream: _Stream, _call_id: str, /) -> LiveCall | None:
        """Return a call that is not in memory; a subclass may keep such calls elsewhere."""
        return None

    def _is_repeated(self, stream: _Stream, fingerprint: FingerprintCounter) -> bool:
        """Return whether the conversation has asked for the same before; note that it has now."""
        before = len(self._requested)
        self._requested.add(stream.number << _NUMBER_BITS | fingerprint.number)
        return len(self._requested) == before

    def _count_approval(
        self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolApproved
    ) -> None:
        at = recorded.time
        call.tool_counter.waiting.add(at - call.since)
        call.status, call.since = "Approved", at
        call.approval_expires = event.expires_at is not None
        if event.edited_call is not None:
            call.edit = event.edited_call
            fingerprint = fingerprint_of(recorded, call.edit)
            call.fingerprint_counter = self._fingerprint_counter(fingerprint, call.edit.name)

    def _count_rejection(
        self, stream: _Stream, call: LiveCall, recorded: Recorded, event: ToolRejected
    ) -> None:
        if event.source == "human" and call.status == "Pending":
            call.tool_counter.waiting.add(recorded.time - call.since)
        call.fingerprint_counter.describe(call.edit or call.asked)
        for counter in call.counters:
            counter.rejected(event.source)
        del stream.calls[call.id]

    def _count_start(
        self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolRunning
    ) -> None:
        attempt = call.attempts + 1
        if event.attempt != attempt:
            self._note_illegal(recorded, event, call)
            return
        at, tool, fingerprint = recorded.time, call.tool_counter, call.fingerprint_counter
        tool.attempts += 1
        fingerprint.attempts += 1
        follows_failure = call.status == "Failed" or call.retry_announced
        if follows_failure and call.kind is not None:
            self._kind_counter(call, call.kind).retried += 1
        elif call.status == "Running":  # the end of the last attempt was never recorded
            call.count_first_try_failure()
            call.count_lost(1)
        elif attempt == 1:
            tool.queueing.add(at - call.since)
        if attempt > 1 and (follows_failure or call.status == "Running"):
            tool.retries += 1
            fingerprint.retries += 1
        call.status, call.since, call.attempts = "Running", at, attempt
        call.runs_again = call.retry_announced = False

    def _count_renewal(
        self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolRenewed
    ) -> None:
        if event.attempt != call.attempts:
            self._note_illegal(recorded, event, call)

    def _count_pause(
        self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolPaused
    ) -> None:
        is_running = call.status == "Running"
        may_not_pause = call.status == "Failed" and not call.tool().retries_on_approval
        if may_not_pause or event.attempt != (call.attempts if is_running else 0):
            self._note_illegal(recorded, event, call)
            return
        if is_running:
            for counter in call.counters:
                counter.pauses += 1
        call.status, call.since = "Pending", recorded.time
        if event.until is None:
            call.approval_expires = False

    def _count_completion(
        self, stream: _Stream, call: LiveCall, recorded: Recorded, event: ToolCompleted
    ) -> None:
        tool, fingerprint = call.tool_counter, call.fingerprint_counter
        settled = self._count_settlement(call, event)
        tool.completions += 1
        fingerprint.completions += 1
        if not settled:
            self._record_duration(call, recorded, event.duration)
            if call.first_try_failed:
                self._count_recovery(call)
        if call.first_try_failed or event.synthetic or event.lossy:
            for counter in call.counters:
                counter.not_first_try += call.first_try_failed or event.synthetic
                counter.synthetic += event.synthetic and not settled
                counter.lossy += event.lossy
        del stream.calls[call.id]

    def _count_recovery(self, call: LiveCall) -> None:
        """Count a call that completed after all: in a later attempt, or by a late answer."""
        if call.status != "Failed":
            if call.kind is not None:
                self._kind_counter(call, call.kind).recovered += 1
            for counter in call.counters:
                counter.recovered += 1
        elif call.in_doubt:
            call.count_lost(-1)  # its outcome is known now

    def _count_failure(
        self, _: _Stream, call: LiveCall, recorded: Recorded, event: ToolFailed
    ) -> None:
        if call.status == "Failed":
            self._count_end_of_doubt(call, recorded, event)
            return
        call.count_first_try_failure()
        call.fingerprint_counter.describe(call.edit or call.asked)
        if self._count_settlement(call, event):
            call.kind = None
        else:
            self._record_duration(call, recorded, event.duration)
            call.kind = kind = event.failure.kind
            call.in_doubt = event.failure.leaves_doubt
            self._kind_counter(call, kind).failed(call.asked.name)
            call.count_lost(int(call.in_doubt))
            for counter in call.counters:
                counter.failed(kind)
                counter.not_applicable += event.failure.is_not_applicable
        # The call may stay failed for good: keep what a retry or a late answer needs, and no more.
        call.status, call.asked, call.edit = "Failed", call.tool_counter.name_only, None
        call.retry_announced = event.delay is not None

    def _count_end_of_doubt(self, call: LiveCall, recorded: Recorded, event: ToolFailed) -> None:
        """Count a failed call whose outcome is known now: nothing took effect."""
        if not (call.lost and event.failure.in_doubt is False):
            self._note_illegal(recorded, event, call)
            return
        if not self._count_settlement(call, event):
            self._end_doubt(call)

    def _count_settlement(self, call: LiveCall, event: ToolCompleted | ToolFailed) -> bool:
        """Count what a person said of a call in doubt; return whether one did."""
        outcome = settled_as(event, has_begun=call.has_begun)
        if outcome is None:
            return False
        self._end_doubt(call)
        call.runs_again = outcome == "run_again"
        for counter in call.counters:
            counter.settled(outcome)
        return True

    def _end_doubt(self, call: LiveCall) -> None:
        """Count no attempt as lost any more: what became of the call is known now."""
        call.in_doubt = False
        call.count_lost(-call.lost)

    def _record_duration(self, call: LiveCall, recorded: Recorded, duration: int | None) -> None:
        """Record how long an attempt took: as measured, otherwise by the times in the log."""
        if duration is not None:
            call.tool_counter.took.add(duration)
        elif call.status == "Running":
            call.tool_counter.took.add(recorded.time - call.since)

    _steps: ClassVar[dict[str, tuple[Callable[..., None], tuple[str, ...]]]] = {
        "approved": (_count_approval, TRANSITIONS["approved"]),
        "rejected": (_count_rejection, TRANSITIONS["rejected"]),
        "running": (_count_start, TRANSITIONS["running"]),
        "renewed": (_count_renewal, TRANSITIONS["renewed"]),
        "paused": (_count_pause, TRANSITIONS["paused"]),
        "completed": (_count_completion, TRANSITIONS["completed"]),
        "failed": (_count_failure, TRANSITIONS["failed"]),
    }
    """For each step, how it is counted, and the statuses that it may follow."""

    # the counters

    def _tool_counter(self, name: str, _at: int, /) -> ToolCounter:
        """Return the counter of a tool, for a call that was asked for at a time."""
        counter = self._tools.get(name)
        if counter is None:
            counter = self._tools[name] = ToolCounter(name_only=FunctionCall(name, None))
        return counter

    def _kind_counters(self, _call: LiveCall, /) -> dict[ErrorKind, ErrorKindCounter]:
        """Return the counters in which the failures of a call are counted."""
        return self._kinds

    def _kind_counter(self, call: LiveCall, kind: ErrorKind) -> ErrorKindCounter:
        counters = self._kind_counters(call)
        counter = counters.get(kind)
        if counter is None:
            counter = counters[kind] = ErrorKindCounter()
        return counter

    def _fingerprint_counter(self, fingerprint: str | None, tool: str) -> FingerprintCounter:
        if fingerprint is None:  # no other call can equal these arguments: not kept
            return FingerprintCounter(tool=tool)
        counter = self._fingerprints.get(fingerprint)
        if counter is None:
            if len(self._fingerprints) >= self._max_fingerprints:
                self._forget_half()
            self._last_number += 1
            counter = self._new_fingerprint_counter(fingerprint, tool)
            self._fingerprints[fingerprint] = counter
        return counter

    def _new_fingerprint_counter(self, _fingerprint: str, tool: str, /) -> FingerprintCounter:
        return FingerprintCounter(tool=tool, number=self._last_number)

    def _forget_half(self) -> None:
        """Make room: of the fingerprints, keep the half with the most failures and repeats."""
        # Among equals the oldest comes first: the sort is stable.
        lightest_first = sorted(self._fingerprints.values(), key=FingerprintCounter.weight)
        half = (len(lightest_first) + 1) // 2
        kept = {counter.number for counter in lightest_first[half:]}
        self._forgotten += half
        self._fingerprints = {
            fingerprint: counter
            for fingerprint, counter in self._fingerprints.items()
            if counter.number in kept
        }
        self._requested = {pair for pair in self._requested if pair & _NUMBER_MASK in kept}

    # the result

    def result(self) -> Statistics:
        """Return the statistics of all events so far."""
        self._count_live_calls()
        overall = ToolCounter()
        for tool in self._tools.values():
            overall.include(tool)
        by_kind = {str(kind): counter.statistics() for kind, counter in self._kinds.items()}
        by_tool = {name: counter.statistics() for name, counter in self._tools.items()}
        by_fingerprint = {key: counter.statistics() for key, counter in self._fingerprints.items()}
        return Statistics(
            events=self._events,
            conversations=len(self._streams),
            overall=overall.statistics(),
            by_tool=_most_severe_first(by_tool),
            by_kind=dict(sorted(by_kind.items(), key=lambda item: (-item[1].failures, item[0]))),
            by_fingerprint=_most_severe_first(by_fingerprint),
            forgotten=self._forgotten,
            anomaly_count=self._anomaly_count,
            anomalies=tuple(self._anomalies),
        )

    def _count_live_calls(self) -> None:
        """Count the open and failed calls as they stand now."""
        for counter in (*self._tools.values(), *self._fingerprints.values()):
            counter.open = counter.running = counter.terminal = 0
        for kind in self._kinds.values():
            kind.terminal = 0
        for stream in self._streams.values():
            for call in stream.calls.values():
                self._count_status(call, 1)

    def _count_status(self, call: LiveCall, sign: int) -> None:
        """Count the status of an open or failed call; a `sign` of -1 takes that back."""
        is_terminal = call.status == "Failed" and not call.runs_again
        if is_terminal and call.kind is not None:
            self._kind_counter(call, call.kind).terminal += sign
        for counter in (call.tool_counter, call.fingerprint_counter):
            if is_terminal:
                counter.terminal += sign
                continue
            counter.open += sign
            counter.running += sign * (call.status == "Running")


class _Stream:
    """One conversation: its number, its highest version so far, and its open or failed calls."""

    __slots__ = ("calls", "number", "version")

    def __init__(self, number: int, version: int) -> None:
        self.number = number
        self.version = version
        self.calls: dict[str, LiveCall] = {}


def _most_severe_first(statistics: dict[str, _S]) -> dict[str, _S]:
    names: dict[tuple[int, ...], list[str]] = {}
    for name, counts in statistics.items():
        names.setdefault(counts.severity, []).append(name)
    return {
        name: statistics[name]
        for severity in sorted(names, reverse=True)
        for name in sorted(names[severity])
    }


def error_statistics(
    events: Iterable[Recorded], *, fingerprints: int = MAX_FINGERPRINTS
) -> Statistics:
    """Return what became of the calls of `events`: `print` it, or encode it as JSON.

    Of a feed only the headers are read. Durations are in microseconds. At most `fingerprints`
    fingerprints are counted one by one at a time; see `ErrorStatistics`.

    Raises:
        ValueError: `fingerprints` is not 1 or more.
    """
    return ErrorStatistics(fingerprints).extend(outlined(events)).result()
