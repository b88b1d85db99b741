"""PostgreSQL: a commit is acknowledged when the standbys have it, and never waits without end."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from support.server_room import own_servers
from support.servers import PostgreSQL

from eventstore import EventStore, OutcomeUnknown, StorageError
from eventstore.testing import message, run_concurrently
from projections import Projector

pytestmark = [pytest.mark.slow, pytest.mark.server]

PATIENCE_SECONDS = 60.0
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Primary(PostgreSQL):
    """A PostgreSQL that standbys may follow."""

    def command(self) -> list[str]:
        """Return the command of a server that sends its log."""
        return [*super().command(), "-c", "wal_level=replica", "-c", "max_wal_senders=4"]

    def await_standbys(self, names: str) -> None:
        """Let commits wait for standbys of these names; for none where it is empty."""
        self.execute(
            f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", "SELECT pg_reload_conf()"
        )
        expected = [(names,)]
        self.until(lambda: self.execute("SHOW synchronous_standby_names") == expected)
        if names:
            self.until(self.commits_wait)

    def commits_wait(self) -> bool:
        """Return whether a commit waits: it does once the checkpointer has the setting, too."""
        probe = "SELECT pg_logical_emit_message(true, 'probe', '')"
        commit = threading.Thread(target=self.execute, args=(probe,))
        commit.start()
        while commit.is_alive():
            if self.execute(WAITING):
                self.cancel_waiting()
                commit.join()
                return True
        return False

    def cancel_waiting(self) -> None:
        """Cancel each commit that waits for a standby."""
        for (process,) in self.execute(WAITING):
            self.execute(f"SELECT pg_cancel_backend({process})")

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)

    def follow(self, folder: Path) -> subprocess.Popen[bytes]:
        """Start a standby that writes the log to a folder, and says when it is on disk."""
        address = f"host=127.0.0.1 port={self.address.port} user=tester application_name=standby"
        folder.mkdir()
        command = [self.tools / "pg_receivewal", "-D", folder, "--synchronous", "-d", address]
        return subprocess.Popen([*map(str, command), "--no-loop"])


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
