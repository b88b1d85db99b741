"""The digest chain: what a digest covers, and what is said of a row that does not match it."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.domain.redaction import REDACTED_PREFIX
from eventstore.storage.chain import (
    chained,
    conversation_digest,
    event_digest,
    is_sound_store,
    payload_digest,
    problems,
    row_problem,
    store_digest,
)
from eventstore.storage.interface import Draft
from eventstore.storage.stored_row import StoredRow

FIRST = conversation_digest(b"acme", b"chat")
DRAFTS = [
    Draft(bytes([n]) * 16, 1_000 + n, "pending", 1, b'{"n":%d}' % n, b"f" * 16, n == 0, n == 1, at)
    for n, at in enumerate((None, 5, None))
]
DIGESTS = chained(FIRST, 0, DRAFTS)


def row(number: int, **changes: Any) -> StoredRow:
    """Return an event as it is stored, with some columns changed."""
    draft = DRAFTS[number]
    stored = StoredRow(
        position=number + 7,
        conversation=7,
        version=number + 1,
        event_id=draft.event_id,
        recorded_at=draft.recorded_at,
        occurred_at=draft.occurred_at,
        tag=draft.tag.encode(),
        schema=draft.schema,
        fingerprint=draft.fingerprint,
        digest=DIGESTS[number],
        payload=draft.payload,
        previous=DIGESTS[number - 1] if number else None,
        id_given=number + 1 if draft.id_given else None,
        begins=number + 1 if draft.begins else None,
    )
    return stored._replace(**changes)


def test_rows_as_they_were_written_are_sound() -> None:
    """Each after the one before it, whichever columns it has."""
    rows = [row(number) for number in range(3)]
    assert problems(rows, {7: FIRST}) == {}


def test_a_digest_is_that_of_the_event_before_and_its_own_row() -> None:
    """The digests of several events are those of each by itself."""
    assert event_digest(DIGESTS[1], 3, DRAFTS[2]) == DIGESTS[2]
    assert len({FIRST, *DIGESTS}) == 4
    assert {len(digest) for digest in DIGESTS} == {16}


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 3},
        {"event_id": b"\x03" + b"\x01" * 15},
        {"event_id": b"\x01" * 15},
        {"recorded_at": 0},
        {"occurred_at": None},
        {"occurred_at": 4},
        {"tag": b"pendinf"},
        {"tag": None},
        {"schema": 0},
        {"schema": "1"},
        {"schema": 2**40},
        {"fingerprint": None},
        {"fingerprint": b"g" + b"f" * 15},
        {"fingerprint": b"short"},
        {"payload": b'{"n":2}'},
        {"payload": 7},
        {"digest": DIGESTS[0]},
        {"digest": None},
        {"digest": "text"},
        {"previous": FIRST},
    ],
)
def test_a_change_of_any_column_is_noticed(changes: dict[str, Any]) -> None:
    """A value that no event can have is noticed, too, and nothing is raised."""
    assert row_problem(row(1, **changes), None) == "the event does not match its digest"


def test_a_change_of_the_conversation_is_noticed() -> None:
    """Its first event follows the digest of its tenant and its id."""
    assert row_problem(row(0), FIRST) is None
    for tenant, name in ((b"acme", b"chau"), (b"acmf", b"chat"), (b"acmec", b"hat")):
        assert row_problem(row(0), conversation_digest(tenant, name)) is not None
    assert row_problem(row(0), None) == "its conversation is missing"


def test_a_missing_event_is_noticed_at_the_next() -> None:
    """The next event is named, whether or not its version was made to fit."""
    assert row_problem(row(2, previous=None), None) == "the event before it is missing"
    assert row_problem(row(2, version=2, previous=DIGESTS[0]), None) is not None


def test_rows_that_indexes_lack_or_have_too_many_are_named() -> None:
    """The two marks stand in no column."""
    index = "the index of fingerprints"
    ids = "the table of given ids"
    assert row_problem(row(0, begins=None), FIRST) == f"{index} lacks its row for it"
    assert row_problem(row(1, begins=2), None) == f"{index} has a row too many for it"
    assert row_problem(row(1, id_given=None), None) == f"{ids} lacks its row for it"
    assert row_problem(row(0, id_given=1), FIRST) == f"{ids} has a row too many for it"


def test_a_redacted_payload_leaves_the_chain_whole() -> None:
    """The digest that it keeps stands for that of the payload, and no other does."""
    kept = payload_digest(DRAFTS[1].payload).hex().encode()
    prefix = REDACTED_PREFIX.encode()
    redacted = prefix + kept + b'","by":"mia"}'
    assert row_problem(row(1, payload=redacted), None) is None
    for payload in (redacted.replace(kept, kept[::-1]), prefix, prefix + b"\xff"):
        assert row_problem(row(1, payload=payload), None) is not None


def test_an_old_digest_is_never_a_chained_one() -> None:
    """Digests of the first schema were those of the payload alone."""
    old = payload_digest(DRAFTS[1].payload)
    assert row_problem(row(1, digest=old), None) is not None


def test_the_row_of_the_store_has_a_digest() -> None:
    """An epoch that was changed would refuse every cursor."""
    digest = store_digest(b"abcd", 16, 5)
    assert is_sound_store(b"abcd", 16, 5, digest)
    for changed in ((b"abce", 16, 5), (b"abcd", 17, 5), (b"abcd", 16, 6), (None, 16, 5)):
        assert not is_sound_store(*changed, digest)
    assert not is_sound_store(b"abcd", 16, 5, None)
