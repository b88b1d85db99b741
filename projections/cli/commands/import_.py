"""`toolledger import`: transcripts of other programs into the log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict

from eventstore import EventStoreError
from eventstore.domain.credentials import may_be_address
from eventstore.importers import PROVIDERS, ImportedFile, import_files, import_sessions
from eventstore.importers.formats import programs_read
from eventstore.providers import ForeignForm
from projections.cli.commands import sessions
from projections.cli.import_progress import shown_progress
from projections.cli.options import URL, Json, Url, file_name, open_store
from projections.cli.output import complain, print_json, say, show_table

MAX_LISTED = 20
"""Problems of a file that are listed for people; `--json` has more."""

MAX_JOBS = 4
"""Files that are imported at a time, unless the caller asks for another number."""

_COUNTED = ("conversations", "calls", "messages added", "there already", "events", "problems")

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="Messages, requests, or what these programs wrote: "
        f"{', '.join(programs_read())}; folders, or patterns, of them; "
        "the URL of a PostgreSQL with LangGraph's checkpoints. With --discover: sessions.",
    ),
]
Discover = Annotated[
    bool,
    typer.Option(
        "--discover",
        help="Import sessions that programs have left: those that are named, --since or --all. "
        "Without a choice, list them.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="With --discover: all sessions.")]
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


def import_(  # noqa: PLR0913 - a parameter for each option
    files: Files = None,
    provider: From = None,
    name: Name = None,
    error_pattern: ErrorPattern = None,
    jobs: Jobs = None,
    url: Url = URL,
    since: sessions.Since = None,
    root: sessions.Root = None,
    *,
    discover: Discover = False,
    every: All = False,
    as_json: Json = False,
) -> None:
    """Import conversations that other programs wrote: messages, session logs, traces.

    Importing a file again adds nothing; a file that has grown adds its new messages; an interrupted
    import continues. `toolledger sessions` lists the sessions that --discover finds.
    """
    if provider is not None and provider not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise typer.BadParameter(f"{provider!r}: pass one of {known}", param_hint="--provider")
    if name == "":
        raise typer.BadParameter("'': pass a name that is not empty", param_hint="--id")
    _check_pattern(error_pattern)
    chosen = None
    if discover:
        if name is not None:
            raise typer.BadParameter("a session has its own: leave it out", param_hint="--id")
        found = sessions.looked_for(since, provider, root, option="--provider")
        if not (found.sessions and (files or every or since)):
            sessions.show_sessions(found, sessions.LISTED, as_json=as_json)
            return
        chosen = sessions.chosen(found, files)
        start = partial(import_sessions, sessions=chosen)
    else:
        _refuse_choice(every=every, since=since, root=root)
        start = partial(import_files, given=_given(files or ()), provider=provider, name=name)
    at_once = jobs or min(MAX_JOBS, os.cpu_count() or 1)
    reports = _done(url, partial(start, error_pattern=error_pattern, jobs=at_once))
    if chosen is not None:
        imported, rest = sessions.by_session(chosen, reports)
        _print_sessions(imported, rest, as_json=as_json)
        reports = [*imported, *rest]
    elif as_json:
        print_json([_fields(report) for report in reports])
    else:
        _print_reports(reports)
    reasons = [reason for report in reports for reason in _reasons(report)]
    for reason in reasons:
        complain(reason)
    if reasons:
        raise typer.Exit(1)


def _refuse_choice(*, every: bool, since: str | None, root: Path | None) -> None:
    """Raise an error if an option chooses sessions where files are imported.

    Raises:
        typer.BadParameter: so it is.
    """
    if every or since is not None or root is not None:
        raise typer.BadParameter("--all, --since and --root choose sessions: pass --discover, too")


def _given(files: Sequence[str]) -> list[str | Path]:
    if not files:
        raise typer.BadParameter("Missing argument 'FILE...': name files, or pass --discover")
    return [each if may_be_address(each) else file_name(each) for each in files]


def _done(url: str, start: Callable[..., Iterator[ImportedFile]]) -> list[ImportedFile]:
    """Return what an import into a store did with each file, while its progress is shown."""
    reports: list[ImportedFile] = []
    with open_store(url, create=True) as store, shown_progress() as progress:
        try:
            reports.extend(start(store, watch=progress))
        except KeyboardInterrupt:
            complain(
                "interrupted: what was imported is stored; the same command continues from there"
            )
            raise
    return reports


def _print_sessions(
    imported: list[ImportedFile], rest: list[ImportedFile], *, as_json: bool
) -> None:
    if as_json:
        print_json([_fields(report) for report in (*imported, *rest)])
        return
    _print_reports(sessions.changed([*imported, *rest]), "session")
    say(sessions.outcome(imported))


def _fields(report: ImportedFile) -> dict[str, object]:
    return {**asdict(report), "refused": _reasons(report)}


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


def _print_reports(reports: list[ImportedFile], what: str = "file") -> None:
    imported = [report for report in reports if report.conversations or not report.refused]
    if imported:  # of the others there is nothing to say but the reason
        show_table(
            (what, *_COUNTED),
            [
                (r.path, r.conversations, r.calls, r.added, r.skipped, r.events, _problems(r))
                for r in imported
            ],
            right=_COUNTED,
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
