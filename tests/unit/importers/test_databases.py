"""Databases with conversations: sessions of openai-agents, checkpoints of LangGraph."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.importing import AT, Importer, clock, states

from eventstore import EventStore
from eventstore.importers import SourceError, read


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database file, and store what was written."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection
        connection.commit()


def test_sessions_of_openai_agents_are_conversations(importer: Importer) -> None:
    """Each row is an item, with its time; a row that is not JSON becomes a problem."""
    path = importer.folder / "sessions.db"
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "a", "id": "1"}
    result = {"type": "function_call_output", "call_id": "a", "output": "Error: gone"}
    rows = [
        json.dumps({"role": "user", "content": "go"}),
        json.dumps(call),
        "{",
        json.dumps(result),
    ]
    with database(path) as connection:
        connection.execute("CREATE TABLE agent_sessions (session_id, created_at, updated_at)")
        connection.execute(
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data, "
            "created_at)"
        )
        connection.execute("INSERT INTO agent_sessions VALUES ('one', 1, 1), ('empty', 2, 2)")
        for number, row in enumerate(rows):
            connection.execute(
                "INSERT INTO agent_messages (session_id, message_data, created_at) "
                "VALUES ('one', ?, ?)",
                (row, f"2025-01-02 03:04:{5 + number:02}"),
            )
    (tool,) = importer.file(path)
    assert importer.ids == ["one"]
    assert (tool.status.name, tool.requested_at, tool.ended_at) == (
        "Failed",
        AT + 1_000_000,
        AT + 3_000_000,
    )
    assert importer.problems == ["session one: a row is not JSON"]
    assert next(read(path, name="mine").transcripts()).id == "mine/one"


def message(kind: str, **fields: Any) -> msgspec.msgpack.Ext:
    """Return a message of LangChain as LangGraph packs it: module, class, members, method."""
    packed = ("langchain_core.messages", kind, fields, "model_validate_json")
    return msgspec.msgpack.Ext(5, msgspec.msgpack.encode(packed))


def checkpoint(seconds: float, messages: list[Any]) -> dict[str, Any]:
    """Return the state after a step."""
    return {"v": 4, "ts": clock(seconds), "channel_values": {"messages": messages}}


def test_checkpoints_of_langgraph_are_told_by_their_last_state(importer: Importer) -> None:
    """A message has the time of the first checkpoint with it; Python's objects are not made."""
    path = importer.folder / "checkpoints.sqlite"
    call = {"name": "f", "args": {"n": 1}, "id": "a", "type": "tool_call"}
    said = [
        message("HumanMessage", content="go", type="human", id="1"),
        message("AIMessage", content="", type="ai", id="2", tool_calls=[call]),
        message(
            "ToolMessage", content="gone", type="tool", id="3", tool_call_id="a", status="error"
        ),
    ]
    states_of = [checkpoint(n, said[: n + 1]) for n in range(3)]
    with database(path) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, "
            "parent_checkpoint_id, type, checkpoint, metadata)"
        )
        rows = [("t", "", n, "msgpack", msgspec.msgpack.encode(s)) for n, s in enumerate(states_of)]
        as_json = json.dumps(
            checkpoint(
                0, [{"lc": 1, "type": "constructor", "kwargs": {"content": "sub", "type": "human"}}]
            )
        )
        rows += [("t", "child", 0, "json", as_json.encode()), ("u", "", 0, "pickle", b"\x80")]
        connection.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, NULL, ?, ?, NULL)", rows)
    tools = importer.file(path)
    assert importer.ids == ["t", "t/child"]
    assert states(tools) == [("f", "Failed")]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 2_000_000)
    assert list(importer.said()) == [("user", "go"), ("user", "sub")]
    assert importer.problems == ["u: checkpoint 0 cannot be read"]


def test_checkpoints_that_langgraph_packs_are_read(importer: Importer) -> None:
    """Bytes of its own serializer are read without it."""
    jsonplus = pytest.importorskip("langgraph.checkpoint.serde.jsonplus")
    messages = pytest.importorskip("langchain_core.messages")
    call = {"name": "f", "args": {"n": 1}, "id": "a", "type": "tool_call"}
    said = [
        messages.HumanMessage("go", id="1"),
        messages.AIMessage("", id="2", tool_calls=[call]),
        messages.ToolMessage("here", tool_call_id="a", id="3"),
    ]
    kind, data = jsonplus.JsonPlusSerializer().dumps_typed(checkpoint(0, said))
    path = importer.folder / "checkpoints.sqlite"
    with database(path) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint)"
        )
        connection.execute("INSERT INTO checkpoints VALUES ('t', '', '1', ?, ?)", (kind, data))
    assert states(importer.file(path)) == [("f", "Completed")]


def test_other_databases_are_refused_by_their_tables(tmp_path: Path) -> None:
    """A log of ours is named as one."""
    with database(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE orders (id)")
    with pytest.raises(SourceError, match="a SQLite database with the tables orders"):
        list(read(tmp_path / "a.db").transcripts())
    with EventStore.open(f"sqlite:///{tmp_path}/log.db") as store:
        store.conversation("c").add_message("user", "hi")
    with pytest.raises(SourceError, match="is a log of toolledger: name it with --url"):
        list(read(tmp_path / "log.db").transcripts())
