"""A database of which only a part was restored: an append names it, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import create_engine, make_url, text

from eventstore import EventStore, StoreCorrupt
from eventstore.testing import message

BEHIND = r"its head is at position 0, and its events go up to \d: only a part of the database"
ID = UUID(int=7)

Run = Callable[..., list[Any]]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a store on each engine, with a few events in each lane that it uses."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'agent.db'}"
    else:
        url = request.getfixturevalue(request.param).database(migrated=True)
    with EventStore.open(url) as store:
        store.conversation("chat").append(message("a"), message("b"), event_ids=[ID, UUID(int=8)])
        store.conversation("chat").request("pay", {"n": 1})
        store.conversation("chat").add_message("user", "c")
        store.conversation("chat").add_message("user", "d")
    return url


@pytest.fixture
def run(url: str) -> Run:
    """Return a function that runs a statement, as a restore does."""

    def run(statement: str) -> list[Any]:
        engine = create_engine(
            url.replace("mariadb://", "mysql+pymysql://").replace(
                "postgresql://", "postgresql+psycopg://"
            )
        )
        try:
            with engine.begin() as connection:
                result = connection.execute(text(statement))
                return list(result.all()) if result.returns_rows else []
        finally:
            engine.dispose()

    return run


def stored(run: Run) -> list[Any]:
    """Return all that an append writes."""
    return [
        run(f"SELECT COUNT(*) FROM toolledger_{name}")[0][0]  # noqa: S608 - our own names
        for name in ("events", "conversations", "event_ids", "fingerprints")
    ] + run("SELECT lane, position FROM toolledger_lanes ORDER BY lane")


def refused(url: str, run: Run, reported: str, name: str = "chat", **given: Any) -> None:
    """See that a new process's append is refused by one clear error, and writes nothing."""
    before = stored(run)
    with EventStore.open(url) as store:
        for _ in range(2):
            with pytest.raises(StoreCorrupt, match=reported) as caught:
                store.conversation(name).append(message("more"), **given)
            assert "nothing was written" in str(caught.value)
            assert str(make_url(url).database) in str(caught.value)
    assert stored(run) == before


def near(store: EventStore) -> str:
    """Return the id of another conversation in the lane of "chat"."""
    lane_of = store.session.storage.lane_of
    return next(n for n in map("other-{}".format, range(10_000)) if lane_of(n) == lane_of("chat"))


def test_heads_behind_their_events_are_named_and_set_by_accept_loss(url: str, run: Run) -> None:
    """A restore of the data alone leaves the lanes as an `open` made them."""
    run("UPDATE toolledger_lanes SET position = 0")
    refused(url, run, BEHIND)
    with EventStore.open(url) as store:
        other = near(store)
        problems = [damage.problem for damage in store.verify()]
    assert problems == ["the lane's head 0 is behind its events"]
    refused(url, run, BEHIND, other)
    with EventStore.open(url) as store:
        with pytest.raises(StoreCorrupt, match="run `toolledger accept-loss`, which sets"):
            store.conversation(other).append(message("more"))
        with EventStore.open(url) as another:
            another.accept_loss()
        assert store.conversation(other).append(message("more"))[0].position == 6
        assert store.conversation("chat").append(message("more"))[0].version == 6
        assert list(store.verify()) == []
        store.accept_loss()  # again changes no head
        assert max(store.session.storage.heads().values()) == 7


def test_a_head_that_goes_back_under_an_open_store_means_an_older_copy(url: str, run: Run) -> None:
    """The store had seen it further; the way out is the same."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        chat.append(message("e"))
        run("UPDATE toolledger_lanes SET position = 2 WHERE position > 2")
        for reported in ("replaced by an older copy", "accept-loss"):
            with pytest.raises(StoreCorrupt, match=reported):
                chat.append(message("f"))
        refused(url, run, "position 2, and its events go up to 6: only a part")
        store.accept_loss()
        assert chat.append(message("f"))[0].position == 7
        assert list(store.verify()) == []


@pytest.mark.parametrize(
    ("also", "problem"),
    [
        ("DELETE FROM toolledger_events WHERE position = 3", "positions 3 to 3 are missing"),
        ("UPDATE toolledger_events SET tag = 'note' WHERE position = 1", "does not match its dig"),
        ("DELETE FROM toolledger_event_ids", "the table of given ids lacks its row"),
    ],
)
def test_heads_are_not_set_where_more_is_wrong(url: str, run: Run, also: str, problem: str) -> None:
    """No guess: the error says what is wrong, and that only a whole restore helps."""
    run("UPDATE toolledger_lanes SET position = 0")
    run(also)
    with (
        EventStore.open(url) as store,
        pytest.raises(StoreCorrupt, match=f"{problem}.*: restore the whole database; nothing was"),
    ):
        store.accept_loss()
    refused(url, run, "only a part of the database was restored")
    assert run("SELECT COUNT(*) FROM toolledger_store") == [(1,)]


@pytest.mark.parametrize(
    ("lost", "reported", "given"),
    [
        ("DELETE FROM toolledger_lanes", "has no counter: restore the database from a copy", {}),
        ("DELETE FROM toolledger_events", "at position 5, and it has no events: only a part", {}),
        ("DELETE FROM toolledger_conversations", "none of its conversations is listed", {}),
        ("DELETE FROM toolledger_fingerprints", "position 3: the index of fingerprints lacks", {}),
        (
            "DELETE FROM toolledger_event_ids",
            "position 1: the table of given ids lacks its row for it: only a part",
            {"event_ids": [ID]},
        ),
    ],
)
def test_a_table_that_was_not_restored_is_named(
    url: str, run: Run, lost: str, reported: str, given: dict[str, Any]
) -> None:
    """The next event would begin the conversation anew, or be stored again."""
    with EventStore.open(url) as store:
        other = near(store)
    run(lost)
    if "lanes" in lost:  # the storage itself says so
        with EventStore.open(url) as store, pytest.raises(StoreCorrupt, match=reported):
            store.conversation("chat").append(message("more"))
        return
    refused(url, run, reported, other, **given)
    if "events" not in lost:
        refused(url, run, reported, **given)


def test_a_store_without_its_row_is_not_opened(url: str, run: Run) -> None:
    """Nobody knows which lanes it has."""
    run("DELETE FROM toolledger_store")
    with pytest.raises(StoreCorrupt, match="toolledger_store is empty: restore the database from"):
        EventStore.open(url)


def test_a_whole_log_is_looked_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane is asked whether it is whole when it is first locked, and no event is sampled."""
    with EventStore.open(url) as store:
        whole = store.session.storage.log.seen.whole  # type: ignore[attr-defined]
        monkeypatch.setattr(whole, "_ask_events", None)
        looks: list[int] = []
        check = whole.check
        monkeypatch.setattr(whole, "check", lambda *args: (looks.append(args[1]), check(*args)))
        for number in range(3):
            store.conversation("chat").append(message(f"{number}"), event_ids=[UUID(int=number)])
        store.conversation("chat").add_message("user", "more")
        assert looks == [store.session.storage.lane_of("chat")]


def test_the_database_is_named_where_a_call_reads_first(url: str, run: Run) -> None:
    """The conversation is read before a request is written; MariaDB's reader meets it there."""
    run("UPDATE toolledger_lanes SET position = 0")
    with EventStore.open(url) as store, pytest.raises(StoreCorrupt, match=BEHIND) as caught:
        store.conversation("chat").request("pay", {"n": 2})
    assert str(make_url(url).database) in str(caught.value)
