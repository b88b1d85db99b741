"""Events are redacted, erased, archived, brought back and sealed while others write and follow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import workers
from support.storms import CONVERSATIONS, Storm
from support.tiers import repeated

from eventstore import (
    ConversationArchived,
    EventsArchived,
    EventsRestored,
    EventStore,
    PayloadsRedacted,
    RedactionRefused,
    SubjectSecret,
)
from eventstore.domain.redaction import is_marker
from eventstore.seals import FileAnchor, SigningKey, check

if TYPE_CHECKING:
    from support.servers import Server

Redacted = tuple[str, str]
"""A conversation and a call of it."""

KEY = SigningKey("example.com/agents", bytes(range(32)))
SECRET = SubjectSecret(bytes(range(32)))
OLD, PEOPLE = 24, 4
MOMENT = timedelta(microseconds=1)
RECORDS = PayloadsRedacted | EventsArchived | EventsRestored


def fill(url: str) -> None:
    """Write conversations that rest, each about one person."""
    with EventStore.open(url, subjects=SECRET) as store:
        for number in range(OLD):
            chat = store.conversation(f"old-{number}", subjects=[f"person-{number % PEOPLE}"])
            chat.add_message("user", "Where is my order?")
            tool = chat.request("tool0", {"n": number})
            chat.start(tool.id)
            chat.complete(tool.id, 1)


def redact_without_end(url: str, seed: int, pipe: Any) -> None:
    """Redact calls that are over, one after the other, and tell of each that is done."""
    chance = random.Random(seed)
    with EventStore.open(url) as store:
        while True:
            name = chance.choice([name for name, _ in store.conversations()])
            try:
                tools = store.conversation(name).tools.values()
                over = [tool.id for tool in tools if tool.is_resolved]
                if over:
                    call_id = chance.choice(over)
                    store.redact(name, by="mia", calls=[call_id])
                    pipe.send((name, call_id))
            except (RedactionRefused, ConversationArchived):
                continue


def erase_without_end(url: str, seed: int, pipe: Any) -> None:
    """Tag messages of the writers, and erase the persons that they are about."""
    chance = random.Random(seed)
    with EventStore.open(url, subjects=SECRET) as store:
        while True:
            person = f"person-{chance.randrange(PEOPLE)}"
            name = f"chat-{chance.randrange(CONVERSATIONS)}"
            with suppress(ValueError):  # it has not begun
                store.tag_subject(person, name, [1, chance.randrange(1, 50)])
            pipe.send(len(store.erase_subject(person, by="mia").conversations))


def archive_without_end(url: str, folder: Path, pipe: Any) -> None:
    """Archive what rests in small batches, and tell of each step."""
    with EventStore.open(url) as store:
        while True:
            store.retain(
                MOMENT,
                folder=folder,
                match="old-*",
                dry_run=False,
                batch_events=20,
                progress=pipe.send,
            )
            pipe.send("done")


def restore_without_end(url: str, pipe: Any) -> None:
    """Bring back what is archived, file by file, and remove the files."""
    with EventStore.open(url) as store:
        while True:
            places = {each.place for each in store.archived()}
            for place in places:
                store.restore(place)
                Path(place).unlink()
            pipe.send(len(places))


def seal_without_end(url: str, path: Path, pipe: Any) -> None:
    """Seal again and again, and hand each note to a file."""
    with EventStore.open(url) as store:
        while True:
            pipe.send(len(store.seal(KEY, anchors=[FileAnchor(path)])))


def check_forgetting_beside(url: str, folder: Path) -> None:
    """Kill all that forget, at any moment: what they told stays, and nothing else is lost."""
    chance = random.Random(7)
    notes, archives, done = folder / "notes", folder / "archives", set[Redacted]()
    archives.mkdir()
    fill(url)
    with Storm(url) as storm:
        storm.wait_for_appends(400)  # by then the followers have read what rests
        for number in range(repeated(4)):
            jobs: list[Callable[..., object]] = [
                partial(redact_without_end, url, number),
                partial(erase_without_end, url, number),
                partial(archive_without_end, url, archives),
                partial(restore_without_end, url),
                partial(seal_without_end, url, notes),
            ]
            with workers.children(jobs) as spawned:
                for process, pipe in chance.sample(spawned, len(spawned)):
                    messages = [pipe.recv() for _ in range(chance.randrange(1, 6))]
                    process.kill()
                    messages += workers.received(pipe)
                    done |= {each for each in messages if isinstance(each, tuple)}
            with EventStore.open(url) as store:
                assert list(store.verify()) == []
            storm.wait_for_appends()
        with EventStore.open(url) as store:
            store.retain(MOMENT, folder=archives, match="old-*", dry_run=False)
            assert len(list(store.archived())) == OLD
            assert list(store.verify_archives()) == []
            for place in {each.place for each in store.archived()}:
                store.restore(place)
        storm.wait_for_appends()
    storm.check(
        others=lambda each: (
            isinstance(each.event, RECORDS) or each.conversation_id.startswith("old")
        )
    )
    with EventStore.open(url, subjects=SECRET) as store:
        for person in range(PEOPLE):
            assert store.erase_subject(f"person-{person}", by="mia").is_complete
        check_what_is_forgotten(store, done)
        seals = store.seal(KEY, anchors=[FileAnchor(notes)])
        kept = notes.read_text("utf-8", "replace")
        checked = check(store, kept, [KEY.verifier])
        assert (checked.findings, checked.without_note) == ([], ())
        assert seals
        assert list(store.verify()) == []


def check_what_is_forgotten(store: EventStore, done: set[Redacted]) -> None:
    """Assert that what is recorded as redacted is, with all that was told, and about a person."""
    recorded: dict[str, set[int]] = {}
    calls: Counter[tuple[str, str | None]] = Counter()
    for each in store.redactions():
        assert isinstance(each.event, PayloadsRedacted)
        payloads = each.event.payloads
        recorded.setdefault(each.conversation_id, set()).update(one.version for one in payloads)
        calls.update((each.conversation_id, one.call_id) for one in payloads)
    assert done <= calls.keys()
    for name, versions in recorded.items():
        stored = store.session.storage.payloads(name)
        there = {each.version for each in stored if is_marker(each.payload)}
        assert there == versions
        if name.startswith("old"):
            assert there >= {1, 2, 4}


@pytest.mark.slow
def test_forgetting_beside_writers_of_a_file_loses_nothing_else(tmp_path: Path) -> None:
    """Followers and tables are told of each; acknowledged events are stored, or are forgotten."""
    check_forgetting_beside(f"sqlite:///{tmp_path / 'agent.db'}", tmp_path)


@pytest.mark.slow
def test_forgetting_beside_writers_on_a_server_loses_nothing_else(
    server: Server, tmp_path: Path
) -> None:
    """The same, with as many lanes as a server's log has."""
    check_forgetting_beside(server.database(migrated=True), tmp_path)
