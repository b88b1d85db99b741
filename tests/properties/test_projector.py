"""What is materialised equals the fold in memory: at any cut, in any batches, after any crash."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from projecting import act, check, new_store

from eventstore.testing import FrozenClock
from projections import Projector
from projections.projector.lane import LaneState
from projections.projector.streams import PAGE, Stream, load_streams, store_streams
from projections.projector.tables import Database

moves = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 8), st.integers(0, 11)),
    max_size=60,
)
# what the projector does after so many moves: nothing, catch up, begin anew, crash, rebuild
doings = st.sampled_from(["", "", "", "catch up", "reopen", "crash", "crash late", "rebuild"])


class Crash(BaseException):
    """The process is gone."""


def crash(projector: Projector, monkeypatch: pytest.MonkeyPatch, *, late: bool) -> None:
    """Catch up, and be killed while the first batch is stored: at its beginning, or its end."""
    store = LaneState.store

    def die(state: LaneState, connection: Any, position: int) -> None:
        if late:
            store(state, connection, position)
        raise Crash

    with monkeypatch.context() as patch, suppress(Crash):
        patch.setattr(LaneState, "store", die)
        projector.catch_up()


@settings(max_examples=60)
@given(
    walk=moves,
    plan=st.lists(doings, min_size=60, max_size=60),
    batch=st.sampled_from([1, 2, 7, 1000]),
    lanes=st.sampled_from([1, 3]),
    bucket=st.sampled_from([1, 60, 3600]),
)
@example(walk=[(0, 0, 0, 0), (0, 0, 7, 0), (0, 0, 4, 4), (0, 0, 6, 0)] * 3, plan=["catch up"] * 60,
         batch=1, lanes=1, bucket=1)  # fmt: skip
def test_tables_equal_the_fold_whatever_happens_meanwhile(
    walk: list[Any], plan: list[str], batch: int, lanes: int, bucket: int
) -> None:
    """Whether caught up event by event or at once, killed at any point, begun anew or rebuilt."""
    clock = FrozenClock()
    monkeypatch = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as folder:
        tables = f"sqlite:///{folder}/tables.db"

        def opened() -> Projector:
            return Projector(store, tables, batch=batch, bucket=bucket)

        with new_store(Path(folder) / "log.db", lanes, clock=clock) as store:
            projector = opened()
            for move, doing in zip(walk, plan, strict=False):
                clock.advance(move[3] ** 3 / 10)
                act(store, move)
                if doing == "catch up":
                    projector.catch_up()
                    assert projector.lag().events == 0
                    check(projector, store)
                elif doing == "rebuild":
                    projector.rebuild()
                elif doing:
                    if doing != "reopen":
                        crash(projector, monkeypatch, late=doing == "crash late")
                    if doing != "crash":  # the other goes on with what it has
                        projector.close()
                        projector = opened()
            projector.catch_up()
            check(projector, store)
            assert projector.parked() == []
            projector.close()


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(0, PAGE + 3), max_size=6), again=st.booleans())
def test_what_was_asked_for_is_found_again_page_by_page(sizes: list[int], again: bool) -> None:
    """However many requests come between two commits, a conversation remembers all."""
    database = Database("sqlite://")
    at = {"projection": 1, "lane": 0}
    stream = Stream("chat", 7, 0, stored=False)
    count = 0
    for size in sizes:
        for mark in range(count, count + size):
            assert not stream.asks(mark)
            assert stream.asks(mark)
        count += size
        with database.writing() as connection:
            store_streams(connection, at, [stream])
        if again:
            with database.reading() as connection:
                stream = load_streams(connection, at, ["chat"], with_asked=True)["chat"]
    assert stream.asked == set(range(count))
    with database.reading() as connection:
        found = load_streams(connection, at, ["chat", "other"], with_asked=True)
    if sizes:
        assert found["chat"].asked == stream.asked
        assert (found["chat"].number, len(found)) == (7, 1)
    database.close()
