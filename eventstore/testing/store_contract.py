"""The guarantees of the event store over every storage, as a test suite."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import pytest

from eventstore.conversation import Conversation
from eventstore.domain.calls import FunctionCall
from eventstore.domain.events import (
    Event,
    MessageAdded,
    Recorded,
    ToolCompleted,
    ToolPending,
    ToolRunning,
    UnknownEvent,
)
from eventstore.domain.fingerprint import fingerprint
from eventstore.domain.messages import Text
from eventstore.domain.statuses import Running
from eventstore.errors import (
    IllegalTransition,
    StoreClosed,
    UnhashableArguments,
    UnknownCall,
    VersionConflict,
)
from eventstore.store import EventStore
from eventstore.subscriptions.feed import Cursor
from eventstore.testing.appending import text_of
from eventstore.testing.builders import (
    approved,
    completed,
    failed,
    message,
    pending,
    rejected,
    running,
)
from eventstore.testing.clock import FrozenClock
from eventstore.testing.concurrency import run_concurrently
from eventstore.testing.fixtures import ContractFixtures


class EventStoreContract(ContractFixtures):
    """The guarantees of the event store over every storage."""

    @pytest.fixture
    def chat(self, store: EventStore) -> Conversation:
        """Return a conversation."""
        return store.conversation("chat")

    def test_versions_count_from_one_without_gaps(self, chat: Conversation) -> None:
        """Each event is one version, whichever method appended it."""
        assert chat.version == 0
        chat.add_message("user", "hello")
        tool = chat.request("search", {"q": "x"})
        chat.start(tool.id)
        chat.complete(tool.id, "found")
        assert [r.version for r in chat.events()] == [1, 2, 3, 4]
        assert chat.version == 4

    def test_an_append_returns_the_events_as_a_read_does(
        self, chat: Conversation, clock: FrozenClock
    ) -> None:
        """The positions, ids, times, fingerprints and values are the same."""
        written = chat.append(message(), pending(q="x"), running(q="x"))
        clock.advance(2.5)
        written += chat.append(completed(result={"hits": [1]}), message("thanks", "assistant"))
        assert written == list(chat.events())
        assert written[-1].recorded_at == written[0].recorded_at + 2_500_000

    def test_times_at_the_source_are_kept(self, chat: Conversation, clock: FrozenClock) -> None:
        """Each is kept with the time of recording, and may be missing; the call bears it.

        An append that is repeated with its ids takes the times of the events that are new.
        """
        ids = [uuid4(), uuid4(), uuid4()]
        asked = chat.append(pending(), event_ids=ids[:1], occurred_at=[7_000_000])
        times = [7_000_000, 9_000_000, None]
        written = chat.append(pending(), running(), message(), event_ids=ids, occurred_at=times)
        assert written == list(chat.events())
        assert asked == written[:1]
        assert [each.occurred_at for each in written] == times
        assert [each.time for each in written] == [7_000_000, 9_000_000, written[2].recorded_at]
        assert {each.recorded_at for each in written} == {clock()}
        (tool,) = chat.tools.values()
        assert (tool.requested_at, tool.started_at) == (7_000_000, 9_000_000)
        with pytest.raises(ValueError, match="occurred_at has 1 times for 2 events"):
            chat.append(running(), message(), occurred_at=[None])

    def test_a_turn_is_one_append(self, chat: Conversation) -> None:
        """The message says how many calls came with it; they share its turn, and have ids."""
        chat.request("earlier")
        calls = [
            FunctionCall("refund", {"order": 7}, "call_1"),
            FunctionCall.of("mail", '{"to": 1}'),
        ]
        refund, mail = chat.turn("I refund it.", calls)
        assert (refund.call, refund.provider_call_id) == (calls[0], "call_1")
        assert (mail.call.arguments, mail.provider_call_id) == ({"to": 1}, None)
        assert [(tool.turn, tool.index) for tool in (refund, mail)] == [(2, 0), (2, 1)]
        assert chat.turn("", calls=[FunctionCall("look", {})])[0].turn == 3
        said = [each.event for each in chat.events() if isinstance(each.event, MessageAdded)]
        assert said == [
            MessageAdded("assistant", (Text("I refund it."),), 2, calls=2),
            MessageAdded("assistant", (), 3, calls=1),
        ]
        with pytest.raises(IllegalTransition):
            chat.turn("Again.", [FunctionCall("other", {}), FunctionCall("mail", {}, "call_1")])
        with pytest.raises(TypeError):
            chat.turn("Again.", [{"name": "mail"}])  # type: ignore[list-item]
        assert chat.version == 6

    def test_one_call_is_read_as_it_stands(self, chat: Conversation) -> None:
        """An open one, and one that has its end."""
        done, waiting = chat.request("refund"), chat.request("mail")
        chat.start(done.id)
        chat.complete(done.id, "paid")
        for call in (done, waiting):
            assert chat.tool(call.id) == chat.tools[call.id]
        with pytest.raises(UnknownCall, match="has no call 'call_x'"):
            chat.tool("call_x")

    def test_events_are_appended_all_or_none(self, chat: Conversation) -> None:
        """If one is not allowed, the others are not stored."""
        with pytest.raises(IllegalTransition):
            chat.append(message(), pending(), completed(), running())
        with pytest.raises(UnhashableArguments):
            chat.append(message(), pending(amount=float("nan")))
        assert list(chat.events()) == []
        assert chat.version == 0

    def test_another_version_than_expected_is_refused(self, chat: Conversation) -> None:
        """Nothing is written, and the error names both versions."""
        chat.append(message("a"), expected_version=0)
        for wrong in (0, 2):
            with pytest.raises(VersionConflict) as caught:
                chat.append(message("b"), expected_version=wrong)
            assert (caught.value.expected, caught.value.actual) == (wrong, 1)
        chat.append(message("b"), expected_version=1)
        assert chat.version == 2

    def test_an_append_with_the_same_ids_is_stored_once(self, chat: Conversation) -> None:
        """The repetition returns the stored events, even if it would not be allowed any more."""
        ids = [uuid4(), uuid4()]
        first = chat.append(pending(), running(), event_ids=ids, expected_version=0)
        chat.append(completed())
        again = chat.append(pending(), running(), event_ids=ids, expected_version=0)
        assert again == first
        assert chat.version == 3

    def test_an_append_is_repeated_with_the_ids_that_the_store_gave_it(
        self, chat: Conversation, clock: FrozenClock
    ) -> None:
        """An error gave them, perhaps: it is stored once, whatever the clock said meanwhile."""
        first = chat.append(message("a"), message("b"))
        for step in (-1, 2):
            clock.now += step
            chat.append(message("later"))
            again = chat.append(
                message("a"), message("b"), event_ids=[event.event_id for event in first]
            )
            assert again == first
        assert chat.version == 4

    def test_only_the_missing_events_of_a_repeated_append_are_stored(
        self, chat: Conversation
    ) -> None:
        """An append that shares ids with an earlier one adds the rest."""
        a, b, c = uuid4(), uuid4().hex, uuid4().bytes
        chat.append(message("a"), message("b"), event_ids=[a, b])
        both = chat.append(message("b"), message("c"), event_ids=[b, c])
        assert [r.event for r in both] == [message("b"), message("c")]
        assert [r.event for r in chat.events()] == [message("a"), message("b"), message("c")]

    def test_concurrent_repeats_of_an_append_are_stored_once(self, chat: Conversation) -> None:
        """All threads that repeat it get the same result."""
        ids = [uuid4() for _ in range(3)]
        events = [message(str(n)) for n in range(3)]
        results = run_concurrently(*[lambda: chat.append(*events, event_ids=ids)] * 8)
        assert results == [list(chat.events())] * 8
        assert chat.version == 3

    def test_later_appends_change_no_earlier_event(self, chat: Conversation) -> None:
        """Every earlier event stays as it was."""
        before: list[Recorded] = []
        for event in (pending(), failed(attempt=0), running(), completed(), message()):
            chat.append(event)
            now = list(chat.events())
            assert now[:-1] == before
            before = now

    def test_a_repeated_request_decision_or_completion_is_not_written_again(
        self, chat: Conversation
    ) -> None:
        """The second one is a no-op and returns the call."""
        chat.request("search", {"q": "x"}, call_id="1")
        chat.approve("1", {"q": "y"})
        chat.start("1")
        chat.complete("1", "found")
        version = chat.version
        assert chat.request("search", {"q": "x"}, call_id="1").status.name == "Completed"
        assert chat.complete("1", "found").status.name == "Completed"
        assert chat.append(pending("1", q="x"), completed("1")) == []
        assert chat.version == version

    def test_an_illegal_transition_is_refused(self, store: EventStore) -> None:
        """The error names the call, and nothing is written."""
        refusals: list[tuple[list[Event], Event]] = [
            ([], running()),
            ([pending()], pending(q="another")),
            ([pending(), approved()], approved(q="edited")),
            ([pending(), running()], rejected()),
            ([pending(), running()], running(attempt=3)),
            ([pending(), running()], approved()),
            ([pending(), rejected()], running()),
            ([pending(), running(), completed()], completed(result="another")),
            ([pending(), running(), completed()], failed()),
        ]
        for number, (before, refused) in enumerate(refusals):
            chat = store.conversation(f"chat {number}")
            if before:
                chat.append(*before)
            with pytest.raises(IllegalTransition) as caught:
                chat.append(message(), refused)
            assert caught.value.call_id == "call_1", number
            assert chat.version == len(before), number

    def test_only_one_of_many_threads_starts_an_attempt(self, chat: Conversation) -> None:
        """Each attempt has one owner."""
        tool = chat.request("pay", {"amount": 1})
        for number in (1, 2):
            results = run_concurrently(*[partial(chat.start, tool.id, number)] * 8)
            started = [r for r in results if not isinstance(r, Exception)]
            assert [r.attempts for r in started] == [number]
            assert {type(r) for r in results} == {type(tool), IllegalTransition}
            chat.fail(tool.id, "no answer")

    def test_threads_on_one_conversation_lose_nothing(self, chat: Conversation) -> None:
        """All appends are stored, each event once, in one order."""

        def write(worker: int) -> None:
            for n in range(5):
                tool = chat.request("search", {"worker": worker, "n": n})
                with chat.running(tool.id) as attempt:
                    attempt.complete([worker, n])

        assert run_concurrently(*(partial(write, worker) for worker in range(8))) == [None] * 8
        assert [r.version for r in chat.events()] == list(range(1, 8 * 5 * 3 + 1))
        results = [tool.response.result for tool in chat.tools.values() if tool.response]
        assert sorted(results) == [[w, n] for w in range(8) for n in range(5)]

    def test_an_event_of_an_unknown_tag_is_kept_and_skipped(self, chat: Conversation) -> None:
        """A log of a newer version can be read and appended to."""
        newer = UnknownEvent("tool_paused", 7, '{"call_id":"call_1","why":"lunch"}')
        chat.append(pending(), newer, running())
        assert [r.event for r in chat.events()][1] == newer
        assert chat.tools["call_1"].status.name == "Running"

    def test_a_known_event_disguised_as_unknown_is_checked(self, chat: Conversation) -> None:
        """An event that this version can read must obey the rules."""
        with pytest.raises(IllegalTransition):
            chat.append(UnknownEvent("running", 1, '{"call_id":"call_1","attempt":1}'))
        assert chat.version == 0

    def test_long_conversations_are_read_whole(self, chat: Conversation) -> None:
        """A conversation may be longer than one fetch, and may be read after any version."""
        many = self.more_than_a_chunk
        chat.append(*(message(str(n)) for n in range(many)))
        assert [r.version for r in chat.events()] == list(range(1, many + 1))
        assert [r.version for r in chat.events(after=many - 2)] == [many - 1, many]

    def test_a_reader_follows_the_feed_with_its_cursor(self, store: EventStore) -> None:
        """The cursor is kept as text; every event is seen once, in order."""
        seen: list[Recorded] = []
        cursor: str | None = None
        for n in range(6):
            store.conversation(f"chat-{n % 2}").append(message(str(n)), message(f"{n}b"))
            feed = store.read(cursor, limit=None if n % 3 == 2 else 1)
            seen += feed
            cursor = str(feed.cursor)
        assert sorted(map(text_of, seen)) == sorted(
            text for n in range(6) for text in (str(n), f"{n}b")
        )
        for name in ("chat-0", "chat-1"):
            versions = [r.version for r in seen if r.conversation_id == name]
            assert versions == [1, 2, 3, 4, 5, 6]
        assert list(store.read(cursor)) == []

    def test_a_cursor_of_another_store_is_refused(self, store: EventStore) -> None:
        """Its positions have no meaning elsewhere."""
        with pytest.raises(ValueError, match="another store"):
            store.read(Cursor("0" * 16, ((0, 1),)))

    def test_a_loss_is_accepted_in_the_store(self, store: EventStore) -> None:
        """A store that lost nothing continues as it was, and the log stays sound."""
        chat = store.conversation("chat")
        chat.append(message("a"))
        end = store.end()
        for _ in range(2):
            store.accept_loss()
        assert chat.append(message("b"))[0].version == 2
        assert [text_of(recorded) for recorded in store.read(end)] == ["b"]
        assert list(store.verify()) == []

    def test_a_follower_sees_new_events(self, store: EventStore) -> None:
        """Every event comes once, each conversation in its order, also after a resume."""
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

    def test_a_fingerprint_finds_the_events_of_equal_calls(self, store: EventStore) -> None:
        """The events of every conversation are found if these arguments were in force."""
        one, other = store.conversation("one"), store.conversation("other")
        one.append(pending("1", q="x"), running("1", q="x"), completed("1"), pending("2", q="y"))
        other.append(pending("3", q="y"), approved("3", q="x"), running("3", q="x"))
        found = store.read_fingerprint(fingerprint("search", {"q": "x"}))
        assert sorted((r.conversation_id, r.version) for r in found) == [
            ("one", 1),
            ("one", 2),
            ("one", 3),
            ("other", 2),
            ("other", 3),
        ]

    def test_read_call_gives_the_events_of_one_call(self, store: EventStore) -> None:
        """Events of other calls are left out."""
        store.conversation("chat").append(pending("1"), pending("2"), running("1"))
        assert [r.version for r in store.read_call("chat", "1")] == [1, 3]

    def test_a_result_that_is_not_json_is_kept(self, chat: Conversation) -> None:
        """The result is stored in its nearest readable form, and marked lossy."""
        tool = chat.request("shoot")
        chat.complete(tool.id, {"image": b"\xff\xd8", "score": float("nan"), "what": object})
        (event,) = (r.event for r in chat.events() if isinstance(r.event, ToolCompleted))
        assert event.lossy
        assert event.response.result["image"] == "ffd8"
        assert event.response.result["score"] == "nan"

    def test_returned_and_passed_values_do_not_alias_the_log(self, chat: Conversation) -> None:
        """A caller cannot change the log, or the state that the store keeps, through a value."""
        arguments = {"list": [1]}
        tool = chat.request("search", arguments, call_id="call_1")
        arguments["list"].append(2)
        tool.call.arguments["list"].append(3)
        status = chat.start("call_1").status
        assert isinstance(status, Running)
        status.arguments["list"].append(4)
        requested, started = (recorded.event for recorded in chat.events())
        assert isinstance(requested, ToolPending)
        assert requested.call.arguments == {"list": [1]}
        assert isinstance(started, ToolRunning)
        assert started.arguments == {"list": [1]}
        assert chat.fail("call_1", "x").call.arguments == {"list": [1]}

    def test_an_unknown_call_is_named(self, chat: Conversation) -> None:
        """The error names the conversation, too, so that a wrong id is found."""
        with pytest.raises(UnknownCall, match=r"'chat' has no call 'nobody'"):
            chat.start("nobody")

    def test_a_closed_store_refuses_everything(self, store: EventStore, chat: Conversation) -> None:
        """A store is closed by `close()` and at the end of its `with` block."""
        with store:
            chat.append(message())
        for operation in (
            lambda: chat.append(message()),
            lambda: list(chat.events()),
            lambda: chat.version,
            lambda: list(store.read()),
            lambda: list(store.conversations()),
            lambda: list(store.read_call("chat", "1")),
            lambda: list(store.verify()),
        ):
            with pytest.raises(StoreClosed):
                operation()
