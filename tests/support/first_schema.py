"""A process that has a log of revision 0001 open: what it does, in plain SQL."""

from __future__ import annotations

import os
from hashlib import blake2b

from sqlalchemy import Connection, text

from eventstore.domain.codec import encode
from eventstore.domain.fingerprint import slice_of
from eventstore.testing import message

LANES = 16


def append(connection: Connection, conversation_id: str, words: str) -> None:
    """Append a message to a conversation, in one transaction that begins with the lane."""
    quote = connection.dialect.identifier_preparer.quote
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
        run(
            "INSERT INTO toolledger_conversations (lane, conversation, tenant, conversation_id, "
            f"slice) VALUES (:lane, :conversation, '', :name, {slice_of('', conversation_id)})"
        )
    last = run(
        "SELECT MAX(version) FROM toolledger_events "
        "WHERE lane = :lane AND conversation = :conversation"
    )
    values |= {"version": (last or 0) + 1, "id": os.urandom(16), "payload": payload.decode()}
    values["digest"] = _digest(payload)
    run(
        "INSERT INTO toolledger_events (lane, position, conversation, version, event_id, "
        f"recorded_at, tag, {quote('schema')}, digest, payload) VALUES (:lane, :position, "
        ":conversation, :version, :id, 1700000000000000, 'message', 1, :digest, :payload)"
    )
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
