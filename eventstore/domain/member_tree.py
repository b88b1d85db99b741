"""The tree over the members of a payload: what is left of a payload proves to be a part of it.

1. The digest of a text, a number, a truth value, null, an empty list or an empty object is SHA-256
   over 0x04, its salt, and its JSON in ASCII without blanks, as `json.dumps` writes it.
2. The digest of a list is SHA-256 over 0x05 and the digests of its items. That of an object is
   SHA-256 over 0x06 and, for each member, the length of its name in UTF-8 (4 bytes, the greatest
   first), its name, and the digest of its value. The order is that of the payload.
3. The salt of the payload is the first 16 bytes of SHA-256 over 0x08 and the salt of its row, which
   so stands in no proof. That of item or member number N is the first 16 bytes of SHA-256 over
   0x03, the salt of the list or object, and N in 8 bytes.
4. What lies deeper than `MOST_LEVELS` is taken as one value (rule 1).
5. A proof has the form of the payload. In the place of a value that is whole stands its salt (32
   hex digits), in that of one that is gone, or of which a part is gone, its digest (64). An object
   or a list of which some members are whole is an object or a list of proofs.
6. A payload that is no JSON, or that nests deeper than `MOST_NESTED`, is one value: its digest is
   SHA-256 over 0x07, its salt and its bytes.
7. So the root is computed from what is left and its proof, and no guess at what is gone can be
   confirmed. Where a digest stands for a value, what is shown in its place is not proven.

A root is not stored with a payload, and costs an append nothing: a seal computes it, and its leaf
holds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from eventstore.domain.json_types import is_json_list, is_json_object, json_members
from eventstore.domain.nesting import MAX_LEVELS, nests_too_deeply

MOST_NESTED = MAX_LEVELS + 56
"""How deep the JSON of a payload may nest, which holds values of `MAX_LEVELS`."""

MOST_LEVELS = 32
"""How many lists and objects stand in one another in the tree."""

MISSING: Any = object()
"""What is left of a value that is not there any more."""

_SALT, _DIGEST = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")

_text = json.JSONEncoder(separators=(",", ":")).encode


def root_of(payload: bytes, salt: bytes) -> bytes:
    """Return the root over a payload."""
    own = _own_salt(salt)
    try:
        if not nests_too_deeply(payload, MOST_NESTED):
            return _digest(msgspec.json.decode(payload), own, MOST_LEVELS)
    except ValueError:  # the errors of msgspec are ValueErrors
        pass
    return sha256(b"\x07" + own + payload).digest()


def _own_salt(salt: bytes) -> bytes:
    return sha256(b"\x08" + salt).digest()[:16]


def proof_of(payload: bytes, salt: bytes, left: bytes | None) -> Any:
    """Return the proof for what is left of a payload; None is left of one that is gone."""
    root = root_of(payload, salt).hex()
    if left is None:
        return root
    try:
        proof = proof_again(payload, _own_salt(salt).hex(), left)
    except ValueError:  # it is no JSON
        return root
    return proof if root_from(left, proof).hex() == root else root


def proof_again(before: bytes | None, proof: Any, left: bytes | None) -> Any:
    """Return the proof for what is left of what was left before, with its proof.

    Raises:
        ValueError: the proof is not one of what was left before.
    """
    return _proof(_value(before), proof, _value(left), MOST_LEVELS)


def opened(payload: bytes, proof: Any) -> Any:
    """Return the proof in which a salt of the whole object is replaced by those of its members."""
    value = _value(payload) if is_salt(proof) else None
    if not is_json_object(value) or not value:
        return proof
    salts = _salts(bytes.fromhex(proof), value)
    return {name: each.hex() for name, each in zip(value, salts, strict=True)}


def root_from(left: bytes | None, proof: Any) -> bytes:
    """Return the root by what is left of a payload, and its proof.

    Raises:
        ValueError: the proof has not the form of what is left.
    """
    return _root(_value(left), proof, MOST_LEVELS)


Path = tuple[str | int, ...]
"""Names and places that lead to a value."""


def shown(left: bytes, proof: Any) -> list[tuple[Path, Any]]:
    """Return what is shown in the place of something else, with its path.

    It is what is left of a text around a part that is gone, and the like; `MISSING` where nothing
    is shown.
    """
    return list(_shown(_value(left), proof, ()))


def _value(json: bytes | None) -> Any:
    return MISSING if json is None else msgspec.json.decode(json)


def _digest(value: Any, salt: bytes, levels: int) -> bytes:
    if not levels or not value or not (is_json_object(value) or is_json_list(value)):
        return sha256(b"\x04" + salt + _text(value).encode()).digest()
    members = zip(json_members(value), _salts(salt, value), strict=True)
    digests = ((key, _digest(inner, each, levels - 1)) for (key, inner), each in members)
    return _of_object(digests) if is_json_object(value) else _of_list(each for _, each in digests)


def _salts(salt: bytes, value: Any) -> Iterator[bytes]:
    for number in range(len(value)):
        yield sha256(b"\x03" + salt + number.to_bytes(8)).digest()[:16]


def _of_list(digests: Iterable[bytes]) -> bytes:
    return sha256(b"\x05" + b"".join(digests)).digest()


def _of_object(members: Iterable[tuple[str, bytes]]) -> bytes:
    hash_ = sha256(b"\x06")
    for name, digest in members:
        encoded = name.encode()
        hash_.update(len(encoded).to_bytes(4) + encoded + digest)
    return hash_.digest()


def _proof(before: Any, proof: Any, left: Any, levels: int) -> Any:
    """Return the proof for `left`, which is what remains of `before` with its proof."""
    if isinstance(proof, str):
        if not is_salt(proof) or (left is not MISSING and _same(before, left)):
            return proof
        salt = bytes.fromhex(proof)
        if not (levels and before and _has_form_of(before, left)):
            return _digest(before, salt, levels).hex()
        salts = [each.hex() for each in _salts(salt, before)]
        proof = dict(zip(before, salts, strict=True)) if is_json_object(before) else salts
    elif not _has_form_of(before, left):
        return _root(before, proof, levels).hex()
    if is_json_list(proof):
        return [_proof(*each, levels - 1) for each in zip(before, proof, left, strict=True)]
    return {
        name: _proof(before.get(name, MISSING), inner, left.get(name, MISSING), levels - 1)
        for name, inner in json_members(proof)
    }


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and msgspec.json.encode(one) == msgspec.json.encode(other)


def _has_form_of(before: Any, left: Any) -> bool:
    """Return whether items and members that are left have their places, or names, of before."""
    if is_json_list(before):
        return is_json_list(left) and len(left) == len(before)
    return is_json_object(before) and is_json_object(left) and left.keys() <= before.keys()


def _root(left: Any, proof: Any, levels: int) -> bytes:
    if isinstance(proof, str):
        if _DIGEST.fullmatch(proof):
            return bytes.fromhex(proof)
        if is_salt(proof) and left is not MISSING:
            return _digest(left, bytes.fromhex(proof), levels)
    elif levels and is_json_list(proof) and is_json_list(left):
        return _of_list(_root(*each, levels - 1) for each in zip(left, proof, strict=True))
    elif levels and is_json_object(proof) and is_json_object(left) and left.keys() <= proof.keys():
        return _of_object(
            (name, _root(left.get(name, MISSING), inner, levels - 1))
            for name, inner in proof.items()
        )
    raise ValueError("the proof has not the form of what is left")


def _shown(left: Any, proof: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if is_json_list(left) and is_json_list(proof):
        for place, (item, inner) in enumerate(zip(left, proof, strict=True)):
            yield from _shown(item, inner, (*path, place))
    elif is_json_object(left) and is_json_object(proof):
        for name, inner in proof.items():
            yield from _shown(left.get(name, MISSING), inner, (*path, name))
    elif not is_salt(proof):
        yield path, left


def is_salt(proof: object) -> bool:
    """Return whether a part of a proof is a salt, so that the value there is whole."""
    return isinstance(proof, str) and _SALT.fullmatch(proof) is not None
