"""PostgreSQL: a commit is acknowledged when the standbys have it, and never waits without end."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import make_url
from support.server_room import own_servers
from support.standbys import PATIENCE_SECONDS, WAITING, Primary

from eventstore import EventStore, OutcomeUnknown, StorageError
from eventstore.testing import message, run_concurrently
from projections import Projector

if TYPE_CHECKING:
    from support.servers import PostgreSQL

pytestmark = [pytest.mark.slow, pytest.mark.server]


@pytest.fixture(scope="module")
def server_of_the_file() -> Iterator[Primary]:
    """Return a server that no other file's tests use."""
    with own_servers() as start:
        server = start(Primary)
        assert isinstance(server, Primary)
        yield server


@pytest.fixture
def primary(server_of_the_file: Primary) -> Iterator[Primary]:
    """Return a server without standbys."""
    yield server_of_the_file
    server_of_the_file.await_standbys("")


@pytest.fixture
def url(primary: Primary) -> str:
    """Return the URL of a database with a store."""
    return primary.database(migrated=True)


ids = [b"0123456789abcdef"]
Job = Callable[[EventStore], Any]


def single(store: EventStore) -> Any:
    """Append one event with an id."""
    return store.conversation("chat").append(message("single"), event_ids=ids)


def batch(store: EventStore) -> Any:
    """Append events in a transaction."""
    both = [*ids, b"fedcba9876543210"]
    return store.conversation("chat").append(message("a"), message("b"), event_ids=both)


def in_thread(job: Callable[[], Any]) -> Callable[[], Any]:
    """Start a job; return a function that waits for it and returns its outcome."""
    outcomes: list[Any] = []

    def work() -> None:
        outcomes.extend(run_concurrently(job))

    thread = threading.Thread(target=work)
    thread.start()

    def outcome() -> Any:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        return outcomes[0]

    return outcome


def plain(store: EventStore) -> Any:
    """Append one event in one statement."""
    return store.conversation("chat").append(message("plain"))


@contextmanager
def without_quorum(primary: Primary, url: str, busy_timeout: float) -> Iterator[EventStore]:
    """Give a store with three events in "chat"; from now on its commits wait for a standby."""
    with EventStore.open(url, busy_timeout=busy_timeout) as store:
        for _ in range(3):
            store.conversation("chat").append(message("before"))
        primary.await_standbys("never")
        yield store


@pytest.mark.parametrize("job", [plain, single, batch])
def test_a_cancelled_wait_for_a_standby_is_no_acknowledgement(
    primary: Primary, url: str, job: Job
) -> None:
    """Do not return before a standby has the commit, whoever cancels the wait for it."""
    with without_quorum(primary, url, busy_timeout=PATIENCE_SECONDS) as store:
        outcome = in_thread(lambda: job(store))
        for _ in range(2):  # the append, then its proof
            primary.until(lambda: primary.execute(WAITING))
            (waiting,) = primary.execute(WAITING)
            primary.cancel_waiting()
            primary.until(lambda: primary.execute(WAITING))
        primary.await_standbys("")  # as if the standby had come
        assert outcome()[0].version == 4
        assert waiting


@pytest.mark.parametrize("job", [plain, batch])
def test_a_database_that_keeps_warnings_from_its_clients_acknowledges_nothing_more(
    primary: Primary, url: str, job: Job
) -> None:
    """Hear that a commit stopped waiting whatever `client_min_messages` a database has."""
    name = make_url(url).database
    primary.execute(f"ALTER DATABASE {name} SET client_min_messages = error")
    with without_quorum(primary, url, busy_timeout=0.5) as store:
        outcome = in_thread(lambda: job(store))
        primary.until(lambda: primary.execute(WAITING))
        primary.cancel_waiting()
        assert isinstance(outcome(), OutcomeUnknown)


@pytest.mark.parametrize("job", [plain, batch])
def test_a_connection_that_is_lost_without_a_quorum_bounds_the_wait(
    primary: Primary, url: str, job: Job
) -> None:
    """Ask what became of a lost COMMIT without a commit that waits for the standbys itself."""
    with without_quorum(primary, url, busy_timeout=0.5) as store:
        outcome = in_thread(lambda: job(store))
        primary.until(lambda: primary.execute(WAITING))
        for (process,) in primary.execute(WAITING):
            primary.execute(f"SELECT pg_terminate_backend({process})")
        assert isinstance(outcome(), OutcomeUnknown)
        assert len(list(store.conversation("chat").events())) > 3


def test_a_loss_is_accepted_without_a_quorum(primary: Primary, url: str) -> None:
    """Wait for the standbys no longer than an append does."""
    with EventStore.open(url, busy_timeout=0.5) as store:
        store.conversation("chat").append(message("before"))
        primary.await_standbys("never")
        assert in_thread(store.accept_loss)() is None
        assert list(store.verify()) == []


