"""`EventStore`: opening, reading, and appends beside other writers."""

from __future__ import annotations

import pickle
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import make_url

from eventstore import AsyncEventStore, EventStore, errors
from eventstore.append.command import Command, PendingAppend
from eventstore.append.commands import messages
from eventstore.append.conversation_state import ConversationState
from eventstore.append.event_ids import event_ids
from eventstore.domain.events import MessageAdded, Recorded, UnknownEvent
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    LostPlace,
    StoreClosed,
    StoreFull,
    VersionConflict,
)
from eventstore.session import SessionSettings
from eventstore.storage.interface import Append, AppendOutcome, Damage, Draft, Storage
from eventstore.subscriptions.feed import Cursor
from eventstore.testing import (
    NOON,
    append,
    completed,
    draft,
    forbid_rebase,
    message,
    pending,
    rebase_with,
    run_concurrently,
    running,
)


class Meddler:
    """A storage with another writer at work: `meddle` runs once, before the next call of `verb`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.verb = ""
        self.meddle: Callable[[], object] = lambda: None
        self.calls: list[str] = []

    def before(self, verb: str, meddle: Callable[[], object]) -> None:
        """Set the function that runs before the next call."""
        self.verb, self.meddle = verb, meddle

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.storage, name)
        if not callable(member):
            return member

        def call(*args: Any) -> Any:
            self.calls.append(name)
            if name == self.verb:
                self.verb = ""
                self.meddle()
            return member(*args)

        return call


@pytest.fixture
def meddler(store: EventStore) -> Meddler:
    """Wrap the store's storage and return the wrapper."""
    meddler = Meddler(store.session.storage)
    store.session.committer.storage = meddler  # type: ignore[assignment]
    return meddler


# opening


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"url": "agent.db"}, "'agent.db' is not a database URL: .* write for example sqlite:///"),
        ({"url": ""}, "'' is not a database URL"),
        ({"url": None}, "an object of <class 'NoneType'> is not a database URL"),
        ({"url": "oracle://db"}, "oracle is not supported: use"),
        ({"url": "sqlite+aiosqlite://"}, r"sqlite\+aiosqlite is not supported: use"),
        ({"durability": "maybe"}, "durability is 'maybe': pass 'full' or 'normal'"),
        ({"busy_timeout": -1}, "busy_timeout is -1: pass seconds, from 0 to 1,000,000"),
        ({"busy_timeout": float("nan")}, "busy_timeout is nan: pass seconds"),
        ({"busy_timeout": "3"}, "busy_timeout is '3': pass seconds"),
        ({"tenant": None}, "tenant is None: pass text"),
        ({"tenant": "a\x00b"}, r"tenant 'a\\x00b' has a NUL"),
        ({"tenant": "\ud800"}, "half a surrogate pair: databases cannot hold it"),
    ],
)
def test_a_store_is_opened_with_arguments_that_make_sense(
    arguments: dict[str, Any], complaint: str
) -> None:
    """The error names the value and says what to pass."""
    with pytest.raises(ValueError, match=complaint):
        EventStore.open(**{"url": "sqlite://", **arguments})


@pytest.mark.parametrize("given", ["", None, 7, b"chat"])
def test_a_conversation_id_is_text(store: EventStore, given: Any) -> None:
    """An empty text is refused, too."""
    with pytest.raises(ValueError, match="a conversation id is text and not empty, got"):
        store.conversation(given)


@pytest.mark.parametrize("given", ["a\x00b", "\udfff"])
def test_a_conversation_id_is_text_that_databases_hold(store: EventStore, given: str) -> None:
    """Otherwise two ids could become one."""
    with pytest.raises(ValueError, match="databases cannot hold it"):
        store.conversation(given)


def test_a_store_takes_any_storage(store: EventStore) -> None:
    """The system's clock is used unless another one is given."""
    with EventStore(store.session.storage) as other:
        (recorded,) = other.conversation("chat").append(message())
    assert recorded.recorded_at > NOON


