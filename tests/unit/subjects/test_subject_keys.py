"""Keys of subjects: who has them reads as before; without them nothing is read, and no garbage."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

pytest.importorskip("cryptography")

from sqlalchemy import create_engine

from eventstore import (
    AsyncEventStore,
    Conversation,
    Dispatcher,
    EventStore,
    FunctionCall,
    FunctionTool,
    IllegalTransition,
    KeyFile,
    StorageError,
    SubjectSecret,
    UnknownEvent,
    WrongKey,
    fingerprint,
)
from eventstore.storage.sqlite.driver import driver
from projections import model_history
from projections.cli import app
from projections.projector import Projector
from projections.search import TextSearch

SECRET = SubjectSecret(bytes(range(32)))


class Files(NamedTuple):
    """A log, and the keys that are kept elsewhere."""

    log: Path
    keys: Path
    url: str

    def open(self, *, keys: bool = True) -> EventStore:
        """Open the log, with its keys or without."""
        return EventStore.open(self.url, subjects=SECRET, keys=self.keys if keys else None)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return the files of a log with a call about Ann."""
    (tmp_path / "log").mkdir()
    found = Files(
        tmp_path / "log" / "agent.db", tmp_path / "keys", f"sqlite:///{tmp_path}/log/agent.db"
    )
    KeyFile.create(found.keys)
    with found.open() as store:
        chat = store.conversation("chat", subjects=["ann"])
        chat.add_message("user", "I am Ann")
        dispatcher = Dispatcher(chat, [FunctionTool(find)])
        dispatcher.dispatch(chat.turn("I look.", [FunctionCall("find", {"name": "Ann"}, "1")]))
    return found


def find(name: str) -> str:
    """Find where a customer lives."""
    return f"{name} lives in Graz"


def texts(chat: Conversation) -> str:
    """Return all that is read of a conversation, as one text."""
    return str([recorded.event for recorded in chat.events()])


def test_events_are_read_with_the_key_alone(files: Files) -> None:
    """Prompts and searches are as before; the files hold neither the name nor the text."""
    with files.open() as store:
        chat = store.conversation("chat")
        prompt = str(model_history(chat.events()).render("openai"))
        assert "I am Ann" in prompt
        assert "Ann lives in Graz" in prompt
        assert list(store.verify()) == []
        search = TextSearch()
        with Projector(store, "sqlite://", views=(), projections=[search]) as projector:
            projector.catch_up()
            assert [each.version for each in search.find(projector, "graz")] == [5]
    held = b"".join(path.read_bytes() for path in files.log.parent.iterdir())
    assert not [text for text in (b"ann", b"Ann", b"Graz", b"I look") if text in held]
    assert b"ann" not in files.keys.read_bytes()
    with files.open(keys=False) as store:
        chat = store.conversation("chat")
        assert "Ann" not in texts(chat)
        assert {each.locked for each in chat.events()} == {
            "it is encrypted, and the store was opened without keys"
        }
        assert chat.tools["1"].status.name == "Completed"
        assert list(store.verify()) == []
        assert "[redacted]" in str(model_history(chat.events()).render("openai"))


def test_equal_calls_are_found_and_their_arguments_cannot_be_guessed(files: Files) -> None:
    """The fingerprint of an encrypted call is keyed, the same one for equal calls."""
    guess = fingerprint("find", {"name": "Ann"})
    with files.open() as store:
        chat = store.conversation("chat")
        again = chat.about("bob").request("find", {"name": "Ann"})
        assert [tool.id for tool in chat.equal_calls(again)] == ["1"]
        assert len(list(store.read_fingerprint(guess))) == 4
        other = store.conversation("clear").request("find", {"name": "Ann"})
        assert other.fingerprint == guess != again.fingerprint == chat.tools["1"].fingerprint
        chat.start(again.id)  # by a handle that is about nobody
        *_, started = chat.events()
        assert started.fingerprint == again.fingerprint
    with files.open(keys=False) as store:
        assert {each.conversation_id for each in store.read_fingerprint(guess)} == {"clear"}


