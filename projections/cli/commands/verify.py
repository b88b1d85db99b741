"""`verify` and `migrate`: whether the log is whole, and which schema it has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from eventstore import (
    EventStore,
    FunctionCall,
    Recorded,
    StorageError,
    ToolApproved,
    ToolPending,
    UnknownEvent,
)
from eventstore.migrate import REVISIONS, move
from projections.cli.options import URL, Json, Url, open_store
from projections.cli.output import complain, print_json, say
from projections.fold import unreadable
from projections.text import plural
from projections.tools import CurrentTools

SHOWN = 20
"""Findings that are listed for people; `--json` has all."""

Down = Annotated[
    str | None,
    typer.Option("--down", metavar="REVISION", help="Take the schema down to it; `base` is none."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Drop the log and its events, if that is asked.")]


class Found(msgspec.Struct, frozen=True):
    """Something wrong in the log, and where."""

    problem: str
    lane: int | None = None
    position: int | None = None
    conversation_id: str | None = None
    version: int | None = None

    @property
    def order(self) -> tuple[float, float]:
        """The log's own order; what is wrong with the file as a whole comes last."""
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
    newer: Counter[str] = Counter()
    with open_store(url) as store:
        found = sorted(_found(store, newer), key=lambda item: item.order)
        events, conversations = _counted(store) if not found else (None, None)
    notes = [*_unchecked(newer), *_notes(url)]
    if as_json:
        print_json({
            "ok": not found, "first": found[0] if found else None, "found": found,
            "events": events, "conversations": conversations, "notes": notes,
        })  # fmt: skip
    elif not found:
        say(f"all is well: {events:,} events of {conversations:,} conversations")
    for note in () if as_json else notes:
        say(f"note: {note}")
    if not found:
        return
    for item in [] if as_json else found[:SHOWN]:
        say(str(item))
    if len(found) > SHOWN and not as_json:
        say(f"and {len(found) - SHOWN:,} more (--json)")
    complain(f"the log is damaged ({len(found):,} findings); the first bad event: {found[0]}")
    raise typer.Exit(1)


def _found(store: EventStore, newer: Counter[str]) -> Iterator[Found]:
    """What is wrong; `newer` counts, by conversation, the events that only newer versions read."""
    try:
        for damage in store.verify():
            lane = None if damage.lane < 0 else damage.lane
            yield Found(
                damage.problem, lane, damage.position, damage.conversation_id, damage.version
            )
        tools = CurrentTools()
        lanes: dict[str, int] = {}
        for recorded in store.read():
            name, event = recorded.conversation_id, recorded.event
            lanes[name] = recorded.lane
            if isinstance(event, UnknownEvent) and unreadable(event) and event.is_newer:
                newer[name] += 1
            if name not in newer:
                tools.apply(recorded)
            if not _is_marked(recorded):
                yield _at(recorded, "the fingerprint is not that of the call's arguments")
    except StorageError as error:  # the database itself cannot read on
        yield Found(str(error))
        return
    for anomaly in tools.anomalies:
        lane = lanes[anomaly.conversation_id]
        yield Found(
            anomaly.problem, lane, anomaly.position, anomaly.conversation_id, anomaly.version
        )


def _unchecked(newer: Counter[str]) -> Iterator[str]:
    """What could not be judged by this version."""
    if newer:
        yield (
            f"{plural(newer.total(), 'event')} of {plural(len(newer), 'conversation')} are of a "
            "newer version of toolledger; what their calls went through from there on was not "
            "checked: upgrade to check it"
        )


def _is_marked(recorded: Recorded) -> bool:
    """Whether the event that brings arguments stands under their fingerprint."""
    event = recorded.event
    if isinstance(event, ToolPending):
        call: FunctionCall | None = event.call
    else:
        call = event.edited_call if isinstance(event, ToolApproved) else None
    return call is None or recorded.fingerprint == f"x1:{call.digest().hex()}"


def _at(recorded: Recorded, problem: str) -> Found:
    return Found(
        problem, recorded.lane, recorded.position, recorded.conversation_id, recorded.version
    )


def _counted(store: EventStore) -> tuple[int, int]:
    versions = [version for _, version in store.conversations()]
    return sum(versions), len(versions)


def _notes(url: str) -> list[str]:
    from eventstore.storage.sqlite import driver, loses_rows  # noqa: PLC0415 - loads SQLAlchemy

    if not url.startswith("sqlite") or not loses_rows(driver().sqlite_version_info):
        return []
    note = (
        f"SQLite {driver().sqlite_version} can lose committed rows when several processes write "
        "to one file and one of them asks for a checkpoint; toolledger never asks, but others "
        "may: pip install 'toolledger[sqlite]' brings a SQLite without that fault"
    )
    return [note]


def migrate(down: Down = None, url: Url = URL, *, yes: Yes = False, as_json: Json = False) -> None:
    """Show the schema's revision and bring it up to date; --down takes it back."""
    if down is not None and down not in (*REVISIONS, "base"):
        known = ", ".join(("base", *REVISIONS))
        raise typer.BadParameter(f"{down!r}: pass one of {known}", param_hint="--down")
    if down is None:
        before, after = move(url)
    else:
        epoch = _refuse_loss(url, down, yes=yes)
        before, after = move(url, down)
        if after is None:
            from projections.projector.tables import forget  # noqa: PLC0415 - loads SQLAlchemy

            forget(url, epoch)
    told: dict[str, Any] = {"before": before, "revision": after, "known": REVISIONS[-1]}
    if as_json:
        print_json(told)
    elif before == after:
        say(f"the schema is at revision {after or 'none'}: nothing to do")
    else:
        say(f"the schema went from revision {before or 'none'} to {after or 'none'}")


def _refuse_loss(url: str, down: str, *, yes: bool) -> str:
    """The epoch of the log that is there, if it may go."""
    with open_store(url) as store:
        end = store.end()
    count = sum(position for _, position in end.positions)
    if down == "base" and count and not yes:
        raise ValueError(f"that drops the log with its {count:,} events: pass --yes to do it")
    return end.epoch
