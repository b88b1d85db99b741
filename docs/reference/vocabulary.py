"""The words of the first page, explained wherever the documentation uses one."""

from __future__ import annotations

import re
from typing import Final

EVERYDAY: Final = frozenset(
    {"call", "conversation", "event", "log", "prompt", "repair", "status", "turn"}
)
"""Words that mean here what they mean elsewhere: they are not marked on every page."""

_ROW: Final = re.compile(r"^\| (?P<word>[a-z ]+) \| (?P<meaning>.+) \|$", re.MULTILINE)
_MARKUP: Final = re.compile(r"[*`]")


def vocabulary(first_page: str) -> dict[str, str]:
    """Return the words of the table `Words` with their meanings."""
    table = first_page.partition("\n## Words\n")[2].partition("\n## ")[0]
    rows = [row for row in _ROW.finditer(table) if row["word"] != "word"]
    return {row["word"]: _MARKUP.sub("", row["meaning"]) for row in rows}


def abbreviations(words: dict[str, str]) -> str:
    """Return the lines by which markdown shows a word's meaning where the mouse rests on it."""
    return "\n".join(
        f"*[{form}]: {meaning}"
        for word, meaning in words.items()
        if word not in EVERYDAY
        for stem in (word, word.capitalize())
        for form in (stem, f"{stem}s")
    )
