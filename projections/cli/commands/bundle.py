"""`bundle`: chosen events with their proofs, as a folder for an auditor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from projections.cli.commands.seal import VerifierKeys, given_keys
from projections.cli.event_filters import time_of
from projections.cli.options import URL, Json, Url, file_name, named, open_store
from projections.cli.output import print_json, say
from projections.formatting import plural

_START = datetime(1970, 1, 1, tzinfo=UTC)


def bundle(
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
    key: VerifierKeys = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Write events, proofs, notes, decisions and pages to a folder, and a script that checks them.

    It holds what the log holds: look through it before you share it.
    """
    from projections.audit import Span, write_bundle

    keys = given_keys(key)
    if not conversation_ids and from_ is None and until is None:
        raise typer.BadParameter("name conversations, or pass --from or --until")
    span = Span(_moment(from_, "--from"), _moment(until, "--until"))
    with open_store(url) as store:
        names = [named(store, each).id for each in conversation_ids or ()]
        chosen = names or [name for name, _ in store.conversations()]
        made = write_bundle(store, folder, chosen, keys, span)
    if as_json:
        print_json({"folder": str(folder), **{name: getattr(made, name) for name in _MEMBERS}})
        return
    say(
        f"{folder}: {plural(made.events, 'event')} of "
        f"{plural(made.conversations, 'conversation')}, {made.proven:,} proven; check it with "
        f"`python {folder / 'check.py'} {folder} VERIFIER_KEY`"
    )
    if made.proven < made.events:
        say(
            f"{plural(made.events - made.proven, 'event')} after the last seal: `toolledger seal`, "
            "then write it again, to have them proven"
        )


_MEMBERS = ("conversations", "events", "proven", "redacted", "decisions")


def _moment(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    return (time_of(text, option, "a time, for example 2026-01-31T12:00") - _START) // timedelta(
        microseconds=1
    )
