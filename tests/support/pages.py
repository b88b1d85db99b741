"""The Python of a page, run as a reader would type it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from eventstore import EventStore


def python_blocks(page: Path) -> list[re.Match[str]]:
    """Return the Python blocks of a page, in order."""
    text = page.read_text("utf-8")
    return list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def run_blocks(page: Path) -> dict[str, Any]:
    """Run every block of a page in one session, and return the names that it has defined.

    The stores that it has opened are closed.
    """
    names: dict[str, Any] = {}
    with ExitStack() as stores:
        for block in python_blocks(page):
            line = block.string.count("\n", 0, block.start(1))
            code = compile("\n" * line + block[1], str(page), "exec", dont_inherit=True)
            exec(code, names)  # noqa: S102 - our own page
            for value in names.values():
                if isinstance(value, EventStore):
                    stores.callback(value.close)
    return names
