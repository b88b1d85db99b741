"""The rows of the error statistics: the forms in which their counters are stored.

The names of the fields are those of the stored JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from eventstore import ErrorKind, FunctionCall
from projections.projector import schema
from projections.projector.queries import Row, insert_rows, update_rows
from projections.projector.schema import COUNTS, key_of, storable
from projections.statistics.counters import (
    Counter,
    ErrorKindCounter,
    FingerprintCounter,
    LiveCall,
    ToolCounter,
)
from projections.statistics.durations import Durations

if TYPE_CHECKING:
    from sqlalchemy import Connection

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
    """One time bucket of one lane: the counters of its tools and error kinds."""

    starts_at: int
    tools: dict[str, BucketCounter] = {}
    kinds: dict[ErrorKind, ErrorKindCounter] = {}
    stored_tools: set[str] = set()
    stored_kinds: set[str] = set()


class BucketCounter(ToolCounter, gc=True, kw_only=True):
    """The counts of a tool in a bucket; `is_changed`: since the last commit, or about to be."""

    bucket: Bucket
    is_changed: bool = False


class StoredFingerprint(FingerprintCounter, gc=False, omit_defaults=True):
    """The counts of one fingerprint, which are stored as they are."""

    fingerprint: str = ""

    @property
    def short(self) -> int:
        """8 bytes of the fingerprint."""
        try:
            return int(self.fingerprint[3:19], 16)
        except ValueError:  # of a later scheme
            return int.from_bytes(key_of(self.fingerprint)[:8], "big")


class CountedStatus(NamedTuple):
    """The status that an open call was counted with, and the counters."""

    tool_counter: Counter
    fingerprint_counter: Counter
    status: str
    kind: ErrorKind | None
    runs_again: bool


class StoredCall(LiveCall, gc=False):
    """An open or failed call; `counted` is its status when it was stored last."""

    counted: CountedStatus | None = None


class OpenCallBody(msgspec.Struct, gc=False, omit_defaults=True):
    """An open or failed call, as it is stored; see `LiveCall`."""

    starts_at: int
    id: str
    asked: FunctionCall
    since: int
    status: str
    attempts: int = 0
    edit: FunctionCall | None = None
    kind: ErrorKind | None = None
    in_doubt: bool = False
    mishap: bool = False
    mark: str | None = None
    again: bool = False
    lost: int = 0
    imported: bool = False
    approval_expires: bool = False
    retry_announced: bool = False


class _ToolBody(Counter, gc=False, omit_defaults=True):
    waiting: StoredDurations | None = None
    queueing: StoredDurations | None = None
    took: StoredDurations | None = None


COUNTER_FIELDS = tuple(Counter.__struct_fields__)
_encode = msgspec.json.Encoder().encode
_decode_named = msgspec.json.Decoder(tuple[str, _ToolBody]).decode
decode_fingerprints = msgspec.json.Decoder(list[StoredFingerprint]).decode
decode_kind = msgspec.json.Decoder(ErrorKindCounter).decode
decode_call = msgspec.json.Decoder(OpenCallBody).decode


def encode_text(value: object) -> str:
    """Return the JSON text of a row's body."""
    return _encode(value).decode()


def _copy(counter: Counter, into: C) -> C:
    for name in COUNTER_FIELDS:
        setattr(into, name, getattr(counter, name))
    return into


def call_body(call: StoredCall, starts_at: int) -> str:
    """Return the body of the row of an open call; it was asked for in the bucket at `starts_at`."""
    counter = call.fingerprint_counter
    mark = None
    if isinstance(counter, StoredFingerprint) and counter.number:
        mark = counter.fingerprint
    return encode_text(
        OpenCallBody(
            starts_at=starts_at,
            id=call.id,
            asked=call.asked,
            since=call.since,
            status=call.status,
            attempts=call.attempts,
            edit=call.edit,
            kind=call.kind,
            in_doubt=call.in_doubt,
            mishap=call.first_try_failed,
            mark=mark,
            again=call.runs_again,
            lost=call.lost,
            imported=call.imported,
            approval_expires=call.approval_expires,
            retry_announced=call.retry_announced,
        )
    )


def tool_counter(body: str, bucket: Bucket) -> tuple[str, BucketCounter]:
    """Return the tool's name and its counts from the body of a row of this bucket."""
    name, stored = _decode_named(body)
    counter = BucketCounter(name_only=FunctionCall(name, None), bucket=bucket)
    _copy(stored, counter)
    if stored.waiting is not None:
        counter.waiting = stored.waiting.durations()
    if stored.queueing is not None:
        counter.queueing = stored.queueing.durations()
    if stored.took is not None:
        counter.took = stored.took.durations()
    return name, counter


def store_tools(connection: Connection, at: Row, counters: Iterable[BucketCounter]) -> None:
    """Store the counts of tools; they are not changed any more."""
    new: list[Row] = []
    changed: list[Row] = []
    for counter in counters:
        counter.is_changed = False
        name, bucket = counter.name_only.name, counter.bucket
        totals = counter.totals()
        body = _copy(counter, _ToolBody())
        body.waiting = StoredDurations.of(counter.waiting)
        body.queueing = StoredDurations.of(counter.queueing)
        body.took = StoredDurations.of(counter.took)
        row = at | {"starts_at": bucket.starts_at, "key": key_of(name)}
        row |= {column: totals[column] for column in COUNTS}
        row |= {"body": encode_text([name, body])}
        if name in bucket.stored_tools:
            changed.append(row)
        else:
            bucket.stored_tools.add(name)
            new.append(row | {"tool": storable(name)})
    insert_rows(connection, schema.tool_statistics, new)
    update_rows(connection, schema.tool_statistics, changed)


def store_kinds(connection: Connection, at: Row, buckets: Iterable[Bucket]) -> None:
    """Store the counts of the error kinds of some buckets."""
    new: list[Row] = []
    changed: list[Row] = []
    for bucket in buckets:
        for kind, counter in bucket.kinds.items():
            row = at | {
                "starts_at": bucket.starts_at,
                "kind": str(kind),
                "failures": counter.statistics().failures,
                "retried": counter.retried,
                "recovered": counter.recovered,
                "terminal": counter.terminal,
                "body": encode_text(counter),
            }
            (changed if str(kind) in bucket.stored_kinds else new).append(row)
            bucket.stored_kinds.add(str(kind))
    insert_rows(connection, schema.kind_statistics, new)
    update_rows(connection, schema.kind_statistics, changed)
