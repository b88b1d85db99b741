"""Calls as CSV, a line each, for a spreadsheet.

No cell is a formula for any spreadsheet: behind blanks, on each line of a cell, with a full-width
sign, and where `;` or a tab separates the cells. All cells are quoted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from io import TextIOWrapper
from typing import IO

from eventstore import Failed, Recorded, Rejected, Tool
from projections.current_tools import CurrentTools
from projections.formatting import arguments_text, utc_text

COLUMNS = (
    "conversation",
    "call",
    "tool",
    "status",
    "attempts",
    "requested_at",
    "started_at",
    "ended_at",
    "arguments",
    "fingerprint",
    "error_kind",
    "error",
)

_SIGNS = ("=", "+", "-", "@", "\N{FULLWIDTH EQUALS SIGN}", "\N{FULLWIDTH PLUS SIGN}")
_FORMULA = (*_SIGNS, "\N{FULLWIDTH HYPHEN-MINUS}", "\N{FULLWIDTH COMMERCIAL AT}")
"""How a cell begins, behind blanks, that a spreadsheet would compute."""
_BETWEEN_CELLS = re.compile(r"([;\t\r\n])")
"""What may end a cell, whether it is quoted or not."""
_UNSEEN = "".join(map(chr, range(33))) + "\"'\xa0\u200b\u200c\u200d\u2060\u3000\ufeff"
"""What may stand before a sign: blanks, marks of no width, quotes."""

_ALL_CHARACTERS = 10**9


def write_calls(file: IO[bytes], events: Iterable[Recorded]) -> int:
    """Write a header, and a line for each call in its last state; return the number of calls."""
    calls = list(CurrentTools().extend(events).calls())
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerow(COLUMNS)
        writer.writerows([_cell(value) for value in _row(name, tool)] for name, tool in calls)
    finally:
        text.detach()
    return len(calls)


def _row(conversation_id: str, tool: Tool) -> tuple[object, ...]:
    return (
        conversation_id,
        tool.id,
        tool.call.name,
        tool.status.name,
        tool.attempts,
        _time(tool.requested_at),
        _time(tool.started_at),
        _time(tool.ended_at),
        arguments_text(tool.effective_call, _ALL_CHARACTERS),
        tool.fingerprint,
        *_error(tool),
    )


def _error(tool: Tool) -> tuple[str, str]:
    match tool.status:
        case Failed(failure=failure):
            return str(failure.kind), failure.message
        case Rejected(reason=reason):
            return "rejected", reason or ""
        case _:
            return "", ""


def _time(at: int | None) -> str:
    return "" if at is None else utc_text(at)


def _cell(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula, nor a part of it."""
    if not isinstance(value, str):
        return value
    parts = _BETWEEN_CELLS.split(value)
    return "".join(f"'{part}" if _is_formula(part) else part for part in parts)


def _is_formula(part: str) -> bool:
    return part.lstrip(_UNSEEN).startswith(_FORMULA)
