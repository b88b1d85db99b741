"""SQLite databases that hold conversations: openai-agents' sessions, LangGraph's checkpoints.

A format is one class that keeps `DatabaseFormat`, and one line in `DATABASE_FORMATS`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Protocol

from eventstore.importers.checkpoints import Thread
from eventstore.importers.dialogue import ERROR_TEXT
from eventstore.importers.json_lines import decode_noting
from eventstore.importers.problems import Problems, SourceError
from eventstore.importers.times import time_of
from eventstore.importers.transcript import Transcript

SIGNATURE = b"SQLite format 3\x00"

Tables = Mapping[str, AbstractSet[str]]
"""The tables of a database, with the columns of each."""


class DatabaseFormat(Protocol):
    """A form of databases that hold conversations."""

    name: str
    """The name with which a caller chooses the format."""

    def looks_like(self, tables: Tables) -> bool:
        """Return whether a database with these tables is of this form."""
        ...

    def read(self, database: sqlite3.Connection, problems: Problems) -> Iterator[Transcript]:
        """Yield the conversations; what cannot be read becomes a problem."""
        ...


class AgentSessions:
    """Sessions of openai-agents: an item of OpenAI Responses in each row."""

    name = "openai-agents-sessions"

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
                    messages.append(decode_noting(_bytes(data), problems, where=where))
                except ValueError:
                    problems.add(f"session {name}: a row is not JSON")
                    continue
                times.append(time_of(created_at))
            if messages:
                yield Transcript(
                    name, "openai-responses", messages, times=times, error_pattern=ERROR_TEXT
                )


class Checkpoints:
    """Checkpoints of LangGraph: the messages in the state of each thread's last one.

    A message has the time of the first checkpoint that has it.
    """

    name = "langgraph"

    def looks_like(self, tables: Tables) -> bool:
        """Return whether there are checkpoints with the states in them."""
        wanted = {"thread_id", "checkpoint_ns", "checkpoint_id", "type", "checkpoint"}
        return wanted <= tables.get("checkpoints", set())

    def read(self, database: sqlite3.Connection, problems: Problems) -> Iterator[Transcript]:
        """Yield a conversation for each thread, and one for each subgraph in it."""
        threads = database.execute(
            "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints "
            "ORDER BY thread_id, checkpoint_ns"
        )
        for thread, namespace in threads.fetchall():
            rows = database.execute(
                "SELECT checkpoint_id, type, checkpoint FROM checkpoints "
                "WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id",
                (thread, namespace),
            )
            reader = Thread(thread, namespace, problems)
            for checkpoint_id, kind, data in rows:
                reader.add_state(checkpoint_id, kind, _bytes(data))
            yield from reader.transcripts()


DATABASE_FORMATS: Final[tuple[DatabaseFormat, ...]] = (AgentSessions(), Checkpoints())
"""The forms of databases that can be read, in the order in which they are asked."""


class Database:
    """A database file; `position` of `size` bytes have been read."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.position = 0
        self._problems = problems

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the conversations.

        Raises:
            SourceError: the database is of no known form, or damaged.
        """
        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as database:
                yield from self._format(database).read(database, self._problems)
        except sqlite3.Error as error:
            raise SourceError(
                f"{self.path} is a SQLite database that cannot be read ({error}): copy it again"
            ) from error
        self.position = self.size

    def _format(self, database: sqlite3.Connection) -> DatabaseFormat:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name: _columns(database, name) for (name,) in names.fetchall()}
        found = next((each for each in DATABASE_FORMATS if each.looks_like(tables)), None)
        if found is None:
            if any(name.startswith("toolledger_") for name in tables):
                raise SourceError(f"{self.path} is a log of toolledger: name it with --url")
            shown = ", ".join(sorted(tables)[:5]) or "(it has none)"
            raise SourceError(
                f"{self.path} is a SQLite database with the tables {shown}: import "
                "sessions of openai-agents or checkpoints of LangGraph"
            )
        return found


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    rows = database.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name for (name,) in rows}


def _bytes(data: object) -> bytes:
    return data if isinstance(data, bytes) else str(data).encode()
