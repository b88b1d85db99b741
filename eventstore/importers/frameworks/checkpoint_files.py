"""LangGraph's checkpoints in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from eventstore.importers.frameworks.checkpoints import Thread
from eventstore.importers.reading.about import About
from eventstore.importers.reading.database_format import Tables, bytes_of
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.transcript import Transcript


class Checkpoints:
    """Checkpoints of LangGraph: the messages in the state of each thread's last one.

    A message has the time of the first checkpoint that has it.
    """

    name = "langgraph"
    about = About(
        program="LangGraph",
        files="checkpoints in SQLite, or in PostgreSQL",
        failures="marked",
        kept="subgraphs, threads, the first time of each message",
        lost="removed messages, other channels of the state, pickled checkpoints",
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
            for checkpoint_id, kind, data in rows:
                reader.add_state(checkpoint_id, kind, bytes_of(data))
            yield from reader.transcripts()
