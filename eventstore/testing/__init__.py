"""What tests need: the contract that every storage must pass, builders, a frozen clock.

A storage shows that it keeps the contract with one class; a database that only one storage can
use at a time leaves the two `Shared...` classes out:

    class TestMine(SharedStorageContract, SharedEventStoreContract):
        @pytest.fixture
        def open_storage(self):
            opened = []

            def open_storage(tenant=""):
                opened.append(MyStorage(..., tenant))  # one database for each test
                return opened[-1]

            yield open_storage
            for storage in opened:
                storage.close()

Only tests import this module; it needs pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any, NoReturn, Protocol, TypeVar
from uuid import uuid4

import pytest

from eventstore.codec import SCHEMAS, encode
from eventstore.conversation import Conversation
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    StoreClosed,
    UnhashableArguments,
    UnknownCall,
    VersionConflict,
)
from eventstore.event_id import event_ids
from eventstore.events import (
    Event,
    MessageAdded,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
)
from eventstore.failure import ErrorKind, Failure
from eventstore.feed import Cursor
from eventstore.fingerprint import digest, fingerprint
from eventstore.message import Text
from eventstore.state import ConversationState
from eventstore.storage import Append, Appended, Draft, Storage
from eventstore.store import EventStore
from eventstore.tool import FunctionCall, FunctionResponse

T = TypeVar("T")

NOON = 1_700_000_000_000_000
"""A time, in microseconds since 1970 UTC."""


class FrozenClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        """Now."""
        return self.now

    def advance(self, seconds: float) -> int:
        """Go on; gives the new time."""
        self.now += round(seconds * 1_000_000)
        return self.now


# builders


def message(text: str = "hello", role: str = "user") -> MessageAdded:
    """A message of one text."""
    return MessageAdded(role, (Text(text),))


def pending(call_id: str = "call_1", name: str = "search", **arguments: Any) -> ToolPending:
    """A call that the model asks for."""
    return ToolPending(FunctionCall(name, arguments, call_id), call_id, 1)


def approved(call_id: str = "call_1", **edited_arguments: Any) -> ToolApproved:
    """Permission, with the arguments edited where any are given."""
    edit = FunctionCall("search", edited_arguments, call_id) if edited_arguments else None
    return ToolApproved(call_id, edit, "ada")


def running(call_id: str = "call_1", attempt: int = 1, **arguments: Any) -> ToolRunning:
    """The start of an attempt."""
    return ToolRunning(call_id, attempt, arguments)


def completed(call_id: str = "call_1", result: Any = "found", attempt: int = 1) -> ToolCompleted:
    """A result."""
    return ToolCompleted(call_id, FunctionResponse("search", result, call_id), attempt, 250)


def failed(call_id: str = "call_1", error: str = "no answer", attempt: int = 1) -> ToolFailed:
    """A failure that may pass."""
    return ToolFailed(call_id, Failure(ErrorKind.TRANSIENT, error), attempt, 250)


def rejected(call_id: str = "call_1", reason: str = "too risky") -> ToolRejected:
    """A refusal."""
    return ToolRejected(call_id, reason, "human", "ada")


def log(*events: Event, conversation_id: str = "chat", at: int = NOON) -> list[Recorded]:
    """The events as a log gives them, one a second from `at`, without a store.

    The state machine is not asked: the log may be a damaged one.
    """
    state = ConversationState(0)
    recorded = []
    for version, event in enumerate(events, 1):
        call_id = getattr(event, "call_id", None)
        mark = _begun(event)
        if mark is None and call_id in state.open:
            mark = fingerprint_of(state.open[call_id][0].effective_call)
        recorded.append(
            Recorded(
                0, version, conversation_id, version, f"{version:032x}",
                at + (version - 1) * 1_000_000, call_id, mark, event,
            )
        )  # fmt: skip
        state.extend(recorded[-1:])
    return recorded


def _begun(event: Event) -> str | None:
    if type(event) is ToolPending:
        return fingerprint_of(event.call)
    if type(event) is ToolApproved and event.edited_call is not None:
        return fingerprint_of(event.edited_call)
    return None


def fingerprint_of(call: FunctionCall) -> str:
    """The fingerprint of a call whose arguments are a JSON object."""
    return fingerprint(call.name, call.arguments)


def draft(event: Event, event_id: bytes | None = None) -> Draft:
    """The event as a storage gets it."""
    schema = event.schema if type(event) is UnknownEvent else SCHEMAS[event.tag]
    mark = digest(event.call.name, event.call.arguments) if type(event) is ToolPending else None
    return Draft(
        event_id or event_ids(1, NOON)[0], NOON, event.tag, schema, encode(event), mark,
        mark is not None,
    )  # fmt: skip


def together(*jobs: Callable[[], T]) -> list[T | Exception]:
    """Run jobs in threads that start at one moment; what each gave, or raised."""
    gate = Barrier(len(jobs))

    def run(job: Callable[[], T]) -> T | Exception:
        gate.wait()
        try:
            return job()
        except Exception as error:  # noqa: BLE001 - the caller looks at it
            return error

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


# the contract of a storage


class OpenStorage(Protocol):
    """Opens a storage on the one database of a test."""

    def __call__(self, tenant: str = "") -> Storage:
        """A storage of the tenant."""


def refuse(tail: Sequence[Recorded]) -> NoReturn:
    """A `rebase` for appends that nobody should come before."""
    raise AssertionError(f"others wrote {tail}")


def instead(event: Event, _: Sequence[Recorded]) -> Sequence[Draft]:
    """A `rebase` that stores the event behind whatever others wrote."""
    return [draft(event)]


def append(
    storage: Storage,
    conversation_id: str,
    *events: Event,
    version: int = 0,
    rebase: Callable[[Sequence[Recorded]], Sequence[Draft]] = refuse,
) -> Appended:
    """Append to a conversation that is known at `version`."""
    drafts = [draft(event) for event in events]
    return storage.append(Append(conversation_id, version, 0, drafts, rebase))


def rows(storage: Storage) -> list[Recorded]:
    """Everything that the storage shows."""
    return list(storage.feed({}))


class _Contract:
    more_than_a_chunk = 2100
    """More rows than the storage reads at once."""

    @pytest.fixture
    def open_storage(self) -> OpenStorage:
        """Gives `open_storage(tenant="")`: storages on one database, a new one for each test."""
        raise NotImplementedError("override the fixture `open_storage`")

    @pytest.fixture
    def storage(self, open_storage: OpenStorage) -> Storage:
        """A storage on the test's database."""
        return open_storage()

    @pytest.fixture
    def clock(self) -> FrozenClock:
        """The clock of the stores."""
        return FrozenClock()

    @pytest.fixture
    def store(self, storage: Storage, clock: FrozenClock) -> EventStore:
        """A store over the storage."""
        return EventStore(storage, clock)


