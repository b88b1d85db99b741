"""`TextSearch`: the index names every event that says a text, and no other, on each database."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import errors
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError
from support.projected_logs import new_store
from support.statements import after_statements

from eventstore import EventStore
from projections import EventFilter, Projector, TextSearch
from projections.search import index, projection

if TYPE_CHECKING:
    from support.servers import Server

WORDS = (
    "Card declined",
    "50% off_now",
    'say "hi"',
    "naïve ÉCLAIR",
    "a\x00b",
    "O'Neil",
    "back\\slash",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    """Return a log of three lanes, in which each text is said twice, in two conversations."""
    with new_store(tmp_path / "log.db", 3) as opened:
        fill(opened)
        yield opened


def fill(store: EventStore) -> None:
    """Say each text in a message, and in the arguments of a call."""
    for number, words in enumerate(WORDS):
        store.conversation(f"said-{number}").add_message(
            "user", f"I said {words} to order {number}"
        )
        store.conversation(f"asked-{number}").request("note", {"words": words.upper()})


def indexed(store: EventStore, url: str | None = None) -> Projector:
    """Open a projector with the index alone, brought up to date."""
    projector = Projector(store, url, views=(), projections=[TextSearch()])
    projector.catch_up()
    return projector


def found(projector: Projector, words: str) -> set[tuple[str, int]]:
    """Return the places that the index gives for a text, each once."""
    places = [(each.conversation_id, each.version) for each in TextSearch().find(projector, words)]
    assert len(places) == len(set(places))
    return set(places)


def read(store: EventStore, words: str) -> set[tuple[str, int]]:
    """Return the places that reading the whole log gives."""
    events = EventFilter(grep=re.escape(words)).select(store.read())
    return {(each.conversation_id, each.version) for each in events}


PARTS = ("card DECLINED", "0% off_", '"HI"', "éclair", "ORDER 3", "o'n", "6", "%", "_", "\\s")


@pytest.mark.parametrize("words", PARTS)
def test_the_index_names_the_events_that_say_a_text(store: EventStore, words: str) -> None:
    """Case makes no difference; signs of patterns and quotes are plain characters."""
    with indexed(store) as projector:
        assert found(projector, words) == read(store, words) != set()
        assert found(projector, words + " and nothing more") == set()


@pytest.mark.server
def test_each_server_finds_the_same(store: EventStore, server: Server) -> None:
    """The tables stand on a server, the log in a file."""
    with indexed(store, server.database()) as projector:
        for words in (*PARTS, "a"):
            assert found(projector, words) == read(store, words)


@pytest.mark.server
def test_postgresql_has_an_index_of_trigrams(store: EventStore, postgresql: Server) -> None:
    """The planner takes it where a scan is ruled out."""
    with (
        indexed(store, postgresql.database()) as projector,
        projector.reading("text_search") as (connection, _),
    ):
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = connection.execute(
            text("EXPLAIN SELECT 1 FROM toolledger_searched_texts WHERE body LIKE '%declined%'")
        )
        assert "toolledger_searched_trigrams" in str(plan.fetchall())


def test_sqlite_looks_a_text_up_in_its_index(store: EventStore) -> None:
    """A text of three characters is looked up, a shorter one is not."""
    statements: list[str] = []

    def note(statement: str, _: object) -> None:
        statements.append(statement)

    with indexed(store) as projector, after_statements(note):
        found(projector, "order")
        assert any("searched_trigrams MATCH" in each for each in statements)
        statements.clear()
        found(projector, "or")
        assert not any("MATCH" in each for each in statements)


def test_a_sqlite_without_trigrams_looks_through_the_table(
    store: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is made without an index, and finds the same."""
    monkeypatch.setitem(index.STATEMENTS, "sqlite", ("CREATE VIRTUAL TABLE x USING none",))
    with indexed(store, f"sqlite:///{tmp_path}/tables.db") as projector:
        assert found(projector, "declined") == read(store, "declined") != set()
    with sqlite3.connect(tmp_path / "tables.db") as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%trigram%'")
        assert names.fetchall() == []
    connection.close()


