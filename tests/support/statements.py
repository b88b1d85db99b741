"""Moments within a transaction: what happens before or after a statement that SQLAlchemy sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

FIRST_OF_A_BATCH = "UPDATE toolledger_checkpoints SET position"
LAST_OF_A_BATCH = "UPDATE toolledger_checkpoints SET totals"
"""What the statements begin with between which a projector writes the rows of a batch."""

Hook = Callable[[str, Any], object]
"""Takes a statement and its parameters; it may raise."""


@contextmanager
def before_statements(hook: Hook) -> Iterator[None]:
    """Call a hook before each statement, of any engine."""
    with _listening("before_cursor_execute", hook):
        yield


@contextmanager
def after_statements(hook: Hook) -> Iterator[None]:
    """Call a hook after each statement, of any engine."""
    with _listening("after_cursor_execute", hook):
        yield


@contextmanager
def overtaken(part: str, overtake: Callable[[], int]) -> Iterator[list[int]]:
    """Let another writer overtake once, after the first statement that contains `part`.

    Yield a list that gets what `overtake` returns, which is how many events it applied.
    """
    applied: list[int] = []
    begun = False

    def hook(statement: str, _: Any) -> None:
        nonlocal begun
        if part in statement and not begun:
            begun = True  # the statements of `overtake` come here, too
            applied.append(overtake())

    with after_statements(hook):
        yield applied


@contextmanager
def _listening(moment: str, hook: Hook) -> Iterator[None]:
    def listen(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        hook(statement, parameters)

    event.listen(Engine, moment, listen)
    try:
        yield
    finally:
        event.remove(Engine, moment, listen)
