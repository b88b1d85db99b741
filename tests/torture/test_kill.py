"""Processes are killed while they write; what was acknowledged is there."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import workers

from eventstore import EventStore


def acknowledged(pipe: Any, enough: int, told: dict[int, str]) -> None:
    """Take note of what the process was told is stored, until that is enough."""
    for batch in workers.received(pipe):
        told.update(batch)
        if len(told) >= enough:
            return


def check(url: str, told: dict[int, str]) -> int:
    """Nothing acknowledged is lost, no version is missing, nothing is damaged."""
    with EventStore.open(url) as store:
        assert list(store.verify()) == []  # SQLite's own integrity check, too
        events: dict[int, Any] = {r.version: r.event for r in store.conversation("chat").events()}
    assert list(events) == list(range(1, len(events) + 1))
    for version, text in told.items():
        assert events[version].parts[0].text.split()[0] == text
    return len(events)


@pytest.mark.parametrize("seed", range(workers.LONG))
def test_a_killed_writer_loses_nothing_that_it_was_told_is_stored(
    tmp_path: Path, seed: int
) -> None:
    """Kill -9 at random moments, again and again on one file, the other writer going on."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    chance = random.Random(seed)
    told: dict[int, str] = {}
    stored = 0
    for number in range(30):
        jobs = [partial(workers.append_without_end, url, n) for n in (number, -number - 1)]
        with workers.children(jobs[: 1 + number % 2]) as spawned:
            for process, pipe in spawned:
                acknowledged(pipe, len(told) + chance.randint(1, 25), told)
                time.sleep(chance.random() / 200)  # a random moment; nothing is waited for
                process.kill()
                process.join()
                acknowledged(pipe, 2**60, told)
        stored = check(url, told)
    assert stored >= len(told) >= 30


def test_the_first_moments_of_a_file_survive_a_kill(tmp_path: Path) -> None:
    """There is no file, or a whole one; and the next writer can go on with it."""
    chance = random.Random(7)
    for number in range(8 * workers.LONG):
        path = tmp_path / f"{number}.db"
        url = f"sqlite:///{path}"
        with workers.children([partial(workers.append_without_end, url, 1)]) as ((process, _),):
            time.sleep(chance.random() / 25)
            process.kill()
            process.join()
        with EventStore.open(url) as store:
            version = store.conversation("chat").version
            workers.live(store, "next", 1)
            assert store.conversation("chat").version == version + 3
            assert list(store.verify()) == []
