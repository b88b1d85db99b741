"""Appends that wait for one another go into one commit, each with its own outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, IllegalTransition, StorageError, Tool, VersionConflict
from eventstore.errors import StoreBusy
from eventstore.storage import Append, Appended, Storage
from eventstore.task import Task
from eventstore.testing import completed, message, pending, running


class Gate:
    """A storage that holds the first append back until enough others wait."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.groups: list[int] = []
        self.fail: BaseException | None = None
        self.after = False
        self.tried: list[str] = []
        self.refuse: Callable[[str], Exception | None] = lambda _: None
        self.inside, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def append(self, request: Append) -> Appended:
        """One append."""
        if not self.inside.is_set():
            self.inside.set()
            assert self.go.wait(30)
        self.tried.append(request.conversation_id)
        error = self.refuse(request.conversation_id)
        if error is not None:
            raise error
        return self.storage.append(request)

    def append_all(self, requests: Sequence[Append]) -> list[Appended | Exception]:
        """Appends together; or an error, before they are stored or after it."""
        self.groups.append(len(requests))
        error, self.fail = self.fail, None
        if error is not None and not self.after:
            raise error
        done = self.storage.append_all(requests)
        if error is not None:
            raise error
        return done


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    """A store."""
    with EventStore.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        yield store


@pytest.fixture
def gate(store: EventStore) -> Gate:
    """The store's storage, with a gate."""
    gate = Gate(store._storage)
    store.appender._storage = gate  # type: ignore[assignment]
    return gate


def queued(store: EventStore, gate: Gate, *jobs: Callable[[], Any]) -> list[Any]:
    """What the jobs gave or raised: carried out after all had queued up, in their order."""
    results: list[Any] = [None] * len(jobs)

    def run(place: int, job: Callable[[], Any]) -> None:
        try:
            results[place] = job()
        except BaseException as error:  # noqa: BLE001 - it is the result
            results[place] = error

    gate.inside.clear()
    gate.go.clear()
    first = threading.Thread(target=lambda: store.conversation("first").append(message()))
    first.start()
    assert gate.inside.wait(30)
    threads = []
    for place, job in enumerate(jobs):
        thread = threading.Thread(target=run, args=(place, job))
        thread.start()
        threads.append(thread)
        while len(store.appender._waiting) <= place:
            assert thread.is_alive()
    gate.go.set()
    for thread in [first, *threads]:
        thread.join(30)
        assert not thread.is_alive()
    appender = store.appender
    assert (appender._led, appender._leader, len(appender._waiting)) == (False, 0, 0)
    assert list(store.verify()) == []
    return results


def test_what_waits_is_committed_at_once(store: EventStore, gate: Gate) -> None:
    """Also for one conversation: in the order in which it was asked for."""
    chats = [store.conversation(name) for name in ("a", "b", "b", "new", "a")]
    results = queued(
        store, gate,
        *(lambda chat=chat, n=n: chat.append(message(str(n)))  # type: ignore[misc]
          for n, chat in enumerate(chats)),
    )  # fmt: skip
    assert gate.groups == [5]
    assert [(r.conversation_id, r.version) for (r,) in results] == [
        ("a", 1), ("b", 1), ("b", 2), ("new", 1), ("a", 2)
    ]  # fmt: skip
    assert [r for r in store.read() if r.conversation_id != "first"] == [r for (r,) in results]
    assert store.conversation("b").append(message())[0].version == 3
    assert store.appender._states.keys() >= {"a", "b", "new"}  # nothing is read again


def test_each_has_its_own_outcome(store: EventStore, gate: Gate) -> None:
    """A refusal writes nothing of its own and keeps nobody else from being stored."""
    chat = store.conversation("chat")
    results = queued(
        store, gate,
        lambda: chat.request("search", {}, "1"),
        lambda: chat.start("1"),
        lambda: chat.start("1"),
        lambda: chat.append(message(), expected_version=7),
        lambda: chat.complete("1", "found"),
        lambda: chat.complete("1", "found"),
        lambda: chat.complete("1", "other"),
        lambda: chat.fail("nobody", "x"),
        lambda: chat.append(running("1")),
    )  # fmt: skip
    assert [type(result) for result in results[:6]] == [
        Tool, Tool, IllegalTransition, VersionConflict, Tool, Tool
    ]  # fmt: skip
    assert [type(r).__name__ for r in results[6:]] == [
        "IllegalTransition", "UnknownCall", "IllegalTransition"
    ]  # fmt: skip
    assert results[4] == results[5]
    assert [r.event.tag for r in chat.events()] == ["pending", "running", "completed"]
    assert gate.groups == [9]
    assert store.appender._states["chat"].settling == {}  # settled calls are in the log
    assert chat.complete("1", "found") == results[4]


