"""The checker of histories finds each guarantee broken, and nothing in a history that is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import EventStore
from eventstore.testing import check_history, message
from eventstore.testing.history import (
    Acknowledgement,
    Guarantee,
    Place,
    Reading,
    acknowledged,
    places,
    refused,
    unknown,
)

ROWS = [
    Place(0, 1, "a", 1, "a1"),
    Place(0, 2, "b", 1, "b1"),
    Place(0, 3, "b", 2, "b2"),
    Place(0, 4, "a", 2, "a2"),
    Place(1, 1, "c", 1, "c1"),
    Place(1, 2, "c", 2, "c2"),
]
NOTES = [
    acknowledged("ada", ROWS[:1]),
    unknown("bob", ["b1", "b2"]),
    refused("ada", ["never"]),
    acknowledged("ada", ROWS[3:4]),
    unknown("cid", ["c1", "c2"]),
    acknowledged("cid", ROWS[4:]),
    unknown("bob", ["lost"]),
]
READINGS = [
    Reading("whole", ROWS),
    Reading("other lane first", [*ROWS[4:], *ROWS[:4]]),
    Reading("stopped", ROWS[:2], complete=False),
    Reading("resumed", [*ROWS[2:4], ROWS[5]], after={0: 2, 1: 1}),
    Reading("one", [ROWS[0], ROWS[3]], conversation_id="a"),
]


def test_a_history_that_is_right_has_no_violation() -> None:
    """Unknown outcomes may be stored or not; a follower may stop, resume or follow one alone."""
    assert check_history(NOTES, READINGS, reversed(ROWS)) == []


def moved(row: Place, **places: Any) -> list[Place]:
    """Return the rows with one of them changed."""
    return [one._replace(**places) if one is row else one for one in ROWS]


def without(*rows: Place) -> list[Place]:
    """Return the rows but for some."""
    return [row for row in ROWS if row not in rows]


@pytest.mark.parametrize(
    ("rows", "guarantee", "event_id"),
    [
        (ROWS[:3] + ROWS[4:], Guarantee.STORED, "a2"),
        ([*ROWS, Place(1, 3, "c", 3, "c2")], Guarantee.STORED_ONCE, "c2"),
        ([*ROWS[:5], Place(1, 2, "d", 1, "c2")], Guarantee.PLACE, "c2"),
        ([*ROWS, Place(1, 3, "c", 3, "c3")], Guarantee.ASKED_FOR, "c3"),
        ([*ROWS, Place(1, 3, "c", 3, "never")], Guarantee.REFUSED, "never"),
        (without(ROWS[2]), Guarantee.ATOMIC, "b1"),
        (without(ROWS[1]), Guarantee.VERSIONS, "b2"),
        (without(ROWS[1], ROWS[2]), Guarantee.POSITIONS, "a2"),
        (moved(ROWS[2], lane=1, position=3), Guarantee.LANE, "b2"),
        (moved(ROWS[2], version=0), Guarantee.LANE, "b2"),
        ([*ROWS[:2], ROWS[3], Place(0, 5, "b", 2, "b2")], Guarantee.ATOMIC, "b2"),
    ],
)
def test_a_broken_row_is_named(rows: list[Place], guarantee: Guarantee, event_id: str) -> None:
    """Each guarantee of the rows is broken once."""
    violations = check_history(NOTES, [], rows)
    assert (guarantee, event_id) in [violation[:2] for violation in violations]


def test_an_append_before_one_that_its_writer_had_finished_is_named() -> None:
    """The order is that of one writer's appends, in each lane."""
    notes = [acknowledged("ada", [ROWS[3]]), acknowledged("ada", [ROWS[0]]), *NOTES[1:]]
    (violation,) = check_history(notes, [], ROWS)
    assert violation[:2] == (Guarantee.WRITERS_ORDER, "a1")
    assert violation.found == "a:1 at 1 of lane 0; ada had stored up to 4 before"


def test_an_append_that_is_repeated_may_have_been_stored_at_its_first_try() -> None:
    """This holds for another writer that repeats it, too, and for one that was refused first."""
    notes = [*NOTES, acknowledged("bob", ROWS[1:3]), acknowledged("cid", ROWS[:1])]
    assert check_history([*notes, unknown("ada", ["a1"])], READINGS, ROWS) == []
    again = [unknown("dan", ["a1"]), refused("dan", ["a1"]), *NOTES]
    assert check_history(again, READINGS, ROWS) == []


