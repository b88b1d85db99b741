"""Appends that wait for one another go into one commit, each with its own outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

import pytest

from eventstore import (
    EventStore,
    FunctionCall,
    IllegalTransition,
    StorageError,
    StoreClosed,
    Tool,
    ToolPending,
    UnhashableArguments,
    VersionConflict,
)
from eventstore.append.command import PendingAppend
from eventstore.append.commands import messages
from eventstore.append.group_commit import MAX_GROUP_APPENDS, GroupCommitter
from eventstore.errors import OutcomeUnknown, StoreBusy, UnknownCall
from eventstore.session import SessionSettings
from eventstore.storage.factory import open_storage
from eventstore.storage.interface import Append, AppendOutcome, Storage
from eventstore.testing import completed, message, pending, running


class Gate:
    """A storage that holds the first append back until enough others wait."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.groups: list[int] = []
        self.fail: BaseException | None = None
        self.after = False
        self.decided = False
        self.tried: list[str] = []
        self.refuse: Callable[[str], Exception | None] = lambda _: None
        self.is_lasting = True
        self.inside, self.go = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Store one request, or a group."""
        if requests[0].drafts:
            return self.append_one(requests[0])
        return self.append_group(requests)

    def event_id_at(self, conversation_id: str, version: int) -> bytes | None:
        """Return the id of an event; where that is not there for good, raise an error."""
        if not self.is_lasting:
            raise OutcomeUnknown("no standby", ("an id",))
        return self.storage.event_id_at(conversation_id, version)

    def append_one(self, request: Append) -> list[AppendOutcome]:
        """Store one request; wait for the test, or fail as it asked."""
        if not self.inside.is_set():
            self.inside.set()
            assert self.go.wait(30)
        self.tried.append(request.conversation_id)
        error = self.refuse(request.conversation_id)
        if error is not None:
            raise error
        return self.storage.append([request])

    def append_group(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Store the group, or raise an error before or after it is stored."""
        self.groups.append(len(requests))
        error, self.fail = self.fail, None
        if error is not None and not self.after:
            if self.decided:
                for request in requests:
                    request.rebase(())
            raise error
        done = self.storage.append(requests)
        if error is not None:
            raise error
        return done


@pytest.fixture
def settings() -> SessionSettings:
    """Return the settings of the store."""
    return SessionSettings()


every_failure_is_a_wait = pytest.mark.parametrize(
    "settings", [SessionSettings(min_shared_wait=-1)], ids=[""]
)


@pytest.fixture
def store(tmp_path: Path, settings: SessionSettings) -> Iterator[EventStore]:
    """Return a store."""
    storage = open_storage(f"sqlite:///{tmp_path / 'agent.db'}", "", "full", 30.0)
    with EventStore(storage, settings=settings) as store:
        yield store


@pytest.fixture
def gate(store: EventStore) -> Gate:
    """Put a gate around the store's storage and return it."""
    gate = Gate(store.session.storage)
    store.session.committer.storage = gate  # type: ignore[assignment]
    return gate


def queued(store: EventStore, gate: Gate, *jobs: Callable[[], Any]) -> list[Any]:
    """Run the jobs after all of them have queued up; return their results or errors in order."""
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
        while len(store.session.committer) <= place:
            assert thread.is_alive()
    gate.go.set()
    for thread in [first, *threads]:
        thread.join(30)
        assert not thread.is_alive()
    assert store.session.committer.idle
    assert list(store.verify()) == []
    return results


def test_waiting_appends_share_one_commit(store: EventStore, gate: Gate) -> None:
    """Appends to one conversation are stored in the order in which they were queued."""
    chats = [store.conversation(name) for name in ("a", "b", "b", "new", "a")]
    results = queued(
        store,
        gate,
        *(
            lambda chat=chat, n=n: chat.append(message(str(n)))  # type: ignore[misc]
            for n, chat in enumerate(chats)
        ),
    )
    assert gate.groups == [5]
    assert [(r.conversation_id, r.version) for (r,) in results] == [
        ("a", 1),
        ("b", 1),
        ("b", 2),
        ("new", 1),
        ("a", 2),
    ]
    assert [r for r in store.read() if r.conversation_id != "first"] == [r for (r,) in results]
    assert store.conversation("b").append(message())[0].version == 3
    remembered = map(store.session.committer.remembered_state, ("a", "b", "new"))
    assert [state.version for state in remembered] == [2, 3, 1]  # nothing is read again


