"""Archives in a SQL database: what is archived, and what a transaction moves there and back.

1. A conversation is archived where `toolledger_archives` has a row for it. Its last event says so,
   too. So an append that was decided before cannot be stored: another event has its version.
2. The payloads of its events are replaced by their digests. The salts go with them, and so do the
   rows that find its events by fingerprints and by given ids.
3. What comes back is written into the same rows. Their digests were never changed: they prove that
   it is what was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eventstore.domain.codec import decode
from eventstore.domain.detached import EventsArchived
from eventstore.errors import ConversationArchived, StoreCorrupt
from eventstore.storage.interface import Archived, Attach, Detach

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.domain.events import Recorded
    from eventstore.storage.sql.conversation_keys import Key
    from eventstore.storage.sql.statements import Statements

MOST_READS = 10
"""How often rows are read whose payloads are not there, while each time a restore is committed."""

_INSERT = (
    "INSERT INTO toolledger_archives (lane, conversation, version, archived_at, place) "
    "VALUES (?, ?, ?, ?, ?)"
)
_DELETE = "DELETE FROM toolledger_archives WHERE lane = ? AND conversation = ?"
_DELETE_IDS = "DELETE FROM toolledger_event_ids WHERE lane = ? AND conversation = ?"
_ATTACH = (
    "UPDATE toolledger_events SET payload = ?, salt = ?, fingerprint = ? "
    "WHERE lane = ? AND conversation = ? AND version = ?"
)


def found(cursor: DBAPICursor, sql: Statements, key: Key, conversation_id: str) -> Archived | None:
    """Return where a conversation is archived, as a transaction sees it.

    Raises:
        StoreCorrupt: the table is not as it was recorded.
    """
    cursor.execute(sql.archived, key)
    row = cursor.fetchone()
    return None if row is None else as_recorded(conversation_id, row)


def as_recorded(conversation_id: str, row: Sequence[Any]) -> Archived:
    """Return what the table of archives says, if the event that records the archive does, too.

    That event is in the chain, and the table is not.

    Raises:
        StoreCorrupt: it says something else, or is not there.
    """
    version, archived_at, place, recorded_at, tag, schema, payload = row
    said = decode(tag, schema, payload) if tag == EventsArchived.tag else None
    if not isinstance(said, EventsArchived) or (said.version, recorded_at, said.place) != (
        version,
        archived_at,
        place,
    ):
        raise StoreCorrupt(
            f"the table of archives says that conversation {conversation_id!r} is archived at "
            f"{place!r}, and no event of it says so: run `toolledger verify`, and restore the "
            "database from a copy"
        )
    return Archived(conversation_id, version, archived_at, place)


def refusal(
    cursor: DBAPICursor,
    sql: Statements,
    key: Key,
    conversation_id: str,
    tail: Sequence[Recorded],
    rows: int,
) -> ConversationArchived | StoreCorrupt | None:
    """Return the error for what was read of a conversation, if that is archived.

    So many `rows` were read, and the `tail` are the events of those whose payloads were there. Only
    where one was not there, or the last event says that it was archived, the table is asked. Where
    that knows no archive, it is `StoreCorrupt`. Outside of a transaction that may be wrong: if a
    restore was committed since, the payloads are there when the rows are read again.
    """
    is_whole = len(tail) == rows
    if is_whole and (not tail or tail[-1].event.tag != EventsArchived.tag):
        return None
    there = found(cursor, sql, key, conversation_id)
    if there is not None:
        return archived_error(there)
    if is_whole:
        return None  # it was restored, and what follows is not read yet
    return not_recorded(conversation_id)


def archived_error(there: Archived) -> ConversationArchived:
    """Return the error of readers and writers of a conversation that is archived."""
    return ConversationArchived(
        there.conversation_id, there.version, there.archived_at, there.place
    )


def not_recorded(conversation_id: str) -> StoreCorrupt:
    """Return the error for a conversation without payloads that no archive is recorded for."""
    return StoreCorrupt(
        f"payloads of conversation {conversation_id!r} are in an archive, and no archive is "
        "recorded: run `toolledger verify`, and restore the database from a copy"
    )


# in a transaction


def move(cursor: DBAPICursor, sql: Statements, key: Key, name: str, what: Detach | Attach) -> None:
    """Move the payloads of a conversation out of the log, or back into it."""
    if isinstance(what, Detach):
        _detach(cursor, sql, key, name, what)
    else:
        _attach(cursor, sql, key, name, what)


def _detach(cursor: DBAPICursor, sql: Statements, key: Key, name: str, what: Detach) -> None:
    lane, conversation = key
    _each(
        cursor,
        sql.redact,
        [(each.payload.decode(), *key, each.version) for each in what.payloads],
        name,
    )
    marked = [each for each in what.payloads if each.fingerprint is not None]
    _each(cursor, sql.forget_mark, [(*key, each.version) for each in marked if each.forgets], name)
    _each(
        cursor,
        sql.unindex,
        [
            (lane, bytearray(each.fingerprint or b""), conversation, each.version)
            for each in marked
            if each.begins
        ],
        name,
    )
    cursor.execute(sql.mark(_DELETE_IDS), key)
    cursor.execute(sql.mark(_INSERT), (*key, what.version, what.archived_at, what.place))


def _attach(cursor: DBAPICursor, sql: Statements, key: Key, name: str, what: Attach) -> None:
    lane, conversation = key
    payloads = what.payloads
    _each(
        cursor,
        sql.mark(_ATTACH),
        [
            (each.payload.decode(), each.salt, each.fingerprint, *key, each.version)
            for each in payloads
        ],
        name,
    )
    _each(
        cursor,
        sql.index,
        [
            (lane, bytearray(each.fingerprint or b""), conversation, each.version)
            for each in payloads
            if each.begins
        ],
        name,
    )
    _each(
        cursor,
        sql.insert_id,
        [
            (lane, conversation, bytearray(each.event_id), each.version)
            for each in payloads
            if each.id_given
        ],
        name,
    )
    _each(cursor, sql.mark(_DELETE), [key], name)


def _each(
    cursor: DBAPICursor, statement: str, rows: Sequence[tuple[object, ...]], name: str
) -> None:
    """Run a statement for each row, each of which must be there.

    Raises:
        StoreCorrupt: one is not.
    """
    if not rows:
        return
    cursor.executemany(statement, rows)
    if cursor.rowcount not in (-1, len(rows)):
        raise StoreCorrupt(
            f"conversation {name!r} has not the rows that it had when it was read; nothing was "
            "written: run `toolledger verify`"
        )
