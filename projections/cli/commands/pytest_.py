"""`pytest`: a recorded run as a test, with the log as its fixture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from eventstore import Recorded
from eventstore.backup import permissions_of
from projections.cli.options import URL, ConversationId, Json, Url, file_name, named, open_store
from projections.cli.output import print_json, say, whole_file
from projections.debugging.event_lines import event_line
from projections.debugging.why import why

Folder = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FOLDER", parser=file_name, help="The folder to write both files to."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Write over files that exist.")]

_TEST = '''\
"""The run {name}, replayed from its log.

Written by `toolledger pytest`. Put your agent into `run_agent`: it gets the recorded tools in place
of the real ones, so the test needs no network and has no side effects. Look through the fixture
before you share it: it holds every argument and result of the run.
"""

from pathlib import Path

from projections import RecordedFailure, RecordedTools, load_events, model_history, why

EVENTS = load_events(Path(__file__).with_name({fixture!r}))


def run_agent(tools):
    """Make the calls of the recorded run: replace this with your agent."""
    for call in RecordedTools(EVENTS).calls:
        if not call.has_end:
            break  # the recorded run stopped here
        try:
            tools[call.name](**call.arguments)
        except RecordedFailure:
            pass


def test_the_agent_makes_the_recorded_calls():
    """A call that the log does not answer is a divergence; the message shows the difference."""
    with RecordedTools(EVENTS) as tools:
        run_agent(tools)
    assert [call for call in tools.unused if call.has_end] == []


def test_the_cause_is_known():
    """The log names its cause; change this when the run is expected to end otherwise."""
    assert why(EVENTS).look_at == {look_at!r}


def test_the_next_prompt_can_be_made():
    """The history of the run is rendered to a request."""
    assert model_history(EVENTS).render("openai")["messages"]
'''


def test_source(name: str, fixture: str, events: list[Recorded]) -> str:
    """Return the source of the test."""
    shown = ascii(name).replace('"', "'")
    return _TEST.format(name=shown, fixture=fixture, look_at=why(events).look_at)


def pytest_(
    conversation_id: ConversationId,
    folder: Folder = Path(),
    url: Url = URL,
    *,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a test that replays a conversation with recorded tools, and its fixture."""
    with open_store(url) as store:
        chat = named(store, conversation_id)
        events = list(chat.events())
        name, permissions = chat.id, permissions_of(store.url)
    slug = re.sub(r"\W+", "_", name).strip("_").lower() or "run"
    fixture, test = folder / f"{slug}.jsonl", folder / f"test_{slug}.py"
    for path in (fixture, test):
        if path.exists() and not force:
            raise ValueError(f"{path} exists: pass --force to write over it, or another --out")
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(fixture, permissions) as file:
        file.writelines(event_line(recorded) + b"\n" for recorded in events)
    test.write_text(test_source(name, fixture.name, events), encoding="utf-8")
    if as_json:
        print_json({"test": str(test), "fixture": str(fixture), "events": len(events)})
    else:
        say(f"{test} and {fixture} ({len(events):,} events): run `pytest {test}`")
