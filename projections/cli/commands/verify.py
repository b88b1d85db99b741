"""`verify`: whether the log is undamaged, and what is wrong with it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from eventstore import EventStore, PayloadsRedacted, StoreCorrupt, UnknownEvent
from projections.cli.commands.retain import FORMS
from projections.cli.commands.seal import VerifierKeys, given_keys, read_note
from projections.cli.options import URL, Json, Url, file_name, open_store
from projections.cli.output import complain, print_json, say
from projections.formatting import plural

if TYPE_CHECKING:
    from eventstore.seals import Checked

MAX_LISTED = 20
"""Findings that are listed for people; `--json` has all."""


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
        place = "the file" if self.lane is None else f"lane {self.lane}"
        if self.position is not None:
            place += f" position {self.position}"
        if self.conversation_id is not None:
            place = f"conversation {self.conversation_id!r} version {self.version}, {place}"
        return f"{place}: {self.problem}"


def verify(
    context: typer.Context,
    kept: Annotated[
        list[Path] | None,
        typer.Option(
            "--note",
            metavar="FILE",
            parser=file_name,
            help="Notes of seals, as an anchor has kept them; may be repeated.",
        ),
    ] = None,
    key: VerifierKeys = None,
    url: Url = URL,
    *,
    archives: Annotated[
        bool, typer.Option("--archives", help="Read the files of archives, too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check digests, gaps, transitions and heads; name the first bad event.

    With --note and --key the log is compared with what was sealed, which names what the writer of
    the log could hide, too.
    """
    source = context.get_parameter_source("key")
    if not kept and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter("pass --note, too: a key checks notes", param_hint="--key")
    with open_store(url) as store:
        sealed = _against_notes(store, kept, key) if kept else None
        found = sorted(_defects(store, archives=archives), key=lambda item: item.order)
        if sealed is not None:
            found += [
                LogDefect(each.problem, each.lane, each.first or None) for each in sealed.findings
            ]
        events, conversations = _counts(store) if not found else (None, None)
        notes = [
            *_unchecked(store),
            *_redacted(store),
            *_missing_archives(store),
            *_unsealed(sealed),
            *_notes(url),
        ]
    if as_json:
        print_json(
            {
                "ok": not found,
                "first": found[0] if found else None,
                "found": found,
                "events": events,
                "conversations": conversations,
                "notes": notes,
                "sealed": None if sealed is None else sealed.lanes,
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


def _against_notes(store: EventStore, files: list[Path], keys: list[str] | None) -> Checked:
    from eventstore.seals import check

    trusted = given_keys(keys)
    return check(store, "\n\n".join(map(read_note, files)), trusted)


def _unsealed(sealed: Checked | None) -> Iterator[str]:
    """Yield what the notes say, and of what they say nothing."""
    if sealed is None:
        return
    for each in sealed.lanes:
        if not each.findings:
            after = max(each.head - each.sealed, 0)
            yield (
                f"lane {each.lane} is what was sealed up to position {each.sealed:,}; "
                f"{plural(after, 'event')} after it can be checked by the chain alone"
            )
        for left in each.unproven:
            what = ", ".join(path or "the payload" for path in left.paths[:MAX_LISTED])
            yield (
                f"version {left.version} of conversation {left.conversation!r} was redacted, and "
                f"{what} is what its redaction left there: no seal proves that part"
            )
    for lane in sealed.without_note:
        yield f"no note is of lane {lane}: nothing is known of it but the chain"


def _defects(store: EventStore, *, archives: bool) -> Iterator[LogDefect]:
    """Yield what is wrong, in the form that is printed."""
    if archives:
        for each in store.verify_archives(*FORMS.values()):
            if not each.is_missing:
                yield LogDefect(f"archive {each.place}: {each.problem}")
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


def _redacted(store: EventStore) -> Iterator[str]:
    """Yield a note on what was redacted, for each person and reason."""
    redacted: defaultdict[tuple[str, str | None, str | None], set[tuple[str, int]]]
    redacted = defaultdict(set)
    with suppress(StoreCorrupt):  # the rest of the log cannot be read, which is a finding
        for page in store.read().outlines():
            for recorded in page:
                event = recorded.event
                if isinstance(event, PayloadsRedacted) and event.origin is None:
                    said = event.by, event.rule, event.reason
                    name = recorded.conversation_id
                    redacted[said] |= {(name, each.version) for each in event.payloads}
    for (by, rule, reason), events in redacted.items():
        chats = {name for name, _ in events}
        why = ", ".join(filter(None, (f"rule {rule}" if rule else "", reason)))
        yield (
            f"{plural(len(events), 'event')} of {plural(len(chats), 'conversation')} redacted by "
            f"{by}{f': {why}' if why else ''}"
        )


def _missing_archives(store: EventStore) -> Iterator[str]:
    """Yield a note on each file that was moved, or lost."""
    with suppress(StoreCorrupt):
        for each in store.verify_archives(whole=False):
            yield f"{each.place}: {each.problem}; look whether it was moved"


def _counts(store: EventStore) -> tuple[int, int]:
    versions = [version for _, version in store.conversations()]
    return sum(versions), len(versions)


def _notes(url: str) -> list[str]:
    from eventstore.engines import backend_for  # loads SQLAlchemy

    return list(backend_for(url).remarks())
