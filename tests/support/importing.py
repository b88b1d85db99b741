"""Files of the importers' tests: written as their software writes them, and imported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eventstore import EventStore, MessageAdded, Tool
from eventstore.importers import import_file

AT = 1_735_787_045_000_000
"""2025-01-02T03:04:05Z, in microseconds."""


def clock(seconds: float) -> str:
    """Return a time in the hour of `AT`, as text."""
    minutes, rest = divmod(4 * 60 + 5 + seconds, 60)
    return f"2025-01-02T03:{minutes:02.0f}:{rest:06.3f}Z"


class Importer:
    """A store into which files are imported."""

    def __init__(self, store: EventStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.ids: list[str] = []
        self.problems: list[str] = []
        self.findings: list[str] = []

    def document(self, name: str, value: Any) -> list[Tool]:
        """Import a file with one JSON value; return the calls of all its conversations."""
        path = self.folder / name
        path.write_text(json.dumps(value))
        return self.file(path)

    def lines(self, name: str, *values: Any) -> list[Tool]:
        """Import a file with one JSON value a line; return the calls of all its conversations."""
        path = self.folder / name
        path.write_text("".join(json.dumps(value) + "\n" for value in values))
        return self.file(path)

    def file(self, path: Path) -> list[Tool]:
        """Import a file, and once more, which must add nothing; return its calls."""
        tools: list[Tool] = []
        for again in (False, True):
            done = import_file(self.store, path)
            assert done.refused == []
            if again:
                assert done.added == 0
            else:
                self.ids += done.ids
                self.findings += done.findings
                for name in done.ids:
                    tools += self.store.conversation(name).tools.values()
            self.problems = done.problems
        return tools

    def said(self) -> Iterator[tuple[str, str]]:
        """Yield role and text of the messages that say something."""
        for name in self.ids:
            for recorded in self.store.conversation(name).events():
                if isinstance(recorded.event, MessageAdded):
                    text = "".join(getattr(part, "text", "") for part in recorded.event.parts)
                    if text:
                        yield recorded.event.role, text


def states(tools: list[Tool]) -> list[tuple[str, str]]:
    """Return name and status of calls."""
    return [(tool.call.name, tool.status.name) for tool in tools]
