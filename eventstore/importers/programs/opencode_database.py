"""The database of OpenCode (`opencode.db`): sessions, their messages, and the parts of these.

What a person reverted is shown to the model no more, until the next question removes it: it is a
conversation of its own.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject
from eventstore.importers.programs.opencode import children_of, dialogue_of
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.database_format import Tables, object_in
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.transcript import Transcript


class OpenCodeDatabase:
    """Sessions of OpenCode, each before the sub-agents that it started."""

    name = "opencode-database"
    about = About(
        program="OpenCode",
        files="its database, `opencode.db`",
        places=("{data}/opencode/opencode.db", "{data}/opencode/opencode-*.db"),
        listing=Listing(
            program="opencode",
            rows="SELECT id, time_updated, title FROM session WHERE parent_id IS NULL",
            row_calls="SELECT COUNT(*) FROM part WHERE session_id = ? "
            "AND json_extract(data, '$.type') = 'tool'",
        ),
        failures="marked, exit codes",
        times="yes, with durations",
        lost="thinking, snapshots and patches",
        tried="1.18.33",
        kept="which call started a sub-agent; compactions; what was reverted",
        on="2026-11-28",
    )

    def looks_like(self, tables: Tables) -> bool:
        """Return whether there are sessions, messages and parts."""
        return (
            {"id", "parent_id", "time_created"} <= tables.get("session", set())
            and {"id", "session_id", "data"} <= tables.get("message", set())
            and {"id", "message_id", "data"} <= tables.get("part", set())
        )

    def read(self, database: sqlite3.Connection, problems: Problems) -> Iterator[Transcript]:
        """Yield a conversation for each session, and one for what was reverted in it."""
        sessions = database.execute(
            "SELECT * FROM session ORDER BY time_created, parent_id IS NOT NULL, id"
        )
        names = [column[0] for column in sessions.description]
        callers: dict[str, str] = {}
        for row in sessions.fetchall():
            session = dict(zip(names, row, strict=True))
            name = str(session["id"])
            messages = _messages(database, session["id"], problems)
            callers.update(children_of(messages))
            reverted = session.get("revert")
            revert = object_in(reverted, problems, f"session {name}") if reverted else None
            kept, taken = _split(messages, revert or {})
            parent = session["parent_id"]
            transcript = dialogue_of(kept).transcript(name, None if parent is None else str(parent))
            transcript.parent_call_id = callers.get(name)
            if taken:  # an earlier import may have had the turns
                transcript.part_id = f"{name}/reverted"
            if kept:
                yield transcript
            if taken:
                yield dialogue_of(taken).transcript(f"{name}/taken-back-1", name)


def _messages(
    database: sqlite3.Connection, session: object, problems: Problems
) -> list[JsonObject]:
    """Return the messages of a session, in the form in which `opencode export` prints them."""
    where = f"session {session}"
    parts: defaultdict[str, list[JsonObject]] = defaultdict(list)
    rows = database.execute(
        "SELECT id, message_id, data FROM part WHERE message_id IN "
        "(SELECT id FROM message WHERE session_id = ?) ORDER BY id",
        (session,),
    )
    for part, message, data in rows:
        if found := object_in(data, problems, where):
            parts[message].append({**found, "id": part})
    rows = database.execute(
        "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,)
    )
    return [
        {"info": {**info, "id": message}, "parts": parts[message]}
        for message, data in rows
        if (info := object_in(data, problems, where)) is not None
    ]


def _split(
    messages: list[JsonObject], revert: JsonObject
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the messages that the model is shown, and those from which a person went back."""
    ids = [text(member(message, "info"), "id") for message in messages]
    at = text(revert, "messageID")
    if not at or at not in ids:
        return messages, []
    first = ids.index(at)
    message, part = messages[first], text(revert, "partID")
    parts = objects(message, "parts")
    numbers = [text(each, "id") for each in parts]
    if part not in numbers:
        return messages[:first], messages[first:]
    cut = numbers.index(part)
    kept, taken = {**message, "parts": parts[:cut]}, {**message, "parts": parts[cut:]}
    return [*messages[:first], kept], [taken, *messages[first + 1 :]]
