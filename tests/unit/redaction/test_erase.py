"""Erasure: whom events are about is found without a clear name, and forgotten in every copy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest
from sqlalchemy import create_engine

from eventstore import (
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    Dispatcher,
    EventStore,
    FunctionCall,
    FunctionTool,
    KeyFile,
    StoreCorrupt,
    SubjectSecret,
)
from eventstore.storage.sqlite.driver import driver
from eventstore.testing import FrozenClock
from projections.cli import app
from projections.projector import Projector
from projections.search import TextSearch

DAY = 86_400
SECRET = SubjectSecret(bytes(range(32)))
ANN = "customer-17 Ann"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of a log that is not there yet."""
    return tmp_path / "log" / "agent.db"


@pytest.fixture
def url(path: Path) -> str:
    """Return its URL."""
    path.parent.mkdir()
    return f"sqlite:///{path}"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return the file of a secret."""
    file = tmp_path / "subjects.secret"
    SubjectSecret.create(file)
    return file


def texts(chat: Conversation) -> str:
    """Return all that is read of a conversation, as one text."""
    return str([recorded.event for recorded in chat.events()])


def find(name: str) -> str:
    """Find where a customer lives."""
    return f"{name} lives in Graz"


def test_events_about_a_person_are_erased_and_no_others(url: str, path: Path) -> None:
    """Messages and whole calls go, whoever recorded their ends; no name is in any file."""
    with EventStore.open(url, subjects=SECRET) as store:
        chat = store.conversation("chat")
        chat.add_message("system", "Be kind.")
        about = chat.about(ANN)
        about.add_message("user", "I am Ann.")
        note = about.request("find", {"name": "Ann"})
        chat.start(note.id)
        chat.complete(note.id, "Ann lives in Graz")  # by a worker that does not know
        chat.add_message("assistant", "Bye.")
        store.conversation("other", subjects=["customer-18"]).add_message("user", "I am Bob.")

        planned = store.erase_subject(ANN, by="mia", dry_run=True)
        assert planned.conversations[0].versions == (2, 3, 4, 5)
        assert "Ann" in texts(chat)
        done = store.erase_subject(ANN, by="mia", reason="asked for it")

        (erased,) = done.conversations
        assert (erased.conversation_id, erased.versions) == ("chat", (2, 3, 4, 5))
        assert done.is_complete
        assert "Ann" not in texts(chat)
        assert {"Be kind.", "Bye."} <= set(texts(chat).split("'"))
        assert "Bob" in texts(store.conversation("other"))
        assert list(store.verify()) == []
        assert store.erase_subject(ANN, by="mia").conversations == ()
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"Ann" not in held
    assert b"customer" not in held


def test_a_handle_is_about_somebody_wherever_it_goes(url: str) -> None:
    """A dispatcher, asyncio, a host's transaction and a second name add nothing unseen."""
    calls = [FunctionCall("find", {"name": "Ann"}, "1")]
    with EventStore.open(url, subjects=SECRET) as store:
        chat = store.conversation("blocking", subjects=ANN)
        Dispatcher(chat, [FunctionTool(find)]).dispatch(chat.turn("", calls))

        engine = create_engine(url)
        with engine.begin() as connection:
            within = store.conversation("host", connection=connection).about(ANN)
            within.add_message("user", "I am Ann.")
            within.fork(1, "fork of host")
        engine.dispose()

    async def run() -> None:
        async with AsyncEventStore.open(url, subjects=SECRET) as store:
            chat = store.conversation("awaited").about(ANN)
            await AsyncDispatcher(chat, [FunctionTool(find)]).dispatch(await chat.turn("", calls))
            await store.conversation("later").add_message("user", "I am Ann.")
            await store.tag_subject(ANN, "later", [1])
            done = await store.erase_subject(ANN, by="mia")
            assert [each.conversation_id for each in done.conversations] == sorted(
                ["blocking", "host", "fork of host", "awaited", "later"]
            )
            assert done.is_complete
            assert "Ann" not in str([each.event async for each in store.read()])

    asyncio.run(run())


