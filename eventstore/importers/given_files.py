"""The files that a name stands for: itself, all in a folder, or all that fit a pattern."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path
from typing import Final

from eventstore.domain.credentials import may_be_address
from eventstore.importers.event_folder import with_event_folders

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
        files = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES)
        return [*with_event_folders(each for each in files if each.is_file())] or [path]
    if path.exists() or not has_magic(str(path)):
        return [path]
    found = glob(str(path), recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [*with_event_folders(map(Path, sorted(found)))] or [path]
