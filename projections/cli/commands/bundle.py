"""`bundle`: chosen events with their proofs, as a folder for an auditor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from eventstore import SubjectSecret
from projections.cli.commands.seal import VerifierKeys, given_keys
from projections.cli.event_filters import time_of
from projections.cli.options import (
    SECRET,
    URL,
    Json,
    Url,
    file_name,
    named,
    open_store,
    subject_and_secret,
)
from projections.cli.output import print_json, say
from projections.formatting import plural

if TYPE_CHECKING:
    from projections.audit import AboutSubject

_START = datetime(1970, 1, 1, tzinfo=UTC)


def bundle(  # noqa: PLR0913 - the options of the command
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", parser=file_name, help="The folder to make.")
    ],
    conversation_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Conversations; without any, all with --from."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Only what was recorded from then on (UTC)."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Only what was recorded before then (UTC)."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            metavar="SUBJECT",
            help="The conversations with events about that person; - reads it from stdin.",
        ),
    ] = None,
    secret: Annotated[str | None, SECRET] = None,
    key: VerifierKeys = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Write events, proofs, notes, decisions and pages to a folder, and scripts that check them.

    It holds what the log holds: look through it before you share it. With --subject it holds whole
    conversations, of this tenant, and so what others have said in them.
    """
    from projections.audit import Span, about_subject, write_bundle

    keys = given_keys(key)
    if not conversation_ids and subject is None and from_ is None and until is None:
        raise typer.BadParameter("name conversations, or pass --subject, --from or --until")
    if conversation_ids and subject is not None:
        raise typer.BadParameter("name conversations, or pass --subject, not both")
    span = Span(_moment(from_, "--from"), _moment(until, "--until"))
    opened: SubjectSecret | None = None
    if subject is not None:
        subject, opened = subject_and_secret(subject, secret)
    with open_store(url, subjects=opened) as store:
        about = None if subject is None else about_subject(store, subject)
        if about is not None:
            chosen = list(about.conversation_ids)
        elif conversation_ids:
            chosen = [named(store, each).id for each in conversation_ids]
        else:
            chosen = [name for name, _ in store.conversations()]
        if about is not None and not chosen:
            raise ValueError("; ".join(["no event here is about that person", *_left(about)]))
        digest = None if about is None else about.digest
        made = write_bundle(store, folder, chosen, keys, span, digest)
    if as_json:
        shown = {"folder": str(folder), **{name: getattr(made, name) for name in _MEMBERS}}
        print_json(shown | ({} if about is None else {"not_covered": _left(about)}))
        return
    say(
        f"{folder}: {plural(made.events, 'event')} of "
        f"{plural(made.conversations, 'conversation')}, {made.proven:,} proven; check it with "
        f"`python -P {folder / 'check.py'} {folder} VERIFIER_KEY`"
    )
    if made.proven < made.events:
        say(
            f"{plural(made.events - made.proven, 'event')} not sealed yet: `toolledger seal`, "
            "then write it again, to have them proven"
        )
    for text in _left(about):
        say(f"note: {text}")


_MEMBERS = ("conversations", "events", "proven", "redacted", "decisions")


def _left(about: AboutSubject | None) -> list[str]:
    """Return what else is about a person, and in no bundle of this tenant's log."""
    if about is None:
        return []
    archived = [
        f"not in it: conversation {name!r}, which is archived in {place}: run "
        "`toolledger restore` with that file, and write the bundle again"
        for name, place in sorted(about.archived.items())
    ]
    others = [
        f"not in it: {plural(count, 'conversation')} of tenant {tenant!r} with events about that "
        f"person: run `toolledger --tenant {quote(tenant)} bundle`"
        for tenant, count in sorted(about.other_tenants.items())
    ]
    return archived + others


def _moment(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    return (time_of(text, option, "a time, for example 2026-01-31T12:00") - _START) // timedelta(
        microseconds=1
    )