def test_a_store_has_its_url_and_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL is right in another working directory and after closing."""
    monkeypatch.chdir(tmp_path)
    with EventStore.open("sqlite:///agent.db", tenant="acme") as store:
        store.conversation("chat").append(message())
    monkeypatch.chdir("/")
    assert (store.url, store.tenant) == (f"sqlite:///{tmp_path / 'agent.db'}", "acme")
    assert repr(store) == f"<EventStore {store.url!r} of 'acme'>"
    assert repr(AsyncEventStore(store)) == f"<AsyncEventStore {store.url!r} of 'acme'>"
    with EventStore.open(store.url, tenant=store.tenant) as again:
        assert list(again.conversations()) == [("chat", 1)]
    with EventStore.open("sqlite://") as memory:
        shared = AsyncEventStore(memory)
        assert (shared.url, shared.tenant) == ("sqlite://", "")
        assert repr(memory) == "<EventStore 'sqlite://'>"


def test_a_store_is_shown_without_its_password(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's URL has it, so that the store can be opened again."""
    database = make_url("postgresql://ada:s3cret@db.example/agents")
    storage: Any = store.session.storage
    monkeypatch.setattr(storage.backend, "url", database)
    assert store.url == "postgresql://ada:s3cret@db.example/agents"
    assert repr(store) == "<EventStore 'postgresql://ada:***@db.example/agents'>"


# reading


def test_conversations_are_listed_with_their_versions(store: EventStore) -> None:
    """The oldest conversation comes first."""
    store.conversation("b").append(message(), message())
    store.conversation("a").append(message())
    assert list(store.conversations()) == [("b", 2), ("a", 1)]


def test_a_cursor_survives_as_text(store: EventStore) -> None:
    """The parsed text equals the cursor."""
    store.conversation("chat").append(message("a"), message("b"))
    feed = store.read(limit=1)
    next(feed)
    text = str(feed.cursor)
    assert Cursor.parse(text) == feed.cursor
    assert (
        [r.version for r in store.read(text)] == [r.version for r in store.read(feed.cursor)] == [2]
    )
    assert store.read(text).cursor == feed.cursor


@pytest.mark.parametrize("text", ["", "nonsense", "bm9uc2Vuc2U", "{}", "e30", 0, 5, b"x", "ü"])
def test_reading_after_something_else_than_a_cursor_is_refused(
    store: EventStore, text: Any
) -> None:
    """The error names the value; a number is not a position in a store with many lanes."""
    with pytest.raises(ValueError, match="is not a cursor: pass what str"):
        store.read(text)


def test_a_negative_limit_is_refused(store: EventStore) -> None:
    """A limit of 0 is allowed."""
    with pytest.raises(ValueError, match="limit is -1: pass None, 0 or more"):
        store.read(limit=-1)
    assert list(store.read(limit=0)) == []


@pytest.mark.parametrize("text", ["", "x1:", "x2:" + "0" * 32, "x1:" + "g" * 32, None])
def test_reading_something_else_than_a_fingerprint_is_refused(store: EventStore, text: Any) -> None:
    """The error shows the form of a fingerprint."""
    with pytest.raises(ValueError, match="is not a fingerprint"):
        store.read_fingerprint(text)


