"""Error statistics in tables: the fold of `ErrorStatistics`, kept row by row.

A call is counted in the time bucket in which it was asked for, whenever it ends: so the numbers
of a bucket fit together, and the buckets add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from eventstore import ErrorKind, FunctionCall, Recorded
from projections.durations import Durations
from projections.figures import Statistics
from projections.fold import Anomaly
from projections.projector.streams import Stream
from projections.projector.tables import (
    COUNTS,
    Reading,
    Row,
    add,
    call_statistics,
    change,
    checkpoints,
    find,
    find_keys,
    find_span,
    key_of,
    kind_statistics,
    open_calls,
    remove_keys,
    storable,
    tool_statistics,
)
from projections.statistics import ANOMALIES, ErrorStatistics
from projections.tallies import KindTally, LiveCall, MarkTally, Tally, ToolTally

if TYPE_CHECKING:
    from sqlalchemy import Connection


PAGE = 64
"""Fingerprints that one row holds."""


class Totals(msgspec.Struct, gc=False, omit_defaults=True):
    """What one lane's statistics count beside the tallies; `last` is the last event's place, id."""

    events: int = 0
    conversations: int = 0
    numbered: int = 0
    forgotten: int = 0
    anomaly_count: int = 0
    anomalies: list[Anomaly] = []
    last: tuple[int, str] = (0, "")


class Spread(msgspec.Struct, gc=False):
    """Durations, as they are stored."""

    longest: int
    counts: dict[int, int]

    @classmethod
    def of(cls, durations: Durations) -> Spread | None:
        """What is to be stored of them."""
        counts = durations.counts()
        return cls(durations.longest, counts) if counts else None

    def durations(self) -> Durations:
        """The durations again."""
        return Durations.of(self.counts, self.longest)


class Bucket(msgspec.Struct):
    """One time bucket of one lane: its tools and error kinds, those of the fold's own form."""

    starts_at: int
    tools: dict[str, ToolTally] = {}
    kinds: dict[ErrorKind, KindTally] = {}
    stored_tools: set[str] = set()
    stored_kinds: set[str] = set()


class BucketTally(ToolTally, gc=True):
    """The numbers of a tool in a bucket; `touched`: they are about to change."""

    bucket: Any = None
    touched: bool = False


class StoredMark(MarkTally, gc=False, omit_defaults=True):
    """The numbers of one fingerprint, stored as they are."""

    fingerprint: str = ""

    @property
    def short(self) -> int:
        """8 bytes of it."""
        try:
            return int(self.fingerprint[3:19], 16)
        except ValueError:  # of a scheme to come
            return int.from_bytes(key_of(self.fingerprint)[:8], "big")


class Standing(NamedTuple):
    """Where a call that is not settled is counted, and as what."""

    named: Tally
    mark: Tally
    status: str
    kind: ErrorKind | None


class StoredCall(LiveCall, gc=False):
    """A call that is not settled; `counted` is how it stood when it was stored."""

    counted: Standing | None = None


class Counted(msgspec.Struct, gc=False, omit_defaults=True):
    """A call that is not settled, as it is stored; see `LiveCall`."""

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


class _ToolBody(Tally, gc=False, omit_defaults=True):
    waiting: Spread | None = None
    queueing: Spread | None = None
    took: Spread | None = None


_FIELDS = tuple(Tally.__struct_fields__)
_encode = msgspec.json.Encoder().encode
_decode_tool = msgspec.json.Decoder(_ToolBody).decode
_decode_marks = msgspec.json.Decoder(list[StoredMark]).decode
_decode_kind = msgspec.json.Decoder(KindTally).decode
_decode_call = msgspec.json.Decoder(Counted).decode


def _copy(tally: Tally, into: Any) -> Any:
    for name in _FIELDS:
        setattr(into, name, getattr(tally, name))
    return into