def test_a_repeated_append_is_acknowledged_where_the_first_one_lasts(
    store: EventStore, gate: Gate
) -> None:
    """Alone or in a group, an append that stores nothing repeats what may yet be taken back."""
    chat = store.conversation("chat")
    gate.go.set()
    chat.request("search", {}, "1")
    gate.is_lasting = False
    with pytest.raises(OutcomeUnknown, match=r"no standby: .* append them again later"):
        chat.request("search", {}, "1")
    same, other, same_again = queued(
        store,
        gate,
        lambda: chat.request("search", {}, "1"),
        lambda: chat.request("search", {}, "2"),
        lambda: chat.request("search", {}, "1"),
    )
    assert isinstance(same, OutcomeUnknown)
    assert other.id == "2"
    assert isinstance(same_again, OutcomeUnknown)
    assert not same.event_ids
    assert not same_again.event_ids
    gate.is_lasting = True
    assert chat.request("search", {}, "1").id == "1"
    assert chat.version == 2


def test_a_group_has_a_limit(store: EventStore) -> None:
    """Transactions have a bounded size; the other appends are left to the next one."""
    committer = store.session.committer
    own, *others = (
        PendingAppend(committer.clock, committer.events, messages.append("chat", ()))
        for _ in range(MAX_GROUP_APPENDS + 2)
    )
    committer._waiting.extend(others)
    assert committer._take_waiting(own) == others[:-1]
    assert [*committer._waiting] == others[-1:]
    committer._waiting.clear()


def test_an_append_that_is_interrupted_leaves_the_queue_to_the_next_one(store: EventStore) -> None:
    """The append would be stored after its caller was told that it was not."""
    committer = store.session.committer
    first, second = (
        PendingAppend(committer.clock, committer.events, messages.append("chat", ()))
        for _ in range(2)
    )
    assert committer._wait(first)  # there is no leader by now
    assert committer._wait(second)
    committer._hand_over(first)
    assert [*committer._waiting] == [second]
    assert second.leads
    committer._hand_over(second)
    assert committer.idle


def test_an_append_repeated_with_the_id_of_the_newest_event_is_stored_once(
    store: EventStore, gate: Gate
) -> None:
    """The library made the id at the time at which the event was recorded."""
    gate.go.set()
    chat = store.conversation("chat")
    (first,) = chat.append(message())
    assert chat.append(message(), event_ids=[first.event_id]) == [first]
    assert chat.version == 1


def test_an_append_of_another_store_decides(tmp_path: Path) -> None:
    """A start that was legal on the known state is refused, and so is a call that nobody made."""
    url = f"sqlite:///{tmp_path}/log.db"
    with EventStore.open(url) as here, EventStore.open(url) as there:
        chat = here.conversation("chat")
        chat.request("search", {}, "1")
        there.conversation("chat").start("1")
        with pytest.raises(IllegalTransition):
            chat.start("1")
        assert chat.tool("1").attempts == 1
        with pytest.raises(UnknownCall):
            chat.tool("2")


def test_each_append_of_a_group_has_its_own_outcome(store: EventStore, gate: Gate) -> None:
    """A refused append writes nothing, and the others are stored."""
    chat = store.conversation("chat")
    results = queued(
        store,
        gate,
        lambda: chat.request("search", {}, "1"),
        lambda: chat.start("1"),
        lambda: chat.start("1"),
        lambda: chat.append(message(), expected_version=7),
        lambda: chat.complete("1", "found"),
        lambda: chat.complete("1", "found"),
        lambda: chat.complete("1", "other"),
        lambda: chat.fail("nobody", "x"),
        lambda: chat.append(running("1")),
    )
    assert [type(result) for result in results[:6]] == [
        Tool,
        Tool,
        IllegalTransition,
        VersionConflict,
        Tool,
        Tool,
    ]
    assert [type(r).__name__ for r in results[6:]] == [
        "IllegalTransition",
        "UnknownCall",
        "IllegalTransition",
    ]
    assert results[4] == results[5]
    assert [r.event.tag for r in chat.events()] == ["pending", "running", "completed"]
    assert gate.groups == [9]
    state = store.session.committer.remembered_state("chat")
    assert state.version == 3
    assert state.settled_uncommitted == {}  # settled calls are in the log
    assert chat.complete("1", "found") == results[4]


