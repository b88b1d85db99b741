"""Disks that are full and disks that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import workers

from eventstore import EventStore
from eventstore.conversation import Conversation
from eventstore.errors import StoreFull, StoreReadOnly
from eventstore.testing import Acknowledgement, message


def command(*words: object) -> bool:
    """Run a command of the system; return whether it succeeded."""
    if os.name != "posix" or shutil.which(str(words[0])) is None:
        return False
    done = subprocess.run([str(word) for word in words], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    """Return a store in a file."""
    with EventStore.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        yield store


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk):
        pytest.skip("a small file system can only be mounted by root, on Linux")
    yield disk
    command("umount", disk)


def pragma(store: EventStore, text: str) -> Any:
    """Return a setting of the connection that writes."""
    return store.session.storage.connections.connection().execute(f"PRAGMA {text}").fetchone()  # type: ignore[attr-defined]


Notes = list[Acknowledgement]


def append(chat: Conversation, notes: Notes, count: int = 1, size: int = 500) -> None:
    """Append some events, and note it."""
    workers.append_noting(notes.append, "ada", chat, *[message("x" * size)] * count)


def fill(chat: Conversation, notes: Notes, batch: int, size: int = 500) -> None:
    """Append until there is no space."""

    def append_on() -> None:
        while True:
            append(chat, notes, batch, size)

    with pytest.raises(StoreFull, match="nothing was written; free some space"):
        append_on()


@pytest.mark.parametrize("batch", [1, 7])
def test_a_store_that_may_not_grow_takes_nothing_and_goes_on_later(
    store: EventStore, batch: int
) -> None:
    """No append is stored in part, and appends succeed when there is space."""
    chat = store.conversation("chat")
    notes: Notes = []
    for limit in (60, 90, 120):
        pragma(store, f"max_page_count = {limit}")
        fill(chat, notes, batch)
        workers.check_log(store, notes)
    pragma(store, "max_page_count = 1000000")
    append(chat, notes)
    workers.check_log(store, notes)


def test_a_full_disk_takes_nothing_and_goes_on_when_there_is_space(small_disk: Path) -> None:
    """This holds for another store on the disk and for a new one, too."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    url = f"sqlite:///{small_disk / 'agent.db'}"
    notes: Notes = []
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        for left, batch in ((200_000, 1), (100_000, 7), (0, 3)):
            fill(chat, notes, batch)
            workers.check_log(store, notes)
            with EventStore.open(url) as other:
                workers.check_log(other, notes)
            with pytest.raises(StoreFull, match=r"new\.db"):
                EventStore.open(f"sqlite:///{small_disk / 'new.db'}")
            ballast.write_bytes(b"x" * left)
        append(chat, notes)
        workers.check_log(store, notes)
    names = {path.name for path in small_disk.iterdir()}
    assert names == {"agent.db", "ballast"}
    with EventStore.open(url) as store:
        workers.check_log(store, notes)


def test_a_call_on_a_full_disk_is_left_as_it_was(store: EventStore) -> None:
    """Its start is not recorded, so it does not run; later it can run."""
    chat = store.conversation("chat")
    tool = chat.request("pay")
    pragma(store, f"max_page_count = {pragma(store, 'page_count')[0]}")
    notes = workers.notes_of("ada", chat)
    fill(chat, notes, 1)
    fill(chat, notes, 1, size=0)
    ran = []
    with pytest.raises(StoreFull), chat.running(tool.id):
        ran.append(1)
    assert ran == []
    workers.check_log(store, notes)
    assert chat.tools[tool.id].status.name == "Pending"
    pragma(store, "max_page_count = 1000000")
    with chat.running(tool.id) as attempt:
        attempt.complete("paid")


def test_a_connection_that_may_not_write_says_so(store: EventStore) -> None:
    """The append raises an error, and reads succeed."""
    chat = store.conversation("chat")
    chat.append(message())
    pragma(store, "query_only = 1")
    with pytest.raises(StoreReadOnly, match=r"agent\.db: .* make the file and its folder writable"):
        chat.append(message())
    assert chat.version == 1
    pragma(store, "query_only = 0")
    assert chat.append(message())[0].version == 2


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """Return a function that makes a folder read-only, for root, too."""
    mounted: list[Path] = []

    def read_only(folder: Path) -> None:
        if not command("mount", "--bind", folder, folder):
            pytest.skip("a folder can only be mounted read-only by root, on Linux")
        mounted.append(folder)
        assert command("mount", "-o", "remount,bind,ro", folder)

    yield read_only
    for folder in mounted:
        command("umount", folder)


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    """No file is created or changed in it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        store.conversation("chat").append(message())
    before = path.read_bytes()
    read_only(folder)
    for name in ("agent.db", "new.db"):
        with pytest.raises(StoreReadOnly, match=name):
            EventStore.open(f"sqlite:///{folder / name}")
    assert list(folder.iterdir()) == [path]
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_can_be_read(tmp_path: Path) -> None:
    """An append raises an error with the reason."""
    path = tmp_path / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        store.conversation("chat").append(message())
    if not command("chattr", "+i", path):
        pytest.skip("a file can only be made immutable by root, on some file systems")
    try:
        with EventStore.open(f"sqlite:///{path}") as store:
            chat = store.conversation("chat")
            assert chat.version == 1
            with pytest.raises(StoreReadOnly, match=r"agent\.db"):
                chat.append(message())
            assert chat.version == 1
    finally:
        command("chattr", "-i", path)
    with EventStore.open(f"sqlite:///{path}") as store:
        assert store.conversation("chat").append(message())[0].version == 2
