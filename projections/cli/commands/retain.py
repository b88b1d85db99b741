"""`retain`: what is older than a limit goes to an archive, or loses its content."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from eventstore import Retention, SubjectSecret
from eventstore.retention import JSON_LINES, ArchiveForm
from projections.cli.options import (
    SECRET,
    URL,
    Json,
    Url,
    file_name,
    one_of,
    open_store,
    subject_and_secret,
)
from projections.cli.output import print_json, say
from projections.exports.parquet import ParquetArchive
from projections.formatting import plural, utc_text

FORMS: dict[str, ArchiveForm] = {"jsonl": JSON_LINES, "parquet": ParquetArchive()}
"""The forms of archives, by their names and by the ends of their files."""

_LISTED = 5


def archive_form(path: Path) -> ArchiveForm | None:
    """Return the form of an archive; None for another file, such as an export."""
    for form in FORMS.values():
        if path.suffix == form.suffix:
            try:
                return form if next(form.read(path), None) is not None else None
            except (OSError, ValueError):
                return None
    return None


def retain(  # noqa: PLR0913 - the options of the command
    keep: Annotated[
        str,
        typer.Option(
            "--keep", metavar="TIME", help="How long it stays: '90 days', '6 months', '2 years'."
        ),
    ],
    *,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FOLDER", parser=file_name, help="Where archives go; it must exist."
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            help="conversations: to an archive, from which they can be restored; payloads: the "
            "content of their events goes for good.",
        ),
    ] = "conversations",
    match: Annotated[
        str | None, typer.Option("--match", metavar="PATTERN", help="Only ids such as 'support-*'.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only runs of this agent.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            metavar="SUBJECT",
            help="Only conversations with events about that person; - reads it from stdin.",
        ),
    ] = None,
    secret: Annotated[str | None, SECRET] = None,
    form: Annotated[
        str, typer.Option("--format", help="The form of archives: jsonl or parquet.")
    ] = "jsonl",
    by: Annotated[
        str, typer.Option("--by", metavar="NAME", help="Who does it, for the log.")
    ] = "retain",
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without it, say what would go.")
    ] = False,
    url: Url = URL,
    as_json: Json = False,
) -> None:
    """Take what is older than a limit out of the log; without --yes only say what would go.

    A conversation is as old as its last event. One with a call that is open or in doubt stays. A
    command that was broken off is continued by the next one.
    """
    one_of(only, ("conversations", "payloads"), "--only")
    one_of(form, tuple(FORMS), "--format")
    if yes and only == "conversations" and to is None:
        raise typer.BadParameter("name the folder of the archives", param_hint="--to")
    said: Any = only
    opened: SubjectSecret | None = None
    if subject is not None:
        subject, opened = subject_and_secret(subject, secret)
    with open_store(url, subjects=opened) as store:
        done = store.retain(
            keep,
            only=said,
            folder=to,
            match=match,
            agent=agent,
            subject=subject,
            by=by,
            form=FORMS[form],
            dry_run=not yes,
        )
    if as_json:
        print_json(msgspec.structs.asdict(done))
    else:
        _tell(done)


def _tell(done: Retention) -> None:
    verb = "archived" if done.only == "conversations" else "redacted"
    said = f"would be {verb}" if done.dry_run else verb
    say(
        f"{plural(done.conversations, 'conversation')} without an event since "
        f"{utc_text(done.before)} {said}: {plural(done.events, 'event')}, "
        f"{done.payload_bytes:,} bytes"
    )
    for reason, count in sorted(done.kept.items()):
        say(f"kept: {plural(count, 'conversation')} {reason}")
    for name in done.files[:_LISTED]:
        say(name)
    if len(done.files) > _LISTED:
        say(f"and {len(done.files) - _LISTED:,} more files (--json)")
    for name in done.unused:
        say(f"note: no conversation is archived in {name}: look at it, and remove it")
    for text in done.remains:
        say(f"note: {text}")
    if done.dry_run and done.conversations:
        say("nothing was done: repeat it with --yes")
