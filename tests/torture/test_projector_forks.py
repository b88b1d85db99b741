"""Forks of a process that has a projector, whose connections stay the parent's."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, select
from support.forking import fork, succeeded
from support.projected_logs import check
from support.tiers import repeated
from support.unseen_forks import status_of, unseen_fork
from torture.test_forks import look

from eventstore import AsyncEventStore, EventStore, StorageError
from eventstore.testing import message, run_concurrently
from projections import ProjectedLane, Projector

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

CALLS = 5


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where the log is, of each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/log.db"
    found: str = request.getfixturevalue(request.param).database(migrated=True)
    return found


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """Return a log with some calls of four conversations."""
    with EventStore.open(url) as opened:
        for worker in range(4):
            ask(opened, f"of-{worker}", CALLS)
        yield opened


@pytest.fixture
def projector(store: EventStore) -> Iterator[Projector]:
    """Return a projector that was used: it has connections."""
    with Projector(store) as opened:
        opened.catch_up()
        list(opened.tools("of-0"))
        yield opened


def ask(store: EventStore, name: str, calls: int = 1) -> None:
    """Ask for calls of a conversation."""
    for _ in range(calls):
        store.conversation(name).request("f", {"of": name})


def use(store: EventStore, projector: Projector, name: str) -> None:
    """Read a conversation's calls, ask for some more, and keep up with them."""
    for _ in range(CALLS):
        before = list(projector.tools(name))
        assert {conversation for conversation, _ in before} <= {name}
        ask(store, name)
        projector.catch_up()
        assert len([*projector.tools(name)]) == len(before) + 1
    assert projector.statistics().events > 0


