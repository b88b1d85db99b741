"""Readers on InnoDB without a binary log: nothing is given out that a crash could take back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import make_url

from eventstore.errors import StoreBusy, StoreCorrupt, StoreFull
from eventstore.storage import flushed
from eventstore.storage.flushed import FlushedStorage
from eventstore.storage.opening import open_storage
from eventstore.storage.sql import SqlStorage
from eventstore.testing import append, draft, message

if TYPE_CHECKING:
    from servers import MariaDB, MySQL

    from eventstore.events import Recorded

Open = Callable[..., SqlStorage]


@pytest.fixture
def url(mariadb: MariaDB) -> str:
    """A database with a store."""
    return mariadb.database(migrated=True)


@pytest.fixture
def opened(url: str) -> Iterator[Open]:
    """Opens storages."""
    storages: list[SqlStorage] = []

    def opened(at: str = url, durability: str = "full") -> SqlStorage:
        storages.append(open_storage(at, "", durability, 30.0))
        return storages[-1]

    yield opened
    for storage in storages:
        storage.close()


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Which storages made a commit for the sake of what they read."""
    seen: list[Any] = []
    whole = FlushedStorage._flush

    def flush(self: FlushedStorage, cursor: Any) -> None:
        seen.append(self)
        whole(self, cursor)

    monkeypatch.setattr(FlushedStorage, "_flush", flush)
    return seen


def versions(events: Iterable[Recorded]) -> list[int]:
    """Of all that is given out."""
    return [recorded.version for recorded in events]


def test_what_others_have_appended_is_waited_for_once(opened: Open, flushes: list[Any]) -> None:
    """Until there is more."""
    writer, reader = opened(), opened()
    append(writer, "chat", message("a"), message("b"))
    assert versions(reader.feed({})) == [1, 2]
    assert flushes == [reader]
    assert versions(reader.feed({}, 1)) == [1]
    assert versions(reader.feed({}, until=reader.heads())) == [1, 2]
    assert versions(reader.conversation("chat")) == [1, 2]
    assert flushes == [reader]
    append(writer, "chat", message("c"), version=2)
    assert versions(reader.conversation("chat", after=1)) == [2, 3]
    assert flushes == [reader] * 2
    assert versions(reader.feed({}, 1, until=writer.heads())) == [1]
    lane = next(reader.conversation("chat")).lane
    append(writer, "chat", message("d"), version=3)
    assert versions(reader.feed({}, until={lane: 4})) == [1, 2, 3, 4]
    assert flushes == [reader] * 3


def test_what_one_has_appended_is_on_disk(opened: Open, flushes: list[Any]) -> None:
    """And all that stands before it."""
    writer, other = opened(), opened()
    append(other, "chat", message("a"))
    append(writer, "chat", message("b"), version=1)
    assert versions(writer.conversation("chat")) == [1, 2]
    assert versions(writer.feed({})) == [1, 2]
    assert flushes == []