def test_a_call_in_one_group_is_shown_as_it_stood(store: EventStore, gate: Gate) -> None:
    """Each append returns its own state of the call, and callers cannot change the store's copy."""
    chat = store.conversation("chat")
    asked, started = queued(
        store, gate, lambda: chat.request("search", {"q": ["x"]}, "1"), lambda: chat.start("1")
    )
    assert (asked.status.name, started.status.name) == ("Pending", "Running")
    started.call.arguments["q"].append("y")
    started.status.arguments["q"].append("y")
    assert chat.tools["1"].status.arguments == {"q": ["x"]}
    assert chat.fail("1", "no").call.arguments == {"q": ["x"]}


@pytest.mark.parametrize("decided", [False, True])
def test_where_the_group_fails_each_is_tried_alone(
    store: EventStore, gate: Gate, *, decided: bool
) -> None:
    """Only the append that caused the failure gets the error, whether it came before decisions."""
    gate.decided = decided
    chats = [store.conversation(name) for name in ("a", "a", "b")]
    gate.fail = StorageError("somebody's row was wrong")
    results = queued(
        store,
        gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
    )
    assert [(r.conversation_id, r.version) for (r,) in results] == [("a", 1), ("a", 2), ("b", 1)]
    assert len(list(store.read())) == 4


def test_a_group_whose_answer_was_lost_is_not_stored_again(store: EventStore, gate: Gate) -> None:
    """The group's event ids show that it was stored."""
    chats = [store.conversation(name) for name in ("a", "a", "b")]
    gate.fail, gate.after = StorageError("no answer"), True
    results = queued(
        store,
        gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
        lambda: store.conversation("b").request("search", {}, "1"),
    )
    assert [(r.conversation_id, r.version) for (r,) in results[:3]] == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]
    assert [r for r in store.read() if r.conversation_id != "first"][:3] == [
        r for (r,) in results[:3]
    ]
    assert results[3].status.name == "Pending"
    assert len(list(store.read())) == 5


def test_each_append_of_a_group_learns_why_its_outcome_is_unknown(
    store: EventStore, gate: Gate
) -> None:
    """Its error has the ids of its own events, and the cause that the storage met."""
    gate.fail, gate.after = OutcomeUnknown("no answer"), True
    gate.fail.__cause__ = cause = ConnectionError("reset")
    chats = [store.conversation(name) for name in ("a", "b")]
    results = queued(
        store,
        gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
    )
    for chat, error in zip(chats, results, strict=True):
        assert isinstance(error, OutcomeUnknown)
        assert error.event_ids == tuple(recorded.event_id for recorded in chat.events())
        assert error.__cause__ is cause


def test_an_append_that_is_repeated_with_its_ids_stores_what_is_new(store: EventStore) -> None:
    """The log says which of its events it holds, whatever came between."""
    chat, ids = store.conversation("a"), [uuid4().hex for _ in range(3)]
    events = [message(text) for text in "xyz"]
    chat.append(*events[:2], event_ids=ids[:2])
    chat.append(message())
    for _ in range(2):
        stored = chat.append(*events, event_ids=ids)
        assert [one.version for one in stored] == [1, 2, 4]
        assert [one.event_id for one in stored] == ids
    assert chat.version == 4


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_leader_does_not_stop_the_others(
    store: EventStore, gate: Gate, after: bool
) -> None:
    """Their appends are stored once, whether the group was stored or not."""
    gate.fail, gate.after = KeyboardInterrupt(), after
    chats = [store.conversation(name) for name in ("a", "a", "b")]
    results = queued(
        store,
        gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
    )
    assert isinstance(results[0], KeyboardInterrupt)
    versions = [(r.conversation_id, r.version) for (r,) in results[1:]]
    assert versions == ([("a", 2), ("b", 1)] if after else [("a", 1), ("b", 1)])
    assert len(list(store.read())) == 4 - (not after)


