"""`migrate`: the revision of the schema, and where its tables are: partitions, nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from eventstore import NotAStore
from eventstore.migrate import REVISIONS, distribute, inspect, move, partition, undistribute
from projections.cli.options import URL, Json, Url, progress_bar
from projections.cli.output import print_json, say
from projections.formatting import plural

TO_BE_UPGRADED = 3
"""The exit status of `--check` where an upgrade is to be made; 1 is for an error."""

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
Lanes = Annotated[
    int | None,
    typer.Option(
        "--lanes",
        metavar="COUNT",
        help="Make a new store on a server with so many lanes (16 if not said).",
    ),
]
Distributed = Annotated[
    bool | None,
    typer.Option(
        "--distribute/--undistribute",
        help="Spread the tables over the nodes of a Citus cluster by lane, or bring them back.",
    ),
]
Shards = Annotated[
    int | None,
    typer.Option(
        "--shards",
        metavar="COUNT",
        help="With --distribute: how many shards, in place of what gives nodes equal shares.",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help=f"Change nothing; exit with {TO_BE_UPGRADED} where an upgrade is to be made.",
    ),
]


def migrate(  # noqa: PLR0913 - each is an option
    down: Down = None,
    partitions: Partitions = None,
    lanes: Lanes = None,
    distributed: Distributed = None,
    shards: Shards = None,
    url: Url = URL,
    *,
    yes: Yes = False,
    check: Check = False,
    as_json: Json = False,
) -> None:
    """Bring the schema up to date and show its revision; --down takes it back."""
    _refuse_together(
        {
            "--check": check or None,
            "--down": down,
            "--partitions": partitions,
            "--lanes": lanes,
            "--undistribute" if distributed is False else "--distribute": distributed,
        }
    )
    if shards is not None and not distributed:
        raise typer.BadParameter("pass it with --distribute", param_hint="--shards")
    if check:
        _check(url, as_json=as_json)
        return
    if partitions is not None:
        _partition(url, partitions, as_json=as_json)
        return
    if distributed is not None:
        _distribute(url, shards, there=distributed, as_json=as_json)
        return
    if down is not None and down not in (*REVISIONS, "base"):
        known = ", ".join(("base", *REVISIONS))
        raise typer.BadParameter(f"{down!r}: pass one of {known}", param_hint="--down")
    if down is None:
        with progress_bar("migrating") as show:
            before, after = move(url, progress=show, lanes=lanes)
    else:
        epoch = _refuse_loss(url, down, yes=yes)
        with progress_bar("migrating") as show:
            before, after = move(url, down, show)
        if after is None and epoch is not None:
            from projections.projector.database import forget  # loads SQLAlchemy

            forget(url, epoch)
    if as_json:
        print_json({"before": before, "revision": after, "known": REVISIONS[-1]})
    elif before == after:
        say(f"the schema is at revision {after or 'none'}: nothing to do")
    else:
        say(f"the schema went from revision {before or 'none'} to {after or 'none'}")


def _refuse_together(options: Mapping[str, object]) -> None:
    """Refuse options of which each says what to do, if several are given."""
    first, *others = [name for name, value in options.items() if value is not None] or [""]
    if others:
        raise typer.BadParameter(f"pass it without {first}", param_hint=others[0])


def _check(url: str, *, as_json: bool) -> None:
    state = inspect(url)
    if as_json:
        print_json(
            {
                "revision": state.revision,
                "known": state.latest,
                "current": state.is_current,
                "broken_off": state.is_broken_off,
                "events": state.events,
                "steps": list(state.steps),
            }
        )
    elif state.is_current:
        say(f"the schema is at revision {state.revision}: nothing to do")
    else:
        begun = "; a migration runs, or was broken off" if state.is_broken_off else ""
        at = f"the schema is at revision {state.revision or 'none'}"
        if state.steps:
            at = f"{at} and {state.latest} is needed"
        say(f"{at}, with {plural(state.events, 'event')}{begun}: run `toolledger migrate`")
        for step in state.steps:
            say(f"  {step}")
    if not state.is_current:
        raise typer.Exit(TO_BE_UPGRADED)


def _partition(url: str, count: int, *, as_json: bool) -> None:
    with progress_bar("copying") as show:
        before = partition(url, count, show)
    if as_json:
        print_json({"before": before, "partitions": count})
    elif before == count:
        say(f"the events are in {plural(count, 'partition')}: nothing to do")
    else:
        say(f"the events went from {plural(before, 'partition')} to {count}")


def _distribute(url: str, shards: int | None, *, there: bool, as_json: bool) -> None:
    if there:
        with progress_bar("distributing") as show:
            moved = distribute(url, shards, show)
        place = "spread over the nodes of the cluster"
    else:
        with progress_bar("copying") as show:
            moved = undistribute(url, show)
        place = "together on the coordinator"
    if as_json:
        print_json({"distributed": there, "moved": moved})
    elif moved:
        say(f"the tables are {place} now")
    else:
        say(f"the tables are {place}: nothing to do")


def _refuse_loss(url: str, down: str, *, yes: bool) -> str | None:
    """Return the epoch of the log, after checking that its events may be dropped.

    Nothing is upgraded for that, and the log may be damaged.
    """
    state = inspect(url)
    if state.revision is None:
        raise NotAStore(
            f"{state.database} holds no store: name another database, with --url or TOOLLEDGER_URL"
        )
    if down == "base" and state.events and not yes:
        raise ValueError(
            f"this deletes the log with its {plural(state.events, 'event')}: pass --yes to do it"
        )
    return state.epoch
