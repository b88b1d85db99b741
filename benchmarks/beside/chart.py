"""The chart of a comparison: a bar for each library, grouped by what was measured (SVG)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Protocol


class Shown(Protocol):
    """A figure as the chart needs it."""

    @property
    def measure(self) -> str:
        """What was measured."""
        ...

    @property
    def peer(self) -> str:
        """The library."""
        ...

    @property
    def times(self) -> float:
        """The multiple of ours."""
        ...


WIDTH, ROW, GAP, LABELS, LONGEST = 760, 20, 16, 270, 400
OURS_COLOUR, OTHERS_COLOUR, LOST_COLOUR = "#2a6f4e", "#9aa5b1", "#c0504d"


def chart(figures: Sequence[Shown], ours: str) -> str:
    """Return an SVG. Bars of one measure share a scale; those below 1 are faster than `ours`."""
    rows = list(_rows(figures, ours))
    height = max((y for y, _ in rows), default=0) + ROW + GAP
    body = "\n".join(text for _, text in rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label="Each library as a multiple of {escape(ours)}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _rows(figures: Sequence[Shown], ours: str) -> Iterator[tuple[int, str]]:
    y = GAP
    for measure, group in groupby(figures, key=lambda figure: figure.measure):
        found = list(group)
        most = max(figure.times for figure in found)
        yield y, _text(8, y + 14, measure, "bold")
        y += ROW
        for figure in found:
            width = max(LONGEST * figure.times / most, 1)
            colour = OTHERS_COLOUR if figure.times >= 1 else LOST_COLOUR
            if figure.peer == ours:
                colour = OURS_COLOUR
            bar = (
                f'<rect x="{LABELS}" y="{y + 3}" width="{width:.1f}" height="{ROW - 6}" '
                f'fill="{colour}"/>'
            )
            label = _text(24, y + 14, figure.peer)
            value = _text(LABELS + width + 6, y + 14, f"{figure.times:,.2f}")
            yield y, f"{label}{bar}{value}"
            y += ROW
        y += GAP


def _text(x: float, y: float, text: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}">{escape(text)}</text>'
