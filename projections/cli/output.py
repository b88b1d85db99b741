"""What commands print: tables and lines for people, JSON for programs.

A terminal gets colours and folded columns; a file or a pipe gets whole lines without control codes.
Text from the log is never read as markup or as control codes. JSON is always valid: what a terminal
must not get, and what the output's encoding has not, is written as JSON's own escapes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO, cast

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from projections.formatting import aligned_lines

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

UNLIMITED_COLUMNS = 1_000_000
"""Width of an output that is not a terminal: nothing is cut or folded."""

_KEPT = "\n\t"


def console(*, stderr: bool = False) -> Console:
    """Return the console that writes to standard output, or to standard error."""
    return _console(sys.stderr if stderr else sys.stdout)


@lru_cache(maxsize=2)
def _console(stream: TextIO) -> Console:
    if stream.isatty():
        return Console(file=stream, highlight=False, markup=False, emoji=False)
    return Console(
        file=stream,
        width=UNLIMITED_COLUMNS,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=True,
        force_terminal=False,
    )


def clean(text: str, kept: str = _KEPT) -> str:
    """Return `text` with its control codes, except those in `kept`, shown as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in kept
        else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def say(text: str = "", style: str = "") -> None:
    """Print a line, or several."""
    if is_terminal():
        console().print(Text(clean(text), style), soft_wrap=True)
    else:
        sys.stdout.write(clean(text) + "\n")


def complain(text: str) -> None:
    """Print what is wrong in one line to standard error."""
    line = " ".join(clean(text).split())
    console(stderr=True).print(Text(f"toolledger: {line}"), soft_wrap=True)


@contextmanager
def whole_file(path: Path, permissions: int) -> Generator[IO[bytes], None, None]:
    """Give a file to write, which is there as a whole at the end, or as it was before.

    It is no more open to others than `permissions`, those of what it was made of, and than a file
    that it takes the place of.

    Raises:
        ValueError: the folder does not exist.
    """
    if not path.parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist: make it, or pass another path")
    if path.exists():
        permissions &= path.stat().st_mode
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions & 0o666)
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def show_table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()
) -> None:
    """Print a table, one line for each row; the columns named in `right` are aligned right."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not is_terminal():
        columns = [list(column) for column in zip(heads, *cells, strict=True)]
        for line in aligned_lines(columns, [head in right for head in heads]):
            sys.stdout.write(line + "\n")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console().print(table)


def _cell(value: object) -> str:
    """Return a value as text on one line."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else clean(str(value), kept="")


def print_json(value: object) -> None:
    """Print one value over several lines."""
    sys.stdout.write(_shown_json(msgspec.json.format(msgspec.json.encode(value))) + "\n")


def print_json_line(value: object) -> None:
    """Print one value on a line of its own."""
    sys.stdout.write(_shown_json(msgspec.json.encode(value)) + "\n")


def _shown_json(encoded: bytes) -> str:
    """Return JSON as text for standard output: what that must not get is escaped.

    Only strings in the JSON hold such characters, beside the line breaks between its members.
    """
    text, encoding, raw = encoded.decode(), sys.stdout.encoding or "utf-8", not is_terminal()
    if (raw or all(map(str.isprintable, text.split("\n")))) and _can_encode(text, encoding):
        return text
    return "".join(
        char
        if (raw or char == "\n" or char.isprintable()) and _can_encode(char, encoding)
        else _json_escape(char)
        for char in text
    )


class _Screen(BufferedIOBase):
    """A terminal as a binary file: it shows the text that is written without control codes."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Show whole lines of text, as UTF-8."""
        encoded = bytes(data)
        text = _shown_json(encoded) if self._is_json else clean(_without_returns(encoded))
        sys.stdout.write(text)
        return len(encoded)


def _without_returns(encoded: bytes) -> str:
    return encoded.decode().replace("\r\n", "\n")


def binary_output(*, is_json: bool = False) -> IO[bytes]:
    """Return standard output for the text of a whole file, which a terminal gets without codes."""
    return cast("IO[bytes]", _Screen(is_json=is_json)) if is_terminal() else sys.stdout.buffer


def _can_encode(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def is_terminal() -> bool:
    """Return whether the output goes to a terminal."""
    return sys.stdout.isatty()


def shown_width(width: int) -> int:
    """Return how many characters of a text to show: `width` on a terminal, otherwise all."""
    return width if is_terminal() else sys.maxsize
