"""`why`: how a conversation ended, the likely cause, and where to look."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli.options import URL, ConversationId, Json, Url, named, open_store
from projections.cli.output import clean, print_json, say
from projections.debugging.why import why as diagnosed

Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for an issue.")]


def why(
    conversation_id: ConversationId,
    url: Url = URL,
    *,
    markdown: Markdown = False,
    as_json: Json = False,
) -> None:
    """Say why a conversation failed, in ten lines: how it ended, the cause, where to look."""
    with open_store(url) as store:
        diagnosis = diagnosed(named(store, conversation_id).events())
    if as_json:
        print_json(diagnosis)
    elif markdown:
        say(diagnosis.markdown())
    else:
        for line in diagnosis.lines:
            say(clean(line, kept=""))
