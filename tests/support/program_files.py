"""Files of agents' own sessions, in the forms of the real programs: `tests/data/programs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "programs"


def path_of(name: str) -> Path:
    """Return the path of a file."""
    return FOLDER / name


def values_of(name: str) -> Any:
    """Return the values of a file's lines, or its one document."""
    text = path_of(name).read_text("utf-8")
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)
