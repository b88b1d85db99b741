"""`why`: how a conversation ended, the likely cause, and where to look."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from projections.cli.imports_on_the_way import store_with
from projections.cli.options import URL, Json, ReadId, Url, named, same_store
from projections.cli.output import clean, print_json, say
from projections.debugging.scan import scan as scanned
from projections.debugging.why import escaped
from projections.debugging.why import why as diagnosed

Scan = Annotated[
    bool,
    typer.Option("--scan", help="Also say what the scanners find: large results, long waits, ..."),
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for an issue.")]


def why(
    conversation_id: ReadId,
    url: Url = URL,
    *,
    markdown: Markdown = False,
    scan: Scan = False,
    as_json: Json = False,
) -> None:
    """Say why a conversation failed, in ten lines: how it ended, the cause, where to look."""
    with store_with(url, conversation_id) as (store, name):
        events = list(named(store, name).events())
    diagnosis = diagnosed(events)
    if diagnosis.command is not None:
        command = same_store(diagnosis.command, url)
        diagnosis = msgspec.structs.replace(diagnosis, command=command)
    findings = scanned(events) if scan else []
    if as_json:
        print_json({"why": diagnosis, "findings": findings} if scan else diagnosis)
        return
    if markdown:
        say(diagnosis.markdown() + "".join(f"- {escaped(str(each))}\n" for each in findings))
        return
    for line in (*diagnosis.lines, *map(str, findings)):
        say(clean(line, kept=""))
