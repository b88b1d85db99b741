"""Many threads and processes write to one conversation and one file."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import workers
from support.tiers import repeated

from eventstore import EventStore
from eventstore.domain.lifecycle import evolve
from eventstore.errors import IllegalTransition
from eventstore.storage.sqlite import driver as sqlite
from eventstore.testing import Acknowledgement, run_concurrently


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of the store to be created."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


def check_every_transition(store: EventStore) -> dict[str, Any]:
    """Assert that versions have no gaps and every transition is legal; return the calls."""
    tools: dict[str, Any] = {}
    for version, recorded in enumerate(store.conversation("chat").events(), 1):
        event: Any = recorded.event
        assert recorded.version == version
        before = tools.get(event.call_id)
        tools[event.call_id] = evolve(before, event)
        assert tools[event.call_id] is not before
    assert list(store.verify()) == []
    return tools


def test_fifty_writers_on_one_conversation_all_get_through(url: str) -> None:
    """40 threads over one store and 10 processes with their own lose nothing."""
    count = repeated(3)
    names = [f"thread-{n}" for n in range(40)]
    others = [f"process-{n}" for n in range(10)]
    with EventStore.open(url) as store, ThreadPoolExecutor(1) as pool:
        jobs = [partial(workers.run_calls, url, name, count) for name in others]
        processes = pool.submit(workers.at_once, jobs)
        done = run_concurrently(*(partial(workers.live, store, name, count) for name in names))
        assert done == [None] * 40
        assert processes.result() == [count] * 10
        tools = check_every_transition(store)
    results = sorted(tool.response.result for tool in tools.values())
    assert results == sorted([name, n] for name in names + others for n in range(count))


def test_all_acknowledgements_and_readings_are_true(url: str) -> None:
    """Threads and processes append one and several events; the history that they tell is kept."""
    count, ended = repeated(20), threading.Event()
    own: list[list[Acknowledgement]] = [[] for _ in range(6)]
    with EventStore.open(url) as store, ThreadPoolExecutor(2) as pool:
        follow = store.follow(stop=ended)
        following = pool.submit(list, follow)
        jobs = [partial(workers.append_noted, url, f"process-{n}", count) for n in range(4)]
        processes = pool.submit(workers.at_once, jobs)
        run_concurrently(
            *(
                partial(workers.note_appends, store, notes, f"thread-{n}", count)
                for n, notes in enumerate(own)
            )
        )
        notes = [note for some in own + processes.result() for note in some]
        ended.set()
        seen = [*following.result(), *store.follow(follow.cursor, timeout=0)]
        workers.check_messages(store, notes, seen)
    assert len([note for note in notes if note.places]) == 10 * count


def test_one_of_the_processes_that_race_for_an_attempt_gets_it(url: str) -> None:
    """Each attempt of each call starts once."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        call_ids = [chat.request("pay", {"n": n}).id for n in range(repeated(15))]
        for attempt in (1, 2):
            got = workers.at_once([partial(workers.start_all, url, attempt, call_ids)] * 8)
            assert not [one for one in got if isinstance(one, Exception)]
            assert Counter(call_id for one in got for call_id in one) == Counter(call_ids)
        tools = check_every_transition(store)
    assert [tool.attempts for tool in tools.values()] == [2] * len(call_ids)


def test_threads_and_processes_race_for_one_call(url: str) -> None:
    """The store's state in memory is updated with the other processes' events."""
    with EventStore.open(url) as store, ThreadPoolExecutor(1) as pool:
        chat = store.conversation("chat")
        call_ids = [chat.request("pay", {"n": n}).id for n in range(repeated(20))]
        job = partial(workers.start_all, url, 1, call_ids)
        processes = pool.submit(workers.at_once, [job] * 3)

        def start(mine: list[str]) -> None:
            for call_id in call_ids:
                try:
                    chat.start(call_id, attempt=1)
                except IllegalTransition:
                    continue
                mine.append(call_id)

        ours: list[list[str]] = [[], [], []]
        run_concurrently(*(partial(start, mine) for mine in ours))
        got = ours + processes.result()
        check_every_transition(store)
    assert Counter(call_id for one in got for call_id in one) == Counter(call_ids)


@pytest.mark.parametrize("there", ["nothing", "an empty database"])
def test_processes_that_create_one_file_at_once_all_use_it(
    tmp_path: Path, url: str, there: str
) -> None:
    """However many processes find no store, one is created, and no event is lost."""
    for number in range(repeated(2)):
        path = tmp_path / f"{number}.db"
        if there == "an empty database":
            connection = sqlite.driver().connect(str(path))
            connection.execute("PRAGMA user_version = 1")
            connection.close()
        jobs = [partial(workers.open_and_append, f"sqlite:///{path}", n) for n in range(10)]
        epochs = workers.at_once(jobs)
        with EventStore.open(f"sqlite:///{path}") as store:
            assert set(epochs) == {store.read().cursor.epoch}
            assert sorted(store.conversations()) == [(f"chat-{n}", 2) for n in range(10)]
            assert list(store.verify()) == []
    assert {path.suffix for path in tmp_path.iterdir()} == {".db"}
