"""Projections in tables: brought up to date, then read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventstore import EventStore
from projections.cli.output import console

if TYPE_CHECKING:
    from projections.projector import Projector

Tables = Annotated[
    str | None,
    typer.Option(
        "--tables", metavar="URL", help="Keep up projections there, and read those: long logs."
    ),
]
Rebuild = Annotated[
    bool, typer.Option("--rebuild", help="Build what is in --tables anew, as after an upgrade.")
]


@contextmanager
def kept_up(store: EventStore, tables: str, *, rebuild: bool = False) -> Iterator[Projector]:
    """The projections of a store in the database at `tables`, up to the log's end.

    With `rebuild` they are built anew.
    """
    from projections.projector import Projector  # noqa: PLC0415 - loads SQLAlchemy

    try:
        projector = Projector(store, tables)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--tables") from error
    with projector:
        with _bar() as step:
            (projector.rebuild if rebuild else projector.catch_up)(step)
        yield projector


@contextmanager
def _bar() -> Iterator[Callable[[Any], None]]:
    """A function that shows how far a projection is: a bar, where there is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import Progress  # noqa: PLC0415 - slow to load

    with Progress(console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("projecting", total=None)
        yield lambda at: progress.update(task, completed=at.done, total=at.total)
