"""Sessions of Goose: messages in a database (`sessions.db`), or a message a line in older versions.

A request for a tool and its response are parts of messages, which bear the same id. A response says
itself whether it failed; where it was refused, its text begins with the words for that. What was
compacted is hidden from the model, and the summary follows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.database_format import Tables, objects_in
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, parsed, text, text_of
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCall, ParsedCompaction

_REQUESTS: Final = ("toolRequest", "frontendToolRequest")
_REFUSALS: Final = {
    "The user has declined to run this tool": "human",
    "This tool call was blocked by a safety inspector": "gate",
    "Let the user know the tool call was skipped": "rule",
}
"""The beginnings of what a refused call is answered with, and what refuses."""


class GooseSessions:
    """The file format of older versions: a header, and a message a line."""

    name = "goose"
    about = About(
        program="Goose",
        files="sessions of versions up to 1.9, `.jsonl`",
        places=("{data}/goose/sessions/*.jsonl",),
        listing=Listing(call=r'"type": ?"(?:frontendT|t)oolRequest", ?"id": ?"([^"\\]{1,200})"'),
        failures="marked",
        lost="thinking, notices",
        tried="the messages of 1.9",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is a session's header, or a message with a part of Goose's own."""
        if unit != "line" or not is_json_object(value):
            return False
        if {"working_dir", "message_count"} <= value.keys():
            return True
        kinds = {text(part, "type") for part in objects(value, "content")}
        return "role" in value and not kinds.isdisjoint((*_REQUESTS, "toolResponse"))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session."""
        dialogue = Dialogue()
        for number, value in content.values:
            if is_json_object(value) and is_json_list(value.get("content")):
                time = time_of(value.get("created"))
                _add(dialogue, text(value, "role"), objects(value, "content"), time)
            elif not is_json_object(value) or "working_dir" not in value:
                content.report("not a message of a session", number)
        yield dialogue.transcript(content.name or content.stem)


class GooseDatabase:
    """The database of newer versions."""

    name = "goose-database"
    about = About(
        program="Goose",
        files="its database, `sessions.db`",
        places=("{data}/goose/sessions/sessions.db",),
        listing=Listing(
            program="goose",
            rows="SELECT id, (SELECT MAX(created_timestamp) FROM messages "
            "WHERE session_id = sessions.id), working_dir FROM sessions "
            "WHERE session_type <> 'sub_agent'",
            row_calls="SELECT COUNT(*) FROM messages, json_each(content_json) "
            "WHERE session_id = ? "
            "AND json_extract(value, '$.type') IN ('toolRequest', 'frontendToolRequest')",
        ),
        failures="marked",
        lost="thinking, notices",
        tried="the tables of version 5 to 15",
        kept="which session started a sub-agent; compactions",
        on="2026-11-28",
    )

    def looks_like(self, tables: Tables) -> bool:
        """Return whether there are sessions, and messages with their content."""
        wanted = {"session_id", "role", "content_json", "created_timestamp"}
        return "sessions" in tables and wanted <= tables.get("messages", set())

    def read(self, database: sqlite3.Connection, problems: Problems) -> Iterator[Transcript]:
        """Yield a conversation for each session."""
        sessions = database.execute("SELECT * FROM sessions ORDER BY created_at, id")
        names = [column[0] for column in sessions.description]
        for row in sessions.fetchall():
            session = dict(zip(names, row, strict=True))
            dialogue = _dialogue_of(database, session["id"], problems)
            parent = session.get("parent_session_id")
            if dialogue:
                yield dialogue.transcript(
                    str(session["id"]), None if parent is None else str(parent)
                )


def _dialogue_of(database: sqlite3.Connection, session: object, problems: Problems) -> Dialogue:
    """Return the messages of a session, and where those before were hidden from the model."""
    dialogue = Dialogue()
    rows = database.execute("SELECT * FROM messages WHERE session_id = ? ORDER BY id", (session,))
    names = [column[0] for column in rows.description]
    all_hidden = False
    for row in rows:
        message = dict(zip(names, row, strict=True))
        time = time_of(message["created_timestamp"])
        is_hidden = _is_hidden(message.get("metadata_json"))
        if all_hidden and not is_hidden:
            dialogue.add(ParsedCompaction(), time)
        all_hidden = is_hidden and (all_hidden or not dialogue)
        where, what = f"session {session}", "the content of a message is"
        parts = objects_in(message["content_json"], problems, where, what)
        _add(dialogue, str(message["role"]), parts, time)
    return dialogue


def _is_hidden(metadata: object) -> bool:
    """Return whether a message is shown to people alone: the program summed it up for the model."""
    value = parsed(metadata) if isinstance(metadata, str) else None
    return is_json_object(value) and value.get("agentVisible") is False


def _add(dialogue: Dialogue, role: str, parts: list[JsonObject], time: int | None) -> None:
    """Add a message, with the results in it."""
    calls: list[ParsedCall] = []
    for part in parts:
        if part.get("type") in _REQUESTS:
            made = member(part, "toolCall", "value")
            calls.append(call_of(part.get("id"), made.get("name"), made.get("arguments")))
        elif part.get("type") == "toolResponse":
            _answer(dialogue, part, time)
    said: list[JsonValue] = [part for part in parts if part.get("type") in ("text", "image")]
    if role == "assistant":
        dialogue.reply(said, calls, time)
    else:
        dialogue.say(role, said, time)


def _answer(dialogue: Dialogue, part: JsonObject, time: int | None) -> None:
    result = member(part, "toolResult")
    value: JsonValue = result.get("value")  # the content alone, in older versions
    given = value if is_json_object(value) else {"content": value}
    said = text(result, "error") or text_of(given.get("content"))
    code: JsonValue = member(given, "structuredContent").get("exit_code")
    who = next((who for start, who in _REFUSALS.items() if said.startswith(start)), False)
    failed = result.get("status") == "error" or given.get("isError") is True
    if isinstance(code, int) and code != 0:
        failed = True
    dialogue.answer(
        text(part, "id"), said, time, is_error=failed and not who, rejected=who or False
    )
