"""The guarantees of several stores on one database, as a test suite."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import pytest

from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.events import (
    Recorded,
)
from eventstore.domain.tool import Tool
from eventstore.errors import (
    IllegalTransition,
    VersionConflict,
)
from eventstore.store import EventStore
from eventstore.testing.builders import (
    completed,
    message,
    pending,
    running,
)
from eventstore.testing.clock import FrozenClock
from eventstore.testing.concurrency import run_concurrently
from eventstore.testing.fixtures import MakeStore, OpenStorage
from eventstore.testing.store_contract import EventStoreContract


class SharedEventStoreContract(EventStoreContract):
    """The guarantees for several stores on one database."""

    @pytest.fixture
    def stores(
        self, open_storage: OpenStorage, clock: FrozenClock, make_store: MakeStore
    ) -> tuple[EventStore, ...]:
        """Return three stores on the test's database."""
        return tuple(make_store(open_storage(), clock) for _ in range(3))

    def test_stores_see_each_others_events(self, stores: tuple[EventStore, ...]) -> None:
        """Transitions are checked against the log, not against the memory of a store."""
        one, other, _ = (store.conversation("chat") for store in stores)
        tool = one.request("pay", {"amount": 1})
        other.approve(tool.id, {"amount": 2})
        assert one.start(tool.id).effective_call.arguments == {"amount": 2}
        with pytest.raises(IllegalTransition):
            other.start(tool.id)
        other.complete(tool.id, "paid")
        assert one.version == other.version == 4
        assert one.complete(tool.id, "paid").status.name == "Completed"
        with pytest.raises(IllegalTransition):
            one.fail(tool.id, "late")

    def test_a_decision_on_what_another_store_has_changed_is_refused(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """The person of one store saw the call before the edit of the other one."""
        one, other, _ = (store.conversation("chat") for store in stores)
        seen = one.request("pay", {"amount": 1})
        other.approve(seen.id, {"amount": 2}, seen=str(seen.revision))
        with pytest.raises(CallChanged) as caught:
            one.reject(seen.id, seen=seen)
        assert caught.value.now.effective_call.arguments == {"amount": 2}
        one.approve(seen.id, {"amount": 2}, seen=seen)
        assert one.version == 2

    def test_a_decision_in_one_store_wakes_a_waiter_in_another(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """A follower in a third store is woken, too."""
        agent, person, watcher = stores
        call = agent.conversation("chat").request("pay", {"amount": 1})
        follow = watcher.follow(poll=0.005)
        asked = next(follow)
        tool, _, decided = run_concurrently(
            lambda: agent.conversation("chat").decision(call.id, 30, poll=0.005),
            lambda: person.conversation("chat").approve(call.id, {"amount": 2}, by="ada"),
            lambda: next(follow),
        )
        assert isinstance(decided, Recorded)
        assert (asked.event.tag, decided.event.tag) == ("pending", "approved")
        assert isinstance(tool, Tool)
        assert tool.effective_call.arguments == {"amount": 2}

    def test_the_expected_version_is_checked_against_all_stores(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """Only one of the stores that expect the same version appends."""
        chats = [store.conversation("chat") for store in stores]
        for version in range(4):
            results = run_concurrently(
                *(partial(chat.append, message(), expected_version=version) for chat in chats)
            )
            assert sum(isinstance(r, VersionConflict) for r in results) == len(chats) - 1
        assert [r.version for r in chats[0].events()] == [1, 2, 3, 4]

    def test_the_same_append_through_many_stores_is_stored_once(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """This holds if each store knows another, older state, too."""
        chats = [store.conversation("chat") for store in stores]
        for n in range(3):
            ids = [uuid4(), uuid4()]
            chats[n].append(message("before"))
            version = 3 * n + 1
            both = (message("a"), message("b"))
            results = run_concurrently(
                *(
                    partial(chat.append, *both, event_ids=ids, expected_version=version)
                    for chat in chats
                )
            )
            assert results == [list(chats[0].events(after=version))] * 3
        assert chats[0].version == 9

    def test_an_append_of_one_store_is_repeated_in_another(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """The ids that the first store gave it are found by one that knows nothing of it."""
        one, other, late = (store.conversation("chat") for store in stores)
        first = one.append(message("a"))
        for chat in (other, late):
            again = chat.append(message("a"), event_ids=[event.event_id for event in first])
            assert again == first
            chat.append(message("later"))
        assert one.version == 3

    def test_only_one_of_many_stores_starts_an_attempt(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """Two workers never run the same attempt."""
        chats = [store.conversation("chat") for store in stores]
        for n in range(5):
            tool = chats[n % 3].request("pay", {"n": n})
            results = run_concurrently(*(partial(chat.start, tool.id) for chat in chats))
            assert sum(isinstance(r, IllegalTransition) for r in results) == len(chats) - 1
        assert [t.attempts for t in chats[0].tools.values()] == [1] * 5

    def test_stores_of_different_tenants_share_nothing(
        self, open_storage: OpenStorage, clock: FrozenClock, make_store: MakeStore
    ) -> None:
        """One id means two conversations; a cursor is valid only for its own tenant."""
        acme = make_store(open_storage("acme"), clock)
        other = make_store(open_storage("other"), clock)
        acme.conversation("chat").append(pending(), running())
        assert other.conversation("chat").version == 0
        assert list(other.read()) == []
        other.conversation("chat").append(pending(), completed(attempt=0))
        assert acme.conversation("chat").tools["call_1"].status.name == "Running"
        feed = other.read()
        assert [r.version for r in feed] == [1, 2]
        acme.conversation("chat").append(completed())
        assert list(other.read(feed.cursor)) == []
