"""Durations: a distribution in bounded memory, and its percentiles.

1. The first `MAX_EXACT_DURATIONS` durations are kept as they are, and their percentiles are exact.
2. From then on they are value_counts in buckets that grow with the value, so that memory grows with
   the spread of the values only. A percentile is then within `RELATIVE_ERROR` of the true value.
3. Including one distribution in another gives the same buckets as adding the durations to it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

import msgspec

MAX_EXACT_DURATIONS = 4096
"""Durations that are kept as they are; with more, all go into buckets."""

RELATIVE_ERROR = 1 / 128
"""How far a percentile that comes from buckets may be from the true value."""

# A bucket holds the values that share their highest bits: the leading one and the 6 after it.
_BUCKET_BITS = 6
_MAX_MICROSECONDS = 2**63 - 1


class Percentiles(msgspec.Struct, frozen=True, gc=False):
    """The nearest-rank percentiles of `count` durations and the longest one, in microseconds.

    Up to 4,096 durations they are exact. With more, p50 to p99 are within 1/128 of the true value.
    """

    count: int = 0
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None
    max: int | None = None


class Durations:
    """A bounded-memory histogram of durations in microseconds; their order is not kept."""

    __slots__ = ("_buckets", "_exact", "longest")

    def __init__(self) -> None:
        self.longest = 0
        self._exact = array("q")
        self._buckets: dict[int, int] = {}

    def add(self, microseconds: int) -> None:
        """Take in one duration; a negative one (two clocks disagree) counts as 0."""
        if microseconds > self.longest:
            self.longest = microseconds = min(microseconds, _MAX_MICROSECONDS)
        elif microseconds < 0:
            microseconds = 0
        exact = self._exact
        exact.append(microseconds)
        if len(exact) > MAX_EXACT_DURATIONS:
            self._to_buckets(exact)
            self._exact = array("q")

    def _to_buckets(self, values: Iterable[int]) -> None:
        buckets = self._buckets
        for value, count in Counter(values).items():
            # Buckets are numbered in the order of the values they hold.
            shift = value.bit_length() - _BUCKET_BITS - 1
            bucket = value if shift <= 0 else (shift << _BUCKET_BITS) + (value >> shift)
            buckets[bucket] = buckets.get(bucket, 0) + count

    def include(self, other: Durations) -> None:
        """Add the durations of another; the sum is as exact as the less exact of the two."""
        self.longest = max(self.longest, other.longest)
        self._exact.extend(other._exact)
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def bound(self) -> None:
        """Keep no more than `MAX_EXACT_DURATIONS` as they are, as if all had been added here."""
        if len(self._exact) > MAX_EXACT_DURATIONS or self._buckets:
            self.counts()

    def counts(self) -> dict[int, int]:
        """Move all durations into buckets, and return the count of each bucket, for `of`."""
        self._to_buckets(self._exact)
        self._exact = array("q")
        return self._buckets

    def parts(self) -> tuple[dict[int, int], list[int]]:
        """Return the count of each bucket, and the durations that are kept as they are."""
        return self._buckets, self._exact.tolist()

    @classmethod
    def of(cls, counts: dict[int, int], longest: int, exact: Iterable[int] = ()) -> Durations:
        """Return the durations that counts were taken of; `longest` is the longest of them."""
        durations = cls()
        durations._buckets = counts
        durations.longest = longest
        durations._exact.extend(exact)
        return durations

    def percentiles(self) -> Percentiles:
        """Return the percentiles by nearest rank: values that occurred, or those of buckets."""
        value_counts = list(self._value_counts())
        total = sum(count for _, count in value_counts)
        if not total:
            return Percentiles()
        ranks = (-(-total * share // 100) for share in (50, 95, 99))
        p50, p95, p99 = (self._value_at(rank, value_counts) for rank in ranks)
        return Percentiles(total, p50, p95, p99, self.longest)

    def _value_counts(self) -> Iterator[tuple[int, int]]:
        """Yield the values in ascending order, each with how often it occurred."""
        if not self._buckets:
            for value in sorted(self._exact):
                yield value, 1
            return
        whole = Durations()
        whole._buckets = dict(self._buckets)
        whole._to_buckets(self._exact)
        for bucket, count in sorted(whole._buckets.items()):
            yield _middle(bucket), count

    def _value_at(self, rank: int, value_counts: list[tuple[int, int]]) -> int:
        ends = accumulate(count for _, count in value_counts)
        reached = zip(value_counts, ends, strict=True)
        value = next(value for (value, _), end in reached if end >= rank)
        return min(value, self.longest)


def _middle(bucket: int) -> int:
    """Return the value that stands for a bucket: within `RELATIVE_ERROR` of all that it holds."""
    shift = max((bucket >> _BUCKET_BITS) - 1, 0)
    lowest = (bucket - (shift << _BUCKET_BITS)) << shift
    return lowest + (1 << shift >> 1)
