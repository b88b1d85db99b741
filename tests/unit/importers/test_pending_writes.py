"""What tasks of LangGraph wrote after the last checkpoint: results, errors, interrupts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import pytest
from support.importing import Importer, clock, states

from eventstore import EventStore
from eventstore.importers import import_file

if TYPE_CHECKING:
    from support.servers import PostgreSQL

PUSHED = "~__pregel_push, {:010}, 0000000000"


def packed(kind: str, **fields: Any) -> msgspec.msgpack.Ext:
    """Return an object of LangChain's as LangGraph packs it."""
    module = ("langchain_core.messages", kind, fields, "model_validate_json")
    return msgspec.msgpack.Ext(5, msgspec.msgpack.encode(module))


def call(name: str) -> dict[str, Any]:
    """Return a call as LangChain has it."""
    return {"name": name, "args": {}, "id": name, "type": "tool_call"}


def sent(given: Any) -> msgspec.msgpack.Ext:
    """Return what a node sends to a task."""
    return msgspec.msgpack.Ext(
        1, msgspec.msgpack.encode(("langgraph.types", "Send", ("tools", given)))
    )


def asked(*names: str, sends: list[Any] | None = None) -> dict[str, Any]:
    """Return the state in which the model has made calls."""
    said = [
        packed("HumanMessage", content="go", type="human", id="1"),
        packed("AIMessage", content="", type="ai", id="2", tool_calls=[call(n) for n in names]),
    ]
    values = {"messages": said} | ({} if sends is None else {"__pregel_tasks": sends})
    return {"v": 4, "ts": clock(0), "channel_values": values}


def result(name: str, said: str = "done") -> bytes:
    """Return the message of a tool that a task wrote."""
    message = packed("ToolMessage", content=said, type="tool", id=f"r-{name}", tool_call_id=name)
    return msgspec.msgpack.encode([message])


ENCODED = msgspec.msgpack.encode
Row = tuple[str, str, int, str, str, bytes]
"""A write: its task, the path of it, its number, channel, type and value."""

GAVE_UP = ENCODED("RuntimeError('the server is gone')")
WAITS = ENCODED([{"value": "sure?", "id": "i"}])


