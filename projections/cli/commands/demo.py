"""`toolledger demo`: a real agent loop over small real tools, and what the log says about it."""

from __future__ import annotations

import tempfile
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

from eventstore import Conversation, EventStore
from projections.cli.options import Json, file_name, open_store, tenant
from projections.cli.output import print_json, say
from projections.demo.facts import facts_of, tell
from projections.demo.story import Demo, Story

Keep = Annotated[
    Path | None,
    typer.Option("--keep", metavar="PATH", parser=file_name, help="Keep the log, in this file."),
]
DemoUrl = Annotated[
    str | None, typer.Option("--url", help="Keep the log, in this store. [default: keep nothing]")
]


def demo(keep: Keep = None, url: DemoUrl = None, *, as_json: Json = False) -> None:
    """Run an agent offline: success, retry, approval, rejection, kill -9, resume."""
    if keep is not None and url is not None:
        raise typer.BadParameter(
            "--keep and --url exclude each other: pass one of them", param_hint="--keep"
        )
    with tempfile.TemporaryDirectory(prefix="toolledger-demo-") as folder:
        place = url or f"sqlite:///{(keep or Path(folder) / 'demo.db').absolute()}"
        with open_store(place, create=True) as store:
            chat = store.conversation(_unused_id(store))
            story = Story(_keep_silent if as_json else say)
            played = Demo(chat, place, tenant.get(), Path(folder) / "books.jsonl", story)
            played.run()
            facts = facts_of(chat, played.toolbox.needs_approval_for, played.repairs)
            if as_json:
                print_json(facts)
                return
            tell(facts, story)
            page = _write_report(chat)
    if keep or url:
        from eventstore.engines import shown_url  # loads SQLAlchemy, as the store has

        say(f"\nThe log is kept: toolledger replay {chat.id} --url {shown_url(place)}")
    say(f"\nOpen its report: python -m webbrowser -t {page.as_uri()}")


def _keep_silent(_text: str, _style: str) -> None:
    """Print nothing: JSON is all that is wanted."""


def _write_report(chat: Conversation) -> Path:
    """Write the report of a conversation to a file for temporary files."""
    from projections.report.page import html_report  # loads jinja2

    name = f"toolledger-{chat.id}-"
    with tempfile.NamedTemporaryFile(prefix=name, suffix=".html", delete=False) as file:
        file.write(html_report(chat.events()).encode())
    return Path(file.name)


def _unused_id(store: EventStore) -> str:
    taken = {name for name, _ in store.conversations()}
    names = chain(["demo"], (f"demo-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)
