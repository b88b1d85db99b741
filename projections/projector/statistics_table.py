"""Error statistics in tables: the fold of `ErrorStatistics`, kept row by row.

1. A call is counted in the time bucket in which it was asked for, whenever it ends. So the numbers
   of a bucket fit together, and the buckets add up to the whole.
2. A call that is neither resolved nor forgotten has a row, because what happens next depends on
   it. One that was asked for and resolved between two commits never has one.
3. What an open call adds to `open`, `running` and `terminal` is taken back when it goes on, and
   added again as it stands at the next commit.
4. All fingerprints that are kept are in memory, as which of them are forgotten depends on all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from eventstore import ErrorKind, FunctionCall, Recorded
from projections.projector import schema
from projections.projector.checkpoint import Totals
from projections.projector.conversations_table import StoredConversation
from projections.projector.queries import (
    Row,
    delete_keys,
    insert_rows,
    select_keys,
    select_rows,
    update_rows,
)
from projections.projector.schema import key_of
from projections.projector.statistics_rows import (
    Bucket,
    BucketCounter,
    CountedStatus,
    OpenCallBody,
    StoredCall,
    StoredFingerprint,
    call_body,
    decode_call,
    decode_fingerprints,
    decode_kind,
    encode_text,
    store_kinds,
    store_tools,
    tool_counter,
)
from projections.projector.table_projection import ProjectedLane
from projections.statistics.counters import ErrorKindCounter, FingerprintCounter
from projections.statistics.projection import ErrorStatistics

if TYPE_CHECKING:
    from sqlalchemy import Connection

FINGERPRINTS_PER_PAGE = 64
"""Fingerprints that one row holds."""

ROWS_PER_COUNTER = 20
"""A counter of a tool takes as much memory as this number of small rows."""


class StoredStatistics(ErrorStatistics):
    """The numbers of one lane, in buckets of `width` microseconds.

    Memory holds the fingerprints kept, and what the last events were about.
    """

    _call_class = StoredCall

    def __init__(self, totals: Totals, width: int, fingerprints: int) -> None:
        super().__init__(fingerprints)
        self._totals = totals
        self._width = width
        self._events = totals.events
        self._last_number = totals.numbered
        self._forgotten = totals.forgotten
        self._anomaly_count = totals.anomaly_count
        self._anomalies = list(totals.anomalies)
        self._buckets: dict[int, Bucket] = {}
        self._changed: list[BucketCounter] = []
        self._resumed: list[tuple[StoredConversation, StoredCall]] = []
        """Stored calls that have changed since the last commit."""
        self._pages: dict[int, list[StoredFingerprint]] = {}
        self._stored_pages: set[int] = set()
        self._changed_pages: set[int] = set()
        self._stored_calls = 0
        self._has_fingerprints = False

    def __len__(self) -> int:
        """Return how many rows are in memory, without the fingerprints."""
        counters = sum(len(bucket.tools) for bucket in self._buckets.values())
        return ROWS_PER_COUNTER * counters + self._stored_calls

    # loading

    def load(
        self,
        lane: ProjectedLane,
        conversations: dict[str, StoredConversation],
        events: Sequence[Recorded],
    ) -> None:
        """Load the buckets and calls that `events` are about."""
        self._streams: Any = conversations
        width = self._width
        starts = {recorded.time // width for recorded in events}
        missing = {start * width for start in starts} - self._buckets.keys()
        wanted = self._wanted(conversations, events)
        if not missing and not wanted:
            return
        with lane.reading() as connection:
            if not self._has_fingerprints:
                self._has_fingerprints = True
                self._load_fingerprints(connection, lane.key)
            columns = ("key", "body")
            rows = select_keys(connection, schema.open_calls, columns, lane.key, "key", wanted)
            found = [(wanted[bytes(key)], decode_call(body)) for key, body in rows]
            missing |= {body.starts_at for _, body in found} - self._buckets.keys()
            self._load_buckets(connection, lane.key, sorted(missing))
        for conversation, body in found:
            conversation.resting[body.id] = self._stored_call(body)
        self._stored_calls += len(found)

    def _wanted(
        self, conversations: dict[str, StoredConversation], events: Iterable[Recorded]
    ) -> dict[bytes, StoredConversation]:
        """Return the conversations of the calls that may be stored, by the calls' keys."""
        if all(conversation.is_new for conversation in conversations.values()):
            return {}
        places = {(r.conversation_id, r.call_id) for r in events if r.call_id}
        wanted = {
            key_of(name, call_id): conversation
            for name, call_id in places
            if not (conversation := conversations[name]).is_new
            and not conversation.has_open(call_id)
        }
        # A call that was resolved since the last commit has its row still, and is not open.
        for conversation, call in self._resumed:
            wanted.pop(key_of(conversation.id, call.id), None)
        return wanted

    def _load_fingerprints(self, connection: Connection, at: Row) -> None:
        columns = ("page", "body")
        rows = select_rows(connection, schema.call_statistics, columns, at, ("page",))
        for page, body in rows:
            counters = decode_fingerprints(body)
            self._fingerprints.update((counter.fingerprint, counter) for counter in counters)
            self._pages[page] = list(counters)
            self._stored_pages.add(page)

    def _load_buckets(self, connection: Connection, at: Row, starts: list[int]) -> None:
        for starts_at in starts:
            self._buckets[starts_at] = Bucket(starts_at)
        columns = ("starts_at", "body")
        for starts_at, body in select_keys(
            connection, schema.tool_statistics, columns, at, "starts_at", starts
        ):
            bucket = self._buckets[starts_at]
            name, counter = tool_counter(body, bucket)
            bucket.tools[name] = counter
            bucket.stored_tools.add(name)
        kind_columns = ("starts_at", "kind", "body")
        for starts_at, kind, body in select_keys(
            connection, schema.kind_statistics, kind_columns, at, "starts_at", starts
        ):
            bucket = self._buckets[starts_at]
            bucket.kinds[ErrorKind(kind)] = decode_kind(body)
            bucket.stored_kinds.add(kind)

    def _stored_call(self, body: OpenCallBody) -> StoredCall:
        name = body.asked.name
        counter = self._buckets[body.starts_at].tools[name]
        fingerprint = self._fingerprints.get(body.mark or "") or FingerprintCounter(tool=name)
        return StoredCall(
            id=body.id,
            asked=body.asked,
            tool_counter=counter,
            fingerprint_counter=fingerprint,
            since=body.since,
            status=body.status,
            attempts=body.attempts,
            edit=body.edit,
            kind=body.kind,
            in_doubt=body.in_doubt,
            first_try_failed=body.mishap,
            runs_again=body.again,
            lost=max(body.lost, int(body.in_doubt)),
            imported=body.imported,
            approval_expires=body.approval_expires,
            retry_announced=body.retry_announced,
            counted=CountedStatus(counter, fingerprint, body.status, body.kind, body.again),
        )

    # folding: what `ErrorStatistics` leaves to the place where its counters are kept

    def _resting_call(self, stream: Any, call_id: str, /) -> StoredCall | None:
        conversation: StoredConversation = stream
        call = conversation.resting.pop(call_id, None)
        if call is None:
            return None
        conversation.calls[call_id] = call
        self._resumed.append((conversation, call))
        self._note_change(call.tool_counter)
        if call.fingerprint_counter.number:
            self._changed_pages.add(call.fingerprint_counter.number // FINGERPRINTS_PER_PAGE)
        return call

    def _note_change(self, counter: Any) -> None:
        if not counter.is_changed:
            counter.is_changed = True
            self._changed.append(counter)

    def _is_repeated(self, stream: Any, fingerprint: Any) -> bool:
        conversation: StoredConversation = stream
        return conversation.add_request(fingerprint.short)

    def _tool_counter(self, name: str, at: int, /) -> BucketCounter:
        bucket = self._buckets[at // self._width * self._width]
        counter = bucket.tools.get(name)
        if counter is None:
            counter = BucketCounter(name_only=FunctionCall(name, None), bucket=bucket)
            bucket.tools[name] = counter
        self._note_change(counter)
        return counter

    def _kind_counters(self, call: Any, /) -> dict[ErrorKind, ErrorKindCounter]:
        counter: BucketCounter = call.tool_counter
        return counter.bucket.kinds

    def _fingerprint_counter(self, fingerprint: str | None, tool: str) -> FingerprintCounter:
        counter = super()._fingerprint_counter(fingerprint, tool)
        if counter.number:
            self._changed_pages.add(counter.number // FINGERPRINTS_PER_PAGE)
        return counter

    def _new_fingerprint_counter(self, fingerprint: str, tool: str, /) -> FingerprintCounter:
        counter = StoredFingerprint(tool=tool, number=self._last_number, fingerprint=fingerprint)
        self._pages.setdefault(counter.number // FINGERPRINTS_PER_PAGE, []).append(counter)
        return counter

    def _forget_half(self) -> None:
        before = self._fingerprints
        super()._forget_half()
        for fingerprint, counter in before.items():
            if fingerprint not in self._fingerprints:
                self._changed_pages.add(counter.number // FINGERPRINTS_PER_PAGE)
                counter.number = 0  # what its calls still add to it is not kept
        for page in self._changed_pages:
            kept = [counter for counter in self._pages.get(page, ()) if counter.number]
            if kept:
                self._pages[page] = kept
            else:
                self._pages.pop(page, None)

    # storing

    def store(
        self, connection: Connection, lane: ProjectedLane, changed: Sequence[StoredConversation]
    ) -> None:
        """Store what has changed, of these conversations."""
        totals = self._totals
        totals.events = self._events
        totals.numbered = self._last_number
        totals.forgotten = self._forgotten
        totals.anomaly_count = self._anomaly_count
        totals.anomalies = self._anomalies
        self._store_calls(connection, lane.key, changed)
        store_tools(connection, lane.key, self._changed)
        buckets = {counter.bucket.starts_at: counter.bucket for counter in self._changed}
        store_kinds(connection, lane.key, buckets.values())
        self._store_fingerprints(connection, lane.key)
        self._changed.clear()

    def _store_fingerprints(self, connection: Connection, at: Row) -> None:
        new: list[Row] = []
        changed: list[Row] = []
        removed = self._stored_pages - self._pages.keys()
        for page in self._changed_pages & self._pages.keys():
            row = at | {"page": page, "body": encode_text(self._pages[page])}
            (changed if page in self._stored_pages else new).append(row)
        delete_keys(connection, schema.call_statistics, at, "page", removed)
        insert_rows(connection, schema.call_statistics, new)
        update_rows(connection, schema.call_statistics, changed)
        self._stored_pages = set(self._pages)
        self._changed_pages.clear()

    def _store_calls(
        self, connection: Connection, at: Row, conversations: Iterable[StoredConversation]
    ) -> None:
        """Store the calls that are open or failed, and count them as they stand."""
        resolved = self._take_back_resumed()
        new: list[Row] = []
        changed: list[Row] = []
        for conversation in conversations:
            for call in conversation.calls.values():
                tool: Any = call.tool_counter
                body = call_body(call, tool.bucket.starts_at)
                row = at | {"key": key_of(conversation.id, call.id), "body": body}
                (new if call.counted is None else changed).append(row)
                call.counted = CountedStatus(
                    tool, call.fingerprint_counter, call.status, call.kind, call.runs_again
                )
                self._count_status(call, 1)
            conversation.resting |= conversation.calls
            conversation.calls.clear()
        delete_keys(connection, schema.open_calls, at, "key", resolved)
        insert_rows(connection, schema.open_calls, new)
        update_rows(connection, schema.open_calls, changed)
        self._stored_calls += len(new) - len(resolved)

    def _take_back_resumed(self) -> list[bytes]:
        """Take back what the resumed calls were counted as; return the keys of the resolved."""
        resolved: list[bytes] = []
        for conversation, call in self._resumed:
            counted: Any = call.counted
            self._count_status(counted, -1)
            if conversation.calls.get(call.id) is not call:
                resolved.append(key_of(conversation.id, call.id))
        self._resumed.clear()
        return resolved
