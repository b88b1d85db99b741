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
    Bucket,
    decode_fingerprints,
    decode_kind,
    tool_counter,
)
from projections.statistics.counts import Counts
from projections.statistics.fold import MAX_ANOMALIES
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


def read_statistics(connection: Connection, generation: int) -> Statistics:
    """Return the numbers of all lanes and all time."""
    where = {"projection": generation}
    rows = select_rows(connection, schema.checkpoints, ("totals",), where, ("lane",))
    totals = [msgspec.json.decode(text, type=Totals) for (text,) in rows]
    counts = _sum_of(_read_buckets(connection, generation))
    rows = select_rows(connection, schema.call_statistics, ("body",), where, ("lane",))
    for (body,) in rows:
        for counter in decode_fingerprints(body):
            counts.add_fingerprint(counter)
    anomalies = [anomaly for lane in totals for anomaly in lane.anomalies]
    return counts.statistics(
        events=sum(lane.events for lane in totals),
        conversations=sum(lane.conversations for lane in totals),
        copied_calls=sum(lane.copied_calls for lane in totals),
        forgotten=sum(lane.forgotten for lane in totals),
        anomaly_count=sum(lane.anomaly_count for lane in totals),
        anomalies=tuple(anomalies[:MAX_ANOMALIES]),
    )


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
        counter = tool_counter(body, bucket)
        bucket.tools[counter.name_only.name] = counter
    kind_columns = ("lane", "starts_at", "kind", "body")
    for lane, starts_at, kind, body in select_span(
        connection, schema.kind_statistics, kind_columns, where, since, until
    ):
        bucket = buckets.setdefault((lane, starts_at), Bucket(starts_at))
        bucket.kinds[ErrorKind(kind)] = decode_kind(body)
    return [buckets[key] for key in sorted(buckets)]


def _sum_of(buckets: Iterable[Bucket]) -> Counts:
    """Return what the counters of all these buckets add up to."""
    counts = Counts()
    for bucket in buckets:
        for name, counter in bucket.tools.items():
            counts.add_tool(name, counter)
        for kind, kind_counter in bucket.kinds.items():
            counts.add_kind(kind, kind_counter)
    return counts


def _time_bucket(start: int, width: int, buckets: Iterable[Bucket]) -> TimeBucket:
    numbers = _sum_of(buckets).statistics()
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
