"""Paths to members of a payload: `arguments.card`, `result.rows[*].email`, `data["a.b"][0]`.

A name stands behind a dot, and a place of a list in brackets; `[*]` is every place. A name with
dots, blanks or brackets stands in brackets, too, as a JSON string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeAlias

Step: TypeAlias = str | int | None
"""A key, a place in a list, or None for every place of a list."""

Steps: TypeAlias = Sequence[Step]

_STEP = re.compile(
    r"""
    \.(?P<name>[^.\[\]\s]+)
    | \[(?P<place>[0-9]{1,9})\]
    | \[(?P<every>\*)\]
    | \[(?P<quoted>"(?:[^"\\]|\\.)*")\]
    """,
    re.VERBOSE,
)


def steps_of(path: str) -> Steps:
    """Return the steps of a path.

    Raises:
        ValueError: it is no path.
    """
    rest = path if path.startswith("[") else f".{path}"
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise _senseless(path)
        steps.append(_step(path, found))
        at = found.end()
    return steps


def _step(path: str, found: re.Match[str]) -> Step:
    if found["every"]:
        return None
    if found["place"]:
        return int(found["place"])
    if found["name"]:
        return found["name"]
    try:
        return str(json.loads(found["quoted"]))
    except ValueError:
        raise _senseless(path) from None


def _senseless(path: str) -> ValueError:
    return ValueError(
        f"path {path!r} leads nowhere: pass for example 'arguments.card', 'result.rows[*].email', "
        "'parts[0].text', or 'arguments[\"a.b\"]' where a name has dots or blanks"
    )