class StoredStatistics(ErrorStatistics):
    """The numbers of one lane, `width` microseconds a bucket.

    Memory holds the fingerprints kept, and what the last events were about.
    """

    name = "statistics"
    _call = StoredCall

    def __init__(self, totals: Totals, width: int, fingerprints: int) -> None:
        super().__init__(fingerprints)
        self.totals = totals
        self._width = width
        self._events = totals.events
        self._numbered = totals.numbered
        self._forgotten = totals.forgotten
        self._anomaly_count = totals.anomaly_count
        self._anomalies = list(totals.anomalies)
        self._buckets: dict[int, Bucket] = {}
        self._touched: list[Any] = []  # tallies that are about to change
        self._woken: list[tuple[Stream, Any]] = []  # stored calls to which something happens
        self._pages: dict[int, list[MarkTally]] = {}
        self._stored_pages: set[int] = set()
        self._changed_pages: set[int] = set()
        self._open = 0  # calls that are stored
        self._has_marks = False

    def __len__(self) -> int:
        """How many rows are at hand, but for the fingerprints."""
        tallies = sum(len(bucket.tools) for bucket in self._buckets.values())
        return 20 * tallies + self._open

    # loading

    def load(
        self, reading: Reading, at: Row, streams: dict[str, Any], events: Iterable[Recorded]
    ) -> None:
        """Have at hand what `events` are about."""
        self._streams = streams
        width = self._width
        starts = {recorded.recorded_at // width for recorded in events}
        missing = {start * width for start in starts} - self._buckets.keys()
        wanted = self._wanted(streams, events)
        if not missing and not wanted:
            return
        with reading() as connection:
            if not self._has_marks:
                self._has_marks = True
                self._load_marks(connection, at)
            rows = find_keys(connection, open_calls, ("key", "body"), "key", wanted, **at)
            found = [(wanted[bytes(key)], _decode_call(body)) for key, body in rows]
            missing |= {counted.starts_at for _, counted in found} - self._buckets.keys()
            self._load_buckets(connection, at, sorted(missing))
        for stream, counted in found:
            stream.resting[counted.id] = self._counted(counted)
        self._open += len(found)

    def _wanted(self, streams: dict[str, Any], events: Iterable[Recorded]) -> dict[bytes, Stream]:
        """By their keys, the calls that may be stored, of conversations that began long ago."""
        if all(stream.whole for stream in streams.values()):
            return {}
        places = {(r.conversation_id, r.call_id) for r in events if r.call_id}
        wanted = {
            key_of(name, call_id): stream
            for name, call_id in places
            if not (stream := streams[name]).whole and not stream.has(call_id)
        }
        # What was settled since the last commit is still there, and is no more.
        for stream, call in self._woken:
            wanted.pop(key_of(stream.id, call.id), None)
        return wanted

    def _load_marks(self, connection: Connection, at: Row) -> None:
        for page, body in find(connection, call_statistics, ("page", "body"), ("page",), **at):
            marks = _decode_marks(body)
            self._marks.update((mark.fingerprint, mark) for mark in marks)
            self._pages[page] = list(marks)
            self._stored_pages.add(page)

    def _load_buckets(self, connection: Connection, at: Row, starts: list[int]) -> None:
        for starts_at in starts:
            self._buckets[starts_at] = Bucket(starts_at)
        columns = ("starts_at", "tool", "body")
        for starts_at, _, body in find_keys(
            connection, tool_statistics, columns, "starts_at", starts, **at
        ):
            bucket = self._buckets[starts_at]
            name, tally = _tool_tally(body, bucket)
            bucket.tools[name] = tally
            bucket.stored_tools.add(name)
        columns = ("starts_at", "kind", "body")
        for starts_at, kind, body in find_keys(
            connection, kind_statistics, columns, "starts_at", starts, **at
        ):
            bucket = self._buckets[starts_at]
            bucket.kinds[ErrorKind(kind)] = _decode_kind(body)
            bucket.stored_kinds.add(kind)

    def _counted(self, counted: Counted) -> StoredCall:
        named = self._buckets[counted.starts_at].tools[counted.asked.name]
        mark = self._marks.get(counted.mark or "") or MarkTally(tool=counted.asked.name)
        return StoredCall(
            counted.id, counted.asked, named, mark, counted.since, counted.status,
            counted.attempts, counted.edit, counted.kind, counted.in_doubt, counted.mishap,
            Standing(named, mark, counted.status, counted.kind),
        )  # fmt: skip

    # folding

    def _kept(self, stream: Any, call_id: str) -> LiveCall | None:
        call = stream.resting.pop(call_id, None)
        if call is None:
            return None
        stream.calls[call_id] = call
        self._woken.append((stream, call))
        self._touch(call.named)
        if call.mark.number:
            self._changed_pages.add(call.mark.number // PAGE)
        return call  # type: ignore[no-any-return]

    def _touch(self, named: Any) -> None:
        if not named.touched:
            named.touched = True
            self._touched.append(named)

    def _is_again(self, stream: Any, mark: Any) -> bool:
        return bool(stream.asks(mark.short))

    def _named(self, name: str, at: int) -> ToolTally:
        bucket = self._buckets[at // self._width * self._width]
        named = bucket.tools.get(name)
        if named is None:
            named = BucketTally(name_only=FunctionCall(name, None), bucket=bucket)
            bucket.tools[name] = named
        self._touch(named)
        return named

    def _kinds_of(self, call: Any) -> dict[ErrorKind, KindTally]:
        return call.named.bucket.kinds  # type: ignore[no-any-return]

    def _mark(self, fingerprint: str | None, tool: str) -> MarkTally:
        mark = super()._mark(fingerprint, tool)
        if mark.number:
            self._changed_pages.add(mark.number // PAGE)
        return mark

    def _new_mark(self, fingerprint: str, tool: str) -> MarkTally:
        mark = StoredMark(tool=tool, number=self._numbered, fingerprint=fingerprint)
        self._pages.setdefault(mark.number // PAGE, []).append(mark)
        return mark

    def _forget(self) -> None:
        before = self._marks
        super()._forget()
        for fingerprint, mark in before.items():
            if fingerprint not in self._marks:
                self._changed_pages.add(mark.number // PAGE)
                mark.number = 0  # what still comes of its calls is counted by nobody
        for page in self._changed_pages:
            kept = [mark for mark in self._pages.get(page, ()) if mark.number]
            if kept:
                self._pages[page] = kept
            else:
                self._pages.pop(page, None)

    # storing

    def store(self, connection: Connection, at: Row, streams: Iterable[Stream]) -> None:
        """Store what has changed, of these conversations."""
        totals = self.totals
        totals.events = self._events
        totals.numbered = self._numbered
        totals.forgotten = self._forgotten
        totals.anomaly_count = self._anomaly_count
        totals.anomalies = self._anomalies
        self._store_calls(connection, at, streams)
        _store_tools(connection, at, self._touched)
        buckets = {tally.bucket.starts_at: tally.bucket for tally in self._touched}
        _store_kinds(connection, at, buckets.values())
        self._store_marks(connection, at)
        self._touched.clear()

    def _store_marks(self, connection: Connection, at: Row) -> None:
        new: list[Row] = []
        changed: list[Row] = []
        gone = self._stored_pages - self._pages.keys()
        for page in self._changed_pages & self._pages.keys():
            row = at | {"page": page, "body": _encode(self._pages[page]).decode()}
            (changed if page in self._stored_pages else new).append(row)
        remove_keys(connection, call_statistics, "page", gone, **at)
        add(connection, call_statistics, new)
        change(connection, call_statistics, ("projection", "lane", "page"), changed)
        self._stored_pages = set(self._pages)
        self._changed_pages.clear()

    def _store_calls(self, connection: Connection, at: Row, streams: Iterable[Stream]) -> None:
        """Store the calls that are not settled, and count them as they stand.

        What is asked for and settled between two commits was never open.
        """
        gone: list[bytes] = []
        for stream, call in self._woken:
            self._weigh(call.counted, -1)
            if stream.calls.get(call.id) is not call:
                gone.append(key_of(stream.id, call.id))
        self._woken.clear()
        new: list[Row] = []
        changed: list[Row] = []
        for stream in streams:
            live: Iterable[Any] = stream.calls.values()
            for call in live:
                row = at | {"key": key_of(stream.id, call.id), "body": _call_body(call)}
                (new if call.counted is None else changed).append(row)
                call.counted = Standing(call.named, call.mark, call.status, call.kind)
                self._weigh(call, 1)
            stream.resting |= stream.calls
            stream.calls.clear()
        remove_keys(connection, open_calls, "key", gone, **at)
        add(connection, open_calls, new)
        change(connection, open_calls, ("projection", "lane", "key"), changed)
        self._open += len(new) - len(gone)

    def settle(self) -> None:
        """All is stored."""


def _call_body(call: Any) -> str:
    counted = Counted(
        call.named.bucket.starts_at, call.id, call.asked, call.since, call.status, call.attempts,
        call.edit, call.kind, call.in_doubt, call.mishap,
        call.mark.fingerprint if call.mark.number else None,
    )  # fmt: skip
    return _encode(counted).decode()


def _store_tools(connection: Connection, at: Row, tallies: Iterable[Any]) -> None:
    new: list[Row] = []
    changed: list[Row] = []
    for tally in tallies:
        tally.touched = False
        name, bucket = tally.name_only.name, tally.bucket
        figures = tally.figures()
        body = _copy(tally, _ToolBody())
        body.waiting, body.queueing, body.took = map(
            Spread.of, (tally.waiting, tally.queueing, tally.took)
        )
        row = at | {"starts_at": bucket.starts_at, "key": key_of(name)}
        row |= {n: figures[n] for n in COUNTS}
        row |= {"body": _encode([name, body]).decode()}
        if name in bucket.stored_tools:
            changed.append(row)
        else:
            bucket.stored_tools.add(name)
            new.append(row | {"tool": storable(name)})
    add(connection, tool_statistics, new)
    change(connection, tool_statistics, ("projection", "lane", "starts_at", "key"), changed)


def _store_kinds(connection: Connection, at: Row, buckets: Iterable[Bucket]) -> None:
    new: list[Row] = []
    changed: list[Row] = []
    for bucket in buckets:
        for kind, tally in bucket.kinds.items():
            numbers = tally.numbers()
            row = at | {"starts_at": bucket.starts_at, "kind": str(kind)}
            row |= {"failures": numbers.failures, "retried": tally.retried,
                    "recovered": tally.recovered, "terminal": tally.terminal,
                    "body": _encode(tally).decode()}  # fmt: skip
            (changed if str(kind) in bucket.stored_kinds else new).append(row)
            bucket.stored_kinds.add(str(kind))
    key = ("projection", "lane", "starts_at", "kind")
    add(connection, kind_statistics, new)
    change(connection, kind_statistics, key, changed)


_decode_named = msgspec.json.Decoder(tuple[str, _ToolBody]).decode


def _tool_tally(body: str, bucket: Bucket) -> tuple[str, ToolTally]:
    name, stored = _decode_named(body)
    tally = BucketTally(name_only=FunctionCall(name, None), bucket=bucket)
    _copy(stored, tally)
    for which in ("waiting", "queueing", "took"):
        spread = getattr(stored, which)
        if spread is not None:
            setattr(tally, which, spread.durations())
    return name, tally


# reading


class _Sum(ErrorStatistics):
    """What the rows of all lanes add up to."""

    def __init__(self, totals: Iterable[Totals]) -> None:
        super().__init__()
        conversations = 0
        for one in totals:
            conversations += one.conversations
            self._events += one.events
            self._forgotten += one.forgotten
            self._anomaly_count += one.anomaly_count
            self._anomalies += one.anomalies
        del self._anomalies[ANOMALIES:]
        self._streams: Any = range(conversations)

    def _count_live(self) -> None:
        """They are counted already."""

    def include(self, buckets: Iterable[Bucket], marks: Iterable[StoredMark] = ()) -> _Sum:
        """Add the numbers of buckets and of fingerprints."""
        for bucket in buckets:
            for name, tally in bucket.tools.items():
                self._named(name, 0).include(tally)
            for kind, part in bucket.kinds.items():
                _include_kind(self._kinds.setdefault(kind, KindTally()), part)
        for mark in marks:
            known = self._marks.setdefault(mark.fingerprint, mark)
            if known is not mark:
                _include_mark(known, mark)
        return self


def _include_kind(kind: KindTally, other: KindTally) -> None:
    kind.retried += other.retried
    kind.recovered += other.recovered
    kind.terminal += other.terminal
    for tool, count in other.tools.items():
        kind.tools[tool] = kind.tools.get(tool, 0) + count


def _include_mark(mark: MarkTally, other: MarkTally) -> None:
    for name in _FIELDS:
        value = getattr(other, name)
        if isinstance(value, int):
            setattr(mark, name, getattr(mark, name) + value)
    for kind, count in (other.failures or {}).items():
        mark.failed(kind, count)
    for source, count in (other.rejections or {}).items():
        mark.rejected(source, count)
    mark.arguments = mark.arguments or other.arguments


def read_buckets(
    connection: Connection, projection: int, since: int | None = None, until: int | None = None
) -> list[Bucket]:
    """The time buckets of all lanes from `since` up to `until`, each lane's by itself."""
    buckets: dict[tuple[int, int], Bucket] = {}
    span = {"since": since, "until": until}
    columns = ("lane", "starts_at", "body")
    for lane, starts_at, body in find_span(
        connection, tool_statistics, columns, "starts_at", **span, projection=projection
    ):
        bucket = buckets.setdefault((lane, starts_at), Bucket(starts_at))
        name, tally = _tool_tally(body, bucket)
        bucket.tools[name] = tally
    for lane, starts_at, kind, body in find_span(
        connection,
        kind_statistics,
        ("lane", "starts_at", "kind", "body"),
        "starts_at",
        **span,
        projection=projection,
    ):
        bucket = buckets.setdefault((lane, starts_at), Bucket(starts_at))
        bucket.kinds[ErrorKind(kind)] = _decode_kind(body)
    return [buckets[key] for key in sorted(buckets)]


def read_statistics(connection: Connection, projection: int) -> Statistics:
    """The numbers of all lanes and all time."""
    rows = find(connection, checkpoints, ("totals",), ("lane",), projection=projection)
    totals = [msgspec.json.decode(text, type=Totals) for (text,) in rows]
    rows = find(connection, call_statistics, ("body",), ("lane",), projection=projection)
    marks = [mark for (body,) in rows for mark in _decode_marks(body)]
    return _Sum(totals).include(read_buckets(connection, projection), marks).result()


def summed(buckets: Iterable[Bucket]) -> Statistics:
    """The numbers of some buckets; what is not counted by bucket is empty."""
    return _Sum(()).include(buckets).result()