def test_verify_gives_what_the_storage_found(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sound log has no findings."""
    assert list(store.verify()) == []
    damage = Damage(0, 1, "chat", 1, "broken")
    monkeypatch.setattr(store.session.storage, "verify", lambda: iter([damage]))
    assert list(store.verify()) == [damage]


# ids


def test_event_ids_are_uuids_of_version_7_in_order() -> None:
    """Ids begin with the clock's millisecond, so that they are neighbours in an index."""
    ids = [UUID(bytes=raw) for raw in event_ids(1000, NOON)]
    assert ids == sorted(set(ids))
    for one in ids:
        assert (one.version, one.variant, one.int >> 80) == (
            7,
            "specified in RFC 4122",
            NOON // 1000,
        )


def test_event_ids_of_the_same_moment_differ() -> None:
    """This holds for ids of several generators, too."""
    assert len({event_ids(1, NOON)[0] for _ in range(10_000)}) == 10_000


@pytest.mark.parametrize("at", [-1, 2**80, 1.5, None, "now"])
def test_a_clock_that_returns_no_time_is_named(at: Any) -> None:
    """No event is stored with its value."""
    with EventStore.open("sqlite://", clock=lambda: at) as store:
        chat = store.conversation("chat")
        for count in (1, 2):
            with pytest.raises(
                ValueError, match=r"the clock returned .*: it must return microseconds"
            ):
                chat.append(*[message()] * count)
        assert list(store.read()) == []


# what is remembered between appends


def test_an_append_reads_nothing_when_there_is_no_other_writer(
    store: EventStore, meddler: Meddler
) -> None:
    """An append makes one call of the storage per event."""
    chat = store.conversation("chat")
    chat.append(message())
    meddler.calls.clear()
    tool = chat.request("search")
    chat.start(tool.id)
    chat.complete(tool.id, "found")
    assert meddler.calls == ["append"] * 3


def test_only_the_last_conversations_are_remembered(store: EventStore) -> None:
    """The one used longest ago is dropped, and read again when it is needed."""
    settings = SessionSettings(max_cached_states=2)
    small = EventStore(store.session.storage, settings=settings)

    def remembered() -> list[int]:
        """Return the versions of a, b and c, as far as they are remembered."""
        return [small.session.committer.remembered_state(name).version for name in "abc"]

    for name in ("a", "b", "a", "c"):
        small.conversation(name).append(message())
    assert remembered() == [2, 0, 1]
    assert small.conversation("b").append(message())[0].version == 2
    assert remembered() == [0, 2, 1]


def test_a_refused_decision_is_made_again_on_what_others_wrote(
    store: EventStore, meddler: Meddler
) -> None:
    """An event that was illegal may be legal now, and a repeat may have become a new event."""
    chat = store.conversation("chat")
    chat.append(pending("1"))
    append(meddler.storage, "chat", running("1"), pending("2"), version=1)
    assert chat.complete("1", "found").attempts == 1
    assert chat.start("2").attempts == 1


def test_a_refusal_forgets_nothing(store: EventStore, meddler: Meddler) -> None:
    """The next append has no need to read the conversation again."""
    chat = store.conversation("chat")
    chat.append(pending())
    with pytest.raises(IllegalTransition):
        chat.append(running(attempt=7))
    meddler.calls.clear()
    chat.append(running())
    assert meddler.calls == ["append"]


def test_an_expected_version_is_checked_against_what_others_wrote(
    store: EventStore, meddler: Meddler
) -> None:
    """The version is checked before the append and inside its transaction."""
    chat = store.conversation("chat")
    chat.append(message("a"))
    append(meddler.storage, "chat", message("b"), version=1)
    chat.append(message("c"), expected_version=2)
    meddler.before("append", lambda: append(meddler.storage, "chat", message("d"), version=3))
    with pytest.raises(VersionConflict) as caught:
        chat.append(message("late"), expected_version=3)
    assert (caught.value.expected, caught.value.actual) == (3, 4)
    assert [r.event for r in chat.events()] == [message(text) for text in "abcd"]


def test_a_transition_is_checked_inside_the_transaction(
    store: EventStore, meddler: Meddler
) -> None:
    """A start by another process that is seen only there makes ours illegal."""
    chat = store.conversation("chat")
    chat.append(pending())
    meddler.before("append", lambda: append(meddler.storage, "chat", running(), version=1))
    with pytest.raises(IllegalTransition, match="attempt 1 has no recorded end"):
        chat.start("call_1")
    assert chat.version == 2


def test_a_repeat_that_another_just_stored_is_recognised(
    store: EventStore, meddler: Meddler
) -> None:
    """This holds at whatever moment the other append was stored."""
    chat = store.conversation("chat")
    for verb in ("known_ids", "append", "conversation"):
        append(meddler.storage, "chat", message(), rebase=partial(rebase_with, message()))
        version = len(list(meddler.storage.conversation("chat")))
        event_id = uuid4()
        twin = Append("chat", version, 0, [draft(message("twin"), event_id.bytes)], forbid_rebase)
        meddler.before(verb, partial(meddler.storage.append, [twin]))
        (once,) = chat.append(message("twin"), event_ids=[event_id], expected_version=version)
        assert (once.version, once.event_id) == (version + 1, event_id.hex)
        assert meddler.verb == ""


def test_an_id_that_is_newer_than_all_events_is_not_looked_for(
    store: EventStore, meddler: Meddler
) -> None:
    """An append with a new id does not read the conversation."""
    chat = store.conversation("chat")
    chat.append(message("one"))
    meddler.before("conversation", lambda: pytest.fail("the conversation was read"))
    (own,) = event_ids(1, time.time_ns() // 1000 + 1_000_000)
    for event_id in (own, uuid4()):
        assert len(chat.append(message("two"), event_ids=[event_id])) == 1


def test_a_long_tail_is_read_in_linear_time(store: EventStore) -> None:
    """The known ids are not copied for each event."""
    chat = store.conversation("chat")
    ids = [uuid4() for _ in range(5)]
    chat.append(*(message(str(n)) for n in range(5)), event_ids=ids)
    command = messages.append("chat", (message("0"),), event_ids=ids[:1])
    pending_append = PendingAppend(store.session.clock, store.session.events, command)
    pending_append.state = ConversationState("chat", 0)
    known = set()

    def tail() -> Iterator[Recorded]:
        for recorded in chat.events():
            known.add(id(pending_append.stored_ids))
            yield recorded

    assert pending_append.take_in(tail())
    assert len(known) == 1
    assert pending_append.stored_ids == {event_id.bytes for event_id in ids}
    assert not pending_append.take_in([])


# when an append goes wrong


def test_after_an_error_of_the_storage_the_conversation_is_read_again(
    store: EventStore, meddler: Meddler
) -> None:
    """The store cannot know which events are stored by then."""
    chat = store.conversation("chat")
    chat.append(pending())

    def stored_but_not_answered() -> None:
        append(meddler.storage, "chat", running(), version=1)
        raise StoreFull("no space")

    meddler.before("append", stored_but_not_answered)
    with pytest.raises(StoreFull):
        chat.append(running())
    assert store.session.committer.remembered_state("chat").version == 0
    assert chat.complete("call_1", "found").attempts == 1
    assert chat.version == 3


@pytest.mark.parametrize("verb", ["append", "conversation", "known_ids", "heads"])
def test_an_interruption_leaves_nothing_half_true(
    store: EventStore, meddler: Meddler, verb: str
) -> None:
    """Ctrl-C is raised, and the next append has the right version."""
    chat = store.conversation("chat")
    if verb != "heads":
        chat.append(message())
    append(meddler.storage, "chat", message(), rebase=partial(rebase_with, message()))

    def interrupt() -> None:
        raise KeyboardInterrupt

    meddler.before(verb, interrupt)
    expected = 99 if verb == "conversation" else None  # a refusal makes it look again
    with pytest.raises(KeyboardInterrupt):
        chat.append(message(), event_ids=[uuid4()], expected_version=expected)
    assert store.session.committer.remembered_state("chat").version == 0
    before = chat.version
    assert chat.append(message())[0].version == before + 1


def test_an_append_within_an_append_is_refused(store: EventStore, meddler: Meddler) -> None:
    """A signal handler must not write into the transaction that it interrupts."""
    chat, other = store.conversation("chat"), store.conversation("other")
    refusals: list[EventStoreError] = []

    def handler() -> None:
        for conversation in (chat, other):
            with pytest.raises(EventStoreError, match="in the middle of an append") as caught:
                conversation.add_message("user", "stopped")
            refusals.append(caught.value)
        assert chat.version == 1  # a read works

    chat.append(message())
    meddler.before("append", handler)
    chat.append(message())
    assert len(refusals) == 2
    assert [chat.version, other.version] == [2, 0]
    other.append(message())


def test_closing_a_store_ends_every_waiting_append(store: EventStore, meddler: Meddler) -> None:
    """Each append is stored, or has raised `StoreClosed`."""
    chat = store.conversation("chat")
    inside, closed = threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        closed.wait(30)

    meddler.before("append", slow)

    def close() -> None:
        inside.wait(30)
        store.session.committer.closed = True
        closed.set()
        store.close()

    results = run_concurrently(*[lambda: chat.append(message())] * 3, close)
    stored = [r for r in results[:3] if not isinstance(r, Exception)]
    assert all(isinstance(r, StoreClosed) for r in results[:3] if isinstance(r, Exception))
    assert len(stored) <= 3
    assert results[3] is None


def test_a_forked_child_reads_the_log_again(store: EventStore, meddler: Meddler) -> None:
    """Another thread of the parent may have changed a state during the fork."""
    chat, other = store.conversation("chat"), store.conversation("other")
    for conversation in (chat, other):
        conversation.append(message())

    def fork() -> None:
        store.session.reset_after_fork()
        assert store.session.committer.idle
        assert store.session.committer.remembered_state("other").version == 0
        thread = threading.Thread(target=lambda: chat.append(message()), daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert chat.version == 2

    meddler.before("append", fork)
    assert chat.append(message())[0].version == 3


def test_settled_calls_are_read_from_the_log(store: EventStore) -> None:
    """This holds when other calls of the same append are open, too."""
    chat = store.conversation("chat")
    chat.append(pending("1"), completed("1"), pending("2"))
    first = [pending("1"), completed("1"), running("2")]
    tools = store.session.run(
        Command("chat", lambda *_: first, PendingAppend.tools, exclusive=True)
    )
    assert [(t.id, t.status.name) for t in tools] == [("1", "Completed"), ("2", "Running")]
    second = [pending("2"), pending("1")]
    again = store.session.run(
        Command("chat", lambda *_: second, PendingAppend.tools, exclusive=True)
    )
    assert [(t.id, t.status.name) for t in again] == [("2", "Running"), ("1", "Completed")]


# errors


def samples() -> Iterator[Exception]:
    """Return one error of each class."""
    arguments: Mapping[str, tuple[Any, ...]] = {
        "VersionConflict": (3, 4),
        "ImportConflict": ("chat", 1, 2),
        "IllegalTransition": ("Running", "running", "c1", "why"),
        "ConversationArchived": ("chat", 3, 0, "a.jsonl"),
        "UnknownCall": ("c1", "chat"),
        "NoDecision": ("c1", "Failed"),
        "RuleFailed": ("email", "raised ValueError"),
        "SilentAttempt": ("c1",),
        "UnparsedArguments": ("c1", "{not"),
        "UnhashableArguments": ("$.a", "NaN"),
        "NonResolvedToolError": ("c1", "Pending"),
        "CursorLost": ([LostPlace(0, 3, "ab", None)], "cursor"),
    }
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, EventStoreError):
            yield kind(*arguments.get(name, (f"{name} happened",)))


@pytest.mark.parametrize("error", list(samples()), ids=lambda error: type(error).__name__)
def test_errors_go_through_pickle(error: Exception) -> None:
    """Errors keep their text and members, as worker processes need."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert type(error).__doc__


def test_a_storage_may_rebase_more_than_once(store: EventStore) -> None:
    """Each event is applied once, and the last drafts are stored."""
    chat = store.conversation("chat")
    asked: list[int] = []

    class Twice:
        """A storage that tries two times."""

        def __init__(self, storage: Storage) -> None:
            self.storage = storage

        def __getattr__(self, name: str) -> Any:
            return getattr(self.storage, name)

        def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
            """Ask once without effect, then append."""
            (request,) = requests
            decide = request.rebase

            def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
                asked.append(len(tail))
                decide(tail)
                return decide(tail)

            return self.storage.append(
                [Append(request.conversation_id, request.version, 0, request.drafts, rebase)]
            )

    chat.append(pending("1"))
    twice: Any = Twice(store.session.storage)
    store.session.committer.storage = twice
    append(twice, "chat", running("1"), rebase=partial(rebase_with, running("1")))
    assert chat.complete("1", "found").attempts == 1
    assert [r.version for r in chat.events()] == [1, 2, 3]
    assert len(asked) == 2


def test_a_payload_that_is_not_text_is_an_unknown_event(tmp_path: Path) -> None:
    """A damaged row does not hide the conversation; `verify` names it."""
    path = tmp_path / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("c")
        for text in ("one", "two", "three"):
            chat.add_message("user", text)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "UPDATE toolledger_events SET payload = cast(x'ff' AS TEXT) WHERE position = 2"
            )
        kinds = [type(recorded.event) for recorded in chat.events()]
        assert kinds == [MessageAdded, UnknownEvent, MessageAdded]
        assert [damage.position for damage in store.verify()] == [2]
