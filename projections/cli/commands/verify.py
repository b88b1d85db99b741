"""`verify` and `migrate`: whether the log is undamaged, and the revision of its schema."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import msgspec
import typer

from eventstore import EventStore, StoreCorrupt, UnknownEvent
from eventstore.migrate import REVISIONS, move
from projections.cli.options import URL, Json, Url, open_store, progress_bar
from projections.cli.output import complain, print_json, say
from projections.formatting import plural

MAX_LISTED = 20
"""Findings that are listed for people; `--json` has all."""

Down = Annotated[
    str | None,
    typer.Option(
        "--down", metavar="REVISION", help="Take the schema down to this revision; `base` drops it."
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Confirm that the log and its events may be dropped.")
]


class LogDefect(msgspec.Struct, frozen=True):
    """Something wrong in the log, and where."""

    problem: str
    lane: int | None = None
    position: int | None = None
    conversation_id: str | None = None
    version: int | None = None

    @property
    def order(self) -> tuple[float, float]:
        """The order of the log; defects of the database as a whole come last."""
        return (
            math.inf if self.lane is None else self.lane,
            math.inf if self.position is None else self.position,
        )

    def __str__(self) -> str:
        place = "the file" if self.lane is None else f"lane {self.lane} position {self.position}"
        if self.conversation_id is not None:
            place = f"conversation {self.conversation_id!r} version {self.version}, {place}"
        return f"{place}: {self.problem}"


def verify(url: Url = URL, *, as_json: Json = False) -> None:
    """Check digests, gaps, transitions and heads; name the first bad event."""
    with open_store(url) as store:
        found = sorted(_defects(store), key=lambda item: item.order)
        events, conversations = _counts(store) if not found else (None, None)
        notes = [*_unchecked(store), *_notes(url)]
    if as_json:
        print_json(
            {
                "ok": not found,
                "first": found[0] if found else None,
                "found": found,
                "events": events,
                "conversations": conversations,
                "notes": notes,
            }
        )
    elif not found:
        say(f"all is well: {events:,} events of {conversations:,} conversations")
    for note in () if as_json else notes:
        say(f"note: {note}")
    if not found:
        return
    for item in [] if as_json else found[:MAX_LISTED]:
        say(str(item))
    if len(found) > MAX_LISTED and not as_json:
        say(f"and {len(found) - MAX_LISTED:,} more (--json)")
    complain(f"the log is damaged ({len(found):,} findings); the first bad event: {found[0]}")
    raise typer.Exit(1)


def _defects(store: EventStore) -> Iterator[LogDefect]:
    """Yield what is wrong, in the form that is printed."""
    for found in store.verify():
        lane = None if found.lane < 0 else found.lane
        yield LogDefect(found.problem, lane, found.position, found.conversation_id, found.version)


def _unchecked(store: EventStore) -> Iterator[str]:
    """Yield a note on what this version cannot check: events that only newer versions can read."""
    newer: Counter[str] = Counter()
    with suppress(StoreCorrupt):  # the rest of the log cannot be read, which is a finding
        for page in store.read().outlines():
            for recorded in page:
                event = recorded.event
                if isinstance(event, UnknownEvent) and event.problem and event.is_newer:
                    newer[recorded.conversation_id] += 1
    if newer:
        yield (
            f"{plural(newer.total(), 'event')} of {plural(len(newer), 'conversation')} are of a "
            "newer version of toolledger; what their calls went through from there on was not "
            "checked: upgrade to check it"
        )


def _counts(store: EventStore) -> tuple[int, int]:
    versions = [version for _, version in store.conversations()]
    return sum(versions), len(versions)


def _notes(url: str) -> list[str]:
    from eventstore.engines import backend_for  # loads SQLAlchemy

    return list(backend_for(url).driver_problems())


def migrate(down: Down = None, url: Url = URL, *, yes: Yes = False, as_json: Json = False) -> None:
    """Bring the schema up to date and show its revision; --down takes it back."""
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


def _refuse_loss(url: str, down: str, *, yes: bool) -> str:
    """Return the epoch of the log, after checking that its events may be dropped."""
    with open_store(url) as store:
        end = store.end()
    count = sum(position for _, position in end.positions)
    if down == "base" and count and not yes:
        raise ValueError(f"this deletes the log with its {count:,} events: pass --yes to do it")
    return end.epoch
