"""Usage statistics in tables: the fold of `UsageStatistics`, added to the rows of its counters.

1. Memory counts the responses since the last commit alone. A commit adds these counts to the rows.
2. A conversation's last turn has a row, because its response may follow in a later batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from eventstore import Recorded
from eventstore.domain.response_turns import ResponseTurns
from projections.projector import schema
from projections.projector.checkpoint import Totals
from projections.projector.conversations_table import StoredConversation
from projections.projector.queries import Row, RowChanges, select_keys, select_rows
from projections.projector.schema import key_of, storable
from projections.projector.statistics_rows import StoredDurations, encode_text
from projections.projector.table_projection import ProjectedLane, Reading
from projections.statistics.durations import Durations
from projections.statistics.usage import UsageReport, UsageStatistics, usage_report
from projections.statistics.usage_counters import ConversationUsage, UsageCounter

if TYPE_CHECKING:
    from sqlalchemy import Connection

ROWS_PER_TURN = 5
"""A conversation's last turn takes as much memory as this number of small rows."""

Counted: TypeAlias = tuple[str, str]
"""What a counter counts: "conversation", "model" or "tool", and its name."""


class _TurnBody(msgspec.Struct, gc=False, omit_defaults=True):
    turns: ResponseTurns
    tools: list[str] = []
    copied: int = 0


_decode_turn = msgspec.json.Decoder(_TurnBody).decode


class StoredUsage:
    """The usage of one lane. Memory holds the last turns, and what is not stored yet."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._fold = UsageStatistics()
        self._counters = self._fold.counters

    def __len__(self) -> int:
        """Return how many small rows' worth of memory it takes."""
        return ROWS_PER_TURN * len(self._counters.conversations)

    def load(
        self,
        lane: ProjectedLane,
        reading: Reading,
        conversations: dict[str, StoredConversation],
        events: Sequence[Recorded],
    ) -> None:
        """Load the last turns of the conversations."""
        del events
        known = self._counters.conversations
        older: dict[int, StoredConversation] = {}
        for name in conversations.keys() - known.keys():
            conversation = conversations[name]
            conversation.usage = known[name] = ConversationUsage(version=conversation.version)
            if conversation.is_stored:
                older[conversation.number] = conversation
        if not older:
            return
        columns = ("conversation", "body")
        rows = select_keys(reading(), schema.turns, columns, lane.key, "conversation", older)
        for number, row in rows:
            turn, body = known[older[number].id], _decode_turn(row)
            turn.turns, turn.tools, turn.copied = body.turns, set(body.tools), body.copied
            older[number].turn_row = row

    def extend(self, events: Sequence[Recorded]) -> None:
        """Count events."""
        self._fold.extend(events)

    def redact(self, conversation: StoredConversation, events: Sequence[Recorded]) -> None:
        """Do nothing: what responses have cost holds no content."""

    def changes(
        self, connection: Connection, at: Row, changed: Sequence[StoredConversation]
    ) -> list[RowChanges]:
        """Return what has changed, of these conversations: what was counted is added to its row."""
        breaches = self._totals.breaches
        for axis, count in self._counters.breaches.items():
            breaches[axis] = breaches.get(axis, 0) + count
        self._counters.breaches.clear()
        return [self._counter_changes(connection, at, changed), self._turn_changes(changed)]

    def _counter_changes(
        self, connection: Connection, at: Row, changed: Iterable[StoredConversation]
    ) -> RowChanges:
        counters = {key_of(*what): (what, each) for what, each in self._take_counters(changed)}
        columns = ("key", "body")
        stored: set[bytes] = set()
        for key, body in select_keys(connection, schema.usage, columns, at, "key", counters):
            stored.add(bytes(key))
            _, counter = _decode_counter(body)
            counter.include(counters[bytes(key)][1])
            counters[bytes(key)] = counters[bytes(key)][0], counter
        rows = RowChanges(schema.usage)
        for key, ((kind, name), counter) in counters.items():
            row: Row = {"key": key, "body": _encode_counter((name, counter)).decode()}
            if key not in stored:
                row |= {"kind": kind, "name": storable(name)}
            (rows.changed if key in stored else rows.new).append(row)
        return rows

    def _take_counters(
        self, changed: Iterable[StoredConversation]
    ) -> Iterator[tuple[Counted, UsageCounter]]:
        """Yield what was counted since the last commit, and begin again."""
        for conversation in changed:
            turn = self._counters.conversations[conversation.id]
            if _encode_counter(turn.counter) != _NOTHING_COUNTED:
                yield ("conversation", conversation.id), turn.counter
                turn.counter = UsageCounter()
        for kind, counters in (("model", self._counters.models), ("tool", self._counters.tools)):
            for name, counter in counters.items():
                yield (kind, name), counter
            counters.clear()

    def _turn_changes(self, changed: Iterable[StoredConversation]) -> RowChanges:
        rows = RowChanges(schema.turns)
        for conversation in changed:
            body = self._turn_row(conversation)
            if body != conversation.turn_row:
                row: Row = {"conversation": conversation.number, "body": body}
                (rows.changed if conversation.turn_row is not None else rows.new).append(row)
                conversation.turn_row = body
        return rows

    def _turn_row(self, conversation: StoredConversation) -> str | None:
        """Return the body of the row of its last turn; None before any turn or response."""
        turn = self._counters.conversations[conversation.id]
        if conversation.turn_row is None and turn.turns == ResponseTurns():
            return None
        return encode_text(_TurnBody(turn.turns, sorted(turn.tools), turn.copied))


def _encoded_durations(durations: Durations) -> StoredDurations:
    return StoredDurations.exactly(durations)


def _decoded_durations(_: type, value: object) -> Durations:
    return msgspec.convert(value, StoredDurations, str_keys=True).durations()


_encode_counter = msgspec.json.Encoder(enc_hook=_encoded_durations).encode
_NOTHING_COUNTED = _encode_counter(UsageCounter())
_decode_counter = msgspec.json.Decoder(tuple[str, UsageCounter], dec_hook=_decoded_durations).decode


def read_usage(connection: Connection, generation: int) -> UsageReport:
    """Return the usage of all lanes."""
    where = {"projection": generation}
    breaches: dict[str, int] = {}
    for (text,) in select_rows(connection, schema.checkpoints, ("totals",), where):
        for axis, count in msgspec.json.decode(text, type=Totals).breaches.items():
            breaches[axis] = breaches.get(axis, 0) + count
    conversations: dict[str, UsageCounter] = {}
    models: dict[str, UsageCounter] = {}
    tools: dict[str, UsageCounter] = {}
    counters = {"conversation": conversations, "model": models, "tool": tools}
    for kind, body in select_rows(connection, schema.usage, ("kind", "body"), where):
        name, counter = _decode_counter(body)
        known = counters[kind].setdefault(name, counter)
        if known is not counter:  # of another lane
            known.include(counter)
    return usage_report(conversations, models, tools, breaches)
