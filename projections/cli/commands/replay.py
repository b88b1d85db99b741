"""`replay` and `tail`: a conversation from its start, and the latest events of the log."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import takewhile
from typing import Annotated

import typer

from eventstore import Cursor, EventStore, Feed, Follow, Recorded
from eventstore.domain.json_types import JsonObject
from projections.cli.commands.show import event_fields, event_line, tool_fields
from projections.cli.event_filters import Limit, Page, filtered
from projections.cli.imports_on_the_way import store_with
from projections.cli.options import (
    URL,
    Json,
    ReadId,
    Url,
    known_provider,
    named,
    open_store,
    seconds,
)
from projections.cli.output import clean, is_terminal, print_json_line, say
from projections.debugging.event_filter import EventFilter
from projections.debugging.request_outline import request_lines
from projections.replay import SHOWN_CHARACTERS, Frame
from projections.replay import replay as replayed

Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt", metavar="PROVIDER", help="Also show what the model would have seen then."
    ),
]
Wait = Annotated[bool, typer.Option("--follow", "-f", help="Wait for new events, until Ctrl-C.")]
Lines = Annotated[
    int, typer.Option("--lines", "-n", min=0, help="How many of the last events to show.")
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="CURSOR", help="Show all events after a cursor (see --json)."),
]
Every = Annotated[
    float,
    typer.Option("--every", metavar="SECONDS", parser=seconds, help="The time between two polls."),
]


@filtered()
def replay(
    conversation_id: ReadId,
    prompt: Prompt = None,
    limit: Limit = None,
    url: Url = URL,
    *,
    chosen: EventFilter,
    as_json: Json = False,
) -> None:
    """Replay a conversation: each event, and what it changed.

    With --prompt, at the end: what the model would have seen then (as JSON, a last line).
    """
    provider = known_provider(prompt) if prompt is not None else None
    with store_with(url, conversation_id) as (store, name):
        chat = named(store, name)
        events: Iterable[Recorded] = chat.events()
        events = takewhile(lambda recorded: not chosen.is_over(recorded), events)
        versions: set[int] | None = None
        if chosen:
            events = list(events)
            versions = {recorded.version for recorded in chosen.select(events)}
        last: Frame | None = None
        page = Page(limit)
        for frame in replayed(events):
            last = frame
            if versions is None or frame.recorded.version in versions:
                _print_frame(frame, page, as_json=as_json)
        page.close(chat.version)
        if provider is None or last is None:
            return
        arguments = last.prompt(provider)
    if as_json:
        print_json_line({"version": last.recorded.version, "prompt": arguments})
        return
    say(f"\nwhat the model would have seen after version {last.recorded.version}:")
    for line in request_lines(arguments):
        say(line)


def _print_frame(frame: Frame, page: Page, *, as_json: bool) -> None:
    if not page.takes(frame.recorded):
        return
    if as_json:
        print_json_line(_fields(frame))
    else:
        say(frame.line(SHOWN_CHARACTERS if is_terminal() else None))


def _fields(frame: Frame) -> JsonObject:
    return {
        **event_fields(frame.recorded),
        "before": tool_fields(frame.before) if frame.before else None,
        "after": tool_fields(frame.after) if frame.after else None,
        "anomalies": [anomaly.problem for anomaly in frame.anomalies],
    }


def tail(
    lines: Lines = 10,
    after: After = None,
    every: Every = 0.5,
    url: Url = URL,
    *,
    follow: Wait = False,
    as_json: Json = False,
) -> None:
    """Show the last events of all conversations, and with --follow the new ones too."""
    with open_store(url) as store:
        cursor = _last(store, lines, as_json=as_json) if after is None else Cursor.parse(after)
        if after is None and not follow:
            return
        sys.stdout.flush()
        feed = store.follow(cursor, poll=every) if follow else store.read(cursor)
        for recorded in feed:
            _print(recorded, feed, as_json=as_json)
            if follow:
                sys.stdout.flush()


def _last(store: EventStore, lines: int, *, as_json: bool) -> Cursor:
    """Print the last events, and return the cursor after them."""
    end = store.end()
    back = lines
    while True:
        start = Cursor(end.epoch, tuple((lane, max(at - back, 0)) for lane, at in end.positions))
        feed = store.read(start)
        found = [(recorded.recorded_at, recorded, feed.cursor) for recorded in feed]
        if len(found) >= lines or not any(at for _, at in start.positions):
            break
        back *= 4  # the lanes hold events of other tenants, too
    for _, recorded, cursor in sorted(found, key=lambda item: item[0])[-lines:] if lines else ():
        _print(recorded, cursor, as_json=as_json)
    return feed.cursor


def _print(recorded: Recorded, place: Feed | Follow[Cursor] | Cursor, *, as_json: bool) -> None:
    if as_json:
        cursor = place if isinstance(place, Cursor) else place.cursor
        print_json_line({**event_fields(recorded), "cursor": str(cursor)})
    else:
        say(f"{clean(recorded.conversation_id, kept='')}  {event_line(recorded)}")
