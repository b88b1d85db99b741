"""Sealers that are killed at any moment, beside each other and a writer: no seal is ever lost."""

from __future__ import annotations

import random
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import workers
from support.storms import Storm
from support.tiers import examples, repeated

from eventstore import EventStore
from eventstore.seals import FileAnchor, SigningKey, check, notes_in

if TYPE_CHECKING:
    from support.servers import Server

KEY = SigningKey("example.com/agents", bytes(range(32)))


def seal_without_end(url: str, path: str, pipe: Connection) -> None:
    """Seal again and again, and hand each note to a file; tell when one is there."""
    with EventStore.open(url) as store:
        while True:
            seals = store.seal(KEY, anchors=[FileAnchor(path)])
            pipe.send([each.size for each in seals])


@pytest.mark.slow
def test_no_seal_is_lost_to_a_kill(tmp_path: Path) -> None:
    """Each note that was handed out is in the database; the next sealer continues from it."""
    url, chance = f"sqlite:///{tmp_path / 'log.db'}", random.Random(7)
    with EventStore.open(url) as store:
        store.conversation("chat").add_message("user", "begin")
    paths = [tmp_path / "one", tmp_path / "two"]
    for _ in range(examples(6)):
        jobs = [partial(seal_without_end, url, str(path)) for path in paths]
        jobs.append(partial(workers.append_without_end, url, chance.randrange(1 << 30)))
        with workers.children(jobs) as spawned:
            for _ in range(chance.randrange(1, 6)):
                for _, pipe in spawned[:2]:
                    pipe.recv()
            for process, _ in chance.sample(spawned, len(spawned)):
                process.kill()
        with EventStore.open(url) as store:
            seals = list(store.sealable_log.seals(0))
            assert [each.previous for each in seals] == [0, *(each.size for each in seals[:-1])]
            notes = [
                note for path in paths for note in notes_in(path.read_text("utf-8", "replace"))
            ]
            assert {each.note for each in seals} >= set(notes)
            anchors = [FileAnchor(path) for path in paths]
            (last,) = store.seal(KEY, anchors=anchors)
            assert {
                anchor.latest(f"{KEY.name}/{store.sealable_log.epoch}/0") for anchor in anchors
            } == {last.note}
            assert check(store, "\n".join(notes), [KEY.verifier]).findings == []
            assert list(store.verify()) == []


def check_seals_beside(url: str, folder: Path) -> None:
    """Kill two sealers several times while many write; every note is that of the one history."""
    paths = [folder / "one", folder / "two"]
    with Storm(url) as storm:
        for _ in range(repeated(4)):
            jobs = [partial(seal_without_end, url, str(path)) for path in paths]
            with workers.children(jobs) as spawned:
                for _, pipe in spawned:
                    pipe.recv()
                for process, _ in spawned:
                    process.kill()
            storm.wait_for_appends()
    storm.check()
    with EventStore.open(url) as store:
        seals = store.seal(KEY)
        notes = [path.read_text("utf-8", "replace") for path in paths]
        checked = check(store, "\n".join([*notes, *(each.note for each in seals)]), [KEY.verifier])
        assert (checked.findings, checked.without_note) == ([], ())
        assert list(store.verify()) == []


@pytest.mark.slow
def test_sealers_beside_writers_of_a_file_sign_one_history(tmp_path: Path) -> None:
    """Acknowledged events are stored and sealed, and followers miss nothing."""
    check_seals_beside(f"sqlite:///{tmp_path / 'agent.db'}", tmp_path)


@pytest.mark.slow
def test_sealers_beside_writers_on_a_server_sign_one_history(
    server: Server, tmp_path: Path
) -> None:
    """The same, with as many lanes as a server's log has."""
    check_seals_beside(server.database(migrated=True), tmp_path)
