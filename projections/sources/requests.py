"""Requests: message lists as they were sent, or would be, in the form of any provider.

Unlike a transcript to import, a request is taken as it stands, so that it can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from eventstore.wire import PROVIDERS, list_key
from eventstore.wire.given import LISTS, key_of, request_of
from projections.sources import claude_code, messages, read
from projections.sources.lines import TextFile
from projections.sources.problems import Problem, Problems, SourceError

_WHOSE = {"contents": "gemini", "input": "openai-responses"}  # the rest is guessed
_HELD = ("previous_response_id", "conversation")  # members that name what the server holds
_LINES = (".jsonl", ".ndjson", ".log")


class Request(msgspec.Struct):
    """A message list, whose form it has, and what the file calls it.

    `continues`: it goes on with what the server holds, so that results may answer calls there.
    """

    id: str
    provider: str
    messages: list[Any]
    continues: bool = False


class RequestFile:
    """A file of requests: `problems` grow as they are read.

    `.json`: a request (an object with `messages`, `contents` or `input`), a list of messages, or a
    list of requests. `.jsonl`: a request, a list of messages or one message a line, or a session
    log of Claude Code. `provider` says whose form it is, where that should not be guessed.

    Raises:
        SourceError: the file is missing, empty, or no text.
    """

    def __init__(self, path: str | Path, provider: str | None = None) -> None:
        self.path = Path(path)
        self._provider = provider
        self._found = Problems()
        self._file = TextFile(self.path, self._found)

    @property
    def problems(self) -> list[Problem]:
        """What could not be read so far."""
        return self._found.kept

    def requests(self) -> Iterator[Request]:
        """The requests of the file, in order.

        Raises:
            SourceError: there is none.
        """
        count = 0
        for request in self._requests():
            count += 1
            yield request
        if not count:
            first = f"; {self.problems[0]}" if self.problems else ""
            raise SourceError(
                f"{self.path} holds no messages{first}: pass a list of them, or an object with "
                f"{', '.join(LISTS)}"
            )

    def _requests(self) -> Iterator[Request]:
        if self.path.suffix.lower() in _LINES or self._begins_with_a_line():
            yield from self._of_values(self._file.values(), "line")
            return
        value = self._file.whole()
        if isinstance(value, list):
            yield from self._of_values(iter(enumerate(value, 1)), "item")
        elif isinstance(value, dict) and (request := self._of_object(value, self.path.stem)):
            yield request

    def _begins_with_a_line(self) -> bool:
        """Whether a file of another name has one value a line."""
        first, more = self._file.first_line()
        try:
            return isinstance(msgspec.json.decode(first), dict) and more
        except (ValueError, RecursionError):
            return False

    def _of_values(self, values: Iterator[tuple[int, Any]], place: str) -> Iterator[Request]:
        head = list(islice(values, messages.SNIFFED))
        kinds = [value for _, value in head]
        values = chain(head, values)
        if any(map(claude_code.is_record, kinds)):
            yield from self._of_session()
        elif any(isinstance(value, list) or request_of(value) is not None for value in kinds):
            for number, value in values:
                name = f"{place} {number}"
                request = self._of_list(value, name) or self._of_object(value, name)
                if request is None:
                    self._found.add(f"{name} is no request: it has no messages")
                else:
                    yield request
        elif request := self._of_list([value for _, value in values], self.path.stem):
            yield request

    def _of_session(self) -> Iterator[Request]:
        source = read(self.path)
        for transcript in source.transcripts():
            yield Request(transcript.id, transcript.provider, list(transcript.messages))
        for problem in source.problems:
            self._found.add(problem.what, problem.line, last=problem.last, detail=problem.detail)

    def _of_object(self, value: Any, name: str) -> Request | None:
        sent = request_of(value)
        if sent is None:
            return None
        key = key_of(sent, self._provider and list_key(self._provider))
        given = sent[key]
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        named, own = messages.name_of(value, "", ())
        whose = (
            self._provider or _named(value) or _WHOSE.get(key) or _guess(given, "system" in sent)
        )
        continues = any(sent.get(key) is not None for key in _HELD)
        return Request(named if own else name, whose, given, continues)

    def _of_list(self, value: Any, name: str) -> Request | None:
        if not isinstance(value, list) or not any(isinstance(each, dict) for each in value):
            return None
        return Request(name, self._provider or _guess(value, has_system=False), value)


def _named(value: dict[str, Any]) -> str | None:
    named = value.get("provider")
    return named if isinstance(named, str) and named in PROVIDERS else None


def _guess(given: list[Any], has_system: bool) -> str:  # noqa: FBT001 - one fact about it
    """Whose form messages have, where nobody said."""
    signs = (_sign(message) for message in given if isinstance(message, dict))
    whose = next((sign for sign in signs if sign), None)
    return whose or messages.speaker(given) or ("anthropic" if has_system else "openai")


def _sign(message: dict[str, Any]) -> str | None:
    """What only one provider writes."""
    if isinstance(message.get("parts"), list):
        return "gemini"
    if "role" not in message and "call_id" in message:
        return "openai-responses"
    if "tool_name" in message:
        return "ollama"
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and "type" not in block:
            return "bedrock"
    return None