def test_a_store_is_made_without_a_quorum(primary: Primary) -> None:
    """Make the tables, and bound the first append as every other."""
    url = primary.database()
    primary.await_standbys("never")
    opened = in_thread(lambda: EventStore.open(url, busy_timeout=0.2))
    with opened() as store:
        with pytest.raises(OutcomeUnknown):
            plain(store)
        primary.await_standbys("")
        assert plain(store)[0].version == 2


def test_a_projector_waits_for_no_standby(primary: Primary, url: str) -> None:
    """Tables can be made again from the log, so that a projector need not wait for a quorum."""
    with without_quorum(primary, url, busy_timeout=0.2) as store:
        projector = in_thread(lambda: Projector(store))()
        with projector:
            assert in_thread(projector.catch_up)() == 3
            assert in_thread(projector.rebuild)() == 3


@pytest.mark.parametrize("job", [single, batch])
def test_a_commit_without_a_quorum_is_reported_and_repeated(
    primary: Primary, url: str, job: Job
) -> None:
    """Say in time that the outcome is unknown, with the ids that settle it; store all once."""
    with without_quorum(primary, url, busy_timeout=0.2) as store:
        with pytest.raises(OutcomeUnknown, match="append them again with the same") as caught:
            job(store)
        assert caught.value.event_ids[0] == ids[0].hex()
        with pytest.raises(OutcomeUnknown) as again:
            job(store)
        assert again.value.event_ids == caught.value.event_ids
        with EventStore.open(url, busy_timeout=0.2) as other, pytest.raises(OutcomeUnknown):
            job(other)
        primary.await_standbys("")
        job(store)
        with EventStore.open(url) as other:
            job(other)
        versions = [recorded.version for recorded in store.conversation("chat").events()]
        assert versions == list(range(1, len(versions) + 1))
        assert len(versions) == 3 + len(caught.value.event_ids)
        assert list(store.verify()) == []


@pytest.mark.parametrize("count", [1, 3])
def test_ids_that_the_library_made_settle_an_append_too(
    primary: Primary, url: str, count: int
) -> None:
    """Find the events of an unknown outcome by the ids in the error, in the same store."""
    with EventStore.open(url, busy_timeout=0.2) as store:
        chat = store.conversation("chat")
        for _ in range(3):
            chat.append(message("before"))
        primary.await_standbys("never")
        some = [message(str(n)) for n in range(count)]
        with pytest.raises(OutcomeUnknown) as caught:
            chat.append(*some)
        primary.await_standbys("")
        chat.append(*some, event_ids=caught.value.event_ids)
        stored = [recorded.event_id for recorded in chat.events()][3:]
        assert stored == list(caught.value.event_ids)


def test_ids_that_the_library_made_settle_an_append_in_another_process(
    primary: Primary, url: str
) -> None:
    """Find the event, and acknowledge it only where a standby has it."""
    with without_quorum(primary, url, busy_timeout=0.2) as store:
        with pytest.raises(OutcomeUnknown) as caught:
            plain(store)
        ids = caught.value.event_ids
        with EventStore.open(url, busy_timeout=0.2) as other:
            chat = other.conversation("chat")
            with pytest.raises(OutcomeUnknown) as again:
                chat.append(message("plain"), event_ids=ids)
            assert again.value.event_ids == ids
            primary.await_standbys("")
            stored = chat.append(message("plain"), event_ids=ids)
            assert [event.event_id for event in stored] == list(ids)
            assert chat.version == 4


def test_a_repeated_decision_rests_on_what_a_standby_has(primary: Primary, url: str) -> None:
    """Store nothing, as the log has the decision already, but perhaps not for good."""
    with EventStore.open(url) as store:
        tool = store.conversation("chat").request("pay", {"amount": 1})
    with without_quorum(primary, url, busy_timeout=0.2) as store:
        chat = store.conversation("chat")
        with pytest.raises(OutcomeUnknown) as first:
            chat.approve(tool.id)
        assert len(first.value.event_ids) == 1
        with EventStore.open(url, busy_timeout=0.2) as other:
            for each in (chat, other.conversation("chat")):
                with pytest.raises(OutcomeUnknown, match="append them again later") as caught:
                    each.approve(tool.id)
                assert caught.value.event_ids == ()
            primary.await_standbys("")
            for each in (chat, other.conversation("chat")):
                assert each.approve(tool.id).id == tool.id
        assert chat.version == 5


def test_appends_without_a_quorum_wait_once_not_each(primary: Primary, url: str) -> None:
    """Give each append of many its own ids, or say that nothing of it was written."""
    with EventStore.open(url, busy_timeout=2.0) as store:
        chats = [store.conversation(f"chat-{n}") for n in range(8)]
        for chat in chats:
            chat.append(message("before"))
        primary.await_standbys("never")
        began = time.monotonic()
        done = run_concurrently(*(lambda chat=chat: chat.append(message("x")) for chat in chats))  # type: ignore[misc]
        assert time.monotonic() - began < 8 * 2.0
        assert all(isinstance(one, StorageError) for one in done)
        primary.await_standbys("")
        for chat, one in zip(chats, done, strict=True):
            stored = isinstance(one, OutcomeUnknown)
            assert len(list(chat.events())) == (2 if stored else 1)
            if stored:
                assert [r.event_id for r in chat.events()][1:] == list(one.event_ids)