def test_a_call_in_one_group_is_shown_as_it_stood(store: EventStore, gate: Gate) -> None:
    """Not as a later append of the group left it; and nobody can change what the store knows."""
    chat = store.conversation("chat")
    asked, started = queued(
        store, gate, lambda: chat.request("search", {"q": ["x"]}, "1"), lambda: chat.start("1")
    )
    assert (asked.status.name, started.status.name) == ("Pending", "Running")
    started.call.arguments["q"].append("y")
    started.status.arguments["q"].append("y")
    assert chat.tools["1"].status.arguments == {"q": ["x"]}
    assert chat.fail("1", "no").call.arguments == {"q": ["x"]}


def test_where_the_group_fails_each_is_tried_alone(store: EventStore, gate: Gate) -> None:
    """So that the guilty one alone is told."""
    chats = [store.conversation(name) for name in ("a", "a", "b")]
    gate.fail = StorageError("somebody's row was wrong")
    results = queued(
        store, gate, *(lambda chat=chat: chat.append(message()) for chat in chats)  # type: ignore[misc]
    )  # fmt: skip
    assert [(r.conversation_id, r.version) for (r,) in results] == [("a", 1), ("a", 2), ("b", 1)]
    assert len(list(store.read())) == 4


def test_a_group_whose_answer_was_lost_is_not_stored_again(store: EventStore, gate: Gate) -> None:
    """Its event ids tell that it was stored."""
    chats = [store.conversation(name) for name in ("a", "a", "b")]
    gate.fail, gate.after = StorageError("no answer"), True
    results = queued(
        store, gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
        lambda: store.conversation("b").request("search", {}, "1"),
    )  # fmt: skip
    assert [(r.conversation_id, r.version) for (r,) in results[:3]] == [
        ("a", 1), ("a", 2), ("b", 1)
    ]  # fmt: skip
    assert [r for r in store.read() if r.conversation_id != "first"][:3] == [
        r for (r,) in results[:3]
    ]
    assert results[3].status.name == "Pending"
    assert len(list(store.read())) == 5


@pytest.mark.parametrize("after", [False, True])
def test_who_leads_may_be_interrupted_and_the_others_get_through(
    store: EventStore, gate: Gate, after: bool
) -> None:
    """Stored or not by then: once."""
    gate.fail, gate.after = KeyboardInterrupt(), after
    chats = [store.conversation(name) for name in ("a", "a", "b")]
    results = queued(
        store, gate, *(lambda chat=chat: chat.append(message()) for chat in chats)  # type: ignore[misc]
    )  # fmt: skip
    assert isinstance(results[0], KeyboardInterrupt)
    versions = [(r.conversation_id, r.version) for (r,) in results[1:]]
    assert versions == ([("a", 2), ("b", 1)] if after else [("a", 1), ("b", 1)])
    assert len(list(store.read())) == 4 - (not after)


@pytest.mark.parametrize("after", [False, True])
def test_who_outlives_an_interrupted_group_may_lead_another(
    store: EventStore, gate: Gate, after: bool
) -> None:
    """What the first has stored is not decided again, with those who have come since."""
    appender = store.appender
    first, second, newcomer = (
        Task(appender, name, lambda _, name=name: (message(name),), None, (), alone=False)  # type: ignore[misc]
        for name in ("a", "b", "new")
    )
    gate.fail, gate.after = KeyboardInterrupt(), after
    with pytest.raises(KeyboardInterrupt):
        appender._lead(first, [second])
    appender.append_together([second, newcomer])
    places = [(r.conversation_id, r.version) for r in second.recorded + newcomer.recorded]
    assert places == [("b", 1), ("new", 1)]
    assert (
        dict(store.conversations()) == {"a": 1, "b": 1, "new": 1} if after else {"b": 1, "new": 1}
    )
    assert list(store.verify()) == []


