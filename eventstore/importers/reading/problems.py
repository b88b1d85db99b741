"""What is wrong in a file, and where."""

from __future__ import annotations

import msgspec

from eventstore.domain.one_line import one_line

MAX_KEPT_PROBLEMS = 1000
"""Problems of one file that are kept; all are counted."""


class SourceError(ValueError):
    """No conversation can be read from the file."""


class NoMessages(SourceError):
    """The file is of a known form, and nothing was said in it."""


class Problem(msgspec.Struct, frozen=True, gc=False):
    """A fault in the lines `line` to `last` (from 1), or in the file as a whole."""

    what: str
    line: int | None = None
    last: int | None = None
    detail: str | None = None

    def __str__(self) -> str:
        where = ""
        if self.line is not None:
            many = self.last is not None and self.last > self.line
            where = f"lines {self.line} to {self.last}: " if many else f"line {self.line}: "
        return f"{where}{self.what}" + (f" ({one_line(self.detail, 60)})" if self.detail else "")


class Problems:
    """The problems of one file; equal ones in neighbouring lines are kept as one."""

    def __init__(self) -> None:
        self.kept: list[Problem] = []
        self.count = 0

    def add(
        self,
        what: str,
        line: int | None = None,
        *,
        last: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Add a problem."""
        end = line if last is None else last
        before = self.kept[-1] if self.kept else None
        if (
            before is not None
            and line is not None
            and before.what == what
            and before.last == line - 1
        ):
            self.kept[-1] = msgspec.structs.replace(before, last=end)
            return
        self.count += 1
        if len(self.kept) < MAX_KEPT_PROBLEMS:
            self.kept.append(Problem(what, line, end, detail))
