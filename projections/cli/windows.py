"""The options of a window: a limit, or two marks."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.history.options import Marks

_LOWER_AND_UPPER = 2


def marks_in(given: str | None) -> Marks | None:
    """Return a limit such as `10`, or its two marks such as `10:30`.

    Raises:
        typer.BadParameter: it is neither.
    """
    if given is None:
        return None
    marks = [int(mark) if mark.isascii() and mark.isdigit() else 0 for mark in given.split(":")]
    if len(marks) > _LOWER_AND_UPPER or not 1 <= marks[0] <= marks[-1]:
        raise typer.BadParameter(f"{given!r}: pass 1 or more, or two marks such as 10:30")
    return marks[0] if len(marks) == 1 else (marks[0], marks[1])


def _checked(given: str | None) -> str | None:
    marks_in(given)
    return given


LastTurns = Annotated[
    str | None,
    typer.Option(
        "--last-turns",
        callback=_checked,
        help="Only the last N turns of the model. 10:30 lets them grow to 30, then keeps 10.",
        metavar="N",
    ),
]
MaxTokens = Annotated[
    str | None,
    typer.Option(
        "--max-tokens",
        callback=_checked,
        help="Only what fits, by an estimate: 3 bytes a token. Two marks as in --last-turns.",
        metavar="N",
    ),
]
