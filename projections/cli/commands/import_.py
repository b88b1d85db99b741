"""`toolledger import`: transcripts of other programs into the log."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from eventstore import EventStore, EventStoreError, RunStarted
from eventstore.importers import PROVIDERS, Source, Transcript, is_refusal, read
from eventstore.providers import ForeignForm, known_provider
from projections.cli.interrupts import raise_if_interrupted
from projections.cli.options import URL, Json, Url, open_store
from projections.cli.output import complain, console, print_json, say, show_table

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

MAX_LISTED = 20
"""Problems of a file that are listed for people; `--json` has more."""

PROGRESS_SECONDS = 2.0
"""Seconds between two lines of progress where there is no terminal."""

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help=".json or .jsonl: messages, or session logs."),
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
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Import OpenAI or Anthropic messages, or session logs of Claude Code.

    Importing a file again adds nothing; a file that has grown adds its new messages; an interrupted
    import continues.
    """
    if provider is not None and provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise typer.BadParameter(f"{provider!r}: pass one of {known}", param_hint="--provider")
    if name == "":
        raise typer.BadParameter("'': pass a name that is not empty", param_hint="--id")
    reports: list[Report] = []
    with open_store(url, create=True) as store:
        try:
            reports.extend(_import_file(store, path, provider, name) for path in files)
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


def _import_file(store: EventStore, path: Path, provider: str | None, name: str | None) -> Report:
    report = Report(str(path))
    try:
        source = read(path, provider, name)
    except (ValueError, OSError) as error:
        report.refused.append(str(error))
        return report
    try:
        with _progress(source) as step:
            for transcript in source.transcripts():
                _import_transcript(store, transcript, report, step)
    except (EventStoreError, ValueError, OSError) as error:
        report.refused.append(f"{path}: {error}" if str(path) not in str(error) else str(error))
    report.problem_count = source.problem_count
    report.problems = [str(problem) for problem in source.problems]
    return report


def _import_transcript(
    store: EventStore, transcript: Transcript, report: Report, step: Callable[[], None]
) -> None:
    started = None
    if transcript.parent_id is not None:
        started = RunStarted(None, transcript.parent_id, transcript.parent_call_id)
    try:
        done = store.conversation(transcript.id).import_messages(
            _stepping(transcript.messages, step),
            known_provider(transcript.provider),
            is_rejection=is_refusal if transcript.provider == "anthropic" else None,
            started=started,
            occurred_at=transcript.times,
            error_pattern=transcript.error_pattern,
        )
    except ForeignForm as error:
        report.refused.append(f"{report.path}: {error.found}: {_remedy(error)}")
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


def _remedy(error: ForeignForm) -> str:
    """Return what to do about messages in another form; files of some forms cannot be imported."""
    known = [name for name in error.whose if name in PROVIDERS]
    if known:
        return f"pass --provider {known[0]}"
    return f"in Python, import_messages(messages, {error.whose[0]!r}) takes them"


def _stepping(messages: Iterable[T], step: Callable[[], None]) -> Iterator[T]:
    for message in messages:
        yield message
        raise_if_interrupted()
        step()


@contextmanager
def _progress(source: Source) -> Generator[Callable[[], None], None, None]:
    """Give a function to call after each message; it shows how far the file has been read."""
    if sys.stderr.isatty():
        from rich.markup import escape
        from rich.progress import Progress, TextColumn  # slow to load

        count = TextColumn("{task.fields[messages]:,} messages")
        columns = (*Progress.get_default_columns(), count)
        with Progress(*columns, console=console(stderr=True), transient=True) as progress:
            task = progress.add_task(escape(source.path.name), total=source.size, messages=0)
            yield _Bar(source, progress, task).step
    else:
        yield _Lines(source).step


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
        sys.stderr.write(f"{self._source.path}: {self._count:,} messages, {share:.0%} read\n")
        sys.stderr.flush()


def _print_reports(reports: list[Report]) -> None:
    show_table(
        ("file", "conversations", "messages added", "there already", "events", "problems"),
        [(r.path, r.conversations, r.added, r.skipped, r.events, _problems(r)) for r in reports],
        right=("conversations", "messages added", "there already", "events", "problems"),
    )
    for report in reports:
        if report.problem_count or report.findings:
            say(f"{report.path}:")
        for problem in report.problems[:MAX_LISTED]:
            say(f"  {problem}")
        if report.problem_count > MAX_LISTED:
            say(f"  and {report.problem_count - MAX_LISTED:,} more problems like these (--json)")
        for finding, count in report.findings.items():
            say(f"  {count:,} times  {finding}")


def _problems(report: Report) -> int:
    return report.problem_count + sum(report.findings.values()) + len(report.refused)
