"""Readers on InnoDB without a binary log never return an event that a crash could remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import make_url

from eventstore.errors import StoreBusy, StoreCorrupt, StoreFull
from eventstore.storage.factory import open_storage
from eventstore.storage.mysql.backend import Mysql
from eventstore.storage.mysql.durable_reads import DurableReader
from eventstore.storage.sql.parts import Parts
from eventstore.storage.sql.reader import LogReader
from eventstore.storage.sql.storage import SqlStorage
from eventstore.testing import append, draft, message

if TYPE_CHECKING:
    from support.servers import MariaDB, MySQL

    from eventstore.domain.events import Recorded
    from eventstore.storage.sql.log import Log

Open = Callable[..., SqlStorage]


Hooks = list[Callable[[LogReader], object]]


class ObservedReader(DurableReader):
    """A reader that calls hooks before each commit that it makes for the sake of what it read."""

    hooks: Hooks

    def flush(self, cursor: Any) -> None:
        """Call the hooks first."""
        for hook in self.hooks:
            hook(self)
        super().flush(cursor)


@pytest.fixture
def url(mariadb: MariaDB) -> str:
    """Return the URL of a database with a store."""
    return mariadb.database(migrated=True)


@pytest.fixture
def hooks() -> Hooks:
    """Return what is called before a commit for the sake of what was read."""
    return []


@pytest.fixture
def opened(url: str, hooks: Hooks) -> Iterator[Open]:
    """Return a function that opens storages."""
    storages: list[SqlStorage] = []

    def opened(at: str = url, **statements: str) -> SqlStorage:
        backend = Mysql(make_url(at), "full", 30.0)
        backend.upgrade(new=False)

        def parts(log: Log) -> Parts:
            reader = ObservedReader(log, backend)
            reader.hooks = hooks
            for name, statement in statements.items():
                setattr(reader, name, statement)
            return Parts(reader)

        storages.append(SqlStorage(backend, "", parts))
        return storages[-1]

    yield opened
    for storage in storages:
        storage.close()


@pytest.fixture
def flushes(hooks: Hooks) -> list[LogReader]:
    """Return a list of the readers that make a commit to flush the log before they return."""
    seen: list[LogReader] = []
    hooks.append(seen.append)
    return seen


def versions(events: Iterable[Recorded]) -> list[int]:
    """Return the versions of the events."""
    return [recorded.version for recorded in events]


def test_appends_of_others_are_waited_for_once(opened: Open, flushes: list[Any]) -> None:
    """A reader flushes the log again only when there are newer events."""
    writer, reader = opened(), opened()
    append(writer, "chat", message("a"), message("b"))
    assert versions(reader.feed({})) == [1, 2]
    assert flushes == [reader.reader]
    assert versions(reader.feed({}, 1)) == [1]
    assert versions(reader.feed({}, until=reader.heads())) == [1, 2]
    assert versions(reader.conversation("chat")) == [1, 2]
    assert flushes == [reader.reader]
    append(writer, "chat", message("c"), version=2)
    assert versions(reader.conversation("chat", after=1)) == [2, 3]
    assert flushes == [reader.reader] * 2
    assert versions(reader.feed({}, 1, until=writer.heads())) == [1]
    lane = next(reader.conversation("chat")).lane
    append(writer, "chat", message("d"), version=3)
    assert versions(reader.feed({}, until={lane: 4})) == [1, 2, 3, 4]
    assert flushes == [reader.reader] * 3


def test_own_appends_are_on_disk(opened: Open, flushes: list[Any]) -> None:
    """An own append makes all events before it durable, too."""
    writer, other = opened(), opened()
    append(other, "chat", message("a"))
    append(writer, "chat", message("b"), version=1)
    assert versions(writer.conversation("chat")) == [1, 2]
    assert versions(writer.feed({})) == [1, 2]
    assert flushes == []


def test_only_what_is_on_disk_is_looked_up_after_a_crash(opened: Open, hooks: Hooks) -> None:
    """A writer refuses a log without what it read, and it was not given what came too late."""
    writer, reader = opened(), opened()
    append(writer, "chat", message("a"))
    hooks.append(lambda _: append(writer, "chat", message("late"), version=1))
    assert versions(reader.conversation("chat")) == [1]
    assert [position for position, *_ in reader.log.seen.furthest.values()] == [1]


def test_events_appended_meanwhile_are_returned_the_next_time(opened: Open, hooks: Hooks) -> None:
    """An event that was stored after the flush is not covered by it."""
    writer, reader = opened(), opened()
    append(writer, "chat", message("a"))
    late = [3, 2, 1]

    def append_late(_: LogReader) -> None:
        if late:
            append(writer, "chat", message("late"), version=late.pop())

    hooks.append(append_late)
    assert versions(reader.feed({})) == [1]
    assert versions(reader.conversation("chat")) == [1, 2]
    assert versions(chain.from_iterable(reader.headers({}))) == [1, 2, 3]
    assert versions(reader.feed({})) == versions(reader.conversation("chat")) == [1, 2, 3, 4]
    late.append(5)
    append(writer, "chat", message("b"), version=4)
    assert versions(reader.conversation("chat", after=4)) == [5]
    late.append(7)
    append(writer, "chat", message("c"), version=6)
    lane = next(writer.conversation("chat")).lane
    assert versions(reader.feed({lane: 7})) == []
    assert versions(reader.feed({lane: 7})) == [8]


def test_a_head_of_another_server_is_no_damage(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may be behind the one that told of the event: less is returned, and no error."""
    append(opened(), "chat", message("a"), message("b"))
    reader = opened()
    monkeypatch.setattr(reader.reader, "heads", lambda: dict.fromkeys(range(16), 1))
    assert versions(reader.conversation("chat")) == [1]