def test_every_tenant_is_looked_through_for_tags_and_for_a_text(url: str) -> None:
    """One run covers the whole database; a text goes where nobody has tagged it."""
    with EventStore.open(url, subjects=SECRET, tenant="acme") as other:
        other.conversation("chat", subjects=[ANN]).add_message("user", "I am from Graz.")
        other.conversation("more").add_message("user", "Ann Maier called, and Bob.")
    with EventStore.open(url, subjects=SECRET) as store:
        asking = store.conversation("asking")
        asking.request("find", {"name": "Ann Maier"}, "1")
        store.conversation("free").add_message("user", "Nothing.")
        done = store.erase_subject(ANN, by="mia", text="Ann Maier")
        assert [(each.tenant, each.conversation_id) for each in done.conversations] == [
            ("", "asking"),
            ("acme", "chat"),
            ("acme", "more"),
        ]
        assert done.conversations[0].left == {"1": "pending"}
        assert not done.is_complete
        assert any("complete, reject or settle them" in text for text in done.remains)
    with EventStore.open(url, tenant="acme") as other:
        assert "Graz" not in texts(other.conversation("chat"))
        assert "[redacted] called, and Bob." in texts(other.conversation("more"))


def test_archives_are_named_until_they_are_said_to_be_gone(url: str, tmp_path: Path) -> None:
    """The log cannot reach into a file: its tags stay, so that it is not forgotten."""
    with EventStore.open(url, clock=FrozenClock(0), subjects=SECRET) as store:
        store.conversation("chat", subjects=[ANN]).add_message("user", "I am Ann.")
    with EventStore.open(url, subjects=SECRET) as store:
        files = store.retain("1 day", folder=tmp_path, dry_run=False).files
        for _ in range(2):
            done = store.erase_subject(ANN, by="mia")
            assert [each.archive for each in done.conversations] == [*files]
            assert not done.is_complete
        assert store.erase_subject(ANN, by="mia", archives_are_gone=True).is_complete
        assert store.erase_subject(ANN, by="mia").conversations == ()


LOST = "names an event that is not there"
CHANGED = "the index of subjects is not as it was written"
DAMAGES = {
    "DELETE FROM toolledger_conversations WHERE conversation = 1": LOST,
    "DELETE FROM toolledger_events WHERE position = 2": LOST,
    "UPDATE toolledger_subjects SET version = 1 WHERE conversation = 1 AND version = 2": CHANGED,
    "UPDATE toolledger_subjects SET conversation = 9 WHERE conversation = 1": CHANGED,
    "UPDATE toolledger_subjects SET digest = zeroblob(16) WHERE conversation = 1": CHANGED,
    "UPDATE toolledger_subjects SET subject = 'ann' WHERE conversation = 1": CHANGED,
    "INSERT INTO toolledger_archives VALUES (0, 1, 1, 0, 'x')": "its events are here",
}


@pytest.mark.parametrize("change", DAMAGES)
def test_a_damaged_tag_is_named_and_stops_no_erasure(url: str, path: Path, change: str) -> None:
    """The event that it names is left, as it may be another's. All others are erased."""
    with EventStore.open(url, subjects=SECRET) as store:
        chat = store.conversation("chat")
        chat.add_message("user", "I am Bob.")
        chat.about(ANN).add_message("user", "I am Ann.")
        store.conversation("other", subjects=[ANN]).add_message("user", "Ann again.")
        assert list(store.verify()) == []
    with closing(driver().connect(str(path))) as file:
        file.execute(change)
        file.commit()
    with EventStore.open(url, subjects=SECRET) as store:
        assert [each for each in store.verify() if DAMAGES[change] in each.problem]
        for _ in range(2):
            done = store.erase_subject(ANN, by="mia")
            if "subject = 'ann'" not in change:  # nothing tells whom it was about
                assert [each.damage is None for each in done.conversations].count(False) == 1
                assert not done.is_complete
        said = str([recorded.event for recorded in store.conversation("other").events()])
        assert "Ann" not in said
    with closing(driver().connect(str(path))) as file:
        payloads = str(file.execute("SELECT payload FROM toolledger_events").fetchall())
        assert "Bob" in payloads


