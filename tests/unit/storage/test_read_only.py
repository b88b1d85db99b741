"""A log that a user may only read, opened for reading."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from eventstore import EventStore, NotAStore, StorageError, StoreReadOnly
from projections.cli import app

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that others may look into."""
    with TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


@contextmanager
def as_reader(folder: Path) -> Iterator[None]:
    """Be a user who may read a folder and its files, and write nothing."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


def url_in(folder: Path) -> str:
    """Return the URL of a log with one message, which is closed."""
    url = f"sqlite:///{folder}/log.db"
    with EventStore.open(url) as store:
        store.conversation("chat").add_message("user", "hello")
    assert sorted(path.name for path in folder.iterdir()) == ["log.db"]
    return url


def test_a_log_in_a_folder_of_another_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An append is refused; nothing is made beside the file."""
    url = url_in(folder)
    assert app.run(["show", "--url", url]) == 0  # loads what that other user may not load
    with as_reader(folder):
        with pytest.raises(StoreReadOnly):
            EventStore.open(url)
        with EventStore.open(url, read_only=True) as store:
            assert len(list(store.read())) == 1
            assert not list(store.verify())
            with pytest.raises(StoreReadOnly, match="read_only=True"):
                store.conversation("chat").add_message("user", "more")
        assert app.run(["show", "chat", "--read-only", "--url", url]) == 0
    assert "hello" in capsys.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["log.db"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_reader_leaves_nothing_that_the_owner_cannot_write(folder: Path) -> None:
    """Both may write in the folder; the file is the owner's."""
    folder.chmod(0o777)
    os.seteuid(NOBODY)
    url = url_in(folder)
    os.seteuid(0)
    os.seteuid(NOBODY - 1)
    try:
        with EventStore.open(url, read_only=True) as store:
            assert len(list(store.read())) == 1
    finally:
        os.seteuid(0)
    assert [path.name for path in folder.iterdir()] == ["log.db"]
    os.seteuid(NOBODY)
    try:
        with EventStore.open(url) as store:
            assert store.conversation("chat").add_message("user", "more").version == 2
    finally:
        os.seteuid(0)


def test_the_events_of_an_open_writer_are_read(folder: Path) -> None:
    """SQLite reads the `-wal` with the help of the `-shm`."""
    url = url_in(folder)
    with EventStore.open(url) as writer:
        writer.conversation("chat").add_message("user", "more")
        with as_reader(folder), EventStore.open(url, read_only=True) as store:
            assert len(list(store.read())) == 2


def test_events_that_cannot_be_read_are_not_passed_over(folder: Path) -> None:
    """A copy with a `-wal` and without the `-shm` is refused, not read without its last events."""
    url = url_in(folder)
    (folder / "log.db-wal").write_bytes(b"frames")
    with as_reader(folder), pytest.raises(StorageError, match=r"events in log\.db-wal"):
        EventStore.open(url, read_only=True)


def test_a_file_that_another_begins_to_write_is_not_read_on(folder: Path) -> None:
    """The reader has no lock, and would see one half of the change."""
    url = url_in(folder)
    with as_reader(folder):
        store = EventStore.open(url, read_only=True)
        assert len(list(store.read())) == 1
    (folder / "log.db").chmod(0o644)
    with EventStore.open(url) as writer:
        writer.conversation("chat").add_message("user", "more")
    with pytest.raises(StorageError, match="written meanwhile"):
        list(store.read())
    store.close()


def test_nothing_is_made_or_upgraded(folder: Path) -> None:
    """There must be a store, of this version."""
    with pytest.raises(NotAStore, match="there is no store"):
        EventStore.open(f"sqlite:///{folder}/none.db", read_only=True)
    assert not list(folder.iterdir())
    url = url_in(folder)
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        connection.execute("UPDATE toolledger_version SET version_num = '0001'")
        connection.commit()
    with pytest.raises(StorageError, match="toolledger migrate"):
        EventStore.open(url, read_only=True)
