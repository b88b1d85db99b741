"""The results of error statistics, as data and as tables for a terminal."""

from __future__ import annotations

import msgspec

from eventstore.domain.one_line import one_line
from projections.formatting import NotebookText, duration, plural, share, table
from projections.projection import Anomaly
from projections.statistics.durations import Percentiles

MAX_LISTED = 10
"""Calls and anomalies that the text lists; the data holds more."""


class CallStatistics(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of some calls.

    - `calls` were asked for; `open` of them are pending, approved, running or to be run again.
    - `attempts` were started; `retries` of them followed one that failed or was lost, `pauses` of
      them paused.
    - `completions` have a result; `synthetic` of them ran no tool, the result of `lossy` ones
      was not JSON.
    - `failures` are failed attempts, `terminal_failures` calls whose last state is failed;
      `not_applicable` of the failures are soft: the tool said that it cannot help.
    - `settlements` are the doubts that a person ended, by outcome: "completed", "failed" and
      "run_again". None is a failure of the tool. A call settled as failed is terminally failed.
    - `outcome_unknown` are attempts without a known end: running, superseded by the next one,
      cancelled, interrupted or timed out. They may have taken effect.
    - `recovered` calls completed in an attempt after one that failed or was lost.
    - `first_tries` are the calls whose first outcome is known, `first_try_successes` those that
      needed nothing more.
    - `repeated` calls had been asked for with the same arguments in the same conversation.
    """

    calls: int = 0
    open: int = 0
    attempts: int = 0
    retries: int = 0
    pauses: int = 0
    completions: int = 0
    synthetic: int = 0
    lossy: int = 0
    failures: int = 0
    failures_by_kind: dict[str, int] = {}
    not_applicable: int = 0
    terminal_failures: int = 0
    recovered: int = 0
    rejections: int = 0
    rejections_by_source: dict[str, int] = {}
    settlements: int = 0
    settlements_by_outcome: dict[str, int] = {}
    outcome_unknown: int = 0
    repeated: int = 0
    first_tries: int = 0
    first_try_successes: int = 0
    first_try_success_rate: float | None = None

    @property
    def knows_no_attempts(self) -> bool:
        """Whether calls ended and no attempt is recorded, as in an imported history."""
        return not self.attempts and self.completions + self.terminal_failures > self.synthetic

    @property
    def severity(self) -> tuple[int, ...]:
        """What statistics are sorted by: the greater, the worse."""
        return (
            self.terminal_failures,
            self.outcome_unknown,
            self.failures,
            self.rejections,
            self.repeated,
            self.calls,
        )


class ToolStatistics(CallStatistics, frozen=True, kw_only=True, gc=False):
    """The statistics of a tool, with its times.

    `waiting`: from the request (the pause of a call that paused) to the approval, or to a person's
    rejection. `queueing`: from the approval (the request where there was none) to the first start.
    `running`: from the start of an attempt to its end, whichever it was; not of one that paused.
    """

    waiting: Percentiles = Percentiles()
    queueing: Percentiles = Percentiles()
    running: Percentiles = Percentiles()


class FingerprintStatistics(CallStatistics, frozen=True, kw_only=True, gc=False):
    """The statistics of all calls with one fingerprint.

    `arguments` are shortened JSON text; None for a call that was made once and did not fail. An
    edited call is asked for under one fingerprint, and runs under another.
    """

    tool: str
    arguments: str | None = None

    def __str__(self) -> str:
        return one_line(f"{self.tool} {self.arguments or ''}", 72)


class ErrorKindStatistics(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The statistics of one error kind.

    `retried` of its `failures` were followed by another attempt. Of the calls whose last failure
    was of this kind, `recovered` completed later and `terminal` did not.
    """

    failures: int = 0
    retried: int = 0
    recovered: int = 0
    terminal: int = 0
    by_tool: dict[str, int] = {}


class Statistics(NotebookText, msgspec.Struct, frozen=True, kw_only=True):
    """Error statistics of a log; the worst comes first in each mapping.

    `anomalies` are the first events that did not fit the log, `anomaly_count` is the number of
    all. `forgotten` counts the fingerprints that were dropped to keep memory bounded.
    `copied_calls` are in no count: they happened in another conversation (`Recorded.is_copy`).
    """

    events: int
    conversations: int
    overall: ToolStatistics
    by_tool: dict[str, ToolStatistics]
    by_kind: dict[str, ErrorKindStatistics]
    by_fingerprint: dict[str, FingerprintStatistics]
    forgotten: int
    anomaly_count: int
    anomalies: tuple[Anomaly, ...]
    copied_calls: int = 0

    def __str__(self) -> str:
        sections = (
            self._summary(),
            self._tools(),
            self._times(),
            self._kinds(),
            self._calls(),
            self._anomalies(),
        )
        return "\n\n".join("\n".join(lines) for lines in sections if lines)

    def _summary(self) -> list[str]:
        n = self.overall
        scope = (
            f"{plural(n.calls, 'call')} of {plural(len(self.by_tool), 'tool')} in "
            f"{plural(self.conversations, 'conversation')} ({plural(self.events, 'event')})"
        )
        ends = (
            f"{n.completions:,} completed{_skipped(n.synthetic)}",
            f"{n.terminal_failures:,} failed{_soft(n.not_applicable)}",
            f"{n.rejections:,} rejected{_split(n.rejections_by_source)}",
            f"{n.open:,} open",
        )
        ways = (
            (
                "attempts are not recorded",
                *_settled(n),
                f"{n.repeated:,} repeated",
            )
            if n.knows_no_attempts
            else (
                plural(n.attempts, "attempt"),
                plural(n.retries, "retry", "retries"),
                *([plural(n.pauses, "pause")] if n.pauses else []),
                f"{n.recovered:,} recovered",
                f"{n.outcome_unknown:,} with unknown outcome",
                *_settled(n),
                f"{n.repeated:,} repeated",
                f"{share(n.first_try_success_rate)} right at first try",
            )
        )
        counts = [", ".join(ends), ", ".join(ways)] if n.calls else []
        return [scope, *counts, *self._copies()]

    def _copies(self) -> list[str]:
        if not self.copied_calls:
            return []
        verb = "is a copy" if self.copied_calls == 1 else "are copies"
        return [f"{self.copied_calls:,} more {verb} from another conversation, and counted there"]

    def _tools(self) -> list[str]:
        rows = [
            (
                one_line(name, 32),
                n.calls,
                n.completions,
                n.terminal_failures,
                n.outcome_unknown,
                n.rejections,
                n.failures,
                n.retries,
                n.recovered,
                n.repeated,
                share(None if n.knows_no_attempts else n.first_try_success_rate),
                duration(n.running.p50),
                duration(n.running.p95),
            )
            for name, n in self.by_tool.items()
        ]
        heads = (
            "TOOL",
            "CALLS",
            "DONE",
            "FAILED",
            "UNKNOWN",
            "REJECTED",
            "FAILURES",
            "RETRIES",
            "RECOVERED",
            "REPEATED",
            "1ST TRY",
            "P50",
            "P95",
        )
        return table(heads, rows, ["TOOL"])

    def _times(self) -> list[str]:
        n = self.overall
        times = (
            ("waiting for approval", n.waiting),
            ("queueing", n.queueing),
            ("running", n.running),
        )
        rows = [
            (what, p.count, duration(p.p50), duration(p.p95), duration(p.p99), duration(p.max))
            for what, p in times
            if p.max  # times of an import are all the same
        ]
        return table(("TIME", "COUNT", "P50", "P95", "P99", "MAX"), rows, ["TIME"])

    def _kinds(self) -> list[str]:
        rows = [
            (kind, n.failures, n.retried, n.recovered, n.terminal, _listed(n.by_tool))
            for kind, n in self.by_kind.items()
        ]
        heads = ("ERROR", "FAILURES", "RETRIED", "RECOVERED", "FAILED", "TOOLS")
        return table(heads, rows, ["ERROR", "TOOLS"])

    def _calls(self) -> list[str]:
        worst = [n for n in self.by_fingerprint.values() if n.arguments is not None]
        rows = [
            (n.calls, n.repeated, n.failures, n.terminal_failures, n.outcome_unknown, str(n))
            for n in worst[:MAX_LISTED]
        ]
        heads = ("CALLS", "REPEATED", "FAILURES", "FAILED", "UNKNOWN", "CALL")
        return table(heads, rows, ["CALL"]) + _more(len(worst) - len(rows))

    def _anomalies(self) -> list[str]:
        if not self.anomaly_count:
            return []
        shown = [f"  {one_line(str(a), 120)}" for a in self.anomalies[:MAX_LISTED]]
        head = (
            f"{plural(self.anomaly_count, 'anomaly', 'anomalies')}: events that do not fit the log"
        )
        return [head, *shown, *_more(self.anomaly_count - len(shown))]


def _skipped(synthetic: int) -> str:
    return f" ({synthetic:,} without a run)" if synthetic else ""


def _soft(not_applicable: int) -> str:
    return f" ({not_applicable:,} not applicable)" if not_applicable else ""


def _settled(n: CallStatistics) -> list[str]:
    if not n.settlements:
        return []
    return [f"{n.settlements:,} settled by a person{_split(n.settlements_by_outcome)}"]


def _split(counts: dict[str, int]) -> str:
    return f" ({_listed(counts)})" if counts else ""


def _listed(counts: dict[str, int]) -> str:
    worst = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return one_line(", ".join(f"{name} {count:,}" for name, count in worst), 60)


def _more(count: int) -> list[str]:
    return [f"  and {count:,} more"] if count > 0 else []