@pytest.mark.parametrize("after", [False, True])
def test_a_member_of_an_interrupted_group_may_lead_the_next_one(
    store: EventStore, gate: Gate, after: bool
) -> None:
    """An append that the first group stored is not decided again."""
    committer = store.session.committer

    def append_to(name: str) -> PendingAppend:
        return PendingAppend(
            store.session.clock, store.session.events, messages.append(name, (message(name),))
        )

    first, second, newcomer = map(append_to, ("a", "b", "new"))
    gate.fail, gate.after = KeyboardInterrupt(), after
    with pytest.raises(KeyboardInterrupt):
        committer._commit(first, [second])
    committer.commit_together([second, newcomer])
    places = [(r.conversation_id, r.version) for r in second.recorded() + newcomer.recorded()]
    assert places == [("b", 1), ("new", 1)]
    assert (
        dict(store.conversations()) == {"a": 1, "b": 1, "new": 1} if after else {"b": 1, "new": 1}
    )
    assert list(store.verify()) == []


@every_failure_is_a_wait
def test_appends_queued_behind_a_timeout_share_it(store: EventStore, gate: Gate) -> None:
    """Only one append waits for a server that is down; an append queued later tries again."""
    gate.fail = StorageError("gone")
    gate.refuse = lambda name: None if name == "first" else StorageError("gone")
    chats = [store.conversation(name) for name in "abcd"]
    ids = ["0192f0c1-2222-7000-8000-000000000001"]
    results = queued(
        store,
        gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
        lambda: chats[0].append(message(), event_ids=ids),
    )
    assert [(type(result), str(result)) for result in results] == [(StorageError, "gone")] * 5
    assert len({id(result) for result in results}) == 5
    assert gate.tried == ["first", "a"]
    with pytest.raises(StorageError, match="gone"):
        chats[1].append(message())
    assert gate.tried == ["first", "a", "b"]
    gate.refuse = lambda _: None
    assert [chat.append(message())[0].version for chat in chats] == [1] * 4


@every_failure_is_a_wait
def test_a_lock_is_waited_for_once_in_its_lane(store: EventStore, gate: Gate) -> None:
    """Appends of another lane are stored meanwhile, and all appends keep their order."""
    gate.fail = StoreBusy("locked")
    gate.refuse = lambda name: StoreBusy("locked") if name in "ab" else None
    gate.lane_of = lambda name: 0 if name in "ab" else 1  # type: ignore[attr-defined]
    chats = [store.conversation(name) for name in "abcca"]
    results = queued(
        store,
        gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
    )
    assert gate.tried == ["first", "a", "c", "c"]
    assert [type(result) for result in results] == [StoreBusy, StoreBusy, list, list, StoreBusy]
    assert [results[place][0].version for place in (2, 3)] == [1, 2]


class Unprintable:
    """An object that nothing can be said about."""

    def __repr__(self) -> str:
        raise RuntimeError("it has no representation")


def nested(depth: int) -> list[Any]:
    """Return a list in a list, so many times."""
    innermost: list[Any] = []
    for _ in range(depth):
        innermost = [innermost]
    return innermost


@pytest.mark.parametrize("value", [Unprintable(), nested(50_000)], ids=["unprintable", "nested"])
def test_refused_values_are_never_formatted(store: EventStore, value: object) -> None:
    """Say why arguments are refused, whatever their `__repr__` does, and stall no other append."""
    chat = store.conversation("a")
    with pytest.raises(UnhashableArguments) as caught:
        chat.request("search", {"query": value})
    assert caught.value.__context__ is caught.value.__cause__
    assert store.session.committer.idle
    call = chat.request("search", {"query": "text"})
    with pytest.raises(UnhashableArguments):
        chat.approve(call.id, {"query": value})
    assert store.session.committer.idle
    with pytest.raises(UnhashableArguments):
        chat.append(ToolPending(FunctionCall(value, {}, "b")))  # type: ignore[arg-type]
    assert store.session.committer.idle


def test_a_failure_without_a_wait_is_not_shared(store: EventStore, gate: Gate) -> None:
    """Such a failure may be caused by the event itself, so each append tries alone."""
    gate.fail = StorageError("too large")
    gate.refuse = lambda name: StorageError("too large") if name == "a" else None
    chats = [store.conversation(name) for name in "aab"]
    results = queued(
        store,
        gate,
        *(lambda chat=chat: chat.append(message()) for chat in chats),  # type: ignore[misc]
    )
    assert [type(result) for result in results] == [StorageError, StorageError, list]
    assert gate.tried == ["first", "a", "a", "b"]


