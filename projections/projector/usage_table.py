"""Usage statistics in tables: the fold of `UsageStatistics`, added to the rows of its counters.

1. Memory counts the responses since the last commit alone. A commit adds these counts to the rows.
2. A conversation's last turn has a row, because its response may follow in a later batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from eventstore import Recorded
from eventstore.domain.response_turns import ResponseTurns
from projections.projector import schema
from projections.projector.checkpoint import Totals
from projections.projector.conversations_table import StoredConversation
from projections.projector.queries import Row, insert_rows, select_keys, select_rows, update_rows
from projections.projector.schema import key_of, storable
from projections.projector.statistics_rows import StoredDurations, encode_text
from projections.projector.table_projection import ProjectedLane
from projections.statistics.durations import Durations
from projections.statistics.usage import UsageReport, UsageStatistics, usage_report
from projections.statistics.usage_counters import ConversationUsage, UsageCounter

if TYPE_CHECKING:
    from sqlalchemy import Connection

ROWS_PER_TURN = 5
"""A conversation's last turn takes as much memory as this number of small rows."""

Place: TypeAlias = tuple[str, str]
"""What a counter counts: "conversation", "model" or "tool", and its name."""


class StoredTurn(ConversationUsage, gc=False):
    """The last turn of a conversation, and its responses since the last commit.

    `row` is the body of its row.
    """

    row: str | None = None


class _TurnBody(msgspec.Struct, gc=False, omit_defaults=True):
    turns: ResponseTurns
    tools: list[str] = []


_NOTHING_COUNTED = UsageCounter()
_decode_turn = msgspec.json.Decoder(_TurnBody).decode


class StoredUsage(UsageStatistics):
    """The usage of one lane. Memory holds the last turns, and what is not stored yet."""

    def __init__(self, totals: Totals) -> None:
        super().__init__()
        self._totals = totals
        self._turns: dict[str, StoredTurn] = {}
        self._conversations: Any = self._turns

    def __len__(self) -> int:
        """Return how many small rows' worth of memory it takes."""
        return ROWS_PER_TURN * len(self._turns)

    # loading

    def load(
        self,
        lane: ProjectedLane,
        conversations: dict[str, StoredConversation],
        events: Sequence[Recorded],
    ) -> None:
        """Load the last turns of the conversations."""
        del events
        older: dict[int, StoredTurn] = {}
        for name in conversations.keys() - self._turns.keys():
            conversation = conversations[name]
            conversation.usage = turn = StoredTurn(version=conversation.version)
            self._turns[name] = turn
            if conversation.is_stored:
                older[conversation.number] = turn
        if not older:
            return
        columns = ("conversation", "body")
        with lane.reading() as connection:
            for number, body in select_keys(
                connection, schema.turns, columns, lane.key, "conversation", older
            ):
                _load_turn(older[number], body)

    # storing

    def store(
        self, connection: Connection, lane: ProjectedLane, changed: Sequence[StoredConversation]
    ) -> None:
        """Store what has changed, of these conversations."""
        breaches = self._totals.breaches
        for axis, count in self._breaches.items():
            breaches[axis] = breaches.get(axis, 0) + count
        self._breaches.clear()
        self._store_counters(connection, lane.key, changed)
        self._store_turns(connection, lane.key, changed)

    def _store_counters(
        self, connection: Connection, at: Row, changed: Iterable[StoredConversation]
    ) -> None:
        counters = {key_of(*place): (place, each) for place, each in self._take_counters(changed)}
        columns = ("key", "body")
        known: set[bytes] = set()
        for key, body in select_keys(connection, schema.usage, columns, at, "key", counters):
            known.add(bytes(key))
            _, counter = _decode_counter(body)
            counter.include(counters[bytes(key)][1])
            counters[bytes(key)] = counters[bytes(key)][0], counter
        new: list[Row] = []
        fuller: list[Row] = []
        for key, ((kind, name), counter) in counters.items():
            row = at | {"key": key, "body": _encode_counter((name, counter)).decode()}
            if key in known:
                fuller.append(row)
            else:
                new.append(row | {"kind": kind, "name": storable(name)})
        insert_rows(connection, schema.usage, new)
        update_rows(connection, schema.usage, fuller)

    def _take_counters(
        self, changed: Iterable[StoredConversation]
    ) -> Iterator[tuple[Place, UsageCounter]]:
        """Yield what was counted since the last commit, and begin again."""
        for conversation in changed:
            turn = self._turns[conversation.id]
            if turn.counter != _NOTHING_COUNTED:
                yield ("conversation", conversation.id), turn.counter
                turn.counter = UsageCounter()
        for kind, counters in (("model", self._models), ("tool", self._tools)):
            for name, counter in counters.items():
                yield (kind, name), counter
            counters.clear()

    def _store_turns(
        self, connection: Connection, at: Row, changed: Iterable[StoredConversation]
    ) -> None:
        new: list[Row] = []
        others: list[Row] = []
        for conversation in changed:
            turn = self._turns[conversation.id]
            body = _turn_row(turn)
            if body != turn.row:
                row = at | {"conversation": conversation.number, "body": body}
                (new if turn.row is None else others).append(row)
                turn.row = body
        insert_rows(connection, schema.turns, new)
        update_rows(connection, schema.turns, others)


def _load_turn(turn: StoredTurn, row: str) -> None:
    body = _decode_turn(row)
    turn.turns, turn.tools, turn.row = body.turns, set(body.tools), row


def _turn_row(turn: StoredTurn) -> str | None:
    """Return the body of a turn's row; None if it needs none, because nothing has begun."""
    if turn.row is None and turn.turns == ResponseTurns():
        return None
    return encode_text(_TurnBody(turn.turns, sorted(turn.tools)))


def _encoded_durations(value: Any) -> StoredDurations:
    durations: Durations = value
    return StoredDurations.exactly(durations)


def _decoded_durations(_: type, value: Any) -> Durations:
    return msgspec.convert(value, StoredDurations, str_keys=True).durations()


_encode_counter = msgspec.json.Encoder(enc_hook=_encoded_durations).encode
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
