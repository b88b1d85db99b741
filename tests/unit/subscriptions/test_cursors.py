"""Cursors: a place in the log, proven when a reader goes on there."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from support import projected_logs as projecting
from support.losses import put_back, put_back_on

from eventstore import (
    AsyncEventStore,
    ConversationCursor,
    Cursor,
    CursorLost,
    EventStore,
    Follow,
    LostPlace,
    Recorded,
    StoreCorrupt,
)
from eventstore.domain.anchors import anchor, anchor_of, event_id_of
from eventstore.session import SessionSettings
from eventstore.storage.factory import open_storage
from eventstore.testing import message
from eventstore.testing.appending import text_of
from projections import Projector

if TYPE_CHECKING:
    from support.servers import PostgreSQL, Server

EPOCH = "00112233445566ff"
ONE, TWO = "0192a0c1b2d37e4f8a5b6c7d8e9f0a1b", "ff" * 16

OLD = "eyJlcG9jaCI6IjAwMTEyMjMzNDQ1NTY2ZmYiLCJwb3NpdGlvbnMiOltbMCw3XSxbMTUsMzAwXV19"
"""A cursor that a version without anchors wrote."""

NEW = (
    "eyJlcG9jaCI6IjAwMTEyMjMzNDQ1NTY2ZmYiLCJwb3NpdGlvbnMiOltbMCw3XSxbMTUsMzAwXV0sImFuY2hvcnMiOltbMCwi"
    "MDE5MmEwYzFiMmQzN2U0ZjhhNWI2YzdkOGU5ZjBhMWIiXSxbMTUsImZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZm"
    "Il1dfQ"
)

Restore = Callable[[], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the log."""
    return tmp_path / "agent.db"


@pytest.fixture
def url(path: Path) -> str:
    """Return the URL of the log."""
    return f"sqlite:///{path}"


@pytest.fixture
def restore(path: Path, url: str, tmp_path: Path) -> Restore:
    """Store four events, keep a copy, and return what puts the copy back."""
    with EventStore.open(url) as store:
        say(store, "a", "b", "c")
        say(store, "x", name="other")
    copy = tmp_path / "copy.db"
    shutil.copyfile(path, copy)

    def restore() -> None:
        for name in ("agent.db-wal", "agent.db-shm"):
            path.with_name(name).unlink(missing_ok=True)
        shutil.copyfile(copy, path)

    return restore


def say(store: EventStore, *texts: str, name: str = "chat") -> None:
    """Append messages to a conversation."""
    store.conversation(name).append(*map(message, texts))


def texts(events: Iterator[Recorded]) -> list[str]:
    """Return what messages say."""
    return [text_of(recorded) for recorded in events]


# the text


def test_the_text_of_a_cursor_does_not_change() -> None:
    """Programs keep it for years; a cursor without anchors is written as it always was."""
    places = ((0, 7), (15, 300))
    assert str(Cursor(EPOCH, places)) == OLD
    assert str(Cursor(EPOCH, places, ((0, ONE), (15, TWO)))) == NEW
    assert Cursor.parse(OLD) == Cursor(EPOCH, places)
    assert Cursor.parse(NEW) == Cursor(EPOCH, places, ((0, ONE), (15, TWO)))


def test_the_text_of_a_conversation_cursor_does_not_change() -> None:
    """Versions alone are cursors, and so are those with an id, as they always were."""
    kept = anchor(ONE, 1_700_000_000_000_000)
    cursor = ConversationCursor(17, kept)
    assert str(cursor) == f"17-{ONE}@1700000000000000"
    assert str(ConversationCursor(17)) == "17"
    cases = ((str(cursor), kept), (f"17-{ONE}", ONE), ("17", None), (17, None), (cursor, kept))
    for text, expected in cases:
        found = ConversationCursor.of(text)
        assert (found, found.anchor) == (17, expected)
    assert json.dumps({"at": cursor}) == '{"at": 17}'
    again = pickle.loads(pickle.dumps(cursor))  # noqa: S301 - our own
    assert (again, again.anchor) == (17, kept)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1-", "1-abc", f"1-{ONE}0", f"1-{ONE}@", f"٣-{ONE}", f"-{ONE}"]
)
def test_other_text_is_no_conversation_cursor(text: str) -> None:
    """The error says what to pass."""
    with pytest.raises(ValueError, match="is not a cursor: pass what str"):
        ConversationCursor.of(text)


