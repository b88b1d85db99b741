"""Databases as programs write them, by their own tables, with made-up contents."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

MILLISECONDS = 1_735_787_045_000
"""`AT` of the importers' tests, as most programs count."""


@contextmanager
def database(path: Path, script: str) -> Iterator[sqlite3.Connection]:
    """Open a database file, run a script, and store what was written."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        yield connection
        connection.commit()


OPENCODE = """
    CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text,
        title text NOT NULL, version text NOT NULL, revert text, time_created integer NOT
        NULL, time_updated integer NOT NULL);
    CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created
        integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
    CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT
        NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT
        NULL)
"""
"""The tables of OpenCode 1.18.33 that hold sessions, without columns of costs and counts."""


def opencode_session(
    connection: sqlite3.Connection,
    name: str,
    messages: list[tuple[str, list[dict[str, Any]]]],
    parent: str | None = None,
    revert: Any = None,
) -> None:
    """Write a session: the role of each message, and its parts, a second after the one before."""
    reverted = None if revert is None else json.dumps(revert)
    row = (name, "global", parent, "t", "1.18.33", reverted, MILLISECONDS, MILLISECONDS)
    connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    for number, (role, parts) in enumerate(messages):
        at = MILLISECONDS + 1000 * number
        message = f"msg_{name}_{number}"
        info = json.dumps({"role": role, "time": {"created": at}})
        connection.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?)", (message, name, at, at, info)
        )
        for index, part in enumerate(parts):
            given = (f"prt_{name}_{number}_{index}", message, name, at, at, json.dumps(part))
            connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", given)


def opencode_tool(call: str, tool: str = "bash", second: int = 1, **state: Any) -> dict[str, Any]:
    """Return a part with a call and its end."""
    at = MILLISECONDS + 1000 * second
    times = {"start": at, "end": at + 500}
    given = {"status": "completed", "input": {"n": call}, "output": "x", "time": times} | state
    return {"type": "tool", "tool": tool, "callID": call, "state": given}


CRUSH = """
    CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL,
        message_count INTEGER NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL, created_at
        INTEGER NOT NULL, summary_message_id TEXT);
    CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT
        NULL, parts TEXT NOT NULL default '[]', model TEXT, created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL, finished_at INTEGER, provider TEXT, is_summary_message
        INTEGER DEFAULT 0 NOT NULL)
"""
"""The tables of Crush that hold sessions, as its migrations up to August 2026 make them."""


def crush_session(
    connection: sqlite3.Connection,
    name: str,
    messages: list[tuple[str, list[tuple[str, dict[str, Any]]]]],
    parent: str | None = None,
    summary: int | None = None,
) -> None:
    """Write a session: the role of each message, and its parts by their kinds."""
    at = MILLISECONDS // 1000
    summed = None if summary is None else f"{name}-{summary}"
    row = (name, parent, "t", len(messages), at, at, summed)
    connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    for number, (role, parts) in enumerate(messages):
        written = json.dumps([{"type": kind, "data": data} for kind, data in parts])
        given = (f"{name}-{number}", name, role, written, at + number, at, number == summary)
        connection.execute(
            "INSERT INTO messages (id, session_id, role, parts, created_at, updated_at, "
            "is_summary_message) VALUES (?, ?, ?, ?, ?, ?, ?)",
            given,
        )


def crush_result(call: str, content: str, name: str = "bash", **fields: Any) -> tuple[str, Any]:
    """Return a part with a result."""
    given = {"tool_call_id": call, "name": name, "content": content, "is_error": False}
    return "tool_result", given | fields


def crush_call(call: str, name: str = "bash") -> tuple[str, Any]:
    """Return a part with a call."""
    return "tool_call", {"id": call, "name": name, "input": '{"n":1}', "finished": True}


GOOSE = """
    CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP);
    CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', session_type
        TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP,
        parent_session_id TEXT);
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id
        TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL, content_json TEXT NOT
        NULL, created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER,
        metadata_json TEXT)
"""
"""The tables of Goose that hold sessions, without columns of costs and counts."""


def goose_session(
    connection: sqlite3.Connection,
    name: str,
    messages: list[tuple[str, list[dict[str, Any]]]],
    parent: str | None = None,
    metadata: dict[int, dict[str, Any]] | None = None,
) -> None:
    """Write a session: the role of each message, and its content; `metadata` by their numbers."""
    row = (name, "t", "sub_agent" if parent else "user", "/p", "2025-01-02 03:04:05", parent)
    connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)
    for number, (role, content) in enumerate(messages):
        given = (
            name,
            role,
            json.dumps(content),
            MILLISECONDS // 1000 + number,
            json.dumps((metadata or {}).get(number, {})),
        )
        connection.execute(
            "INSERT INTO messages (session_id, role, content_json, created_timestamp, "
            "metadata_json) VALUES (?, ?, ?, ?, ?)",
            given,
        )


def goose_request(call: str, name: str = "developer__shell") -> dict[str, Any]:
    """Return a part with a call."""
    value = {"name": name, "arguments": {"n": 1}}
    return {"type": "toolRequest", "id": call, "toolCall": {"status": "success", "value": value}}


def goose_response(call: str, said: str, **fields: Any) -> dict[str, Any]:
    """Return a part with a result, as newer versions write it."""
    value = {"content": [{"type": "text", "text": said}], "isError": False} | fields
    return {"type": "toolResponse", "id": call, "toolResult": {"status": "success", "value": value}}
