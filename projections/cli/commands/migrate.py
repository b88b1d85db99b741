"""`migrate`: the revision of the schema, and the partitions of the tables."""

from __future__ import annotations

from typing import Annotated

import typer

from eventstore.migrate import REVISIONS, move, partition
from projections.cli.options import URL, Json, Url, open_store, progress_bar
from projections.cli.output import print_json, say
from projections.formatting import plural

Down = Annotated[
    str | None,
    typer.Option(
        "--down", metavar="REVISION", help="Take the schema down to this revision; `base` drops it."
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Confirm that the log and its events may be dropped.")
]
Partitions = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="COUNT",
        help="Put a server's events into so many partitions by lane; 1 is one table again.",
    ),
]


def migrate(
    down: Down = None,
    partitions: Partitions = None,
    url: Url = URL,
    *,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Bring the schema up to date and show its revision; --down takes it back."""
    if partitions is not None:
        _partition(url, partitions, down, as_json=as_json)
        return
    if down is not None and down not in (*REVISIONS, "base"):
        known = ", ".join(("base", *REVISIONS))
        raise typer.BadParameter(f"{down!r}: pass one of {known}", param_hint="--down")
    if down is None:
        with progress_bar("migrating") as show:
            before, after = move(url, progress=show)
    else:
        epoch = _refuse_loss(url, down, yes=yes)
        with progress_bar("migrating") as show:
            before, after = move(url, down, show)
        if after is None:
            from projections.projector.database import forget  # loads SQLAlchemy

            forget(url, epoch)
    if as_json:
        print_json({"before": before, "revision": after, "known": REVISIONS[-1]})
    elif before == after:
        say(f"the schema is at revision {after or 'none'}: nothing to do")
    else:
        say(f"the schema went from revision {before or 'none'} to {after or 'none'}")


def _partition(url: str, count: int, down: str | None, *, as_json: bool) -> None:
    if down is not None:
        raise typer.BadParameter("pass it without --down", param_hint="--partitions")
    before = partition(url, count)
    if as_json:
        print_json({"before": before, "partitions": count})
    elif before == count:
        say(f"the events are in {plural(count, 'partition')}: nothing to do")
    else:
        say(f"the events went from {plural(before, 'partition')} to {count}")


def _refuse_loss(url: str, down: str, *, yes: bool) -> str:
    """Return the epoch of the log, after checking that its events may be dropped."""
    with open_store(url) as store:
        end = store.end()
    count = sum(position for _, position in end.positions)
    if down == "base" and count and not yes:
        raise ValueError(f"this deletes the log with its {count:,} events: pass --yes to do it")
    return end.epoch
