"""The rows of the error statistics: the forms in which their counters are stored.

The names of the fields are those of the stored JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from eventstore import ErrorKind, FunctionCall
from projections.projector import schema
from projections.projector.queries import Row, RowChanges
from projections.projector.schema import COUNTS, key_of, storable
from projections.statistics.counters import (
    CallState,
    Counter,
    ErrorKindCounter,
    FingerprintCounter,
    LiveCall,
    ToolCounter,
)
from projections.statistics.durations import Durations

C = TypeVar("C", bound=Counter)


class StoredDurations(msgspec.Struct, gc=False, omit_defaults=True):
    """Durations, as they are stored: in buckets, and some `exact` ones as they are."""

    longest: int
    counts: dict[int, int]
    exact: list[int] = []

    @classmethod
    def of(cls, durations: Durations) -> StoredDurations | None:
        """Return the stored form of durations in buckets, or None if there are no values."""
        counts = durations.counts()
        return cls(durations.longest, counts) if counts else None

    @classmethod
    def exactly(cls, durations: Durations) -> StoredDurations:
        """Return the stored form of durations that are as exact as before."""
        return cls(durations.longest, *durations.parts())

    def durations(self) -> Durations:
        """Return the durations again."""
        return Durations.of(self.counts, self.longest, self.exact)


class Bucket(msgspec.Struct):
    """One time bucket of one lane: the counters of its tools and error kinds.

    `changed` are the tools whose counts have changed since the last commit, or are about to.
    """

    starts_at: int
    tools: dict[str, ToolCounter] = {}
    kinds: dict[ErrorKind, ErrorKindCounter] = {}
    changed: set[str] = set()
    stored_tools: set[str] = set()
    stored_kinds: set[str] = set()

    def tool(self, name: str) -> ToolCounter:
        """Return the counter of a tool, which is about to change."""
        self.changed.add(name)
        counter = self.tools.get(name)
        if counter is None:
            counter = ToolCounter(name_only=FunctionCall(name, None), kinds=self.kinds)
            self.tools[name] = counter
        return counter


class OpenCallBody(CallState, gc=False, omit_defaults=True, kw_only=True):
    """An open or failed call, as it is stored: asked for in the bucket at `starts_at`.

    `mark` is its fingerprint, if it is kept.
    """

    starts_at: int
    mark: str | None = None


class _ToolBody(Counter, gc=False, omit_defaults=True):
    waiting: StoredDurations | None = None
    queueing: StoredDurations | None = None
    took: StoredDurations | None = None


COUNTER_FIELDS = tuple(Counter.__struct_fields__)
DURATIONS = ("waiting", "queueing", "took")
_encode = msgspec.json.Encoder().encode
_decode_named = msgspec.json.Decoder(tuple[str, _ToolBody]).decode
decode_fingerprints = msgspec.json.Decoder(list[FingerprintCounter]).decode
decode_kind = msgspec.json.Decoder(ErrorKindCounter).decode
decode_call = msgspec.json.Decoder(OpenCallBody).decode


def encode_text(value: object) -> str:
    """Return the JSON text of a row's body."""
    return _encode(value).decode()


def _copy(counter: Counter, into: C) -> C:
    for name in COUNTER_FIELDS:
        setattr(into, name, getattr(counter, name))
    return into


def call_body(call: LiveCall, starts_at: int) -> str:
    """Return the body of the row of an open call; it was asked for in the bucket at `starts_at`."""
    counter = call.fingerprint_counter
    mark = counter.fingerprint if counter.number else None
    return encode_text(OpenCallBody(starts_at=starts_at, mark=mark, **state_of(call)))


def state_of(call: CallState) -> dict[str, Any]:
    """Return the members that an open call has in memory and in its row."""
    return {name: getattr(call, name) for name in CallState.__struct_fields__}


def tool_counter(body: str, bucket: Bucket) -> ToolCounter:
    """Return the counts of a tool from the body of a row of this bucket."""
    name, stored = _decode_named(body)
    counter = ToolCounter(name_only=FunctionCall(name, None), kinds=bucket.kinds)
    _copy(stored, counter)
    for leg in DURATIONS:
        if (durations := getattr(stored, leg)) is not None:
            setattr(counter, leg, durations.durations())
    return counter


def tool_changes(buckets: Iterable[Bucket]) -> RowChanges:
    """Return the rows of the tools whose counts have changed."""
    rows = RowChanges(schema.tool_statistics)
    for bucket in buckets:
        for name in bucket.changed:
            row: Row = {"starts_at": bucket.starts_at, "key": key_of(name)}
            row |= _tool_row(name, bucket.tools[name])
            if name in bucket.stored_tools:
                rows.changed.append(row)
            else:
                rows.new.append(row | {"tool": storable(name)})
        bucket.stored_tools |= bucket.changed
        bucket.changed.clear()
    return rows


def _tool_row(name: str, counter: ToolCounter) -> Row:
    totals = counter.totals()
    body = _copy(counter, _ToolBody())
    for leg in DURATIONS:
        setattr(body, leg, StoredDurations.of(getattr(counter, leg)))
    counts: Row = {column: totals[column] for column in COUNTS}
    return counts | {"body": encode_text([name, body])}


def kind_changes(buckets: Iterable[Bucket]) -> RowChanges:
    """Return the rows of the error kinds of some buckets."""
    rows = RowChanges(schema.kind_statistics)
    for bucket in buckets:
        for kind, counter in bucket.kinds.items():
            row: Row = {
                "starts_at": bucket.starts_at,
                "kind": str(kind),
                "failures": counter.statistics().failures,
                "retried": counter.retried,
                "recovered": counter.recovered,
                "terminal": counter.terminal,
                "body": encode_text(counter),
            }
            (rows.changed if str(kind) in bucket.stored_kinds else rows.new).append(row)
            bucket.stored_kinds.add(str(kind))
    return rows
