"""`seal-key`, `seal`, `prove`, and `verify --note`: what one person signs, and another checks."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore
from eventstore.seals import Consistency, Inclusion, SigningKey, VerifierKey
from projections.cli import app

NAME = "example.com/agents"


class Log:
    """A store with a key, in the folder that the commands run in."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.url = "sqlite:///log.db"
        self.write("one", "two")
        self.key = self.says("seal-key", NAME, "seal.key").strip()
        self.trusted = [VerifierKey.parse(self.key)]

    def write(self, *names: str) -> None:
        """Append a message and a call to conversations."""
        with EventStore.open(self.url) as store:
            for name in names:
                chat = store.conversation(name)
                chat.add_message("user", f"question of {name}")
                chat.request("refund", {"amount": 20})

    def says(self, *arguments: str, status: int = 0) -> str:
        """Return what a command prints, or complains of."""
        assert app.run([*arguments]) == status
        printed = self._capsys.readouterr()
        return printed.err if status else printed.out

    def here(self, *arguments: str, status: int = 0) -> str:
        """Return what a command prints of this store."""
        return self.says(*arguments, "--url", self.url, status=status)

    def json(self, *arguments: str) -> Any:
        """Return what a command prints for programs."""
        return json.loads(self.here(*arguments, "--json"))

    def seal(self) -> str:
        """Seal the store; return what is kept."""
        self.here("seal", "--key", "seal.key", "--anchor", "notes")
        return Path("notes").read_text("utf-8")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Log:
    """Return a store of two conversations, and a key."""
    monkeypatch.chdir(tmp_path)
    return Log(capsys)


def test_a_new_key_is_its_owners_alone(log: Log) -> None:
    """Nobody else may read the file, none is written over, and its verifier key is printed."""
    path = Path("seal.key")
    assert path.stat().st_mode & 0o777 == 0o600
    assert str(SigningKey.parse(path.read_text("utf-8")).verifier) == log.key
    before = path.read_bytes()
    assert "seal.key" in log.says("seal-key", NAME, "seal.key", status=1)
    assert path.read_bytes() == before


def test_a_secret_is_never_printed(log: Log) -> None:
    """A key in the place of its file, or of a verifier key, is refused without its text."""
    secret = Path("seal.key").read_text("utf-8").strip()
    for arguments, status in (
        (["seal", "--key", secret], 2),
        (["prove", "one", "1", "--key", secret], 1),
        (["verify", "--note", "seal.key", "--key", secret], 1),
    ):
        assert secret[-20:] not in log.here(*arguments, status=status)


def test_a_sealed_log_is_checked_against_what_was_kept(log: Log) -> None:
    """The writer cuts the tail with its counter: only the note shows it."""
    assert "sealed up to position 4" in log.here("seal", "--key", "seal.key", "--anchor", "notes")
    log.write("three")
    sealed = log.json("seal", "--key", "seal.key", "--anchor", "notes", "--folder", "kept")
    assert [(each["lane"], each["size"]) for each in sealed["seals"]] == [(0, 6)]
    assert sealed["key"] == log.key
    (copy,) = Path("kept").rglob("*.note")
    assert copy.read_text("utf-8") == sealed["seals"][0]["note"]
    check = ("verify", "--note", "notes", "--note", str(copy), "--key", log.key)
    assert "lane 0 is what was sealed up to position 6; 0 events after it" in log.here(*check)
    with closing(sqlite3.connect("log.db")) as file, file:
        for table in ("events", "conversations", "fingerprints", "event_ids"):
            file.execute(f"DELETE FROM toolledger_{table} WHERE conversation = 5")  # noqa: S608
        file.execute("UPDATE toolledger_lanes SET position = 4")
    assert "all is well" in log.here("verify")
    complaint = log.here(*check, status=1)
    assert "lane 0 ends at position 4, and was sealed up to 6" in complaint
    assert "was sealed up to 6" in log.here("seal", "--key", "seal.key", status=1)


def test_a_proof_is_checked_without_the_database(log: Log) -> None:
    """Leaf, path and note are one file; the payload with its salt is another."""
    old = log.seal()
    log.write("one")
    log.seal()
    log.here("prove", "one", "2", "--key", log.key, "-o", "event", "--payload", "payload")
    row, head = Inclusion.parse(Path("event").read_text("utf-8")).check(log.trusted)
    assert (row.conversation, row.version, head.size) == ("one", 2, 6)
    assert log.here("prove", "one", "2", "--key", log.key) == Path("event").read_text("utf-8")
    opening = json.loads(Path("payload").read_bytes())
    assert json.loads(opening["payload"])["call"]["arguments"] == {"amount": 20}
    Path("old").write_text(old, "utf-8")
    since = Consistency.parse(log.json("prove", "--since", "old", "--key", log.key)["proof"])
    assert [each.size for each in since.check(old[:-1], log.trusted)] == [4, 6]
    with EventStore.open(log.url) as store:
        chat = store.conversation("two")
        chat.reject(next(iter(chat.tools)), by="mia")
        store.redact("two", by="mia", whole=True)
    assert "was redacted" in log.here(
        "prove", "two", "1", "--key", log.key, "--payload", "gone", status=1
    )
    log.here("prove", "two", "1", "--key", log.key)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["prove", "one"], "pass a conversation's id and a version, or --since"),
        (["prove", "one", "1", "--since", "notes", "--key", "x"], "or --since"),
        (["prove", "one", "1"], "pass the verifier key that is trusted"),
        (["verify", "--note", "notes"], "pass the verifier key that is trusted"),
        (["verify", "--key", "x"], "pass --note, too: a key checks notes"),
        (["seal"], "--key"),
        (["seal", "--key", "seal.key", "--authority", "https://a"], "pass --folder too"),
    ],
)
def test_a_missing_option_is_named(log: Log, arguments: list[str], complaint: str) -> None:
    """Each command says which option it needs."""
    assert complaint in log.here(*arguments, status=2)
