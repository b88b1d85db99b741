"""The rows of events in PostgreSQL's binary form: one as parameters, many as COPY takes them.

Everything is a number of bytes followed by so many; numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING

from eventstore.storage.rows import payload_digest
from eventstore.storage.schema import events, fingerprints

if TYPE_CHECKING:
    from eventstore.storage import Draft
    from eventstore.storage.rows import Batch

PIECE = 32 * 1024
"""Bytes at least that are sent at once: the server works on them while the next are made."""

_BEGIN, _END = b"PGCOPY\n\xff\r\n\x00" + bytes(8), b"\xff\xff"

_int = Struct(">i").pack
_big = Struct(">q").pack
# A row's number of columns; then columns, each behind its length. NULL has the length -1.
_place = Struct(">hiiiqiqiii16siq").pack
_tail = Struct(">i16si").pack
_mark = Struct(">hiii16siqii").pack
_NULL = _int(-1)
_HASH = _int(16)


def parameters(
    lane: int, conversation: int, position: int, version: int, draft: Draft
) -> list[bytes | None]:
    """An event's columns, each by itself."""
    payload = draft.payload
    return [
        _int(lane), _big(position), _big(conversation), _int(version), draft.event_id,
        _big(draft.recorded_at), draft.tag.encode(), _int(draft.schema), draft.fingerprint,
        payload_digest(payload), payload,
    ]  # fmt: skip


def copied_events(batches: Sequence[Batch]) -> Iterator[bytes]:
    """What COPY takes of batches' events."""
    return _pieces(_events(batches))


def copied_marks(batches: Sequence[Batch]) -> Iterator[bytes]:
    """What COPY takes for the fingerprints' index, of those that go into it."""
    return _pieces(_marks(batches))


def _events(batches: Sequence[Batch]) -> Iterator[bytes]:
    columns = len(events.columns)
    for (lane, key), position, version, drafts in batches:
        for place, draft in enumerate(drafts, 1):
            payload, mark = draft.payload, draft.fingerprint
            yield b"".join((
                _place(columns, 4, lane, 8, position + place, 8, key, 4, version + place,
                       16, draft.event_id, 8, draft.recorded_at),
                _kind(draft.tag, draft.schema),
                _NULL if mark is None else _HASH + mark,
                _tail(16, payload_digest(payload), len(payload)),
                payload,
            ))  # fmt: skip


def _marks(batches: Sequence[Batch]) -> Iterator[bytes]:
    columns = len(fingerprints.columns)
    for (lane, key), _, version, drafts in batches:
        for place, draft in enumerate(drafts, 1):
            if draft.begins:
                yield _mark(columns, 4, lane, 16, draft.fingerprint, 8, key, 4, version + place)


@lru_cache
def _kind(tag: str, schema: int) -> bytes:
    """The two columns that say what kind of event it is; there are few of them."""
    word = tag.encode()
    return _int(len(word)) + word + _int(4) + _int(schema)


def _pieces(rows: Iterable[bytes]) -> Iterator[bytes]:
    """All that COPY takes, in pieces; nothing where there are no rows."""
    piece, size = [_BEGIN], 0
    for row in rows:
        piece.append(row)
        size += len(row)
        if size >= PIECE:
            yield b"".join(piece)
            piece, size = [], 0
    if size or not piece:
        yield b"".join((*piece, _END))
