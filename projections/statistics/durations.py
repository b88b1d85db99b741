"""How long things took: a distribution in bounded memory, and its percentiles."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

import msgspec

EXACT = 4096
"""So many durations are kept as they are; more go into buckets."""

RELATIVE_ERROR = 1 / 128
"""How far from the true value a percentile that comes from buckets may be."""

# A bucket holds the values that share their highest bits: the leading one and these after it.
_BITS = 6
_LONGEST = 2**63 - 1


class Percentiles(msgspec.Struct, frozen=True, gc=False):
    """Of `count` durations, in microseconds: nearest-rank percentiles and the longest.

    Up to 4,096 durations they are exact; above, p50 to p99 are within 1/128 of the true value.
    """

    count: int = 0
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None
    max: int | None = None


class Durations:
    """Durations in microseconds, in their order of arrival forgotten.

    The first `EXACT` are kept as they are. From then on they are counted in buckets that grow
    with the value, so that memory grows with the spread of the values only.
    """

    __slots__ = ("_buckets", "_latest", "longest")

    def __init__(self) -> None:
        self.longest = 0
        self._latest = array("q")
        self._buckets: dict[int, int] = {}

    def add(self, microseconds: int) -> None:
        """Take in one duration. A negative one (clocks that disagree) counts as none."""
        if microseconds > self.longest:
            self.longest = microseconds = min(microseconds, _LONGEST)
        elif microseconds < 0:
            microseconds = 0
        latest = self._latest
        latest.append(microseconds)
        if len(latest) > EXACT:
            self._empty(latest)
            self._latest = array("q")

    def _empty(self, values: Iterable[int]) -> None:
        buckets = self._buckets
        for value, count in Counter(values).items():
            # Buckets are numbered in the order of the values they hold.
            shift = value.bit_length() - _BITS - 1
            bucket = value if shift <= 0 else (shift << _BITS) + (value >> shift)
            buckets[bucket] = buckets.get(bucket, 0) + count

    def include(self, other: Durations) -> None:
        """Add the durations of another; the sum is as exact as the less exact of the two."""
        self.longest = max(self.longest, other.longest)
        self._latest.extend(other._latest)
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def counts(self) -> dict[int, int]:
        """How many there are in each bucket, for `of` to take up; none stays exact."""
        self._empty(self._latest)
        self._latest = array("q")
        return self._buckets

    @classmethod
    def of(cls, counts: dict[int, int], longest: int) -> Durations:
        """The durations that `counts` gave, and the longest of them."""
        durations = cls()
        durations._buckets = counts
        durations.longest = longest
        return durations

    def percentiles(self) -> Percentiles:
        """The percentiles, by nearest rank: each is a value that occurred, or its bucket's."""
        counted = list(self._counted())
        total = sum(count for _, count in counted)
        if not total:
            return Percentiles()
        p50, p95, p99 = (self._ranked(counted, -(-total * share // 100)) for share in (50, 95, 99))
        return Percentiles(total, p50, p95, p99, self.longest)

    def _counted(self) -> Iterator[tuple[int, int]]:
        """Values in ascending order, with how often each occurred."""
        if not self._buckets:
            for value in sorted(self._latest):
                yield value, 1
            return
        whole = Durations()
        whole._buckets = dict(self._buckets)
        whole._empty(self._latest)
        for bucket, count in sorted(whole._buckets.items()):
            yield _middle(bucket), count

    def _ranked(self, counted: list[tuple[int, int]], rank: int) -> int:
        ends = accumulate(count for _, count in counted)
        value = next(value for (value, _), end in zip(counted, ends, strict=True) if end >= rank)
        return min(value, self.longest)


def _middle(bucket: int) -> int:
    """The value that stands for a bucket: none that it holds is further than `RELATIVE_ERROR`."""
    shift = max((bucket >> _BITS) - 1, 0)
    lowest = (bucket - (shift << _BITS)) << shift
    return lowest + (1 << shift >> 1)