def test_a_full_disk_is_not_a_sqlite_without_trigrams() -> None:
    """Otherwise every search of that table would be slow for good, and nobody would know."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 3")
        with pytest.raises(OperationalError, match="full"):
            index.texts.create(connection)
    engine.dispose()


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (errors.FeatureNotSupported(), True),
        (errors.InsufficientPrivilege(), True),
        (errors.UndefinedObject(), True),
        (errors.UndefinedFile(), True),
        (errors.DiskFull(), False),
        (errors.QueryCanceled(), False),
        (errors.UniqueViolation(), False),
        (errors.OperationalError("the server closed the connection"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_postgresql_without_trigrams_is_known_by_its_code(
    error: Exception, *, lacks: bool
) -> None:
    """A server that is full or stopped, or another session, is in the way for a while only."""
    assert index.lacks_trigrams(DBAPIError(None, None, error)) is lacks


def test_more_events_than_a_page_are_all_found(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of two rows give what one page gives, over all lanes."""
    monkeypatch.setattr(projection, "PAGE_ROWS", 2)
    with indexed(store) as projector:
        assert found(projector, "order") == read(store, "order")
        assert found(projector, "o") == read(store, "o")
        assert len(list(islice(TextSearch().find(projector, "order"), 3))) == 3


def test_a_rebuild_leaves_no_entry_of_the_old_generation(store: EventStore, tmp_path: Path) -> None:
    """Deleted rows leave the index; what is appended later is found."""
    with indexed(store, f"sqlite:///{tmp_path}/tables.db") as projector:
        before = found(projector, "order")
        projector.rebuild()
        assert found(projector, "order") == before
        store.conversation("late").add_message("user", "one more order")
        projector.catch_up()
        assert found(projector, "order") == before | {("late", 1)}
    with sqlite3.connect(tmp_path / "tables.db") as connection:
        rows = connection.execute(
            "SELECT rowid FROM toolledger_searched_trigrams WHERE toolledger_searched_trigrams"
            " MATCH 'ord AND rde'"
        ).fetchall()
        connection.execute("VACUUM")
    connection.close()
    assert len(rows) == len(before) + 1
    with indexed(store, f"sqlite:///{tmp_path}/tables.db") as projector:
        assert found(projector, "one more") == {("late", 1)}


def test_an_empty_text_is_refused(store: EventStore) -> None:
    """An index for everything would be the log."""
    with indexed(store) as projector, pytest.raises(ValueError, match="not empty"):
        list(TextSearch().find(projector, ""))


def test_a_long_text_is_found_by_its_beginning_and_compared_whole(store: EventStore) -> None:
    """A text that is longer than a pattern may be is no error, in the index or beside it."""
    long = "x" * 200_000
    store.conversation("long").add_message("user", long + "end")
    with indexed(store) as projector:
        assert found(projector, long) == {("long", 1)}
        assert found(projector, long + "end") == {("long", 1)}
        assert found(projector, long + "other") == set()


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=12), min_size=1, max_size=6), data=st.data())
def test_any_part_of_any_text_is_found(texts: list[str], data: st.DataObject) -> None:
    """The event that says a text is among those named for each part of that text."""
    with EventStore.open("sqlite://") as store:
        for number, words in enumerate(texts):
            store.conversation(f"c{number}").add_message("user", f"<{words}>")
        number = data.draw(st.integers(0, len(texts) - 1))
        (event,) = store.conversation(f"c{number}").events()
        whole = projection.describe(event, None)
        begin = data.draw(st.integers(0, len(whole) - 1))
        part = whole[begin : data.draw(st.integers(begin + 1, len(whole)))]
        with Projector(store, "sqlite://", views=(), projections=[TextSearch()]) as projector:
            projector.catch_up()
            assert (f"c{number}", 1) in found(projector, part)
