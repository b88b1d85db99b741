"""Files that are not a store, or not any more: one clear error, and nothing is written.

Where the file is damaged on purpose, no history could be kept; it is checked where none is lost.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support import workers
from support.tiers import LONG

from eventstore import EventStore
from eventstore.domain.events import UnknownEvent
from eventstore.errors import EventStoreError, NotAStore, StorageError, StoreCorrupt
from eventstore.storage.sqlite import driver as sqlite
from eventstore.testing import message

EVENTS = 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with a store in it, closed."""
    path = tmp_path / "agent.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        store.conversation("chat").append(*(message(f"{n} " + "x" * 200) for n in range(EVENTS)))
    return path


def cut(path: Path, size: int) -> None:
    """Keep only the first bytes."""
    os.truncate(path, size)


def overwrite(path: Path, at: int, data: bytes) -> None:
    """Overwrite bytes in the middle."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def another_programs(path: Path) -> None:
    """Make a database of another program."""
    path.unlink()
    connection = sqlite.driver().connect(str(path))
    connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()


def our_events_alone(path: Path) -> None:
    """Make a database with only some of our tables."""
    connection = sqlite.driver().connect(str(path))
    connection.execute("DROP TABLE toolledger_version")
    connection.close()


def folder(path: Path) -> None:
    """Make a folder instead of a file."""
    path.unlink()
    path.mkdir()


CLOSED: dict[str, tuple[Callable[[Path], object], type[StorageError], str]] = {
    "emptied": (lambda p: cut(p, 0), NotAStore, "is empty .0 bytes.: .* Restore it from a copy"),
    "cut to some bytes": (lambda p: cut(p, 50), StoreCorrupt, "restore it from a copy"),
    "cut to a page": (lambda p: cut(p, 4096), StoreCorrupt, "restore it from a copy"),
    "cut in half": (
        lambda p: cut(p, p.stat().st_size // 2 + 99),
        StoreCorrupt,
        "restore it from a copy",
    ),
    "with another header": (
        lambda p: overwrite(p, 0, b"no database here"),
        NotAStore,
        "restore it .* or name another",
    ),
    "with a damaged header": (
        lambda p: overwrite(p, 16, b"\xff" * 60),
        StorageError,
        "restore it from a copy",
    ),
    "a text": (lambda p: p.write_text("dear diary\n" * 500), NotAStore, "or name another"),
    "a short text": (lambda p: p.write_text("hi"), NotAStore, "or name another"),
    "a folder": (folder, NotAStore, "is a folder: name a file in it"),
    "of another program": (
        another_programs,
        NotAStore,
        "database of another program .* 'orders'.: name another file",
    ),
    "not whole": (
        our_events_alone,
        NotAStore,
        "toolledger_version are missing: restore the database from a copy",
    ),
}


def contents(folder: Path) -> dict[str, bytes]:
    """Return everything in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("what", CLOSED)
