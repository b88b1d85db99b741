"""The seam for a new importer: what a file format declares, and what it is given to read.

A format of a program is one module with a class that keeps `KnownFormat`, and one line in
`formats.KNOWN_FORMATS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from eventstore.domain.json_types import JsonValue
from eventstore.importers.reading.about import About
from eventstore.importers.reading.problems import Problems
from eventstore.importers.reading.transcript import Transcript

Unit: TypeAlias = Literal["line", "item", "file"]
"""What a value is: one line of a file, one item of its JSON list, or the whole file."""

NumberedValues: TypeAlias = Iterator[tuple[int, JsonValue]]
"""JSON values with the number (from 1) of their line or item."""


class FileContent:
    """The values of one file, and what their conversations are named for.

    `name` is the caller's name for the conversations, in place of the file's own; `provider` is the
    form of the messages, where the caller says so. `path` is where the file lies.
    """

    def __init__(
        self,
        values: NumberedValues,
        unit: Unit,
        *,
        file_stem: str,
        name: str | None,
        provider: str | None,
        problems: Problems,
        path: Path | None = None,
    ) -> None:
        self.values = self._counted(values)
        self.unit: Unit = unit
        self.file_stem = file_stem
        self.name = name
        self.provider = provider
        self.problems = problems
        self.path = path
        self.is_exhausted = False
        self.taken_count = self.unread_count = 0
        self.first_unread: JsonValue = None
        self._used_names: set[str] = set()
        self._last: tuple[int, JsonValue] = (0, None)

    def _counted(self, values: NumberedValues) -> NumberedValues:
        for number, value in values:
            self.taken_count += 1
            self._last = (number, value)
            yield number, value
        self.is_exhausted = True

    @property
    def stem(self) -> str:
        """What a conversation without a name of its own is named for."""
        return self.name or self.file_stem

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of the folders that the file is in, the nearest first."""
        return () if self.path is None else tuple(each.name for each in self.path.resolve().parents)

    def report(self, what: str, number: int, *, is_known: bool = False) -> None:
        """Report a value that is not read; a file most of whose values are not is refused.

        `is_known`: such values stand in files of this form, and hold nothing of a conversation.
        """
        if not is_known:
            self.unread_count += 1
            if number == self._last[0] and self.first_unread is None:
                self.first_unread = self._last[1]
        if self.unit == "line":
            self.problems.add(what, number)
        else:
            self.problems.add(f"{self.unit} {number} is {what}")

    def unused_name(self, name: str) -> str:
        """Return `name`, with a number after it where the file has used it before."""
        chosen, number = name, 2
        while chosen in self._used_names:
            chosen, number = f"{name}#{number}", number + 1
        self._used_names.add(chosen)
        return chosen


class FileFormat(Protocol):
    """A format of files that hold conversations."""

    name: str
    """The name with which a caller chooses the format."""

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value of a file is of this format."""
        ...

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the conversations of a file; values that cannot be read become problems."""
        ...


class KnownFormat(FileFormat, Protocol):
    """A format that comes with the library, and says whose files it reads."""

    about: About
