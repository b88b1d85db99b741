"""The entry of an event in the tree: one line, one form, and nothing of the payload."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.storage.leaves import (
    SealedRow,
    Unsealable,
    hash_of,
    leaf_of,
    read_leaf,
)

ROW = SealedRow(
    position=7,
    tenant="",
    conversation='one "é" 🙂\n',
    version=2,
    event_id=bytes(16),
    recorded_at=1_700_000_000_000_000,
    occurred_at=None,
    tag="message",
    schema=1,
    fingerprint=None,
    payload=b"\x01" * 16,
    members=None,
    chain=b"\x02" * 16,
)
LEAF = (
    b'{"leaf":1,"position":7,"tenant":"","conversation":"one \\"\\u00e9\\" \\ud83d\\ude42\\n",'
    b'"version":2,"event_id":"00000000000000000000000000000000","recorded_at":1700000000000000,'
    b'"occurred_at":null,"tag":"message","schema":1,"fingerprint":null,'
    b'"payload":"01010101010101010101010101010101","members":null,'
    b'"chain":"02020202020202020202020202020202"}'
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
HASHES = st.binary(min_size=1, max_size=31)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
ROWS = st.builds(
    SealedRow,
    NUMBERS,
    TEXTS,
    TEXTS,
    NUMBERS,
    HASHES,
    NUMBERS,
    st.none() | NUMBERS,
    TEXTS,
    NUMBERS,
    st.none() | HASHES,
    HASHES,
    st.none() | HASHES,
    HASHES,
    st.just(()),
)


def test_the_entry_has_its_documented_form() -> None:
    """A line of JSON that any program reads; it never changes, or no old seal could be checked."""
    assert leaf_of(ROW) == LEAF
    assert json.loads(LEAF)["conversation"] == ROW.conversation
    # (printf '\\0'; printf '%s' "$leaf") | sha256sum
    assert hash_of(ROW).hex() == "acff590c403a5466b959b5ff61c9891f035e703efc788f67efba1c3ab32fbb5e"


def test_a_digest_with_a_salt_stands_for_the_fingerprint() -> None:
    """A redaction may delete it, and the leaf stays."""
    salted = ROW._replace(payload=b"\x01" * 32)
    assert b'"fingerprint":null' in leaf_of(salted)
    with pytest.raises(Unsealable, match="no valid fingerprint"):
        leaf_of(salted._replace(fingerprint=bytes(16)))


@given(ROWS, ROWS)
def test_two_rows_have_two_entries(one: SealedRow, other: SealedRow) -> None:
    """An entry is read as the row that it was made of, and stands on one line."""
    assert read_leaf(leaf_of(one)) == one
    assert b"\n" not in leaf_of(one)
    assert (leaf_of(one) == leaf_of(other)) is (one == other)


def test_a_damaged_row_has_no_leaf() -> None:
    """A value of another type is named, so no two values of different types have one entry."""
    allowed = {
        "occurred_at": (int, type(None)),
        "fingerprint": (bytes, type(None)),
        "members": (bytes, type(None)),
    }
    for member in SealedRow._fields[:-1]:
        types = allowed.get(member, (type(getattr(ROW, member)),))
        for value in ("text", 1.5, True, b"x", bytearray(b"x"), 3, None):
            if type(value) not in types:
                with pytest.raises(Unsealable, match=f"no valid {member}"):
                    leaf_of(ROW._replace(**{member: value}))


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"[]",
        b"{}",
        LEAF + b"\n",
        b" " + LEAF,
        LEAF.replace(b'"leaf":1', b'"leaf":2'),
        LEAF.replace(b"\\u00e9", b"\\u00E9"),
        LEAF.replace(b"\\u00e9", "é".encode()),
        LEAF.replace(b":7,", b":07,"),
        LEAF.replace(b":7,", b":7.0,"),
        LEAF.replace(b'"0202', b'" 0202'),
        LEAF.replace(b'"tag":"message"', b'"tag":"x","tag":"message"'),
        b"[" * 100_000,
    ],
)
def test_an_entry_of_another_form_is_refused(entry: bytes) -> None:
    """Otherwise one event could be shown as another."""
    assert read_leaf(entry) is None
