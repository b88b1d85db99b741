"""Archives: what goes, what stays, what readers and writers are said, and what is proven."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine

from eventstore import (
    AsyncEventStore,
    ConversationArchived,
    EventsArchived,
    EventsRestored,
    EventStore,
    KeyFile,
    PayloadsRedacted,
    Recorded,
    RunStarted,
    StoreBusy,
    StoreCorrupt,
    SubjectSecret,
    UnknownEvent,
)
from eventstore.redaction import erase
from eventstore.redaction.redact import redact_selected
from eventstore.retention import JSON_LINES, ArchiveForm, ArchiveLine
from eventstore.storage.sql import archiving, reader
from eventstore.storage.sqlite.driver import driver
from eventstore.testing import FrozenClock, message
from projections import Projector
from projections.exports.parquet import ParquetArchive

if TYPE_CHECKING:
    from support.servers import Server

DAY = 86_400
OLD = ("old-0", "old-1", "old-2")


def fill(store: EventStore) -> None:
    """Write conversations that may go, and some of which a call is open or in doubt."""
    for name in OLD:
        chat = store.conversation(name)
        chat.append(RunStarted(f"agent of {name}"), event_ids=[(b"%16s" % name.encode()).hex()])
        chat.add_message("user", "Where is my order? \u00fc")
        tool = chat.request("find", {"order": name}, "call")
        chat.start(tool.id)
        chat.complete(tool.id, {"at": "sea"})
    store.redact("old-1", by="mia", versions=[2])
    store.conversation("old-2").append(UnknownEvent("of_another_program", 1, '{ "a" : 1.0 }'))
    store.conversation("open").request("find", {}, "call")
    doubtful = store.conversation("doubtful")
    doubtful.start(doubtful.request("pay", {}, "call").id)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a file with old conversations."""
    address = f"sqlite:///{tmp_path}/agent.db"
    with EventStore.open(address, clock=FrozenClock()) as store:
        fill(store)
    return address


@pytest.fixture
def later(url: str) -> Iterator[EventStore]:
    """Return the store of that file, 200 days later."""
    with EventStore.open(url, clock=later_clock()) as store:
        store.conversation("new").add_message("user", "Hello.")
        yield store


def later_clock() -> FrozenClock:
    """Return a clock that is 200 days ahead."""
    clock = FrozenClock()
    clock.advance(200 * DAY)
    return clock


def archive(store: EventStore, folder: Path, **wanted: Any) -> Any:
    """Archive what is older than six months."""
    return store.retain("6 months", folder=folder, dry_run=False, **wanted)


def by_version(events: Iterable[Recorded]) -> dict[tuple[str, int], Recorded]:
    """Return events by their conversations and versions, without records of archives."""
    kept = (each for each in events if not isinstance(each.event, EventsArchived | EventsRestored))
    return {(each.conversation_id, each.version): each for each in kept}


@pytest.mark.parametrize("form", [JSON_LINES, ParquetArchive()], ids=["jsonl", "parquet"])
def test_archived_conversations_come_back_as_they_were(
    later: EventStore, tmp_path: Path, form: ArchiveForm
) -> None:
    """A dry run changes nothing; positions, ids, salts and digests are the same after all."""
    before = by_version(later.read())
    rows = {name: [*_rows(later, name)] for name in OLD}
    planned = later.retain("6 months")
    assert (planned.conversations, planned.events, planned.dry_run) == (3, 17, True)
    assert planned.kept == {"with an open call": 1, "with a call in doubt": 1}
    assert by_version(later.read()) == before

    done = archive(later, tmp_path, form=form, batch_events=12)
    assert (done.conversations, done.events, len(done.files)) == (3, 17, 2)
    assert done.payload_bytes == planned.payload_bytes
    assert [*later.verify()] == []
    assert [*later.verify_archives(form)] == []
    assert {each.conversation_id for each in later.archived()} == set(OLD)
    assert {name for name, _ in by_version(later.read())} == {"open", "doubtful", "new"}
    assert archive(later, tmp_path, form=form).conversations == 0

    back = [later.restore(name, form=form) for name in done.files]
    assert sum(each.events for each in back) == 17
    assert by_version(later.read()) == before
    for name in OLD:
        assert [*_rows(later, name)][:-2] == rows[name]
    assert [*later.verify()] == []
    assert [*later.archived()] == []
    later.conversation("old-0").add_message("user", "Thanks.")
    assert later.restore(done.files[0], form=form).conversations == 0


