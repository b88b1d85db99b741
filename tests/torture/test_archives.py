"""Conversations go to an archive while others write, follow and project, and it is killed at it."""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import workers
from support.storms import Storm
from support.tiers import repeated, rounds

from eventstore import EventStore, UnknownEvent
from eventstore.retention import JSON_LINES, ArchiveForm
from eventstore.testing import message
from projections.exports.parquet import ParquetArchive

if TYPE_CHECKING:
    from support.servers import Server

OLD, EVENTS, FLIPS = 40, 4, 300
MOMENT = timedelta(microseconds=1)


def fill(url: str) -> None:
    """Write conversations that rest."""
    with EventStore.open(url) as store:
        for number in range(OLD):
            chat = store.conversation(f"old-{number}")
            chat.add_message("user", "Where is my order?")
            tool = chat.request("tool0", {"n": number})
            chat.start(tool.id)
            chat.complete(tool.id, 1)


def archive(url: str, folder: Path, pipe: Any) -> None:
    """Archive what rests in small batches, and tell of each step."""
    with EventStore.open(url) as store:
        store.retain(
            MOMENT,
            folder=folder,
            match="old-*",
            dry_run=False,
            batch_events=3 * EVENTS,
            progress=pipe.send,
        )


def check_archives_beside(url: str, folder: Path) -> None:
    """Kill the process that archives several times; then all comes back, and nothing is lost."""
    fill(url)
    chance = random.Random(7)
    with Storm(url) as storm:
        storm.wait_for_appends(400)  # by then the followers have read what rests
        for _ in range(repeated(5)):
            steps = chance.randrange(1, 12)
            with workers.children([partial(archive, url, folder)]) as ((process, pipe),):
                for number, _step in enumerate(workers.received(pipe), 1):
                    if number == steps:
                        process.kill()
            storm.wait_for_appends()
        with EventStore.open(url) as store:
            done = store.retain(MOMENT, folder=folder, match="old-*", dry_run=False)
            archived = list(store.archived())
            assert {each.conversation_id for each in archived} == {f"old-{n}" for n in range(OLD)}
            assert done.unused == ()
            places = {each.place for each in archived}
            assert {str(path) for path in folder.iterdir()} == places
            assert list(store.verify_archives()) == []
            assert list(store.verify()) == []
            for place in places:
                store.restore(place)
            assert list(store.archived()) == []
        storm.wait_for_appends()
    storm.check(others=lambda each: each.conversation_id.startswith("old"))
    with EventStore.open(url) as store:
        for number in range(OLD):
            assert store.conversation(f"old-{number}").version == EVENTS + 2
        assert list(store.verify()) == []


@pytest.mark.slow
def test_archives_beside_writers_of_a_file_lose_nothing(tmp_path: Path) -> None:
    """Acknowledged events are stored; followers and tables have all events once."""
    folder = tmp_path / "archive"
    folder.mkdir()
    check_archives_beside(f"sqlite:///{tmp_path / 'agent.db'}", folder)


@pytest.mark.slow
def test_archives_beside_writers_on_a_server_lose_nothing(server: Server, tmp_path: Path) -> None:
    """The same, with as many lanes as a server's log has."""
    check_archives_beside(server.database(migrated=True), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", [JSON_LINES, ParquetArchive()], ids=["jsonl", "parquet"])
def test_every_flipped_bit_of_an_archive_is_reported_or_means_nothing(
    tmp_path: Path, form: ArchiveForm
) -> None:
    """The check names it, and nothing is restored; or each line reads as it was written."""
    with EventStore.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        chat = store.conversation("old")
        chat.append(message("Where is it? \u00fc"), event_ids=[bytes(range(16)).hex()])
        for number in range(3):
            tool = chat.request("find", {"order": number, "why": "\u00fc" * 40})
            chat.start(tool.id)
            chat.complete(tool.id, {"at": "sea"})
        store.redact("old", by="mia", versions=[1])
        store.redact("old", by="mia", calls=[tool.id])
        chat.append(UnknownEvent("of_another_program", 1, '{ "a" : 1.0 }'))
        done = store.retain(MOMENT, folder=tmp_path, dry_run=False, form=form)
        path = Path(done.files[0])
        whole, lines, chance = path.read_bytes(), list(form.read(path)), random.Random(5)
        silent: list[tuple[int, int]] = []
        for _ in range(rounds(FLIPS, FLIPS)):
            place, bit = chance.randrange(len(whole)), chance.randrange(8)
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            if list(store.verify_archives(form)):
                with pytest.raises(ValueError, match=path.name):
                    store.restore(path, form=form)
            elif list(form.read(path)) != lines:
                silent.append((place, bit))
        assert silent == []
        path.write_bytes(whole)
        assert store.restore(path, form=form).events == len(lines)
        assert list(store.verify()) == []
