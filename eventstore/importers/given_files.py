"""The files that a name stands for: itself, all in a folder, or all that fit a pattern.

In a folder, what a program puts beside its sessions and holds no conversation is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path, PurePath
from typing import Final

from eventstore.domain.credentials import may_be_address
from eventstore.importers.formats import about_formats
from eventstore.importers.programs.event_folder import is_event_folder, with_event_folders
from eventstore.importers.reading.problems import SourceError
from eventstore.importers.reading.regular_files import fault_of
from eventstore.importers.reading.session_files import beside

SUFFIXES: Final = (
    *(".json", ".jsonl", ".ndjson", ".log", ".eval", ".traj"),
    *(".db", ".sqlite", ".sqlite3"),
)
"""Suffixes of the files in a folder that are imported."""


def files_of(given: str | Path) -> list[str | Path]:
    """Return the files that a name stands for, in order; the address of a server as it is."""
    if isinstance(given, str) and may_be_address(given):
        return [given]
    path = Path(given)
    if path.is_dir():
        files = [each for each in _named_files(path) if fault_of(each, path, None) is None]
        return [*with_event_folders(files)] or [path]
    if path.exists() or not has_magic(str(path)):
        return [path]
    found = glob(str(path), recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [*with_event_folders(map(Path, sorted(found)))] or [path]


def refused_in(given: str | Path) -> Iterator[tuple[Path, SourceError]]:
    """Yield what stands in a folder under the name of a file, and is none that is read."""
    path = Path(given)
    if (isinstance(given, str) and may_be_address(given)) or not path.is_dir():
        return
    for each in _named_files(path):
        fault = fault_of(each, path, None)
        if fault is not None and not is_event_folder(each.parent):
            yield each, SourceError(f"{each} {fault}: name it by itself to import it")


def _named_files(folder: Path) -> list[Path]:
    found = (each for each in folder.rglob("*") if each.suffix.lower() in SUFFIXES)
    files = sorted(each for each in found if each.is_symlink() or not each.is_dir())
    companions = {*_companions_of(files)}
    return [each for each in files if each not in companions]


def _companions_of(files: Iterable[Path]) -> Iterator[Path]:
    """Yield what stands beside sessions of programs, by the formats' own patterns."""
    known = [
        ({PurePath(place).name for place in each.places}, each.listing.companions)
        for each in about_formats().values()
        if each.listing.companions
    ]
    for file in files:
        for names, companions in known:
            if any(map(file.match, names)):
                yield from beside(file, companions)
