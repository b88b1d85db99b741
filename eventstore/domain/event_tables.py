"""Tables with an entry for each class of tool events: a new class is missed in none."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import get_args

from eventstore.domain.events import ToolEvent


def require_tool_event_tags(
    table: str, tags: Container[str], classes: Iterable[type[ToolEvent]] = get_args(ToolEvent)
) -> None:
    """Raise an error unless `tags`, the keys of the named table, hold every class of `ToolEvent`.

    Each module that has a table of tool events calls this when it is imported.

    Raises:
        TypeError: a class of the union has no entry in the table.
    """
    for cls in classes:
        if cls.tag not in tags:
            raise TypeError(
                f"{cls.__name__} is in the union ToolEvent and {table} has no entry for it: "
                f"add one for the tag {cls.tag!r}"
            )
