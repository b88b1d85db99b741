"""Processes are killed while they write; acknowledged events are stored."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import workers

from eventstore import EventStore


def acknowledged(pipe: Any, enough: int, told: dict[int, str]) -> None:
    """Record what the process reports as stored, until there are enough events."""
    for batch in workers.received(pipe):
        told.update(batch)
        if len(told) >= enough:
            return


def check(url: str, told: dict[int, str]) -> int:
    """Assert that no acknowledged event is lost, no version is missing and nothing is damaged."""
    with EventStore.open(url) as store:
        assert list(store.verify()) == []  # SQLite's own integrity check, too
        events: dict[int, Any] = {r.version: r.event for r in store.conversation("chat").events()}
    assert list(events) == list(range(1, len(events) + 1))
    for version, text in told.items():
        assert events[version].parts[0].text.split()[0] == text
    return len(events)


@pytest.mark.parametrize("seed", range(workers.LONG))
def test_a_killed_writer_loses_no_acknowledged_event(tmp_path: Path, seed: int) -> None:
    """Writers on one file are killed at random moments, while another one continues."""
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
    """There is no file or a whole one, and the next writer can continue."""
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