def test_who_waited_as_long_as_another_does_not_wait_again(
    store: EventStore, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is gone is waited for by one; who asks later tries for himself."""
    monkeypatch.setattr("eventstore.in_vain.LONG", -1)
    gate.fail = StorageError("gone")
    gate.refuse = lambda name: None if name == "first" else StorageError("gone")
    chats = [store.conversation(name) for name in "abcd"]
    ids = ["0192f0c1-2222-7000-8000-000000000001"]
    results = queued(
        store, gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
        lambda: chats[0].append(message(), event_ids=ids),
    )  # fmt: skip
    assert [(type(result), str(result)) for result in results] == [(StorageError, "gone")] * 5
    assert len({id(result) for result in results}) == 5
    assert gate.tried == ["first", "a"]
    with pytest.raises(StorageError, match="gone"):
        chats[1].append(message())
    assert gate.tried == ["first", "a", "b"]
    gate.refuse = lambda _: None
    assert [chat.append(message())[0].version for chat in chats] == [1] * 4


def test_a_lock_is_waited_for_once_in_its_lane(
    store: EventStore, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is of another lane gets through; and all keep their order."""
    monkeypatch.setattr("eventstore.in_vain.LONG", -1)
    gate.fail = StoreBusy("locked")
    gate.refuse = lambda name: StoreBusy("locked") if name in "ab" else None
    gate.lane_of = lambda name: 0 if name in "ab" else 1  # type: ignore[attr-defined]
    chats = [store.conversation(name) for name in "abcca"]
    results = queued(
        store, gate, *(lambda chat=chat: chat.append(message()) for chat in chats)  # type: ignore[misc]
    )  # fmt: skip
    assert gate.tried == ["first", "a", "c", "c"]
    assert [type(result) for result in results] == [StoreBusy, StoreBusy, list, list, StoreBusy]
    assert [results[place][0].version for place in (2, 3)] == [1, 2]


def test_what_fails_at_once_keeps_nobody_from_trying(store: EventStore, gate: Gate) -> None:
    """It may be the event's own fault."""
    gate.fail = StorageError("too large")
    gate.refuse = lambda name: StorageError("too large") if name == "a" else None
    chats = [store.conversation(name) for name in "aab"]
    results = queued(
        store, gate, *(lambda chat=chat: chat.append(message()) for chat in chats)  # type: ignore[misc]
    )  # fmt: skip
    assert [type(result) for result in results] == [StorageError, StorageError, list]
    assert gate.tried == ["first", "a", "a", "b"]


def test_what_looks_into_the_log_goes_alone(store: EventStore, gate: Gate) -> None:
    """Imports and appends under given ids; before or behind the others, each whole."""
    chat = store.conversation("chat")
    given = "0192f0c1-2222-7000-8000-000000000001"
    results = queued(
        store, gate,
        lambda: chat.append(message("plain")),
        lambda: chat.append(message("known"), event_ids=[given]),
        lambda: chat.record({"role": "user", "content": "hello"}),
        lambda: chat.append(message("plain")),
    )  # fmt: skip
    assert gate.groups == [2]
    assert [r[0].version for r in (results[0], results[3], results[1])] == [1, 2, 3]
    assert chat.version == 4


def test_others_writes_are_seen_by_every_one_of_a_group(
    store: EventStore, gate: Gate, tmp_path: Path
) -> None:
    """Another process wrote between: what was decided on is what stands there."""
    chat = store.conversation("chat")
    chat_two = store.conversation("two")
    gate.go.set()
    chat.append(pending("1"))
    chat_two.append(message())
    with EventStore.open(f"sqlite:///{tmp_path / 'agent.db'}") as other:
        other.conversation("chat").start("1")
        other.conversation("two").append(message())
        results = queued(
            store, gate,
            lambda: chat.append(completed("1")),
            lambda: chat.append(message()),
            lambda: chat_two.append(message()),
        )  # fmt: skip
        assert [r[0].version for r in results] == [3, 4, 3]
        assert [r.event.tag for r in other.conversation("chat").events()] == [
            "pending", "running", "completed", "message"
        ]  # fmt: skip