# a log that was put back


Place = Callable[[EventStore], Cursor]


def read_all(store: EventStore) -> Cursor:
    """Return the cursor after a read of all events."""
    feed = store.read()
    assert len(list(feed)) > 4
    return feed.cursor


def follow_all(store: EventStore) -> Cursor:
    """Return the cursor after all events were followed."""
    follow = store.follow(timeout=0)
    assert len(list(follow)) > 4
    return follow.cursor


@pytest.mark.parametrize("place", [read_all, follow_all, EventStore.end])
@pytest.mark.parametrize("is_text", [True, False])
def test_a_reader_does_not_pass_over_a_log_that_was_put_back(
    place: Place, url: str, restore: Restore, *, is_text: bool
) -> None:
    """The error names both events, and the cursor that it offers misses nothing."""
    with EventStore.open(url) as store:
        say(store, "d", "e")
        cursor = place(store)
        gone = [recorded.event_id for recorded in store.read()][-1]
        assert texts(store.follow(str(cursor), timeout=0)) == []
    restore()
    with EventStore.open(url) as store:
        say(store, "D", "E", "F")
        after = str(cursor) if is_text else cursor
        stands = [recorded.event_id for recorded in store.read()][5]
        readers: list[Callable[[], object]] = [
            lambda: next(store.read(after)),
            lambda: next(store.read(after).outlines()),
            lambda: next(store.follow(after, timeout=0)),
        ]
        for reader in readers:
            with pytest.raises(CursorLost, match="the database was replaced by an older") as lost:
                reader()
            assert lost.value.lost == (LostPlace(0, 6, gone, stands),)
            assert str(lost.value).startswith(f"position 6 of lane 0 had event {gone}, and has ev")
        restart = lost.value.restart
        assert f"error.restart ({restart})" in str(lost.value)
        found = texts(store.follow(restart, timeout=0))
        assert found == texts(store.read(restart)) == ["a", "b", "c", "x", "D", "E", "F"]


def test_outlines_are_of_every_event_behind_a_cursor(url: str) -> None:
    """Outlines give all headers up to the limit, and the feed's cursor follows them."""
    with EventStore.open(url) as store:
        say(store, "a", "b", "c", "d", "e")
        events = list(store.read())
        after = store.read(limit=2)
        list(after)
        feed = store.read(after.cursor, limit=2)
        found = [recorded for page in feed.outlines() for recorded in page]
        assert [one.event_id for one in found] == [one.event_id for one in events[2:4]]
        assert feed.cursor == Cursor(store.end().epoch, ((0, 4),), ((0, anchor_of(events[3])),))


def test_a_log_that_is_shorter_than_a_cursor_is_reported(url: str, restore: Restore) -> None:
    """There is no event at its place; an old cursor is refused, too."""
    with EventStore.open(url) as store:
        say(store, "d")
        cursor = store.end()
    restore()
    with EventStore.open(url) as store:
        old = Cursor(cursor.epoch, cursor.positions)
        assert texts(store.read(old)) == []
        for after, expected in ((cursor, event_id_of(cursor.anchors[0][1])), (old, None)):
            with pytest.raises(StoreCorrupt, match=r"position 5 of lane 0 had .*has no e") as lost:
                next(store.follow(after, timeout=0))
            assert isinstance(lost.value, CursorLost)
            assert lost.value.lost == (LostPlace(0, 5, expected, None),)


def test_a_cursor_before_the_copy_goes_on(url: str, restore: Restore) -> None:
    """All that was read is still there; nothing was lost for this reader."""
    with EventStore.open(url) as store:
        feed = store.read(limit=2)
        assert texts(feed) == ["a", "b"]
        say(store, "d")
    restore()
    with EventStore.open(url) as store:
        say(store, "D")
        for events in (store.read(str(feed.cursor)), store.follow(feed.cursor, timeout=0)):
            assert texts(events) == ["c", "x", "D"]


