"""The error statistics as they are read from the tables: over all lanes, and over time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from eventstore import ErrorKind
from projections.projector import schema
from projections.projector.checkpoint import Totals
from projections.projector.queries import select_rows, select_span
from projections.projector.statistics_rows import (
    COUNTER_FIELDS,
    Bucket,
    StoredFingerprint,
    decode_fingerprints,
    decode_kind,
    tool_counter,
)
from projections.statistics.counters import ErrorKindCounter, FingerprintCounter
from projections.statistics.projection import MAX_ANOMALIES, ErrorStatistics
from projections.statistics.results import ErrorKindStatistics, Statistics, ToolStatistics

if TYPE_CHECKING:
    from sqlalchemy import Connection

MAX_MICROSECONDS = 2**62
"""Later than all times that a log can hold."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class TimeBucket(msgspec.Struct, frozen=True):
    """What became of the calls that were asked for from `start` to before `end`."""

    start: datetime
    end: datetime
    overall: ToolStatistics
    by_tool: dict[str, ToolStatistics]
    by_kind: dict[str, ErrorKindStatistics]


class _Sum(ErrorStatistics):
    """What the rows of all lanes add up to."""

    def __init__(self, totals: Iterable[Totals] = ()) -> None:
        super().__init__()
        self._conversations = 0
        for one in totals:
            self._conversations += one.conversations
            self._events += one.events
            self._forgotten += one.forgotten
            self._anomaly_count += one.anomaly_count
            self._anomalies += one.anomalies
        del self._anomalies[MAX_ANOMALIES:]

    def _count_live_calls(self) -> None:
        """Leave them: the rows have counted them already."""

    def include(
        self, buckets: Iterable[Bucket], fingerprints: Iterable[StoredFingerprint] = ()
    ) -> _Sum:
        """Add the counts of buckets and of fingerprints."""
        for bucket in buckets:
            for name, counter in bucket.tools.items():
                self._tool_counter(name, 0).include(counter)
            for kind, kind_counter in bucket.kinds.items():
                _add_kind(self._kinds.setdefault(kind, ErrorKindCounter()), kind_counter)
        for fingerprint in fingerprints:
            known = self._fingerprints.setdefault(fingerprint.fingerprint, fingerprint)
            if known is not fingerprint:
                _add_fingerprint(known, fingerprint)
        return self

    def result(self) -> Statistics:
        """Return the sum."""
        return msgspec.structs.replace(super().result(), conversations=self._conversations)


def _add_kind(counter: ErrorKindCounter, other: ErrorKindCounter) -> None:
    counter.retried += other.retried
    counter.recovered += other.recovered
    counter.terminal += other.terminal
    for tool, count in other.tools.items():
        counter.tools[tool] = counter.tools.get(tool, 0) + count


def _add_fingerprint(counter: FingerprintCounter, other: FingerprintCounter) -> None:
    for name in COUNTER_FIELDS:
        value = getattr(other, name)
        if isinstance(value, int):
            setattr(counter, name, getattr(counter, name) + value)
    for kind, count in (other.failures or {}).items():
        counter.failed(kind, count)
    for source, count in (other.rejections or {}).items():
        counter.rejected(source, count)
    for outcome, count in (other.settlements or {}).items():
        counter.settled(outcome, count)
    counter.arguments = counter.arguments or other.arguments


def read_statistics(connection: Connection, generation: int) -> Statistics:
    """Return the numbers of all lanes and all time."""
    where = {"projection": generation}
    rows = select_rows(connection, schema.checkpoints, ("totals",), where, ("lane",))
    totals = [msgspec.json.decode(text, type=Totals) for (text,) in rows]
    rows = select_rows(connection, schema.call_statistics, ("body",), where, ("lane",))
    fingerprints = [counter for (body,) in rows for counter in decode_fingerprints(body)]
    return _Sum(totals).include(_read_buckets(connection, generation), fingerprints).result()


def read_timeline(
    connection: Connection, generation: int, since: int | None, until: int | None, step: int
) -> list[TimeBucket]:
    """Return the numbers of the buckets that start from `since` to before `until`, oldest first.

    They are joined to buckets of `step` microseconds.
    """
    joined: dict[int, list[Bucket]] = {}
    for bucket in _read_buckets(connection, generation, since, until):
        joined.setdefault(bucket.starts_at // step * step, []).append(bucket)
    return [_time_bucket(start, step, joined[start]) for start in sorted(joined)]


def _read_buckets(
    connection: Connection, generation: int, since: int | None = None, until: int | None = None
) -> list[Bucket]:
    """Return the time buckets of all lanes, each lane's by itself."""
    buckets: dict[tuple[int, int], Bucket] = {}
    where = {"projection": generation}
    columns = ("lane", "starts_at", "body")
    for lane, starts_at, body in select_span(
        connection, schema.tool_statistics, columns, where, since, until
    ):
        bucket = buckets.setdefault((lane, starts_at), Bucket(starts_at))
        name, counter = tool_counter(body, bucket)
        bucket.tools[name] = counter
    kind_columns = ("lane", "starts_at", "kind", "body")
    for lane, starts_at, kind, body in select_span(
        connection, schema.kind_statistics, kind_columns, where, since, until
    ):
        bucket = buckets.setdefault((lane, starts_at), Bucket(starts_at))
        bucket.kinds[ErrorKind(kind)] = decode_kind(body)
    return [buckets[key] for key in sorted(buckets)]


def _time_bucket(start: int, width: int, buckets: Iterable[Bucket]) -> TimeBucket:
    numbers = _Sum().include(buckets).result()
    return TimeBucket(
        start=_datetime_of(start),
        end=_datetime_of(start + width),
        overall=numbers.overall,
        by_tool=numbers.by_tool,
        by_kind=numbers.by_kind,
    )


def microseconds_of(moment: datetime) -> int:
    """Return microseconds since 1970 UTC.

    Raises:
        ValueError: the time has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: pass for example datetime.now(UTC)")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _datetime_of(microseconds: int) -> datetime:
    """Return a time; one that no calendar has becomes the first or the last that it has."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # in a log made by hand
        return _FIRST if microseconds < 0 else _LAST
