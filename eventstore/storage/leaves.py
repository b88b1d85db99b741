"""The leaf of an event: the entry by which it stands in the sealed tree of its lane.

1. The entry is one line of JSON in ASCII without blanks, and without an end of line. Its members
   have this order: `leaf` (the number of this form), `position`, `tenant`, `conversation`,
   `version`, `event_id`, `recorded_at`, `occurred_at`, `tag`, `schema`, `fingerprint`, `payload`,
   `members`, `chain`. Numbers are decimal integers, bytes lower hexadecimal digits, times
   microseconds since 1970 UTC. What an event does not have is null. In texts the characters outside
   of U+0020 to U+007E are escaped as Python's `json.dumps` does.
2. `payload` is the payload's digest as the chain has it, and never the payload: a redaction keeps
   it, and so the leaf. It has 32 bytes where the row was written with a salt, and 16 otherwise.
   One of 32 bytes covers the fingerprint, which is null in the entry then: a redaction may delete
   it, and it would let a guess at the arguments be confirmed. `members` is the root over the
   members of the payload, by which what a redaction has left proves to be a part of it (see
   `eventstore.domain.member_tree`); without a salt it is null. `chain` is the event's digest in the
   chain.
3. One entry is the leaf of one row alone: each value has one text, and each text is read as one
   value. `read_leaf` takes nothing that `leaf_of` does not write.
4. The hash of a leaf is that of RFC 6962: SHA-256 over 0x00 and the entry. The event at position N
   is the leaf with the index N - 1. So a lane without gaps is the tree.

Why not the chain's digest alone: it has 16 bytes, and the writer of the log may look for two rows
with equal digests beforehand, at a cost of 2**64. A seal is there against the writer. So SHA-256
takes every column anew, and a collision needs the digest of the payload alone to collide, which has
full strength at 32 bytes. And a line can be read: a stranger sees what is proven, recomputes the
payload's digest, and may build the tree with another's program, which takes entries line by line.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import product
from typing import NamedTuple, cast

from eventstore.domain.redaction import SALTED_DIGEST_BYTES

HASH_BYTES = 32

_FORM = 1


class SealedRow(NamedTuple):
    """An event as it is stored; a damaged row may hold a value of any type."""

    position: int
    tenant: object
    conversation: object
    version: object
    event_id: object
    recorded_at: object
    occurred_at: object
    tag: object
    schema: object
    fingerprint: object
    """None where the digest of the payload covers it."""
    payload: object
    """The digest of the payload; of a redacted one, that which its marker keeps."""
    members: object
    """The root over the members of the payload; None without a salt."""
    chain: object
    """Its digest in the chain."""
    unproven: tuple[str, ...] = ()
    """The paths of what a redaction has left, and what no root proves. No part of the leaf."""


_TYPES = (int, str, str, int, bytes, int, int, str, int, bytes, bytes, bytes, bytes)
_OPTIONAL = ("occurred_at", "fingerprint", "members")
_ALLOWED = [
    (type_, type(None)) if member in _OPTIONAL else (type_,)
    for member, type_ in zip(SealedRow._fields[:-1], _TYPES, strict=True)
]
_SOUND = frozenset(product(*_ALLOWED))
"""The types of the members of rows that have a leaf; looked up as a whole, which is fast."""

_SoundRow = tuple[
    int, str, str, int, bytes, int, int | None, str, int, bytes | None, bytes, bytes | None, bytes
]

_text = json.JSONEncoder().encode
_of_leaf = sha256(b"\0")


class Unsealable(ValueError):
    """A row that holds what no event can have, so that it has no leaf; the member is named."""

    def __init__(self, position: int, member: str) -> None:
        super().__init__(f"the event at position {position} has no valid {member}")
        self.position = position
        self.member = member


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of the leaf with this entry."""
    hash_ = _of_leaf.copy()
    hash_.update(entry)
    return hash_.digest()


def hash_of(row: SealedRow) -> bytes:
    """Return the hash of a row's leaf.

    Raises:
        Unsealable: the row is damaged.
    """
    return leaf_hash(leaf_of(row))


def leaf_of(row: SealedRow) -> bytes:
    """Return the entry of a row.

    Raises:
        Unsealable: the row is damaged.
    """
    types = tuple(map(type, row[:-1]))
    if types not in _SOUND:
        wrong = (n for n, type_ in enumerate(types) if type_ not in _ALLOWED[n])
        raise Unsealable(row.position, row._fields[next(wrong)])
    sound = cast("_SoundRow", row[:-1])
    position, tenant, conversation, version, event_id, recorded_at, occurred_at, *_ = sound
    tag, schema, fingerprint, payload, members, chain = sound[7:]
    if fingerprint is not None and len(payload) == SALTED_DIGEST_BYTES:
        raise Unsealable(position, "fingerprint")
    return (
        f'{{"leaf":{_FORM},"position":{position},"tenant":{_text(tenant)},'
        f'"conversation":{_text(conversation)},"version":{version},"event_id":"{event_id.hex()}",'
        f'"recorded_at":{recorded_at},'
        f'"occurred_at":{"null" if occurred_at is None else occurred_at},'
        f'"tag":{_text(tag)},"schema":{schema},'
        f'"fingerprint":{"null" if fingerprint is None else _text(fingerprint.hex())},'
        f'"payload":"{payload.hex()}",'
        f'"members":{"null" if members is None else _text(members.hex())},'
        f'"chain":"{chain.hex()}"}}'
    ).encode("ascii")


def read_leaf(entry: bytes) -> SealedRow | None:
    """Return the row that an entry is the leaf of; None for what is the entry of no row."""
    try:
        read = json.loads(entry)
        row = SealedRow(
            read["position"],
            read["tenant"],
            read["conversation"],
            read["version"],
            bytes.fromhex(read["event_id"]),
            read["recorded_at"],
            read["occurred_at"],
            read["tag"],
            read["schema"],
            None if read["fingerprint"] is None else bytes.fromhex(read["fingerprint"]),
            bytes.fromhex(read["payload"]),
            None if read["members"] is None else bytes.fromhex(read["members"]),
            bytes.fromhex(read["chain"]),
        )
        return row if leaf_of(row) == entry else None
    except (KeyError, RecursionError, TypeError, ValueError):
        return None