def test_an_event_that_is_repeated_at_its_old_place_hides_no_loss(
    url: str, restore: Restore
) -> None:
    """A copy was restored, and others wrote before the event was stored again with its id."""
    again = uuid4()

    def repeat(store: EventStore) -> None:
        store.conversation("chat").append(message("again"), event_ids=[again])

    with EventStore.open(url) as store:
        say(store, "lost")
        repeat(store)
        cursor, place = store.end(), ConversationCursor(5, anchor(again.hex, 5))
        with Projector(store, tables := f"{url}.tables") as projector:
            projector.catch_up()
    restore()
    with EventStore.open(url) as store:
        say(store, "new")
        repeat(store)
        assert store.end().positions == cursor.positions
        for events in (
            store.read(cursor),
            store.follow(cursor, timeout=0),
            store.conversation("chat").follow(place, timeout=0),
        ):
            with pytest.raises(CursorLost, match="has the same, recorded at another time, now"):
                next(events)
        with Projector(store, tables) as projector, pytest.raises(CursorLost):
            projector.catch_up()


def test_anchors_of_older_versions_are_compared_by_their_ids(url: str, restore: Restore) -> None:
    """A cursor that was kept goes on, or is refused, as it was before."""
    with EventStore.open(url) as store:
        say(store, "d")
        end = store.end()
        ids = tuple((lane, str(event_id_of(kept))) for lane, kept in end.anchors)
        old = Cursor(end.epoch, end.positions, ids)
        say(store, "e")
        for cursor in (old, end):
            assert texts(store.read(cursor)) == texts(store.follow(cursor, timeout=0)) == ["e"]
        place = f"4-{ids[0][1]}"
        assert texts(store.conversation("chat").follow(place, timeout=0)) == ["e"]
    restore()
    with EventStore.open(url) as store:
        say(store, "D", "E")
        with pytest.raises(CursorLost):
            next(store.read(old))
        with pytest.raises(CursorLost):
            next(store.conversation("chat").follow(place, timeout=0))


def test_old_cursors_read_as_before(url: str, restore: Restore) -> None:
    """A cursor without anchors cannot tell; the one after it has them."""
    with EventStore.open(url) as store:
        say(store, "d")
        old = Cursor(store.end().epoch, store.end().positions)
    restore()
    with EventStore.open(url) as store:
        say(store, "D", "E")
        for events in (store.read(str(old)), store.follow(str(old), timeout=0)):
            assert texts(events) == ["E"]
            assert events.cursor == store.end()


def test_only_lost_lanes_are_read_again(tmp_path: Path) -> None:
    """The cursor that the error offers keeps its place in the other lanes."""
    with projecting.new_store(tmp_path / "agent.db", lanes=4) as store:
        for number in range(20):
            say(store, f"{number}", name=f"chat-{number}")
        assert len(dict(store.end().anchors)) == 4
        end = follow_all(store)
        assert end == read_all(store) == store.end()
        lane, at = end.positions[2]
        change = (
            "UPDATE toolledger_events SET event_id = zeroblob(16) WHERE lane = ? AND position = ?"
        )
        projecting.execute(tmp_path / "agent.db", change, (lane, at))
        with pytest.raises(CursorLost) as lost:
            list(store.read(end))
        assert lost.value.lost == (
            LostPlace(lane, at, event_id_of(dict(end.anchors)[lane]), "00" * 16),
        )
        again = list(store.follow(lost.value.restart, timeout=0))
        assert [recorded.lane for recorded in again] == [lane] * at


def test_the_events_of_other_tenants_are_anchors_too(url: str, restore: Restore) -> None:
    """A follower stands behind events that are not its own; their loss is its loss."""
    with EventStore.open(url, tenant="b") as other, EventStore.open(url) as store:
        say(other, "1", "2")
        follow = store.follow(timeout=0)
        assert texts(follow) == ["a", "b", "c", "x"]
        assert follow.cursor == store.end()
    restore()
    with EventStore.open(url) as store:
        say(store, "D", "E", "F")
        with pytest.raises(CursorLost, match="position 6 of lane 0"):
            next(store.follow(follow.cursor, timeout=0))


