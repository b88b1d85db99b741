"""Calls as CSV, a line each, for a spreadsheet."""

from __future__ import annotations

import csv
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

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would compute."""

_ALL_CHARACTERS = 10**9


def write_calls(file: IO[bytes], events: Iterable[Recorded]) -> int:
    """Write a header, and a line for each call in its last state; return the number of calls."""
    calls = list(CurrentTools().extend(events).calls())
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text)
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
    """Return a value that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