def test_a_damaged_row_that_recognises_the_secret_is_no_other_secret(url: str, path: Path) -> None:
    """The remedy differs."""
    EventStore.open(url, subjects=SECRET).close()
    with closing(driver().connect(str(path))) as file:
        file.execute("UPDATE toolledger_subjects SET subject = zeroblob(16)")
        file.commit()
    with pytest.raises(StoreCorrupt, match=r"recognises the secret .* not as it was"):
        EventStore.open(url, subjects=SECRET)
    with EventStore.open(url) as store:
        assert [CHANGED in each.problem for each in store.verify()] == [True]


KILLED = """
    import os, signal, sys
    from eventstore import EventStore, SubjectSecret
    store = EventStore.open(sys.argv[1], subjects=SubjectSecret(bytes(range(32))))
    storage, left = store.session.storage, int(sys.argv[2])
    append, remove = storage.append, storage.subjects.remove

    def dying(of):
        def call(*args):
            global left
            left -= 1
            done = None if left < 0 else of(*args)
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done
        return call

    storage.append, storage.subjects.remove = dying(append), dying(remove)
    store.erase_subject("ann", by="mia")
"""


@pytest.mark.parametrize("calls", [1, 4])
def test_a_run_that_was_killed_is_repeated(url: str, calls: int) -> None:
    """After one redaction, and after the first tag: all is in the report of the next run."""
    with EventStore.open(url, subjects=SECRET) as store:
        for name in ("a", "b", "c"):
            store.conversation(name, subjects=["ann"]).add_message("user", "I am Ann.")
    killed = subprocess.run(
        [sys.executable, "-c", dedent(KILLED), url, str(calls)], check=False, capture_output=True
    )
    assert (killed.returncode, killed.stderr) == (-9, b"")
    with EventStore.open(url, subjects=SECRET) as store:
        done = store.erase_subject("ann", by="mia")
        assert done.is_complete
        assert [each.versions for each in done.conversations] == [(1,)] * (3 if calls == 1 else 2)
        assert len(list(store.redactions())) == 3
        assert "Ann" not in str([each.event for each in store.read()])
        assert store.erase_subject("ann", by="mia").conversations == ()


def test_a_secret_is_a_private_file(tmp_path: Path, secret: Path, url: str) -> None:
    """Its errors say what to do, and never what it holds."""
    assert secret.stat().st_mode & 0o777 == 0o600
    assert SubjectSecret.read(secret).digest(ANN) != SECRET.digest(ANN)
    with pytest.raises(FileExistsError):
        SubjectSecret.create(secret)
    secret.chmod(0o640)
    with pytest.raises(ValueError, match=r"others may use .* run `chmod 600"):
        EventStore.open(url, subjects=secret)
    short = tmp_path / "short"
    short.write_text("00ff")
    short.chmod(0o600)
    with pytest.raises(ValueError, match="holds no secret: it must have 64 to 128 hex") as caught:
        SubjectSecret.read(short)
    assert "00ff" not in str(caught.value)
    assert repr(SECRET) == "<SubjectSecret>"


