"""How far an import of files is: files, bytes, messages and calls.

It changes as the import goes on, and may be read from any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.domain.credentials import may_be_address

if TYPE_CHECKING:
    from eventstore.importers.source import Source
    from eventstore.provider_messages.history_import import Imported


class ImportProgress:
    """An import of so many `files`, of `size` bytes together, of which some are `finished`."""

    def __init__(self, files: Sequence[str | Path]) -> None:
        self.files = len(files)
        self.size = sum(map(_size_of, files))
        self.finished = 0
        self._of_files: list[FileProgress] = []

    @property
    def position(self) -> int:
        """How many of the bytes have been read."""
        return sum(each.position for each in self._of_files)

    @property
    def messages(self) -> int:
        """How many messages the log has of the files by now."""
        return sum(each.messages for each in self._of_files)

    @property
    def calls(self) -> int:
        """How many calls these messages make."""
        return sum(each.calls for each in self._of_files)

    def of(self, source: Source) -> FileProgress:
        """Return the progress of one more file."""
        self._of_files.append(FileProgress(source, self))
        return self._of_files[-1]


class FileProgress:
    """The import of one file, which is a part of `whole`."""

    def __init__(self, source: Source, whole: ImportProgress) -> None:
        self.whole = whole
        self._source = source
        self._conversations: list[Imported] = []

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._source.path

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._source.size

    @property
    def position(self) -> int:
        """How many of these bytes have been read."""
        return self._source.position

    @property
    def messages(self) -> int:
        """How many messages of the file the log has by now."""
        return sum(each.added + each.skipped for each in self._conversations)

    @property
    def calls(self) -> int:
        """How many calls these messages make."""
        return sum(each.calls for each in self._conversations)

    def add(self, conversation: Imported) -> None:
        """Take in what is done of a conversation, which may still grow."""
        self._conversations.append(conversation)


def _size_of(file: str | Path) -> int:
    """Return the size of a file; 0 where it is not a regular file, or not there."""
    if isinstance(file, str) and may_be_address(file):
        return 0
    path = Path(file)
    return path.stat().st_size if path.is_file() else 0
