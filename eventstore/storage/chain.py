"""The digest chain: what an event's digest covers, and how a stored row is judged by it.

1. The digest of a payload is BLAKE2b over its bytes, 16 bytes long.
2. The digest of a conversation is BLAKE2b over its tenant and its id.
3. The digest of an event is BLAKE2b over: the digest that it follows, the digest of its payload,
   its id, the fingerprint, the times of recording and of occurrence, the version, the schema, the
   tag, and two marks: whether it begins its fingerprint in the conversation, and whether its
   caller gave the id. The first event follows the digest of the conversation, every other event
   the digest that is stored with the event before it.
4. The marks stand in no column. An event has them where the index of fingerprints, or the table of
   given ids, has a row for it. So a row that is missing there, or one too many, changes the digest
   that is expected of the event.
5. A row is sound if the digest computed from it equals the one stored with it. An altered
   event is named. After an event that was removed, replaced or inserted, the next one is named.
6. A redacted payload is a JSON object that begins with `REDACTED_PREFIX` and the payload's digest
   in hex. That digest stands for the payload's: the chain stays whole without the payload. Members
   that the event's form requires (a call's id, a role) stay beside it, so that it can be read.
7. The digests of the first schema were those of the payloads alone. The digests of events and of
   conversations are personalized, so that none of one kind is ever one of another.

Why: a digest of the payload alone does not notice one flipped bit in a tag, by which a call that
runs seems never to have started. The chain resists damage, not an adversary: there is no secret in
it, and a writer with access to the database can compute it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from struct import Struct, error
from typing import TYPE_CHECKING, NamedTuple

from eventstore.domain.events import REDACTED_PREFIX

if TYPE_CHECKING:
    from eventstore.storage.interface import Draft

DIGEST_BYTES = 16

_REDACTED_PREFIX = REDACTED_PREFIX.encode()

_BEGINS, _ID_GIVEN, _HAS_FINGERPRINT, _HAS_OCCURRED_AT = 1, 2, 4, 8

_of_payload = blake2b(digest_size=DIGEST_BYTES)
_of_event = blake2b(digest_size=DIGEST_BYTES, person=b"toolledger/event")
_of_conversation = blake2b(digest_size=DIGEST_BYTES, person=b"toolledger/chat")
_of_store = blake2b(digest_size=DIGEST_BYTES, person=b"toolledger/store")

# One block of BLAKE2b takes all of it: the tag, of any length, comes last.
_pack = Struct(">16s16s16s16sqqIIB").pack


def payload_digest(payload: bytes) -> bytes:
    """Return the digest of a payload."""
    hash_ = _of_payload.copy()  # faster than a new one
    hash_.update(payload)
    return hash_.digest()


def conversation_digest(tenant: bytes, conversation_id: bytes) -> bytes:
    """Return the digest that the first event of a conversation follows; ids are UTF-8."""
    hash_ = _of_conversation.copy()
    hash_.update(len(tenant).to_bytes(4) + tenant + conversation_id)
    return hash_.digest()


def store_digest(epoch: bytes, lanes: object, created_at: object) -> bytes:
    """Return the digest of what is stored of the store as a whole."""
    hash_ = _of_store.copy()
    hash_.update(f"{lanes} {created_at} ".encode() + epoch)
    return hash_.digest()


def is_sound_store(epoch: object, lanes: object, created_at: object, digest: object) -> bool:
    """Return whether the stored row of the store as a whole has its digest."""
    name = _bytes(epoch)
    return name is not None and _bytes(digest) == store_digest(name, lanes, created_at)


def event_digest(previous: bytes, version: int, draft: Draft) -> bytes:
    """Return the digest of an event that is to be stored after `previous`."""
    mark, occurred_at = draft.fingerprint, draft.occurred_at
    flags = 0 if mark is None else _HAS_FINGERPRINT
    if draft.begins:
        flags |= _BEGINS
    if draft.id_given:
        flags |= _ID_GIVEN
    if occurred_at is not None:
        flags |= _HAS_OCCURRED_AT
    payload = _of_payload.copy()
    payload.update(draft.payload)
    hash_ = _of_event.copy()
    hash_.update(
        _pack(
            previous,
            payload.digest(),
            draft.event_id,
            mark or b"",
            draft.recorded_at,
            occurred_at or 0,
            version,
            draft.schema,
            flags,
        )
        + draft.tag.encode()
    )
    return hash_.digest()


def chained(previous: bytes, version: int, drafts: Sequence[Draft]) -> list[bytes]:
    """Return the digests of drafts that follow one another, after an event of `version`."""
    digests: list[bytes] = []
    for number, draft in enumerate(drafts, version + 1):
        previous = event_digest(previous, number, draft)
        digests.append(previous)
    return digests


class StoredRow(NamedTuple):
    """An event as it is stored: whatever a damaged row may hold, so of any type."""

    position: int
    conversation: object
    version: object
    event_id: object
    recorded_at: object
    occurred_at: object
    tag: object
    schema: object
    fingerprint: object
    digest: object
    payload: object
    previous: object
    """The digest stored with the event before it."""
    id_given: object
    """Its version in the table of given ids, None where that has no row for it."""
    begins: object
    """Its version in the index of fingerprints, None where that has no row for it."""


def problems(rows: Iterable[StoredRow], firsts: Mapping[object, bytes]) -> dict[int, str]:
    """Return what is wrong with the rows of a lane, by position.

    `firsts` are the digests of the conversations that begin among them.
    """
    found = ((row, row_problem(row, firsts.get(row.conversation))) for row in rows)
    return {row.position: problem for row, problem in found if problem is not None}


def row_problem(row: StoredRow, first: bytes | None) -> str | None:
    """Return what is wrong with a stored event; None for a sound one.

    `first` is the digest of its conversation, None where the conversation is not listed.
    """
    version, stored = row.version, _bytes(row.digest)
    previous = first if version == 1 else _bytes(row.previous)
    if previous is None:
        return "the event before it is missing" if version != 1 else "its conversation is missing"
    begins, id_given = row.begins is not None, row.id_given is not None
    computed = digests_of(row, previous, begins=begins, id_given=id_given)
    if stored is not None and stored in computed:
        return None
    if stored is not None:
        if stored in digests_of(row, previous, begins=not begins, id_given=id_given):
            what = "has a row too many" if begins else "lacks its row"
            return f"the index of fingerprints {what} for it"
        if stored in digests_of(row, previous, begins=begins, id_given=not id_given):
            what = "has a row too many" if id_given else "lacks its row"
            return f"the table of given ids {what} for it"
    return "the event does not match its digest"


def digests_of(row: StoredRow, previous: bytes, *, begins: bool, id_given: bool) -> list[bytes]:
    """Return the digests that a row may have: none, where it holds what no event can be."""
    event_id, tag, payload = _bytes(row.event_id), _bytes(row.tag), _bytes(row.payload)
    mark = None if row.fingerprint is None else _bytes(row.fingerprint)
    flags = _BEGINS * begins | _ID_GIVEN * id_given
    if event_id is None or tag is None or payload is None or len(event_id) != DIGEST_BYTES:
        return []
    if row.fingerprint is not None:
        if mark is None or len(mark) != DIGEST_BYTES:
            return []
        flags |= _HAS_FINGERPRINT
    if row.occurred_at is not None:
        flags |= _HAS_OCCURRED_AT
    found: list[bytes] = []
    for of_payload in _payload_digests(payload):
        try:
            packed = _pack(
                previous,
                of_payload,
                event_id,
                mark or b"",
                row.recorded_at,
                row.occurred_at or 0,
                row.version,
                row.schema,
                flags,
            )
        except error:  # a member is not a number, or out of its range
            return []
        hash_ = _of_event.copy()
        hash_.update(packed + tag)
        found.append(hash_.digest())
    return found


def is_redacted(payload: bytes | bytearray) -> bool:
    """Return whether a payload is the marker of a redacted one."""
    return payload.startswith(_REDACTED_PREFIX)


def _payload_digests(payload: bytes) -> list[bytes]:
    """Return the digest of a payload, and the one that it keeps of a redacted payload."""
    digests = [payload_digest(payload)]
    if is_redacted(payload):
        kept = payload[len(_REDACTED_PREFIX) :][: 2 * DIGEST_BYTES]
        try:
            digest = bytes.fromhex(kept.decode())
        except ValueError:
            return digests
        if len(digest) == DIGEST_BYTES:
            digests.append(digest)
    return digests


def _bytes(value: object) -> bytes | None:
    """Return what a driver gave for bytes; None for anything else."""
    return bytes(value) if isinstance(value, bytes | bytearray) else None
