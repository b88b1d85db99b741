"""Pages in columns: what they give is what the rows give."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    ErrorKind,
    Event,
    EventStore,
    Failure,
    FunctionCall,
    FunctionResponse,
    Recorded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
)
from eventstore.codec import encode
from eventstore.storage import reading
from eventstore.storage.pages import OUTLINE, WHOLE, Columns, Form, Rows
from eventstore.testing import message, pending

if TYPE_CHECKING:
    from servers import PostgreSQL

CALL = FunctionCall("find", {"q": ["x", 1.5, None]}, "c")
EVENTS: list[Event] = [
    message("hi, 'you': \"}],[{\" \\ \u20ac"),
    RunStarted("me"),
    ToolPending(CALL, "p", 3, 1),
    ToolPending(FunctionCall("find", None, None, "{")),
    ToolApproved("c", FunctionCall("find", {"q": 2}, "c"), "ann"),
    ToolApproved("c"),
    ToolRunning("c", 1, {"q": 2}),
    ToolCompleted("c", FunctionResponse("find", {"z": [1]}, "c"), 1, 5),
    ToolFailed("c", Failure(ErrorKind.QUOTA, "no", http_status=429), 1, 7, 9),
    ToolRejected("c", "no", "gate", "g", {"more": 1}),
]
STRANGE: list[Event] = [
    UnknownEvent("hologram", 1, '{"x": 1}'),
    UnknownEvent("message", 2, '{"role": "user"}'),
    UnknownEvent("running", 1, ""),
    UnknownEvent("running", 1, '{"call_id": "c", "attempt": "first"}'),
    UnknownEvent("running", 1, '{"call_id":"c","attempt":1},{"call_id":"c","attempt":2}'),
    UnknownEvent("completed", 1, '{"call_id":"c","response":{"name":"find","resu'),
    UnknownEvent("message", 1, '"text"'),
]
NAMES = {1: "one", 2: "two", 3: None}


def stored(lane: int, events: Sequence[tuple[Event, int, bool]]) -> list[tuple[Any, ...]]:
    """The rows of events: each with its conversation's key, and with a fingerprint or without."""
    chance = random.Random(len(events))
    return [
        (
            lane, at * 2, key, at, chance.randbytes(16), at * 1000, event.tag,
            event.schema if isinstance(event, UnknownEvent) else 1,
            chance.randbytes(16) if marked else None, encode(event).decode(),
        )
        for at, (event, key, marked) in enumerate(events, 1)
    ]  # fmt: skip


