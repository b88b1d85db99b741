"""Error statistics in tables: the fold of `ErrorStatistics`, kept row by row.

A call is counted in the time bucket in which it was asked for, whenever it ends: so the numbers
of a bucket fit together, and the buckets add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from eventstore import (
    ErrorKind,
    Failed,
    FunctionCall,
    Recorded,
    Running,
    Tool,
    ToolPending,
    ToolStatus,
)
from projections.durations import Durations
from projections.figures import Statistics
from projections.fold import Anomaly
from projections.projector.streams import Stream
from projections.projector.tables import (
    COUNTS,
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
    """What one lane's statistics count beside the tallies."""

    events: int = 0
    conversations: int = 0
    numbered: int = 0
    forgotten: int = 0
    anomaly_count: int = 0
    anomalies: list[Anomaly] = []


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
    """The numbers of a tool in a bucket."""

    name: str = ""
    bucket: Any = None


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
    status: ToolStatus


class StoredCall(LiveCall, gc=False):
    """A call that is not settled; `counted` is how it stood when it was `stored`."""

    touched: bool = False
    stored: bool = False
    counted: Standing | None = None


class Counted(msgspec.Struct, gc=False):
    """A call that is not settled, as it is stored."""

    tool: Tool
    name: str
    starts_at: int
    mark: str | None = None
    kind: ErrorKind | None = None
    mishap: bool = False


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
        self._bucket = Bucket(0)
        self._touched: list[tuple[Stream, Any, Any]] = []  # calls, and their marks before
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
        self, connection: Connection, at: Row, streams: dict[str, Any], events: Iterable[Recorded]
    ) -> None:
        """Have at hand what `events` are about."""
        self._streams = streams
        if not self._has_marks:
            self._has_marks = True
            self._load_marks(connection, at)
        width = self._width
        buckets = {r.recorded_at // width * width for r in events if r.event.tag == "pending"}
        found = [
            (stream, call_id, _decode_call(body))
            for stream, call_id, body in self._find_calls(connection, at, events)
        ]
        buckets |= {counted.starts_at for _, _, counted in found}
        self._load_buckets(connection, at, sorted(buckets - self._buckets.keys()))
        for stream, call_id, counted in found:
            stream.calls[call_id] = self._counted(counted)
            self._open += 1

    def _find_calls(
        self, connection: Connection, at: Row, events: Iterable[Recorded]
    ) -> Iterator[tuple[Stream, str, str]]:
        """The stored calls of conversations that began before what is at hand."""
        streams: dict[str, Any] = self._streams
        places = {
            (r.conversation_id, r.call_id)
            for r in events
            if r.call_id
            and not (stream := streams[r.conversation_id]).whole
            and r.call_id not in stream.calls
        }
        if places:  # what was settled since the last commit is still there, and is no more
            places.difference_update((s.id, call.tool.id) for s, call, _ in self._touched)
        wanted = {key_of(*place): (streams[place[0]], place[1]) for place in places}
        rows = find_keys(connection, open_calls, ("key", "body"), "key", wanted, **at)
        for key, body in rows:
            yield *wanted[bytes(key)], body

    def _load_marks(self, connection: Connection, at: Row) -> None:
        for page, body in find(connection, call_statistics, ("page", "body"), **at):
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
        bucket = self._buckets[counted.starts_at]
        named = bucket.tools[counted.name]
        mark = self._marks.get(counted.mark or "") or MarkTally(tool=counted.name)
        return StoredCall(
            counted.tool, named, mark, counted.kind, counted.mishap, stored=True,
            counted=Standing(named, mark, counted.tool.status),
        )  # fmt: skip

    # folding

    def _requested(self, stream: Any, recorded: Recorded, event: ToolPending) -> None:
        starts_at = recorded.recorded_at // self._width * self._width
        self._bucket = self._buckets[starts_at]
        self._tools = self._bucket.tools
        super()._requested(stream, recorded, event)
        call = stream.calls.get(event.call.id)
        if call is not None and not call.touched:
            self._touch(stream, call)

    def _step(self, stream: Any, call: Any, recorded: Recorded, event: Any) -> None:
        if call is not None:
            self._kinds = call.named.bucket.kinds
            if not call.touched:
                self._touch(stream, call)
        super()._step(stream, call, recorded, event)

    def _touch(self, stream: Stream, call: Any) -> None:
        """Whatever becomes of a call: it is stored again, and so is what counts it."""
        call.touched = True
        self._touched.append((stream, call, call.mark))

    def _count_again(self) -> list[Any]:
        """Count the calls that were touched as they stand now; the tools they are counted at.

        What is asked for and settled between two commits was never open.
        """
        tools: dict[int, Any] = {}
        for stream, call, mark in self._touched:
            tools[id(call.named)] = call.named
            self._changed_pages.update(m.number // PAGE for m in (mark, call.mark) if m.number)
            self._kinds = call.named.bucket.kinds
            if call.counted is not None:
                self._weigh(call.counted, -1)
                call.counted = None
            live: Any = stream.calls.get(call.tool.id)
            if live is call:
                call.counted = Standing(call.named, call.mark, call.tool.status)
                self._weigh(call.counted, 1)
        return list(tools.values())

    def _weigh(self, standing: Standing, sign: int) -> None:
        """Count a call that is not settled as it stands, or no more so."""
        status: Any = standing.status
        if type(status) is Failed:
            self._kind(status.failure.kind).terminal += sign
        for tally in (standing.named, standing.mark):
            if type(status) is Failed:
                tally.terminal += sign
                continue
            tally.open += sign
            tally.running += sign * (type(status) is Running)

    def _is_again(self, stream: Any, mark: MarkTally) -> bool:
        if not mark.number:
            return False
        return bool(stream.asks(mark.short))  # type: ignore[attr-defined]

    def _tool(self, name: str) -> ToolTally:
        tally = self._tools[name] = BucketTally(
            name_only=FunctionCall(name, None), name=name, bucket=self._bucket
        )
        return tally

    def _mark(self, fingerprint: str | None, call: FunctionCall) -> MarkTally:
        if fingerprint is None:
            return MarkTally(tool=call.name)
        tally = self._marks.get(fingerprint)
        if tally is None:
            if len(self._marks) >= self._limit:
                self._forget()
            self._numbered += 1
            tally = self._marks[fingerprint] = StoredMark(
                tool=call.name, number=self._numbered, fingerprint=fingerprint
            )
            self._pages.setdefault(self._numbered // PAGE, []).append(tally)
        return tally

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

    def store(self, connection: Connection, at: Row) -> None:
        """Store what has changed."""
        totals = self.totals
        totals.events = self._events
        totals.numbered = self._numbered
        totals.forgotten = self._forgotten
        totals.anomaly_count = self._anomaly_count
        totals.anomalies = self._anomalies
        tools = self._count_again()
        _store_tools(connection, at, tools)
        buckets = {tally.bucket.starts_at: tally.bucket for tally in tools}
        _store_kinds(connection, at, buckets.values())
        self._store_marks(connection, at)
        self._store_calls(connection, at)

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

    def _store_calls(self, connection: Connection, at: Row) -> None:
        new: list[Row] = []
        changed: list[Row] = []
        gone: list[bytes] = []
        for stream, call, _ in self._touched:
            call.touched = False
            if call.counted is None and not call.stored:
                continue
            key = key_of(stream.id, call.tool.id)
            if call.counted is None:
                gone.append(key)
                continue
            counted = Counted(
                call.tool, call.named.name, call.named.bucket.starts_at,
                call.mark.fingerprint if call.mark.number else None, call.kind, call.mishap,
            )  # fmt: skip
            row = at | {"key": key, "body": _encode(counted).decode()}
            (changed if call.stored else new).append(row)
            call.stored = True
        remove_keys(connection, open_calls, "key", gone, **at)
        add(connection, open_calls, new)
        change(connection, open_calls, ("projection", "lane", "key"), changed)
        self._open += len(new) - len(gone)
        self._touched.clear()

    def settle(self) -> None:
        """All is stored."""


def _store_tools(connection: Connection, at: Row, tallies: Iterable[Any]) -> None:
    new: list[Row] = []
    changed: list[Row] = []
    for tally in tallies:
        name, bucket = tally.name, tally.bucket
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
    tally = BucketTally(name_only=FunctionCall(name, None), name=name, bucket=bucket)
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
                (self._tools.get(name) or self._tool(name)).include(tally)
            for kind, part in bucket.kinds.items():
                _include_kind(self._kind(kind), part)
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
