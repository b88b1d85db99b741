"""`TextSearch`: what every event of a log says, in a table, so that a text is found at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from eventstore import Recorded
from projections.projector.projector import Projector
from projections.projector.queries import Row, insert_rows
from projections.projector.schema import storable
from projections.projector.table_projection import ProjectedLane
from projections.replay import describe
from projections.search.index import erase_rows, find_rows, texts

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

PAGE_ROWS = 500


class FoundEvent(msgspec.Struct, frozen=True):
    """The place of an event that says a text."""

    conversation_id: str
    version: int


class TextRows(msgspec.Struct):
    """The rows that are not stored yet, and those that replace what is stored, by position."""

    new: dict[int, Row] = {}
    redacted: dict[int, Row] = {}


class TextSearch:
    """A `TableProjection` of what each event says: messages, arguments, results and failures.

        search = TextSearch()
        with Projector(store, url, views=(), projections=[search]) as projector:
            projector.catch_up()
            for found in search.find(projector, "card declined"):
                print(found.conversation_id, found.version)

    SQLite (3.34 or later) and PostgreSQL (with `pg_trgm`) look a text of three or more characters
    up in an index; elsewhere the database looks through the table. The table takes the texts once
    more, and its index about as much again.
    """

    name = "text_search"
    version = 1

    @property
    def tables(self) -> tuple[Table]:
        """The one table; its index is the database's own."""
        return (texts,)

    def load(
        self,
        lane: ProjectedLane,  # noqa: ARG002 - nothing is read
        events: Sequence[Recorded],  # noqa: ARG002
        state: TextRows | None,
    ) -> TextRows:
        """Return the rows that are not stored yet; nothing is read."""
        return TextRows() if state is None else state

    def apply(self, state: TextRows, events: Sequence[Recorded]) -> None:
        """Add a row for each event."""
        state.new.update((recorded.position, _row_of(recorded)) for recorded in events)

    def redact(self, state: TextRows, events: Sequence[Recorded]) -> None:
        """Replace the rows of the events that were redacted by what is left of them."""
        for recorded in events:
            if recorded.redacted is not None:
                state.redacted[recorded.position] = _row_of(recorded)

    def store(self, connection: Connection, lane: ProjectedLane, state: TextRows) -> TextRows:
        """Write the rows."""
        if state.redacted:
            erase_rows(connection, lane.key, state.redacted)
        rows = (state.new | state.redacted).values()
        insert_rows(connection, texts, [lane.key | row for row in rows])
        return TextRows()

    def find(self, projector: Projector, text: str) -> Iterator[FoundEvent]:
        """Yield the events that say `text`, whatever the case, lane by lane in the log's order.

        `projector` was made with this projection; what its tables have not reached is not found.

        Raises:
            ValueError: the text is empty, or the projector does not keep this projection.
        """
        folded = fold(text)
        if not folded:
            raise ValueError(f"text is {text!r}: pass a text that is not empty")
        after = (-1, 0)
        while True:
            with projector.reading(self.name) as (connection, generation):
                rows = find_rows(connection, generation, folded, after, PAGE_ROWS)
            for row in rows:
                if folded in row.body:
                    name = bytes(row.conversation_id).decode("utf-8", "surrogatepass")
                    yield FoundEvent(name, row.version)
            if len(rows) < PAGE_ROWS:
                return
            after = rows[-1].lane, rows[-1].position


def fold(text: str) -> str:
    """Return a text as it is compared: any database can hold it, and case makes no difference."""
    return storable(text).casefold()


def _row_of(recorded: Recorded) -> Row:
    return {
        "position": recorded.position,
        "conversation_id": recorded.conversation_id.encode("utf-8", "surrogatepass"),
        "version": recorded.version,
        "body": fold(describe(recorded, None)),
    }