def joined(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same page in columns, as a server joins it, in whatever order."""

    def kind(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return row[6], row[7], row[8] is None

    def array(cells: Sequence[Any]) -> str:
        return f"[{','.join(map(str, cells))}]"

    found = []
    mixed = sorted(rows, key=lambda row: (*kind(row), -row[1]))
    for (tag, schema, unmarked), some in groupby(mixed, key=kind):
        _, *numbers, ids, times, _, _, marks, payloads = zip(*some, strict=True)
        found.append((
            tag, schema, *map(array, (*numbers, times)), b"".join(ids).hex(),
            None if unmarked else b"".join(marks).hex(), array(payloads),
        ))  # fmt: skip
    return found


def plain(page: Sequence[Recorded]) -> list[Any]:
    """What can be compared of events, and of outlines, whose text has no equal."""
    return [
        (type(one.event), msgspec.structs.replace(one, event=None), msgspec.json.encode(one.event))  # type: ignore[arg-type]
        for one in page
    ]


pages = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.sampled_from([1, 2, 3]), st.booleans()), max_size=30
)
strange_pages = st.lists(
    st.tuples(st.sampled_from(EVENTS + STRANGE), st.sampled_from([1, 2, 3]), st.booleans()),
    max_size=30,
)


@pytest.mark.parametrize("form", [WHOLE, OUTLINE])
@given(events=strange_pages)
def test_columns_are_read_as_rows_are(form: Form, events: list[Any]) -> None:
    """Damage, foreign events and other tenants' included."""
    rows = stored(5, events)
    by_rows, by_columns = Rows(rows), Columns(5, joined(rows), lambda count: rows[:count])
    assert by_columns.positions == by_rows.positions
    assert by_columns.keys == by_rows.keys
    for names in (NAMES, NAMES | {3: "three"}):
        found = by_columns.recorded(names, form)
        assert plain(found) == plain(by_rows.recorded(names, form))


@pytest.mark.parametrize("form", [WHOLE, OUTLINE])
@given(events=pages)
def test_sound_events_are_read_in_columns(form: Form, events: list[Any]) -> None:
    """Nothing is asked for again."""

    def again(_: int) -> Any:
        raise AssertionError

    rows = stored(5, events)
    found = Columns(5, joined(rows), again).recorded(NAMES, form)
    assert plain(found) == plain(Rows(rows).recorded(NAMES, form))


def test_a_hash_of_another_length_is_for_the_rows() -> None:
    """Else those behind it would be another event's."""
    rows = stored(0, [(message(), 1, True), (message(), 1, True)])
    for place in (4, 8):
        short = [*rows[0]]
        short[place] = short[place][1:]
        damaged = [tuple(short), rows[1]]
        found = Columns(0, joined(damaged), lambda _, page=damaged: page).recorded(NAMES, WHOLE)  # type: ignore[misc]
        assert found == Rows(damaged).recorded(NAMES, WHOLE)


def test_an_outline_does_not_keep_its_page() -> None:
    """What it does not read is its own text."""
    outlines = OUTLINE.many["pending", 1](f"[{encode(pending('c', q='x')).decode()}]")
    text = outlines[0].call.arguments
    assert text.copy() is text


class TestOnPostgresql:
    """The server joins the columns."""

    @pytest.fixture
    def store(self, postgresql: PostgreSQL) -> Iterator[EventStore]:
        """A store of two tenants; this is the first's."""
        url = postgresql.database(migrated=True)
        with EventStore.open(url) as store, EventStore.open(url, tenant="other") as other:
            for n in range(40):
                chat = (store if n % 3 else other).conversation(f"chat-{n}")
                for at, event in enumerate(EVENTS):
                    if isinstance(event, ToolPending):
                        chat.request("find", {"q": n}, call_id=f"c{at}")
                    elif event.tag in ("message", "run_started"):
                        chat.append(event)
                chat.start("c2")
                chat.complete("c2", {"n": n})
            yield store

    @pytest.fixture
    def asked(self, store: EventStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The statements that are sent from now on."""
        statements: list[str] = []
        rows = store._storage.rows  # type: ignore[attr-defined]

        def noted(statement: str, *parameters: Any) -> Any:
            statements.append(statement)
            return rows(statement, *parameters)

        monkeypatch.setattr(store._storage, "rows", noted)
        monkeypatch.setattr(reading, "CHUNK", 7)
        return statements

    def read(self, store: EventStore) -> tuple[list[Any], list[Any]]:
        """All events, and their outlines."""
        outlines = [one for page in store.read().outlines() for one in page]
        return plain(list(store.read())), plain(outlines)

    def by_rows(self, store: EventStore, monkeypatch: pytest.MonkeyPatch) -> Any:
        """The same by rows."""
        with monkeypatch.context() as patch:
            patch.setattr(store._storage._sql, "page", None)  # type: ignore[attr-defined]
            return self.read(store)

    def test_both_ways_are_one(
        self, store: EventStore, asked: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And the sound log is never asked for by rows; names are looked up many at a time."""
        sql: Any = store._storage._sql  # type: ignore[attr-defined]
        found = self.read(store)
        assert sql.page in asked
        assert sql.feed not in asked
        assert sum("toolledger_conversations" in one for one in asked) < 40
        wanted = self.by_rows(store, monkeypatch)
        assert found == wanted
        assert len(found[0]) == len(found[1]) == 26 * 6

    def test_damage_is_read_by_rows(
        self,
        store: EventStore,
        asked: list[str],
        postgresql: PostgreSQL,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The page it is in."""
        sql: Any = store._storage._sql  # type: ignore[attr-defined]
        postgresql.execute(
            "UPDATE toolledger_events SET payload = '{\"call_id\":' WHERE tag = 'running' "
            "AND mod(position, 5) = 0",
            database=store.url,
        )
        found = self.read(store)
        assert sql.feed in asked
        assert found == self.by_rows(store, monkeypatch)
        assert any(kind is UnknownEvent for kind, _, _ in found[1])

    def test_more_than_a_text_can_hold_is_read_by_rows(
        self, store: EventStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Any other error is raised."""
        wanted = self.by_rows(store, monkeypatch)
        sql: Any = store._storage._sql  # type: ignore[attr-defined]
        too_long = "SELECT repeat('x', 2000000000 + 0 * (%s + %s + %s))"
        monkeypatch.setattr(sql, "page", too_long)
        assert self.read(store) == wanted
        monkeypatch.setattr(sql, "page", "SELECT %s + %s / (%s * 0)")
        with pytest.raises(Exception, match="division by zero"):
            list(store.read())
