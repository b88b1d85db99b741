"""A SQLite log with a table of seals, read and written by plain SQL; and a careful forger of it.

The forger has the right to write to the database, knows the chain, and computes it anew, so that
`verify` finds nothing. The key that signs seals is all that the forger does not have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from eventstore.seals.sealable_log import ArchivedRow, Seal, SealedRow
from eventstore.storage import chain
from eventstore.storage.interface import Draft

ROWS = """
    SELECT position, CAST(tenant AS TEXT), CAST(conversation_id AS TEXT), version, event_id,
        recorded_at, occurred_at, tag, schema, fingerprint, CAST(payload AS BLOB), chain
    FROM toolledger_events LEFT JOIN toolledger_conversations USING (lane, conversation)
    WHERE lane = ? AND position > ? AND position <= ? ORDER BY position
"""
SEALS = "SELECT lane, size, root, edge, note FROM toolledger_seals WHERE lane = ? ORDER BY size"
ADD = "INSERT OR IGNORE INTO toolledger_seals VALUES (?, ?, ?, ?, ?, ?)"
LAST = (1 << 63) - 1


class SqliteLog:
    """What seals need of a log, over the file of a store. Each call has its own connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._connected() as file:
            file.execute(
                "CREATE TABLE IF NOT EXISTS toolledger_seals (lane INT, previous INT, size INT, "
                "root BLOB, edge BLOB, note TEXT, PRIMARY KEY (lane, previous))"
            )

    @property
    def epoch(self) -> str:
        """The mark of the store."""
        with self._connected() as file:
            return str(
                file.execute("SELECT epoch FROM toolledger_store WHERE id = 1").fetchone()[0]
            )

    def heads(self) -> Mapping[int, int]:
        """Return the counters of the lanes."""
        with self._connected() as file:
            return dict(file.execute("SELECT lane, position FROM toolledger_lanes"))

    def sealable_rows(
        self, lane: int, after: int = 0, until: int | None = None
    ) -> Iterator[SealedRow | ArchivedRow]:
        """Yield the rows of a lane, with the digests of their payloads."""
        with self._connected() as file:
            for row in file.execute(ROWS, (lane, after, LAST if until is None else until)):
                *columns, payload, digest = row
                yield SealedRow._make((*columns, chain._payload_digests(payload)[-1], digest))

    def place_of(self, conversation_id: str, version: int) -> tuple[int, int] | None:
        """Return the place of an event of the tenant without a name."""
        with self._connected() as file:
            found: tuple[int, int] | None = file.execute(
                "SELECT lane, position FROM toolledger_events "
                "JOIN toolledger_conversations USING (lane, conversation) "
                "WHERE CAST(tenant AS TEXT) = '' AND CAST(conversation_id AS TEXT) = ? "
                "AND version = ?",
                (conversation_id, version),
            ).fetchone()
            return found

    def seals(self, lane: int) -> Iterator[Seal]:
        """Yield the stored seals."""
        with self._connected() as file:
            yield from (Seal(*row) for row in file.execute(SEALS, (lane,)).fetchall())

    def last_seal(self, lane: int) -> Seal | None:
        """Return the greatest seal."""
        return max(self.seals(lane), key=lambda seal: seal.size, default=None)

    def add_seal(self, seal: Seal, after: int) -> bool:
        """Store a seal if the last one is as great as the caller knows."""
        row = (seal.lane, after, seal.size, seal.root, seal.edge, seal.note)
        with self._connected() as file:
            return file.execute(ADD, row).rowcount == 1

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path)) as file, file:
            yield file


@contextmanager
def forging(path: Path) -> Iterator[sqlite3.Connection]:
    """Give what a forger writes with; at the end the chains are computed anew."""
    with closing(sqlite3.connect(path)) as file, file:
        yield file
        _rechain(file)


def _rechain(file: sqlite3.Connection) -> None:
    """Compute the digests of all events from what the rows say now."""
    for lane, key, tenant, name in file.execute(
        "SELECT lane, conversation, CAST(tenant AS BLOB), CAST(conversation_id AS BLOB) "
        "FROM toolledger_conversations"
    ).fetchall():
        digest = chain.conversation_digest(tenant, name)
        begun = _versions(file, "toolledger_fingerprints", lane, key)
        given = _versions(file, "toolledger_event_ids", lane, key)
        for version, position, payload, *row in file.execute(
            "SELECT version, position, CAST(payload AS BLOB), event_id, recorded_at, tag, schema, "
            "fingerprint, occurred_at FROM toolledger_events "
            "WHERE lane = ? AND conversation = ? ORDER BY version",
            (lane, key),
        ).fetchall():
            event_id, recorded_at, tag, schema, fingerprint, occurred_at = row
            draft = Draft(
                event_id,
                recorded_at,
                tag,
                schema,
                payload,
                fingerprint,
                version in begun,
                version in given,
                occurred_at,
            )
            digest = chain.event_digest(digest, version, draft)
            file.execute(
                "UPDATE toolledger_events SET chain = ? WHERE lane = ? AND position = ?",
                (digest, lane, position),
            )


def _versions(file: sqlite3.Connection, table: str, lane: int, key: int) -> set[int]:
    rows = file.execute(
        f"SELECT version FROM {table} WHERE lane = ? AND conversation = ?",  # noqa: S608 - ours
        (lane, key),
    )
    return {version for (version,) in rows}
