"""Error statistics: what became of the calls, per tool, error kind and fingerprint.

`fold` says how the steps of a call are counted. What changes from moment to moment (open, running,
terminally failed) is counted in `result()`.

Folding a prefix and then the rest equals folding the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from eventstore import Recorded
from projections.projection import Projection, outlined
from projections.statistics.fold import StatisticsFold
from projections.statistics.memory_counters import MemoryCounters
from projections.statistics.results import Statistics

MAX_FINGERPRINTS = 50_000
"""Fingerprints that are counted one by one, unless the caller asks for another limit."""


class ErrorStatistics(Projection):
    """The counts so far; `result()` sums them up.

    Memory grows with the open and failed calls, the conversations and the `fingerprints` kept,
    not with the log. When there are more fingerprints than that, the half with the fewest
    failures and repeats is forgotten.

    Each count is kept under the fingerprint in force: calls, repeats and rejections under what
    the model asked for, what follows an edit under the edit's fingerprint.

    What was copied from another conversation is counted there alone (`Recorded.is_copy`), however
    many conversations come in. With `copies` it is counted here, too.

    Raises:
        ValueError: `fingerprints` is not 1 or more.
    """

    def __init__(self, fingerprints: int = MAX_FINGERPRINTS, *, copies: bool = False) -> None:
        self._counters = MemoryCounters(fingerprints)
        self._fold = StatisticsFold(self._counters, copies=copies)

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        self._fold.extend((recorded,))

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events, each conversation in its order."""
        self._fold.extend(events)
        return self

    def result(self) -> Statistics:
        """Return the statistics of all events so far."""
        self._counters.count_live_calls()
        return self._counters.counts.statistics(
            events=self._fold.events,
            conversations=len(self._counters.conversations),
            copied_calls=self._fold.copied_calls,
            forgotten=self._counters.fingerprints.forgotten,
            anomaly_count=self._fold.anomaly_count,
            anomalies=tuple(self._fold.anomalies),
        )


def error_statistics(
    events: Iterable[Recorded], *, fingerprints: int = MAX_FINGERPRINTS, copies: bool = False
) -> Statistics:
    """Return what became of the calls of `events`: `print` it, or encode it as JSON.

    Of a feed only the headers are read. Durations are in microseconds. At most `fingerprints`
    fingerprints are counted one by one at a time. What was copied from another conversation is
    left out, as it happened there; pass `copies=True` for all that one conversation has. See
    `ErrorStatistics`.

    Raises:
        ValueError: `fingerprints` is not 1 or more.
    """
    return ErrorStatistics(fingerprints, copies=copies).extend(outlined(events)).result()
