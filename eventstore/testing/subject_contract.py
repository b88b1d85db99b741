"""The guarantees of the index of subjects over every storage, as a test suite."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from eventstore.errors import WrongKey
from eventstore.storage.interface import Storage
from eventstore.store import EventStore
from eventstore.subjects.keys import KEY_BYTES, SubjectKey
from eventstore.subjects.secret import SubjectSecret
from eventstore.testing.appending import text_of
from eventstore.testing.builders import completed, message, pending, running
from eventstore.testing.clock import FrozenClock
from eventstore.testing.concurrency import run_concurrently
from eventstore.testing.fixtures import ContractFixtures

SECRET = SubjectSecret(bytes(range(32)))


class KeysInMemory:
    """Keys that are kept nowhere."""

    def __init__(self) -> None:
        self.held: dict[str, SubjectKey] = {}

    def key_for(self, subject: str) -> SubjectKey:
        """Return the key of a subject, made if there is none."""
        return self.held.setdefault(subject, SubjectKey(uuid4().hex, os.urandom(KEY_BYTES)))

    def key(self, key_id: str) -> bytes | None:
        """Return a key by its id."""
        return dict(self.held.values()).get(key_id)

    def destroy(self, subject: str) -> None:
        """Destroy the key of a subject."""
        self.held.pop(subject, None)


class SubjectContract(ContractFixtures):
    """The persons that events are about are stored with them, found again, and forgotten."""

    @pytest.fixture
    def tagging(self, storage: Storage, clock: FrozenClock) -> EventStore:
        """Return a store that tags events."""
        return EventStore(storage, clock, subjects=SECRET)

    def found(self, store: EventStore, subject: str) -> dict[str, tuple[int, ...]]:
        """Return the versions that are about a subject, by conversation."""
        index = store.session.storage.subjects
        return {each.conversation_id: each.versions for each in index.find(SECRET.digest(subject))}

    def test_events_are_tagged_as_they_are_appended(self, tagging: EventStore) -> None:
        """One, several in a row, and those that a transaction takes together."""
        chat = tagging.conversation("chat")
        chat.append(message())
        about = chat.about("ann")
        about.append(message("I am Ann"))
        about.append(pending(), running(), completed())
        run_concurrently(
            *(lambda name=name: about.about(name).append(message(name)) for name in "abcd")
        )
        assert self.found(tagging, "ann") == {"chat": (2, 3, 4, 5, 6, 7, 8, 9)}
        (versions,) = self.found(tagging, "a").values()
        assert len(versions) == 1
        assert text_of(next(chat.events(versions[0] - 1))) == "a"
        assert self.found(tagging, "bob") == {}

    def test_a_fork_is_about_the_same_persons(self, tagging: EventStore) -> None:
        """Up to the fork, at the same versions; what is said after it is not."""
        chat = tagging.conversation("chat")
        chat.append(message())
        chat.about("ann").append(message("I am Ann"))
        chat.about("ann").append(message("And again"))
        tagging.tag_subject("bob", "chat")
        chat.fork(2, "copy").append(message("later"))
        assert self.found(tagging, "ann") == {"chat": (2, 3), "copy": (2,)}
        assert self.found(tagging, "bob") == {"chat": (0,), "copy": (0,)}

    def test_stored_events_are_tagged(self, tagging: EventStore) -> None:
        """Some, or a whole conversation, once; what is not there is refused."""
        chat = tagging.conversation("chat")
        chat.append(*(message(str(n)) for n in range(self.more_than_a_chunk)))
        versions = range(1, self.more_than_a_chunk + 1)
        assert tagging.tag_subject("ann", "chat", [2]) == 1
        assert tagging.tag_subject("ann", "chat", versions) == self.more_than_a_chunk - 1
        assert tagging.tag_subject("ann", "chat", versions) == 0
        assert tagging.tag_subject("ann", "chat") == 1
        assert self.found(tagging, "ann") == {"chat": tuple(range(self.more_than_a_chunk + 1))}
        with pytest.raises(ValueError, match=r"'chat' has no version \d+, it ends at"):
            tagging.tag_subject("ann", "chat", [self.more_than_a_chunk + 1])
        with pytest.raises(ValueError, match="'other' has no version 1, it ends at 0"):
            tagging.tag_subject("ann", "other")

    def test_a_subject_is_erased_and_its_tags_go(self, tagging: EventStore) -> None:
        """An event about others, too, is named; an open call is left until it has its end."""
        chat = tagging.conversation("chat")
        chat.append(message("Be kind"))
        chat.about("ann").append(message("I am Ann"))
        chat.about("ann", "bob").append(message("Ann and Bob"))
        chat.about("ann").append(pending("1", q="Ann"))
        whole = tagging.conversation("whole")
        whole.append(message("Ann"), message("Ann"))
        tagging.tag_subject("ann", "whole")

        done = tagging.erase_subject("ann", by="mia")
        assert [(each.conversation_id, each.versions) for each in done.conversations] == [
            ("chat", (2, 3)),
            ("whole", (1, 2)),
        ]
        assert done.conversations[0].shared == (3,)
        assert done.conversations[0].left == {"1": "pending"}
        assert not done.is_complete
        assert self.found(tagging, "ann") == {"chat": (4,)}
        assert self.found(tagging, "bob") == {"chat": (3,)}

        chat.reject("1", "no")
        assert tagging.erase_subject("ann", by="mia").is_complete
        assert self.found(tagging, "ann") == {}
        said = str([each.event for each in tagging.read()])
        assert "Ann" not in said
        assert "Be kind" in said
        assert list(tagging.verify()) == []

    def test_encrypted_events_are_read_with_the_key(
        self, storage: Storage, clock: FrozenClock
    ) -> None:
        """Without it the events are shown as redacted; an erasure destroys it."""
        pytest.importorskip("cryptography")
        keys = KeysInMemory()
        store = EventStore(storage, clock, subjects=SECRET, keys=keys)
        chat = store.conversation("chat", subjects=["ann"])
        written = chat.append(message("I am Ann"), pending(q="Ann"), running(q="Ann"), completed())
        run_concurrently(*(lambda n=n: chat.append(message(f"Ann {n}")) for n in range(3)))
        assert written == list(chat.events())[:4]
        stored = [payload.payload for payload in storage.payloads("chat")]
        assert not [payload for payload in stored if b"Ann" in payload]
        assert list(store.verify()) == []
        held = dict(keys.held)
        keys.held.clear()
        assert "Ann" not in str(list(chat.events()))
        assert all(each.locked for each in chat.events())
        assert list(store.verify()) == []
        keys.held.update(held)
        assert store.erase_subject("ann", by="mia").is_complete
        assert keys.held == {}

    def test_another_secret_is_recognised(self, tagging: EventStore, clock: FrozenClock) -> None:
        """The tags of one secret cannot be found with another one, which is said at once."""
        tagging.conversation("chat", subjects=["ann"]).append(message())
        storage = tagging.session.storage
        EventStore(storage, clock, subjects=SubjectSecret(bytes(range(32))))
        with pytest.raises(WrongKey, match="tagged under another secret"):
            EventStore(storage, clock, subjects=SubjectSecret(bytes(32)))
