"""`toolledger import`: transcripts of other programs into the log."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer
from msgspec.structs import asdict

from eventstore import EventStoreError
from eventstore.domain.credentials import may_be_address
from eventstore.importers import PROVIDERS, ImportedFile, import_files
from eventstore.providers import ForeignForm
from projections.cli.import_progress import shown_progress
from projections.cli.options import URL, Json, Url, file_name, open_store
from projections.cli.output import complain, print_json, say, show_table

MAX_LISTED = 20
"""Problems of a file that are listed for people; `--json` has more."""

_COUNTED = ("conversations", "calls", "messages added", "there already", "events", "problems")

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
    with open_store(url, create=True) as store, shown_progress() as progress:
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


def _print_reports(reports: list[ImportedFile]) -> None:
    imported = [report for report in reports if report.conversations or not report.refused]
    if imported:  # of the others there is nothing to say but the reason
        show_table(
            ("file", *_COUNTED),
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
