"""The JSON values of a text file, one after the other, and the lines where they stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from eventstore.domain.calls import repeats_a_key
from eventstore.domain.json_types import JsonValue
from eventstore.importers.reading.problems import Problems, SourceError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Size limit of a line, and of a value over several lines."""

MAX_FILE_BYTES = 512 * 1024 * 1024
"""Size limit of a file that can only be read as a whole."""

MAX_VALUES = 20_000_000
"""Values in one JSON text: each takes some 50 to 100 bytes of memory."""


class SeveralValues(SourceError):
    """A file that should be one JSON value has another after it."""


NOT_JSON = "not JSON"
KEY_TWICE = "a key twice in one object: the last of its values was read"

_SIGNATURES = (
    (b"\xff\xfe", "is UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16: save it as UTF-8"),
    (b"\x1f\x8b", "is compressed: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed: unpack it first (`zstd -d`)"),
    (b"# aider chat started at", "is a chat of aider as Markdown, which has no calls"),
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEFORE_VALUES = (b"[", b"{", b",")
_CLOSING_BRACKETS = {b"{": b"}", b"[": b"]"}


class TextFile:
    """A file of JSON text; `position` of `size` bytes have been read."""

    def __init__(
        self, path: Path, problems: Problems, max_line_bytes: int = MAX_LINE_BYTES
    ) -> None:
        self.path = path
        self.position = 0
        self._problems = problems
        self._max_line_bytes = max_line_bytes
        self.size = _check(path)

    def whole(self) -> JsonValue:
        """Return the file as one JSON value.

        Raises:
            SourceError: it is not JSON, or too large; `SeveralValues` where a value is followed by
                another.
        """
        if self.size > MAX_FILE_BYTES:
            raise SourceError(
                f"{self.path} is too large to be read at once ({self.size:,} bytes): "
                "write one message, or one conversation, a line (.jsonl)"
            )
        data = self.path.read_bytes().removeprefix(_BYTE_ORDER_MARK)
        self.position = self.size
        try:
            return decode_noting(data, self._problems)
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self.path} is not UTF-8 (byte {error.start:,}): save it as UTF-8"
            ) from error
        except ValueError as error:
            kind = SourceError
            if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
                kind, self.position = SeveralValues, 0
            raise kind(f"{self.path} is not JSON ({error}): mend it there") from error

    def has_brackets_alone(self) -> bool:
        """Return whether the first value opens on a line of its own, as `values` reads it."""
        return self.first_line()[0] in _CLOSING_BRACKETS

    def first_line(self) -> tuple[bytes, bool]:
        """Return the first line, and whether more than white space follows it."""
        with self.path.open("rb") as file:
            first = file.readline(self._max_line_bytes).removeprefix(_BYTE_ORDER_MARK).strip()
            return first, bool(file.read(4096).strip())

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield each value with its line, in bounded memory; other text becomes a problem.

        A value takes one line, or several from an opening bracket that stands alone on its line to
        a closing one that does.
        """
        with self.path.open("rb") as file:
            yield from self._values(file)

    def _values(self, file: BinaryIO) -> Iterator[tuple[int, Any]]:
        lines = self._lines(file)
        for number, line in lines:
            text = line.removeprefix(_BYTE_ORDER_MARK).strip() if number == 1 else line.strip()
            if not text:
                continue
            try:
                value = decode_noting(text, self._problems, line=number)
            except ValueError as error:
                if text in _CLOSING_BRACKETS and _is_outer(line):
                    yield from self._multi_line_value(number, line, _CLOSING_BRACKETS[text], lines)
                else:
                    self._report(number, text, error)
            else:
                yield number, value

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := file.readline(self._max_line_bytes):
            number += 1
            self.position += len(line)
            if len(line) < self._max_line_bytes or line.endswith(b"\n"):
                yield number, line
                continue
            while (more := file.readline(self._max_line_bytes)) and not more.endswith(b"\n"):
                self.position += len(more)
            self._problems.add(f"longer than {self._max_line_bytes:,} bytes", number)

    def _multi_line_value(
        self, first: int, line: bytes, end: bytes, lines: Iterator[tuple[int, bytes]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield a value over several lines."""
        text, last, size = [line], first, 0
        for number, more in lines:
            text.append(more)
            last = number
            size += len(more)
            if (more.strip() == end and _is_outer(more)) or size > self._max_line_bytes:
                break
        data = b"".join(text)
        try:
            value = decode_noting(data, self._problems, line=first)
        except ValueError:
            self._problems.add(NOT_JSON, first, last=last)
        else:
            yield first, value

    def _report(self, number: int, text: bytes, error: ValueError) -> None:
        if isinstance(error, UnicodeDecodeError):
            self._problems.add("not UTF-8", number)
        else:
            self._problems.add(NOT_JSON, number, detail=text[:200].decode("utf-8", "replace"))


def decode(data: bytes) -> JsonValue:
    """Return the JSON value of `data`; NaN and half surrogate pairs are accepted, as in Python.

    Raises:
        ValueError: it is not JSON, or would take too much memory.
    """
    if len(data) > MAX_VALUES and sum(map(data.count, _BEFORE_VALUES)) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} values")
    value: JsonValue
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        try:
            value = json.loads(data.decode())
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    return value


def decode_noting(
    data: bytes, problems: Problems, *, line: int | None = None, where: str = ""
) -> JsonValue:
    """Return the JSON value of `data`, as `decode` does; a key twice in an object is a problem.

    Arguments, for example, may not be those that the tool had. `where` says where `data` stands,
    in a file without lines.

    Raises:
        ValueError: it is not JSON.
    """
    value = decode(data)
    try:
        repeated = repeats_a_key(data, value)
    except (ValueError, RecursionError):  # half a surrogate pair
        return value
    if repeated:
        problems.add(f"{where}: {KEY_TWICE}" if where else KEY_TWICE, line)
    return value


def _is_outer(line: bytes) -> bool:
    return len(line) - len(line.lstrip()) <= 1


def _check(path: Path) -> int:
    """Return the size of a file, after checking that it may be text.

    Raises:
        SourceError: it is missing, empty, not a file, or of another kind.
    """
    try:
        if path.is_dir():
            raise SourceError(
                f"{path} is a folder without files that can be imported: name those in it"
            )
        if path.exists() and not path.is_file():
            raise SourceError(f"{path} is not a regular file: save it as one first")
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(4096)
    except FileNotFoundError as error:
        raise SourceError(f"there is no file {path}: name another") from error
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read ({error.strerror}): mend its rights, or name another"
        ) from error
    for signature, what_and_remedy in _SIGNATURES:
        if head.lstrip().startswith(signature):
            raise SourceError(f"{path} {what_and_remedy}")
    if b"\x00" in head:
        raise SourceError(f"{path} is a binary file: save it as JSON text")
    if not head.removeprefix(_BYTE_ORDER_MARK).strip() and size <= len(head):
        raise SourceError(f"{path} is empty: name a file with messages")
    return size
