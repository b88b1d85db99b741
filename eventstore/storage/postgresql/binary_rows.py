"""The rows of events in PostgreSQL's binary form: one as parameters, many as COPY takes them.

Every column is its length followed by as many bytes; numbers are big-endian.

psycopg can write such rows (`cursor.copy()`, `set_types()`, `write_row()`). Measured on batches of
2,000 events that takes 3.6 instead of 2.1 microseconds of CPU an event, and 18 % more for the whole
append, so the rows are made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from eventstore.storage.sql.schema import event_ids, events, fingerprints

if TYPE_CHECKING:
    from sqlalchemy import Table
    from sqlalchemy.engine.interfaces import DBAPICursor

    from eventstore.storage.interface import Draft
    from eventstore.storage.sql.rows import Batch
    from eventstore.storage.sql.statements import Statements

PIECE_BYTES = 32 * 1024
"""The least that is sent at once: the server works on it while the next piece is made."""

_BEGIN, _END = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"

_int = Struct(">i").pack
_big = Struct(">q").pack
# A row's number of columns; then columns, each after its length. NULL has the length -1.
_place = Struct(">hiiiqiqiii16siq").pack
_tail = Struct(">i16si").pack
_mark = Struct(">hiii16siqii").pack
_id = Struct(">hiiiqi16sii").pack
_NULL = _int(-1)
_HASH = _int(16)
_BIG = _int(8)


def parameters(
    lane: int, conversation: int, position: int, version: int, draft: Draft, digest: bytes
) -> list[bytes | None]:
    """Return an event's columns, each by itself."""
    occurred_at = draft.occurred_at
    return [
        _int(lane),
        _big(position),
        _big(conversation),
        _int(version),
        draft.event_id,
        _big(draft.recorded_at),
        None if occurred_at is None else _big(occurred_at),
        draft.tag.encode(),
        _int(draft.schema),
        draft.fingerprint,
        digest,
        draft.payload,
        draft.salt or None,
    ]


def insert_copies(cursor: DBAPICursor, _: Statements, batches: Sequence[Batch]) -> None:
    """Insert the rows of batches by COPY; see `log_writer.Insert`.

    Even for few rows this takes less time in the client than `executemany`.
    """
    _copy(cursor, events, copied_events(batches))
    _copy(cursor, fingerprints, copied_marks(batches))
    _copy(cursor, event_ids, copied_ids(batches))


def _copy(cursor: Any, table: Table, pieces: Iterator[bytes]) -> None:
    first = next(pieces, None)
    if first is None:
        return
    columns = ", ".join(column.name for column in table.columns)
    with cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(first)
        for piece in pieces:
            copy.write(piece)


def copied_events(batches: Sequence[Batch], piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield what COPY takes of batches' events."""
    return _pieces(_events(batches), piece_bytes)


def copied_marks(batches: Sequence[Batch], piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield what COPY takes for the index of fingerprints."""
    return _pieces(_marks(batches), piece_bytes)


def copied_ids(batches: Sequence[Batch], piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Yield what COPY takes for the table of given ids."""
    return _pieces(_ids(batches), piece_bytes)


def _events(batches: Sequence[Batch]) -> Iterator[bytes]:
    columns = len(events.columns)
    for (lane, key), position, version, drafts, digests in batches:
        for place, (draft, digest) in enumerate(zip(drafts, digests, strict=True), 1):
            payload, mark, occurred_at = draft.payload, draft.fingerprint, draft.occurred_at
            yield b"".join(
                (
                    _place(
                        columns,
                        4,
                        lane,
                        8,
                        position + place,
                        8,
                        key,
                        4,
                        version + place,
                        16,
                        draft.event_id,
                        8,
                        draft.recorded_at,
                    ),
                    _NULL if occurred_at is None else _BIG + _big(occurred_at),
                    _kind(draft.tag, draft.schema),
                    _NULL if mark is None else _HASH + mark,
                    _tail(16, digest, len(payload)),
                    payload,
                    _HASH + draft.salt if draft.salt else _NULL,
                )
            )


def _marks(batches: Sequence[Batch]) -> Iterator[bytes]:
    columns = len(fingerprints.columns)
    for (lane, key), _, version, drafts, _ in batches:
        for place, draft in enumerate(drafts, 1):
            if draft.begins:
                yield _mark(columns, 4, lane, 16, draft.fingerprint, 8, key, 4, version + place)


def _ids(batches: Sequence[Batch]) -> Iterator[bytes]:
    columns = len(event_ids.columns)
    for (lane, key), _, version, drafts, _ in batches:
        for place, draft in enumerate(drafts, 1):
            if draft.id_given:
                yield _id(columns, 4, lane, 8, key, 16, draft.event_id, 4, version + place)


@lru_cache
def _kind(tag: str, schema: int) -> bytes:
    """Return the two columns that say what kind of event it is; there are few kinds."""
    word = tag.encode()
    return _int(len(word)) + word + _int(4) + _int(schema)


def _pieces(rows: Iterable[bytes], piece_bytes: int) -> Iterator[bytes]:
    """Yield all that COPY takes, in pieces; nothing where there are no rows."""
    piece, size = [_BEGIN], 0
    for row in rows:
        piece.append(row)
        size += len(row)
        if size >= piece_bytes:
            yield b"".join(piece)
            piece, size = [], 0
    if size or not piece:
        yield b"".join((*piece, _END))
