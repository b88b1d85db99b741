"""Logs to project, and what a projection must say of them: the same as a fold in memory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from eventstore import ErrorKind, EventStore, EventStoreError, Failure
from eventstore.storage.sqlite import driver
from projections import CurrentTools, Projector, error_statistics, pending_approvals
from projections.durations import RELATIVE_ERROR

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
