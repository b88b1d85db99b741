"""Each write, truncation and sync of an append fails, or is the last before a power cut."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from support import tiers, workers
from support.disks import Disk, Fault, Operation, after_power_cut

from eventstore import EventStore
from eventstore.errors import OutcomeUnknown, StoreFull
from eventstore.testing import Acknowledgement, acknowledged, message, refused, unknown

SIZES = [(1, 0), (1, 9000), (12, 700), (1, 0), (3, 5000), (1, 0)]
"""How many events each append has, and how long their texts are."""
Notes = list[tuple[int, Acknowledgement]]

PAGES = 6
"""So few pages are in the WAL when it is copied into the file that every append or two does it."""

KINDS = {
    ("write", ".db-wal"),
    ("sync", ".db-wal"),
    ("write", ".db"),
    ("truncate", ".db"),
    ("sync", ".db"),
}
"""What appends do to the files; the WAL is written from its beginning again, and never cut."""


@pytest.fixture
def disk() -> Iterator[Disk]:
    """Return a disk below SQLite."""
    try:
        disk = Disk()
    except OSError as error:
        pytest.skip(str(error))
    with disk.mounted():
        yield disk


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Path, list[Acknowledgement]]:
    """Return a store that has an event, and the note of it."""
    path = tmp_path / "begun.db"
    with EventStore.open(f"sqlite:///{path}") as store:
        return path, [acknowledged("first", store.conversation("chat").append(message()))]


def write(disk: Disk, path: Path, fault: Fault | None, first: int, *, lasting: bool) -> Notes:
    """Append on a disk that fails; return the notes, each with the number of operations then."""
    notes: Notes = []
    with EventStore.open(disk.url(path)) as store:
        chat = store.conversation("chat")
        assert chat.version == 1
        connection = store.session.storage.connections.connection()  # type: ignore[attr-defined]
        connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES}")
        disk.begin(fault, first, lasting=lasting)
        for count, size in SIZES:
            ids = [uuid4().hex for _ in range(count)]
            note = unknown("ada", ids)
            notes.append((len(disk.operations), note))
            try:
                note = acknowledged(
                    "ada", chat.append(*[message("x" * size)] * count, event_ids=ids)
                )
            except StoreFull:  # "nothing was written"
                note = refused("ada", ids)
            except OutcomeUnknown as error:
                note = unknown("ada", error.event_ids)
            notes.append((len(disk.operations), note))
    return notes


def check(path: Path, notes: list[Acknowledgement]) -> None:
    """Assert that the store opens, is whole, has what was acknowledged, and can be written."""
    with EventStore.open(f"sqlite:///{path}", create=False) as store:
        workers.check_log(store, notes)
        chat = store.conversation("chat")
        ids = notes[-1].event_ids
        again = chat.append(*[message()] * len(ids), event_ids=ids)  # stored before or not
        workers.check_log(store, [*notes, acknowledged("later", again)])


def kind(operation: Operation) -> tuple[str, str]:
    """Return what an operation does, and to which of the files."""
    return operation.kind, Path(operation.path).suffix


def cases(operations: Sequence[Operation]) -> list[int]:
    """Return the numbers of the operations that this tier tries: all, or some of each kind."""
    if tiers.LONG:
        return list(range(len(operations)))
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(operations):
        numbers.setdefault(kind(one), []).append(number)
    chance = random.Random(len(operations))
    chosen = {number for some in numbers.values() for number in chance.sample(some, 2)}
    return sorted(chosen | {0})


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("fault", Fault)
def test_an_append_whose_write_fails_is_an_error_and_loses_nothing(
    tmp_path: Path,
    disk: Disk,
    begun: tuple[Path, list[Acknowledgement]],
    fault: Fault,
    lasting: bool,
) -> None:
    """Whichever operation it is, what was acknowledged is stored, and the store can go on.

    Each operation fails once with EIO in the long tier; all else tries a sample of each kind.
    """
    source, first = begun
    operations = operations_of(disk, tmp_path, source)
    is_every = tiers.LONG and fault is Fault.IO_ERROR and not lasting
    acknowledgements, failed = {}, set()
    for number in range(len(operations)) if is_every else cases(operations):
        path = tmp_path / f"{number}.db"
        shutil.copyfile(source, path)
        notes = write(disk, path, fault, number, lasting=lasting)
        failed.add(kind(disk.operations[number]))
        check(path, [*first, *(note for _, note in notes)])
        acknowledgements[number] = sum(bool(note.places) for _, note in notes)
    assert failed == KINDS
    assert acknowledgements[0] == (0 if lasting else len(SIZES) - 1)


def operations_of(disk: Disk, tmp_path: Path, source: Path) -> list[Operation]:
    """Return what the appends do to the files, on a disk that is well."""
    path = tmp_path / "whole.db"
    shutil.copyfile(source, path)
    notes = write(disk, path, None, 0, lasting=False)
    return disk.operations[: notes[-1][0]]


@pytest.mark.parametrize("torn", [False, True], ids=["synced", "torn"])
def test_a_power_cut_after_any_write_loses_no_acknowledged_event(
    tmp_path: Path, disk: Disk, begun: tuple[Path, list[Acknowledgement]], torn: bool
) -> None:
    """The disk has only what was synced, or a part of the last write besides."""
    source, first = begun
    path = tmp_path / "written.db"
    shutil.copyfile(source, path)
    before = {str(path): path.read_bytes()}
    wal = str(path) + "-wal"
    notes = write(disk, path, None, 0, lasting=False)
    operations = list(disk.operations)
    for number in [*cases(operations[: notes[-1][0]]), notes[-1][0]]:
        files = after_power_cut(before, operations[:number], torn=torn)
        cut = tmp_path / f"cut-{number}.db"
        cut.write_bytes(files[str(path)])
        cut.with_name(cut.name + "-wal").write_bytes(files.get(wal, b""))
        check(cut, [*first, *(note for at, note in notes if at <= number)])
