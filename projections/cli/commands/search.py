"""`search`: the events of all conversations that say a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from eventstore import EventStore, Recorded
from projections.cli.commands.show import event_fields, event_line
from projections.cli.options import URL, Json, Rebuild, Tables, Url, caught_up, open_store
from projections.cli.output import clean, complain, print_json_line, say
from projections.debugging.event_filter import EventFilter

BEFORE_CHARACTERS, AFTER_CHARACTERS = 60, 140
"""How much of an event's line is shown around the text."""

SearchedText = Annotated[str, typer.Argument(metavar="TEXT", help="The text, in any case.")]
MaxFound = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most N events.")]


def search(
    text: SearchedText,
    limit: MaxFound = 100,
    tables: Tables = None,
    url: Url = URL,
    *,
    rebuild: Rebuild = False,
    as_json: Json = False,
) -> None:
    """Search all conversations for a text; the status is 1 if none has it.

    The log is read, or with --tables its index there, which is brought up to date first.
    """
    if not text:
        raise typer.BadParameter("'': pass a text that is not empty", param_hint="TEXT")
    if tables is None and rebuild:
        raise typer.BadParameter("--rebuild needs --tables: pass a database's URL")
    found = 0
    with open_store(url) as store:
        if tables is None:
            events = EventFilter(grep=re.escape(text)).select(store.read())
        else:
            events = _find_in_tables(store, tables, text, rebuild=rebuild)
        for recorded in islice(events, limit):
            found += 1
            if as_json:
                print_json_line(event_fields(recorded))
            else:
                line = excerpt(event_line(recorded, whole=True), text)
                say(f"{clean(recorded.conversation_id, kept='')}  {line}")
        if next(iter(events), None) is not None:
            complain(f"there are more than {limit:,}: pass a longer text, or --limit")
    if not found:
        complain(f"no event has {text!r}: pass a shorter text, or look elsewhere with --url")
        raise typer.Exit(1)


def _find_in_tables(
    store: EventStore, tables: str, text: str, *, rebuild: bool
) -> Iterator[Recorded]:
    """Yield the events that the search index at `tables` names."""
    from projections.search import TextSearch  # loads SQLAlchemy

    index = TextSearch()
    with caught_up(store, tables, search=index, rebuild=rebuild) as projector:
        for found in index.find(projector, text):
            events = store.conversation(found.conversation_id).events(after=found.version - 1)
            yield from islice(events, 1)


def excerpt(line: str, text: str) -> str:
    """Return the beginning of an event's line, and what stands around the text in it.

    A text that the line does not show, since it is in a part that is left out there, gives the
    beginning alone.
    """
    whole = BEFORE_CHARACTERS + AFTER_CHARACTERS
    if len(line) <= whole:
        return line
    found = re.search(re.escape(text), line, re.IGNORECASE)
    place = found.start() if found else 0
    begin, end = place - BEFORE_CHARACTERS, place + len(text) + AFTER_CHARACTERS
    rest = "…" if end < len(line) else ""
    if begin <= BEFORE_CHARACTERS:
        return f"{line[: max(end, whole)]}{rest}"
    return f"{line[:BEFORE_CHARACTERS]}… …{line[begin:end]}{rest}"