def test_a_repeat_may_bring_more_events() -> None:
    """The new ones need not stand beside the stored ones, and may be refused alone."""
    more = acknowledged("ada", [ROWS[0], ROWS[3]])
    assert check_history([acknowledged("ada", ROWS[:1]), more, *NOTES[1:]], [], ROWS) == []
    assert check_history([*NOTES, refused("ada", ["a1", "never"])], READINGS, ROWS) == []


@pytest.mark.parametrize(
    ("reading", "guarantee", "event_id"),
    [
        (Reading("f", [*ROWS, Place(1, 3, "c", 3, "never")]), Guarantee.COMMITTED, "never"),
        (Reading("f", [*ROWS, ROWS[5]]), Guarantee.SEEN_ONCE, "c2"),
        (Reading("f", [ROWS[1], ROWS[0], *ROWS[2:]]), Guarantee.SEEN_IN_ORDER, "a1"),
        (Reading("f", ROWS[1:], after={0: 2}), Guarantee.SEEN_IN_ORDER, "b1"),
        (Reading("f", ROWS[:5]), Guarantee.NOT_SKIPPED, "c2"),
        (Reading("f", [ROWS[0], ROWS[2]], complete=False), Guarantee.NOT_SKIPPED, "b1"),
        (Reading("f", ROWS[3:4], conversation_id="a"), Guarantee.NOT_SKIPPED, "a1"),
        (Reading("f", moved(ROWS[5], version=3)), Guarantee.PLACE, "c2"),
    ],
)
def test_a_wrong_reading_is_named(reading: Reading, guarantee: Guarantee, event_id: str) -> None:
    """Each guarantee of followers is broken once."""
    (violation,) = check_history(NOTES, [reading], ROWS)
    assert violation[:2] == (guarantee, event_id)
    assert violation.found.startswith("f ")


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Acknowledgement], list[Reading], list[Place]]:
    """Return the notes, readings and rows of a store that keeps its word."""
    notes: list[Acknowledgement] = []
    rows: list[Place] = []
    lanes = draw(st.integers(1, 3))
    for number in range(draw(st.integers(1, 12))):
        writer, chat = draw(st.sampled_from("abc")), draw(st.integers(0, 4))
        ids = [f"{number}.{n}" for n in range(draw(st.integers(1, 3)))]
        notes.append(unknown(writer, ids))
        outcome = draw(st.sampled_from(["stored", "stored", "refused", "lost", "lost answer"]))
        if "stored" in outcome or "answer" in outcome:
            lane = chat % lanes
            at = sum(row.lane == lane for row in rows)
            version = sum(row.conversation_id == str(chat) for row in rows)
            new = [Place(lane, at + n, str(chat), version + n, one) for n, one in enumerate(ids, 1)]
            rows += new
            if outcome == "stored":
                notes.append(acknowledged(writer, new))
        elif outcome == "refused":
            notes.append(refused(writer, ids))
    stop = draw(st.integers(0, len(rows)))
    after = {lane: sum(row.lane == lane for row in rows[:stop]) for lane in range(lanes)}
    readings = [
        Reading("whole", rows),
        Reading("stopped", rows[:stop], complete=False),
        Reading("resumed", rows[stop:], after=after),
    ]
    return notes, readings, rows


@given(histories(), st.data())
def test_whatever_row_is_lost_doubled_or_exchanged_is_found(
    history: tuple[list[Acknowledgement], list[Reading], list[Place]], data: st.DataObject
) -> None:
    """Beside a right follower no damage of the rows goes unnoticed, and right rows pass."""
    notes, readings, rows = history
    assert check_history(notes, readings, rows) == []
    if not rows:
        return
    place = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw(st.integers(0, len(rows) - 1))
    damages: list[Callable[[], list[Place]]] = [
        lambda: rows[:place] + rows[place + 1 :],
        lambda: [*rows, rows[place]],
        lambda: [*rows, rows[place]._replace(event_id="new", position=99, version=99)],
    ]
    if place != other:
        swapped = {place: rows[other].event_id, other: rows[place].event_id}
        damages.append(
            lambda: [r._replace(event_id=swapped.get(n, r.event_id)) for n, r in enumerate(rows)]
        )
    assert check_history(notes, readings, data.draw(st.sampled_from(damages))()) != []


def test_records_of_a_store_are_taken_as_they_are() -> None:
    """The records of an append, of a follower and of a read are compared."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        notes = [acknowledged("ada", chat.append(message(), message())) for _ in range(2)]
        readings = [Reading("feed", list(store.read()))]
        assert check_history(notes, readings, store.read()) == []
        assert [one.version for one in places(chat.events())] == [1, 2, 3, 4]
        (violation,) = check_history(notes[:1], readings[:1], list(store.read())[:3])[:1]
    assert violation.guarantee is Guarantee.ASKED_FOR
