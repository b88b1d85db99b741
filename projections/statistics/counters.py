"""The counters that error statistics are kept in while events come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from projections.durations import Durations
from projections.figures import CallNumbers, KindNumbers, ToolNumbers
from projections.text import arguments_text


class Tally(msgspec.Struct, gc=False):
    """Counts of some calls. Small, because there is one for each fingerprint.

    What is usual is counted once and not twice: of the completions, those that were `not_at_once`;
    of the calls, those with a `mishap` in their first attempt. `open`, `running` and `terminal`
    are of the moment and counted when somebody asks.
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
    mishaps: int = 0
    not_at_once: int = 0
    open: int = 0
    running: int = 0
    terminal: int = 0
    failures: dict[str, int] | None = None
    rejections: dict[str, int] | None = None

    def failed(self, kind: str, count: int = 1) -> None:
        """Count failures of a kind."""
        self.failures = failures = self.failures or {}
        failures[kind] = failures.get(kind, 0) + count

    def rejected(self, source: str, count: int = 1) -> None:
        """Count rejections by a source."""
        self.rejections = rejections = self.rejections or {}
        rejections[source] = rejections.get(source, 0) + count

    def figures(self) -> dict[str, Any]:
        """The fields of `Numbers`."""
        at_once = self.completions - self.not_at_once
        tried = at_once + self.mishaps
        failures, rejections = self.failures, self.rejections
        return {
            "calls": self.calls,
            "open": self.open,
            "attempts": self.attempts,
            "retries": self.retries,
            "completions": self.completions,
            "synthetic": self.synthetic,
            "lossy": self.lossy,
            "failures": sum(failures.values()) if failures else 0,
            "failures_by_kind": _most_first(failures) if failures else {},
            "terminal_failures": self.terminal,
            "recovered": self.recovered,
            "rejections": sum(rejections.values()) if rejections else 0,
            "rejections_by_source": _most_first(rejections) if rejections else {},
            "outcome_unknown": self.running + self.lost,
            "repeated": self.repeated,
            "first_tries": tried,
            "first_try_successes": at_once,
            "first_try_success_rate": at_once / tried if tried else None,
        }


_COUNTS = tuple(field.name for field in msgspec.structs.fields(Tally) if field.default == 0)


class ToolTally(Tally, gc=False):
    """The counts of one tool, and how long it took; `name_only` is a call that says no more."""

    name_only: FunctionCall = FunctionCall("", None)
    waiting: Durations = msgspec.field(default_factory=Durations)
    queueing: Durations = msgspec.field(default_factory=Durations)
    took: Durations = msgspec.field(default_factory=Durations)

    def numbers(self) -> ToolNumbers:
        """What they come to."""
        return ToolNumbers(
            **self.figures(),
            waiting=self.waiting.percentiles(),
            queueing=self.queueing.percentiles(),
            running=self.took.percentiles(),
        )

    def include(self, other: ToolTally) -> None:
        """Add the counts of another, and how long that took."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, count in (other.failures or {}).items():
            self.failed(kind, count)
        for source, count in (other.rejections or {}).items():
            self.rejected(source, count)
        self.waiting.include(other.waiting)
        self.queueing.include(other.queueing)
        self.took.include(other.took)


class MarkTally(Tally, gc=False):
    """The counts of one fingerprint, which has a `number` for short; 0 is none."""

    tool: str = ""
    number: int = 0
    arguments: str | None = None

    def describe(self, call: FunctionCall) -> None:
        """Note the arguments: there is something to tell of them."""
        if self.arguments is None:
            self.arguments = arguments_text(call)

    def weight(self) -> int:
        """How much is to be told: what is lightest is forgotten first, of equals the oldest."""
        trouble = self.lost
        for counts in (self.failures, self.rejections):
            if counts:
                trouble += sum(counts.values())
        return trouble << 40 | self.calls

    def numbers(self) -> CallNumbers:
        """What they come to."""
        figures = self.figures()
        figures["tool"] = self.tool
        figures["arguments"] = self.arguments
        return CallNumbers(**figures)


class KindTally(msgspec.Struct, gc=False):
    """The counts of one error kind."""

    retried: int = 0
    recovered: int = 0
    terminal: int = 0
    tools: dict[str, int] = {}

    def failed(self, tool: str) -> None:
        """Count a failure of a tool."""
        self.tools[tool] = self.tools.get(tool, 0) + 1

    def numbers(self) -> KindNumbers:
        """What they come to."""
        return KindNumbers(
            failures=sum(self.tools.values()),
            retried=self.retried,
            recovered=self.recovered,
            terminal=self.terminal,
            by_tool=_most_first(self.tools),
        )


class LiveCall(msgspec.Struct, gc=False):
    """A call that is not settled: how it stands, since when, and where it is counted.

    `asked` is what the model asked for, `edit` what somebody made of it. `mishap`: an attempt
    failed or was lost; `kind` is of the last failure, and `in_doubt` whether that may have taken
    effect. Of a failed call no more is kept than these and its tool's name.
    """

    id: str
    asked: FunctionCall
    named: ToolTally
    mark: MarkTally
    since: int
    status: str = "Pending"
    attempts: int = 0
    edit: FunctionCall | None = None
    kind: ErrorKind | None = None
    in_doubt: bool = False
    mishap: bool = False

    def tool(self) -> Tool:
        """The call as the table of transitions knows it."""
        return Tool(self.id, self.asked, self._status(), self.attempts, self.edit)

    def _status(self) -> ToolStatus:
        if self.status == "Failed":
            assert self.kind is not None  # noqa: S101 - it failed
            return Failed(Failure(self.kind, "", code="interrupted" if self.in_doubt else None))
        if self.status == "Running":
            return Running(self.attempts)
        return Approved(self.edit) if self.status == "Approved" else Pending()

    @property
    def tallies(self) -> tuple[Tally, Tally]:
        """Where it is counted."""
        return self.named, self.mark

    def went_wrong(self) -> None:
        """Count its first mishap."""
        if not self.mishap:
            self.mishap = True
            self.named.mishaps += 1
            self.mark.mishaps += 1


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {str(name): count for name, count in items}