def test_a_subject_needs_a_secret_and_a_name(url: str) -> None:
    """Without a secret nothing can be said about anybody; the error names the remedy."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        with pytest.raises(ValueError, match=r"pass EventStore.open\(url, subjects="):
            chat.about(ANN)
        with pytest.raises(ValueError, match="without the secret"):
            store.erase_subject(ANN, by="mia")
    with EventStore.open(url, subjects=SECRET) as store:
        for subject in ("", "x" * 1001, 17, "\ud800"):
            with pytest.raises(ValueError, match="a subject"):
                store.conversation("chat", subjects=[subject])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="name a person"):
            store.erase_subject(ANN, by=" ")
        with pytest.raises(ValueError, match="version is 0"):
            store.tag_subject(ANN, "chat", [0])


def test_the_command_says_what_is_left(
    url: str, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables that the command knows have followed; a call that is open makes the status 1."""
    tables = f"sqlite:///{tmp_path / 'tables.db'}"
    with EventStore.open(url, subjects=secret) as store:
        chat = store.conversation("chat", subjects=[ANN])
        chat.add_message("user", "I am Ann.")
        chat.about("bob").request("find", {"name": "Ann"}, "1")
        with Projector(store) as projector:
            projector.catch_up()
        with Projector(store, tables, views=(), projections=[TextSearch()]) as projector:
            projector.catch_up()
    command = ["erase", ANN, "--secret", str(secret), "--by", "mia", "--url", url]
    assert app.run([*command, "--dry-run"]) == 0
    assert "1 event of 'chat' would be erased: version 1" in capsys.readouterr().out
    assert app.run([*command, "--tables", tables]) == 1
    out = capsys.readouterr().out
    assert "1 event of 'chat' erased: version 1" in out
    assert "note: call '1' is pending, and was left" in out
    assert "has followed" in out
    assert f"text_search@1 in {tables} has followed" in out
    assert "note: backups, replicas and exports" in out
    with EventStore.open(url) as store:
        store.conversation("chat").reject("1")
    assert app.run([*command, "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    (erased,) = done["conversations"]
    assert (erased["versions"], erased["shared"]) == ([2, 4], [2])
    assert [each["behind"] for each in done["derived"]] == [0]
    assert app.run(command) == 0
    assert "no event is about that subject" in capsys.readouterr().out
    wrong = tmp_path / "other.secret"
    SubjectSecret.create(wrong)
    command[3] = str(wrong)
    assert app.run(command) == 1
    assert "tagged under another secret" in capsys.readouterr().err
    command[3] = str(tmp_path / "none")
    assert app.run(command) == 2


def test_a_text_goes_from_all_that_is_not_archived_and_archives_are_named(
    url: str, tmp_path: Path
) -> None:
    """One conversation that is archived ends nothing: its file may hold the text, and is named."""
    clock = FrozenClock()
    with EventStore.open(url, subjects=SECRET, clock=clock) as store:
        for name in ("archived", "later", "free"):
            if name == "later":
                clock.advance(200 * DAY)
                store.retain("6 months", folder=tmp_path, dry_run=False)
            store.conversation(name).add_message("user", "Ann Maier called.")
        for dry_run in (True, False):
            done = store.erase_subject(ANN, by="mia", text="Ann Maier", dry_run=dry_run)
            archived, *others = done.conversations
            assert (archived.conversation_id, archived.versions) == ("archived", ())
            assert [(each.conversation_id, each.versions) for each in others] == [
                ("free", (1,)),
                ("later", (1,)),
            ]
            assert not done.is_complete
        assert any(
            "restore them, erase again, and destroy the files" in text for text in done.remains
        )

        assert archived.archive is not None
        (left,) = store.redact_everywhere("Ann Maier", by="mia")
        assert (left.conversation_id, left.archive) == ("archived", archived.archive)
        assert f"is archived in {left.archive}" in str(left.remains)
        assert not left.is_complete

        store.restore(archived.archive)
        assert store.erase_subject(ANN, by="mia", text="Ann Maier").is_complete
        assert store.redact_everywhere("Ann Maier", by="mia") == []
        assert "Maier" not in str([each.event for each in store.read()])
        assert list(store.verify()) == []


def test_a_text_that_only_a_key_shows_is_not_said_to_be_gone(url: str, tmp_path: Path) -> None:
    """Without keys an encrypted event cannot be looked at: the report names it."""
    pytest.importorskip("cryptography")
    KeyFile.create(tmp_path / "keys")
    with EventStore.open(url, subjects=SECRET, keys=tmp_path / "keys") as store:
        store.conversation("chat").about(ANN).add_message("user", "Ann Maier called.")
    with EventStore.open(url, subjects=SECRET) as store:
        done = store.redact("chat", by="mia", text="Ann Maier")
        assert (done.versions, done.locked, done.is_complete) == ((), (1,), False)
        assert store.redact_everywhere("Ann Maier", by="mia") == [done]
    with EventStore.open(url, subjects=SECRET, keys=tmp_path / "keys") as store:
        assert store.redact("chat", by="mia", text="Ann Maier").is_complete
        assert "Maier" not in texts(store.conversation("chat"))


def test_a_text_goes_from_every_conversation_in_asyncio(url: str) -> None:
    """The call is awaited, and returns the report of all conversations."""

    async def run() -> None:
        async with AsyncEventStore.open(url) as store:
            await store.conversation("chat").add_message("user", "I am Ann.")
            (done,) = await store.redact_everywhere("Ann", by="mia")
            assert done.versions == (1,)

    asyncio.run(run())
