"""Projected tables equal the fold in memory: at any cut, in any batches, after any crash."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.projected_logs import PRICES, act, check, check_costs, costs, new_store, set_prices
from support.statements import (
    FIRST_OF_A_BATCH,
    LAST_OF_A_BATCH,
    after_statements,
    before_statements,
)
from support.tiers import examples

from eventstore.testing import FrozenClock
from projections import Projector
from projections.projector.conversations_table import (
    REQUESTS_PER_PAGE,
    StoredConversation,
    conversation_changes,
    load_conversations,
)
from projections.projector.database import ProjectionDatabase
from projections.projector.queries import write_changes
from projections.projector.settings import ProjectorSettings

moves = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 12), st.integers(0, 11)),
    max_size=60,
)
# what the projector does after so many moves: nothing, catch up, begin anew, crash, rebuild
doings = st.sampled_from(["", "", "", "catch up", "reopen", "crash", "crash late", "rebuild"])


class Crash(BaseException):
    """An error that stands for the death of the process."""


def crash(projector: Projector, *, late: bool) -> None:
    """Catch up, and be killed while the first batch is stored: at its beginning, or its end."""

    def die(statement: str, _: Any) -> None:
        if statement.startswith(LAST_OF_A_BATCH if late else FIRST_OF_A_BATCH):
            raise Crash

    with after_statements(die) if late else before_statements(die), suppress(Crash):
        projector.catch_up()


@settings(max_examples=examples(20))
@given(
    walk=moves,
    plan=st.lists(doings, min_size=60, max_size=60),
    batch=st.sampled_from([1, 2, 7, 1000]),
    lanes=st.sampled_from([1, 3]),
    bucket=st.sampled_from([1, 60, 3600]),
    cached=st.sampled_from([0, 200_000]),
)
@example(
    walk=[(0, 0, 0, 0), (0, 0, 7, 0), (0, 0, 4, 4), (0, 0, 6, 0)] * 3,
    plan=["catch up"] * 60,
    batch=1,
    lanes=1,
    bucket=1,
    cached=200_000,
)
@example(
    walk=[(0, 0, 9, 3), (0, 0, 8, 1), (0, 0, 0, 0), (0, 1, 9, 5), (0, 1, 9, 5), (0, 1, 0, 1)] * 3,
    plan=["catch up", "reopen", "catch up", "crash late"] * 15,
    batch=1,
    lanes=3,
    bucket=60,
    cached=0,
)
def test_tables_equal_the_fold_whatever_happens_meanwhile(
    walk: list[Any], plan: list[str], batch: int, lanes: int, bucket: int, cached: int
) -> None:
    """The projector is opened anew, rebuilt or killed at any point, with batches of any size."""
    clock = FrozenClock()
    with tempfile.TemporaryDirectory() as folder:
        tables = f"sqlite:///{folder}/tables.db"
        set_prices(tables, PRICES)

        def opened() -> Projector:
            return Projector(
                store,
                tables,
                batch=batch,
                bucket=bucket,
                projections=[costs.CostPerTool()],
                settings=ProjectorSettings(max_cached_rows=cached),
            )

        with new_store(Path(folder) / "log.db", lanes, clock=clock) as store:
            projector = opened()
            for move, doing in zip(walk, plan, strict=False):
                clock.advance(move[3] ** 3 / 10)
                act(store, move)
                if doing == "catch up":
                    projector.catch_up()
                    assert projector.lag().events == 0
                    check(projector, store)
                    check_costs(projector, store)
                elif doing == "rebuild":
                    projector.rebuild()
                elif doing:
                    if doing != "reopen":
                        crash(projector, late=doing == "crash late")
                    if doing != "crash":  # the other goes on with what it has
                        projector.close()
                        projector = opened()
            projector.catch_up()
            check(projector, store)
            check_costs(projector, store)
            assert projector.parked() == []
            projector.close()


@settings(max_examples=examples(20))
@given(sizes=st.lists(st.integers(0, REQUESTS_PER_PAGE + 3), max_size=6), again=st.booleans())
def test_stored_requests_are_loaded_again_page_by_page(sizes: list[int], again: bool) -> None:
    """However many requests come between two commits, a conversation remembers all."""
    database = ProjectionDatabase("sqlite://")
    at: dict[str, object] = {"projection": 1, "lane": 0}
    chat = StoredConversation("chat", 7, 0, is_stored=False)
    count = 0
    for size in sizes:
        for mark in range(count, count + size):
            assert not chat.add_request(mark)
            assert chat.add_request(mark)
        count += size
        with database.writing() as connection:
            write_changes(connection, at, conversation_changes([chat]))
        if again:
            with database.reading() as connection:
                chat = load_conversations(connection, at, ["chat"], with_requests=True)["chat"]
    assert chat.requests == set(range(count))
    with database.reading() as connection:
        found = load_conversations(connection, at, ["chat", "other"], with_requests=True)
    if sizes:
        assert found["chat"].requests == chat.requests
        assert (found["chat"].number, len(found)) == (7, 1)
    database.close()