def test_a_follower_of_a_conversation_notices_too(url: str, restore: Restore) -> None:
    """Its cursor has the event at the version."""
    with EventStore.open(url) as store:
        say(store, "d")
        follow = store.conversation("chat").follow(timeout=0)
        last = list(follow)[-1]
        gone = last.event_id
        assert str(follow.cursor) == f"4-{gone}@{last.recorded_at}"
        assert texts(store.conversation("chat").follow(str(follow.cursor), timeout=0)) == []
    restore()
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        with pytest.raises(CursorLost, match=r"version 4 of conversation 'chat' had .* no e"):
            next(chat.follow(str(follow.cursor), timeout=0))
        say(store, "D", "E")
        stands = [recorded.event_id for recorded in chat.events()][3]
        for after in (str(follow.cursor), follow.cursor):
            with pytest.raises(CursorLost, match="replaced by an older copy") as lost:
                next(chat.follow(after, timeout=0))
            assert lost.value.lost == (LostPlace("chat", 4, gone, stands),)
        assert texts(chat.follow(lost.value.restart, timeout=0)) == ["a", "b", "c", "D", "E"]
        assert texts(chat.follow(4, timeout=0)) == ["E"]
        for ahead in (6, 35):
            with pytest.raises(CursorLost, match=f"version {ahead} of .* ends at version 5: "):
                next(chat.follow(ahead, timeout=0))
        third = chat.follow(timeout=0)
        assert texts(next(third) for _ in range(3)) == ["a", "b", "c"]
        going_on: Follow[ConversationCursor] = chat.follow(str(third.cursor), timeout=0)
        assert texts(going_on) == ["D", "E"]


def test_a_store_that_stayed_open_forgets_the_names_of_lost_conversations(
    url: str, path: Path
) -> None:
    """Another conversation may begin where a lost one began."""
    with EventStore.open(url) as store:
        for name in ("a", "b"):
            say(store, name, name=name)
        end = store.end()
        readers: list[Callable[[], Iterator[Recorded]]] = [
            lambda: store.read(end),
            lambda: store.follow(end, timeout=0),
            lambda: store.conversation("b").follow(f"1-{end.anchors[0][1]}", timeout=0),
        ]
        for number, reader in enumerate(readers):
            assert next(store.read()).conversation_id == "a"
            for table, place in (("events", "position"), ("conversations", "conversation")):
                statement = f"DELETE FROM toolledger_{table} WHERE {place} > 1"  # noqa: S608 - ours
                projecting.execute(path, statement)
            projecting.execute(path, "UPDATE toolledger_lanes SET position = 1")
            with EventStore.open(url) as new:
                say(new, "x", name=f"new-{number}")
            with pytest.raises(CursorLost) as lost:
                next(reader())
            assert len(lost.value.lost) == 1
            assert [r.conversation_id for r in store.read()] == ["a", f"new-{number}"]


def test_readers_of_asyncio_notice_too(url: str, restore: Restore) -> None:
    """Their cursors are the same."""

    async def read() -> list[str]:
        async with AsyncEventStore.open(url) as store:
            await store.conversation("chat").append(message("d"))
            feed, follow = store.read(), store.follow(timeout=0)
            own = store.conversation("chat").follow(timeout=0)
            assert len([r async for r in feed]) == len([r async for r in follow]) == 5
            assert [r.version async for r in own] == [1, 2, 3, 4]
            assert feed.cursor == follow.cursor == await store.end()
            return [str(feed.cursor), str(follow.cursor), str(own.cursor)]

    async def go_on(feed: str, follow: str, own: str) -> None:
        async with AsyncEventStore.open(url) as store:
            chat = store.conversation("chat")
            await chat.append(message("D"), message("E"))
            readers: list[AsyncIterator[Recorded]] = [
                store.read(feed),
                store.follow(follow, timeout=0),
                chat.follow(own, timeout=0),
            ]
            for events in readers:
                with pytest.raises(CursorLost):
                    await anext(events)

    cursors = asyncio.run(read())
    restore()
    asyncio.run(go_on(*cursors))


