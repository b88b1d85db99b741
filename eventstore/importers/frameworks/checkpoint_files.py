"""LangGraph's checkpoints in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from eventstore.importers.frameworks.checkpoints import Thread
from eventstore.importers.reading.about import About
from eventstore.importers.reading.database_format import Tables, bytes_of
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.transcript import Transcript


class Checkpoints:
    """Checkpoints of LangGraph: the state of each thread's last one, and what tasks wrote after it.

    A message has the time of the first checkpoint that has it.
    """

    name = "langgraph"
    about = About(
        program="LangGraph",
        files="checkpoints in SQLite, or in PostgreSQL",
        failures="marked, errors of tasks",
        kept="subgraphs, threads, what tasks wrote after the last checkpoint; what is interrupted "
        "waits",
        lost="removed messages, other channels of the state, pickled checkpoints",
        tried="1.2.24",
        on="2026-11-28",
    )

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
            last = None
            for last, kind, data in rows:
                reader.add_state(last, kind, bytes_of(data))
            for task, path, channel, kind, data in _writes(database, (thread, namespace, last)):
                reader.add_write(task, path, channel, kind, bytes_of(data))
            yield from reader.transcripts()


def _writes(database: sqlite3.Connection, of: tuple[object, ...]) -> list[Any]:
    """Return what tasks wrote after a checkpoint; earlier versions kept no paths, or nothing."""
    columns = {name for (name,) in database.execute("SELECT name FROM pragma_table_info('writes')")}
    if not columns:
        return []
    path = "task_path" if "task_path" in columns else "''"
    return database.execute(
        f"SELECT task_id, {path}, channel, type, value FROM writes "  # noqa: S608 - a column
        "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? "
        f"AND channel IN ('messages', '__error__', '__interrupt__') ORDER BY {path}, task_id, idx",
        of,
    ).fetchall()
