"""`diff`: what a second run did otherwise."""

from __future__ import annotations

from typing import Annotated

import typer

from projections.cli.options import URL, Json, Url, named, open_store
from projections.cli.output import print_json, say
from projections.debugging.log_diff import diff as compared

Before = Annotated[str, typer.Argument(metavar="ID", help="The first conversation's id.")]
After = Annotated[str, typer.Argument(metavar="OTHER", help="The second conversation's id.")]


def diff(before: Before, after: After, url: Url = URL, *, as_json: Json = False) -> None:
    """Compare the calls of two conversations; the status is 1 if they differ."""
    with open_store(url) as store:
        found = compared(named(store, before).events(), named(store, after).events())
    if as_json:
        print_json(found)
    else:
        say(str(found))
    if found:
        raise typer.Exit(1)
