"""Logs to project, and checks that projections say the same as a fold in memory."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from support.statements import LAST_OF_A_BATCH, before_statements
from support.workers import notes_of

from eventstore import (
    ErrorKind,
    EventsRestored,
    EventStore,
    EventStoreError,
    Failure,
    ModelResponded,
    Recorded,
    ToolCompleted,
    Usage,
    UsageLimitBreach,
)
from eventstore.storage.chain import store_digest
from eventstore.storage.sqlite.driver import driver
from eventstore.testing import Acknowledgement
from projections import (
    CurrentTools,
    OtherVersion,
    Projector,
    error_statistics,
    pending_approvals,
    usage_statistics,
)
from projections.projector.database import LostRace, ProjectionDatabase
from projections.statistics.durations import RELATIVE_ERROR

Move = tuple[int, int, int, int]

LEGS = ("waiting", "queueing", "running")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "cost_per_tool.py"
PRICES = {"tool0": 3, "tool1": 50}


def _load(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


costs: Any = _load(EXAMPLE)
"""The example of a projection that a user brings."""


def set_prices(url: str, prices: dict[str, int]) -> None:
    """Put prices into the table that the example reads."""
    database = ProjectionDatabase(url)
    try:
        database.create([costs.price])
        rows = [{"tool": tool, "cents": cents} for tool, cents in prices.items()]
        with database.writing() as connection:
            connection.execute(costs.price.delete())
            connection.execute(costs.price.insert(), rows)
    finally:
        database.close()


def open_projector(store: EventStore, url: str | None = None, **options: Any) -> Projector:
    """Open a projector of the built-in projections, and of the example's beside them."""
    tables = store.url if url is None else url
    with suppress(LostRace):  # another process has set them
        set_prices(tables, PRICES)
    return Projector(store, tables, projections=[costs.CostPerTool()], **options)


def execute(path: Path, *statement: Any) -> None:
    """Write to a file without the library."""
    connection = driver().connect(str(path))
    connection.execute(*statement)
    connection.commit()
    connection.close()


def run(store: EventStore, conversation: str, calls: int = 1, tool: str = "tool0") -> None:
    """Run calls to their completion: three events each."""
    chat = store.conversation(conversation)
    for _ in range(calls):
        call = chat.request(tool, {"n": chat.version})
        chat.start(call.id)
        chat.complete(call.id, 1)


def damage(path: Path, position: int) -> str:
    """Make an event unreadable; return its payload."""
    connection = driver().connect(str(path))
    find = "SELECT payload FROM toolledger_events WHERE position = ?"
    ((payload,),) = connection.execute(find, (position,))
    connection.close()
    execute(path, "UPDATE toolledger_events SET payload = '{' WHERE position = ?", (position,))
    return str(payload)


