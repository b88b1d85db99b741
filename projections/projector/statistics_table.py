"""Error statistics in tables: the fold of `ErrorStatistics`, its counters kept row by row.

1. A call is counted in the time bucket in which it was asked for, whenever it ends. So the numbers
   of a bucket fit together, and the buckets add up to the whole.
2. A call that is neither resolved nor forgotten has a row, because what happens next depends on
   it. One that was asked for and resolved between two commits never has one.
3. What an open call adds to `open`, `running` and `terminal` is taken back when it continues, and
   added again as it stands at the next commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from eventstore import ErrorKind, Recorded
from projections.projector import schema
from projections.projector.checkpoint import Totals
from projections.projector.conversations_table import RestingCall, StoredConversation
from projections.projector.fingerprint_pages import FingerprintPages
from projections.projector.queries import Row, RowChanges, select_keys
from projections.projector.schema import key_of
from projections.projector.statistics_rows import (
    Bucket,
    OpenCallBody,
    call_body,
    decode_call,
    decode_kind,
    kind_changes,
    state_of,
    tool_changes,
    tool_counter,
)
from projections.projector.table_projection import ProjectedLane, Reading
from projections.statistics.counters import (
    CountedStatus,
    FingerprintCounter,
    LiveCall,
    ToolCounter,
    Uncounted,
)
from projections.statistics.fold import StatisticsFold

if TYPE_CHECKING:
    from sqlalchemy import Connection

ROWS_PER_COUNTER = 20
"""A counter of a tool takes as much memory as this number of small rows."""


class TableCounters:
    """The counters of one lane in buckets of `width` microseconds, as far as they are in memory."""

    def __init__(self, width: int, fingerprints: FingerprintPages) -> None:
        self.conversations: dict[str, StoredConversation] = {}
        self.buckets: dict[int, Bucket] = {}
        self.fingerprints = fingerprints
        self._width = width
        self._uncounted = Uncounted()

    def bucket_start(self, time: int) -> int:
        """Return when the bucket starts that a time falls into."""
        return time // self._width * self._width

    def tool(self, name: str, asked_at: int) -> ToolCounter:
        """Return the counter of a tool in the bucket in which a call was asked for."""
        return self.buckets[self.bucket_start(asked_at)].tool(name)

    def fingerprint(self, fingerprint: str | None, tool: str) -> FingerprintCounter:
        """Return the counter of a fingerprint; one that is not kept for None."""
        if fingerprint is None:  # no other call can equal these arguments
            return FingerprintCounter(tool=tool)
        return self.fingerprints.counter(fingerprint, tool)

    def forget(self, _conversation_id: str, /) -> None:
        """Do nothing: `StoredStatistics.redact` reads what is left, and forgets no more."""

    def take_back(self, resting: RestingCall) -> None:
        """Take back what a call was counted as when it was stored."""
        call, counted = resting
        if counted is None:
            return
        self.tool(counted.tool_counter.name_only.name, call.asked_at)  # it changes
        self.fingerprints.note_change(counted.fingerprint_counter)
        counted.add(-1)

    def call(self, body: OpenCallBody) -> LiveCall:
        """Return a call that was stored."""
        name = body.asked.name
        known = self.fingerprints.known.counters.get(body.mark or "")
        tools = self._uncounted if body.copied else self.buckets[body.starts_at].tools
        call = LiveCall(
            tool_counter=tools[name],
            fingerprint_counter=known or FingerprintCounter(tool=name),
            asked_at=body.starts_at,
            **state_of(body),
        )
        call.lost = max(body.lost, int(body.in_doubt))  # older versions stored no `lost`
        return call


class StoredStatistics:
    """The statistics of one lane, in buckets of `width` microseconds.

    Memory holds the fingerprints kept, and what the last events were about.
    """

    def __init__(self, totals: Totals, width: int, fingerprints: int) -> None:
        self._totals = totals
        self._fingerprints = FingerprintPages(fingerprints, totals.numbered, totals.forgotten)
        self._counters = TableCounters(width, self._fingerprints)
        self._fold = StatisticsFold(self._counters)
        self._fold.events = totals.events
        self._fold.copied_calls = totals.copied_calls
        self._fold.anomaly_count = totals.anomaly_count
        self._fold.anomalies = list(totals.anomalies)
        self._stored_calls = 0

    def __len__(self) -> int:
        """Return how many rows are in memory, without the fingerprints."""
        counters = sum(len(bucket.tools) for bucket in self._counters.buckets.values())
        return ROWS_PER_COUNTER * counters + self._stored_calls

    def load(
        self,
        lane: ProjectedLane,
        reading: Reading,
        conversations: dict[str, StoredConversation],
        events: Sequence[Recorded],
    ) -> None:
        """Load the buckets and calls that `events` are about."""
        counters = self._counters
        counters.conversations = conversations
        starts = {counters.bucket_start(recorded.time) for recorded in events}
        missing = starts - counters.buckets.keys()
        wanted = _stored_calls(conversations, events)
        is_redacted = any(recorded.redacted for recorded in events)
        if not missing and not wanted and not is_redacted:
            return
        connection = reading()
        self._fingerprints.load(connection, lane.key)
        columns = ("key", "body")
        rows = select_keys(connection, schema.open_calls, columns, lane.key, "key", wanted)
        found = [(wanted[bytes(key)], decode_call(body)) for key, body in rows]
        missing |= {body.starts_at for _, body in found} - counters.buckets.keys()
        counters.buckets |= _load_buckets(connection, lane.key, missing)
        for conversation, body in found:
            call = counters.call(body)
            conversation.resting[call.id] = RestingCall(call, CountedStatus.if_counted(call))
        self._stored_calls += len(found)

    def extend(self, events: Sequence[Recorded]) -> None:
        """Count events."""
        self._fold.extend(events)

    def redact(self, conversation: StoredConversation, events: Sequence[Recorded]) -> None:
        """Forget the fingerprints that the conversation's events do not have any more."""
        left = {recorded.fingerprint for recorded in events}
        gone = conversation.forget_requests({mark for mark in left if mark is not None})
        self._fingerprints.forget(gone)
        for recorded in events:
            if recorded.redacted and recorded.call_id:
                conversation.resume(recorded.call_id)  # its row is written without the fingerprint

    def changes(
        self, _: Connection, __: Row, changed: Sequence[StoredConversation]
    ) -> list[RowChanges]:
        """Return what has changed, of these conversations."""
        totals, fold, known = self._totals, self._fold, self._fingerprints.known
        totals.events, totals.copied_calls = fold.events, fold.copied_calls
        totals.anomaly_count, totals.anomalies = fold.anomaly_count, fold.anomalies
        totals.numbered, totals.forgotten = known.numbered, known.forgotten
        calls = self._call_changes(changed)
        buckets = [bucket for bucket in self._counters.buckets.values() if bucket.changed]
        kinds, tools = kind_changes(buckets), tool_changes(buckets)
        return [calls, kinds, tools, self._fingerprints.changes()]

    def _call_changes(self, conversations: Iterable[StoredConversation]) -> RowChanges:
        """Return the rows of the calls that are open or failed; count them as they stand."""
        rows = RowChanges(schema.open_calls)
        resolved: list[bytes] = []
        for conversation in conversations:
            calls, resumed = conversation.calls, conversation.resumed
            for call_id, resting in resumed.items():
                self._counters.take_back(resting)
                if calls.get(call_id) is not resting.call:
                    resolved.append(key_of(conversation.id, call_id))
            for call_id, call in calls.items():
                counted = CountedStatus.if_counted(call)
                if counted is not None:
                    counted.add()
                body = call_body(call, self._counters.bucket_start(call.asked_at))
                is_stored = call_id in resumed and resumed[call_id].call is call
                row: Row = {"key": key_of(conversation.id, call_id), "body": body}
                (rows.changed if is_stored else rows.new).append(row)
                conversation.resting[call_id] = RestingCall(call, counted)
            calls.clear()
            resumed.clear()
        rows.removed = resolved
        self._stored_calls += len(rows.new) - len(resolved)
        return rows