class StorageContract(_Contract):
    """What every storage guarantees, asked of it directly."""

    def test_versions_and_positions_count_up_without_gaps(self, storage: Storage) -> None:
        """The first event has version 1; the next append goes on behind the last."""
        first = append(storage, "chat", message("a"), message("b"))
        second = append(storage, "chat", message("c"), version=2)
        assert (first.version, second.version) == (2, 3)
        assert second.position == first.position + 1
        assert [r.version for r in storage.conversation("chat")] == [1, 2, 3]

    def test_positions_of_a_lane_have_no_gaps_across_conversations(self, storage: Storage) -> None:
        """Whatever conversation an event is of, its position is the next of its lane."""
        for name in ("a", "b", "c"):
            append(storage, name, message("1"), message("2"))
        lanes: dict[int, list[int]] = {}
        for recorded in rows(storage):
            lanes.setdefault(recorded.lane, []).append(recorded.position)
        for positions in lanes.values():
            assert positions == list(range(1, len(positions) + 1))
        assert {lane: head for lane, head in storage.heads().items() if head} == {
            lane: positions[-1] for lane, positions in lanes.items()
        }

    def test_a_stored_event_comes_back_whole(self, storage: Storage) -> None:
        """Every member of the envelope is as it was given, and the event is equal."""
        event = pending("call_1", query="Größe ≥ 3\u0000\u2028🙂", deep={"list": [1, 2.5, None]})
        given = draft(event)
        done = storage.append(Append("chat", 0, 0, [given], refuse))
        assert list(storage.conversation("chat")) == [
            Recorded(
                done.lane, done.position, "chat", 1, given.event_id.hex(), NOON, "call_1",
                fingerprint_of(event.call), event,
            )
        ]  # fmt: skip

    def test_a_conversation_is_read_after_a_version(self, storage: Storage) -> None:
        """Whoever knows the beginning reads the rest alone."""
        append(storage, "chat", message("a"), message("b"), message("c"))
        assert [r.version for r in storage.conversation("chat", after=1)] == [2, 3]
        assert list(storage.conversation("chat", after=3)) == []

    def test_an_unknown_conversation_is_empty(self, storage: Storage) -> None:
        """To read what nobody has written is no error, and creates nothing."""
        assert list(storage.conversation("nobody")) == []
        assert list(storage.conversations()) == []

    def test_ids_that_look_alike_are_different_conversations(self, storage: Storage) -> None:
        """Case, accents, blanks at the end and length all count."""
        names = ["chat", "Chat", "chat ", " chat", "chät", "chat\t", "cha\u0301t", "x" * 500]
        for name in names:
            append(storage, name, message(name))
        for name in names:
            assert [r.event for r in storage.conversation(name)] == [message(name)]
        assert sorted(storage.conversations()) == sorted((name, 1) for name in names)

    def test_an_unknown_tag_is_kept(self, storage: Storage) -> None:
        """What a newer version wrote comes back as it was written."""
        newer = UnknownEvent("tool_paused", 7, '{"call_id": "call_1"}')
        append(storage, "chat", newer)
        assert [r.event for r in storage.conversation("chat")] == [newer]

    def test_a_stale_append_is_decided_again(self, storage: Storage) -> None:
        """What others wrote meanwhile is shown to `rebase`, and its drafts are stored behind it."""
        append(storage, "chat", message("a"), message("b"))
        seen: list[Recorded] = []

        def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
            seen.extend(tail)
            return [draft(message("again"))]

        done = append(storage, "chat", message("stale"), version=1, rebase=rebase)
        assert [r.event for r in seen] == [message("b")]
        assert [r.event for r in storage.conversation("chat", 2)] == [message("again")]
        assert done.version == 3

    def test_deciding_again_may_leave_nothing_to_store(self, storage: Storage) -> None:
        """No draft is a legal answer: no version and no position is used up."""
        first = append(storage, "chat", message("a"))
        nothing = append(storage, "chat", message("stale"), rebase=lambda _: [])
        assert (nothing.version, nothing.position) == (first.version, first.position)
        assert append(storage, "chat", message("b"), version=1).position == first.position + 1

    def test_deciding_again_may_need_more_or_fewer_events(self, storage: Storage) -> None:
        """Positions fit what is stored, not what was asked first."""
        append(storage, "chat", message("a"))
        more = [draft(message("b")), draft(message("c"))]
        append(storage, "chat", message("stale"), rebase=lambda _: more)
        fewer = [draft(message("d"))]
        append(storage, "chat", message("x"), message("y"), rebase=lambda _: fewer)
        assert [r.version for r in storage.conversation("chat")] == [1, 2, 3, 4]
        assert list(storage.verify()) == []

    def test_a_refusal_while_deciding_again_writes_nothing(self, storage: Storage) -> None:
        """The error comes out as it is, and the next append goes on as if nothing had been."""
        append(storage, "chat", message("a"))

        def rebase(tail: Sequence[Recorded]) -> NoReturn:
            raise VersionConflict(0, len(tail))

        with pytest.raises(VersionConflict):
            append(storage, "chat", message("stale"), rebase=rebase)
        assert append(storage, "chat", message("b"), version=1).version == 2
        assert len(rows(storage)) == 2
        assert list(storage.verify()) == []

    def test_an_append_is_stored_whole_or_not_at_all(self, storage: Storage) -> None:
        """When one event cannot be stored, none is, and no position is used up."""
        append(storage, "chat", message("a"))
        twice = event_ids(1, NOON)[0]
        drafts = [draft(message("b"), twice), draft(message("c"), twice)]
        with pytest.raises(EventStoreError):
            storage.append(Append("chat", 1, 0, drafts, refuse))
        with pytest.raises(EventStoreError):
            storage.append(Append("new", 0, 0, drafts, refuse))
        assert [(r.conversation_id, r.version) for r in rows(storage)] == [("chat", 1)]
        assert list(storage.conversations()) == [("chat", 1)]
        append(storage, "chat", message("d"), version=1)
        assert list(storage.verify()) == []

    def test_of_many_none_is_stored_where_one_cannot_be(self, storage: Storage) -> None:
        """And no position is used up."""
        append(storage, "chat", message("a"))
        twice = event_ids(1, NOON)[0]
        drafts = [draft(message("b"), twice), draft(message("c"), twice)]
        with pytest.raises(EventStoreError):
            storage.append_all([
                Append("new", 0, 0, (), partial(instead, message("x"))),
                Append("bad", 0, 0, (), lambda _: drafts),
            ])  # fmt: skip
        assert [(r.conversation_id, r.version) for r in rows(storage)] == [("chat", 1)]
        done = storage.append_all([Append("new", 0, 0, (), partial(instead, message("x")))])
        assert [one.version for one in done if isinstance(one, Appended)] == [1]
        assert list(storage.conversations()) in (
            [("chat", 1), ("new", 1)], [("new", 1), ("chat", 1)],
        )  # fmt: skip
        assert list(storage.verify()) == []

    def test_known_ids_are_those_of_the_conversation(self, storage: Storage) -> None:
        """An event id is looked up in one conversation, and found with its version."""
        first, second, third = event_ids(3, NOON)
        drafts = [draft(message("a"), first), draft(message("b"), second)]
        storage.append(Append("chat", 0, 0, drafts, refuse))
        assert storage.known_ids("chat", [second, third]) == {second: 2}
        assert storage.known_ids("other", [first]) == {}

    def test_conversations_come_oldest_first_with_their_versions(self, storage: Storage) -> None:
        """In the order of their first events, lane by lane."""
        for name in ("b", "a", "c"):
            append(storage, name, message("1"))
        append(storage, "a", message("2"), version=1)
        found = list(storage.conversations())
        assert sorted(found) == [("a", 2), ("b", 1), ("c", 1)]
        first = {r.conversation_id: (r.lane, r.position) for r in reversed(rows(storage))}
        assert [name for name, _ in found] == sorted(first, key=lambda name: first[name])

    def test_reads_of_any_length_are_complete_and_in_order(self, storage: Storage) -> None:
        """Longer than what is fetched at once, in one conversation and over many."""
        many = self.more_than_a_chunk
        append(storage, "long", *(message(str(n)) for n in range(many)))
        long = list(storage.conversation("long"))
        assert [r.version for r in long] == list(range(1, many + 1))
        assert [r.event for r in long] == [message(str(n)) for n in range(many)]
        assert len(list(storage.conversation("long", after=many - 5))) == 5
        for n in range(many // 2):
            append(storage, f"short-{n}", message(str(n)))
        assert len(rows(storage)) == many + many // 2
        assert len(list(storage.conversations())) == 1 + many // 2

    def test_a_read_under_way_is_not_disturbed_by_appends(self, storage: Storage) -> None:
        """It gives each event once, in order, whatever is written meanwhile."""
        many = self.more_than_a_chunk
        append(storage, "chat", *(message(str(n)) for n in range(many)))
        reader, follower = storage.conversation("chat"), storage.feed({})
        begun = [next(reader).version, next(follower).version]
        append(storage, "chat", message("late"), version=many)
        assert begun == [1, 1]
        for rest in (reader, follower):
            versions = [r.version for r in rest]
            assert versions == list(range(2, len(versions) + 2))
            assert len(versions) in (many - 1, many)

    def test_the_feed_goes_on_behind_each_lane_position(self, storage: Storage) -> None:
        """Who reads on from the last positions sees the new events, each once."""
        seen: list[Recorded] = []
        places: dict[int, int] = {}
        for n in range(6):
            append(storage, f"chat-{n % 3}", message(str(n)), version=n // 3)
            for recorded in storage.feed(places):
                places[recorded.lane] = recorded.position
                seen.append(recorded)
        assert [r.event for r in seen] == [message(str(n)) for n in range(6)]
        assert list(storage.feed(storage.heads())) == []

    def test_the_feed_is_in_lane_and_position_order(self, storage: Storage) -> None:
        """So that a cursor is one position for each lane."""
        for n in range(5):
            append(storage, f"chat-{n}", message("a"), message("b"))
        places = [(r.lane, r.position) for r in rows(storage)]
        assert places == sorted(set(places))

    def test_the_feed_stops_where_it_is_told_to(self, storage: Storage) -> None:
        """At heads that were read before: what came later is left for later."""
        for n in range(6):
            append(storage, f"chat-{n}", *(message(str(n)) for n in range(3)))
        heads = storage.heads()
        before = rows(storage)
        for n in range(6):
            append(storage, f"chat-{n}", message("late"), version=3)
        assert list(storage.feed({}, until=heads)) == before
        assert list(storage.feed(heads, until=heads)) == []
        assert list(storage.feed({}, 4, heads)) == before[:4]
        late = storage.feed(heads, until=storage.heads())
        assert [r.event for r in late] == [message("late")] * 6

    @pytest.mark.parametrize("limit", [0, 1, 3, 100])
    def test_the_feed_stops_at_its_limit(self, storage: Storage, limit: int) -> None:
        """A limit counts events; 0 gives none."""
        append(storage, "chat", *(message(str(n)) for n in range(5)))
        assert [r.version for r in storage.feed({}, limit)] == [1, 2, 3, 4, 5][:limit]

    def test_outlines_are_of_the_events_of_the_feed(self, storage: Storage) -> None:
        """Each in its place, many at a time, and no empty lot; up to the same limit."""
        call = FunctionCall("find", {"q": "x"}, "call-1")
        events: list[Event] = [message("hi"), ToolPending(call), ToolRunning("call-1", 1)]
        for n in range(3):
            append(storage, f"chat-{n}", *events)
        for limit in (None, 0, 2, 5):
            lots = list(storage.outlines({}, limit))
            assert all(lots)
            found = [recorded for lot in lots for recorded in lot]
            wanted = list(storage.feed({}, limit))
            places = [(r.lane, r.position, r.version, r.event_id, r.call_id) for r in found]
            assert places == [
                (r.lane, r.position, r.version, r.event_id, r.call_id) for r in wanted
            ]
            assert [r.event.tag for r in found if r.call_id] == [
                r.event.tag for r in wanted if r.call_id
            ]
        assert list(storage.outlines(storage.heads())) == []

    def test_a_fingerprint_finds_the_calls_with_these_arguments(self, storage: Storage) -> None:
        """In every conversation, and no call with others."""
        append(storage, "a", pending("1", q="x"), pending("2", q="y"))
        append(storage, "b", pending("3", q="x"))
        found = storage.by_fingerprint(digest("search", {"q": "x"}))
        assert sorted((r.conversation_id, r.call_id) for r in found) == [("a", "1"), ("b", "3")]
        assert list(storage.by_fingerprint(digest("search", {"q": "z"}))) == []

    def test_the_epoch_stays(self, storage: Storage) -> None:
        """It is text, not empty, and of the database."""
        assert storage.epoch
        append(storage, "chat", message())
        assert storage.epoch == storage.epoch

    def test_a_sound_log_has_no_damage(self, storage: Storage) -> None:
        """`verify` finds nothing, in an empty log and in a full one."""
        assert list(storage.verify()) == []
        append(storage, "a", pending("1", q="x"), completed("1"))
        append(storage, "b", message())
        assert list(storage.verify()) == []

    def test_a_closed_storage_refuses_everything(self, storage: Storage) -> None:
        """To close twice is to close once; reads under way end, too."""
        append(storage, "chat", *(message(str(n)) for n in range(self.more_than_a_chunk)))
        reader = storage.conversation("chat")
        next(reader)
        storage.close()
        storage.close()
        for attempt in (
            lambda: append(storage, "chat", message(), version=2),
            lambda: list(storage.conversation("chat")),
            lambda: rows(storage),
            lambda: list(storage.by_fingerprint(bytes(16))),
            lambda: storage.known_ids("chat", [bytes(16)]),
            lambda: list(storage.conversations()),
            storage.heads,
            lambda: list(storage.verify()),
            lambda: list(reader),
        ):
            with pytest.raises(StoreClosed):
                attempt()

    def test_threads_share_a_storage(self, storage: Storage) -> None:
        """Every append gets in, in one order; reads go on beside it."""

        def write(worker: int) -> None:
            own = 0
            for n in range(5):
                own = append(storage, f"own-{worker}", message(str(n)), version=own).version
                event = message(f"{worker}.{n}")
                append(storage, "one", event, rebase=partial(instead, event))
                assert sum(1 for _ in storage.conversation(f"own-{worker}")) == n + 1

        assert together(*(partial(write, worker) for worker in range(6))) == [None] * 6
        assert [r.version for r in storage.conversation("one")] == list(range(1, 31))
        assert list(storage.verify()) == []


class SharedStorageContract(StorageContract):
    """What holds where several storages use one database."""

    def test_many_are_stored_together_behind_what_others_wrote(
        self, open_storage: OpenStorage
    ) -> None:
        """Each decides on what stands there, on those before it, and has an outcome of its own."""
        mine, other = open_storage(), open_storage()
        known = {name: append(mine, name, message(name)) for name in ("a", "b", "c", "d")}
        append(other, "b", message("theirs"), version=1)
        append(other, "d", message("theirs"), message("too"), version=1)
        append(other, "elsewhere", message("theirs"))
        told: list[list[Event]] = []

        def asking(name: str, *events: Event) -> Append:
            def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
                told.append([recorded.event for recorded in tail])
                if not events:
                    raise VersionConflict(0, len(tail))
                return [draft(event) for event in events]

            last = known.get(name)
            version, as_of = (last.version, last.position) if last else (0, 0)
            return Append(name, version, as_of, (), rebase)

        done = mine.append_all([
            asking("a", message("1")), asking("b", message("2"), pending(q="x")), asking("c"),
            asking("new", message("3")), asking("d", message("4")), asking("a", message("5")),
        ])  # fmt: skip
        theirs = [message("theirs")]
        assert told == [[], theirs, [], [], [*theirs, message("too")], []]
        refused = done.pop(2)
        assert isinstance(refused, VersionConflict)
        placed = [(one.version, one.position) for one in done if isinstance(one, Appended)]
        assert [version for version, _ in placed] == [2, 4, 1, 4, 3]
        texts = {n: [r.event for r in mine.conversation(n)] for n in ("a", "c", "d", "new")}
        assert texts == {
            "a": [message("a"), message("1"), message("5")],
            "c": [message("c")],
            "d": [message("d"), *theirs, message("too"), message("4")],
            "new": [message("3")],
        }
        last = {n: r.position for n in ("b", "new", "d", "a") for r in mine.conversation(n)}
        assert [last[n] for n in ("b", "new", "d", "a")] == [at for _, at in placed[1:]]
        assert len(list(other.by_fingerprint(digest("search", {"q": "x"})))) == 1
        assert list(other.verify()) == []

    def test_what_another_storage_wrote_is_seen(self, open_storage: OpenStorage) -> None:
        """By reads at once, and by appends that were decided before it."""
        one, other = open_storage(), open_storage()
        append(one, "chat", message("a"))
        assert [r.event for r in other.conversation("chat")] == [message("a")]
        seen: list[Recorded] = []

        def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
            seen.extend(tail)
            return [draft(message("c"))]

        append(other, "chat", message("b"), version=1)
        append(one, "chat", message("stale"), version=1, rebase=rebase)
        assert [r.event for r in seen] == [message("b")]
        assert [r.version for r in other.conversation("chat")] == [1, 2, 3]

    def test_storages_take_turns_without_gaps(self, open_storage: OpenStorage) -> None:
        """A storage that was quiet for a while does not trust what it knew."""
        one, other = open_storage(), open_storage()
        state = {id(one): (0, 0), id(other): (0, 0)}
        for n, storage in enumerate([one, one, other, one, other, other, one, one, other]):
            version, as_of = state[id(storage)]
            event = message(str(n))
            done = storage.append(
                Append("chat", version, as_of, [draft(event)], partial(instead, event))
            )
            state[id(storage)] = (done.version, done.position)
        assert [r.event for r in one.conversation("chat")] == [message(str(n)) for n in range(9)]
        assert list(one.verify()) == []

    def test_versions_are_those_of_the_conversations_asked_for(
        self, open_storage: OpenStorage
    ) -> None:
        """Of this tenant, where they have begun; whatever others have written, and in each lane."""
        storage, other = open_storage(), open_storage()
        versions = {f"chat-{n}": n for n in range(1, 40)}
        for name, count in versions.items():
            append(other, name, *(message(str(n)) for n in range(count)))
        assert storage.versions([*versions, "nobody"]) == versions
        append(other, "chat-7", message("more"), version=7)
        assert storage.versions(["chat-7", "chat-8"]) == {"chat-7": 8, "chat-8": 8}
        assert storage.versions([]) == {}
        assert open_storage("acme").versions(versions) == {}

    def test_the_epoch_is_of_the_database(self, open_storage: OpenStorage) -> None:
        """All storages of one database have one, so that a cursor serves them all."""
        mine, other = open_storage(), open_storage("other")
        assert mine.epoch == other.epoch
        assert mine.url == other.url
        assert (mine.tenant, other.tenant) == ("", "other")

    def test_tenants_never_see_each_other(self, open_storage: OpenStorage) -> None:
        """Not by conversation, feed, list, fingerprint or event id."""
        acme, empty, other = open_storage("acme"), open_storage(), open_storage("Acme")
        shared = event_ids(1, NOON)[0]
        for storage, word in ((acme, "acme"), (empty, "empty")):
            events = [draft(message(word), shared), draft(pending("call_1", q="x"))]
            storage.append(Append("chat", 0, 0, events, refuse))
        for storage, word in ((acme, "acme"), (empty, "empty")):
            assert [r.event for r in storage.conversation("chat", 0)][:1] == [message(word)]
            assert rows(storage) == list(storage.conversation("chat"))
            assert len(list(storage.by_fingerprint(digest("search", {"q": "x"})))) == 1
            assert list(storage.conversations()) == [("chat", 2)]
        assert rows(other) == list(other.conversation("chat")) == []
        assert list(other.conversations()) == []
        assert other.known_ids("chat", [shared]) == {}
        assert list(other.by_fingerprint(digest("search", {"q": "x"}))) == []


# the contract of a store


class EventStoreContract(_Contract):
    """What the event store guarantees over every storage."""

    @pytest.fixture
    def chat(self, store: EventStore) -> Conversation:
        """A conversation."""
        return store.conversation("chat")

    def test_versions_count_from_one_without_gaps(self, chat: Conversation) -> None:
        """Whatever the verbs, each event is one version."""
        assert chat.version == 0
        chat.add_message("user", "hello")
        tool = chat.request("search", {"q": "x"})
        chat.start(tool.id)
        chat.complete(tool.id, "found")
        assert [r.version for r in chat.events()] == [1, 2, 3, 4]
        assert chat.version == 4

    def test_an_append_returns_what_a_read_gives(
        self, chat: Conversation, clock: FrozenClock
    ) -> None:
        """With the same places, ids, times, fingerprints and values."""
        written = chat.append(message(), pending(q="x"), running(q="x"))
        clock.advance(2.5)
        written += chat.append(completed(result={"hits": [1]}), message("thanks", "assistant"))
        assert written == list(chat.events())
        assert written[-1].recorded_at == written[0].recorded_at + 2_500_000

    def test_events_are_appended_all_or_none(self, chat: Conversation) -> None:
        """One that is not allowed keeps the others out."""
        with pytest.raises(IllegalTransition):
            chat.append(message(), pending(), completed(), running())
        with pytest.raises(UnhashableArguments):
            chat.append(message(), pending(amount=float("nan")))
        assert list(chat.events()) == []
        assert chat.version == 0

    def test_the_expected_version_must_be_the_versions(self, chat: Conversation) -> None:
        """Else nothing is written, and the error says both."""
        chat.append(message("a"), expected_version=0)
        for wrong in (0, 2):
            with pytest.raises(VersionConflict) as caught:
                chat.append(message("b"), expected_version=wrong)
            assert (caught.value.expected, caught.value.actual) == (wrong, 1)
        chat.append(message("b"), expected_version=1)
        assert chat.version == 2

    def test_an_append_with_the_same_ids_is_stored_once(self, chat: Conversation) -> None:
        """Repeated, it gives what was stored first, even when it would not be allowed any more."""
        ids = [uuid4(), uuid4()]
        first = chat.append(pending(), running(), event_ids=ids, expected_version=0)
        chat.append(completed())
        again = chat.append(pending(), running(), event_ids=ids, expected_version=0)
        assert again == first
        assert chat.version == 3

    def test_only_what_is_missing_of_a_repeated_append_is_stored(self, chat: Conversation) -> None:
        """An append that shares ids with a former one adds the rest."""
        a, b, c = uuid4(), uuid4().hex, uuid4().bytes
        chat.append(message("a"), message("b"), event_ids=[a, b])
        both = chat.append(message("b"), message("c"), event_ids=[b, c])
        assert [r.event for r in both] == [message("b"), message("c")]
        assert [r.event for r in chat.events()] == [message("a"), message("b"), message("c")]

    def test_the_same_append_at_once_is_stored_once(self, chat: Conversation) -> None:
        """However many threads repeat it, all get the one result."""
        ids = [uuid4() for _ in range(3)]
        events = [message(str(n)) for n in range(3)]
        results = together(*[lambda: chat.append(*events, event_ids=ids)] * 8)
        assert results == [list(chat.events())] * 8
        assert chat.version == 3

    def test_nothing_changes_what_was_appended(self, chat: Conversation) -> None:
        """Later appends leave every earlier event as it was."""
        before: list[Recorded] = []
        for event in (pending(), failed(attempt=0), running(), completed(), message()):
            chat.append(event)
            now = list(chat.events())
            assert now[:-1] == before
            before = now

    def test_what_is_so_already_is_not_written_again(self, chat: Conversation) -> None:
        """Asking, deciding and completing the same twice is asking, deciding, completing once."""
        chat.request("search", {"q": "x"}, call_id="1")
        chat.approve("1", {"q": "y"})
        chat.start("1")
        chat.complete("1", "found")
        version = chat.version
        assert chat.request("search", {"q": "x"}, call_id="1").status.name == "Completed"
        assert chat.complete("1", "found").status.name == "Completed"
        assert chat.append(pending("1", q="x"), completed("1")) == []
        assert chat.version == version

    @pytest.mark.parametrize(
        ("before", "refused"),
        [
            ([], running()),
            ([pending()], pending(q="another")),
            ([pending(), approved()], approved(q="edited")),
            ([pending(), running()], rejected()),
            ([pending(), running()], running(attempt=3)),
            ([pending(), running()], approved()),
            ([pending(), rejected()], running()),
            ([pending(), running(), completed()], completed(result="another")),
            ([pending(), running(), completed()], failed()),
        ],
    )
    def test_a_transition_out_of_turn_is_refused(
        self, chat: Conversation, before: list[Event], refused: Event
    ) -> None:
        """With an error that names the call, and nothing is written."""
        chat.append(*before)
        with pytest.raises(IllegalTransition) as caught:
            chat.append(message(), refused)
        assert caught.value.call_id == "call_1"
        assert chat.version == len(before)

    def test_of_many_that_start_an_attempt_one_does(self, chat: Conversation) -> None:
        """Each attempt has one owner, however many threads race for it."""
        tool = chat.request("pay", {"amount": 1})
        for number in (1, 2):
            results = together(*[partial(chat.start, tool.id, number)] * 8)
            started = [r for r in results if not isinstance(r, Exception)]
            assert [r.attempts for r in started] == [number]
            assert {type(r) for r in results} == {type(tool), IllegalTransition}
            chat.fail(tool.id, "no answer")

    def test_threads_on_one_conversation_lose_nothing(self, chat: Conversation) -> None:
        """All get through, each event once, in one order."""

        def write(worker: int) -> None:
            for n in range(5):
                tool = chat.request("search", {"worker": worker, "n": n})
                with chat.running(tool.id) as attempt:
                    attempt.complete([worker, n])

        assert together(*(partial(write, worker) for worker in range(8))) == [None] * 8
        assert [r.version for r in chat.events()] == list(range(1, 8 * 5 * 3 + 1))
        results = [tool.response.result for tool in chat.tools.values() if tool.response]
        assert sorted(results) == [[w, n] for w in range(8) for n in range(5)]

    def test_an_event_of_an_unknown_tag_is_kept_and_passed_over(self, chat: Conversation) -> None:
        """A log that a newer version wrote can be read, and appended to."""
        newer = UnknownEvent("tool_paused", 7, '{"call_id":"call_1","why":"lunch"}')
        chat.append(pending(), newer, running())
        assert [r.event for r in chat.events()][1] == newer
        assert chat.tools["call_1"].status.name == "Running"

    def test_a_known_event_cannot_be_smuggled_in_as_unknown(self, chat: Conversation) -> None:
        """What this version can read is held to the rules."""
        with pytest.raises(IllegalTransition):
            chat.append(UnknownEvent("running", 1, '{"call_id":"call_1","attempt":1}'))
        assert chat.version == 0

    def test_long_conversations_are_read_whole(self, chat: Conversation) -> None:
        """Longer than what is fetched at once, and after any version."""
        many = self.more_than_a_chunk
        chat.append(*(message(str(n)) for n in range(many)))
        assert [r.version for r in chat.events()] == list(range(1, many + 1))
        assert [r.version for r in chat.events(after=many - 2)] == [many - 1, many]

    def test_a_reader_follows_the_feed_with_its_cursor(self, store: EventStore) -> None:
        """Kept as text, it goes on where it stopped: every event once, in order."""
        seen: list[Recorded] = []
        cursor: str | None = None
        for n in range(6):
            store.conversation(f"chat-{n % 2}").append(message(str(n)), message(f"{n}b"))
            feed = store.read(cursor, limit=None if n % 3 == 2 else 1)
            seen += feed
            cursor = str(feed.cursor)
        assert sorted(r.event.parts[0].text for r in seen) == sorted(  # type: ignore[union-attr]
            text for n in range(6) for text in (str(n), f"{n}b")
        )
        for name in ("chat-0", "chat-1"):
            versions = [r.version for r in seen if r.conversation_id == name]
            assert versions == [1, 2, 3, 4, 5, 6]
        assert list(store.read(cursor)) == []

    def test_a_cursor_of_another_store_is_refused(self, store: EventStore) -> None:
        """Positions mean nothing elsewhere."""
        with pytest.raises(ValueError, match="another store"):
            store.read(Cursor("0" * 16, ((0, 1),)))

    def test_a_follower_sees_what_comes(self, store: EventStore) -> None:
        """Every event once, each conversation in its order, wherever it goes on."""
        follow = store.follow(timeout=0)
        chat = store.conversation("chat-0").follow(timeout=0)
        seen: list[Recorded] = []
        own: list[Recorded] = []
        for n in range(8):
            for name in ("chat-0", f"chat-{n}"):
                store.conversation(name).append(message(str(n)), message(f"{n}b"))
            seen += [next(follow) for _ in range(2)] if n % 2 else follow
            if n == 4:
                follow = store.follow(str(follow.cursor), timeout=0)
            own += chat
        seen += follow
        everything = list(store.read())
        assert sorted(seen, key=lambda r: (r.lane, r.position)) == everything
        assert own == [r for r in seen if r.conversation_id == "chat-0"]
        assert [r.version for r in own] == list(range(1, len(own) + 1))
        assert follow.lag().events == 0
        assert list(store.read(follow.cursor)) == []

    def test_a_fingerprint_finds_what_became_of_equal_calls(self, store: EventStore) -> None:
        """All their events while these arguments were in force, in every conversation."""
        one, other = store.conversation("one"), store.conversation("other")
        one.append(pending("1", q="x"), running("1", q="x"), completed("1"), pending("2", q="y"))
        other.append(pending("3", q="y"), approved("3", q="x"), running("3", q="x"))
        found = store.read_fingerprint(fingerprint("search", {"q": "x"}))
        assert sorted((r.conversation_id, r.version) for r in found) == [
            ("one", 1), ("one", 2), ("one", 3), ("other", 2), ("other", 3)
        ]  # fmt: skip

    def test_the_events_of_one_call(self, store: EventStore) -> None:
        """And of no other."""
        store.conversation("chat").append(pending("1"), pending("2"), running("1"))
        assert [r.version for r in store.read_call("chat", "1")] == [1, 3]

    def test_a_result_is_kept_whatever_it_is(self, chat: Conversation) -> None:
        """What JSON cannot say is stored in its nearest readable form, and marked."""
        tool = chat.request("shoot")
        chat.complete(tool.id, {"image": b"\xff\xd8", "score": float("nan"), "what": object})
        (event,) = (r.event for r in chat.events() if isinstance(r.event, ToolCompleted))
        assert event.lossy
        assert event.response.result["image"] == "ffd8"
        assert event.response.result["score"] == "nan"

    def test_what_is_returned_is_the_callers_own(self, chat: Conversation) -> None:
        """Nobody can change the log, or what is decided on it, through a value he was given."""
        given = {"list": [1]}
        tool = chat.request("search", given, call_id="call_1")
        given["list"].append(2)
        tool.call.arguments["list"].append(3)
        started = chat.start("call_1")
        started.status.arguments["list"].append(4)  # type: ignore[union-attr]
        (first, second) = chat.events()
        assert first.event.call.arguments == {"list": [1]}  # type: ignore[union-attr]
        assert second.event.arguments == {"list": [1]}  # type: ignore[union-attr]
        assert chat.fail("call_1", "x").call.arguments == {"list": [1]}

    def test_an_unknown_call_is_named(self, chat: Conversation) -> None:
        """With the conversation, so that a mistaken id is found."""
        with pytest.raises(UnknownCall, match=r"'chat' has no call 'nobody'"):
            chat.start("nobody")

    def test_a_closed_store_refuses_everything(self, store: EventStore, chat: Conversation) -> None:
        """A store is closed by `close()` and at the end of its `with` block."""
        with store:
            chat.append(message())
        for attempt in (
            lambda: chat.append(message()),
            lambda: list(chat.events()),
            lambda: chat.version,
            lambda: list(store.read()),
            lambda: list(store.conversations()),
            lambda: list(store.read_call("chat", "1")),
            lambda: list(store.verify()),
        ):
            with pytest.raises(StoreClosed):
                attempt()


class SharedEventStoreContract(EventStoreContract):
    """What holds where several stores use one database."""

    @pytest.fixture
    def stores(self, open_storage: OpenStorage, clock: FrozenClock) -> tuple[EventStore, ...]:
        """Three stores on the test's database."""
        return tuple(EventStore(open_storage(), clock) for _ in range(3))

    def test_stores_see_what_the_others_wrote(self, stores: tuple[EventStore, ...]) -> None:
        """Verbs are checked against what really happened, not what a store remembers."""
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

    def test_a_decision_in_one_store_is_seen_by_who_waits_in_another(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """And by those who follow."""
        agent, person, watcher = stores
        call = agent.conversation("chat").request("pay", {"amount": 1})
        follow = watcher.follow(poll=0.005)
        asked = next(follow)
        tool, _, decided = together(
            lambda: agent.conversation("chat").decision(call.id, 30, poll=0.005),
            lambda: person.conversation("chat").approve(call.id, {"amount": 2}, by="ada"),
            lambda: next(follow),
        )
        assert (asked.event.tag, decided.event.tag) == ("pending", "approved")  # type: ignore[union-attr]
        assert tool.effective_call.arguments == {"amount": 2}  # type: ignore[union-attr]

    def test_the_expected_version_is_checked_against_all(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """Of stores that expect the same version, one gets it."""
        chats = [store.conversation("chat") for store in stores]
        for version in range(4):
            results = together(
                *(partial(chat.append, message(), expected_version=version) for chat in chats)
            )
            assert sum(isinstance(r, VersionConflict) for r in results) == len(chats) - 1
        assert [r.version for r in chats[0].events()] == [1, 2, 3, 4]

    def test_the_same_append_through_many_stores_is_stored_once(
        self, stores: tuple[EventStore, ...]
    ) -> None:
        """Also when each store knows another, older state."""
        chats = [store.conversation("chat") for store in stores]
        for n in range(3):
            ids = [uuid4(), uuid4()]
            chats[n].append(message("before"))
            version = 3 * n + 1
            both = (message("a"), message("b"))
            results = together(
                *(
                    partial(chat.append, *both, event_ids=ids, expected_version=version)
                    for chat in chats
                )
            )
            assert results == [list(chats[0].events(after=version))] * 3
        assert chats[0].version == 9

    def test_of_stores_that_start_an_attempt_one_does(self, stores: tuple[EventStore, ...]) -> None:
        """Two workers never run one attempt."""
        chats = [store.conversation("chat") for store in stores]
        for n in range(5):
            tool = chats[n % 3].request("pay", {"n": n})
            results = together(*(partial(chat.start, tool.id) for chat in chats))
            assert sum(isinstance(r, IllegalTransition) for r in results) == len(chats) - 1
        assert [t.attempts for t in chats[0].tools.values()] == [1] * 5

    def test_the_stores_of_tenants_are_worlds_apart(self, open_storage: OpenStorage) -> None:
        """One conversation id, two conversations; a cursor of one serves only its own."""
        acme, other = EventStore(open_storage("acme")), EventStore(open_storage("other"))
        acme.conversation("chat").append(pending(), running())
        assert other.conversation("chat").version == 0
        assert list(other.read()) == []
        other.conversation("chat").append(pending(), completed(attempt=0))
        assert acme.conversation("chat").tools["call_1"].status.name == "Running"
        feed = other.read()
        assert [r.version for r in feed] == [1, 2]
        acme.conversation("chat").append(completed())
        assert list(other.read(feed.cursor)) == []
