"""`replay` and `tail`: the log as it went, and as it goes on."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import Annotated, Any

import typer

from eventstore import Cursor, EventStore, Feed, Follow, Recorded
from projections.cli.options import (
    URL,
    ConversationId,
    Json,
    Url,
    existing,
    known_provider,
    open_store,
)
from projections.cli.output import clean, is_terminal, print_json_line, say
from projections.cli.reading import event_fields, event_line, tool_fields
from projections.cli.requests import request_lines
from projections.replay import WIDTH, Frame
from projections.replay import replay as replayed

Until = Annotated[int | None, typer.Option("--until", min=0, help="The last version to replay.")]
Prompt = Annotated[
    str | None,
    typer.Option("--prompt", metavar="PROVIDER", help="Also what the model would see then."),
]
Wait = Annotated[bool, typer.Option("--follow", "-f", help="Wait for news, until Ctrl-C.")]
Lines = Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last events.")]
After = Annotated[
    str | None, typer.Option("--after", metavar="CURSOR", help="All after a cursor (see --json).")
]
Every = Annotated[float, typer.Option("--every", min=0.01, help="Seconds between two looks.")]


def replay(
    conversation_id: ConversationId,
    until: Until = None,
    prompt: Prompt = None,
    url: Url = URL,
    *,
    as_json: Json = False,
) -> None:
    """Replay a conversation: each event, and what it changed.

    With --prompt, at the end: what the model would have seen then (as JSON, a last line).
    """
    if prompt is not None:
        known_provider(prompt)
    with open_store(url) as store:
        last: Frame | None = None
        events = existing(store, conversation_id).events()
        if until is not None:  # a version after it need not be read
            events = takewhile(lambda recorded: recorded.version <= until, events)
        for frame in replayed(events, until):
            last = frame
            if as_json:
                print_json_line(_fields(frame))
            else:
                say(frame.line(WIDTH if is_terminal() else None))
        if prompt is None or last is None:
            return
        arguments = last.prompt(prompt)
    if as_json:
        print_json_line({"version": last.recorded.version, "prompt": arguments})
        return
    say(f"\nwhat the model would have seen after version {last.recorded.version}:")
    for line in request_lines(arguments):
        say(line)


def _fields(frame: Frame) -> dict[str, Any]:
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
    """Show the last events of all conversations, and with --follow those that come."""
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
    """Print the last events; the cursor behind them."""
    end = store.end()
    back = lines
    while True:
        start = Cursor(end.epoch, tuple((lane, max(at - back, 0)) for lane, at in end.positions))
        feed = store.read(start)
        news = [(recorded.recorded_at, recorded, feed.cursor) for recorded in feed]
        if len(news) >= lines or not any(at for _, at in start.positions):
            break
        back *= 4  # there are other tenants' among them
    for _, recorded, cursor in sorted(news, key=lambda item: item[0])[-lines:] if lines else ():
        _print(recorded, cursor, as_json=as_json)
    return feed.cursor


def _print(recorded: Recorded, place: Feed | Follow[Cursor] | Cursor, *, as_json: bool) -> None:
    if as_json:
        cursor = place if isinstance(place, Cursor) else place.cursor
        print_json_line({**event_fields(recorded), "cursor": str(cursor)})
    else:
        say(f"{clean(recorded.conversation_id, kept='')}  {event_line(recorded)}")
