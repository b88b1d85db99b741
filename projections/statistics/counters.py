"""The counters that error statistics are kept in while events come in.

Structs of integers, because there is one for each tool, error kind and fingerprint. The projector
stores them as JSON: a field's stored name must not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from eventstore import (
    Approved,
    ErrorKind,
    Failed,
    Failure,
    FunctionCall,
    Pending,
    Running,
    Tool,
    ToolStatus,
)
from projections.formatting import arguments_text
from projections.statistics.durations import Durations
from projections.statistics.results import (
    ErrorKindStatistics,
    FingerprintStatistics,
    ToolStatistics,
)


class Counter(msgspec.Struct, gc=False):
    """The counts of some calls.

    The usual case is not counted twice. `not_first_try` are the completions that were not a
    success at the first try; `first_try_failures` are the calls of which the first attempt failed
    or was lost. `lost` attempts have no known end. `open`, `running` and `terminal` describe the
    moment and are counted when the statistics are asked for.
    """

    calls: int = 0
    attempts: int = 0
    retries: int = 0
    lost: int = 0
    completions: int = 0
    synthetic: int = 0
    lossy: int = 0
    recovered: int = 0
    repeated: int = 0
    first_try_failures: int = msgspec.field(default=0, name="mishaps")
    not_first_try: int = msgspec.field(default=0, name="not_at_once")
    open: int = 0
    running: int = 0
    terminal: int = 0
    failures: dict[str, int] | None = None
    rejections: dict[str, int] | None = None
    pauses: int = 0
    not_applicable: int = 0
    settlements: dict[str, int] | None = None

    def failed(self, kind: str, count: int = 1) -> None:
        """Add failures of a kind."""
        self.failures = failures = self.failures or {}
        failures[kind] = failures.get(kind, 0) + count

    def rejected(self, source: str, count: int = 1) -> None:
        """Add rejections by a source."""
        self.rejections = rejections = self.rejections or {}
        rejections[source] = rejections.get(source, 0) + count

    def settled(self, outcome: str, count: int = 1) -> None:
        """Add settlements by a person."""
        self.settlements = settlements = self.settlements or {}
        settlements[outcome] = settlements.get(outcome, 0) + count

    @property
    def has_counted(self) -> bool:
        """Whether anything was counted."""
        by_name = self.failures or self.rejections or self.settlements
        return bool(by_name) or any(getattr(self, name) for name in _COUNTS)

    def add(self, other: Counter) -> None:
        """Add the counts of another counter."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, count in (other.failures or {}).items():
            self.failed(kind, count)
        for source, count in (other.rejections or {}).items():
            self.rejected(source, count)
        for outcome, count in (other.settlements or {}).items():
            self.settled(outcome, count)

    def totals(self) -> dict[str, Any]:
        """Return the fields of `CallStatistics`."""
        successes = self.completions - self.not_first_try
        tries = successes + self.first_try_failures
        failures, rejections = self.failures, self.rejections
        settlements = self.settlements
        return {
            "calls": self.calls,
            "open": self.open,
            "attempts": self.attempts,
            "retries": self.retries,
            "pauses": self.pauses,
            "completions": self.completions,
            "synthetic": self.synthetic,
            "lossy": self.lossy,
            "failures": sum(failures.values()) if failures else 0,
            "failures_by_kind": _most_frequent_first(failures) if failures else {},
            "not_applicable": self.not_applicable,
            "terminal_failures": self.terminal,
            "recovered": self.recovered,
            "rejections": sum(rejections.values()) if rejections else 0,
            "rejections_by_source": _most_frequent_first(rejections) if rejections else {},
            "settlements": sum(settlements.values()) if settlements else 0,
            "settlements_by_outcome": _most_frequent_first(settlements) if settlements else {},
            "outcome_unknown": self.running + self.lost,
            "repeated": self.repeated,
            "first_tries": tries,
            "first_try_successes": successes,
            "first_try_success_rate": successes / tries if tries else None,
        }


_COUNTS = tuple(field.name for field in msgspec.structs.fields(Counter) if field.default == 0)


