"""`backup`: a copy of a SQLite store that is whole, whatever others do meanwhile."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from support import workers
from support.tiers import examples

from eventstore import EventStore, MessageAdded, NotAStore, StorageError, Text
from eventstore.backup import backup
from eventstore.migrate import REVISIONS, move
from eventstore.storage.sqlite import copying
from eventstore.testing import Acknowledgement, acknowledged, unknown
from projections.cli import app


@pytest.fixture
def notes() -> list[Acknowledgement]:
    """Return the notes of all that is in the store."""
    return []


@pytest.fixture
def url(tmp_path: Path, notes: list[Acknowledgement]) -> str:
    """Return the URL of a store with 400 events of 10,000 characters."""
    address = f"sqlite:///{tmp_path}/log.db"
    with EventStore.open(address) as store:
        for number in range(4):
            messages = [MessageAdded("user", (Text("x" * 10_000),)) for _ in range(100)]
            recorded = store.conversation(f"chat {number}").append(*messages)
            notes.append(acknowledged("first", recorded))
    return address


def test_every_acknowledged_event_is_in_the_copy(
    url: str, notes: list[Acknowledgement], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes between all steps of the copy, which ends all the same."""
    monkeypatch.setattr(copying, "PAGES_AT_ONCE", 20)
    copies: dict[Path, int] = {}
    with workers.children([partial(workers.append_without_end, url, 1)]) as ((process, pipe),):

        def wait_for_a_write() -> None:
            notes.extend([pipe.recv(), pipe.recv()])  # an append begins, and is acknowledged

        for number in range(examples(5)):
            wait_for_a_write()
            copy = tmp_path / f"copy {number}.db"
            copies[copy] = len(notes)
            steps: list[int] = []

            def step(done: int, _total: int, steps: list[int] = steps) -> None:
                steps.append(done)
                assert len(steps) < 2_000, "the copy begins again and again"
                wait_for_a_write()

            backup(url, copy, step)
            assert len(steps) > 10
            assert steps == sorted(steps)
        process.kill()
        process.join()
        notes.extend(workers.received(pipe))
    with EventStore.open(url) as store:
        workers.check_log(store, notes)
    for copy, before in copies.items():
        later = [unknown(note.writer, note.event_ids) for note in notes[before:]]
        with EventStore.open(f"sqlite:///{copy}") as store:
            workers.check_log(store, [*notes[:before], *later])


def test_a_backup_that_is_killed_leaves_no_half_of_a_copy(
    url: str, notes: list[Acknowledgement], tmp_path: Path
) -> None:
    """The next one makes it whole, and the store is as it was."""
    script = (
        "import os, signal, sys\n"
        "from eventstore.backup import backup\n"
        "from eventstore.storage.sqlite import copying\n"
        "copying.PAGES_AT_ONCE = 20\n"
        "def kill(done, total):\n"
        "    if done > total / 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "backup(sys.argv[1], sys.argv[2], kill)\n"
    )
    copy = tmp_path / "copy.db"
    ended = subprocess.run([sys.executable, "-c", script, url, str(copy)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not copy.exists()
    backup(url, copy)
    for name in ("log.db", "copy.db"):
        with EventStore.open(f"sqlite:///{tmp_path}/{name}") as store:
            workers.check_log(store, notes)


def test_an_interrupted_backup_leaves_nothing(url: str, tmp_path: Path) -> None:
    """Ctrl-C in the middle ends it, and takes away what was made."""

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        backup(url, tmp_path / "copy.db", interrupt)
    assert sorted(path for path in tmp_path.iterdir() if "-" not in path.name) == before


def test_the_copy_is_there_without_its_wal(url: str, tmp_path: Path) -> None:
    """While the store is open its newest events are in the WAL; `cp` of the file loses them."""
    with EventStore.open(url) as store:
        store.conversation("late").add_message("user", "not yet in the file")
        shutil.copy(tmp_path / "log.db", tmp_path / "cp.db")
        backup(url, tmp_path / "copy.db")
    with EventStore.open(f"sqlite:///{tmp_path}/copy.db") as store:
        assert dict(store.conversations())["late"] == 1
    with EventStore.open(f"sqlite:///{tmp_path}/cp.db") as store:
        assert "late" not in dict(store.conversations())


def test_an_older_schema_is_copied_as_it_is(url: str, tmp_path: Path) -> None:
    """A backup before a migration is of the revision before it."""
    move(url, "0001")
    backup(url, tmp_path / "copy.db")
    assert move(f"sqlite:///{tmp_path}/copy.db") == ("0001", REVISIONS[-1])


def test_two_backups_to_one_name(url: str, tmp_path: Path) -> None:
    """One wins; the other says so, and changes nothing."""
    copy = tmp_path / "copy.db"
    with pytest.raises(StorageError, match=r"copy\.db exists: name another file"):
        backup(url, copy, lambda _done, _total: copy.write_text("other"))
    assert copy.read_text() == "other"
    with pytest.raises(StorageError, match=r"copy\.db exists: name another file"):
        backup(url, copy)
    assert copy.read_text() == "other"


@pytest.mark.parametrize("rest", ["-wal", "-journal"])
def test_the_remains_of_a_removed_file_are_not_mixed_into_the_copy(
    url: str, tmp_path: Path, rest: str
) -> None:
    """SQLite would apply them to any file that takes the name."""
    copy = tmp_path / "copy.db"
    remains = tmp_path / f"copy.db{rest}"
    with EventStore.open(f"sqlite:///{tmp_path}/removed.db") as store:
        store.conversation("removed").add_message("user", "in the WAL")
        kept = (tmp_path / "removed.db-wal").read_bytes()
    remains.write_bytes(kept)
    with pytest.raises(StorageError, match=rf"copy\.db{rest} is there.*: move it away"):
        backup(url, copy)
    assert not copy.exists()
    assert remains.read_bytes() == kept


@pytest.mark.parametrize(
    ("source", "target", "error", "words"),
    [
        ("sqlite://", "copy.db", ValueError, "is in memory"),
        ("sqlite:///{}/none.db", "copy.db", NotAStore, "there is no store at"),
        ("sqlite:///{}/other.db", "copy.db", NotAStore, "holds no store"),
        ("sqlite:///{}/log.db", "no/copy.db", StorageError, "does not exist: make it"),
        ("postgresql://ann:s3cret@h/log", "copy.db", ValueError, "tools of its server"),
        ("mysql://ann:s3cret@h/log", "copy.db", ValueError, "tools of its server"),
    ],
)
def test_a_source_or_a_place_that_cannot_be_used(
    url: str, tmp_path: Path, source: str, target: str, error: type[Exception], words: str
) -> None:
    """The error names the place and the remedy, and no password; no file is made."""
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    with pytest.raises(error, match=words) as refused:
        backup(source.format(tmp_path), tmp_path / target)
    assert "s3cret" not in str(refused.value)
    assert not (tmp_path / target).exists()


def test_the_command(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer names the copy, and how to check it."""
    copy = tmp_path / "copy.db"
    assert app.run(["backup", str(copy), "--url", url]) == 0
    assert f"toolledger verify --url sqlite:///{copy}" in capsys.readouterr().out
    assert app.run(["verify", "--url", f"sqlite:///{copy}"]) == 0
    assert app.run(["backup", str(copy), "--url", url, "--json"]) == 1
    assert "exists" in capsys.readouterr().err
