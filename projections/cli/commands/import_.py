"""`toolledger import`: transcripts of other programs into the log."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from eventstore import EventStoreError
from eventstore.domain.credentials import may_be_address
from eventstore.importers import PROVIDERS, ImportedFile, Source, import_files
from eventstore.providers import ForeignForm
from projections.cli.interrupts import raise_if_interrupted
from projections.cli.options import URL, Json, Url, file_name, open_store
from projections.cli.output import clean, complain, console, print_json, say, show_table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from eventstore.importers.file_import import Watch

MAX_LISTED = 20
"""Problems of a file that are listed for people; `--json` has more."""

PROGRESS_SECONDS = 2.0
"""Seconds between two lines of progress where there is no terminal."""

MAX_JOBS = 4
"""Files that are imported at a time, unless the caller asks for another number."""

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Messages, session logs, traces, trajectories; folders, or patterns, of them; "
        "the URL of a PostgreSQL with LangGraph's checkpoints.",
    ),
]
ErrorPattern = Annotated[
    str | None,
    typer.Option(
        "--error-pattern",
        metavar="REGEX",
        help="A result whose text matches is a failure. [default: by the form of the file]",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help=f"Files at a time. [default: up to {MAX_JOBS}]"),
]
From = Annotated[
    str | None,
    typer.Option(
        "--provider", help=f"The form of the files: {', '.join(PROVIDERS)}. Guessed if not given."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="The id of the conversation; of several, the beginning of their ids.",
    ),
]


def import_(
    files: Files,
    provider: From = None,
    name: Name = None,
    error_pattern: ErrorPattern = None,
    jobs: Jobs = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Import conversations that other programs wrote: messages, session logs, traces.

    Importing a file again adds nothing; a file that has grown adds its new messages; an interrupted
    import continues.
    """
    if provider is not None and provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise typer.BadParameter(f"{provider!r}: pass one of {known}", param_hint="--provider")
    if name == "":
        raise typer.BadParameter("'': pass a name that is not empty", param_hint="--id")
    _check_pattern(error_pattern)
    given = [each if may_be_address(each) else file_name(each) for each in files]
    reports: list[ImportedFile] = []
    with open_store(url, create=True) as store, _progress() as progress:
        importing = import_files(
            store,
            given,
            provider=provider,
            name=name,
            error_pattern=error_pattern,
            jobs=jobs or min(MAX_JOBS, os.cpu_count() or 1),
            watch=progress,
        )
        try:
            reports.extend(importing)
        except KeyboardInterrupt:
            complain(
                "interrupted: what was imported is stored; the same command continues from there"
            )
            raise
    if as_json:
        print_json([asdict(report) | {"refused": _reasons(report)} for report in reports])
    else:
        _print_reports(reports)
    reasons = [reason for report in reports for reason in _reasons(report)]
    for reason in reasons:
        complain(reason)
    if reasons:
        raise typer.Exit(1)


def _reasons(report: ImportedFile) -> list[str]:
    """Return why a file, or conversations of it, were refused, with its name and the option."""
    return [_reason(report.path, error) for error in report.refused]


def _reason(path: str, error: Exception) -> str:
    if isinstance(error, ForeignForm):
        return f"{path}: {error.found}: pass --provider {error.whose[0]}"
    is_named = not isinstance(error, EventStoreError) and path in str(error)
    return str(error) if is_named else f"{path}: {error}"


def _check_pattern(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise typer.BadParameter(f"{pattern!r}: {error}", param_hint="--error-pattern") from error


@contextmanager
def _progress() -> Generator[Watch, None, None]:
    """Give what shows the progress of files: lines of a terminal, or of a log."""
    if not sys.stderr.isatty():
        yield lambda source: nullcontext(_Lines(source).step)
        return
    from rich.markup import escape
    from rich.progress import Progress, TextColumn  # slow to load

    messages = TextColumn("{task.fields[messages]:,} messages")
    columns = (*Progress.get_default_columns(), messages)
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        finished: list[TaskID] = []

        @contextmanager
        def of(source: Source) -> Generator[Callable[[], None], None, None]:
            while finished:
                progress.remove_task(finished.pop())
            name = escape(clean(source.path.name, kept=""))
            task = progress.add_task(name, total=source.size, messages=0)
            try:
                yield _Bar(source, progress, task).step
            finally:
                finished.append(task)

        yield of


class _Bar:
    """Progress for a terminal."""

    def __init__(self, source: Source, progress: Progress, task: TaskID) -> None:
        self._source = source
        self._progress = progress
        self._task = task
        self._count = 0

    def step(self) -> None:
        raise_if_interrupted()
        self._count += 1
        if self._count % 100 == 0:
            self._progress.update(self._task, completed=self._source.position, messages=self._count)


class _Lines:
    """Progress for a log file: a line every few seconds."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._count = 0
        self._last_line_at = time.monotonic()

    def step(self) -> None:
        raise_if_interrupted()
        self._count += 1
        if self._count % 100 or time.monotonic() - self._last_line_at < PROGRESS_SECONDS:
            return
        self._last_line_at = time.monotonic()
        share = self._source.position / max(self._source.size, 1)
        path = clean(str(self._source.path), kept="")
        sys.stderr.write(f"{path}: {self._count:,} messages, {share:.0%} read\n")
        sys.stderr.flush()


def _print_reports(reports: list[ImportedFile]) -> None:
    imported = [report for report in reports if report.conversations or not report.refused]
    if imported:  # of the others there is nothing to say but the reason
        show_table(
            ("file", "conversations", "messages added", "there already", "events", "problems"),
            [
                (r.path, r.conversations, r.added, r.skipped, r.events, _problems(r))
                for r in imported
            ],
            right=("conversations", "messages added", "there already", "events", "problems"),
        )
    for report in reports:
        if report.problem_count or report.findings:
            say(f"{report.path}:")
        for problem in report.problems[:MAX_LISTED]:
            say(f"  {problem}")
        if report.problem_count > MAX_LISTED:
            say(f"  and {report.problem_count - MAX_LISTED:,} more problems like these (--json)")
        for finding, times in report.findings.items():
            say(f"  {times:,} times  {finding}")


def _problems(report: ImportedFile) -> int:
    return report.problem_count + sum(report.findings.values()) + len(report.refused)
