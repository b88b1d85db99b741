"""The database of Crush (`crush.db`): messages whose parts are a list of JSON.

The session of a sub-agent names the call that started it. A result is marked where the tool failed;
a command that exited with another code than 0 is not, and says so below its output. From a summary
on, the model is shown the summary in place of what was before.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject
from eventstore.domain.messages import Text
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.database_format import Tables, objects_in
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.json_members import member, text
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCall, ParsedCompaction, ParsedMessage

_EXIT = re.compile(
    r"(?:\A|\n)(?:Exit code -?[1-9]\d{0,9}|Command was aborted before completion)"
    r"\n\n<cwd>[^\n]*</cwd>\s*\Z"
)
"""What the tool for commands says below the output of one that failed."""
_SUB_AGENT = "$$"
"""Between the message and the call in the id of a sub-agent's session."""


class CrushSessions:
    """Sessions of Crush, each before the sub-agents that it started."""

    name = "crush"
    about = About(
        program="Crush",
        files="its database, `crush.db`",
        places=("./.crush/crush.db", "{data}/crush/crush.db"),
        listing=Listing(
            rows="SELECT id, updated_at, title FROM sessions WHERE parent_session_id IS NULL",
            row_calls="SELECT COUNT(*) FROM messages, json_each(parts) WHERE session_id = ? "
            "AND json_extract(value, '$.type') = 'tool_call'",
        ),
        failures="marked, exit codes",
        times="of messages, in whole seconds",
        lost="thinking, files and their versions",
        tried="the tables of August 2026",
        kept="which call started a sub-agent; summaries; commands that a person ran",
        on="2026-11-28",
    )

    def looks_like(self, tables: Tables) -> bool:
        """Return whether there are sessions, and messages with parts."""
        wanted = {"session_id", "role", "parts", "created_at", "is_summary_message"}
        return (
            {"id", "parent_session_id"} <= tables.get("sessions", set())
        ) and wanted <= tables.get("messages", set())

    def read(self, database: sqlite3.Connection, problems: Problems) -> Iterator[Transcript]:
        """Yield a conversation for each session."""
        sessions = database.execute(
            "SELECT id, parent_session_id FROM sessions "
            "ORDER BY created_at, parent_session_id IS NOT NULL, id"
        )
        for session, parent in sessions.fetchall():
            dialogue = Dialogue()
            rows = database.execute(
                "SELECT role, parts, created_at, is_summary_message FROM messages "
                "WHERE session_id = ? "
                "ORDER BY created_at, rowid",
                (session,),
            )
            for role, parts, created_at, is_summary in rows:
                where, what = f"session {session}", "the parts of a message are"
                given, time = objects_in(parts, problems, where, what), time_of(created_at)
                if is_summary and (words := _words(given)):
                    said = ParsedMessage("user", (Text(words),), well_formed=True)
                    dialogue.add(ParsedCompaction((said,)), time)
                else:
                    _add(dialogue, str(role), given, time)
            transcript = dialogue.transcript(str(session), None if parent is None else str(parent))
            if parent is not None:
                transcript.parent_call_id = str(session).partition(_SUB_AGENT)[2] or None
            if dialogue:
                yield transcript


def _add(dialogue: Dialogue, role: str, parts: list[JsonObject], time: int | None) -> None:
    """Add a message, with its results."""
    calls: list[ParsedCall] = []
    for part in parts:
        kind, data = text(part, "type"), member(part, "data")
        if kind == "tool_call":
            calls.append(call_of(data.get("id"), data.get("name"), data.get("input")))
        elif kind == "tool_result":
            _answer(dialogue, data, time)
    words = _words(parts)
    if role == "assistant":
        dialogue.reply(words, calls, time)
    else:
        dialogue.say(role, words, time)


def _words(parts: list[JsonObject]) -> str:
    """Return what a message says, with the commands that a person ran."""
    said: list[str] = []
    for part in parts:
        data = member(part, "data")
        if part.get("type") == "text":
            said.append(text(data, "text"))
        elif part.get("type") == "shell_command":
            said.append(f"$ {text(data, 'command')}\n{text(data, 'output')}")
    return "\n".join(filter(None, said))


def _answer(dialogue: Dialogue, result: JsonObject, time: int | None) -> None:
    content, name = text(result, "content"), text(result, "name")
    rejected = result.get("is_error") is True and content.startswith("User denied permission")
    failed = result.get("is_error") is True or (name == "bash" and bool(_EXIT.search(content)))
    dialogue.answer(
        text(result, "tool_call_id"),
        content,
        time,
        name=name,
        is_error=failed and not rejected,
        rejected=rejected,
    )
