"""Sources: files of conversations as provider messages, and what could not be read in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from eventstore.domain.credentials import may_be_address
from eventstore.domain.json_types import JsonValue, is_json_list
from eventstore.importers import databases
from eventstore.importers.databases import Database
from eventstore.importers.foreign_shapes import described, foreign_shape, refuse_unread
from eventstore.importers.formats import DATABASE_FORMATS, FORMATS
from eventstore.importers.frameworks.checkpoint_server import SCHEMES, CheckpointServer
from eventstore.importers.message_files import MAX_DETECTED_VALUES, Conversations, Messages
from eventstore.importers.programs.event_folder import EventFolder, is_event_folder
from eventstore.importers.programs.openhands import OpenHandsEvents
from eventstore.importers.reading.file_format import FileContent, FileFormat, NumberedValues, Unit
from eventstore.importers.reading.json_lines import SeveralValues, TextFile, decode
from eventstore.importers.reading.problems import NoMessages, Problem, Problems, SourceError
from eventstore.importers.reading.transcript import Transcript
from eventstore.importers.traces import eval_archive
from eventstore.importers.traces.eval_archive import EvalArchive
from eventstore.importers.traces.inspect_logs import InspectLogs
from eventstore.providers.registry import PROVIDERS as MESSAGE_FORMS

__all__ = ["LINE_SUFFIXES", "PROVIDERS", "Source", "read"]

_GENERAL = (Conversations.name, Messages.name)
PROVIDERS = tuple(
    sorted({*MESSAGE_FORMS, *(each.name for each in FORMATS if each.name not in _GENERAL)})
)
"""The names that a caller may pass for the form of a file."""

_REMEDY = "see `toolledger import --help` for the files that are read"

LINE_SUFFIXES = (".jsonl", ".ndjson", ".log")
"""Suffixes of files with one value a line."""


class Source:
    """One file, read as its transcripts are asked for.

    `name` stands for the file's own name in the ids of its conversations. Read the messages of each
    transcript before asking for the next; meanwhile `problems` grow, and `position` (of `size`).
    """

    def __init__(
        self, path: str | Path, provider: str | FileFormat | None, name: str | None
    ) -> None:
        is_server = isinstance(path, str) and path.startswith(SCHEMES)
        if isinstance(path, str) and may_be_address(path) and not is_server:
            raise _other_server(path)
        self.path = Path("database" if is_server else path)
        self._format: FileFormat | None
        self._provider: str | None = None
        if isinstance(provider, str):
            self._format = next((each for each in FORMATS if each.name == provider), None)
            self._provider = None if self._format else provider
        else:
            self._format = provider
        self._name = name
        self._on_value: Callable[[], object] | None = None
        self._problems = Problems()
        self._empty = 0  # conversations without messages
        self._file: _File
        if is_server:
            self._file = CheckpointServer(str(path), self._problems)
        else:
            self._file = _opened(self.path, self._problems)

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

    def transcripts(self, on_value: Callable[[], object] | None = None) -> Iterator[Transcript]:
        """Yield the conversations of the file, in order; call `on_value` after each of its values.

        Raises:
            SourceError: the file holds no conversation.
        """
        count = 0
        self._on_value = on_value
        for transcript in self._transcripts():
            count += 1
            yield transcript
        if not count:
            if self._problems.count == self._empty:
                raise NoMessages(f"{self.path} holds no messages; {_REMEDY}")
            raise SourceError(f"{self.path} holds no messages; {self.problems[0]}; {_REMEDY}")

    def _transcripts(self) -> Iterator[Transcript]:
        file = self._file
        if isinstance(file, Database | CheckpointServer):
            return filter(self._has_messages, map(self._renamed, file.transcripts()))
        if isinstance(file, EvalArchive):
            return self._read(InspectLogs(), file.values(), "item")
        if isinstance(file, EventFolder):
            return self._read(OpenHandsEvents(), file.values(), "item")
        if self._has_lines(file):
            return self._read_lines(file.values())
        return self._read_document(file)

    def _read_document(self, file: TextFile) -> Iterator[Transcript]:
        """Read a file that is one JSON value."""
        try:
            value = file.whole()
        except SeveralValues:  # as a console prints spans: each over several lines
            if not file.has_brackets_alone():
                raise
            return self._read_lines(file.values())
        if is_json_list(value):
            return self._read_list(value)
        file_format = self._format or _format_of(value, "file")
        if file_format is None:
            raise self._unknown(value)
        return self._read(file_format, iter([(1, value)]), "file")

    def _renamed(self, transcript: Transcript) -> Transcript:
        """Return a transcript under the caller's name, if there is one."""
        if self._name is not None:
            transcript.id = f"{self._name}/{transcript.id}"
        return transcript

    def _unknown(self, value: object) -> SourceError:
        return SourceError(
            f"{self.path} holds no messages in a form that is known: it looks like "
            f"{described(value)}; {_REMEDY}"
        )

    def _has_lines(self, file: TextFile) -> bool:
        suffix = self.path.suffix.lower()
        if suffix in LINE_SUFFIXES:
            return True
        first, has_more = file.first_line()
        try:
            return isinstance(decode(first), dict) and has_more
        except ValueError:
            return suffix != ".json" and first[:1] not in (b"{", b"[")

    def _read_lines(self, values: NumberedValues) -> Iterator[Transcript]:
        """Read a file by lines, in the format of the first that a program's format knows."""
        head: list[tuple[int, JsonValue]] = []
        found: dict[str, FileFormat] = {}
        while (
            self._format is None
            and found.keys() <= {*_GENERAL}
            and len(head) < MAX_DETECTED_VALUES
            and (item := next(values, None))
        ):
            head.append(item)
            if known := _format_of(item[1], "line"):
                found[known.name] = known
        file_format = self._format or _most_particular(found.values())
        is_general = file_format is not None and file_format.name in _GENERAL
        if file_format is None or (is_general and self._provider is None):
            foreign = next((value for _, value in head if foreign_shape(value)), None)
            if foreign is not None:
                raise self._unknown(foreign)  # its other lines may look like messages
            if head and file_format is None:
                raise self._unknown(head[0][1])
        return self._read(file_format or FORMATS[-1], chain(head, values), "line")

    def _read_list(self, values: list[Any]) -> Iterator[Transcript]:
        """Read the items of a list, in the format of the first that a program's format knows."""
        found = (_format_of(item, "item") for item in values[:MAX_DETECTED_VALUES])
        file_format = self._format or _most_particular(each for each in found if each)
        if file_format is None:
            foreign = (each for each in values[:MAX_DETECTED_VALUES] if foreign_shape(each))
            raise self._unknown(next(foreign, values))
        return self._read(file_format, iter(enumerate(values, 1)), "item")

    def _read(
        self, file_format: FileFormat, values: NumberedValues, unit: Unit
    ) -> Iterator[Transcript]:
        whole_folder = isinstance(self._file, EventFolder)
        content = FileContent(
            self._watched(values),
            unit,
            file_stem=self.path.resolve().parent.name if whole_folder else self.path.stem,
            name=self._name,
            provider=self._provider,
            problems=self._problems,
            path=self.path,
        )
        transcripts = file_format.read(content)
        for transcript in transcripts:
            if content.is_exhausted:
                refuse_unread(content)
            if unit == "file" or self._has_messages(transcript):
                yield transcript
        refuse_unread(content)

    def _watched(self, values: NumberedValues) -> NumberedValues:
        for value in values:
            yield value
            if self._on_value is not None:
                self._on_value()

    def _has_messages(self, transcript: Transcript) -> bool:
        """Return whether a transcript has messages; one without them becomes a problem."""
        messages = iter(transcript.messages)
        for first in messages:
            if messages is transcript.messages:  # a list can be read once more
                transcript.messages = chain((first,), messages)
            return True
        self._empty += 1
        self._problems.add(f"{transcript.id}: no messages")
        return False


