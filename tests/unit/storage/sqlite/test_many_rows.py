"""SQLite's statements for many rows: they store what a statement for each row stores."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import make_url
from support.storages import sql_storage_of

from eventstore import Event, EventStore, FunctionCall, MessageAdded, Text, ToolPending
from eventstore.storage.sql.storage import SqlStorage
from eventstore.storage.sqlite.backend import Sqlite

AT_ONCE = 32
"""The rows of a statement."""
INSERT = re.compile(r"INSERT (OR FAIL )?INTO toolledger_events\b")
TABLES = {
    "toolledger_events": "lane, position, conversation, version, event_id, recorded_at, "
    "occurred_at, typeof(occurred_at), tag, schema, fingerprint, typeof(fingerprint), payload, "
    "length(salt), typeof(salt)",  # not the chain, which covers the random salts
    "toolledger_fingerprints": "lane, fingerprint, conversation, version",
    "toolledger_event_ids": "lane, conversation, event_id, version",
}


def tables(store: EventStore) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the tables that an append writes to."""
    read = sql_storage_of(store).connections.rows
    return {
        name: read(f"SELECT {columns} FROM {name} ORDER BY lane, conversation, version")  # noqa: S608
        for name, columns in TABLES.items()
    }


def events(count: int) -> list[Event]:
    """Return messages and calls in turn."""
    return [
        ToolPending(FunctionCall("search", {"page": number}, f"call_{number}"), None, number, 0)
        if number % 2
        else MessageAdded("user", (Text("ä\x00'"),))
        for number in range(count)
    ]


@pytest.mark.parametrize(
    "count", [1, 2, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE, 4 * AT_ONCE - 3]
)
def test_the_same_rows_are_stored_as_one_by_one(tmp_path: Path, count: int) -> None:
    """In the events' table, in the index of fingerprints, and in that of given ids."""
    start = datetime(2026, 1, 2, tzinfo=UTC)
    ids = [UUID(int=number + 1) for number in range(count)]
    times = [start + timedelta(seconds=n) if n % 3 else None for n in range(count)]
    stored = []
    for name in ("many", "single"):
        backend = Sqlite(make_url(f"sqlite:///{tmp_path / name}.db"), "full", 30.0)
        storage = backend.open("", new=True)
        if name == "single":
            storage.close()
            storage = SqlStorage(backend, "")
        with EventStore(storage, clock=lambda: 1_767_312_000_000_000) as store:
            chat = store.conversation("chat")
            chat.append(*events(count), event_ids=ids, occurred_at=times)
            assert list(store.verify()) == []
            assert [recorded.version for recorded in chat.events()] == list(range(1, count + 1))
            stored.append(tables(store))
    assert stored[0] == stored[1]
    assert len(stored[0]["toolledger_events"]) == count


@pytest.mark.parametrize(
    ("count", "statements"), [(AT_ONCE - 1, AT_ONCE - 1), (AT_ONCE, 1), (2 * AT_ONCE + 3, 5)]
)
def test_a_statement_takes_that_many_rows(count: int, statements: int) -> None:
    """Those left over have a statement each."""
    with EventStore.open("sqlite://") as store:
        sent: list[str] = []
        sql_storage_of(store).connections.writer()
        sql_storage_of(store).connections.connection().set_trace_callback(sent.append)
        store.conversation("chat").append(*events(count))
        inserts = [each for each in sent if INSERT.match(each)]
        assert len(inserts) == statements
        assert len(list(store.read())) == count


def test_nothing_is_stored_of_a_batch_whose_last_statement_fails(tmp_path: Path) -> None:
    """The rows of all statements go back together, and the next batch takes their place."""
    with EventStore.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        chat = store.conversation("chat")
        chat.add_message("user", "hello")
        storage = sql_storage_of(store)
        last = 2 * AT_ONCE + 1
        storage.connections.connection().execute(
            "CREATE TEMP TRIGGER full BEFORE INSERT ON main.toolledger_events "
            f"WHEN NEW.version = {last} BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
        )
        with pytest.raises(Exception, match="disk is full"):
            chat.append(*events(2 * AT_ONCE))
        assert chat.version == 1
        storage.connections.connection().execute("DROP TRIGGER full")
        chat.append(*events(2 * AT_ONCE))
        assert chat.version == last
        assert list(store.verify()) == []


# The rows of the index of fingerprints go to pages all over it.
WITHOUT_A_FREE_DESCRIPTOR = """
import os, resource, sys
from eventstore import EventStore, FunctionCall, ToolPending

def calls(first):
    numbers = range(first, first + 1000)
    return [ToolPending(FunctionCall("search", {"page": n}, f"call_{n}")) for n in numbers]

with EventStore.open(sys.argv[1]) as store:
    chat = store.conversation("chat")
    for batch in range(6):
        chat.append(*calls(1000 * batch))
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    try:
        while True:
            os.dup(0)
    except OSError:
        pass
    chat.append(*calls(6000))
    os.closerange(100, 200)
    assert chat.version == 7000 and not list(store.verify())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of open files")
def test_a_batch_needs_no_file_but_the_database(tmp_path: Path) -> None:
    """A batch is stored where no further file can be opened."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_FREE_DESCRIPTOR, url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
