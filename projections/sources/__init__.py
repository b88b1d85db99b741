"""Sources: files of conversations as provider messages, and what was wrong in them.

`read(path)` opens a file; each of its `transcripts()` goes to `Conversation.import_messages`;
what was wrong stands in its `problems`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from projections.sources import claude_code, messages
from projections.sources.lines import TextFile, decode
from projections.sources.problems import Problem, Problems, SourceError
from projections.sources.transcripts import Transcript, is_refusal

PROVIDERS = ("anthropic", claude_code.NAME, "openai")
"""Whose forms can be read."""

_LINES = (".jsonl", ".ndjson", ".log")


class Source:
    """One file, read as its transcripts are asked for.

    `name` stands for the file's own name in the ids of its conversations. Take in the messages of
    each transcript before the next; `problems` grow meanwhile, as does `position`, of `size`.
    """

    def __init__(self, path: Path, provider: str | None, name: str | None) -> None:
        self.path = path
        self._given = provider
        self._name = name
        self._found = Problems()
        self._file = TextFile(path, self._found)
        self._ids: set[str] = set()

    @property
    def problems(self) -> list[Problem]:
        """What was wrong so far, in the order of the file; the first thousand."""
        return self._found.kept

    @property
    def problem_count(self) -> int:
        """How many problems there were so far."""
        return self._found.count

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._file.size

    @property
    def position(self) -> int:
        """How many bytes of it were read."""
        return self._file.position

    def transcripts(self) -> Iterator[Transcript]:
        """The conversations of the file, in order.

        Raises:
            SourceError: there is none.
        """
        count = 0
        for transcript in self._transcripts():
            count += 1
            yield transcript
        if not count:
            first = f"; {self.problems[0]}" if self.problems else ""
            raise SourceError(f"{self.path} holds no messages{first}")

    def _transcripts(self) -> Iterator[Transcript]:
        if self._is_lines():
            yield from self._of_values(self._file.values())
            return
        value = self._file.whole()
        if isinstance(value, list) and any(map(messages.is_conversation, value)):
            yield from self._conversations(enumerate(value, 1), counted="item")
        elif isinstance(value, list):
            yield from self._of_list(value)
        elif messages.is_conversation(value):
            own, is_own = messages.name_of(value, self.stem, ())
            name = self._name or (own if is_own else self.stem)
            yield messages.of_object(value, name, self._provider)
        else:
            raise SourceError(
                f"{self.path} holds no messages: pass a list of them, or an object with `messages`"
            )

    @property
    def stem(self) -> str:
        """What the conversations are named for."""
        return self._name or self.path.stem

    @property
    def _provider(self) -> str | None:
        return None if self._given == claude_code.NAME else self._given

    def _is_lines(self) -> bool:
        suffix = self.path.suffix.lower()
        if suffix in _LINES:
            return True
        first, more = self._file.first_line()
        try:
            return isinstance(decode(first), dict) and more
        except ValueError:
            return suffix != ".json" and first[:1] not in (b"{", b"[")

    # one value a line

    def _of_values(self, values: Iterator[tuple[int, Any]]) -> Iterator[Transcript]:
        kind, values = self._sniff(values)
        if kind == claude_code.NAME:
            yield from self._session(values)
        elif kind == "conversations":
            yield from self._conversations(values, counted=None)
        else:
            transcript = messages.of_lines(values, self.stem, self._provider, self._found)
            if transcript.lines is not None:
                yield from self._unless_empty(transcript)

    def _sniff(
        self, values: Iterator[tuple[int, Any]]
    ) -> tuple[str | None, Iterator[tuple[int, Any]]]:
        """What the values are, and all of them."""
        head: list[tuple[int, Any]] = []
        kind = claude_code.NAME if self._given == claude_code.NAME else None
        while kind is None and len(head) < messages.SNIFFED and (item := next(values, None)):
            head.append(item)
            kind = _kind(item[1])
        return kind, chain(head, values)

    def _session(self, values: Iterator[tuple[int, Any]]) -> Iterator[Transcript]:
        log = claude_code.SessionLog(self._found)
        log.extend(values)
        yield from log.transcripts(self.path.stem, self._name)

    def _conversations(
        self, values: Iterator[tuple[int, Any]], counted: str | None
    ) -> Iterator[Transcript]:
        for line, value in values:
            place = line if counted is None else None
            if messages.is_conversation(value):
                own, is_own = messages.name_of(value, self.stem, (line,))
                if is_own and self._name:
                    own = f"{self._name}/{own}"
                name = own if is_own else self._unused(own)
                transcript = messages.of_object(value, name, self._provider)
            elif isinstance(value, list) and any(map(messages.is_message, value)):
                name = self._unused(f"{self.stem}/{line}")
                transcript = messages.of_list(value, name, self._provider)
            else:
                what = "not a conversation: it has no messages"
                self._found.add(what if counted is None else f"{counted} {line} is {what}", place)
                continue
            yield from self._unless_empty(transcript)

    def _of_list(self, values: list[Any]) -> Iterator[Transcript]:
        if self._given == claude_code.NAME or any(map(claude_code.is_record, values)):
            yield from self._session(iter(enumerate(values, 1)))
            return
        for number, value in enumerate(values, 1):
            if not messages.is_message(value):
                self._found.add(f"item {number} is not a message: it has no role")
        kept = [value for value in values if messages.is_message(value)]
        if kept:
            yield messages.of_list(kept, self.stem, self._provider)

    def _unless_empty(self, transcript: Transcript) -> Iterator[Transcript]:
        given = iter(transcript.messages)
        for first in given:
            transcript.messages = chain((first,), given)
            yield transcript
            return
        self._found.add(f"{transcript.id}: no messages")

    def _unused(self, name: str) -> str:
        """`name`, numbered where the file has used it before."""
        chosen, number = name, 2
        while chosen in self._ids:
            chosen, number = f"{name}#{number}", number + 1
        self._ids.add(chosen)
        return chosen


def read(path: str | Path, provider: str | None = None, name: str | None = None) -> Source:
    """A file of OpenAI or Anthropic messages, or a session log of Claude Code.

    `.json`: a list of messages, an object with `messages` (and `system`), or a list of such
    objects. `.jsonl`: one message, one such object, or one record of a session log a line.
    `provider` says whose form it is, where that should not be guessed.

    Raises:
        SourceError: the file is missing, empty, or no text.
        ValueError: nobody here reads that provider's form.
    """
    if provider is not None and provider not in PROVIDERS:
        raise ValueError(f"provider is {provider!r}: pass one of {', '.join(PROVIDERS)}")
    return Source(Path(path), provider, name)


def _kind(value: Any) -> str | None:
    if claude_code.is_record(value):
        return claude_code.NAME
    if messages.is_conversation(value) or isinstance(value, list):
        return "conversations"
    return "messages" if messages.is_message(value) else None


__all__ = ["PROVIDERS", "Problem", "Source", "SourceError", "Transcript", "is_refusal", "read"]
