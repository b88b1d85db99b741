"""Events that cannot be projected hold up their own conversation only."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError
from support.projected_logs import check, damage, execute, run
from support.statements import before_statements, overtaken

from eventstore import (
    EventStore,
    StorageError,
)
from projections import Parked, Projector
from projections.projector.tools_table import StoredTools, decode_tool


def test_an_unreadable_event_is_parked_with_later_ones_of_its_conversation(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """The other conversations go on. After a retry of the readable event nothing is missing."""
    run(store, "a", 2)
    run(store, "b", 2)
    payload = damage(path, 3)
    projector.catch_up()
    run(store, "a")
    run(store, "b")
    projector.catch_up()
    (parked,) = projector.parked()
    assert isinstance(parked, Parked)
    assert (parked.conversation_id, parked.version, parked.tag) == ("a", 3, "completed")
    assert parked.waiting == 6
    assert "cannot be read" in str(parked)
    assert "6 later events wait behind it" in str(parked)
    assert len([*projector.tools("a")]) == 1
    assert len([*projector.tools("b")]) == 3
    assert projector.lag().events == 0
    assert (projector.retry("b"), projector.retry()) == (0, 0)  # it still cannot be read
    assert projector.parked() == [parked]
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 3", (payload,))
    assert projector.retry("a") == 1
    assert projector.parked() == []
    check(projector, store)


def test_a_parked_first_event_is_retried_by_another_projector(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """Its conversation is known already, although the event is the first."""
    run(store, "a")
    payload = damage(path, 1)
    projector.catch_up()
    run(store, "b")
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 1", (payload,))
    with Projector(store) as other:
        assert other.retry() == 1
        other.catch_up()
        check(other, store)


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_an_event_that_a_projection_raises_on_is_parked(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """The half-applied changes of such events in the middle of a batch are undone."""
    for _ in range(3):
        for name in ("a", "b", "c"):
            run(store, name)
    extend = StoredTools.extend
    bad = {("a", 2), ("a", 7), ("b", 4)}

    def fail(view: StoredTools, events: Any) -> None:
        for recorded in events:
            extend(view, [recorded])
            if (recorded.conversation_id, recorded.version) in bad:
                raise RuntimeError("a bug")

    monkeypatch.setattr(StoredTools, "extend", fail)
    with Projector(store, batch=batch) as projector:
        projector.catch_up()
        found = [(p.conversation_id, p.version, p.waiting) for p in projector.parked()]
        assert found == [("a", 2, 7), ("b", 4, 5)]
        assert projector.parked()[0].problem == "RuntimeError: a bug"
        bad.discard(("a", 2))
        assert projector.retry() == 0  # a stops further on now
        found = [(p.conversation_id, p.version, p.waiting) for p in projector.parked()]
        assert sorted(found) == [("a", 7, 2), ("b", 4, 5)]
        run(store, "a")
        bad.clear()
        assert projector.retry() == 2  # up to where the lane is, and no further
        projector.catch_up()
        assert projector.parked() == []
        check(projector, store)


class TooLong(Exception):
    """The error of a database that does not take a row."""


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_an_event_that_the_database_does_not_take_is_parked(store: EventStore, batch: int) -> None:
    """All others are stored; this one is stored when the database accepts it."""
    for _ in range(3):
        for name in ("a", "b", "c"):
            run(store, name)
    bad = {("a", 4), ("b", 1)}

    def refuse(statement: str, parameters: Any) -> None:
        if not statement.startswith("INSERT INTO toolledger_calls"):
            return
        for row in parameters if isinstance(parameters, list) else [parameters]:
            (body,) = (value for value in row if str(value).startswith("{"))
            version = decode_tool(body).call.arguments["n"] + 1
            if any(name in row and version == number for name, number in bad):
                raise DBAPIError(statement, None, TooLong("it is too long"))

    with before_statements(refuse), Projector(store, batch=batch) as projector:
        projector.catch_up()
        found = [(p.conversation_id, p.version, p.waiting) for p in projector.parked()]
        assert found == [("b", 1, 8), ("a", 4, 5)]
        assert projector.parked()[0].problem == "the database does not take it: it is too long"
        assert len([*projector.tools("c")]) == 3
        assert projector.retry() == 0
        run(store, "a")
        bad.clear()
        assert projector.retry() == 2
        projector.catch_up()
        assert projector.parked() == []
        check(projector, store)


def test_the_event_at_fault_is_found_by_halves(store: EventStore) -> None:
    """The last of eight events is refused with all, and twice alone: 4, 2 and 1 were taken."""
    for number in range(8):
        store.conversation("a").request("f", {"n": number})
    refused: list[int] = []

    def refuse(statement: str, parameters: Any) -> None:
        if statement.startswith("INSERT INTO toolledger_calls"):
            rows = parameters if isinstance(parameters, list) else [parameters]
            if '"n":7' in str(rows):
                refused.append(len(rows))
                raise DBAPIError(statement, None, TooLong("it is too long"))

    with before_statements(refuse), Projector(store, batch=8) as projector:
        assert projector.catch_up() == 8
        assert [(p.conversation_id, p.version) for p in projector.parked()] == [("a", 8)]
    assert refused == [8, 1, 1]


def refuse_checkpoints(error: Exception, times: int) -> AbstractContextManager[None]:
    """Let the database refuse so many writes of checkpoints."""
    left = iter(range(times))

    def refuse(statement: str, _: Any) -> None:
        if statement.startswith("UPDATE toolledger_checkpoints") and next(left, None) is not None:
            raise DBAPIError(statement, None, error)

    return before_statements(refuse)


def test_a_short_outage_of_the_database_parks_nothing(store: EventStore) -> None:
    """The single event is tried once more before it is parked."""
    run(store, "a")
    outage = refuse_checkpoints(TooLong("the server is gone"), 1)
    with outage, Projector(store, batch=1) as projector:
        assert projector.catch_up() == 3
        assert projector.parked() == []
        check(projector, store)


def test_a_database_that_takes_nothing_parks_nothing(
    store: EventStore, projector: Projector
) -> None:
    """The database is full or unreachable, and no event is the cause."""
    projector.catch_up()
    run(store, "a", 3)

    outage = refuse_checkpoints(TooLong("no space left"), sys.maxsize)
    message = "no space left: nothing was projected; see that"
    with outage, pytest.raises(StorageError, match=message):
        projector.catch_up()
    assert (projector.parked(), projector.lag().events) == ([], 9)
    projector.catch_up()
    check(projector, store)


def test_a_rebuild_parks_only_events_that_still_fail(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """An event that can be read by then is applied."""
    run(store, "a", 2)
    payload = damage(path, 1)
    projector.catch_up()
    projector.rebuild()
    assert [p.waiting for p in projector.parked()] == [5]
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 1", (payload,))
    projector.rebuild()
    assert projector.parked() == []
    check(projector, store)


def test_a_retry_after_another_projector_retried_changes_nothing(
    store: EventStore, projector: Projector, path: Path
) -> None:
    """An event that is not parked any more is not applied again."""
    run(store, "a")
    payload = damage(path, 2)
    projector.catch_up()
    execute(path, "UPDATE toolledger_events SET payload = ? WHERE position = 2", (payload,))
    with Projector(store) as other, overtaken("FROM toolledger_parked", other.retry) as retried:
        assert projector.retry() == 1
    assert retried == [1]
    check(projector, store)
