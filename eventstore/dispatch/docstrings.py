"""`read_docstring`: what a tool's docstring tells the model, of the tool and of its parameters.

It reads the three usual forms: the sections of Google (`Args:`), those of numpy, with underlines,
and the fields of reStructuredText (`:param name:`).
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import NamedTuple

_PARAMETER_HEADS = frozenset({"args", "arguments", "parameters", "params", "keyword args"})
_OTHER_HEADS = frozenset({"returns", "return", "raises", "yields", "yield", "example", "examples"})
_UNDERLINE = re.compile(r"-{3,}\s*")
_FIELD = re.compile(r":(?P<role>[a-z]++)(?:[^:]*?\s\*{0,2}(?P<name>\w++))?\s*+:\s*(?P<text>.*)")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*+(?:\([^()]*\)\s*+)?:\s*(?P<text>.*)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?::.*)?(?P<text>)")
_PARAMETER_ROLES = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})


class Docstring(NamedTuple):
    """The text about the tool, and the texts about its parameters by name."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Return what a docstring says; nothing for None."""
    lines = cleandoc(text or "").splitlines()
    reader = _Reader()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        reader.read(line, following)
    described = {name: " ".join(parts).strip() for name, parts in reader.parameters.items()}
    return Docstring(
        "\n".join(reader.description).strip(), {n: text for n, text in described.items() if text}
    )


class _Reader:
    """Reads a docstring line by line; `_entry` takes apart the entries of the current section."""

    def __init__(self) -> None:
        self.description: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self._in_description = True
        self._entry: re.Pattern[str] | None = None
        self._entry_indent: int | None = None
        self._parameter: list[str] | None = None

    def read(self, line: str, following: str) -> None:
        """Take in a line; `following` is the next one."""
        if self._begins_section(line, following) or _UNDERLINE.fullmatch(line):
            return
        if field := _FIELD.match(line):
            self._take_field(field)
        elif self._in_description:
            self.description.append(line)
        elif self._entry is not None:
            self._take_line(line, self._entry)
        elif self._parameter is not None and line.startswith(" "):
            self._parameter.append(line.strip())

    def _begins_section(self, line: str, following: str) -> bool:
        head = line.strip().lower()
        underlined = bool(_UNDERLINE.fullmatch(following))
        name = head if underlined else head.removesuffix(":")
        if line.startswith(" ") or not (underlined or head.endswith(":")):
            return False
        if name not in _PARAMETER_HEADS | _OTHER_HEADS and not underlined:
            return False
        self._in_description = False
        self._entry_indent, self._parameter = None, None
        self._entry = None
        if name in _PARAMETER_HEADS:
            self._entry = _NUMPY_ENTRY if underlined else _GOOGLE_ENTRY
        return True

    def _take_field(self, field: re.Match[str]) -> None:
        self._in_description, self._entry, self._parameter = False, None, None
        if field["role"] in _PARAMETER_ROLES and field["name"]:
            self._parameter = self.parameters.setdefault(field["name"], [])
            self._parameter.append(field["text"])

    def _take_line(self, line: str, entry: re.Pattern[str]) -> None:
        if not line.strip():
            return
        indent = len(line) - len(line.lstrip())
        if self._entry_indent is None:
            self._entry_indent = indent
        found = entry.fullmatch(line.strip()) if indent <= self._entry_indent else None
        if found is not None:
            self._parameter = self.parameters.setdefault(found["name"], [])
            self._parameter.append(found["text"])
        elif self._parameter is not None:
            self._parameter.append(line.strip())