def test_a_closed_store_refuses_whatever_its_storage_would_do(store: EventStore) -> None:
    """A storage that a user brings may not refuse by itself."""
    chat = store.conversation("chat")
    chat.append(pending())
    session = store.session
    session.committer.closed = True
    uses: list[Callable[[], object]] = [
        lambda: chat.append(message()),
        lambda: session.version("chat"),
        lambda: session.tool_now("chat", "1"),
        lambda: session.events("chat"),
    ]
    for use in uses:
        with pytest.raises(StoreClosed, match="open it again with EventStore"):
            use()


def test_exclusive_appends_have_a_commit_of_their_own(store: EventStore, gate: Gate) -> None:
    """Imports and appends with given ids are stored before or after a group, each whole."""
    chat = store.conversation("chat")
    given = "0192f0c1-2222-7000-8000-000000000001"
    results = queued(
        store,
        gate,
        lambda: chat.append(message("plain")),
        lambda: chat.append(message("known"), event_ids=[given]),
        lambda: chat.record({"role": "user", "content": "hello"}),
        lambda: chat.append(message("plain")),
    )
    assert gate.groups == [2]
    assert [r[0].version for r in (results[0], results[3], results[1])] == [1, 2, 3]
    assert chat.version == 4


def test_writes_of_other_processes_are_seen_by_every_append_of_a_group(
    store: EventStore, gate: Gate, tmp_path: Path
) -> None:
    """Each append is decided on the log as it is when the group is stored."""
    chat = store.conversation("chat")
    chat_two = store.conversation("two")
    gate.go.set()
    chat.append(pending("1"))
    chat_two.append(message())
    with EventStore.open(f"sqlite:///{tmp_path / 'agent.db'}") as other:
        other.conversation("chat").start("1")
        other.conversation("two").append(message())
        results = queued(
            store,
            gate,
            lambda: chat.append(completed("1")),
            lambda: chat.append(message()),
            lambda: chat_two.append(message()),
        )
        assert [r[0].version for r in results] == [3, 4, 3]
        assert [r.event.tag for r in other.conversation("chat").events()] == [
            "pending",
            "running",
            "completed",
            "message",
        ]


class NotedLock:
    """The committer's lock; it notes who has to wait for it."""

    def __init__(self, lock: Any, noted: SimpleQueue[str]) -> None:
        self.lock, self.noted = lock, noted

    def __enter__(self) -> None:
        if not self.lock.acquire(blocking=False):
            self.noted.put("waits")
            self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


class NotedStorage:
    """A storage that notes each use of it."""

    def __init__(self, storage: Any, noted: SimpleQueue[str]) -> None:
        self.storage, self.noted = storage, noted

    def __getattr__(self, name: str) -> Any:
        self.noted.put(name)
        return getattr(self.storage, name)


def append_beside(committer: GroupCommitter) -> None:
    """Append an event for which no thread waits."""
    pending = PendingAppend(
        committer.clock, committer.events, messages.append("chat", (message(),))
    )
    committer.commit_together([pending])


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.conversation("chat").append(message()),
        lambda store: append_beside(store.session.committer),
        lambda store: store.session.committer.version("chat"),
        lambda store: store.session.committer.tool_now("chat", "call_1"),
        lambda store: store.session.committer.open_tools("chat", ["call_1"]),
    ],
    ids=["append", "group", "version", "call", "calls"],
)
@pytest.mark.parametrize("settings", [SessionSettings(recheck_interval=0)], ids=[""])
def test_one_thread_at_a_time_uses_the_storage(
    store: EventStore, gate: Gate, use: Callable[[EventStore], Any]
) -> None:
    """A second leader waits until the first append is done; so does who asks for a state."""
    committer = store.session.committer
    gate.inside.set()
    store.conversation("chat").append(pending())
    gate.inside.clear()
    noted: SimpleQueue[str] = SimpleQueue()
    first = threading.Thread(target=lambda: store.conversation("first").append(message()))
    second = threading.Thread(target=use, args=(store,))
    first.start()
    assert gate.inside.wait(30)
    committer._lock = NotedLock(committer._lock, noted)  # type: ignore[assignment]
    committer.storage = NotedStorage(gate, noted)  # type: ignore[assignment]
    second.start()
    try:
        assert noted.get(timeout=30) == "waits"
    finally:
        gate.go.set()
        for thread in (first, second):
            thread.join(30)
    assert list(store.verify()) == []
