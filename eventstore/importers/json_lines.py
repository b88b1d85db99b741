"""The JSON values of a text file, one after the other, and the lines where they stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from projections.sources.problems import Problems, SourceError

LINE = 64 * 1024 * 1024
"""Bytes that a line, or a value over several lines, may have."""

WHOLE = 512 * 1024 * 1024
"""Bytes that a file may have that can only be read as a whole."""

NOT_JSON = "not JSON"

_SIGNS = (
    (b"\xff\xfe", "is UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16: save it as UTF-8"),
    (b"\x1f\x8b", "is compressed: unpack it first"),
    (b"PK\x03\x04", "is a ZIP archive: unpack it first"),
    (b"SQLite format 3\x00", "is a SQLite database: name it with --url"),
)
_MARK = b"\xef\xbb\xbf"
_OPENS = {b"{": b"}", b"[": b"]"}


class TextFile:
    """A file of JSON text. `position` and `size` (bytes) say how far it was read."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self.path = path
        self.position = 0
        self._problems = problems
        self.size = _check(path)

    def whole(self) -> Any:
        """The file as one JSON value.

        Raises:
            SourceError: it is none, or too large.
        """
        if self.size > WHOLE:
            raise SourceError(
                f"{self.path} is too large to be read at once ({self.size:,} bytes): "
                "write one message, or one conversation, a line (.jsonl)"
            )
        data = self.path.read_bytes().removeprefix(_MARK)
        self.position = self.size
        try:
            return decode(data)
        except UnicodeDecodeError as error:
            raise SourceError(f"{self.path} is not UTF-8 (byte {error.start:,})") from error
        except ValueError as error:
            raise SourceError(f"{self.path} is not JSON: {error}") from error

    def first_line(self) -> tuple[bytes, bool]:
        """The first line, and whether more than white space follows it."""
        with self.path.open("rb") as file:
            first = file.readline(LINE).removeprefix(_MARK).strip()
            return first, bool(file.read(4096).strip())

    def values(self) -> Iterator[tuple[int, Any]]:
        """Each value with its line, in bounded memory; what is none becomes a problem.

        A value is one line, or begins with a bracket alone on its line and ends so.
        """
        with self.path.open("rb") as file:
            yield from self._values(file)

    def _values(self, file: BinaryIO) -> Iterator[tuple[int, Any]]:
        lines = self._lines(file)
        for number, line in lines:
            text = line.removeprefix(_MARK).strip() if number == 1 else line.strip()
            if not text:
                continue
            try:
                yield number, decode(text)
            except ValueError as error:
                if text in _OPENS and _is_outer(line):
                    yield from self._longer(number, line, _OPENS[text], lines)
                else:
                    self._bad(number, text, error)

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        number = 0
        while line := file.readline(LINE):
            number += 1
            self.position += len(line)
            if len(line) < LINE or line.endswith(b"\n"):
                yield number, line
                continue
            while (more := file.readline(LINE)) and not more.endswith(b"\n"):
                self.position += len(more)
            self._problems.add(f"longer than {LINE:,} bytes", number)

    def _longer(
        self, first: int, line: bytes, end: bytes, lines: Iterator[tuple[int, bytes]]
    ) -> Iterator[tuple[int, Any]]:
        """A value over several lines."""
        text, last, size = [line], first, 0
        for last, more in lines:  # noqa: B007 - where it ended
            text.append(more)
            size += len(more)
            if (more.strip() == end and _is_outer(more)) or size > LINE:
                break
        try:
            yield first, decode(b"".join(text))
        except ValueError:
            self._problems.add(NOT_JSON, first, last=last)

    def _bad(self, number: int, text: bytes, error: ValueError) -> None:
        if isinstance(error, UnicodeDecodeError):
            self._problems.add("not UTF-8", number)
        else:
            self._problems.add(NOT_JSON, number, detail=text[:200].decode("utf-8", "replace"))


def decode(data: bytes) -> Any:
    """The JSON value of `data`; NaN and half surrogate pairs are taken, as Python takes them.

    Raises:
        ValueError: it is none.
    """
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(data.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _is_outer(line: bytes) -> bool:
    return len(line) - len(line.lstrip()) <= 1


def _check(path: Path) -> int:
    """The size of a file that may be text.

    Raises:
        SourceError: it is missing, no file, empty, or of another kind.
    """
    try:
        if path.is_dir():
            raise SourceError(f"{path} is a folder: name the files in it")
        if path.exists() and not path.is_file():
            raise SourceError(f"{path} is no regular file: save it as one first")
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(4096)
    except FileNotFoundError as error:
        raise SourceError(f"there is no file {path}") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    for sign, what in _SIGNS:
        if head.startswith(sign):
            raise SourceError(f"{path} {what}")
    if b"\x00" in head:
        raise SourceError(f"{path} is a binary file: JSON text is needed")
    if not head.removeprefix(_MARK).strip() and size <= len(head):
        raise SourceError(f"{path} is empty")
    return size
