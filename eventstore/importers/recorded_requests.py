"""Requests: message lists as they were sent to any provider, to be checked.

Unlike a transcript to import, a request is read as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from eventstore.domain.json_types import is_json_list, is_json_object
from eventstore.importers import message_files
from eventstore.importers.foreign_shapes import foreign_shape
from eventstore.importers.reading.file_format import Unit
from eventstore.importers.reading.json_lines import TextFile
from eventstore.importers.reading.problems import Problem, Problems, SourceError
from eventstore.importers.source import LINE_SUFFIXES, program_of
from eventstore.providers.detection import (
    LIST_KEYS,
    is_continued,
    list_key_of,
    provider_of_list_key,
    request_of,
)
from eventstore.providers.registry import AnyProvider, known_provider, list_key


class Request(msgspec.Struct):
    """A message list with its name in the file, and the provider whose form it has.

    A request that `continues` adds to what the server holds: results may answer calls there.
    """

    id: str
    provider: AnyProvider
    messages: list[Any]
    continues: bool = False


class RequestFile:
    """A file of requests; `problems` grow while it is read.

    `.json`: a request (an object with `messages`, `contents` or `input`), a list of messages, or a
    list of requests. `.jsonl`: a request, a list of messages or one message a line. The log of a
    program is refused: it tells what happened, not what a provider was sent. `provider` is the form
    of the messages, where it should not be guessed.

    Raises:
        SourceError: the file is missing, empty, not text, or the log of another program.
    """

    def __init__(self, path: str | Path, provider: str | None = None) -> None:
        self.path = Path(path)
        self._provider = provider
        self._problems = Problems()
        self._file = TextFile(self.path, self._problems)

    @property
    def problems(self) -> list[Problem]:
        """What could not be read so far."""
        return self._problems.kept

    def requests(self) -> Iterator[Request]:
        """Yield the requests of the file, in order.

        Raises:
            SourceError: the file holds no requests.
        """
        count = 0
        for request in self._requests():
            count += 1
            yield request
        if not count:
            first = f"; {self.problems[0]}" if self.problems else ""
            raise SourceError(
                f"{self.path} holds no messages{first}: pass a list of them, or an object with "
                f"{', '.join(LIST_KEYS)}"
            )

    def _requests(self) -> Iterator[Request]:
        if self.path.suffix.lower() in LINE_SUFFIXES or self._begins_with_a_line():
            yield from self._of_values(self._file.values(), "line")
            return
        value = self._file.whole()
        self._refuse_logs([value], "file")
        if is_json_list(value):
            yield from self._of_values(iter(enumerate(value, 1)), "item")
        elif request := self._of_object(value, self.path.stem):
            yield request

    def _begins_with_a_line(self) -> bool:
        """Return whether a file with another suffix has one value a line."""
        first, more = self._file.first_line()
        try:
            return isinstance(msgspec.json.decode(first), dict) and more
        except (ValueError, RecursionError):
            return False

    def _refuse_logs(self, values: list[Any], unit: Unit) -> None:
        """Refuse the log of a program, unless the caller says what form its messages have."""
        if self._provider is not None:
            return
        for value in values:
            program = program_of(value, unit)
            shape = foreign_shape(value) if program is None else f"a log of {program}"
            if shape is not None:
                remedy = (
                    "name a file of requests" if program is None else "`toolledger import` reads it"
                )
                raise SourceError(f"{self.path} is {shape}, and holds no requests: {remedy}")

    def _of_values(self, values: Iterator[tuple[int, object]], unit: Unit) -> Iterator[Request]:
        head = list(islice(values, message_files.MAX_DETECTED_VALUES))
        first_values = [value for _, value in head]
        values = chain(head, values)
        self._refuse_logs(first_values, unit)
        if any(isinstance(value, list) or request_of(value) is not None for value in first_values):
            for number, value in values:
                name = f"{unit} {number}"
                request = self._of_list(value, name) or self._of_object(value, name)
                if request is None:
                    self._problems.add(f"{name} is not a request: it has no messages")
                else:
                    yield request
        elif request := self._of_list([value for _, value in values], self.path.stem):
            yield request

    def _of_object(self, value: object, name: str) -> Request | None:
        sent = request_of(value)
        if sent is None or not is_json_object(value):
            return None
        key = list_key_of(sent, self._provider and list_key(self._provider))
        messages = sent[key]
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        own_name, has_name = message_files.name_of(value, "", ())
        named = self._provider, value.get("provider"), provider_of_list_key(key)
        form = message_files.form_of(messages, *named, has_system="system" in sent)
        name = own_name if has_name else name
        return Request(name, known_provider(form), messages, is_continued(sent))

    def _of_list(self, value: object, name: str) -> Request | None:
        if not is_json_list(value) or not any(map(is_json_object, value)):
            return None
        form = message_files.form_of(value, self._provider)
        return Request(name, known_provider(form), value)
