"""Sources: files of conversations as provider messages, and what could not be read in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from eventstore.domain.json_types import is_json_list
from eventstore.importers.claude_code import SessionLogs
from eventstore.importers.file_format import FileContent, FileFormat, NumberedValues, Unit
from eventstore.importers.json_lines import TextFile, decode
from eventstore.importers.message_files import MAX_DETECTED_VALUES, Conversations, Messages
from eventstore.importers.problems import Problem, Problems, SourceError
from eventstore.importers.transcript import Transcript

__all__ = ["FORMATS", "LINE_SUFFIXES", "PROVIDERS", "Source", "read"]

FORMATS: Final[tuple[FileFormat, ...]] = (SessionLogs(), Conversations(), Messages())
"""The formats that can be read, in the order in which they are asked; the last is the default."""

PROVIDERS = ("anthropic", SessionLogs.name, "openai")
"""The names that a caller may pass for the form of a file."""

LINE_SUFFIXES = (".jsonl", ".ndjson", ".log")
"""Suffixes of files with one value a line."""


class Source:
    """One file, read as its transcripts are asked for.

    `name` stands for the file's own name in the ids of its conversations. Read the messages of each
    transcript before asking for the next; meanwhile `problems` grow, and `position` (of `size`).
    """

    def __init__(self, path: Path, provider: str | None, name: str | None) -> None:
        self.path = path
        self._format = next((each for each in FORMATS if each.name == provider), None)
        self._provider = None if self._format else provider
        self._name = name
        self._problems = Problems()
        self._file = TextFile(path, self._problems)

    @property
    def problems(self) -> list[Problem]:
        """What could not be read so far, in the order of the file; the first thousand."""
        return self._problems.kept

    @property
    def problem_count(self) -> int:
        """The number of problems so far."""
        return self._problems.count

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._file.size

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self._file.position

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the conversations of the file, in order.

        Raises:
            SourceError: the file holds no conversation.
        """
        count = 0
        for transcript in self._transcripts():
            count += 1
            yield transcript
        if not count:
            first = f"; {self.problems[0]}" if self.problems else ""
            raise SourceError(f"{self.path} holds no messages{first}")

    def _transcripts(self) -> Iterator[Transcript]:
        if self._has_lines():
            return self._read_lines(self._file.values())
        value = self._file.whole()
        if is_json_list(value):
            list_format = self._format or _format_of_any(value)
            return self._read(list_format, iter(enumerate(value, 1)), "item")
        file_format = _format_of(value, "file")
        if file_format is None:
            raise SourceError(
                f"{self.path} holds no messages: pass a list of them, or an object with `messages`"
            )
        return self._read(file_format, iter([(1, value)]), "file")

    def _has_lines(self) -> bool:
        suffix = self.path.suffix.lower()
        if suffix in LINE_SUFFIXES:
            return True
        first, has_more = self._file.first_line()
        try:
            return isinstance(decode(first), dict) and has_more
        except ValueError:
            return suffix != ".json" and first[:1] not in (b"{", b"[")

    def _read_lines(self, values: NumberedValues) -> Iterator[Transcript]:
        """Read a file by lines, in the format of the first that can be recognised."""
        head: list[tuple[int, object]] = []
        file_format = self._format
        while (
            file_format is None and len(head) < MAX_DETECTED_VALUES and (item := next(values, None))
        ):
            head.append(item)
            file_format = _format_of(item[1], "line")
        return self._read(file_format or FORMATS[-1], chain(head, values), "line")

    def _read(
        self, file_format: FileFormat, values: NumberedValues, unit: Unit
    ) -> Iterator[Transcript]:
        content = FileContent(
            values,
            unit,
            file_stem=self.path.stem,
            name=self._name,
            provider=self._provider,
            problems=self._problems,
        )
        transcripts = file_format.read(content)
        return transcripts if unit == "file" else filter(self._has_messages, transcripts)

    def _has_messages(self, transcript: Transcript) -> bool:
        """Return whether a transcript has messages; one without them becomes a problem."""
        messages = iter(transcript.messages)
        for first in messages:
            transcript.messages = chain((first,), messages)
            return True
        self._problems.add(f"{transcript.id}: no messages")
        return False


def read(path: str | Path, provider: str | None = None, name: str | None = None) -> Source:
    """Open a file of OpenAI or Anthropic messages, or a session log of Claude Code.

    `.json`: a list of messages, an object with `messages` (and `system`), or a list of such
    objects. `.jsonl`: one message, one such object, or one record of a session log a line.
    `provider` is the form of the file, where it should not be guessed.

    Raises:
        SourceError: the file is missing, empty, or not text.
        ValueError: files of that form cannot be read.
    """
    if provider is not None and provider not in PROVIDERS:
        raise ValueError(f"provider is {provider!r}: pass one of {', '.join(PROVIDERS)}")
    return Source(Path(path), provider, name)


def _format_of(value: object, unit: Unit) -> FileFormat | None:
    return next((each for each in FORMATS if each.looks_like(value, unit)), None)


def _format_of_any(items: Sequence[object]) -> FileFormat:
    found = (each for each in FORMATS if any(each.looks_like(item, "item") for item in items))
    return next(found, FORMATS[-1])
