"""A writer whose log was put back: nothing is written until the loss is accepted."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, create_engine
from support.losses import put_back, put_back_on, restored
from support.pgbouncer import pooled
from typer.testing import CliRunner

from eventstore import (
    AsyncEventStore,
    EventStore,
    StoreCorrupt,
    UnknownCall,
)
from eventstore.testing import message
from projections.cli.app import app

if TYPE_CHECKING:
    from support.servers import MariaDB, PostgreSQL

REPLACED = "database was replaced by an older copy"
ACCEPTED = "until the loss is accepted: see what was lost, then run `toolledger accept-loss`"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the log."""
    return tmp_path / "agent.db"


@pytest.fixture
def url(path: Path) -> str:
    """Return the URL of the log."""
    return f"sqlite:///{path}"


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """Return a store that stays open while its log is put back."""
    with EventStore.open(url) as store:
        yield store


Accept = Callable[[str], None]


def accept_in_another_store(url: str) -> None:
    """Accept the loss in Python."""
    with EventStore.open(url, tenant="other") as other:
        other.accept_loss()


def accept_on_the_command_line(url: str) -> None:
    """Accept the loss by the command."""
    done = CliRunner().invoke(app, ["accept-loss", "--url", url])
    assert (done.exit_code, done.output.startswith("accepted: ")) == (0, True)
    done = CliRunner().invoke(app, ["accept-loss", "--url", url, "--json"])
    assert (done.exit_code, json.loads(done.output)) == (0, {"accepted": True})


def accept_in_asyncio(url: str) -> None:
    """Accept the loss in the facade for asyncio."""

    async def accept() -> None:
        async with AsyncEventStore.open(url) as other:
            await other.accept_loss()

    asyncio.run(accept())


@pytest.mark.parametrize(
    "accept", [accept_in_another_store, accept_on_the_command_line, accept_in_asyncio]
)
def test_nothing_is_written_until_the_loss_is_accepted(
    store: EventStore, path: Path, url: str, accept: Accept
) -> None:
    """Each append is refused, to every conversation; then the writer decides on the older log."""
    chat, lost = store.conversation("chat"), store.conversation("lost")
    chat.request("refund", {"order": 7}, "c1")
    chat.approve("c1")
    lost.append(message("gone"))
    put_back(path, 1)
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="ends at position 1, and was read up to 3 before"):
            lost.append(message("b"))
        with pytest.raises(StoreCorrupt, match=ACCEPTED):
            store.conversation("new").append(message("b"))
    with EventStore.open(url) as other:
        assert [r.conversation_id for r in other.read()] == ["chat"]
    accept(url)
    assert chat.approve("c1").status.name == "Approved"  # that it was approved before was lost
    assert lost.append(message("b"))[0].version == 1
    assert [(r.conversation_id, r.position) for r in store.read()] == [
        ("chat", 1),
        ("chat", 2),
        ("lost", 3),
    ]
    assert list(store.verify()) == []


def test_another_conversation_may_take_the_place_of_a_lost_one(
    store: EventStore, path: Path, url: str
) -> None:
    """Names of conversations are not remembered over a loss."""
    store.conversation("a").append(message("1"))
    store.conversation("b").append(message("2"))
    assert [r.conversation_id for r in store.read()] == ["a", "b"]
    put_back(path, 1)
    with pytest.raises(StoreCorrupt, match=ACCEPTED):
        store.conversation("b").append(message("2"))
    with EventStore.open(url) as other:
        other.conversation("c").append(message("3"))
        other.accept_loss()
    store.conversation("b").append(message("2"))
    assert [r.conversation_id for r in store.read()] == ["a", "c", "b"]
    with pytest.raises(UnknownCall):
        store.conversation("b").start("c1")


@pytest.mark.parametrize("events", [1, 2])
@pytest.mark.parametrize("name", ["chat", "other"])
@pytest.mark.parametrize("more", [0, 1, 2])
def test_a_file_that_has_grown_again_under_its_connection_is_noticed(
    store: EventStore, path: Path, url: str, name: str, more: int, events: int
) -> None:
    """Others have written to the lane, so that what stands there is compared."""
    chat = store.conversation("chat")
    chat.append(message("1"))
    (lost,) = chat.append(message("2"))
    put_back(path, 1)
    with EventStore.open(url) as other:
        for _ in range(1 + more):
            other.conversation(name).append(message("another"))
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=f"had event {lost.event_id}, and has .* {ACCEPTED}"):
            chat.append(*[message("3")] * events)
    with EventStore.open(url) as other:
        assert other.session.storage.heads() == {0: 2 + more}
    store.accept_loss()
    chat.append(message("3"))
    assert list(store.verify()) == []