def test_other_events_on_a_server_are_noticed(server: Server) -> None:
    """After a failover that lost commits, others take their positions."""
    url = server.database(migrated=True)
    with EventStore.open(url) as store:
        for number in range(20):
            say(store, f"{number}", name=f"chat-{number}")
        end = store.end()
        assert end == follow_all(store)
        assert end.anchors == read_all(store).anchors
        lane, at = next(place for place in end.positions if place[1])
        server.execute(
            "UPDATE toolledger_events SET event_id = '0123456789abcdef' "  # noqa: S608 - numbers
            f"WHERE lane = {lane} AND position = {at}",
            database=url,
        )
        for events in (store.read(end), store.follow(end, timeout=0)):
            with pytest.raises(CursorLost) as lost:
                next(events)
            (place,) = lost.value.lost
            expected = event_id_of(dict(end.anchors)[lane])
            assert place == LostPlace(lane, at, expected, b"0123456789abcdef".hex())


# a log that is put back while it is followed


def grow(url: str, *said: str, name: str = "chat") -> None:
    """Append as another process does, which has never seen what was lost."""
    with EventStore.open(url) as other:
        say(other, *said, name=name)


@pytest.mark.parametrize("further", [("C",), ("C", "D", "E")])
def test_a_running_follower_notices(url: str, path: Path, further: Sequence[str]) -> None:
    """The place is compared when new events come, whatever stands there by then."""
    with EventStore.open(url) as store:
        say(store, "a", "b", "c")
        follow, chat = store.follow(timeout=0), store.conversation("chat").follow(timeout=0)
        assert texts(follow) == texts(chat) == ["a", "b", "c"]
        put_back(path, 2)
        grow(url, "B", name="other")
        assert texts(follow) == []
        grow(url, *further)
        with pytest.raises(CursorLost, match="position 3 of lane 0") as lost:
            next(follow)
        assert texts(store.read(lost.value.restart)) == ["a", "b", "B", *further]
        with pytest.raises(CursorLost, match="version 3 of conversation 'chat'") as lost:
            next(chat)
        again = store.conversation("chat").follow(lost.value.restart, timeout=0)
        assert texts(again) == ["a", "b", *further]


def test_a_running_follower_of_asyncio_notices(url: str, path: Path) -> None:
    """The comparison is the same."""

    async def follow() -> None:
        async with AsyncEventStore.open(url) as store:
            await store.conversation("chat").append(*map(message, "abc"))
            every, chat = store.follow(timeout=0), store.conversation("chat").follow(timeout=0)
            assert len([r async for r in every]) == len([r async for r in chat]) == 3
            put_back(path, 2)
            await asyncio.to_thread(grow, url, "C", "D")
            for events in (every, chat):
                with pytest.raises(CursorLost):
                    await anext(events)

    asyncio.run(follow())


def test_a_follower_that_had_not_come_so_far_goes_on(url: str, path: Path) -> None:
    """None of the events that were taken back had been read."""
    settings = SessionSettings(page_events=2)
    with EventStore(open_storage(url, "", "full", 30.0), settings=settings) as store:
        say(store, *"abcdef")
        follow = store.follow(timeout=0)
        assert texts(next(follow) for _ in range(2)) == ["a", "b"]
        put_back(path, 3)
        assert texts(follow) == ["c"]
        grow(url, "D")
        assert texts(follow) == ["D"]


def test_followers_notice_a_server_that_was_promoted(postgresql: PostgreSQL) -> None:
    """Connections are lost; on the next ones other events have taken the positions."""
    url = postgresql.database(migrated=True)
    with EventStore.open(url) as store:
        say(store, "a", "b", "c")
        follow, chat = store.follow(timeout=0), store.conversation("chat").follow(timeout=0)
        assert texts(follow) == texts(chat) == ["a", "b", "c"]
        lane, end = next(place for place in follow.cursor.positions if place[1])
        put_back_on(postgresql, url, lane, end - 1)
        grow(url, "C", "D")
        for events in (follow, chat):
            with pytest.raises(CursorLost):
                next(events)