def test_a_file_that_is_no_store_is_refused(path: Path, what: str) -> None:
    """The error names the file and what to do, and the file is left as it is."""
    damage, kind, reported = CLOSED[what]
    damage(path)
    before = contents(path.parent)
    for create in (True, False):
        with pytest.raises(kind, match=reported) as caught:
            EventStore.open(f"sqlite:///{path}", create=create)
        assert str(caught.value).startswith(str(path))
        after = contents(path.parent)
        assert before.items() <= after.items()
        assert {name for name, data in after.items() if data} <= {*before, "agent.db-shm"}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The folder is not created."""
    path = tmp_path / "nowhere" / "agent.db"
    with pytest.raises(StorageError, match=f"the folder {path.parent} does not exist: make it"):
        EventStore.open(f"sqlite:///{path}")
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_nowhere_is_followed(tmp_path: Path) -> None:
    """The store is created where the link points; a link into a missing folder is an error."""
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "agent.db")
    for version in (1, 2):
        with EventStore.open(f"sqlite:///{link}") as store:
            assert store.conversation("chat").append(message())[0].version == version
    assert link.is_symlink()
    lost = tmp_path / "lost.db"
    lost.symlink_to(tmp_path / "nowhere" / "agent.db")
    with pytest.raises(StorageError, match="does not exist: make it"):
        EventStore.open(f"sqlite:///{lost}")


@pytest.mark.parametrize("rest", ["-wal", "-journal"])
def test_the_remains_of_a_removed_file_are_not_mixed_into_a_new_one(path: Path, rest: str) -> None:
    """SQLite would apply the old write-ahead log to the new file."""
    url = f"sqlite:///{path}"
    left = path.with_name(path.name + rest)
    with EventStore.open(url) as store:
        store.conversation("chat").append(message("old"))
        log = path.with_name(f"{path.name}-wal").read_bytes()
    path.unlink()
    left.write_bytes(log)
    with pytest.raises(NotAStore, match=f"move {left.name} away to start a new store"):
        EventStore.open(url)
    assert left.read_bytes() == log
    left.unlink()
    with EventStore.open(url) as store:
        assert list(store.read()) == []


def test_damage_in_the_middle_is_found_by_verify_or_by_reading(path: Path) -> None:
    """Every overwritten page is noticed, and every error is one of the library's."""
    sound = path.read_bytes()
    chance = random.Random(1)
    for page in range(1, len(sound) // 4096, 1 if LONG else 9):
        path.write_bytes(sound)
        overwrite(path, page * 4096, chance.randbytes(4096))
        noticed, said = False, ""
        try:
            with EventStore.open(f"sqlite:///{path}") as store:
                noticed = bool(list(store.verify()))
                list(store.conversation("chat").events())
                store.conversation("chat").append(message())
        except EventStoreError as error:
            said = str(error)
        assert noticed or str(path) in said, page
        for rest in path.parent.glob("agent.db-*"):
            rest.unlink()


def test_a_changed_letter_is_found_by_verify(path: Path) -> None:
    """SQLite's own check does not notice it, but the digests do."""
    data = path.read_bytes()
    overwrite(path, data.index(b'"text":"150 x') + 8, b"151")
    with EventStore.open(f"sqlite:///{path}") as store:
        (damage,) = store.verify()
    assert (damage.conversation_id, damage.version) == ("chat", 151)
    assert damage.problem == "the event does not match its digest"


def test_a_payload_that_is_not_text_any_more_is_found(path: Path) -> None:
    """The event is read as unknown, and `verify` names its place."""
    data = path.read_bytes()
    overwrite(path, data.index(b'"text":"150 x') + 8, b"\xff\xfe")
    with EventStore.open(f"sqlite:///{path}") as store:
        assert [damage.version for damage in store.verify()] == [151]
        unknown = [r.version for r in store.read() if isinstance(r.event, UnknownEvent)]
        assert unknown == [151]


# under a store that is open


def gone(path: Path) -> None:
    """Delete the file, as a clean-up would."""
    path.unlink()


def replaced(path: Path) -> None:
    """Put a copy in place of the file."""
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


OPEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "emptied": (lambda p: cut(p, 0), "was cut to 0 bytes while it was open"),
    "cut in half": (lambda p: cut(p, p.stat().st_size // 2), r"was cut to \d+ bytes while"),
    "removed": (gone, "was removed while it was open .No such file or directory."),
    "replaced": (replaced, "was replaced while it was open"),
    "-wal removed": (lambda p: Path(f"{p}-wal").unlink(), "-wal was removed or replaced while"),
    "-shm removed": (lambda p: Path(f"{p}-shm").unlink(), "-shm was removed or replaced while"),
    "-wal replaced": (lambda p: replaced(Path(f"{p}-wal")), "-wal was removed or replaced while"),
}


@pytest.mark.parametrize("what", OPEN)
def test_a_file_that_changes_under_an_open_store_takes_no_more_events(
    path: Path, what: str
) -> None:
    """SQLite itself would write to, and read from, a file that no other process sees."""
    damage, reported = OPEN[what]
    with EventStore.open(f"sqlite:///{path}") as store:
        chat = store.conversation("chat")
        chat.append(message())
        followers = store.follow(timeout=0), chat.follow(timeout=0)
        assert all(list(follower) for follower in followers)
        workers.at_once([_Damage(damage, path)])
        for follower in followers:
            with pytest.raises(StoreCorrupt, match=f"{path} ?{reported}"):
                next(follower)
        with pytest.raises(StoreCorrupt, match=f"{path} ?{reported}"):
            chat.append(message())
        with pytest.raises(StorageError, match=str(path)):
            chat.append(message())


class _Damage:
    """Damage done by another process, because this process would drop the store's locks."""

    def __init__(self, damage: Callable[[Path], object], path: Path) -> None:
        self.name = next(name for name, (known, _) in OPEN.items() if known is damage)
        self.path = path

    def __call__(self) -> None:
        OPEN[self.name][0](self.path)


def test_a_vacuum_beside_an_open_store_loses_nothing(path: Path) -> None:
    """The store raises an error that asks to open it again."""
    url = f"sqlite:///{path}"
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        notes = workers.notes_of("ada", chat)
        workers.append_noting(notes.append, "ada", chat, message())
        connection = sqlite.driver().connect(str(path))
        connection.execute("CREATE TABLE toolledger_ballast AS SELECT * FROM toolledger_events")
        connection.close()
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        workers.append_noting(notes.append, "ada", chat, message())
        connection = sqlite.driver().connect(str(path))
        connection.execute("DROP TABLE toolledger_ballast")
        connection.execute("VACUUM")
        connection.close()
        workers.append_noting(notes.append, "ada", chat, message())
    with EventStore.open(url) as store:
        assert workers.check_log(store, notes) == EVENTS + 3