def test_an_event_that_was_repeated_at_its_old_place_hides_no_loss(
    store: EventStore, path: Path, url: str
) -> None:
    """The writer knows it by its time of recording, too."""
    chat, again = store.conversation("chat"), [uuid4()]
    chat.append(message("1"))
    chat.append(message("lost"))
    chat.append(message("3"), event_ids=again)
    put_back(path, 1)
    with EventStore.open(url) as other:
        other.conversation("other").append(message("new"))
        other.conversation("chat").append(message("3"), event_ids=again)
        other.conversation("other").append(message("more"))
    with pytest.raises(StoreCorrupt, match=f"and has the same, recorded at ano.* {ACCEPTED}"):
        chat.append(message("4"))


def test_an_acceptance_holds_for_the_loss_that_was_known(store: EventStore, path: Path) -> None:
    """The next loss is refused again; an acceptance that was there before does not count."""
    chat = store.conversation("chat")
    chat.append(message("1"))
    for number in range(3):
        chat.append(message("2"))
        put_back(path, 1)
        with pytest.raises(StoreCorrupt, match=ACCEPTED):
            chat.append(message("2"))
        with pytest.raises(StoreCorrupt, match=ACCEPTED):
            chat.append(message("2"))
        store.accept_loss()
        assert chat.append(message("2"))[0].version == 2, number
        put_back(path, 1)
        with pytest.raises(StoreCorrupt, match=ACCEPTED):
            chat.append(message("2"))
        store.accept_loss()


def test_acceptances_are_rows_that_can_be_checked(store: EventStore, path: Path, url: str) -> None:
    """The store stays the same one for cursors, and `verify` names an altered row."""
    store.conversation("chat").append(message("1"))
    end = store.end()
    store.accept_loss()
    store.accept_loss()
    assert list(store.verify()) == []
    with EventStore.open(url) as again:
        assert again.end() == end
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT id, lanes, length(epoch) FROM toolledger_store")
        assert rows.fetchall() == [(1, 1, 16), (2, 1, 16), (3, 1, 16)]
        connection.execute("UPDATE toolledger_store SET created_at = 5 WHERE id = 2")
    (damage,) = store.verify()
    assert damage.problem == "a row of toolledger_store is not as written"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM toolledger_store WHERE id = 2")
    (damage,) = store.verify()
    assert damage.problem == "the rows of toolledger_store are not numbered from 1 without gaps"


# an older copy that has grown to the same length, or longer, under the same connection


def in_a_group(store: EventStore) -> None:
    """Append to two conversations in one transaction."""

    async def write() -> None:
        async with AsyncEventStore(store) as shared:
            await asyncio.gather(
                *(shared.conversation(name).append(message("mine")) for name in ("chat", "new"))
            )

    asyncio.run(write())


def in_a_hosts_transaction(store: EventStore) -> None:
    """Append over a connection of the host's."""
    engine = create_engine(store.session.storage.url, poolclass=NullPool)
    with closing(engine.connect()) as connection:
        store.conversation("chat", connection=connection).append(message("mine"))


def to_a_new_conversation(store: EventStore) -> None:
    """Append where nothing is known but the lane."""
    store.conversation("new").append(message("mine"))


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("write", [in_a_group, in_a_hosts_transaction, to_a_new_conversation])
def test_every_append_compares_what_was_seen_of_the_lane(
    store: EventStore, path: Path, url: str, write: Callable[[EventStore], None], others: int
) -> None:
    """A counter that stands where it was left is no proof."""
    chat = store.conversation("chat")
    chat.append(message("1"))
    (lost,) = chat.append(message("2"))
    put_back(path, 1)
    grow(url, ["other"] * others)
    with pytest.raises(StoreCorrupt, match=f"had event {lost.event_id}, and has "):
        write(store)
    with EventStore.open(url) as other:
        assert [recorded.version for recorded in other.conversation("chat").events()] == [1]
        assert list(other.verify()) == []


