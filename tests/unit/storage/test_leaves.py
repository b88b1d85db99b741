"""The entry of an event in the tree: one line, one form, and nothing of the payload."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.storage.leaves import (
    ArchivedRow,
    SealedRow,
    Unsealable,
    hash_of,
    leaf_hash,
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
    chain=b"\x02" * 16,
)
LEAF = (
    b'{"leaf":1,"position":7,"tenant":"","conversation":"one \\"\\u00e9\\" \\ud83d\\ude42\\n",'
    b'"version":2,"event_id":"00000000000000000000000000000000","recorded_at":1700000000000000,'
    b'"occurred_at":null,"tag":"message","schema":1,"fingerprint":null,'
    b'"payload":"01010101010101010101010101010101","chain":"02020202020202020202020202020202"}'
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
    HASHES,
)


def test_the_entry_has_its_documented_form() -> None:
    """A line of JSON that any program reads; it never changes, or no old seal could be checked."""
    assert leaf_of(ROW) == LEAF
    assert json.loads(LEAF)["conversation"] == ROW.conversation
    # (printf '\\0'; printf '%s' "$leaf") | sha256sum
    assert hash_of(ROW).hex() == "9e2d20f787e500355b073f570becadfbe10f61ca7f8302f030e3a2012a0f3acc"


def test_an_archived_row_counts_by_the_hash_that_was_kept() -> None:
    """Anything else than 32 bytes is damage."""
    assert hash_of(ArchivedRow(7, leaf_hash(LEAF))) == hash_of(ROW)
    for hash_ in (None, b"", "x" * 32, bytes(31)):
        with pytest.raises(Unsealable, match="position 7 has no valid hash of its leaf"):
            hash_of(ArchivedRow(7, hash_))


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
    }
    for member in SealedRow._fields:
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
