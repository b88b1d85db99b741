"""`Counts`: the counters of tools, error kinds and fingerprints, and the statistics of them all."""

from __future__ import annotations

from typing import TypeVar

from eventstore import ErrorKind, FunctionCall
from projections.projection import Anomaly
from projections.statistics.counters import ErrorKindCounter, FingerprintCounter, ToolCounter
from projections.statistics.results import CallStatistics, Statistics

S = TypeVar("S", bound=CallStatistics)


class Counts:
    """The counters of tools, error kinds and fingerprints, each by its name."""

    def __init__(self) -> None:
        self.tools: dict[str, ToolCounter] = {}
        self.kinds: dict[ErrorKind, ErrorKindCounter] = {}
        self.fingerprints: dict[str, FingerprintCounter] = {}

    def tool(self, name: str) -> ToolCounter:
        """Return the counter of a tool."""
        counter = self.tools.get(name)
        if counter is None:
            counter = ToolCounter(name_only=FunctionCall(name, None), kinds=self.kinds)
            self.tools[name] = counter
        return counter

    def add_tool(self, name: str, counter: ToolCounter) -> None:
        """Add what another counter of the tool has counted."""
        self.tool(name).include(counter)

    def add_kind(self, kind: ErrorKind, counter: ErrorKindCounter) -> None:
        """Add what another counter of the error kind has counted."""
        self.kinds.setdefault(kind, ErrorKindCounter()).include(counter)

    def add_fingerprint(self, counter: FingerprintCounter) -> None:
        """Add what another counter of its fingerprint has counted."""
        known = self.fingerprints.setdefault(counter.fingerprint, counter)
        if known is not counter:
            known.add(counter)
            known.arguments = known.arguments or counter.arguments

    def statistics(
        self,
        *,
        events: int = 0,
        conversations: int = 0,
        copied_calls: int = 0,
        forgotten: int = 0,
        anomaly_count: int = 0,
        anomalies: tuple[Anomaly, ...] = (),
    ) -> Statistics:
        """Return the statistics, with what is counted elsewhere."""
        overall = ToolCounter()
        for tool in self.tools.values():
            overall.include(tool)
        by_kind = {str(kind): counter.statistics() for kind, counter in self.kinds.items()}
        by_tool = {name: counter.statistics() for name, counter in self.tools.items()}
        by_fingerprint = {
            key: counter.statistics()
            for key, counter in self.fingerprints.items()
            if counter.has_counted
        }
        return Statistics(
            events=events,
            conversations=conversations,
            copied_calls=copied_calls,
            overall=overall.statistics(),
            by_tool=_most_severe_first(by_tool),
            by_kind=dict(sorted(by_kind.items(), key=lambda item: (-item[1].failures, item[0]))),
            by_fingerprint=_most_severe_first(by_fingerprint),
            forgotten=forgotten,
            anomaly_count=anomaly_count,
            anomalies=anomalies,
        )


def _most_severe_first(statistics: dict[str, S]) -> dict[str, S]:
    names: dict[tuple[int, ...], list[str]] = {}
    for name, counts in statistics.items():
        names.setdefault(counts.severity, []).append(name)
    return {
        name: statistics[name]
        for severity in sorted(names, reverse=True)
        for name in sorted(names[severity])
    }
