"""A careful forger of a SQLite log, who has the right to write to it, and knows the chain.

The digests are computed anew after each edit, so that `verify` finds nothing. The key that signs
seals is all that the forger does not have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from eventstore.storage.chain import conversation_digest, digests_of
from eventstore.storage.stored_row import StoredRow

ROWS = """
    SELECT e.position, e.conversation, e.version, e.event_id, e.recorded_at, e.occurred_at,
        CAST(e.tag AS BLOB), e.schema, e.fingerprint, e.chain, CAST(e.payload AS BLOB), NULL,
        i.version, f.version, e.salt
    FROM toolledger_events e
    LEFT JOIN toolledger_event_ids i ON (i.lane, i.conversation, i.event_id, i.version)
        = (e.lane, e.conversation, e.event_id, e.version)
    LEFT JOIN toolledger_fingerprints f ON (f.lane, f.fingerprint, f.conversation, f.version)
        = (e.lane, e.fingerprint, e.conversation, e.version)
    WHERE e.lane = ? AND e.conversation = ? ORDER BY e.version
"""


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
        digest = conversation_digest(tenant, name)
        for row in map(StoredRow._make, file.execute(ROWS, (lane, key)).fetchall()):
            begins, given = row.begins is not None, row.id_given is not None
            digest = digests_of(row, digest, begins=begins, id_given=given)[0]
            file.execute(
                "UPDATE toolledger_events SET chain = ? WHERE lane = ? AND position = ?",
                (digest, lane, row.position),
            )
