"""The digest chain: what an event's digest covers, and how a stored row is judged by it.

1. The digest of a payload is BLAKE2b over the row's salt, its fingerprint and the payload, 32 bytes
   long. Rows that were written before there were salts have none: there it is BLAKE2b over the
   payload alone, 16 bytes long.
2. The digest of a conversation is BLAKE2b over its tenant and its id.
3. The digest of an event is BLAKE2b over: the digest that it follows, the digest of its payload,
   its id, the fingerprint (without a salt), the times of recording and of occurrence, the version,
   the schema, the tag, and marks: whether it has a fingerprint and a salt, whether it begins its
   fingerprint in the conversation, and whether its caller gave the id. The first event follows the
   digest of the conversation, every other event the digest that is stored with the event before it.
4. The marks stand in no column. An event has them where the index of fingerprints, or the table of
   given ids, has a row for it. So a row that is missing there, or one too many, changes the digest
   that is expected of the event.
5. A row is sound if the digest computed from it equals the one stored with it. An altered
   event is named. After an event that was removed, replaced or inserted, the next one is named.
6. A redacted payload is a marker (see `eventstore.domain.redaction`) with the payload's digest,
   which stands for the payload: the chain stays whole without it. The salt is deleted with the
   payload, so that no guess at it can be confirmed; so is the fingerprint where the arguments are
   to be forgotten, of the rows that have a salt.
7. A payload that an archive holds is its digest alone (see `eventstore.domain.detached`). The salt
   and the fingerprint have gone with it, and the rows that find the event by its fingerprint, or by
   the id that its caller gave: whatever marks it had then are possible.
8. The digests of the first schema were those of the payloads alone. The digests of events and of
   conversations are personalized, so that none of one kind is ever one of another.

Why: a digest of the payload alone does not notice one flipped bit in a tag, by which a call that
runs seems never to have started. The chain resists damage, not an adversary: there is no secret in
it, and a writer with access to the database can compute it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from struct import Struct, error
from typing import TYPE_CHECKING

from eventstore.domain.detached import detached_digest
from eventstore.domain.redaction import SALT_BYTES, SALTED_DIGEST_BYTES, kept_digest
from eventstore.storage.stored_row import StoredRow

if TYPE_CHECKING:
    from eventstore.storage.interface import Draft

DIGEST_BYTES = 16

LACKS_ITS_ROW = "lacks its row"
"""What a problem says of a table that has no row for an event, and must have one."""

_BEGINS, _ID_GIVEN, _HAS_FINGERPRINT, _HAS_OCCURRED_AT, _HAS_SALT = 1, 2, 4, 8, 16

_of_payload = blake2b(digest_size=DIGEST_BYTES)
_of_salted = blake2b(digest_size=SALTED_DIGEST_BYTES, person=b"toolledger/salt")
_of_event = blake2b(digest_size=DIGEST_BYTES, person=b"toolledger/event")
_of_conversation = blake2b(digest_size=DIGEST_BYTES, person=b"toolledger/chat")
_of_store = blake2b(digest_size=DIGEST_BYTES, person=b"toolledger/store")
_of_tag = blake2b(digest_size=DIGEST_BYTES, person=b"toolledger/tag")

# One block of BLAKE2b takes all of it: the tag, of any length, comes last.
_pack = Struct(">16s16s16s16sqqIIB").pack
_pack_salted = Struct(">16s32s16sqqIIB").pack


def payload_digest(payload: bytes, salt: bytes = b"", fingerprint: bytes | None = None) -> bytes:
    """Return the digest of a payload, which is 32 bytes long with a salt, and 16 without one."""
    if not salt:
        hash_ = _of_payload.copy()  # faster than a new one
    else:
        hash_ = _of_salted.copy()
        hash_.update(salt if fingerprint is None else salt + fingerprint)
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


def tag_digest(lane: object, subject: bytes, conversation: object, version: object) -> bytes:
    """Return the digest of what is stored of a tag: that an event is about a subject."""
    hash_ = _of_tag.copy()
    hash_.update(f"{lane} {conversation} {version} ".encode() + subject)
    return hash_.digest()


def is_sound_tag(
    lane: object, subject: object, conversation: object, version: object, digest: object
) -> bool:
    """Return whether the stored row of a tag has its digest."""
    name = _bytes(subject)
    return name is not None and _bytes(digest) == tag_digest(lane, name, conversation, version)


def event_digest(previous: bytes, version: int, draft: Draft) -> bytes:
    """Return the digest of an event that is to be stored after `previous`."""
    mark, occurred_at, salt = draft.fingerprint, draft.occurred_at, draft.salt
    flags = 0 if mark is None else _HAS_FINGERPRINT
    if draft.begins:
        flags |= _BEGINS
    if draft.id_given:
        flags |= _ID_GIVEN
    if occurred_at is not None:
        flags |= _HAS_OCCURRED_AT
    hash_ = _of_event.copy()
    if salt:
        payload = _of_salted.copy()
        payload.update((salt if mark is None else salt + mark) + draft.payload)  # one call
        packed = _pack_salted(
            previous,
            payload.digest(),
            draft.event_id,
            draft.recorded_at,
            occurred_at or 0,
            version,
            draft.schema,
            flags | _HAS_SALT,
        )
    else:
        of_payload = kept_digest(draft.payload) or payload_digest(draft.payload)
        times = draft.recorded_at, occurred_at or 0
        if len(of_payload) == SALTED_DIGEST_BYTES:  # of a marker that is restored
            packed = _pack_salted(
                previous,
                of_payload,
                draft.event_id,
                *times,
                version,
                draft.schema,
                flags | _HAS_SALT,
            )
        else:
            packed = _pack(
                previous,
                of_payload,
                draft.event_id,
                mark or b"",
                *times,
                version,
                draft.schema,
                flags,
            )
    hash_.update(packed + draft.tag.encode())
    return hash_.digest()


def chained(previous: bytes, version: int, drafts: Sequence[Draft]) -> list[bytes]:
    """Return the digests of drafts that follow one another, after an event of `version`."""
    digests: list[bytes] = []
    for number, draft in enumerate(drafts, version + 1):
        previous = event_digest(previous, number, draft)
        digests.append(previous)
    return digests


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
            what = "has a row too many" if begins else LACKS_ITS_ROW
            return f"the index of fingerprints {what} for it"
        if stored in digests_of(row, previous, begins=begins, id_given=not id_given):
            what = "has a row too many" if id_given else LACKS_ITS_ROW
            return f"the table of given ids {what} for it"
    return "the event does not match its digest"


def digests_of(row: StoredRow, previous: bytes, *, begins: bool, id_given: bool) -> list[bytes]:
    """Return the digests that a row may have: none, where it holds what no event can be."""
    event_id, tag, payload = _bytes(row.event_id), _bytes(row.tag), _bytes(row.payload)
    mark, salt = _bytes(row.fingerprint), _bytes(row.salt)
    flags = _BEGINS * begins | _ID_GIVEN * id_given
    if event_id is None or tag is None or payload is None or len(event_id) != DIGEST_BYTES:
        return []
    if row.fingerprint is not None:
        if mark is None or len(mark) != DIGEST_BYTES:
            return []
        flags |= _HAS_FINGERPRINT
    if row.salt is not None and (salt is None or len(salt) != SALT_BYTES):
        return []
    if row.occurred_at is not None:
        flags |= _HAS_OCCURRED_AT
    found: list[bytes] = []
    archived = detached_digest(payload) if salt is None else None
    possible = (
        _payload_digests(payload, salt, mark, flags)
        if archived is None
        else _detached_digests(archived, mark, flags)
    )
    for of_payload, all_flags in possible:
        times = row.recorded_at, row.occurred_at or 0
        try:
            if len(of_payload) == SALTED_DIGEST_BYTES:
                packed = _pack_salted(
                    previous, of_payload, event_id, *times, row.version, row.schema, all_flags
                )
            else:
                packed = _pack(
                    previous,
                    of_payload,
                    event_id,
                    mark or b"",
                    *times,
                    row.version,
                    row.schema,
                    all_flags,
                )
        except error:  # a member is not a number, or out of its range
            return []
        hash_ = _of_event.copy()
        hash_.update(packed + tag)
        found.append(hash_.digest())
    return found


def _payload_digests(
    payload: bytes, salt: bytes | None, mark: bytes | None, flags: int
) -> Iterator[tuple[bytes, int]]:
    """Yield the digests that a payload may stand for, each with the marks of its event."""
    if salt is not None:
        yield payload_digest(payload, salt, mark), flags | _HAS_SALT
        return  # a redaction deletes the salt
    kept = kept_digest(payload)
    if kept is None:
        yield payload_digest(payload), flags
    elif len(kept) == DIGEST_BYTES:
        yield kept, flags
    else:
        yield kept, flags | _HAS_SALT
        if mark is None:  # it may have been forgotten, with its row in the index
            yield kept, flags | _HAS_SALT | _HAS_FINGERPRINT
            yield kept, flags | _HAS_SALT | _HAS_FINGERPRINT | _BEGINS


def _detached_digests(digest: bytes, mark: bytes | None, flags: int) -> Iterator[tuple[bytes, int]]:
    """Yield the digest of a payload that is in an archive, with the marks it may have had."""
    salted = _HAS_SALT if len(digest) == SALTED_DIGEST_BYTES else 0
    marked = (0,) if mark is not None or not salted else (0, _HAS_FINGERPRINT)
    for fingerprint in marked:
        for begins in (0, _BEGINS):
            for given in (0, _ID_GIVEN):
                yield digest, flags | salted | fingerprint | begins | given


def stored_digest(payload: object, salt: object, fingerprint: object) -> bytes | None:
    """Return the digest of a stored payload: of one that is not there, the digest that is kept.

    It is None where a column holds what no event can have.
    """
    data, mark, random = _bytes(payload), _bytes(fingerprint), _bytes(salt)
    if data is None or (mark is None) != (fingerprint is None):
        return None
    if salt is None:
        return kept_digest(data) or detached_digest(data) or payload_digest(data)
    return payload_digest(data, random, mark) if random else None


def unsalted(
    row: StoredRow, previous: bytes, *, begins: bool, id_given: bool
) -> tuple[bytes, str | None]:
    """Return the digest of a sound row without its salt, and its marker where that changes.

    `previous` is the digest that it then follows. A marker keeps half of the payload's digest.
    """
    payload = _bytes(row.payload) or b""
    kept, marker = kept_digest(payload), None
    if row.salt is None and kept is not None and len(kept) > DIGEST_BYTES:
        digits = kept.hex().encode()
        payload = payload.replace(digits, digits[: 2 * DIGEST_BYTES], 1)
        marker = payload.decode()
    plain = row._replace(payload=payload, salt=None)
    return digests_of(plain, previous, begins=begins, id_given=id_given)[0], marker


def _bytes(value: object) -> bytes | None:
    """Return what a driver gave for bytes; None for anything else."""
    return bytes(value) if isinstance(value, bytes | bytearray) else None