def check_that_tenants_are_apart(
    url: str, replace: Callable[[str, EventStore], str], *, longer: bool
) -> None:
    """Let another tenant's conversation take the place of one that is open, then use that one."""
    with EventStore.open(url, tenant="a") as ours:
        ours.conversation("kept").append(message("kept"))
        orders = ours.conversation("orders")
        feed = ours.session.storage
        orders.append(message("lost"), message("lost"))
        names = sorted(recorded.conversation_id for recorded in feed.feed({}))
        assert names == ["kept", "orders", "orders"]
        assert orders.version == 2
        direct = replace(url, ours)
        lane = feed.lane_of("orders")
        with EventStore.open(direct, tenant="b") as theirs:
            storage = theirs.session.storage
            name = next(n for n in map(str, count()) if storage.lane_of(n) == lane)
            theirs.conversation(name).append(*[message("secret")] * (2 + longer))
        assert list(orders.events()) == []
        assert list(orders.events(after=1)) == []
        assert feed.versions(["orders"]) == {}
        assert [recorded.conversation_id for recorded in feed.feed({})] == ["kept"]
        for write in (orders.append, ours.conversation("orders").append):
            with pytest.raises(StoreCorrupt, match=ACCEPTED):
                write(message("mine"))
        ours.accept_loss()
        assert orders.append(message("mine"))[0].version == 1
        assert list(ours.verify()) == []
        with EventStore.open(direct, tenant="b") as theirs:
            assert theirs.conversation(name).version == 2 + longer


@pytest.mark.parametrize("longer", [False, True])
def test_no_conversation_is_taken_for_another_in_a_file_that_was_put_back(
    url: str, path: Path, *, longer: bool
) -> None:
    """SQLite's own backup keeps the file and its connections: only what is in it has changed."""

    def replace(url: str, _: EventStore) -> str:
        with (
            closing(sqlite3.connect(f"{path}.copy")) as copy,
            closing(sqlite3.connect(path)) as file,
        ):
            file.backup(copy)
            for statement in restored(0, 1):
                copy.execute(statement)
            copy.commit()
            copy.backup(file)
        return url

    check_that_tenants_are_apart(url, replace, longer=longer)


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_no_conversation_is_taken_for_another_behind_a_pooler(
    postgresql: PostgreSQL, mode: str
) -> None:
    """The connection to pgbouncer lives on, and leads to a server that has lost events."""
    direct = postgresql.database(migrated=True)

    def replace(_: str, ours: EventStore) -> str:
        storage = ours.session.storage
        lane = storage.lane_of("orders")
        kept = storage.lane_of("kept") == lane
        put_back_on(postgresql, direct, lane, int(kept))
        return direct

    with pooled(postgresql, direct, mode) as url:
        check_that_tenants_are_apart(url, replace, longer=False)


def test_no_conversation_is_taken_for_another_in_a_server_that_lost_events(
    mariadb: MariaDB,
) -> None:
    """The connection lives on, as through a proxy that goes on with another server."""
    url = mariadb.database(migrated=True)

    def replace(_: str, ours: EventStore) -> str:
        storage = ours.session.storage
        lane = storage.lane_of("orders")
        kept = storage.lane_of("kept") == lane
        mariadb.execute(*restored(lane, int(kept)), database=url)
        return url

    check_that_tenants_are_apart(url, replace, longer=True)


# a server that was promoted, and has grown again


def grow(url: str, names: Sequence[str]) -> None:
    """Append to conversations as a process does that has never seen what was lost."""
    with EventStore.open(url) as other:
        for name in names:
            other.conversation(name).append(message("another"))


def neighbours(store: EventStore, name: str) -> Iterator[str]:
    """Yield names of conversations that are in the same lane as another one."""
    lane_of = store.session.storage.lane_of
    return (other for number in count() if lane_of(other := f"{name}-{number}") == lane_of(name))


