"""Logs to project, and what a projection must say of them: the same as a fold in memory."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from eventstore import ErrorKind, EventStore, EventStoreError, Failure
from eventstore.storage.sqlite import driver
from projections import CurrentTools, Projector, error_statistics, pending_approvals
from projections.durations import RELATIVE_ERROR
from projections.projector.lane import LaneState

Move = tuple[int, int, int, int]

LEGS = ("waiting", "queueing", "running")


def act(store: EventStore, move: Move) -> None:
    """One thing that an agent or a person does; what the log refuses is not done."""
    of, number, what, way = move
    chat = store.conversation(f"chat{of}")
    call_id = f"call{number}"
    with suppress(EventStoreError):
        if what in (0, 1):
            chat.request(f"tool{way % 2}", {"n": way % 3}, call_id)
        elif what == 2:
            chat.approve(call_id, {"n": 9} if way % 3 == 0 else None, by="ann")
        elif what == 3:
            chat.reject(call_id, "no", ("human", "gate")[way % 2])
        elif what in (4, 5):
            tool = chat.start(call_id)
            if way % 4 == 0:
                chat.start(call_id, tool.attempts + 1)
        elif what == 6:
            chat.complete(call_id, {"way": way}, synthetic=way == 1)
        elif what == 7:
            code = (None, "timeout", "cancelled")[way % 3]
            failure = Failure(list(ErrorKind)[way % 7], "boom", code=code)
            chat.fail(call_id, failure, delay=1.5 if way > 4 else None)
        else:
            chat.add_message("user", "\x00 hello")


def check(projector: Projector, store: EventStore) -> None:
    """The tables say what folds in memory say of the log."""
    log = list(store.read())
    order = sorted(CurrentTools().extend(log).calls(), key=_name)
    assert sorted(projector.tools(), key=_name) == order
    assert projector.pending_approvals() == pending_approvals(store)
    found, wanted = projector.statistics(), error_statistics(log)
    check_times(found.overall, wanted.overall)
    for name, numbers in wanted.by_tool.items():
        check_times(found.by_tool[name], numbers)
    assert exact(found) == exact(wanted)
    calls = sum(bucket.overall.calls for bucket in projector.timeline())
    assert calls == wanted.overall.calls


def _name(call: tuple[str, Any]) -> tuple[str, str]:
    return call[0], call[1].id


def check_times(found: Any, wanted: Any) -> None:
    """Percentiles are what they should be, within the stated error."""
    for leg in LEGS:
        one, other = getattr(found, leg), getattr(wanted, leg)
        assert (one.count, one.max) == (other.count, other.max)
        for percent in ("p50", "p95", "p99"):
            true, got = getattr(other, percent), getattr(one, percent)
            assert (true is None) == (got is None)
            assert true is None or abs(got - true) <= true * RELATIVE_ERROR


def exact(statistics: Any) -> Any:
    """Statistics without their percentiles."""
    told = msgspec.to_builtins(statistics)
    for numbers in (told["overall"], *told["by_tool"].values()):
        for leg in LEGS:
            del numbers[leg]
    for numbers in told["by_fingerprint"].values():
        # Each lane describes what was repeated or went wrong in it.
        if numbers["calls"] > 1 and not numbers["failures"] + numbers["rejections"]:
            del numbers["arguments"]
    told["anomalies"] = sorted(told["anomalies"], key=str)
    return told


def split_into_lanes(path: Path, lanes: int) -> None:
    """Give a new store in a file as many lanes as a server's has."""
    connection = driver().connect(str(path))
    connection.execute("UPDATE toolledger_store SET lanes = ?", (lanes,))
    rows: Iterable[Any] = [(lane,) for lane in range(1, lanes)]
    connection.executemany("INSERT INTO toolledger_lanes VALUES (?, 0)", rows)
    connection.commit()
    connection.close()


def new_store(path: Path, lanes: int = 1, **options: Any) -> EventStore:
    """A store in a new file, of so many lanes."""
    EventStore.open(f"sqlite:///{path}").close()
    if lanes > 1:
        split_into_lanes(path, lanes)
    return EventStore.open(f"sqlite:///{path}", **options)


# jobs of processes


def project(url: str, tables: str, batch: int) -> int:
    """Keep up with a log until there is nothing new; how many events that was."""
    with EventStore.open(url) as store, Projector(store, tables, batch=batch) as projector:
        return projector.catch_up()


def project_and_die(url: str, tables: str, batches: int, pipe: Any) -> None:
    """Be killed in the middle of a batch, its rows written and not committed."""
    left = count(batches, -1)
    store_parked = LaneState._store_parked

    def die(state: LaneState, connection: Any) -> None:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        store_parked(state, connection)

    LaneState._store_parked = die  # type: ignore[method-assign]
    pipe.send(project(url, tables, 10))


def rebuild_and_die(url: str, tables: str, batches: int, pipe: Any) -> None:
    """Be killed in the middle of a rebuild."""
    left = count(batches, -1)

    def die(_: Any) -> None:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with EventStore.open(url) as store, Projector(store, tables, batch=10) as projector:
        pipe.send(projector.rebuild(die))


def random_move(chance: random.Random) -> tuple[int, int, int]:
    """Anything that `act` knows."""
    return chance.randrange(30), chance.randrange(9), chance.randrange(12)


def write_and_project(url: str, tables: str, seed: int, moves: int) -> int:
    """Act at random, and keep up with everybody's log all the while."""
    chance = random.Random(seed)
    applied = 0
    with EventStore.open(url) as store, Projector(store, tables, batch=20) as projector:
        for number in range(moves):
            act(store, (seed * 10 + chance.randrange(3), *random_move(chance)))
            if number % 10 == 0:
                applied += projector.catch_up()
        return applied + projector.catch_up()


def rebuild(url: str, tables: str) -> int:
    """Rebuild, with others."""
    with EventStore.open(url) as store, Projector(store, tables, batch=20) as projector:
        return projector.rebuild()


def write(url: str, seed: int, moves: int) -> None:
    """Act at random."""
    chance = random.Random(seed)
    with EventStore.open(url) as store:
        for _ in range(moves):
            act(store, (seed * 5 + chance.randrange(5), *random_move(chance)))


def project_for_ever(url: str, tables: str, rebuilding: bool, pipe: Any) -> None:
    """Keep up with a log, or build anew again and again, until somebody kills it."""
    with EventStore.open(url) as store, Projector(store, tables, batch=20) as projector:
        pipe.send("ready")
        while True:
            projector.rebuild() if rebuilding else projector.catch_up()