def _rows(store: EventStore, name: str) -> Iterator[Any]:
    archives = store.session.storage.archives
    assert archives is not None
    return archives.rows(name)


def check_readers_and_writers(url: str, folder: Path) -> None:
    """Whatever they remember, they hear of it; no feed has a gap, and no cursor is lost."""
    with (
        EventStore.open(url, clock=FrozenClock()) as remembering,
        EventStore.open(url, clock=later_clock()) as store,
    ):
        chat = remembering.conversation("old-0")
        chat.add_message("user", "That was the last message.")
        last, cursor = chat.version, remembering.end()
        follower = remembering.follow(cursor, timeout=0)
        behind = remembering.read(limit=2)
        assert len([*behind]) == 2
        one = chat.follow(chat.version, timeout=0)
        archive(store, folder)
        store.conversation("new").add_message("user", "Hello.")
        places = {each.conversation_id: each.place for each in store.archived()}
        place = places["old-0"]
        said = f"'old-0' was archived up to version {last} in {re.escape(place)}: run"
        for each in (remembering, store):
            for use in (
                lambda chat: chat.add_message("user", "And this?"),
                lambda chat: chat.append(message("And this?"), expected_version=last),
                lambda chat: chat.request("find", {}),
                lambda chat: [*chat.events()],
                lambda chat: [*chat.events(after=2)],
                lambda chat: chat.tools,
                lambda chat: chat.fork(1, "copy"),
            ):
                with pytest.raises(ConversationArchived, match=said):
                    use(each.conversation("old-0"))
        with pytest.raises(ConversationArchived, match=said):
            next(one)
        archived = {(name, "archived") for name in OLD}
        news = {(each.conversation_id, each.event.tag) for each in follower}
        assert news == {*archived, ("new", "message")}
        assert news <= {(each.conversation_id, each.event.tag) for each in remembering.read(cursor)}
        for feed in (store.read(), store.read(behind.cursor), store.follow(timeout=0)):
            versions = {each.conversation_id: each.version for each in feed}
            assert versions["old-0"] == last + 1
        assert [*store.verify()] == []
        archives = store.session.storage.archives
        assert archives is not None
        busy = pytest.raises(StoreBusy, match="another process archives now")
        with archives.exclusive(), busy:
            archive(remembering, folder)
        for file in set(places.values()):
            store.restore(file)
        assert [each.version for each in chat.events()] == list(range(1, last + 3))
        chat.add_message("user", "Welcome back.")
        assert [*store.verify()] == []


def test_readers_and_writers_hear_of_an_archive(url: str, tmp_path: Path) -> None:
    """In a file."""
    check_readers_and_writers(url, tmp_path)


def test_readers_and_writers_hear_of_an_archive_on_servers(server: Server, tmp_path: Path) -> None:
    """On every server, with many lanes."""
    url = server.emptied()
    with EventStore.open(url, clock=FrozenClock()) as store:
        fill(store)
    check_readers_and_writers(url, tmp_path)


def test_a_transaction_of_the_host_hears_of_an_archive(later: EventStore, tmp_path: Path) -> None:
    """The host's connection reads the same table."""
    archive(later, tmp_path)
    engine = create_engine(later.url)
    with engine.begin() as connection:
        chat = later.conversation("old-0", connection=connection)
        with pytest.raises(ConversationArchived, match="'old-0' was archived up to version 5"):
            chat.add_message("user", "And this?")
        with pytest.raises(ConversationArchived):
            list(chat.events())
    engine.dispose()