def read(
    path: str | Path, provider: str | FileFormat | None = None, name: str | None = None
) -> Source:
    """Open a file of conversations that another program wrote.

    It may hold messages of a provider, a session log, a trajectory, traces, an evaluation's log or
    a database, or be OpenHands' folder of events: `PROVIDERS` has the names. Messages are a list,
    an object with `messages` (and `system`), a list of such objects, or a message or such an object
    a line. `provider` is the form of the file, where it should not be guessed, or a format of your
    own. The URL of a PostgreSQL, as text, is read for LangGraph's checkpoints.

    Raises:
        SourceError: the file is missing, empty, or not text.
        ValueError: files of that form cannot be read.
    """
    if isinstance(provider, str) and provider not in PROVIDERS:
        raise ValueError(f"provider is {provider!r}: pass one of {', '.join(PROVIDERS)}")
    return Source(path, provider, name)


def program_of(value: object, unit: Unit) -> str | None:
    """Return the name of the program whose log a value is part of; None for messages."""
    found = _format_of(value, unit)
    return None if found is None or found.name in _GENERAL else found.name


def _other_server(url: str) -> SourceError:
    from eventstore.storage.urls import shown  # loads SQLAlchemy

    return SourceError(
        f"{shown(url)} is not a URL that can be imported: name a PostgreSQL with LangGraph's "
        "checkpoints, or a file (./NAME if its name looks like an address)"
    )


def _format_of(value: object, unit: Unit) -> FileFormat | None:
    return next((each for each in FORMATS if each.looks_like(value, unit)), None)


def _most_particular(found: Iterable[FileFormat]) -> FileFormat | None:
    """Return the first format of a program, or else the first of messages in general."""
    formats = list(found)
    return next((each for each in formats if each.name not in _GENERAL), next(iter(formats), None))


_File: TypeAlias = TextFile | EvalArchive | EventFolder | Database | CheckpointServer


def _opened(path: Path, problems: Problems) -> _File:
    """Return a file by its first bytes, or a folder of events.

    Raises:
        SourceError: it is missing, empty, not a file, or of another kind.
    """
    if is_event_folder(path):
        return EventFolder(path, problems)
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(16)
        if head.startswith(eval_archive.SIGNATURE):
            return EvalArchive(path, problems)
        if head.startswith(databases.SIGNATURE):
            return Database(path, DATABASE_FORMATS, problems)
    return TextFile(path, problems)
