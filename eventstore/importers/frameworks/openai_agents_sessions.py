"""SQLite sessions of openai-agents: an item of OpenAI Responses in each row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from eventstore.importers.reading.about import About
from eventstore.importers.reading.database_format import Tables, bytes_of
from eventstore.importers.reading.dialogue import ERROR_TEXT
from eventstore.importers.reading.json_lines import decode_noting
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript


class AgentSessions:
    """Sessions of openai-agents: an item of OpenAI Responses in each row."""

    name = "openai-agents-sessions"
    about = About(
        program="openai-agents",
        files="SQLite sessions",
        failures="text",
        kept="items of Responses as they were",
        lost="usage",
    )

    def looks_like(self, tables: Tables) -> bool:
        """Return whether there are sessions, and messages of theirs."""
        wanted = {"session_id", "message_data", "created_at"}
        return "agent_sessions" in tables and wanted <= tables.get("agent_messages", set())

    def read(self, database: sqlite3.Connection, problems: Problems) -> Iterator[Transcript]:
        """Yield a conversation for each session."""
        names = "SELECT session_id FROM agent_sessions ORDER BY created_at, session_id"
        for (name,) in database.execute(names).fetchall():
            rows = database.execute(
                "SELECT message_data, created_at FROM agent_messages WHERE session_id = ? "
                "ORDER BY id",
                (name,),
            )
            messages: list[Any] = []
            times: list[int | None] = []
            for data, created_at in rows:
                try:
                    where = f"session {name}"
                    messages.append(decode_noting(bytes_of(data), problems, where=where))
                except ValueError:
                    problems.add(f"session {name}: a row is not JSON")
                    continue
                times.append(time_of(created_at))
            if messages:
                yield Transcript(
                    name, "openai-responses", messages, times=times, error_pattern=ERROR_TEXT
                )
