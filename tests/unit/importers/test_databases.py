"""Databases with conversations: sessions of openai-agents, checkpoints of LangGraph."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import pytest
from support.importing import AT, Importer, clock, states

from eventstore import EventStore
from eventstore.importers import SourceError, read

if TYPE_CHECKING:
    from support.servers import PostgreSQL


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
    said = "An error occurred while running the tool. Please try again. Error: gone"
    result = {"type": "function_call_output", "call_id": "a", "output": said}
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


def test_checkpoints_of_langgraph_are_read_by_their_last_state(importer: Importer) -> None:
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


def test_a_key_twice_in_a_row_is_reported_with_its_place(importer: Importer) -> None:
    """The row of a session, or the checkpoint, is read with the last of the two values."""
    reported = "a key twice in one object: the last of its values was read"
    path = importer.folder / "sessions.db"
    with database(path) as connection:
        connection.execute("CREATE TABLE agent_sessions (session_id, created_at)")
        connection.execute("CREATE TABLE agent_messages (id, session_id, message_data, created_at)")
        connection.execute("INSERT INTO agent_sessions VALUES ('one', 1)")
        row = '{"role": "user", "content": "stay", "content": "go"}'
        connection.execute("INSERT INTO agent_messages VALUES (1, 'one', ?, 1)", (row,))
    importer.file(path)
    assert importer.problems == [f"session one: {reported}"]
    path = importer.folder / "checkpoints.sqlite"
    with database(path) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint)"
        )
        state = '{"ts": "", "ts": "", "channel_values": {"messages": []}}'
        connection.execute("INSERT INTO checkpoints VALUES ('t', '', 7, 'json', ?)", (state,))
    source = read(path)
    with pytest.raises(SourceError, match="holds no messages; t: checkpoint 7: a key twice"):
        list(source.transcripts())
    assert [str(problem) for problem in source.problems] == [f"t: checkpoint 7: {reported}"]


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


CHECKPOINT_TABLES = """
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB NOT NULL,
    metadata JSONB NOT NULL DEFAULT '{}', PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE checkpoint_blobs (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL,
    version TEXT NOT NULL, type TEXT NOT NULL, blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);
"""
"""The tables of LangGraph's own PostgreSQL saver."""


@pytest.mark.server
def test_a_checkpoint_that_nests_too_deeply_holds_up_no_other_thread(importer: Importer) -> None:
    """Deep values are read, or are a problem by name: packed ones, and objects in objects."""
    path = importer.folder / "checkpoints.db"
    objects = b"\xc0"
    for _ in range(300):
        objects = msgspec.msgpack.encode(msgspec.msgpack.Ext(1, objects))
    packed = {"lists": b"\x91" * 5_000 + b"\xc0", "objects": objects}
    content: Any = "go"
    for _ in range(450):
        content = [content]
    for name, said in (("deep", content), ("whole", "go")):
        kwargs = {"type": "human", "content": said}
        messages = [{"lc": 1, "type": "constructor", "kwargs": kwargs}]
        packed[name] = msgspec.msgpack.encode(checkpoint(0, messages))
    with database(path) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint)"
        )
        for name, state in packed.items():
            row = (name, "", "1", "msgpack", state)
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", row)
    importer.file(path)
    assert "whole" in importer.ids
    assert "lists: checkpoint 1 cannot be read" in importer.problems


def test_checkpoints_in_postgresql_are_read_by_its_url(
    postgresql: PostgreSQL, store: EventStore
) -> None:
    """The messages of each checkpoint are packed by themselves there."""
    url = postgresql.database()
    address = url.replace("postgresql+psycopg://", "postgresql://")
    call = {"name": "f", "args": {"n": 1}, "id": "a", "type": "tool_call"}
    said = [
        message("HumanMessage", content="go", type="human", id="1"),
        message("AIMessage", content="", type="ai", id="2", tool_calls=[call]),
        message("ToolMessage", content="here", type="tool", id="3", tool_call_id="a"),
    ]
    with pytest.raises(SourceError, match=r"postgresql.* holds no checkpoints of LangGraph"):
        list(read(url).transcripts())
    with psycopg.connect(address) as connection:
        connection.execute(CHECKPOINT_TABLES)
        for n in range(4):
            state = {"v": 4, "ts": clock(n), "channel_versions": {"messages": f"{n}"}}
            made = ("t", "", f"{n}", json.dumps(state))
            connection.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint) "
                "VALUES (%s, %s, %s, %s)",
                made,
            )
            kind = "msgpack" if n < len(said) else "pickle"
            blob = msgspec.msgpack.encode(said[: n + 1])
            connection.execute(
                "INSERT INTO checkpoint_blobs VALUES ('t', '', 'messages', %s, %s, %s)",
                (f"{n}", kind, blob),
            )
    source = read(url)
    for transcript in source.transcripts():
        chat = store.conversation(transcript.id)
        chat.import_messages(transcript.messages, "openai", occurred_at=transcript.times)
    (tool,) = store.conversation("t").tools.values()
    assert (tool.call.name, tool.status.name) == ("f", "Completed")
    assert (tool.requested_at, tool.ended_at) == (AT + 1_000_000, AT + 2_000_000)
    assert [str(problem) for problem in source.problems] == ["t: checkpoint 3 cannot be read"]


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    """The error is one line, and holds no secret."""
    with pytest.raises(SourceError, match=r"postgresql://ann:\*\*\*@127\.0\.0\.1:1/x") as caught:
        list(read("postgresql://ann:secret@127.0.0.1:1/x").transcripts())
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@[::1:1/x", "postgresql://… is not a database URL: write"),
        ("postgresql://ann:%zzsecret@h/x", "is not a database URL: write"),
        ("postgresql://ann:secret\ud800@h/x", "is not a database URL: write"),
        ("postgresql://ann;password=secret@h/x", "postgresql://… is not a database URL: write"),
        ("postgresql:/ann:secret@h/x", "postgresql:… is not a URL that can be imported: name"),
        ("host=h password=secret", "… is not a URL that can be imported: name"),
        ("mysql://ann:secret@h/x", "mysql://ann:***@h/x is not a URL that can be imported: name"),
        ("https://ann:secret@h/x", "is not a URL that can be imported: name"),
        ("sqlite://ann:secret@/x.db", "is not a URL that can be imported: name"),
    ],
)
def test_a_url_that_cannot_be_read_is_named_without_its_password(url: str, shown: str) -> None:
    """Neither the error nor one that it comes from holds the secret."""
    with pytest.raises(SourceError) as caught:
        list(read(url).transcripts())
    assert shown in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        assert "secret" not in repr(error)
        error = error.__cause__ or error.__context__


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