def _stored_calls(
    conversations: dict[str, StoredConversation], events: Iterable[Recorded]
) -> dict[bytes, StoredConversation]:
    """Return the conversations of the calls that may be stored, by the calls' keys."""
    if all(conversation.is_new for conversation in conversations.values()):
        return {}
    calls = {(r.conversation_id, r.call_id) for r in events if r.call_id}
    return {
        key_of(name, call_id): conversation
        for name, call_id in calls
        if not (conversation := conversations[name]).is_new and not conversation.knows(call_id)
    }


def _load_buckets(connection: Connection, at: Row, starts: set[int]) -> dict[int, Bucket]:
    """Return the buckets that start at these times, empty where nothing is stored."""
    buckets = {starts_at: Bucket(starts_at) for starts_at in sorted(starts)}
    columns = ("starts_at", "body")
    for starts_at, body in select_keys(
        connection, schema.tool_statistics, columns, at, "starts_at", buckets
    ):
        counter = tool_counter(body, buckets[starts_at])
        buckets[starts_at].tools[counter.name_only.name] = counter
        buckets[starts_at].stored_tools.add(counter.name_only.name)
    kind_columns = ("starts_at", "kind", "body")
    for starts_at, kind, body in select_keys(
        connection, schema.kind_statistics, kind_columns, at, "starts_at", buckets
    ):
        buckets[starts_at].kinds[ErrorKind(kind)] = decode_kind(body)
        buckets[starts_at].stored_kinds.add(kind)
    return buckets