def saved(path: Path, states_of: dict[str, dict[str, Any]], writes: dict[str, list[Row]]) -> Path:
    """Write a database as LangGraph's saver does: checkpoints and writes by their namespaces."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, "
            "parent_checkpoint_id, type, checkpoint, metadata)"
        )
        connection.execute(
            "CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, "
            "idx, channel, type, value)"
        )
        for namespace, state in states_of.items():
            for checkpoint in ("1", "2"):
                connection.execute(
                    "INSERT INTO checkpoints VALUES ('t', ?, ?, NULL, 'msgpack', ?, NULL)",
                    (namespace, checkpoint, ENCODED(state)),
                )
        for namespace, rows in writes.items():
            for row in rows:
                place = "INSERT INTO writes VALUES ('t', ?, '2', ?, ?, ?, ?, ?, ?)"
                connection.execute(place, (namespace, *row))
            stale = (namespace, "x", "", 0, "messages", "msgpack", result("stale"))
            connection.execute("INSERT INTO writes VALUES ('t', ?, '1', ?, ?, ?, ?, ?, ?)", stale)
        connection.commit()
    return path


def test_a_result_that_a_task_wrote_is_the_end_of_its_call(importer: Importer) -> None:
    """The other task failed: its path says which of the sent calls it had."""
    state = asked("refund", "mail", sends=[sent([call("refund")]), sent([call("mail")])])
    rows: list[Row] = [
        ("b", PUSHED.format(1), -1, "__error__", "msgpack", GAVE_UP),
        ("a", PUSHED.format(0), 0, "messages", "msgpack", result("refund", "paid back")),
        ("a", PUSHED.format(0), 1, "branch:to:model", "null", b""),
        ("a", PUSHED.format(0), 2, "messages", "null", b""),
    ]
    tools = importer.file(saved(importer.folder / "c.db", {"": state}, {"": rows}))
    assert states(tools) == [("refund", "Completed"), ("mail", "Failed")]
    failed = [each.event for each in importer.store.conversation("t").events()][-1]
    assert "the server is gone" in repr(failed)
    assert importer.problems == []


@pytest.mark.parametrize("given", [{"tool_call": call("mail"), "state": {"id": "s"}}, call("mail")])
def test_a_task_may_be_given_its_call_in_other_forms(importer: Importer, given: Any) -> None:
    """As versions of LangGraph before and after have it."""
    state = asked("refund", "mail", sends=[sent([call("refund")]), sent(given)])
    rows: list[Row] = [("b", PUSHED.format(1), -1, "__error__", "msgpack", GAVE_UP)]
    tools = importer.file(saved(importer.folder / "c.db", {"": state}, {"": rows}))
    assert states(tools) == [("refund", "Pending"), ("mail", "Failed")]


def test_a_call_whose_task_was_interrupted_waits(importer: Importer) -> None:
    """The call has not failed, even where an earlier attempt of the task had."""
    state = asked("refund", "mail", sends=[sent([call("refund")]), sent([call("mail")])])
    rows: list[Row] = [
        ("a", PUSHED.format(0), 0, "messages", "msgpack", result("refund")),
        ("b", PUSHED.format(1), -1, "__error__", "msgpack", GAVE_UP),
        ("b", PUSHED.format(1), -3, "__interrupt__", "msgpack", WAITS),
    ]
    tools = importer.file(saved(importer.folder / "c.db", {"": state}, {"": rows}))
    assert states(tools) == [("refund", "Completed"), ("mail", "Pending")]


def test_an_error_of_a_task_with_all_calls_is_that_of_the_one_that_is_open(
    importer: Importer,
) -> None:
    """Where several are open, they stay so, and the error is a problem."""
    node = ("n", "~__pregel_pull, tools", -1, "__error__", "msgpack", GAVE_UP)
    tools = importer.file(saved(importer.folder / "one.db", {"": asked("mail")}, {"": [node]}))
    assert states(tools) == [("mail", "Failed")]
    with EventStore.open("sqlite://") as store:
        two = asked("refund", "mail")
        done = import_file(store, saved(importer.folder / "two.db", {"": two}, {"": [node]}))
        assert states([*store.conversation("t").tools.values()]) == [
            ("refund", "Pending"),
            ("mail", "Pending"),
        ]
        assert "t: a task of several calls failed (RuntimeError" in done.problems[0]


def test_a_subgraph_has_its_own_writes(importer: Importer) -> None:
    """Each namespace has checkpoints of its own; a value that is not read is a problem."""
    mail = asked("mail")
    rows: list[Row] = [
        ("s", "", 0, "messages", "json", json.dumps([{"lc": 1}]).encode()),
        ("s", "", 1, "messages", "pickle", b"\x80"),
        ("s", "", 2, "messages", "msgpack", result("mail")),
        ("s", "", 3, "messages", "msgpack", ENCODED([["user", "and then?"]])),
    ]
    path = saved(importer.folder / "c.db", {"": asked("refund"), "sub:1": mail}, {"sub:1": rows})
    assert states(importer.file(path)) == [("refund", "Pending"), ("mail", "Completed")]
    assert importer.ids == ["t", "t/sub:1"]
    assert ("user", "and then?") in list(importer.said())
    assert importer.problems == ["t/sub:1: what a task wrote to messages cannot be read"]


def test_a_whole_channel_is_its_messages(importer: Importer) -> None:
    """A snapshot of more than two messages is no object with a module and a class."""
    said = [{"type": "human", "content": f"{n}", "id": f"{n}"} for n in range(3)]
    whole = msgspec.msgpack.Ext(7, ENCODED(said))
    state = {"v": 4, "ts": clock(0), "channel_values": {"messages": whole}}
    importer.file(saved(importer.folder / "c.db", {"": state}, {}))
    assert [text for _, text in importer.said()] == ["0", "1", "2"]


@pytest.mark.server
@pytest.mark.parametrize("has_path", [True, False])
def test_writes_in_postgresql_are_read(
    postgresql: PostgreSQL, store: EventStore, *, has_path: bool
) -> None:
    """Messages to tasks are packed by themselves there; earlier versions kept no paths."""
    url = postgresql.database()
    state = asked("refund", "mail")["channel_values"]["messages"]
    sends = [sent([call("refund")]), sent([call("mail")])]
    versions = {
        "v": 4,
        "ts": clock(0),
        "channel_versions": {"messages": "1", "__pregel_tasks": "1"},
    }
    with psycopg.connect(url.replace("postgresql+psycopg://", "postgresql://")) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, "
            "checkpoint JSONB)"
        )
        connection.execute(
            "CREATE TABLE checkpoint_blobs (thread_id TEXT, checkpoint_ns TEXT, channel TEXT, "
            "version TEXT, type TEXT, blob BYTEA)"
        )
        path = "task_path TEXT," if has_path else ""
        connection.execute(
            "CREATE TABLE checkpoint_writes (thread_id TEXT, checkpoint_ns TEXT, "
            f"checkpoint_id TEXT, task_id TEXT, {path} idx INTEGER, channel TEXT, type TEXT, "
            "blob BYTEA)"
        )
        connection.execute(
            "INSERT INTO checkpoints VALUES ('t', '', '1', %s)", (json.dumps(versions),)
        )
        for channel, value in (("messages", state), ("__pregel_tasks", sends)):
            row = (channel, ENCODED(value))
            connection.execute(
                "INSERT INTO checkpoint_blobs VALUES ('t', '', %s, '1', 'msgpack', %s)", row
            )
        rows = [
            ("a", PUSHED.format(0), 0, "messages", "msgpack", result("refund")),
            ("b", PUSHED.format(1), -1, "__error__", "msgpack", GAVE_UP),
        ]
        for task, place, *rest in rows:
            given = (task, place, *rest) if has_path else (task, *rest)
            marks = ", ".join(["%s"] * len(given))
            insert = f"INSERT INTO checkpoint_writes VALUES ('t', '', '1', {marks})"  # noqa: S608
            connection.execute(insert, given)
    done = import_file(store, url)
    assert (done.ids, done.problems, done.refused) == (["t"], [], [])
    assert states([*store.conversation("t").tools.values()]) == [
        ("refund", "Completed"),
        ("mail", "Failed"),
    ]
