"""`report`: a conversation as a page of HTML that opens without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eventstore.backup import permissions_of
from projections.cli.imports_on_the_way import store_with
from projections.cli.options import (
    URL,
    Json,
    ReadId,
    Url,
    file_name,
    known_provider,
    named,
)
from projections.cli.output import binary_output, print_json, say, whole_file
from projections.formatting import slug
from projections.report import FIRST_LINE

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        parser=file_name,
        help="The file to write; - is standard output.",
    ),
]
First = Annotated[
    str | None,
    typer.Option("--provider", help="Show this provider's prompts first. [default: the log's own]"),
]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is no report.")]


def report(
    conversation_id: ReadId,
    out: Out = None,
    url: Url = URL,
    provider: First = None,
    *,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a conversation as one page of HTML: timeline, every prompt, search, statistics.

    The page opens at the first error, and needs no network. It holds what the log holds: look
    through it before you share it.
    """
    from projections.report.page import html_report  # loads jinja2

    first = None if provider is None else known_provider(provider)
    with store_with(url, conversation_id) as (store, wanted):
        chat = named(store, wanted)
        path = out or Path(f"{slug(chat.id)}.html")
        if str(path) != "-":
            refuse_other_files(path, force=force)
        events = list(chat.events())
        name, permissions = chat.id, permissions_of(store.url)
    page = html_report(events, provider=first).encode()
    if str(path) == "-":
        binary_output().write(page)
        return
    with whole_file(path, permissions) as file:
        file.write(page)
    if as_json:
        print_json({"report": str(path), "conversation_id": name, "events": len(events)})
    else:
        say(f"{path} ({len(events):,} events): open {path.absolute().as_uri()}")


def refuse_other_files(path: Path, *, force: bool) -> None:
    """Raise an error if a file exists that no report was written to.

    Raises:
        ValueError: there is such a file, and `force` is false.
    """
    if force or not path.exists():
        return
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(FIRST_LINE)) == FIRST_LINE.encode():
                return
    raise ValueError(
        f"{path} exists and is no report: pass --force to write over it, or another -o"
    )