def test_destroying_the_key_erases_every_copy(files: Files, tmp_path: Path) -> None:
    """A copy that was made before shows nothing any more, and the next key has another id."""
    copy = tmp_path / "copy.db"
    with closing(driver().connect(str(files.log))) as log, closing(driver().connect(copy)) as into:
        log.backup(into)
    with files.open() as store:
        note = store.conversation("chat").about("ann").request("find", {"name": "Ann"}, "2")
        assert not store.erase_subject("ann", by="mia").is_complete
        assert "Ann" in texts(store.conversation("chat"))  # of the open call
        store.conversation("chat").reject(note.id, "no")
        assert store.erase_subject("ann", by="mia").is_complete
        assert list(store.verify()) == []
    with EventStore.open(f"sqlite:///{copy}", subjects=SECRET, keys=files.keys) as store:
        chat = store.conversation("chat")
        assert "Ann" not in texts(chat)
        (why,) = {each.locked for each in chat.events()}
        assert why == "it is encrypted, and its key was destroyed or is not there"
        assert list(store.verify()) == []
        chat.about("ann").add_message("user", "Ann again")
        assert texts(chat).count("Ann again") == 1


def test_an_event_about_several_is_read_with_the_key_of_any(files: Files) -> None:
    """An erasure says which of them concerned others, too."""
    with files.open() as store:
        chat = store.conversation("both", subjects=["ann", "bob"])
        chat.add_message("user", "Ann and Bob")
        assert store.session.vault is not None
        store.session.vault.destroy(SECRET.digest("ann"))
        assert "Ann and Bob" in texts(chat)
        done = store.erase_subject("bob", by="mia")
        assert [each.shared for each in done.conversations] == [(1,)]
        assert "Ann" not in texts(chat)


def test_a_wrong_key_is_one_error(files: Files) -> None:
    """A key that is there, and is another one, is never taken for damage, nor for garbage."""
    stored = msgspec.json.decode(files.keys.read_bytes())
    for each in stored["keys"].values():
        each["key"] = "A" * 43 + "="
    files.keys.write_bytes(msgspec.json.encode(stored))
    with files.open() as store:
        with pytest.raises(WrongKey, match="does not open an event of conversation 'chat'"):
            list(store.conversation("chat").events())
        with pytest.raises(WrongKey):
            store.conversation("chat").start("1")
        with pytest.raises(WrongKey):
            list(store.verify())


def test_damage_of_an_envelope_is_named(files: Files) -> None:
    """One that was put in the place of another is no event any more, and no wrong key."""
    move = (
        "UPDATE toolledger_events SET payload = (SELECT payload FROM toolledger_events o "
        "WHERE o.version = 2) WHERE version = 1"
    )
    with closing(driver().connect(str(files.log))) as file:
        file.execute(move)
        file.commit()
    with files.open() as store:
        first, *_ = (each.event for each in store.read())
        assert isinstance(first, UnknownEvent)
        assert first.damage
        assert [each.version for each in store.verify()] == [1]


def test_a_call_that_cannot_be_read_does_not_start(files: Files) -> None:
    """Without its key nobody knows what was asked; other calls of the conversation start."""
    with files.open() as store:
        chat = store.conversation("chat")
        chat.about("ann").request("find", {"name": "Ann"}, "2")
        chat.request("find", {"name": "x"}, "3")
    with EventStore.open(files.url) as store:
        chat = store.conversation("chat")
        assert chat.start("3").status.name == "Running"
        with pytest.raises(IllegalTransition, match="its key is not there"):
            chat.start("2")


