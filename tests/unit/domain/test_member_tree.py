"""The tree over the members of a payload: what is left of it proves to be a part of it."""

from __future__ import annotations

import copy
import json
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.domain.json_types import json_members
from eventstore.domain.member_tree import (
    MISSING,
    MOST_LEVELS,
    proof_again,
    proof_of,
    root_from,
    root_of,
    shown,
)

SALT = bytes(range(16))
GONE = "[redacted]"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=4)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
Places = list[tuple[Any, Any]]


def encoded(value: Any) -> bytes:
    """Return the JSON of a value."""
    return msgspec.json.encode(value)


def places(value: Any) -> Places:
    """Return each place in a value: its list or object, and its key."""
    found: Places = []
    if isinstance(value, dict | list):
        for key, inner in list(json_members(value)):
            found += [(value, key), *places(inner)]
    return found


def test_the_root_has_its_documented_form() -> None:
    """Another program can compute it; it never changes, or no old seal could be checked."""

    def salted(mark: bytes, *parts: bytes) -> bytes:
        return sha256(mark + b"".join(parts)).digest()

    own = salted(b"\10", SALT)[:16]
    first, second = (salted(b"\3", own, n.to_bytes(8))[:16] for n in (0, 1))
    items = [salted(b"\4", salted(b"\3", second, n.to_bytes(8))[:16], b"1") for n in (0, 1)]
    members = (
        b"\0\0\0\2" + "é".encode() + salted(b"\4", first, b'"\\u00e9"'),
        b"\0\0\0\1b" + salted(b"\5", *items),
    )
    payload = '{"é":"é","b":[1,1]}'.encode()
    assert root_of(payload, SALT) == salted(b"\6", *members)
    for other in (b"no JSON", b"[" * 300 + b"]" * 300, b'{"a":1e999}'):
        assert root_of(other, SALT) == salted(b"\7", own, other)


@given(VALUES, st.data())
def test_each_part_that_is_left_leads_to_the_root(value: Any, data: st.DataObject) -> None:
    """However often parts are taken away, and in whatever order."""
    payload = encoded({"payload": value})
    root = root_of(payload, SALT)
    before, proof = payload, proof_of(payload, SALT, payload)
    assert proof != SALT.hex()
    for _ in range(3):
        left = msgspec.json.decode(before)
        there = places(left)
        holder, key = data.draw(st.sampled_from(there))
        if isinstance(holder, dict) and data.draw(st.booleans()):
            del holder[key]
        else:
            holder[key] = GONE
        proof = proof_again(before, proof, encoded(left))
        before = encoded(left)
        proof = msgspec.json.decode(encoded(proof))  # as it is stored
        assert root_from(before, proof) == root
        assert all(value in (GONE, MISSING) for _, value in shown(before, proof))
        assert SALT.hex() not in json.dumps(proof)
        if not left:
            break
    assert proof_again(before, proof, None) == root.hex() == proof_of(payload, SALT, None)


@given(VALUES, st.data())
def test_a_changed_value_is_not_proven(value: Any, data: st.DataObject) -> None:
    """Another value under the same proof has another root; under its own one, it is not proven."""
    payload = encoded({"payload": value, "more": [1, GONE]})
    left = msgspec.json.decode(payload)
    holder, key = data.draw(st.sampled_from(places(left)))
    proof = proof_of(payload, SALT, encoded(left))
    changed = data.draw(
        VALUES.filter(lambda new: encoded(new) not in (encoded(holder[key]), encoded(GONE)))
    )
    holder[key] = changed
    forged = encoded(left)
    assert root_from(forged, proof) != root_of(payload, SALT)
    own = proof_of(payload, SALT, forged)
    assert root_from(forged, own) == root_of(payload, SALT)
    assert any(value not in (GONE, MISSING) for _, value in shown(forged, own))


@pytest.mark.parametrize(
    "proof",
    [1, None, "x" * 32, "0" * 31, "0" * 30 + "  ", " " * 64, "A" * 64, {"a": []}, {}, ["0" * 32]],
)
def test_a_proof_of_another_form_is_refused(proof: Any) -> None:
    """Nothing else than our error comes of it."""
    with pytest.raises(ValueError, match="proof"):
        root_from(b'{"a":1}', proof)


def test_deep_values_are_taken_as_one() -> None:
    """A payload that nests deeply takes no more stack than others."""
    deep: Any = "secret"
    for _ in range(MOST_LEVELS + 5):
        deep = {"a": deep}
    left = copy.deepcopy(deep)
    inner = left
    for _ in range(MOST_LEVELS + 4):
        inner = inner["a"]
    inner["a"] = GONE
    proof = proof_of(encoded(deep), SALT, encoded(left))
    assert root_from(encoded(left), proof) == root_of(encoded(deep), SALT)
    assert [path for path, _ in shown(encoded(left), proof)] == [("a",) * MOST_LEVELS]
