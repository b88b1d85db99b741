"""The guarantees of every storage, as test suites."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

import pytest

from eventstore.append.event_ids import event_ids
from eventstore.domain.anchors import anchor_of
from eventstore.domain.calls import FunctionCall
from eventstore.domain.events import Event, Recorded, ToolPending, ToolRunning, UnknownEvent
from eventstore.domain.fingerprint import digest
from eventstore.errors import EventStoreError, StoreClosed, VersionConflict
from eventstore.storage.interface import Append, Appended, Draft, Storage
from eventstore.testing.appending import all_events, append, append_one, forbid_rebase, rebase_with
from eventstore.testing.builders import completed, draft, fingerprint_of, message, pending
from eventstore.testing.clock import NOON
from eventstore.testing.concurrency import run_concurrently
from eventstore.testing.fixtures import ContractFixtures, OpenStorage


class StorageContract(ContractFixtures):
    """The guarantees of every storage, tested directly."""

    def test_versions_and_positions_count_up_without_gaps(self, storage: Storage) -> None:
        """The first event has version 1; the next append continues after the last."""
        first = append(storage, "chat", message("a"), message("b"))
        second = append(storage, "chat", message("c"), version=2)
        assert (first.version, second.version) == (2, 3)
        assert second.position == first.position + 1
        assert [r.version for r in storage.conversation("chat")] == [1, 2, 3]

    def test_positions_of_a_lane_have_no_gaps_across_conversations(self, storage: Storage) -> None:
        """Events of any conversation get the next position of their lane."""
        for name in ("a", "b", "c"):
            append(storage, name, message("1"), message("2"))
        lanes: dict[int, list[int]] = {}
        for recorded in all_events(storage):
            lanes.setdefault(recorded.lane, []).append(recorded.position)
        for positions in lanes.values():
            assert positions == list(range(1, len(positions) + 1))
        assert {lane: head for lane, head in storage.heads().items() if head} == {
            lane: positions[-1] for lane, positions in lanes.items()
        }

    def test_a_stored_event_comes_back_whole(self, storage: Storage) -> None:
        """Every member of the envelope is unchanged, and the event is equal."""
        event = pending("call_1", query="Größe ≥ 3\u0000\u2028🙂", deep={"list": [1, 2.5, None]})
        given = draft(event)
        done = append_one(storage, Append("chat", 0, 0, [given], forbid_rebase))
        assert list(storage.conversation("chat")) == [
            Recorded(
                done.lane,
                done.position,
                "chat",
                1,
                given.event_id.hex(),
                NOON,
                "call_1",
                fingerprint_of(event.call),
                event,
            )
        ]

    def test_a_conversation_is_read_after_a_version(self, storage: Storage) -> None:
        """A reader that knows the beginning reads only the rest."""
        append(storage, "chat", message("a"), message("b"), message("c"))
        assert [r.version for r in storage.conversation("chat", after=1)] == [2, 3]
        assert list(storage.conversation("chat", after=3)) == []

    def test_an_unknown_conversation_is_empty(self, storage: Storage) -> None:
        """Reading it is not an error, and creates nothing."""
        assert list(storage.conversation("nobody")) == []
        assert list(storage.conversations()) == []

    def test_ids_that_look_alike_are_different_conversations(self, storage: Storage) -> None:
        """Case, accents, trailing blanks and length all count."""
        names = ["chat", "Chat", "chat ", " chat", "chät", "chat\t", "cha\u0301t", "x" * 500]
        for name in names:
            append(storage, name, message(name))
        for name in names:
            assert [r.event for r in storage.conversation(name)] == [message(name)]
        assert sorted(storage.conversations()) == sorted((name, 1) for name in names)

    def test_an_unknown_tag_is_kept(self, storage: Storage) -> None:
        """An event of a newer version comes back unchanged."""
        newer = UnknownEvent("tool_paused", 7, '{"call_id": "call_1"}')
        append(storage, "chat", newer)
        assert [r.event for r in storage.conversation("chat")] == [newer]

    def test_a_stale_append_is_decided_again(self, storage: Storage) -> None:
        """`rebase` gets the events of others, and its drafts are stored after them."""
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
        """Returning no draft is allowed: no version and no position is used up."""
        first = append(storage, "chat", message("a"))
        nothing = append(storage, "chat", message("stale"), rebase=lambda _: [])
        assert (nothing.version, nothing.position) == (first.version, first.position)
        assert append(storage, "chat", message("b"), version=1).position == first.position + 1

    def test_deciding_again_may_need_more_or_fewer_events(self, storage: Storage) -> None:
        """Positions fit the stored events, not the first request."""
        append(storage, "chat", message("a"))
        more = [draft(message("b")), draft(message("c"))]
        append(storage, "chat", message("stale"), rebase=lambda _: more)
        fewer = [draft(message("d"))]
        append(storage, "chat", message("x"), message("y"), rebase=lambda _: fewer)
        assert [r.version for r in storage.conversation("chat")] == [1, 2, 3, 4]
        assert list(storage.verify()) == []

    def test_a_refusal_while_deciding_again_writes_nothing(self, storage: Storage) -> None:
        """The error is raised unchanged, and the next append works as before."""
        append(storage, "chat", message("a"))

        def rebase(tail: Sequence[Recorded]) -> NoReturn:
            raise VersionConflict(0, len(tail))

        with pytest.raises(VersionConflict):
            append(storage, "chat", message("stale"), rebase=rebase)
        assert append(storage, "chat", message("b"), version=1).version == 2
        assert len(all_events(storage)) == 2
        assert list(storage.verify()) == []

    def test_an_append_is_stored_whole_or_not_at_all(self, storage: Storage) -> None:
        """If one event cannot be stored, none is, and no position is used up."""
        append(storage, "chat", message("a"))
        twice = event_ids(1, NOON)[0]
        drafts = [draft(message("b"), twice), draft(message("c"), twice)]
        with pytest.raises(EventStoreError):
            storage.append([Append("chat", 1, 0, drafts, forbid_rebase)])
        with pytest.raises(EventStoreError):
            storage.append([Append("new", 0, 0, drafts, forbid_rebase)])
        assert [(r.conversation_id, r.version) for r in all_events(storage)] == [("chat", 1)]
        assert list(storage.conversations()) == [("chat", 1)]
        append(storage, "chat", message("d"), version=1)
        assert list(storage.verify()) == []

    def test_a_batch_is_stored_whole_or_not_at_all(self, storage: Storage) -> None:
        """If one request fails in the database, none is stored, and no position is used up."""
        append(storage, "chat", message("a"))
        twice = event_ids(1, NOON)[0]
        drafts = [draft(message("b"), twice), draft(message("c"), twice)]
        with pytest.raises(EventStoreError):
            storage.append(
                [
                    Append("new", 0, 0, (), partial(rebase_with, message("x"))),
                    Append("bad", 0, 0, (), lambda _: drafts),
                ]
            )
        assert [(r.conversation_id, r.version) for r in all_events(storage)] == [("chat", 1)]
        done = storage.append([Append("new", 0, 0, (), partial(rebase_with, message("x")))])
        assert [one.version for one in done if isinstance(one, Appended)] == [1]
        assert list(storage.conversations()) in (
            [("chat", 1), ("new", 1)],
            [("new", 1), ("chat", 1)],
        )
        assert list(storage.verify()) == []

    def test_known_ids_are_those_of_the_conversation(self, storage: Storage) -> None:
        """An event id is searched in one conversation, and found with its version."""
        first, second, third = event_ids(3, NOON)
        drafts = [draft(message("a"), first), draft(message("b"), second)]
        storage.append([Append("chat", 0, 0, drafts, forbid_rebase)])
        assert storage.known_ids("chat", [second, third]) == {second: 2}
        assert storage.known_ids("other", [first]) == {}

    def test_nothing_depends_on_what_is_remembered(self, storage: Storage) -> None:
        """A storage that has forgotten all looks it up again."""
        append(storage, "chat", message("a"))
        before = all_events(storage)
        storage.forget()
        assert all_events(storage) == before
        append(storage, "chat", message("b"), version=1)
        assert [r.version for r in storage.conversation("chat")] == [1, 2]

    def test_conversations_come_oldest_first_with_their_versions(self, storage: Storage) -> None:
        """Lanes come one after the other, each in the order of the conversations' first events."""
        for name in ("b", "a", "c"):
            append(storage, name, message("1"))
        append(storage, "a", message("2"), version=1)
        found = list(storage.conversations())
        assert sorted(found) == [("a", 2), ("b", 1), ("c", 1)]
        first = {r.conversation_id: (r.lane, r.position) for r in reversed(all_events(storage))}
        assert [name for name, _ in found] == sorted(first, key=lambda name: first[name])

    def test_reads_of_any_length_are_complete_and_in_order(self, storage: Storage) -> None:
        """A read may be longer than one fetch, of one conversation or of many."""
        many = self.more_than_a_chunk
        append(storage, "long", *(message(str(n)) for n in range(many)))
        long = list(storage.conversation("long"))
        assert [r.version for r in long] == list(range(1, many + 1))
        assert [r.event for r in long] == [message(str(n)) for n in range(many)]
        assert len(list(storage.conversation("long", after=many - 5))) == 5
        for n in range(many // 2):
            append(storage, f"short-{n}", message(str(n)))
        assert len(all_events(storage)) == many + many // 2
        assert len(list(storage.conversations())) == 1 + many // 2

    def test_a_running_read_is_not_disturbed_by_appends(self, storage: Storage) -> None:
        """The read gives each event once, in order."""
        many = self.more_than_a_chunk
        append(storage, "chat", *(message(str(n)) for n in range(many)))
        reader, follower = storage.conversation("chat"), storage.feed({})
        first = [next(reader).version, next(follower).version]
        append(storage, "chat", message("late"), version=many)
        assert first == [1, 1]
        for rest in (reader, follower):
            versions = [r.version for r in rest]
            assert versions == list(range(2, len(versions) + 2))
            assert len(versions) in (many - 1, many)

    def test_the_feed_continues_after_each_lane_position(self, storage: Storage) -> None:
        """A reader that continues from the last positions sees each new event once."""
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
        """Therefore a cursor is one position for each lane."""
        for n in range(5):
            append(storage, f"chat-{n}", message("a"), message("b"))
        places = [(r.lane, r.position) for r in all_events(storage)]
        assert places == sorted(set(places))

    def test_the_feed_stops_at_the_given_heads(self, storage: Storage) -> None:
        """Events after heads that were read before are left out."""
        for n in range(6):
            append(storage, f"chat-{n}", *(message(str(n)) for n in range(3)))
        heads = storage.heads()
        before = all_events(storage)
        for n in range(6):
            append(storage, f"chat-{n}", message("late"), version=3)
        assert list(storage.feed({}, until=heads)) == before
        assert list(storage.feed(heads, until=heads)) == []
        assert list(storage.feed({}, 4, heads)) == before[:4]
        late = storage.feed(heads, until=storage.heads())
        assert [r.event for r in late] == [message("late")] * 6

    def test_the_event_at_a_position_is_found(self, storage: Storage) -> None:
        """A cursor is compared by it; where no event stands, none is found."""
        for n in range(3):
            append(storage, f"chat-{n}", message("a"), message("b"))
        anchors = {(r.lane, r.position): anchor_of(r) for r in all_events(storage)}
        heads = storage.heads()
        last = {lane: anchors[lane, at] for lane, at in heads.items() if at}
        assert storage.anchors_at(heads) == last
        assert storage.anchors_at(dict.fromkeys(last, 1)) == {
            lane: anchors[lane, 1] for lane in last
        }
        assert storage.anchors_at({lane: at + 1 for lane, at in heads.items()}) == {}
        assert storage.anchors_at({}) == {}

    def test_the_feed_stops_at_its_limit(self, storage: Storage) -> None:
        """A limit counts events; 0 gives none."""
        append(storage, "chat", *(message(str(n)) for n in range(5)))
        for limit in (0, 1, 3, 100):
            assert [r.version for r in storage.feed({}, limit)] == [1, 2, 3, 4, 5][:limit]

    def test_headers_are_those_of_the_feed(self, storage: Storage) -> None:
        """Pages are not empty, and headers have the same order and limit."""
        call = FunctionCall("find", {"q": "x"}, "call-1")
        events: list[Event] = [message("hi"), ToolPending(call), ToolRunning("call-1", 1)]
        for n in range(3):
            append(storage, f"chat-{n}", *events)
        for limit in (None, 0, 2, 5):
            pages = list(storage.headers({}, limit))
            assert all(pages)
            found = [recorded for page in pages for recorded in page]
            expected = list(storage.feed({}, limit))
            places = [(r.lane, r.position, r.version, r.event_id, r.call_id) for r in found]
            assert places == [
                (r.lane, r.position, r.version, r.event_id, r.call_id) for r in expected
            ]
            assert [r.event.tag for r in found if r.call_id] == [
                r.event.tag for r in expected if r.call_id
            ]
        assert list(storage.headers(storage.heads())) == []

    def test_a_fingerprint_finds_the_calls_with_these_arguments(self, storage: Storage) -> None:
        """Calls of every conversation are found, and no call with other arguments."""
        append(storage, "a", pending("1", q="x"), pending("2", q="y"))
        append(storage, "b", pending("3", q="x"))
        found = storage.by_fingerprint(digest("search", {"q": "x"}))
        assert sorted((r.conversation_id, r.call_id) for r in found) == [("a", "1"), ("b", "3")]
        assert list(storage.by_fingerprint(digest("search", {"q": "z"}))) == []

    def test_the_epoch_does_not_change(self, storage: Storage) -> None:
        """The epoch is text that is not empty, and belongs to the database."""
        assert storage.epoch
        append(storage, "chat", message())
        assert storage.epoch == storage.epoch

    def test_a_sound_log_has_no_damage(self, storage: Storage) -> None:
        """`verify` finds nothing, in an empty log and in one with events."""
        assert list(storage.verify()) == []
        append(storage, "a", pending("1", q="x"), completed("1"))
        append(storage, "b", message())
        assert list(storage.verify()) == []

    def test_a_closed_storage_refuses_everything(self, storage: Storage) -> None:
        """Closing again has no effect; running reads end, too."""
        append(storage, "chat", *(message(str(n)) for n in range(self.more_than_a_chunk)))
        reader = storage.conversation("chat")
        next(reader)
        storage.close()
        storage.close()
        for operation in (
            lambda: append(storage, "chat", message(), version=2),
            lambda: list(storage.conversation("chat")),
            lambda: all_events(storage),
            lambda: list(storage.by_fingerprint(bytes(16))),
            lambda: storage.known_ids("chat", [bytes(16)]),
            lambda: storage.anchors_at({0: 1}),
            lambda: list(storage.conversations()),
            storage.heads,
            lambda: list(storage.verify()),
            lambda: list(reader),
        ):
            with pytest.raises(StoreClosed):
                operation()

    def test_threads_share_a_storage(self, storage: Storage) -> None:
        """Every append is stored, in one order; reads continue at the same time."""

        def write(worker: int) -> None:
            own = 0
            for n in range(5):
                own = append(storage, f"own-{worker}", message(str(n)), version=own).version
                event = message(f"{worker}.{n}")
                append(storage, "one", event, rebase=partial(rebase_with, event))
                assert sum(1 for _ in storage.conversation(f"own-{worker}")) == n + 1

        assert run_concurrently(*(partial(write, worker) for worker in range(6))) == [None] * 6
        assert [r.version for r in storage.conversation("one")] == list(range(1, 31))
        assert list(storage.verify()) == []


class SharedStorageContract(StorageContract):
    """The guarantees for several storages on one database."""

    def test_a_batch_is_stored_after_the_events_of_others(self, open_storage: OpenStorage) -> None:
        """Each request sees the stored events and those before it, and has its own outcome."""
        mine, other = open_storage(), open_storage()
        known = {name: append(mine, name, message(name)) for name in ("a", "b", "c", "d")}
        append(other, "b", message("theirs"), version=1)
        append(other, "d", message("theirs"), message("too"), version=1)
        append(other, "elsewhere", message("theirs"))
        tails: list[list[Event]] = []

        def request(name: str, *events: Event) -> Append:
            def rebase(tail: Sequence[Recorded]) -> Sequence[Draft]:
                tails.append([recorded.event for recorded in tail])
                if not events:
                    raise VersionConflict(0, len(tail))
                return [draft(event) for event in events]

            last = known.get(name)
            version, as_of = (last.version, last.position) if last else (0, 0)
            return Append(name, version, as_of, (), rebase)

        done = mine.append(
            [
                request("a", message("1")),
                request("b", message("2"), pending(q="x")),
                request("c"),
                request("new", message("3")),
                request("d", message("4")),
                request("a", message("5")),
            ]
        )
        theirs = [message("theirs")]
        assert tails == [[], theirs, [], [], [*theirs, message("too")], []]
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

    def test_events_of_another_storage_are_seen(self, open_storage: OpenStorage) -> None:
        """Reads see them at once, and so do appends that were decided earlier."""
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
        """A storage that was idle does not trust its old state."""
        one, other = open_storage(), open_storage()
        state = {id(one): (0, 0), id(other): (0, 0)}
        for n, storage in enumerate([one, one, other, one, other, other, one, one, other]):
            version, as_of = state[id(storage)]
            event = message(str(n))
            request = Append("chat", version, as_of, [draft(event)], partial(rebase_with, event))
            done = append_one(storage, request)
            state[id(storage)] = (done.version, done.position)
        assert [r.event for r in one.conversation("chat")] == [message(str(n)) for n in range(9)]
        assert list(one.verify()) == []

    def test_versions_are_those_of_the_conversations_asked_for(
        self, open_storage: OpenStorage
    ) -> None:
        """Conversations of this tenant that exist are included, with the events of others."""
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
        """All storages of one database have the same, so that a cursor is valid for all of them."""
        mine, other = open_storage(), open_storage("other")
        assert mine.epoch == other.epoch
        assert mine.url == other.url
        assert (mine.tenant, other.tenant) == ("", "other")

    def test_a_server_tells_one_time_to_all(self, open_storage: OpenStorage) -> None:
        """A server's time runs, in microseconds; without a server it is the machine's."""
        ask, ask_other = open_storage().server_time, open_storage("other").server_time
        if ask is None or ask_other is None:
            assert (ask, ask_other) == (None, None)
        else:
            assert NOON < ask() <= ask_other() < ask() + 3_600_000_000

    def test_tenants_never_see_each_other(self, open_storage: OpenStorage) -> None:
        """No conversation, feed, list, fingerprint or event id leads to another tenant."""
        acme, empty, other = open_storage("acme"), open_storage(), open_storage("Acme")
        shared = event_ids(1, NOON)[0]
        for storage, word in ((acme, "acme"), (empty, "empty")):
            events = [draft(message(word), shared), draft(pending("call_1", q="x"))]
            storage.append([Append("chat", 0, 0, events, forbid_rebase)])
        for storage, word in ((acme, "acme"), (empty, "empty")):
            assert [r.event for r in storage.conversation("chat", 0)][:1] == [message(word)]
            assert all_events(storage) == list(storage.conversation("chat"))
            assert len(list(storage.by_fingerprint(digest("search", {"q": "x"})))) == 1
            assert list(storage.conversations()) == [("chat", 2)]
        assert all_events(other) == list(other.conversation("chat")) == []
        assert list(other.conversations()) == []
        assert other.known_ids("chat", [shared]) == {}
        assert list(other.by_fingerprint(digest("search", {"q": "x"}))) == []
