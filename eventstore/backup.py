"""A copy of a store's file, made while others write to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventstore.storage.migrations import Progress

__all__ = ["backup"]


def backup(url: str, path: str | Path, progress: Progress | None = None) -> None:
    """Copy the SQLite file at a URL, with every committed event, to a new file at `path`.

    Others may append meanwhile: the copy is the database as it was at one moment, other programs'
    tables included. It is there whole or not at all. `progress` is called with the pages that are
    copied, and with the number of all.

    Raises:
        ValueError: the URL is of a server or of a database in memory; the error says what to use.
        NotAStore: there is no store at the URL.
        StorageError: `path` exists, or cannot be written.
    """
    from eventstore.storage.factory import backend_for  # loads SQLAlchemy

    backend_for(url).backup(Path(path), progress)