def test_what_comes_meanwhile_is_given_out_the_next_time(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is behind what the commit has made sure of."""
    writer, reader = opened(), opened()
    append(writer, "chat", message("a"))
    whole = FlushedStorage._flush
    late = [3, 2, 1]

    def flush(self: FlushedStorage, cursor: Any) -> None:
        if late:
            append(writer, "chat", message("late"), version=late.pop())
        whole(self, cursor)

    monkeypatch.setattr(FlushedStorage, "_flush", flush)
    assert versions(reader.feed({})) == [1]
    assert versions(reader.conversation("chat")) == [1, 2]
    assert versions(chain.from_iterable(reader.outlines({}))) == [1, 2, 3]
    assert versions(reader.feed({})) == versions(reader.conversation("chat")) == [1, 2, 3, 4]
    late.append(5)
    append(writer, "chat", message("b"), version=4)
    assert versions(reader.conversation("chat", after=4)) == [5]
    late.append(7)
    append(writer, "chat", message("c"), version=6)
    lane = next(writer.conversation("chat")).lane
    assert versions(reader.feed({lane: 7})) == []
    assert versions(reader.feed({lane: 7})) == [8]


def test_versions_are_of_what_is_on_disk(opened: Open, flushes: list[Any]) -> None:
    """They say nothing of how far they go, so it is made sure of once they are read."""
    writer, reader = opened(), opened()
    assert reader.versions(["chat"]) == dict(reader.conversations()) == {}
    assert flushes == []
    append(writer, "chat", message("a"))
    assert reader.versions(["chat", "nobody"]) == {"chat": 1}
    assert flushes == [reader]
    assert list(reader.conversations()) == [("chat", 1)]
    assert flushes == [reader]
    append(writer, "chat", message("b"), version=1)
    assert list(reader.conversations()) == [("chat", 2)]
    assert flushes == [reader] * 2
    assert writer.versions(["chat"]) == {"chat": 2}
    assert flushes == [reader] * 2


def test_versions_do_not_tell_of_what_comes_meanwhile(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read before."""
    writer, reader = opened(), opened()
    append(writer, "chat", message("a"))
    whole = FlushedStorage._flush
    late = [2, 1]

    def flush(self: FlushedStorage, cursor: Any) -> None:
        append(writer, "chat", message("late"), version=late.pop())
        whole(self, cursor)

    monkeypatch.setattr(FlushedStorage, "_flush", flush)
    assert reader.versions(["chat"]) == {"chat": 1}
    assert list(reader.conversations()) == [("chat", 2)]
    assert late == []


def test_ids_that_are_known_are_on_disk(opened: Open, flushes: list[Any]) -> None:
    """Who repeats an append is told that it is stored."""
    writer, reader = opened(), opened()
    known = draft(message("a"))
    writer.append_all([flushed_append("chat", known)])
    assert reader.known_ids("chat", [b"0123456789abcdef"]) == {}
    assert flushes == []
    assert reader.known_ids("chat", [known.event_id]) == {known.event_id: 1}
    assert flushes == [reader]


def flushed_append(name: str, known: Any) -> Any:
    """An append of one draft."""
    from eventstore.storage import Append  # noqa: PLC0415

    return Append(name, 0, 0, (), lambda _: [known])


@pytest.fixture
def reading(mariadb: MariaDB, url: str) -> Iterator[str]:
    """The URL for a user who may only read."""
    name = make_url(url).database
    mariadb.execute("CREATE USER reader", f"GRANT SELECT ON {name}.* TO reader")
    yield make_url(url).set(username="reader", password=None).render_as_string()
    mariadb.execute("DROP USER reader")


FULL = "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'full for %s'"
WRITES = "SELECT 'goes', 5 UNION ALL SELECT 'is', @place := COALESCE(@place, 2) + 1"
STANDS = "SELECT 'goes', 5 UNION ALL SELECT 'is', 4"
TELLS_NOTHING = "SELECT 'goes', 5 FROM toolledger_store WHERE id = 0"


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("log", [flushed._LOG, WRITES])
def test_who_cannot_commit_waits_for_the_log(
    url: str, reading: str, opened: Open, monkeypatch: pytest.MonkeyPatch, full: bool, log: str
) -> None:
    """Where the disk is full, and for a user who may only read."""
    append(opened(), "chat", message("a"))
    if full:
        monkeypatch.setattr(flushed, "_INSERT", FULL)
    monkeypatch.setattr(flushed, "_LOG", log)
    reader = opened(url if full else reading)
    assert versions(reader.feed({})) == versions(reader.conversation("chat")) == [1]
    if log == WRITES:
        assert reader.rows("SELECT @place") in ([(5,)], [(None,)])


@pytest.mark.parametrize("full", [True, False])
def test_a_log_that_is_not_written_is_told(
    url: str, reading: str, opened: Open, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """Nothing is given out."""
    append(opened(), "chat", message("a"))
    if full:
        monkeypatch.setattr(flushed, "_INSERT", FULL)
    monkeypatch.setattr(flushed, "_LOG", STANDS)
    reader = opened(url if full else reading)
    monkeypatch.setattr(reader._database, "busy_timeout", 0.01)
    with pytest.raises(StoreBusy, match="still not on disk: try again"):
        reader.versions(["chat"])


def test_a_server_that_does_not_say_how_far_its_log_is(
    url: str, reading: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may only read has no other way to wait; who may write needs space."""
    append(opened(), "chat", message("a"))
    monkeypatch.setattr(flushed, "_LOG", TELLS_NOTHING)
    assert versions(opened(reading).feed({})) == [1]
    monkeypatch.setattr(flushed, "_INSERT", FULL)
    with pytest.raises(StoreFull, match="free some space"):
        list(opened(url).feed({}))


def test_a_commit_that_fails_is_told(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is given out."""
    append(opened(), "chat", message("a"))
    monkeypatch.setattr(flushed, "_INSERT", "INSERT INTO gone VALUES (%s)")
    with pytest.raises(StoreCorrupt, match="gone"):
        list(opened().feed({}))


def test_a_commit_leaves_nothing(mariadb: MariaDB, url: str, opened: Open) -> None:
    """The store's own row is the only one."""
    append(opened(), "chat", message("a"))
    assert versions(opened().feed({})) == [1]
    assert mariadb.execute("SELECT count(*) FROM toolledger_store", database=url) == [(1,)]


def test_who_need_not_wait_does_not(mysql: MySQL, opened: Open) -> None:
    """With a binary log, or where less than "full" is asked for."""
    assert type(opened()) is FlushedStorage
    assert type(opened(durability="normal")) is SqlStorage
    assert type(opened(mysql.database(migrated=True))) is SqlStorage
