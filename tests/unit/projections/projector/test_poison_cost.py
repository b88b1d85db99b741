"""What events cost that cannot be applied: a part of a clean pass, and in proportion to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import BigInteger, Column, MetaData, Table
from support.statements import before_statements

from eventstore import EventStore, Recorded
from eventstore.testing import message
from projections import ProjectedLane, Projector

EVENTS = 10
"""Events of a conversation, of which a poisoned one has a bad fourth one."""


class Rows:
    """A projection with a row for each event; it raises on bad ones, or its database does."""

    name = "rows"
    version = 1
    table = Table(
        "rows_of_events",
        MetaData(),
        *ProjectedLane.columns(),
        Column("at", BigInteger, primary_key=True, autoincrement=False),
        Column("value", BigInteger),
    )
    tables = (table,)

    def __init__(self, *, refused: bool = False) -> None:
        self.bad = True
        self.applied = 0
        self._refused = refused

    def load(self, lane: ProjectedLane, events: Any, state: Any) -> Any:
        """Need nothing of what is stored."""
        del lane, events
        return {} if state is None else state

    def apply(self, state: Any, events: Sequence[Recorded]) -> None:
        """Make the rows; a bad one is too large for the driver, if this does not raise."""
        for recorded in events:
            self.applied += 1
            bad = self.bad and "bad" in str(recorded.event)
            if bad and not self._refused:
                raise RuntimeError("a bug")
            state[recorded.position] = 2**70 if bad else recorded.version

    def store(self, connection: Any, lane: ProjectedLane, state: Any) -> None:
        """Write the rows."""
        if state:
            rows = [lane.key | {"at": at, "value": value} for at, value in state.items()]
            connection.execute(self.table.insert(), rows)


class Cost(NamedTuple):
    """What a pass has cost."""

    applied: int
    statements: int

    def times(self, other: Cost) -> float:
        """Return by how much the dearer part of this one is dearer than that of another."""
        return max(self.applied / other.applied, self.statements / other.statements)


def passes(
    url: str, conversations: int, poisoned: int, *, refused: bool = False
) -> tuple[Cost, Cost]:
    """Return what it costs to catch up, and then to retry what can be applied by then."""
    with EventStore.open(url) as store:
        for number in range(conversations):
            texts = ["good"] * EVENTS
            if number * poisoned // conversations != (number + 1) * poisoned // conversations:
                texts[3] = "bad"
            store.conversation(f"chat-{number}").append(*map(message, texts))
        rows = Rows(refused=refused)
        with Projector(store, views=[], projections=[rows]) as projector:
            caught_up = cost(rows, projector.catch_up)
            parked = projector.parked()
            assert [item.waiting for item in parked] == [EVENTS - 4] * poisoned
            check(projector, conversations * EVENTS - poisoned * (EVENTS - 3))
            rows.bad = False
            retried = cost(rows, projector.retry)
            assert projector.parked() == []
            check(projector, conversations * EVENTS)
    return caught_up, retried


def cost(rows: Rows, work: Any) -> Cost:
    """Return what work costs."""
    sent: list[str] = []
    rows.applied = 0
    with before_statements(lambda statement, _: sent.append(statement)):
        work()
    return Cost(rows.applied, len(sent))


def check(projector: Projector, count: int) -> None:
    """Assert that each event has one row."""
    with projector.reading("rows") as (connection, generation):
        found = connection.execute(Rows.table.select().where(Rows.table.c.projection == generation))
        assert len(found.all()) == count


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_poison_costs_at_most_ten_clean_passes(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    """300 of 1,000 conversations have an event that the projection raises on."""
    found = []
    for poisoned in (0, 300):
        url = f"sqlite:///{tmp_path}/{poisoned}.db"
        if engine != "sqlite":
            url = request.getfixturevalue(engine).database(migrated=True)
        found.append(passes(url, 1000, poisoned)[0])
    clean, dear = found
    assert clean.applied == 1000 * EVENTS
    assert dear.times(clean) <= 10


def test_each_event_that_the_database_refuses_costs_the_same(tmp_path: Path) -> None:
    """Twice as many in twice as many conversations cost about twice as much."""
    few, _ = passes(f"sqlite:///{tmp_path}/few.db", 100, 20, refused=True)
    many, _ = passes(f"sqlite:///{tmp_path}/many.db", 200, 40, refused=True)
    assert many.times(few) <= 2.4
    assert few.applied <= 10 * 100 * EVENTS


@pytest.mark.parametrize("refused", [True, False])
def test_a_retry_costs_as_much_for_each(tmp_path: Path, refused: bool) -> None:
    """Twice as many that are parked cost about twice as much, and each event is applied once."""
    _, few = passes(f"sqlite:///{tmp_path}/few.db", 100, 50, refused=refused)
    _, many = passes(f"sqlite:///{tmp_path}/many.db", 200, 100, refused=refused)
    assert few.applied == 50 * (EVENTS - 3)
    assert many.times(few) <= 2.2
