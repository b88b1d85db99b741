"""`KeptMessages`: how the last request began, for the next one that begins with the same turns.

1. Messages are made turn by turn: those of the first turns depend on no later one.
2. They are kept as bytes, which no caller can change; each request gets messages of its own.
3. They are taken up where the turns are the same objects, with the same ids of calls. Otherwise the
   messages are made from the first turn on.
4. The last turns are made every time: a call of theirs may still be answered.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, TypeAlias, TypeVar

import msgspec

from eventstore.providers.model import Change, Turn

Made: TypeAlias = list[Any] | tuple[Any, ...]
"""Messages, or lists of what a request is made of: JSON values alone."""
T = TypeVar("T", bound=Made)
Ids: TypeAlias = Sequence[list[str]]
"""The ids of the calls of each turn."""
Add: TypeAlias = Callable[[T, Sequence[Turn], Ids, list[Change]], None]
"""Adds the messages of turns, with the ids of their calls; what it changes goes to the list."""

LAST_TURNS = 2
"""Turns at the end that are not kept."""
NEW_TURNS = 8
"""Turns that have to be new before more is kept, which takes all messages to bytes."""


class _Beginning(msgspec.Struct, frozen=True, gc=False):
    turns: Sequence[Turn]
    ids: Ids
    made: bytes
    changes: Sequence[Change]

    def is_of(self, turns: Sequence[Turn], ids: Ids) -> bool:
        count = len(self.turns)
        return count <= len(turns) and all(map(is_, self.turns, turns)) and self.ids == ids[:count]


class KeptMessages:
    """The beginning of the last request to one provider. Threads may share it.

    For the only request of a history it keeps nothing: `is_last`.
    """

    def __init__(self, *, is_last: bool = False) -> None:
        self._is_last = is_last
        self._beginning: _Beginning | None = None  # replaced as one

    def continued(
        self, new: T, turns: Sequence[Turn], ids: Ids, changes: list[Change], add: Add[T]
    ) -> T:
        """Return `new` with all that `add` adds for `turns`; what was changed goes to `changes`."""
        made, place, since = new, 0, len(changes)
        begun = self._beginning
        if begun is not None and begun.is_of(turns, ids):
            made, place = marshal.loads(begun.made), len(begun.turns)  # noqa: S302 - our own bytes
            changes += begun.changes
        settled = len(turns) - LAST_TURNS
        if settled - place >= NEW_TURNS and not self._is_last:
            add(made, turns[place:settled], ids[place:settled], changes)
            place = settled
            self._keep(turns[:place], ids[:place], made, changes[since:])
        add(made, turns[place:], ids[place:], changes)
        return made

    def _keep(self, turns: Sequence[Turn], ids: Ids, made: Made, changes: list[Change]) -> None:
        try:
            self._beginning = _Beginning(turns, ids, marshal.dumps(made), changes)
        except ValueError:  # a value that is not JSON, which no store holds
            self._beginning = None
