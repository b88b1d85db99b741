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
from support.tiers import repeated

from eventstore import EventStore

if TYPE_CHECKING:
    from support.servers import Server

OLD, EVENTS = 40, 4
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
