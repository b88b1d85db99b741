"""`toolledger import`: transcripts of other programs into the log."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from glob import glob, has_magic
from itertools import count
from pathlib import Path
from threading import Condition, Event
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import msgspec
import typer

from eventstore import EventStore, EventStoreError, ImportConflict, Imported, RunStarted
from eventstore.domain.credentials import may_be_address
from eventstore.engines import shown_url
from eventstore.importers import PROVIDERS, Source, Transcript, is_refusal, read, with_event_folders
from eventstore.providers import ForeignForm, known_provider
from projections.cli.interrupts import raise_if_interrupted
from projections.cli.options import URL, Json, Url, file_name, open_store
from projections.cli.output import clean, complain, console, print_json, say, show_table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

MAX_LISTED = 20
"""Problems of a file that are listed for people; `--json` has more."""

PROGRESS_SECONDS = 2.0
"""Seconds between two lines of progress where there is no terminal."""

SUFFIXES = (
    *(".json", ".jsonl", ".ndjson", ".log", ".eval", ".traj"),
    *(".db", ".sqlite", ".sqlite3"),
)
"""Suffixes of the files in a folder that are imported."""

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


class Report(msgspec.Struct):
    """The result of importing one file."""

    path: str
    conversations: int = 0
    added: int = 0
    skipped: int = 0
    events: int = 0
    ids: list[str] = []
    problem_count: int = 0
    problems: list[str] = []
    findings: dict[str, int] = {}
    refused: list[str] = []


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
    sources = list(dict.fromkeys(each for given in files for each in _sources(given)))
    jobs = jobs or min(MAX_JOBS, os.cpu_count() or 1)
    reports: list[Report] = []
    with open_store(url, create=True) as store, _progress() as progress:
        importing = _Importing(store, provider, name, error_pattern, progress)
        try:
            reports.extend(importing.files(sources, jobs))
        except KeyboardInterrupt:
            complain(
                "interrupted: what was imported is stored; the same command goes on from there"
            )
            raise
    if as_json:
        print_json(reports)
    else:
        _print_reports(reports)
    for report in reports:
        for reason in report.refused:
            complain(reason)
    if any(report.refused for report in reports):
        raise typer.Exit(1)


def _check_pattern(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise typer.BadParameter(f"{pattern!r}: {error}", param_hint="--error-pattern") from error


def _sources(given: str) -> list[str | Path]:
    """Return what an argument names: the URL of a server, or files."""
    return [given] if may_be_address(given) else [*_paths(file_name(given))]


def _paths(path: Path) -> list[Path]:
    """Return the files that an argument names: a file, all in a folder, or those of a pattern."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES)
        return with_event_folders(each for each in files if each.is_file()) or [path]
    if path.exists() or not has_magic(str(path)):
        return [path]
    found = glob(str(path), recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return with_event_folders(map(Path, sorted(found))) or [path]


class _FinishedFiles:
    """Which files of an import are finished, by their numbers, whatever order they finish in."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._unfinished_from = 0  # every file before this one is finished
        self._later: set[int] = set()

    def add(self, number: int) -> None:
        """Note that a file is finished."""
        with self._changed:
            self._later.add(number)
            while self._unfinished_from in self._later:
                self._later.remove(self._unfinished_from)
                self._unfinished_from += 1
            self._changed.notify_all()

    def wait_for_all_before(self, number: int) -> None:
        """Block until every file before this one is finished."""
        with self._changed:
            self._changed.wait_for(lambda: self._unfinished_from >= number)


class _Importing:
    """Files on their way into a store, several at a time.

    1. Files are begun in their order, and finish in any order.
    2. A conversation that goes on in several files of traces keeps its id in the first of them,
       and has one of its own in each other. So it waits until the files before are finished: an
       import of the same files gives the same ids.
    """

    def __init__(
        self,
        store: EventStore,
        provider: str | None,
        name: str | None,
        error_pattern: str | None,
        progress: _ProgressOf,
    ) -> None:
        self._store = store
        self._form = (provider, name)
        self._error_pattern = error_pattern
        self._progress = progress
        self._stopped = Event()
        self._finished = _FinishedFiles()

    def files(self, sources: list[str | Path], jobs: int) -> Iterator[Report]:
        """Import files, `jobs` at a time; yield their reports in order."""
        if min(len(sources), jobs) == 1:
            yield from map(self._file, count(), sources)
            return
        with ThreadPoolExecutor(jobs) as pool:
            try:
                yield from pool.map(self._file, count(), sources)
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _file(self, number: int, path: str | Path) -> Report:
        try:
            return self._report(number, path)
        finally:
            self._finished.add(number)

    def _report(self, number: int, path: str | Path) -> Report:
        report = Report(shown_url(path) if isinstance(path, str) else str(path))
        try:
            source = read(path, *self._form)
        except (ValueError, OSError) as error:
            report.refused.append(str(error))
            return report
        try:
            with self._progress(source) as step:
                for transcript in source.transcripts():
                    if transcript.part_id is not None:
                        self._finished.wait_for_all_before(number)
                    self._transcript(transcript, report, step)
        except (EventStoreError, ValueError, OSError) as error:
            known = report.path in str(error)
            report.refused.append(str(error) if known else f"{report.path}: {error}")
        report.problem_count = source.problem_count
        report.problems = [str(problem) for problem in source.problems]
        return report

    def _transcript(self, transcript: Transcript, report: Report, step: Callable[[], None]) -> None:
        started = None
        if transcript.parent_id is not None:
            started = RunStarted(None, transcript.parent_id, transcript.parent_call_id)
        try:
            done = self._messages(transcript, started, step)
        except ImportConflict as error:
            if transcript.part_id is None:
                report.refused.append(f"{report.path}: {error}")
                return
            transcript.id, transcript.part_id = transcript.part_id, None
            self._transcript(transcript, report, step)
            return
        except ForeignForm as error:
            report.refused.append(f"{report.path}: {error.found}: pass --provider {error.whose[0]}")
            return
        except EventStoreError as error:
            report.refused.append(f"{report.path}: {error}")
            return
        report.conversations += 1
        report.ids.append(transcript.id)
        report.added += done.added
        report.skipped += done.skipped
        report.events += done.events
        found = Counter(finding.problem for finding in done.findings)
        report.findings = dict(Counter(report.findings) + found)

    def _messages(
        self, transcript: Transcript, started: RunStarted | None, step: Callable[[], None]
    ) -> Imported:
        return self._store.conversation(transcript.id).import_messages(
            self._stepping(transcript.messages, step),
            known_provider(transcript.provider),
            is_rejection=is_refusal if transcript.provider == "anthropic" else None,
            started=started,
            occurred_at=transcript.times,
            error_pattern=self._error_pattern or transcript.error_pattern,
        )

    def _stepping(self, messages: Iterable[T], step: Callable[[], None]) -> Iterator[T]:
        for message in messages:
            yield message
            raise_if_interrupted()
            if self._stopped.is_set():
                raise KeyboardInterrupt
            step()


_ProgressOf: TypeAlias = "Callable[[Source], AbstractContextManager[Callable[[], None]]]"
"""Gives for a file a function to call after each message; it shows how far the file is read."""


@contextmanager
def _progress() -> Generator[_ProgressOf, None, None]:
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
        self._count += 1
        if self._count % 100 or time.monotonic() - self._last_line_at < PROGRESS_SECONDS:
            return
        self._last_line_at = time.monotonic()
        share = self._source.position / max(self._source.size, 1)
        path = clean(str(self._source.path), kept="")
        sys.stderr.write(f"{path}: {self._count:,} messages, {share:.0%} read\n")
        sys.stderr.flush()


def _print_reports(reports: list[Report]) -> None:
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


def _problems(report: Report) -> int:
    return report.problem_count + sum(report.findings.values()) + len(report.refused)
