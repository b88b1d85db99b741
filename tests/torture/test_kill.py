"""Processes are killed while they write; acknowledged events are stored."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

from support import workers
from support.tiers import repeated

from eventstore import EventStore
from eventstore.testing import Acknowledgement


def hear(pipe: Any, enough: int, notes: list[Acknowledgement]) -> None:
    """Record the notes of a process, until there are enough."""
    for note in workers.received(pipe):
        notes.append(note)
        if len(notes) >= enough:
            return


def test_a_killed_writer_loses_no_acknowledged_event(tmp_path: Path) -> None:
    """Writers on one file are killed at random moments, while another one continues."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    chance = random.Random(0)
    notes: list[Acknowledgement] = []
    stored = 0
    for number in range(repeated(30)):
        jobs = [partial(workers.append_without_end, url, n) for n in (number, -number - 1)]
        with workers.children(jobs[: 1 + number % 2]) as spawned:
            for process, pipe in spawned:
                hear(pipe, len(notes) + chance.randint(2, 50), notes)
                time.sleep(chance.random() / 200)  # a random moment; nothing is waited for
                process.kill()
                process.join()
                hear(pipe, 2**60, notes)
        with EventStore.open(url) as store:
            stored = workers.check_log(store, notes)
    assert stored >= sum(len(note.places or ()) for note in notes) >= repeated(30)


def test_the_first_moments_of_a_file_survive_a_kill(tmp_path: Path) -> None:
    """There is no file or a whole one, and the next writer can continue."""
    chance = random.Random(7)
    for number in range(repeated(8)):
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
