"""Plain text for a terminal: tables, durations, and words that cannot harm it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from eventstore import FunctionCall

_SHORT = (("us", 1), ("ms", 1_000), ("s", 1_000_000))
_LONG = (("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400))


def duration(microseconds: int | None) -> str:
    """A duration in the unit that suits it: `850 us`, `1.20 s`, `3 h 20 m`; `-` for None."""
    if microseconds is None:
        return "-"
    seconds = microseconds // 1_000_000
    if seconds < _LONG[1][1]:
        unit, size = next(u for u in reversed(_SHORT) if microseconds >= u[1] or u[1] == 1)
        return f"{_three_digits(microseconds / size) if size > 1 else microseconds} {unit}"
    place = max(n for n, (_, size) in enumerate(_LONG) if seconds >= size)
    (small, part), (large, whole) = _LONG[place - 1 : place + 1]
    return f"{seconds // whole:,} {large} {seconds % whole // part} {small}"


def _three_digits(value: float) -> str:
    places = 2 if value < 10 else 1 if value < 100 else 0  # noqa: PLR2004
    return f"{value:.{places}f}"


def share(rate: float | None) -> str:
    """A rate in percent; `-` for None. Only the exact rates read 0.0% and 100.0%."""
    if rate is None:
        return "-"
    return f"{rate if rate in (0, 1) else min(max(rate, 0.001), 0.999):.1%}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def one_line(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters, its control characters escaped.

    Of a longer text the beginning and the end are shown: calls often differ in the end only.
    """
    text = text.strip()
    if len(text) <= width:
        text = _escaped(text)
    if len(text) <= width:
        return text
    end = width // 3
    start = width - end - 3
    return f"{_escaped(text[:start])[:start]}...{_escaped(text[-end:])[-end:]}"


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def arguments_text(call: FunctionCall, width: int = 200) -> str:
    """The arguments of a call as JSON text on one line, shortened."""
    if call.raw is not None:
        return one_line(call.raw, width)
    try:
        return one_line(msgspec.json.encode(call.arguments).decode(), width)
    except Exception:  # noqa: BLE001 - arguments that are no JSON, in a log made by hand
        return f"<{type(call.arguments).__name__}>"


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str | int]], left: Collection[str]
) -> list[str]:
    """The lines of a table: the columns named `left` begin at the left, numbers end at the right.

    Columns that say 0 or nothing throughout are left out, and so is a table without rows.
    """
    if not rows:
        return []
    columns = [
        column
        for column in zip(heads, *rows, strict=True)
        if column[0] in left or set(column[1:]) - {0, "-"}
    ]
    aligned = [_aligned(column, left=column[0] in left) for column in columns]
    return ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]


def _aligned(column: Sequence[str | int], *, left: bool) -> list[str]:
    cells = [cell if isinstance(cell, str) else f"{cell:,}" for cell in column]
    width = max(map(len, cells))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in cells]
