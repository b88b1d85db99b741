"""`write_parquet`: events as a table, which DuckDB reads."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from io import BytesIO
from pathlib import Path

import duckdb
import pytest

from eventstore import EventStore
from eventstore.testing import FrozenClock
from projections.exports.parquet import COLUMNS, write_parquet


def test_a_row_for_each_event(tmp_path: Path) -> None:
    """Columns, times and JSON are those of the log; a line may be longer than DuckDB's buffer."""
    huge = "x" * (17 * 2**20)
    with EventStore.open("sqlite://", clock=FrozenClock()) as store:
        chat = store.conversation("it's \u202e one")
        call = chat.request("find", {"q": "é", "big": 2**70})
        chat.start(call.id)
        chat.complete(call.id, huge)
        events = list(store.read())
    path = tmp_path / "events.parquet"
    with path.open("wb") as file:
        assert write_parquet(file, events) == 3
    with duckdb.connect() as connection:
        table = connection.read_parquet(str(path))
        assert tuple(table.columns) == tuple(COLUMNS)
        rows = table.order("version").fetchall()
        found = connection.execute(
            "SELECT event->>'$.call.arguments.q' FROM read_parquet($1) WHERE tag = 'pending'",
            [str(path)],
        ).fetchall()
    assert found == [("é",)]
    for row, recorded in zip(rows, events, strict=True):
        named = dict(zip(COLUMNS, row, strict=True))
        assert named["conversation_id"] == recorded.conversation_id
        assert named["recorded_at"] == datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001 - in UTC
        assert named["occurred_at"] is None
        assert named["event_id"] == recorded.event_id
        assert (named["tag"], named["call_id"]) == (recorded.event.tag, call.id)
    assert json.loads(rows[0][-1])["call"]["arguments"]["big"] == 2**70
    assert json.loads(rows[2][-1])["response"]["result"] == huge


def test_an_empty_log_is_an_empty_table(tmp_path: Path) -> None:
    """The columns are there."""
    path = tmp_path / "empty.parquet"
    with path.open("wb") as file:
        assert write_parquet(file, []) == 0
    with duckdb.connect() as connection:
        table = connection.read_parquet(str(path))
        assert (tuple(table.columns), table.fetchall()) == (tuple(COLUMNS), [])


def test_without_duckdb_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, with the `pip install`."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'toolledger\[parquet\]'"):
        write_parquet(BytesIO(), [])