def test_a_restore_between_two_statements_is_no_damage(
    later: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are read, then the restore is committed, then it is asked for the archive."""
    from sqlalchemy import create_engine, event

    files: list[str] = []

    def restore() -> None:
        while files:
            later.restore(files.pop())

    def look_up(*of: Any) -> Any:
        restore()
        return archiving.refusal(*of)

    monkeypatch.setattr(reader, "refusal", look_up)
    files += archive(later, tmp_path, match="old-0").files
    assert files
    assert [each.version for each in later.conversation("old-0").events()] == list(range(1, 8))
    monkeypatch.undo()
    later.conversation("old-0").add_message("user", "Thanks.")

    def execute(_connection: Any, _cursor: Any, statement: str, *_: object) -> None:
        if "toolledger_archives" in statement:
            restore()

    engine = create_engine(later.url)
    event.listen(engine, "before_cursor_execute", execute)
    with engine.connect() as connection:
        files += archive(later, tmp_path, match="old-1").files
        chat = later.conversation("old-1", connection=connection)
        assert [each.version for each in chat.events()] == list(range(1, 9))
    engine.dispose()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE toolledger_events SET payload = '{}' WHERE version = 3",
        "UPDATE toolledger_events SET tag = 'x' WHERE version = 3",
        "DELETE FROM toolledger_event_ids",
        "UPDATE toolledger_events SET version = 9 WHERE version = 4",
    ],
)
def test_damaged_conversations_stay(later: EventStore, tmp_path: Path, change: str) -> None:
    """An event that cannot be read may be a step of a call, and no archive could prove it."""
    _execute(later, change)
    done = archive(later, tmp_path)
    assert (done.conversations, done.kept["with an event that cannot be read"]) == (0, 3)


def test_conversations_are_chosen_by_id_agent_and_tenant(later: EventStore) -> None:
    """Others are not touched, and are not said to stay."""
    assert later.retain("6 months", match="old-*").kept == {}
    assert later.retain("6 months", match="old-[01]").conversations == 2
    assert later.retain("6 months", agent="agent of old-1").conversations == 1
    assert later.retain("1 year").conversations == 0
    with EventStore.open(later.url, tenant="acme", clock=later_clock()) as other:
        assert other.retain("6 months").conversations == 0


def test_conversations_are_chosen_by_the_person_they_are_about(
    later: EventStore, tmp_path: Path
) -> None:
    """One event with a tag is enough, and a tag of another tenant is none; a rest is not redone."""
    secret = SubjectSecret(bytes(32))
    with pytest.raises(ValueError, match="without the secret of its index"):
        later.retain("6 months", subject="ann")
    with EventStore.open(later.url, tenant="acme", clock=FrozenClock(), subjects=secret) as other:
        other.conversation("old-2", subjects=["ann"]).add_message("user", "I am Ann.")
    with EventStore.open(later.url, clock=later_clock(), subjects=secret) as store:
        assert store.retain("6 months", subject="ann").conversations == 0
        store.tag_subject("ann", "old-0", [2])
        store.tag_subject("ann", "old-1")
        store.tag_subject("ben", "old-2")
        store.tag_subject("ann", "open")
        done = archive(store, tmp_path, subject="ann")
        assert (done.conversations, done.kept) == (2, {"with an open call": 1})
        assert {each.conversation_id for each in store.archived()} == {"old-0", "old-1"}
        assert "ann" not in Path(done.files[0]).read_text()
        assert store.retain("6 months", only="payloads", subject="ben").conversations == 1
        for each in store.erase_subject("ann", by="mia", dry_run=True).conversations:
            assert each.archive == (None if each.tenant or each.left else done.files[0])


class _Meanwhile:
    """Lines of JSON; something happens while the first file is written."""

    suffix = JSON_LINES.suffix
    read = JSON_LINES.read

    def __init__(self, happens: Callable[[], object], *, is_first: bool = False) -> None:
        self._happens: Callable[[], object] | None = happens
        self._is_first = is_first

    def write(self, file: IO[bytes], lines: Iterable[ArchiveLine]) -> None:
        """Write lines."""
        if not self._is_first:
            JSON_LINES.write(file, lines)
        if self._happens is not None:
            self._happens()
            self._happens = None
        if self._is_first:
            JSON_LINES.write(file, lines)


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_a_conversation_that_changes_meanwhile_stays(
    later: EventStore, tmp_path: Path, *, is_first: bool
) -> None:
    """The batch is made again without it, and no file has what is not archived."""
    form = _Meanwhile(
        lambda: later.conversation("old-1").add_message("user", "Wait!"), is_first=is_first
    )
    done = archive(later, tmp_path, form=form)
    assert (done.conversations, done.kept["appended to meanwhile"]) == (2, 1)
    assert later.conversation("old-1").version == 7
    assert [str(path) for path in tmp_path.glob("*.jsonl")] == [*done.files]
    assert b"old-1" not in Path(done.files[0]).read_bytes()
    assert [*later.verify()] == []


def _killed(url: str, folder: Path, step: str) -> None:
    """Archive, and be killed when a step is done."""

    def kill(done: str) -> None:
        if done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    with EventStore.open(url, clock=later_clock()) as store:
        archive(store, folder, progress=kill)


@pytest.mark.parametrize("step", ["written", "proven", "in place", "dropped"])
def test_a_run_that_was_killed_is_continued(url: str, tmp_path: Path, step: str) -> None:
    """After each step every event is in the log or in the archive, and once it is done, in one."""
    folder = tmp_path / "archive"
    folder.mkdir()
    process = get_context("spawn").Process(target=_killed, args=(url, folder, step))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with EventStore.open(url, clock=later_clock()) as store:
        assert [*store.verify()] == []
        gone = {each.conversation_id for each in store.archived()}
        assert gone == (set(OLD) if step == "dropped" else set())
        done = archive(store, folder)
        assert done.conversations == (0 if step == "dropped" else 3)
        assert done.unused == ()
        assert {each.conversation_id for each in store.archived()} == set(OLD)
        (place,) = {each.place for each in store.archived()}
        assert [str(path) for path in folder.iterdir()] == [place]
        assert [*store.verify_archives()] == []
        assert store.restore(place).events == 17
        assert [*store.verify()] == []


def test_a_file_that_cannot_be_read_back_drops_nothing(later: EventStore, tmp_path: Path) -> None:
    """The error names the file, and what is wrong."""

    class Lossy(_Meanwhile):
        def write(self, file: IO[bytes], lines: Iterable[ArchiveLine]) -> None:
            JSON_LINES.write(file, list(lines)[:-1])

    before = by_version(later.read())
    with pytest.raises(Exception, match=r"read back .* nothing was dropped"):
        archive(later, tmp_path, form=Lossy(lambda: None))
    assert by_version(later.read()) == before
    assert [*tmp_path.glob("*.jsonl")] == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM toolledger_archives", "no archive is recorded"),
        ("UPDATE toolledger_archives SET version = 4 WHERE version = 5", "not as it was recorded"),
        ("UPDATE toolledger_archives SET place = 'x'", "not as it was recorded"),
        ("UPDATE toolledger_archives SET archived_at = 1", "not as it was recorded"),
        (
            "UPDATE toolledger_events SET payload = replace(payload, 'a', 'b') WHERE version = 2",
            "does not match its digest",
        ),
        ("DELETE FROM toolledger_events WHERE version = 2", "is missing"),
        ("DELETE FROM toolledger_events WHERE tag = 'archived'", "says so"),
        (
            "INSERT INTO toolledger_archives VALUES (0, 18, 1, 1, 'x')",
            "its events are here",
        ),
    ],
)
def test_verify_names_what_is_wrong_with_archives_in_the_log(
    later: EventStore, tmp_path: Path, change: str, problem: str
) -> None:
    """A conversation is never gone without a record of where."""
    archive(later, tmp_path)
    _execute(later, change)
    assert [each for each in later.verify() if problem in each.problem]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM toolledger_archives", "no archive is recorded"),
        ("UPDATE toolledger_archives SET version = version - 1", "no event of it says so"),
        ("UPDATE toolledger_archives SET place = 'x'", "no event of it says so"),
        ("UPDATE toolledger_archives SET archived_at = 1", "no event of it says so"),
    ],
)
def test_nothing_is_done_on_the_word_of_a_changed_table_of_archives(
    later: EventStore, tmp_path: Path, change: str, problem: str
) -> None:
    """Readers and writers do not name its place, and nothing is restored by it."""
    (file,) = archive(later, tmp_path, match="old-0").files
    _execute(later, change)
    chat = later.conversation("old-0")
    engine = create_engine(later.url)
    with EventStore.open(later.url) as another, engine.begin() as connection:
        within = later.conversation("old-0", connection=connection)
        for use in (
            lambda: [*chat.events()],
            lambda: another.conversation("old-0").add_message("user", "And this?"),
            lambda: [*within.events()],
            lambda: later.restore(file),
        ):
            with pytest.raises(StoreCorrupt, match=problem):
                use()
    engine.dispose()


def test_a_changed_archive_is_named_and_not_restored(later: EventStore, tmp_path: Path) -> None:
    """Each line proves itself; what was restored before stays."""
    (name,) = archive(later, tmp_path, match="old-0").files
    path = Path(name)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for changed in (
        whole.replace(b"sea", b"sky"),
        whole.replace(b'"version":2', b'"version":1'),
        whole.replace(b'"begins":true', b'"begins":false'),
        whole.replace(b'"find"', b'"fund"'),
        b"".join(lines[:-1]),
        b"".join((lines[1], lines[0], *lines[2:])),
        whole[:-9],
        b"",
    ):
        assert changed != whole
        path.write_bytes(changed)
        assert [each.place for each in later.verify_archives()] == [name]
        with pytest.raises(ValueError, match=re.escape(name)):
            later.restore(path)
        assert [each.conversation_id for each in later.archived()] == ["old-0"]
    path.unlink()
    (missing,) = later.verify_archives(whole=False)
    assert missing.is_missing
    path.write_bytes(whole)
    assert later.restore(path).events == 5


def test_only_payloads_leaves_the_events_and_takes_their_content(later: EventStore) -> None:
    """A redaction for each conversation, with the rule; a second run finds nothing to do."""
    planned = later.retain("6 months", only="payloads")
    assert (planned.conversations, planned.dry_run) == (3, True)
    done = later.retain("6 months", only="payloads", dry_run=False)
    assert (done.conversations, done.events) == (planned.conversations, planned.events)
    records = [each.event for each in later.redactions() if each.event.by == "retain"]  # type: ignore[union-attr]
    assert {each.rule for each in records if isinstance(each, PayloadsRedacted)} == {
        "keep 6 months"
    }
    assert later.conversation("old-0").tool("call").is_resolved
    assert [*later.verify()] == []
    assert later.retain("6 months", only="payloads").conversations == 0
    assert later.retain("6 months").conversations == 3


def test_an_encrypted_conversation_is_archived_as_it_is_stored(tmp_path: Path) -> None:
    """No key is needed for it, an erasure names the file, and the text comes back with the key."""
    SubjectSecret.create(tmp_path / "secret")
    KeyFile.create(tmp_path / "keys")
    url = f"sqlite:///{tmp_path}/agent.db"
    opened = partial(EventStore.open, subjects=tmp_path / "secret", keys=tmp_path / "keys")
    with opened(url, clock=FrozenClock()) as store:
        chat = store.conversation("old", subjects=["ann"])
        chat.add_message("user", "It is about Ann.")
        chat.complete(chat.start(chat.request("find", {"name": "Ann"}).id).id, {"name": "Ann"})
        before = [each.event for each in chat.events()]
    with EventStore.open(url, clock=later_clock()) as store:
        (name,) = archive(store, tmp_path).files
        assert b"Ann" not in Path(name).read_bytes()
        assert [*store.verify(), *store.verify_archives()] == []
    with opened(url) as store:
        (left,) = store.erase_subject("ann", by="mia", dry_run=True).conversations
        assert left.archive == name
        store.restore(name)
        assert [each.event for each in store.conversation("old").events()][:4] == before
        assert [*store.verify()] == []


def test_projections_pass_over_what_is_archived(later: EventStore, tmp_path: Path) -> None:
    """One that was behind gets the event; one that is made again counts what is there."""
    tables = f"sqlite:///{tmp_path}/tables.db"
    with closing(Projector(later, tables)) as projector:
        projector.catch_up()
        before = projector.statistics()
    archive(later, tmp_path)
    with closing(Projector(later, tables)) as projector:
        projector.catch_up()
        assert projector.parked() == []
        assert projector.statistics().overall.calls == before.overall.calls == 5
        projector.rebuild()
        assert projector.parked() == []
        assert projector.statistics().overall.calls == 2


def test_projections_give_up_what_was_redacted_before_they_heard_of_it(
    later: EventStore, tmp_path: Path
) -> None:
    """The record of the redaction is in an archive; when that came back, they read anew."""
    with closing(Projector(later, later.url)) as projector:
        projector.catch_up()
        later.redact("old-0", by="mia", whole=True)
        (name,) = archive(later, tmp_path, match="old-0").files
        projector.catch_up()
        later.restore(name)
        projector.catch_up()
        assert projector.statistics().anomalies == ()
        said = {str(tool.call) for of, tool in projector.tools() if of == "old-0"}
        assert len(said) == 1
        assert "old-0" not in said.pop()
        assert projector.parked() == []


def test_an_erasure_names_what_is_archived_meanwhile(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index was asked before: the file is named, the tag stays, and the others are erased."""
    with EventStore.open(url, clock=later_clock(), subjects=SubjectSecret(bytes(32))) as store:
        for name in ("old-0", "old-2"):
            store.tag_subject("ann", name)

        def redact(session: Any, name: str, *of: Any, **said: Any) -> Any:
            if not [*store.archived()]:
                archive(store, tmp_path, match="old-0")
            return redact_selected(session, name, *of, **said)

        monkeypatch.setattr(erase, "redact_selected", redact)
        done = store.erase_subject("ann", by="mia", archives_are_gone=True)
        (place,) = {each.place for each in store.archived()}
        assert {each.conversation_id: each.archive for each in done.conversations} == {
            "old-0": place,
            "old-2": None,
        }
        assert not done.is_complete
        store.restore(place)
        assert store.erase_subject("ann", by="mia").is_complete


def test_a_store_of_asyncio_does_the_same(url: str, tmp_path: Path) -> None:
    """Each method awaits that of the store."""

    async def main() -> None:
        async with AsyncEventStore.open(url, clock=later_clock()) as store:
            done = await store.retain("6 months", folder=tmp_path, dry_run=False)
            assert {each.conversation_id async for each in store.archived()} == set(OLD)
            assert [each async for each in store.verify_archives()] == []
            with pytest.raises(ConversationArchived):
                await store.conversation("old-0").add_message("user", "And this?")
            assert (await store.restore(done.files[0])).events == 17

    asyncio.run(main())


def test_arguments_that_make_no_sense_are_refused(later: EventStore, tmp_path: Path) -> None:
    """Each error names the argument."""
    for wanted, said in (
        ({"only": "all"}, "only is 'all'"),
        ({"dry_run": False}, "folder is None"),
        ({"dry_run": False, "folder": tmp_path / "none"}, "is not a folder"),
        ({"by": " "}, "by is ' '"),
    ):
        with pytest.raises(ValueError, match=said):
            later.retain(timedelta(days=1), **wanted)


def _execute(store: EventStore, statement: str) -> None:
    path = store.url.removeprefix("sqlite:///")
    with closing(driver().connect(path)) as file:
        file.execute(statement)
        file.commit()
