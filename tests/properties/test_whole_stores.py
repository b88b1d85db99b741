"""Whatever was done to a store, it is not taken for one of which only a part was restored."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from support.storages import sql_storage_of
from support.tiers import examples

from eventstore import ConversationArchived, EventStore, RedactionRefused
from eventstore.backup import backup, restore_events, stored_events
from eventstore.migrate import REVISIONS, move
from eventstore.testing import FrozenClock, message

NAMES = ("a", "b", "c")
ACTS = (
    "say",
    "say with an id",
    "call",
    "call that stays open",
    "import",
    "fork",
    "redact all",
    "redact calls",
    "redact texts",
    "retain payloads",
    "archive",
    "restore",
    "copy",
    "back up",
    "down and up",
)
walks = st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from(NAMES)), max_size=12)


class House:
    """A store in a folder, whose clock goes on by a day with each act."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "agent.db"
        self.url = f"sqlite:///{self.path}"
        self.clock = FrozenClock()
        self.number = 0
        self.is_redacted = False

    def opened(self) -> EventStore:
        """Return the store as a new process opens it."""
        return EventStore.open(self.url, clock=self.clock)

    def act(self, what: str, name: str) -> None:
        """Do something to the store, or nothing where the conversation is not for that."""
        self.number += 1
        self.clock.advance(86_400)
        self.is_redacted |= what.startswith(("redact", "retain"))
        if what == "down and up":
            self._move()
            return
        if what == "back up":
            copy = self.folder / f"copy{self.number}.db"
            backup(self.url, copy)
            self.path.unlink()
            copy.rename(self.path)
            return
        with self.opened() as store:
            if what == "restore":
                for file in sorted(self.folder.glob("*/*.jsonl*")):
                    store.restore(file)
                return
            with suppress(ConversationArchived, RedactionRefused):
                self._write(store, what, name)

    def _move(self) -> None:
        """Take the schema down and up, as a store of an older version comes to this one.

        Before 0003 there were no salts: a marker that tells of one stays as it is.
        """
        older = "0003" if self.is_redacted else REVISIONS[self.number % len(REVISIONS)]
        move(self.url, older)
        move(self.url)

    def _write(self, store: EventStore, what: str, name: str) -> None:
        chat = store.conversation(name)
        match what:
            case "say":
                chat.add_message("user", "hello")
            case "say with an id":
                chat.append(message("hello"), event_ids=[UUID(int=self.number)])
            case "call":
                chat.complete(chat.request("pay", {"n": self.number % 2}).id, "paid")
            case "call that stays open":
                chat.request("pay", {"n": self.number})
            case "import":
                said = {"role": "user", "content": f"number {self.number}"}
                chat.record_messages([said], "openai")
            case "fork":
                if chat.version:
                    chat.fork(chat.version, f"fork-{self.number}")
            case "copy":
                copied = list(stored_events(store, name))
                if copied:
                    other = EventStore.open(f"sqlite:///{self.folder / f'{self.number}.db'}")
                    with other:
                        restore_events(other, copied)
                        assert_whole(other)
            case "redact all":
                if chat.version:
                    store.redact(name, by="mia", whole=True)
            case "redact calls":
                ended = [call for call, tool in chat.tools.items() if tool.is_resolved]
                if ended:
                    store.redact(name, by="mia", calls=ended)
            case "redact texts":
                store.redact_everywhere("hello", by="mia")
            case "retain payloads":
                store.retain(timedelta(days=2), only="payloads", dry_run=False)
            case "archive":
                folder = self.folder / f"{self.number}"
                folder.mkdir()
                store.retain(timedelta(days=1), folder=folder, match=name, dry_run=False)


def assert_whole(store: EventStore) -> None:
    """Assert that no lane is taken for one that lacks a part, however closely it is looked at."""
    storage = sql_storage_of(store)
    whole, connections = storage.log.seen.whole, storage.connections
    for lane in storage.log.lanes:
        with connections.transaction() as cursor:
            head = storage.log.counters.lock_known(cursor, lane)
            if head:
                whole._ask_events(cursor, lane)
        assert lane in whole.proven


@settings(max_examples=examples(15), deadline=None)
@given(walk=walks)
def test_a_sound_store_is_whole(walk: list[tuple[str, str]]) -> None:
    """A new process looks at it after each act, and appends, with an id of its own, too."""
    with tempfile.TemporaryDirectory() as folder:
        house = House(Path(folder))
        for what, name in [("say", "a"), *walk]:
            house.act(what, name)
            with house.opened() as store:
                assert list(store.verify()) == []
                assert_whole(store)
            with house.opened() as store:
                given = UUID(int=1000 + house.number)
                store.conversation("looked at").append(message("more"), event_ids=[given])
