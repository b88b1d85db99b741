"""The progress of an import: bars of a terminal, or lines of a log.

A file shows the bytes that are read. All files together show how many of them are finished, and
the messages and calls that the log has by now.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from projections.cli.interrupts import raise_if_interrupted
from projections.cli.output import clean, console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from eventstore.importers.file_import import Watch
    from eventstore.importers.progress import FileProgress, ImportProgress

PROGRESS_SECONDS = 2.0
"""Seconds between two lines of progress where there is no terminal."""

_SHOWN_ONE_IN = 100
"""Steps of a file between two looks at its progress."""


@contextmanager
def shown_progress() -> Generator[Watch, None, None]:
    """Give what shows the progress of files, on standard error."""
    if not sys.stderr.isatty():
        lines = _Lines()
        yield lambda file: nullcontext(_every(_SHOWN_ONE_IN, lambda: lines.show(file)))
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # slow to load

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[done]}"),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        yield _Bars(progress).of


class _Lines:
    """Progress for a log: a line every few seconds, whatever file it is of."""

    def __init__(self) -> None:
        self._last_at = time.monotonic()

    def show(self, file: FileProgress) -> None:
        if time.monotonic() - self._last_at < PROGRESS_SECONDS:
            return
        self._last_at = time.monotonic()
        name = clean(str(file.path), kept="")
        read = f"{_megabytes(file.position)} of {_megabytes(file.size)} MB read"
        sys.stderr.write(f"{name}: {read}; {_done(file.whole)}\n")
        sys.stderr.flush()


class _Bars:
    """Progress for a terminal: a bar for each file under way, below one for all."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._finished: list[TaskID] = []
        self._whole = progress.add_task("all files", total=None, done="")

    @contextmanager
    def of(self, file: FileProgress) -> Generator[Callable[[], None], None, None]:
        """Give what is called after each step of a file."""
        from rich.markup import escape

        while self._finished:
            self._progress.remove_task(self._finished.pop())
        name = escape(clean(file.path.name, kept=""))
        bar = self._progress.add_task(name, total=file.size, done="")

        def show() -> None:
            self._progress.update(bar, completed=file.position, done=_counts(file))
            whole = file.whole
            read, most = whole.position, max(whole.size, whole.position)
            self._progress.update(self._whole, completed=read, total=most, done=_done(whole))

        try:
            show()
            yield _every(_SHOWN_ONE_IN, show)
        finally:
            show()
            self._finished.append(bar)


def _every(count: int, show: Callable[[], None]) -> Callable[[], None]:
    """Return a step of an import; one in so many shows the progress."""
    steps = 0

    def step() -> None:
        nonlocal steps
        raise_if_interrupted()
        steps += 1
        if steps % count == 0:
            show()

    return step


def _done(whole: ImportProgress) -> str:
    return f"{whole.finished:,} of {whole.files:,} files, {_counts(whole)}"


def _counts(part: FileProgress | ImportProgress) -> str:
    return f"{part.messages:,} messages, {part.calls:,} calls"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f}"