def test_parent_and_children_of_multiprocessing_go_on(
    store: EventStore, projector: Projector
) -> None:
    """Each has connections of its own: no answer is another's, and none is an error."""
    context = multiprocessing.get_context("fork")
    for _ in range(repeated(2)):
        children = [
            context.Process(target=use, args=(store, projector, f"of-{worker}"))
            for worker in range(3)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            for child in children:
                child.start()
        use(store, projector, "of-3")
        for child in children:
            child.join(120)
            assert child.exitcode == 0
        use(store, projector, "of-3")
    projector.catch_up()
    check(projector, store)


def test_a_child_closes_nothing_of_its_parent(store: EventStore, projector: Projector) -> None:
    """A child may close the projector, forget it, fork again, and end as it likes."""

    def forget() -> None:
        workers, projector._workers = projector._workers, []
        assert workers
        projector.close()
        gc.collect()

    def fork_again() -> None:
        assert succeeded(fork(lambda: use(store, projector, "of-0")))
        use(store, projector, "of-1")

    assert succeeded(fork(projector.close), fork(forget), fork(fork_again))
    use(store, projector, "of-2")
    check(projector, store)


def test_forks_of_threads_that_project(store: EventStore, projector: Projector) -> None:
    """A fork waits for what other threads have under way, and no child waits for them."""
    enough = threading.Event()

    def busy(number: int) -> None:
        with Projector(store) as own:
            while not enough.is_set():
                ask(store, f"busy-{number}")
                own.catch_up()
                assert len([*own.tools(f"busy-{number}")]) > 0

    def forks() -> None:
        try:
            for number in range(repeated(4)):
                assert succeeded(fork(lambda: use(store, projector, f"of-{number % 4}")))  # noqa: B023
        finally:
            enough.set()

    assert run_concurrently(lambda: busy(1), lambda: busy(2), forks) == [None] * 3
    projector.catch_up()
    check(projector, store)


def test_a_fork_in_an_event_loop(url: str, store: EventStore, projector: Projector) -> None:
    """A thread of the loop projects meanwhile; the child has no loop, and uses both as usual."""

    async def serve() -> None:
        async with AsyncEventStore.open(url) as serving:
            chat = serving.conversation("of-the-loop")
            await chat.request("f", {})
            for _ in range(3):
                await chat.request("f", {})
                under_way = asyncio.create_task(asyncio.to_thread(projector.catch_up))
                await asyncio.sleep(0)
                child = fork(lambda: use(store, Projector(store), "of-0"))
                await under_way
                assert await asyncio.to_thread(succeeded, child)
            await asyncio.to_thread(projector.catch_up)

    asyncio.run(serve())
    check(projector, store)


def test_a_fork_while_tables_are_read(store: EventStore, projector: Projector) -> None:
    """The transaction stays the parent's; in the child it refuses, and the next one is its own."""
    tools = projector.tools()
    next(tools)
    with projector.reading("tools") as (connection, _):

        def child(name: str) -> None:
            with pytest.raises(StorageError, match=r"forked in the middle of a transaction"):
                connection.exec_driver_sql("SELECT 1")
            connection.close()
            use(store, projector, name)
            assert len([*tools]) == 4 * CALLS - 1

        children = [fork(lambda: child("of-0")), fork(lambda: child("of-1"))]
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
        assert succeeded(*children)
        assert connection.exec_driver_sql("SELECT 2").scalar_one() == 2
    use(store, projector, "of-0")
    check(projector, store)


def test_a_daemon_that_was_forked_while_tables_were_read(tmp_path: Path) -> None:
    """Its locks on the file are its own: the log it appends to is not taken away."""
    path = tmp_path / "log.db"
    store = EventStore.open(f"sqlite:///{path}")
    chat = store.conversation("chat")
    chat.append(message())
    projector = Projector(store)
    forked, tell_forked = os.pipe()
    go_on, tell_go_on = os.pipe()

    def daemon() -> None:
        chat.append(message())
        os.write(tell_forked, b"x")
        os.read(go_on, 1)
        chat.append(message())
        projector.catch_up()

    with projector.reading("tools"):
        child = fork(daemon)
    os.read(forked, 1)
    projector.close()
    store.close()
    assert look(path) == 2
    os.write(tell_go_on, b"x")
    assert succeeded(child)
    assert look(path) == 3


class Forking:
    """A projection that counts events, and forks while its rows are written."""

    name = "forking"
    version = 1
    table = Table("forking", MetaData(), *ProjectedLane.columns(), Column("events", Integer))
    tables = (table,)

    def __init__(self) -> None:
        self.children: list[int] = []

    def load(self, lane: ProjectedLane, events: Any, state: Any) -> Any:
        """Return the count, as it is stored if memory has none."""
        del events
        if state is None:
            with lane.reading() as connection:
                found = connection.execute(select(self.table.c.events).where(lane.owns(self.table)))
                state = [found.scalar() or 0]
        return state

    def apply(self, state: Any, events: Any) -> None:
        """Count."""
        state[0] += len(events)

    def store(self, connection: Any, lane: ProjectedLane, state: Any) -> Any:
        """Write the count; the first time, fork between two statements."""
        connection.execute(self.table.delete().where(lane.owns(self.table)))
        if not self.children:

            def child() -> None:
                with pytest.raises(StorageError, match=r"nothing was written here"):
                    connection.execute(self.table.select())

            self.children.append(fork(child))
        connection.execute(self.table.insert(), [lane.key | {"events": state[0]}])
        return state


def test_a_fork_while_tables_are_written(store: EventStore) -> None:
    """The child cannot end the parent's transaction, and the parent commits it."""
    forking = Forking()
    with Projector(store, projections=[forking]) as projector:
        projector.catch_up()
        assert len(forking.children) == 1
        assert succeeded(*forking.children)
        with projector.reading("forking") as (connection, generation):
            of = forking.table.c.projection == generation
            found = connection.execute(select(forking.table.c.events).where(of)).scalars()
            assert sum(found) == 4 * CALLS
        check(projector, store)


def test_a_fork_that_python_does_not_see(store: EventStore, projector: Projector) -> None:
    """The process's number is looked at: the child opens connections of its own."""
    child = unseen_fork()
    if not child:
        status = 1
        try:
            assert len([*projector.tools("of-1")]) == CALLS
            projector.close()
            status = 0
        finally:
            os._exit(status)
    assert status_of(child) == 0
    use(store, projector, "of-1")
    check(projector, store)