def act(store: EventStore, move: Move) -> None:
    """Do one thing that an agent or a person does; skip what the log refuses."""
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
        elif what == 8:
            chat.add_message(("user", "assistant")[way % 2], "\x00 hello")
        elif what == 11:
            chat.append(UsageLimitBreach(("cost", "requests")[way % 2], Decimal(1), Decimal(2)))
        elif what == 12:
            if chat.version:
                chat.fork(max(1, chat.version - way), f"chat{3 + number}")
        else:
            chat.append(responded(number, way))
            if way % 2:  # what the log learned of this response, or of an earlier one
                cost = Usage(way % 3, cost=Decimal(way) / 100)
                version = max(1, chat.version - way // 2)
                chat.append(ModelResponded(usage=cost, latency=way, completes=version))


def responded(number: int, way: int) -> ModelResponded:
    """Return a response of a model, which may have come before."""
    cost = Decimal(way) / 1000 if way % 3 else None
    return ModelResponded(
        (None, "openai")[way % 2],
        (None, "gpt-5", "caf\u00e9")[way % 3],
        f"r{number}" if way % 4 else None,
        ("stop", "length", None)[number % 3],
        Usage(10 * number + way, way, number, cost=cost) if way % 5 else None,
        way**6 if way > 2 else None,
    )


def check(projector: Projector, store: EventStore) -> None:
    """Assert that the tables say what folds in memory say of the log."""
    log = list(store.read())
    order = sorted(CurrentTools().extend(log).calls(), key=_name)
    assert sorted(projector.tools(), key=_name) == order
    assert projector.pending_approvals() == pending_approvals(store)
    found, wanted = projector.statistics(), error_statistics(log)
    check_times(found.overall, wanted.overall)
    for name, numbers in wanted.by_tool.items():
        check_times(found.by_tool[name], numbers)
    if any(recorded.redacted for recorded in log):
        # What was counted as equal before arguments were redacted is not counted anew.
        found, wanted = without_fingerprints(found), without_fingerprints(wanted)
    if any(type(recorded.event) is EventsRestored for recorded in log):
        # Records that were in an archive when the feed came to them are not counted later.
        assert found.events <= wanted.events
        found = replace(found, events=wanted.events)
    assert exact(found) == exact(wanted)
    used, usage = projector.usage(), usage_statistics(log)
    assert (used, str(used)) == (usage, str(usage))
    calls = sum(bucket.overall.calls for bucket in projector.timeline())
    assert calls == wanted.overall.calls


def check_costs(projector: Projector, store: EventStore, prices: dict[str, int] = PRICES) -> None:
    """Assert that the example has counted each completed call exactly once."""
    wanted: Counter[str] = Counter()
    for recorded in store.read():
        if isinstance(recorded.event, ToolCompleted) and not recorded.is_copy:
            tool = recorded.event.response.name
            wanted[tool] += prices.get(tool, 0)
    assert costs.read_costs(projector) == wanted


def _name(call: tuple[str, Any]) -> tuple[str, str]:
    return call[0], call[1].id


def check_times(found: Any, wanted: Any) -> None:
    """Assert that percentiles are right, within the stated error."""
    for leg in LEGS:
        one, other = getattr(found, leg), getattr(wanted, leg)
        assert (one.count, one.max) == (other.count, other.max)
        for percent in ("p50", "p95", "p99"):
            true, got = getattr(other, percent), getattr(one, percent)
            assert (true is None) == (got is None)
            assert true is None or abs(got - true) <= true * RELATIVE_ERROR


def without_fingerprints(statistics: Any) -> Any:
    """Return statistics without what they say of equal calls."""
    overall, by_tool = statistics.overall, statistics.by_tool
    equal_calls = {"by_fingerprint": {}, "anomalies": [], "forgotten": 0}
    return replace(
        statistics,
        overall=replace(overall, repeated=0),
        by_tool={name: replace(numbers, repeated=0) for name, numbers in by_tool.items()},
        **equal_calls,
    )


def exact(statistics: Any) -> Any:
    """Return statistics without their percentiles."""
    members = msgspec.to_builtins(statistics)
    for numbers in (members["overall"], *members["by_tool"].values()):
        for leg in LEGS:
            del numbers[leg]
    for numbers in members["by_fingerprint"].values():
        # Each lane describes what was repeated or went wrong in it.
        if numbers["calls"] > 1 and not numbers["failures"] + numbers["rejections"]:
            del numbers["arguments"]
    members["anomalies"] = sorted(members["anomalies"], key=str)
    return members


def split_into_lanes(path: Path, lanes: int) -> None:
    """Give a new store in a file as many lanes as a server's has."""
    connection = driver().connect(str(path))
    row = connection.execute("SELECT epoch, created_at FROM toolledger_store").fetchone()
    digest = store_digest(row[0].encode(), lanes, row[1])
    connection.execute("UPDATE toolledger_store SET lanes = ?, digest = ?", (lanes, digest))
    rows: Iterable[Any] = [(lane,) for lane in range(1, lanes)]
    connection.executemany("INSERT INTO toolledger_lanes VALUES (?, 0)", rows)
    made = "SELECT sql FROM sqlite_master WHERE name = 'toolledger_events'"
    (table,) = connection.execute(made).fetchone()
    connection.execute("DROP TABLE toolledger_events")
    connection.execute(table.replace("PRIMARY KEY (position)", "PRIMARY KEY (lane, position)"))
    connection.commit()
    connection.close()


def new_store(path: Path, lanes: int = 1, **options: Any) -> EventStore:
    """Return a store in a new file, with this number of lanes."""
    EventStore.open(f"sqlite:///{path}").close()
    if lanes > 1:
        split_into_lanes(path, lanes)
    return EventStore.open(f"sqlite:///{path}", **options)


# jobs of processes


def project(url: str, tables: str, batch: int, views: Sequence[str] | None = None) -> int:
    """Keep up with a log until there is nothing new; return how many events that was."""
    with (
        EventStore.open(url) as store,
        open_projector(store, tables, batch=batch, views=views) as projector,
    ):
        return projector.catch_up()


def project_and_die(
    url: str, tables: str, batches: int, views: Sequence[str] | None, pipe: Any
) -> None:
    """Be killed in the middle of a batch, with its rows written and not committed.

    If `views` is empty, only the example is projected, so that its batch is interrupted.
    """
    left = count(batches, -1)

    def die(statement: str, _: Any) -> None:
        if statement.startswith(LAST_OF_A_BATCH) and next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with before_statements(die):
        pipe.send(project(url, tables, 10, views))


def rebuild_and_die(url: str, tables: str, batches: int, pipe: Any) -> None:
    """Be killed in the middle of a rebuild."""
    left = count(batches, -1)

    def die(_: Any) -> None:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with EventStore.open(url) as store, open_projector(store, tables, batch=10) as projector:
        pipe.send(projector.rebuild(die))


def random_move(chance: random.Random) -> tuple[int, int, int]:
    """Return anything that `act` knows."""
    return chance.randrange(30), chance.randrange(12), chance.randrange(12)


def write_and_project(url: str, tables: str, seed: int, moves: int) -> int:
    """Act at random, and project the log of all writers meanwhile."""
    chance = random.Random(seed)
    applied = 0
    with EventStore.open(url) as store, open_projector(store, tables, batch=20) as projector:
        for number in range(moves):
            act(store, (seed * 10 + chance.randrange(3), *random_move(chance)))
            if number % 10 == 0:
                applied += projector.catch_up()
        return applied + projector.catch_up()


def rebuild(url: str, tables: str) -> int:
    """Rebuild, while other processes do."""
    with EventStore.open(url) as store, open_projector(store, tables, batch=20) as projector:
        return projector.rebuild()


def write(url: str, seed: int, moves: int) -> list[Acknowledgement]:
    """Act at random in five conversations of its own; return its notes."""
    chance = random.Random(seed)
    own = range(seed * 5, seed * 5 + 5)
    with EventStore.open(url) as store:
        for _ in range(moves):
            act(store, (own[chance.randrange(5)], *random_move(chance)))
        return notes_of(str(seed), *(store.conversation(f"chat{number}") for number in own))


def project_forever(url: str, tables: str, rebuilding: bool, pipe: Any) -> None:
    """Project a log, or rebuild its projections, again and again until the process is killed."""
    with EventStore.open(url) as store, open_projector(store, tables, batch=20) as projector:
        pipe.send("ready")
        while True:
            projector.rebuild() if rebuilding else projector.catch_up()


class NextCosts(costs.CostPerTool):  # type: ignore[misc]
    """The example in its second version: a call costs twice as much."""

    version = 2

    def apply(self, state: Any, events: Sequence[Recorded]) -> None:
        """Count everything twice."""
        super().apply(state, events)
        super().apply(state, events)


def keep_up_a_version(url: str, tables: str, version: int, rounds: int) -> tuple[int, int]:
    """Keep up, and rebuild whenever the tables are another version's.

    Return how often that was done, and how often it was refused.
    """
    projection = {1: costs.CostPerTool, 2: NextCosts}[version]()
    rebuilt = refused = 0
    with (
        EventStore.open(url) as store,
        Projector(store, tables, views=[], projections=[projection]) as projector,
    ):
        for _ in range(rounds):
            run(store, f"of version {version}")
            try:
                projector.catch_up()
            except OtherVersion:
                try:
                    projector.rebuild(only=projection.name)
                    rebuilt += 1
                except OtherVersion:
                    refused += 1
    return rebuilt, refused


def retry(url: str, tables: str) -> int:
    """Apply what is parked; return how many succeeded."""
    with EventStore.open(url) as store, open_projector(store, tables) as projector:
        return projector.retry()


def retry_and_die(url: str, tables: str, batches: int, pipe: Any) -> None:
    """Be killed in the middle of a transaction of a retry."""
    left = count(batches, -1)

    def die(statement: str, _: Any) -> None:
        if statement.startswith(LAST_OF_A_BATCH) and next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with before_statements(die):
        pipe.send(retry(url, tables))
