"""The lines of an archive: what `toolledger export` writes of an event, and what proves it.

1. A line has the members of an exported one, so that it can be restored to any store. It has
   `archive`, too: the event's digest, the digest of its payload and its salt, as they are stored.
2. The payload is kept to the byte: as the `event`, or as `stored` where the event that is read is
   not all of it.
3. The lines of a conversation prove themselves: each digest follows from its line, and from the
   digest of the line before (see `eventstore.storage.chain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from eventstore.domain.codec import AS_STORED, decode
from eventstore.domain.events import Recorded, UnknownEvent
from eventstore.domain.fingerprint import PREFIX
from eventstore.storage.chain import conversation_digest, row_problem, stored_digest
from eventstore.storage.markers import Markers
from eventstore.storage.stored_row import StoredRow

_encode = msgspec.json.Encoder().encode


class StoredPart(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A payload as it is stored."""

    tag: str
    schema: int
    payload: str


class Proof(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """What the row of an event has besides the event itself; digests and salt are in hex.

    `begins` and `id_given` say that there were rows that find the event by its fingerprint, and by
    the id that its caller gave.
    """

    schema: int
    digest: str
    payload_digest: str
    salt: str | None = None
    begins: bool = False
    id_given: bool = False


class ArchiveLine(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True
):
    """One event of an archive."""

    conversation_id: str
    version: int
    lane: int
    position: int
    event_id: str
    recorded_at: int
    tag: str
    event: msgspec.Raw
    archive: Proof
    call_id: str | None = None
    fingerprint: str | None = None
    occurred_at: int | None = None
    stored: StoredPart | None = None

    @property
    def payload(self) -> bytes:
        """The payload, as it is stored."""
        return bytes(self.event) if self.stored is None else self.stored.payload.encode()

    @property
    def schema(self) -> int:
        """The schema of the payload."""
        return self.archive.schema

    def row(self, previous: bytes | None = None) -> StoredRow:
        """Return the row of the event, which follows the digest `previous`.

        Raises:
            ValueError: a digest, an id or a salt is not in hex.
        """
        proof, mark = self.archive, self.fingerprint
        return StoredRow(
            self.position,
            None,
            self.version,
            bytes.fromhex(self.event_id),
            self.recorded_at,
            self.occurred_at,
            self.tag.encode(),
            proof.schema,
            None if mark is None else bytes.fromhex(mark.removeprefix(PREFIX)),
            bytes.fromhex(proof.digest),
            self.payload,
            previous,
            self.version if proof.id_given else None,
            self.version if proof.begins else None,
            None if proof.salt is None else bytes.fromhex(proof.salt),
        )


def line_of(conversation_id: str, lane: int, row: Any) -> ArchiveLine:
    """Return the line of a sound row."""
    tag, payload = bytes(row.tag).decode(), bytes(row.payload)
    schema, mark, salt = row.schema, row.fingerprint, row.salt
    event, stored = event_of(row), None
    try:
        is_plain = type(AS_STORED[tag, schema](payload)) is not UnknownEvent
    except (KeyError, ValueError):
        is_plain = False
    shown = msgspec.Raw(payload)
    if not is_plain:
        stored = StoredPart(tag, schema, payload.decode())
        shown = msgspec.Raw(msgspec.json.encode(event))
    return ArchiveLine(
        conversation_id,
        row.version,
        lane,
        row.position,
        bytes(row.event_id).hex(),
        row.recorded_at,
        tag,
        shown,
        Proof(
            schema,
            bytes(row.digest).hex(),
            digest_of(row).hex(),
            None if salt is None else bytes(salt).hex(),
            row.begins is not None,
            row.id_given is not None,
        ),
        getattr(event, "call_id", None),
        None if mark is None else PREFIX + bytes(mark).hex(),
        row.occurred_at,
        stored,
    )


def event_of(row: Any) -> Any:
    """Return the event of a sound row."""
    return decode(bytes(row.tag).decode(), row.schema, bytes(row.payload))


def recorded_of(conversation_id: str, lane: int, row: Any) -> Recorded:
    """Return what a reader gets of a sound row."""
    event, mark = event_of(row), row.fingerprint
    return Recorded(
        lane,
        row.position,
        conversation_id,
        row.version,
        bytes(row.event_id).hex(),
        row.recorded_at,
        getattr(event, "call_id", None),
        None if mark is None else PREFIX + bytes(mark).hex(),
        event,
        row.occurred_at,
    )


def digest_of(row: Any) -> bytes:
    """Return the digest of a row's payload, which its marker keeps where it was redacted."""
    return stored_digest(row.payload, row.salt, row.fingerprint) or b""


def proven(tenant: str, lines: Iterable[ArchiveLine]) -> Iterator[ArchiveLine]:
    """Yield the lines of one conversation, each of which is proven to be as it was written.

    Markers of redactions are proven when the last line was read.

    Raises:
        ValueError: one is not; the error says what is wrong.
    """
    previous, markers = None, Markers()
    for version, line in enumerate(lines, 1):
        first = conversation_digest(tenant.encode(), line.conversation_id.encode())
        where = f"version {line.version} of conversation {line.conversation_id!r}"
        if line.version != version:
            raise ValueError(f"{where} follows version {version - 1}")
        row = line.row(previous)
        problem = _problem(line, row, first)
        if problem is not None:
            raise ValueError(f"{where}: {problem}")
        markers.take(row)
        previous = bytes.fromhex(line.archive.digest)
        yield line
    for _, redacted, wrong in markers.problems():
        raise ValueError(f"version {redacted}: {wrong}")


def _problem(line: ArchiveLine, row: StoredRow, first: bytes) -> str | None:
    """Return what is wrong with a line and its row; None for one that is as it was written."""
    problem = row_problem(row, first)
    if problem is not None:
        return problem
    if digest_of(row).hex() != line.archive.payload_digest:
        return "the payload does not match its digest"
    same = line_of(line.conversation_id, line.lane, row)
    return None if _encode(same) == _encode(line) else "the line is not as it was written"