def test_versions_are_of_what_is_on_disk(opened: Open, flushes: list[Any]) -> None:
    """Versions have no positions to compare, so the reader flushes after it has read them."""
    writer, reader = opened(), opened()
    assert reader.versions(["chat"]) == dict(reader.conversations()) == {}
    assert flushes == []
    append(writer, "chat", message("a"))
    assert reader.versions(["chat", "nobody"]) == {"chat": 1}
    assert flushes == [reader.reader]
    assert list(reader.conversations()) == [("chat", 1)]
    assert flushes == [reader.reader]
    append(writer, "chat", message("b"), version=1)
    assert list(reader.conversations()) == [("chat", 2)]
    assert flushes == [reader.reader] * 2
    assert writer.versions(["chat"]) == {"chat": 2}
    assert flushes == [reader.reader] * 2


def test_versions_do_not_include_later_appends(opened: Open, hooks: Hooks) -> None:
    """The versions are read before the flush."""
    writer, reader = opened(), opened()
    append(writer, "chat", message("a"))
    late = [2, 1]
    hooks.append(lambda _: append(writer, "chat", message("late"), version=late.pop()) and None)
    assert reader.versions(["chat"]) == {"chat": 1}
    assert list(reader.conversations()) == [("chat", 2)]
    assert late == []


def test_ids_that_are_known_are_on_disk(opened: Open, flushes: list[Any]) -> None:
    """A repeated append learns that it is stored, so that must be durable."""
    writer, reader = opened(), opened()
    known = draft(message("a"), b"fedcba9876543210")
    writer.append([flushed_append("chat", known)])
    assert reader.known_ids("chat", [b"0123456789abcdef"]) == {}
    assert flushes == []
    assert reader.known_ids("chat", [known.event_id]) == {known.event_id: 1}
    assert flushes == [reader.reader]


def flushed_append(name: str, known: Any) -> Any:
    """Append one draft and flush the log."""
    from eventstore.storage.interface import Append

    return Append(name, 0, 0, (), lambda _: [known])


@pytest.fixture
def reading(mariadb: MariaDB, url: str) -> Iterator[str]:
    """Return the URL for a user with read access only."""
    name = make_url(url).database
    mariadb.execute("CREATE USER reader", f"GRANT SELECT ON {name}.* TO reader")
    yield make_url(url).set(username="reader", password=None).render_as_string()
    mariadb.execute("DROP USER reader")


FULL = "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'full for %s'"
WRITES = "SELECT 'goes', 5 UNION ALL SELECT 'is', @place := COALESCE(@place, 2) + 1"
STANDS = "SELECT 'goes', 5 UNION ALL SELECT 'is', 4"
TELLS_NOTHING = "SELECT 'goes', 5 FROM toolledger_store WHERE id = 0"


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("log", [DurableReader.log_statement, WRITES])
def test_a_reader_that_cannot_commit_waits_for_the_log(
    url: str, reading: str, opened: Open, full: bool, log: str
) -> None:
    """This holds for a full disk and for a user with read access only."""
    append(opened(), "chat", message("a"))
    reader = opened(url if full else reading, log_statement=log)
    if full:
        reader.reader.insert_statement = FULL  # type: ignore[attr-defined]
    assert versions(reader.feed({})) == versions(reader.conversation("chat")) == [1]
    if log == WRITES:
        assert reader.connections.rows("SELECT @place") in ([(5,)], [(None,)])


@pytest.mark.parametrize("full", [True, False])
def test_a_log_that_is_not_flushed_in_time_is_an_error(
    url: str, reading: str, opened: Open, full: bool
) -> None:
    """No event is returned."""
    append(opened(), "chat", message("a"))
    reader = opened(url if full else reading, log_statement=STANDS)
    if full:
        reader.reader.insert_statement = FULL  # type: ignore[attr-defined]
    reader.backend.busy_timeout = 0.01
    with pytest.raises(StoreBusy, match="still not on disk: try again"):
        reader.versions(["chat"])


def test_a_server_that_does_not_report_its_log_position(
    url: str, reading: str, opened: Open
) -> None:
    """A read-only user gets the events.

    A user with write access gets the error of the full disk.
    """
    append(opened(), "chat", message("a"))
    assert versions(opened(reading, log_statement=TELLS_NOTHING).feed({})) == [1]
    full = opened(url, log_statement=TELLS_NOTHING, insert_statement=FULL)
    with pytest.raises(StoreFull, match="free some space"):
        list(full.feed({}))


def test_a_flush_that_fails_is_an_error(opened: Open) -> None:
    """No event is returned."""
    append(opened(), "chat", message("a"))
    failing = opened(insert_statement="INSERT INTO gone VALUES (%s)")
    with pytest.raises(StoreCorrupt, match="gone"):
        list(failing.feed({}))


def test_a_flush_leaves_no_row(mariadb: MariaDB, url: str, opened: Open) -> None:
    """The table contains only the store's own row."""
    append(opened(), "chat", message("a"))
    assert versions(opened().feed({})) == [1]
    assert mariadb.execute("SELECT count(*) FROM toolledger_store", database=url) == [(1,)]


def test_no_reader_waits_where_commits_are_durable_first(mysql: MySQL, url: str) -> None:
    """This holds with a binary log, and for less than "full" durability."""

    def kind(at: str, durability: str) -> type:
        with closing(open_storage(at, "", durability, 30.0)) as storage:
            assert isinstance(storage, SqlStorage)
            return type(storage.reader)

    assert kind(url, "full") is DurableReader
    assert kind(url, "normal") is LogReader
    assert kind(mysql.database(migrated=True), "full") is LogReader
