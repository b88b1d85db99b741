"""The page "if you know chat-rs ..." and the docstrings say the same names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import eventstore
import projections

PAGE = Path(__file__).parents[2] / "docs" / "if-you-know.md"
SYSTEMS = {
    "chat-rs": "chat-rs",
    "rig-compose": "rig-compose",
    "entelix": "entelix-core",
    "katu": "katu-core",
    "clark": "clark-agent",
}
PUBLIC = {
    name: vars(module).get(name) or getattr(module, name)
    for module in (eventstore, projections)
    for name in module.__all__
}
IN_QUOTES = re.compile(r"`([^`]+)`")
TYPE = re.compile(r"(?:\w+::)*[A-Z]\w+")
WORD = re.compile(r"[A-Za-z_]\w+")


class Row(NamedTuple):
    """A row of a table: a system, the names of a concept there, and the cell of those here."""

    system: str
    there: tuple[str, ...]
    here: str

    def objects(self) -> Iterator[object]:
        """Yield the public objects that the cell names."""
        names = [word for quoted in IN_QUOTES.findall(self.here) for word in WORD.findall(quoted)]
        if "the same" in self.here:
            names += self.there
        yield from (PUBLIC[name] for name in names if name in PUBLIC)


def rows() -> list[Row]:
    """Return the rows that name types of another system and public objects here."""
    found: list[Row] = []
    system = ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            system = SYSTEMS.get(line[3:].partition(":")[0], "")
        elif system and line.startswith("| ") and not line.startswith("| there"):
            there, here, _ = (cell.strip() for cell in line.strip("|").split(" | ", 2))
            types = (TYPE.match(quoted) for quoted in IN_QUOTES.findall(there))
            row = Row(system, tuple(found.group() for found in types if found), here)
            if row.there and any(row.objects()):
                found.append(row)
    return found


def test_the_page_has_a_table_for_each_system() -> None:
    """The rows are found."""
    assert {row.system for row in rows()} == set(SYSTEMS.values())
    assert len(rows()) > 30


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.system}: {row.there[0]}")
def test_a_docstring_tells_the_name_that_another_system_has_for_it(row: Row) -> None:
    """The concept is found from either side."""
    docs = " ".join(" ".join((inspect.getdoc(found) or "").split()) for found in row.objects())
    missing = [name for name in row.there if f"`{name}`" not in docs]
    assert not missing
    assert row.system in docs
