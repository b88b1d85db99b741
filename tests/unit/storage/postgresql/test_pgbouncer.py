"""PostgreSQL behind pgbouncer, whose transaction mode gives each transaction another session."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import make_url
from support import first_schema
from support.pgbouncer import pooled

from eventstore import EventStore
from eventstore.migrate import move, partition
from eventstore.testing import message, run_concurrently
from projections import Projector

if TYPE_CHECKING:
    from support.servers import PostgreSQL

pytestmark = pytest.mark.slow

CLIENTS = 6
APPENDS = 20


@pytest.fixture
def direct(postgresql: PostgreSQL) -> str:
    """Return the URL of a database whose commits are weak by default, and that notes each one's."""
    url = postgresql.database(migrated=True)
    name = make_url(url).database
    postgresql.execute(
        f"ALTER DATABASE {name} SET synchronous_commit = off",
        f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'",
    )
    postgresql.execute(
        "CREATE TABLE seen (durability text, isolation text, lock_wait text)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO seen VALUES (current_setting('synchronous_commit'), "
        "current_setting('transaction_isolation'), current_setting('lock_timeout')); "
        "RETURN NEW; END $$",
        "CREATE TRIGGER noted AFTER INSERT ON toolledger_events "
        "FOR EACH ROW EXECUTE FUNCTION note()",
        database=url,
    )
    return url


@pytest.fixture(params=["transaction", "session"])
def through(request: pytest.FixtureRequest, postgresql: PostgreSQL, direct: str) -> Iterator[str]:
    """Return the URL that leads through pgbouncer, in each of its modes."""
    with pooled(postgresql, direct, request.param) as url:
        yield url


def test_an_upgrade_through_a_pooler_misses_nothing(
    postgresql: PostgreSQL, direct: str, through: str
) -> None:
    """Its lock is of one transaction; those of the batches are in other sessions of the server."""
    postgresql.execute("DROP TRIGGER noted ON toolledger_events", database=direct)
    move(direct, "0001")

    def write(words: str) -> None:
        with postgresql.connected(direct) as connection:
            connection.exec_driver_sql("SET default_transaction_isolation = 'read committed'")
            for number in range(9):
                first_schema.append(connection, f"chat-{number}", words)

    write("before")
    left = ["beside"]
    assert move(through, progress=lambda *_: left and write(left.pop())) == ("0001", "0004")
    partition(through, 3)
    with EventStore.open(through) as store:
        assert len(list(store.read())) == 18
        assert list(store.verify()) == []


def test_a_storm_through_a_pooler_loses_nothing(
    postgresql: PostgreSQL, direct: str, through: str
) -> None:
    """Store each event once, under the settings that were asked for, from many stores at once."""
    stores = [EventStore.open(through) for _ in range(CLIENTS)]

    def work(number: int) -> int:
        store = stores[number]
        shared, own = store.conversation("shared"), store.conversation(f"own-{number}")
        for turn in range(APPENDS):
            own.append(message(f"{turn}"))
            shared.append(message(f"{number}-{turn}"), message("second"))
            call = own.request("find", {"number": turn})
            with own.running(call.id) as attempt:
                attempt.complete("found")
        return number

    def follow() -> list[str]:
        followed = []
        with EventStore.open(through) as store:
            for recorded in store.follow(timeout=60.0):
                followed.append(recorded.event_id)
                if len(followed) == CLIENTS * APPENDS * 6:
                    break
        return followed

    done = run_concurrently(*(partial(work, n) for n in range(CLIENTS)), follow)
    assert done[:-1] == list(range(CLIENTS))
    followed: Any = done[-1]
    events = list(stores[0].read())
    assert len(events) == CLIENTS * APPENDS * 6
    assert set(followed) == {recorded.event_id for recorded in events}
    assert [r.version for r in stores[0].conversation("shared").events()] == list(
        range(1, 2 * CLIENTS * APPENDS + 1)
    )
    with Projector(stores[0]) as projector:
        assert projector.catch_up() == len(events)
    seen = postgresql.execute("SELECT DISTINCT * FROM seen", database=direct)
    assert [tuple(row) for row in seen] == [("on", "read committed", "30s")]
    for store in stores:
        assert list(store.verify()) == []
        store.close()


def test_a_pooler_gets_no_settings_that_others_inherit(postgresql: PostgreSQL, direct: str) -> None:
    """Leave the server's sessions as they are for the other clients of the pool."""
    with pooled(postgresql, direct, "transaction") as url, EventStore.open(url) as store:
        store.conversation("chat").append(message("a"))
        for name, expected in (("enable_seqscan", "on"), ("synchronous_commit", "off")):
            assert postgresql.execute(f"SHOW {name}", database=url) == [(expected,)]


def test_an_append_with_ids_is_repeated_through_a_pooler(through: str) -> None:
    """Store events with the same ids once, from any store."""
    ids = [b"0123456789abcdef"]
    for _ in range(3):
        with EventStore.open(through) as store:
            chat = store.conversation("chat")
            chat.append(message("a"), event_ids=ids)
            assert chat.version == 1