@pytest.mark.parametrize("with_neighbour", [True, False])
@pytest.mark.parametrize("in_chat", [0, 1, 3])
def test_a_writer_does_not_append_to_a_log_that_has_grown_again(
    postgresql: PostgreSQL, in_chat: int, *, with_neighbour: bool
) -> None:
    """The lane is as long as before or longer, so what stands there is compared."""
    url = postgresql.database(migrated=True)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        chat.append(message("1"))
        (lost,) = chat.append(message("2"))
        neighbour = next(neighbours(store, "chat"))
        put_back_on(postgresql, url, lost.lane, lost.position - 1)
        grow(url, [neighbour] * with_neighbour + ["chat"] * in_chat)
        reported = f"had event {lost.event_id}, and has .* {ACCEPTED}"
        if not in_chat and not with_neighbour:
            reported = f"had event {lost.event_id}, and has none.* {ACCEPTED}"
        for _ in range(2):
            with pytest.raises(StoreCorrupt, match=reported):
                chat.append(message("3"))
        store.accept_loss()
        assert chat.append(message("3"))[0].version == 2 + in_chat
        assert list(store.verify()) == []


def test_a_state_that_was_only_read_is_not_trusted_over_a_failover(postgresql: PostgreSQL) -> None:
    """Others wrote what was lost: a decision on it is refused, alone and in a group."""
    url = postgresql.database(migrated=True)

    async def decide() -> None:
        async with AsyncEventStore.open(url) as store:
            chat = store.conversation("chat")
            await asyncio.to_thread(grow, url, ["chat"] * 3)
            assert await chat.version == 3
            (place,) = [at for at in (await store.end()).positions if at[1]]
            await asyncio.to_thread(put_back_on, postgresql, url, place[0], 2)
            await asyncio.to_thread(grow, url, ["chat"] * 2)
            appends = (chat.append(message(text)) for text in "abc")
            for outcome in await asyncio.gather(*appends, return_exceptions=True):
                assert isinstance(outcome, StoreCorrupt)
                assert "until the loss is accepted" in str(outcome)

    asyncio.run(decide())


def test_a_read_after_a_failover_hides_no_loss(postgresql: PostgreSQL) -> None:
    """The read shows what is there now; a writer that relied on the lost event is told."""
    url = postgresql.database(migrated=True)
    grow(url, ["chat"] * 3)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        assert chat.version == 3
        (place,) = [at for at in store.end().positions if at[1]]
        put_back_on(postgresql, url, place[0], 2)
        grow(url, ["chat"] * 2)
        assert chat.version == 4
        with pytest.raises(StoreCorrupt, match=f"position 3 of lane .* {ACCEPTED}"):
            chat.append(message("mine"))
        store.accept_loss()
        assert chat.append(message("mine"))[0].version == 5


@pytest.mark.parametrize("others", [1, 2], ids=["alone", "in a group"])
def test_a_loss_of_another_conversation_is_noticed(
    store: EventStore, path: Path, others: int
) -> None:
    """The connection outlives a restore in place, and what is lost is not the writer's own."""
    store.conversation("kept").append(message("1"))
    store.conversation("lost").append(message("2"))
    put_back(path, 1)

    async def write() -> None:
        async with AsyncEventStore(store) as shared:
            appends = [shared.conversation("kept").append(message("3")) for _ in range(others)]
            for outcome in await asyncio.gather(*appends, return_exceptions=True):
                assert isinstance(outcome, StoreCorrupt)
                assert f"ends at position 1, and was read up to 2 before: the {REPLACED}" in str(
                    outcome
                )

    asyncio.run(write())


def test_a_loss_of_another_conversation_is_noticed_on_a_server(postgresql: PostgreSQL) -> None:
    """One event alone goes in one statement, which finds it, too."""
    url = postgresql.database(migrated=True)
    with EventStore.open(url) as store:
        kept = store.conversation("chat")
        (first,) = kept.append(message("1"))
        store.conversation(next(neighbours(store, "chat"))).append(message("2"))
        postgresql.execute(*restored(first.lane, first.position), database=url)
        with pytest.raises(StoreCorrupt, match="ends at position 1, and was read up to 2 before"):
            kept.append(message("3"))


def test_a_lost_connection_alone_refuses_nothing(postgresql: PostgreSQL) -> None:
    """The events are still there, and so are those that others wrote since."""
    url = postgresql.database(migrated=True)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        for number in range(1, 7, 2):
            (own,) = chat.append(message("own"))
            assert own.version == number
            put_back_on(postgresql, url, own.lane, own.position)
            grow(url, ["chat"])
        assert list(store.verify()) == []