def test_a_real_standby_acknowledges(primary: Primary, url: str, tmp_path: Path) -> None:
    """Append at once while a standby follows; go on where another takes over from it."""
    with EventStore.open(url, busy_timeout=PATIENCE_SECONDS) as store:
        chat = store.conversation("chat")
        standby = primary.follow(tmp_path / "one")
        try:
            primary.await_standbys("standby")
            for _ in range(5):
                chat.append(message("a"))
            standby.kill()
            standby.wait()
            outcome = in_thread(lambda: chat.append(message("b")))
            primary.until(lambda: primary.execute(WAITING))
            primary.cancel_waiting()
            standby = primary.follow(tmp_path / "two")
            assert outcome()[0].version == 6
        finally:
            standby.kill()
            standby.wait()


@pytest.mark.parametrize("weak", ["off", "local", "remote_write"])
def test_full_durability_waits_for_the_standbys_disk(postgresql: PostgreSQL, weak: str) -> None:
    """Raise whatever the database's default is to `on`, and leave what is stronger."""
    url = postgresql.database(migrated=True)
    name = make_url(url).database
    for default, expected in ((weak, "on"), ("remote_apply", "remote_apply")):
        postgresql.execute(f"ALTER DATABASE {name} SET synchronous_commit = {default}")
        with EventStore.open(url) as store:
            storage: Any = store.session.storage
            assert storage.connections.rows("SHOW synchronous_commit") == [(expected,)]


LIMITS = ("statement_timeout", "transaction_timeout", "lock_timeout", "idle_session_timeout")


def limited(primary: Primary, url: str, milliseconds: int) -> None:
    """Let each time limit that the server knows hold for new sessions of a database."""
    known = {name for (name,) in primary.execute("SELECT name FROM pg_settings")}
    for limit in sorted(known.intersection(LIMITS)):
        primary.execute(f"ALTER DATABASE {make_url(url).database} SET {limit} = {milliseconds}")


@contextmanager
def stopped_standby(primary: Primary, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Give a standby that commits wait for, and that stands still."""
    standby = primary.follow(folder)
    try:
        primary.await_standbys("standby")
        standby.send_signal(signal.SIGSTOP)
        yield standby
    finally:
        standby.kill()
        standby.wait()


def test_no_time_limit_of_postgresql_ends_a_wait_for_a_standby(
    primary: Primary, url: str, tmp_path: Path
) -> None:
    """The server's own behaviour: it waits past each limit, and a cancel there is a success."""
    limited(primary, url, 500)
    place = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    notices: list[tuple[str | None, ...]] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        notices.append((notice.severity_nonlocalized, notice.sqlstate, notice.message_detail))

    waited = (
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' "
        "AND clock_timestamp() - query_start > interval '1 second'"
    )
    stays = "-c idle_session_timeout=0"  # until the standby is there
    with psycopg.connect(place, autocommit=True, options=stays) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("500ms",)
        connection.add_notice_handler(hear)
        with stopped_standby(primary, tmp_path / "log"):
            insert = "INSERT INTO toolledger_store SELECT 2, 'probe', 16, 0"
            outcome = in_thread(lambda: connection.execute(insert).statusmessage)
            primary.until(lambda: primary.execute(waited))
            primary.cancel_waiting()
            assert outcome() == "INSERT 0 1"
    ((severity, state, detail),) = notices
    assert (severity, state) == ("WARNING", "01000")
    assert "has already committed locally" in str(detail)
    assert primary.execute("SELECT id FROM toolledger_store WHERE id = 2", database=url) == [(2,)]


@pytest.mark.parametrize("job", [plain, single, batch])
def test_a_stopped_standby_leaves_the_outcome_unknown_whatever_the_time_limits(
    primary: Primary, url: str, tmp_path: Path, job: Job
) -> None:
    """Never that nothing was written: it is there, and is acknowledged once the standby is back."""
    limited(primary, url, 5000)
    with EventStore.open(url, busy_timeout=0.2) as store:
        chat = store.conversation("chat")
        for _ in range(3):
            chat.append(message("before"))
        with stopped_standby(primary, tmp_path / "log") as standby:
            with pytest.raises(OutcomeUnknown) as caught:
                job(store)
            assert "nothing was written" not in str(caught.value)
            ids = "SELECT event_id FROM toolledger_events WHERE version > 3 ORDER BY version"
            found = [bytes(row[0]).hex() for row in primary.execute(ids, database=url)]
            assert found == list(caught.value.event_ids)
            standby.send_signal(signal.SIGCONT)
            some = [message(str(number)) for number in range(len(found))]
            chat.append(*some, event_ids=caught.value.event_ids)
        assert chat.version == 3 + len(found)
        assert list(store.verify()) == []
