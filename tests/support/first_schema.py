"""A process that has a log of revision 0001 open: what it does, in plain SQL."""

from __future__ import annotations

import os
from hashlib import blake2b

from sqlalchemy import Connection, column, table, text

from eventstore.domain.codec import encode
from eventstore.domain.fingerprint import slice_of
from eventstore.testing import message

LANES = 16

_GIVEN = ("lane", "position", "conversation", "version", "digest", "payload")
_EVENTS = table(
    "toolledger_events",
    *map(column, (*_GIVEN, "event_id", "recorded_at", "tag", "schema")),
)


def append(connection: Connection, conversation_id: str, words: str) -> None:
    """Append a message to a conversation, in one transaction that begins with the lane."""
    lane = slice_of("", conversation_id) * LANES // 1024
    payload = encode(message(words))
    values: dict[str, object] = {"lane": lane, "name": conversation_id}

    def run(statement: str) -> int | None:
        found = connection.execute(text(statement), values)
        return found.scalar() if found.returns_rows else None

    connection.exec_driver_sql("BEGIN")
    at = run("SELECT position FROM toolledger_lanes WHERE lane = :lane FOR UPDATE")
    position = values["position"] = (at or 0) + 1
    found = run(
        "SELECT conversation FROM toolledger_conversations "
        "WHERE lane = :lane AND tenant = '' AND conversation_id = :name"
    )
    values["conversation"] = found or position
    if found is None:
        values["slice"] = slice_of("", conversation_id)
        run(
            "INSERT INTO toolledger_conversations (lane, conversation, tenant, conversation_id, "
            "slice) VALUES (:lane, :conversation, '', :name, :slice)"
        )
    last = run(
        "SELECT MAX(version) FROM toolledger_events "
        "WHERE lane = :lane AND conversation = :conversation"
    )
    values |= {"version": (last or 0) + 1, "payload": payload.decode()}
    values["digest"] = _digest(payload)
    row = {name: values[name] for name in _GIVEN}
    row |= {"event_id": os.urandom(16), "recorded_at": 1_700_000_000_000_000, "schema": 1}
    connection.execute(_EVENTS.insert(), {**row, "tag": "message"})
    run("UPDATE toolledger_lanes SET position = :position WHERE lane = :lane")
    connection.exec_driver_sql("COMMIT")


def rewrite(connection: Connection, conversation_id: str, version: int, words: str) -> None:
    """Put another message in the place of an event, with the digest that it has then."""
    payload = encode(message(words))
    lane = slice_of("", conversation_id) * LANES // 1024
    done = connection.execute(
        text(
            "UPDATE toolledger_events SET payload = :payload, digest = :digest "
            "WHERE lane = :lane AND version = :version AND conversation = "
            "(SELECT conversation FROM toolledger_conversations "
            "WHERE lane = :lane AND tenant = '' AND conversation_id = :name)"
        ),
        {
            "payload": payload.decode(),
            "digest": _digest(payload),
            "lane": lane,
            "version": version,
            "name": conversation_id,
        },
    )
    assert done.rowcount == 1


def _digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=16).digest()