def test_a_fork_and_a_restored_log_are_encrypted(files: Files, tmp_path: Path) -> None:
    """A fork is encrypted anew for the same person; an export has what is stored."""
    exported, restored = tmp_path / "log.jsonl", f"sqlite:///{tmp_path}/log/restored.db"
    with files.open() as store:
        store.conversation("chat").fork(2, "fork")
        assert "I am Ann" in texts(store.conversation("fork"))
    assert app.run(["export", "--url", files.url, "-o", str(exported)]) == 0
    assert app.run(["restore", str(exported), "--url", restored]) == 0
    assert b"Ann" not in exported.read_bytes()
    held = b"".join(path.read_bytes() for path in files.log.parent.iterdir())
    assert b"Ann" not in held
    with EventStore.open(restored, subjects=SECRET, keys=files.keys) as store:
        assert "Ann lives in Graz" in texts(store.conversation("chat"))
        assert "I am Ann" in texts(store.conversation("fork"))
        assert list(store.verify()) == []


def test_every_way_to_append_encrypts(files: Files) -> None:
    """Asyncio, a host's transaction, and the handle that a text is redacted through."""

    async def run() -> None:
        async with AsyncEventStore.open(files.url, subjects=SECRET, keys=files.keys) as store:
            chat = store.conversation("awaited", subjects=["ann"])
            await chat.add_message("user", "Ann awaited")
            assert "Ann awaited" in str([each.event async for each in chat.events()])

    asyncio.run(run())
    with files.open() as store:
        engine = create_engine(files.url)
        with engine.begin() as connection:
            within = store.conversation("host", subjects=["ann"], connection=connection)
            within.add_message("user", "Ann hosted")
            assert "Ann hosted" in texts(within)
        engine.dispose()
        done = store.redact("host", by="mia", text="Ann")
        assert done.versions == (1,)
        assert "hosted" not in texts(store.conversation("host"))  # it goes as a whole
        assert list(store.verify()) == []
    held = b"".join(path.read_bytes() for path in files.log.parent.iterdir())
    assert b"Ann" not in held


MAKE_KEYS = """
import sys
from eventstore import KeyFile
keys = KeyFile(sys.argv[1])
for number in range(20):
    print(keys.key_for(f"{number}").id)
    keys.key_for(f"{sys.argv[2]}-{number}")
"""


def test_processes_share_a_file_of_keys(tmp_path: Path) -> None:
    """None makes a second key for a subject, and none loses the keys of others."""
    path = tmp_path / "keys"
    keys = KeyFile.create(path)
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", MAKE_KEYS, str(path), str(n)], stdout=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    made = [maker.communicate()[0].split() for maker in makers]
    assert made[0] == made[1] == made[2]
    assert len(msgspec.json.decode(path.read_bytes())["keys"]) == 20 + 3 * 20
    assert keys.key_for("7").id == made[0][7]
    keys.destroy("7")
    assert keys.key(made[0][7]) is None
    assert keys.key_for("7").id != made[0][7]
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["keys", "keys.lock"]


def test_a_file_of_keys_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    """No error holds a key."""
    path = tmp_path / "keys"
    with pytest.raises(FileNotFoundError):
        KeyFile(path)
    opened = KeyFile.create(path)
    with pytest.raises(FileExistsError):
        KeyFile.create(path)
    path.unlink()
    for use in (opened.key_for, opened.key, opened.destroy):
        with pytest.raises(StorageError, match=r"keys' cannot be used .* restore it from a copy"):
            use("0" * 32)
    KeyFile.create(path)
    with pytest.raises(ValueError, match="keys need the secret"):
        EventStore.open("sqlite://", keys=path)
    for content in (b"", b'{"format":9}', b'{"format":1,"keys":{"a":{"id":"b","key":"c2VjcmV0"}}}'):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no file of keys that this version") as caught:
            KeyFile(path)
        assert "c2Vj" not in str(caught.value)
    path.chmod(0o604)
    with pytest.raises(ValueError, match="chmod 600"):
        KeyFile(path)
