"""`erase`: forgetting a person, in all conversations of all tenants."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
import typer

from eventstore import ErasedConversation, Erasure, EventStore
from projections.cli.commands.redact import kept_notes
from projections.cli.options import (
    SECRET,
    URL,
    Json,
    Url,
    open_store,
    subject_and_secret,
)
from projections.cli.output import print_json, say
from projections.formatting import plural

BUILT_IN = re.compile(r"[a-z,]+")
"""The name of the built-in projections: their views. Others have a version behind an @."""


class Derived(msgspec.Struct, frozen=True):
    """A table of what was derived from the log, and how many events it is behind."""

    tables: str
    projection: str
    tenant: str
    behind: int


def erase(  # noqa: PLR0913 - the options of the command
    subject: Annotated[
        str, typer.Argument(metavar="SUBJECT", help="Whom events are about; - reads it from stdin.")
    ],
    *,
    secret: Annotated[str, SECRET],
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="The person who erases.")],
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is stored.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEXT", help="Take this text out of all other events, too."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="REGEX", help="As --text: what an expression finds."),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", metavar="URL", help="Where projections are kept, too; repeated."),
    ] = None,
    archives_are_gone: Annotated[
        bool,
        typer.Option("--archives-are-gone", help="The archives that were named are destroyed."),
    ] = False,
    url: Url = URL,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be erased, and do nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Redact all events about a person, and name what is left; the status is 1 if anything is.

    The events are found by the tags that they were appended with. With TOOLLEDGER_KEYS, a file of
    keys, the person's key is destroyed, too. A run that was ended in the middle is repeated.
    """
    sought = _sought(text, pattern)
    named, opened = subject_and_secret(subject, secret)
    with open_store(url, subjects=opened) as store:
        done = store.erase_subject(
            named,
            by=by,
            reason=reason,
            text=sought,
            archives_are_gone=archives_are_gone,
            dry_run=dry_run,
        )
        derived = [] if dry_run else list(_caught_up(store, url, done, tables or []))
    if as_json:
        print_json({**msgspec.to_builtins(done), "derived": msgspec.to_builtins(derived)})
    else:
        _tell(done, derived, dry_run=dry_run)
    if not dry_run and (not done.is_complete or any(each.behind for each in derived)):
        raise typer.Exit(1)


def _sought(text: str | None, pattern: str | None) -> str | re.Pattern[str]:
    if text is not None and pattern is not None:
        raise typer.BadParameter("pass --text or --pattern, not both")
    if pattern is None:
        return text or ""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise typer.BadParameter(f"{pattern!r} is no expression: {error}") from error


def _caught_up(store: EventStore, url: str, done: Erasure, tables: list[str]) -> list[Derived]:
    """Let the projections follow that this program has; return how far each one is."""
    derived: list[Derived] = []
    for tenant in sorted({each.tenant for each in done.conversations}):
        if tenant == store.tenant:
            derived += _followed(store, [store.url, *tables])
        else:
            with open_store(url, of_tenant=tenant) as other:
                derived += _followed(other, [other.url, *tables])
    return derived


def _followed(store: EventStore, places: list[str]) -> list[Derived]:
    from eventstore.engines import shown_url  # loads SQLAlchemy, as the store has
    from projections.projector import Projector
    from projections.projector.database import kept_projections
    from projections.search import TextSearch

    derived: list[Derived] = []
    for place in places:
        end = store.end()
        for kept in kept_projections(place, end.epoch, store.tenant):
            if BUILT_IN.fullmatch(kept.name):
                with Projector(store, place) as projector:
                    projector.catch_up()
            elif kept.name.startswith(f"{TextSearch.name}@"):
                with Projector(store, place, views=(), projections=[TextSearch()]) as projector:
                    projector.catch_up()
        ends = dict(store.end().positions)
        for kept in kept_projections(place, end.epoch, store.tenant):
            behind = sum(at - kept.positions.get(lane, 0) for lane, at in ends.items())
            derived.append(Derived(shown_url(place), kept.name, store.tenant, max(behind, 0)))
    return derived


def _tell(done: Erasure, derived: list[Derived], *, dry_run: bool) -> None:
    if not done.conversations:
        say("no event is about that subject: nothing was erased")
    for each in done.conversations:
        _tell_of(each, dry_run=dry_run)
    for found in derived:
        where = f"{found.projection} in {found.tables}"
        if found.behind:
            say(f"note: {where} is {plural(found.behind, 'event')} behind: run your projector")
        else:
            say(f"{where} has followed")
    for text in done.remains:
        say(f"note: {text}")


def _tell_of(each: ErasedConversation, *, dry_run: bool) -> None:
    where = repr(each.conversation_id) + (f" of tenant {each.tenant!r}" if each.tenant else "")
    if each.archive is not None:
        say(f"note: {where} is archived, and was left: {each.archive}")
    if each.damage is not None:
        say(f"note: {where} is damaged, and was left: {each.damage}")
    if each.archive is not None or (each.damage is not None and not each.versions):
        return
    said = "would be erased" if dry_run else "erased"
    versions = ", ".join(map(str, each.versions))
    say(f"{plural(len(each.versions), 'event')} of {where} {said}: version {versions}")
    if each.shared:
        shared = ", ".join(map(str, each.shared))
        say(f"note: these were about others, too: version {shared}")
    if each.guessable:
        older = ", ".join(map(str, each.guessable))
        say(f"note: of an older version, without salts: guesses can be confirmed ({older})")
    for call_id, state in each.left.items():
        say(f"note: call {call_id!r} is {state}, and was left")
    for note in kept_notes(each.kept):
        say(f"note: {note}")