class ToolCounter(Counter, gc=False):
    """The counts of one tool and its durations; `name_only` is a call without arguments.

    `kinds` are the counters of error kinds that its failures are counted in, too. Tools share them.
    """

    name_only: FunctionCall = FunctionCall("", None)
    kinds: dict[ErrorKind, ErrorKindCounter] = {}
    waiting: Durations = msgspec.field(default_factory=Durations)
    queueing: Durations = msgspec.field(default_factory=Durations)
    took: Durations = msgspec.field(default_factory=Durations)

    def statistics(self) -> ToolStatistics:
        """Return the counts as statistics."""
        return ToolStatistics(
            **self.totals(),
            waiting=self.waiting.percentiles(),
            queueing=self.queueing.percentiles(),
            running=self.took.percentiles(),
        )

    def kind(self, kind: ErrorKind) -> ErrorKindCounter:
        """Return the counter of an error kind."""
        counter = self.kinds.get(kind)
        if counter is None:
            counter = self.kinds[kind] = ErrorKindCounter()
        return counter

    def include(self, other: ToolCounter) -> None:
        """Add the counts and durations of another counter."""
        self.add(other)
        self.waiting.include(other.waiting)
        self.queueing.include(other.queueing)
        self.took.include(other.took)


class FingerprintCounter(Counter, gc=False, omit_defaults=True):
    """The counts of one fingerprint; `number` stands for it in memory, 0 if it is not kept."""

    tool: str = ""
    number: int = 0
    arguments: str | None = None
    fingerprint: str = ""

    def describe(self, call: FunctionCall) -> None:
        """Keep the arguments as text, for the statistics to show."""
        if self.arguments is None:
            self.arguments = arguments_text(call)

    def weight(self) -> int:
        """Return how much the counts matter: the lightest counter is forgotten first."""
        trouble = self.lost
        for counts in (self.failures, self.rejections):
            if counts:
                trouble += sum(counts.values())
        return trouble << 40 | self.calls

    def statistics(self) -> FingerprintStatistics:
        """Return the counts as statistics."""
        return FingerprintStatistics(**self.totals(), tool=self.tool, arguments=self.arguments)


class ErrorKindCounter(msgspec.Struct, gc=False):
    """The counts of one error kind."""

    retried: int = 0
    recovered: int = 0
    terminal: int = 0
    tools: dict[str, int] = {}

    def failed(self, tool: str, count: int = 1) -> None:
        """Add failures of a tool."""
        self.tools[tool] = self.tools.get(tool, 0) + count

    def include(self, other: ErrorKindCounter) -> None:
        """Add the counts of another counter."""
        self.retried += other.retried
        self.recovered += other.recovered
        self.terminal += other.terminal
        for tool, count in other.tools.items():
            self.failed(tool, count)

    def statistics(self) -> ErrorKindStatistics:
        """Return the counts as statistics."""
        return ErrorKindStatistics(
            failures=sum(self.tools.values()),
            retried=self.retried,
            recovered=self.recovered,
            terminal=self.terminal,
            by_tool=_most_frequent_first(self.tools),
        )


class CallState(msgspec.Struct, gc=False, omit_defaults=True):
    """What the statistics keep of an open or failed call: its status, and since when.

    `asked` is what the model asked for, `edit` the approved edit. `first_try_failed`: its first
    attempt failed or was lost. `kind` is that of the last failure, None where a person said that
    the call failed, and `in_doubt` says that the failed attempt may have taken effect. `lost` of
    its attempts are counted as lost. `runs_again`: a person has said so. Of a failed call only the
    tool's name is kept in `asked`. An `imported` one ran elsewhere. `approval_expires` says that of
    the approval in force, and `retry_announced` that the last attempt failed and the next is to
    come, if a new approval has to come before it, too. A `copied` one has no step of its own
    conversation so far: it is counted where it happened.
    """

    id: str
    asked: FunctionCall
    since: int
    status: str = "Pending"
    attempts: int = 0
    edit: FunctionCall | None = None
    kind: ErrorKind | None = None
    in_doubt: bool = False
    first_try_failed: bool = msgspec.field(default=False, name="mishap")
    runs_again: bool = msgspec.field(default=False, name="again")
    lost: int = 0
    imported: bool = False
    approval_expires: bool = False
    retry_announced: bool = False
    copied: bool = False


