"""What commands print: tables and lines for people, JSON for programs.

A terminal gets colours and folded columns; a file or a pipe gets whole lines without any control
code. What the log holds is never taken for markup or for control codes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TextIO

import msgspec
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 1_000_000
"""The width of what is no terminal: nothing is cut or folded."""

_KEPT = "\n\t"


def console(*, stderr: bool = False) -> Console:
    """The terminal, or what stands in its place."""
    return _console(sys.stderr if stderr else sys.stdout)


@lru_cache(maxsize=2)
def _console(stream: TextIO) -> Console:
    if stream.isatty():
        return Console(file=stream, highlight=False, markup=False, emoji=False)
    return Console(
        file=stream, width=WIDE, highlight=False, markup=False, emoji=False, no_color=True,
        force_terminal=False,
    )  # fmt: skip


def clean(text: str, kept: str = _KEPT) -> str:
    """`text` without control codes, but for those `kept`: they are shown as escapes."""
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
    """Print one line about what is wrong."""
    line = " ".join(clean(text).split())
    console(stderr=True).print(Text(f"toolledger: {line}"), soft_wrap=True)


def show_table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()
) -> None:
    """Print a table, a line for each row; the columns named in `right` hold numbers."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not is_terminal():
        for line in _aligned([heads, *cells], [head in right for head in heads]):
            sys.stdout.write(line + "\n")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console().print(table)


def _cell(value: object) -> str:
    """A value as it stands in a row: it makes no second one."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else clean(str(value), kept="")


def _aligned(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = []
        for cell, width, is_right in zip(line, widths, right, strict=True):
            space = " " * (width - cell_len(cell))
            cells.append(space + cell if is_right else cell + space)
        yield "  ".join(cells).rstrip()


def print_json(value: Any) -> None:
    """Print one value over several lines."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n")


def print_json_line(value: Any) -> None:
    """Print one value on a line of its own."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def is_terminal() -> bool:
    """Whether a person looks at the output."""
    return sys.stdout.isatty()


def room(width: int) -> int:
    """How much of a text is shown: to a person `width` characters, to a program all."""
    return width if is_terminal() else sys.maxsize
