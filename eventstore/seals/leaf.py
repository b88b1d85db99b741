"""The leaf of an event: the entry by which it stands in the tree of its lane.

1. The entry is one line of JSON in ASCII without blanks, and without an end of line. Its members
   have this order: `leaf` (the number of this form), `position`, `tenant`, `conversation`,
   `version`, `event_id`, `recorded_at`, `occurred_at`, `tag`, `schema`, `fingerprint`, `payload`,
   `chain`. Numbers are decimal integers, bytes lower hexadecimal digits, times microseconds since
   1970 UTC. What an event does not have is null. In texts the characters outside of U+0020 to
   U+007E are escaped as Python's `json.dumps` does.
2. `payload` is the payload's digest as the chain has it, and never the payload: a redaction keeps
   it, and so the leaf. Its length is free: 16 bytes of BLAKE2b today, with or without a salt, and
   as many as a later form of it has. `chain` is the event's digest in the chain.
3. One entry is the leaf of one row alone: each value has one text, and each text is read as one
   value. `read_leaf` takes nothing that `leaf_of` does not write.
4. The event at position N is the leaf with the index N - 1. So a lane without gaps is the tree.
5. A row of which only the hash of its leaf was kept, because it was archived, counts by that hash.

Why not the chain's digest alone: it has 16 bytes, and the writer of the log may look for two rows
with equal digests beforehand, at a cost of 2**64. A seal is there against the writer. So SHA-256
takes every column anew, and a collision needs the digest of the payload alone to collide; it has
full strength as soon as that digest has 32 bytes. And a line can be read: a stranger sees what is
proven, recomputes the payload's digest, and may build the tree with another's program, which takes
entries line by line.
"""

from __future__ import annotations

import json

from eventstore.seals.errors import BadNote
from eventstore.seals.merkle import HASH_BYTES, leaf_hash
from eventstore.seals.sealable_log import ArchivedRow, SealedRow

_FORM = 1

_ENTRY = (
    f'{{"leaf":{_FORM},"position":%d,"tenant":%s,"conversation":%s,"version":%d,"event_id":"%s",'
    '"recorded_at":%d,"occurred_at":%s,"tag":%s,"schema":%d,"fingerprint":%s,"payload":"%s",'
    '"chain":"%s"}'
)


class Unsealable(ValueError):
    """A row that holds what no event can have, so that it has no leaf; the member is named."""

    def __init__(self, position: int, member: str) -> None:
        super().__init__(f"the event at position {position} has no valid {member}")
        self.position = position
        self.member = member


def hash_of(row: SealedRow | ArchivedRow) -> bytes:
    """Return the hash of a row's leaf.

    Raises:
        Unsealable: the row is damaged.
    """
    if isinstance(row, SealedRow):
        return leaf_hash(leaf_of(row))
    if not isinstance(row.hash, bytes) or len(row.hash) != HASH_BYTES:
        raise Unsealable(row.position, "hash of its leaf")
    return row.hash


def leaf_of(row: SealedRow) -> bytes:
    """Return the entry of a row.

    Raises:
        Unsealable: the row is damaged.
    """
    try:
        return (
            _ENTRY
            % (
                _number(row, "position"),
                _text(row, "tenant"),
                _text(row, "conversation"),
                _number(row, "version"),
                _hex(row, "event_id"),
                _number(row, "recorded_at"),
                "null" if row.occurred_at is None else _number(row, "occurred_at"),
                _text(row, "tag"),
                _number(row, "schema"),
                "null" if row.fingerprint is None else f'"{_hex(row, "fingerprint")}"',
                _hex(row, "payload"),
                _hex(row, "chain"),
            )
        ).encode("ascii")
    except _WrongTypeError as error:
        raise Unsealable(row.position, error.args[0]) from None


def read_leaf(entry: bytes) -> SealedRow:
    """Return the row that an entry is the leaf of.

    Raises:
        BadNote: it is the entry of no row.
    """
    row = None
    try:
        members = json.loads(entry)
        row = SealedRow(
            members["position"],
            members["tenant"],
            members["conversation"],
            members["version"],
            bytes.fromhex(members["event_id"]),
            members["recorded_at"],
            members["occurred_at"],
            members["tag"],
            members["schema"],
            None if members["fingerprint"] is None else bytes.fromhex(members["fingerprint"]),
            bytes.fromhex(members["payload"]),
            bytes.fromhex(members["chain"]),
        )
        is_whole = leaf_of(row) == entry
    except (KeyError, RecursionError, TypeError, ValueError):
        is_whole = False
    if row is None or not is_whole:
        raise BadNote(f"the leaf is no event's entry of form {_FORM}: take it as it was written")
    return row


class _WrongTypeError(Exception):
    """A member has a value that no event can have."""


def _number(row: SealedRow, member: str) -> int:
    value = getattr(row, member)
    if type(value) is not int:
        raise _WrongTypeError(member)
    return value


def _text(row: SealedRow, member: str) -> str:
    value = getattr(row, member)
    if type(value) is not str:
        raise _WrongTypeError(member)
    return json.dumps(value)


def _hex(row: SealedRow, member: str) -> str:
    value = getattr(row, member)
    if type(value) is not bytes or not value:
        raise _WrongTypeError(member)
    return value.hex()