class LiveCall(CallState, gc=False, kw_only=True):
    """An open or failed call that was asked for at `asked_at`, and what it is counted in."""

    tool_counter: ToolCounter
    fingerprint_counter: FingerprintCounter
    asked_at: int

    def tool(self) -> Tool:
        """Return the call as the table of transitions takes it."""
        return Tool(
            self.id,
            self.asked,
            self._status(),
            self.attempts,
            self.edit,
            expires_at=0 if self.approval_expires else None,
            retry_announced=self.retry_announced,
        )

    def _status(self) -> ToolStatus:
        if self.status == "Failed":
            kind = self.kind or ErrorKind.PERMANENT
            return Failed(Failure(kind, "", code="interrupted" if self.in_doubt else None))
        if self.status == "Running":
            return Running(self.attempts)
        return Approved(self.edit) if self.status == "Approved" else Pending()

    @property
    def counters(self) -> tuple[Counter, Counter]:
        """The counters of its tool and of its fingerprint."""
        return self.tool_counter, self.fingerprint_counter

    @property
    def has_begun(self) -> bool:
        """Whether it may have taken effect, or has failed."""
        return self.status in ("Running", "Failed") or self.imported

    def count_lost(self, attempts: int) -> None:
        """Count attempts as lost; less than 0 are not any more."""
        self.lost += attempts
        for counter in self.counters:
            counter.lost += attempts

    def count_first_try_failure(self) -> None:
        """Count the call's first failed or lost attempt, once."""
        if not self.first_try_failed:
            self.first_try_failed = True
            self.tool_counter.first_try_failures += 1
            self.fingerprint_counter.first_try_failures += 1


class Uncounted(dict[str, ToolCounter]):
    """Counters of tools that are never read: those of the steps that happened elsewhere."""

    def __missing__(self, name: str) -> ToolCounter:
        counter = self[name] = ToolCounter(name_only=FunctionCall(name, None))
        return counter


class CountedStatus(NamedTuple):
    """What an open or failed call adds to the counts that describe the moment."""

    tool_counter: ToolCounter
    fingerprint_counter: FingerprintCounter
    status: str
    kind: ErrorKind | None
    runs_again: bool

    @classmethod
    def if_counted(cls, call: LiveCall) -> CountedStatus | None:
        """Return what a call adds as it stands; None for one that is counted elsewhere."""
        if call.copied:
            return None
        return cls(
            call.tool_counter, call.fingerprint_counter, call.status, call.kind, call.runs_again
        )

    def add(self, sign: int = 1) -> None:
        """Count it; a `sign` of -1 takes it back."""
        is_terminal = self.status == "Failed" and not self.runs_again
        if is_terminal and self.kind is not None:
            self.tool_counter.kind(self.kind).terminal += sign
        for counter in (self.tool_counter, self.fingerprint_counter):
            if is_terminal:
                counter.terminal += sign
                continue
            counter.open += sign
            counter.running += sign * (self.status == "Running")


class CountedConversation(Protocol):
    """One conversation: its highest version so far (0 before any), and its open or failed calls."""

    version: int
    calls: dict[str, LiveCall]

    def resume(self, call_id: str, /) -> LiveCall | None:
        """Return an open call that is not in `calls`, and put it there; None if there is none."""
        ...

    def note_request(self, fingerprint: FingerprintCounter) -> bool:
        """Note that it asks for a call; return whether it had asked for the same before."""
        ...

    def note_edit(self, fingerprint: FingerprintCounter) -> None:
        """Note that a call of it was edited to this one."""
        ...


class Counters(Protocol):
    """Where the counters of error statistics are kept, and the conversations."""

    @property
    def conversations(self) -> Mapping[str, CountedConversation]:
        """The conversations by their ids; it has every one that events are of."""
        ...

    def tool(self, name: str, asked_at: int, /) -> ToolCounter:
        """Return the counter of a tool, for a call that was asked for at a time."""
        ...

    def fingerprint(self, fingerprint: str | None, tool: str) -> FingerprintCounter:
        """Return the counter of a fingerprint; one that is not kept for None."""
        ...

    def forget(self, conversation_id: str, /) -> None:
        """Forget the fingerprints of a conversation, events of which were redacted."""
        ...


def _most_frequent_first(counts: Mapping[str, int]) -> dict[str, int]:
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {str(name): count for name, count in items}
