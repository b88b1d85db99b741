"""`KeptMessages`: how the last request began, for the next one that begins with the same turns.

1. Messages are made turn by turn: the messages of the first turns depend on no later one.
2. A copy is kept, which no caller has; each request gets messages of its own.
3. They are taken up, with the ids of their calls, where the turns are the same objects. Otherwise
   the messages are made from the first turn on.
4. The last turns are made every time: a call of theirs may still be answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, TypeAlias, TypeVar

import msgspec

from eventstore.providers.json_values import copy_json
from eventstore.providers.model import Change, Turn

Made: TypeAlias = list[Any] | tuple[Any, ...]
"""Messages, or lists of what a request is made of: JSON values alone."""
T = TypeVar("T", bound=Made)
Ids: TypeAlias = Sequence[list[str]]
"""The ids of the calls of each turn."""
Name: TypeAlias = Callable[[Sequence[Turn], Ids, list[Change]], Ids]
"""Returns the ids of turns that follow others, whose ids are given; see `Add` for the list."""
Add: TypeAlias = Callable[[T, Sequence[Turn], Ids, list[Change]], None]
"""Adds the messages of turns, with the ids of their calls; what it changes goes to the list."""

LAST_TURNS = 2
"""Turns at the end that are not kept."""
NEW_TURNS = 3
"""Turns that have to be new before more is kept, which copies all messages."""


class _Beginning(msgspec.Struct, frozen=True, gc=False):
    turns: Sequence[Turn]
    ids: Ids
    made: Any
    """A copy of the messages, of the type that `continued` was given."""
    of_ids: Sequence[Change]
    """What was changed in ids."""
    of_messages: Sequence[Change]

    def is_of(self, turns: Sequence[Turn]) -> bool:
        return len(self.turns) <= len(turns) and all(map(is_, self.turns, turns))


class KeptMessages:
    """The beginning of the last request to one provider. Threads may share it.

    For the only request of a history it keeps nothing: `is_last`.
    """

    def __init__(self, *, is_last: bool = False) -> None:
        self._is_last = is_last
        self._beginning: _Beginning | None = None  # replaced as one

    def continued(
        self, new: T, turns: Sequence[Turn], changes: list[Change], name: Name, add: Add[T]
    ) -> T:
        """Return `new` with all that `add` adds for `turns`, whose calls `name` gives their ids.

        What was changed goes to `changes`: first that of the ids, then that of the messages.
        """
        made, done = new, 0
        ids: Ids = []
        of_ids: list[Change] = []
        of_messages: list[Change] = []
        begun = self._beginning
        if begun is not None and begun.is_of(turns):
            made, done = copy_json(begun.made), len(begun.turns)
            ids, of_ids, of_messages = begun.ids, [*begun.of_ids], [*begun.of_messages]
        settled = len(turns) - LAST_TURNS
        if settled - done >= NEW_TURNS and not self._is_last:
            some = turns[done:settled]
            own = name(some, ids, of_ids)
            add(made, some, own, of_messages)
            done, ids = settled, [*ids, *own]
            self._keep(turns[:done], ids, made, of_ids, of_messages)
        last = turns[done:]
        add(made, last, name(last, ids, of_ids), of_messages)
        changes += of_ids
        changes += of_messages
        return made

    def _keep(
        self,
        turns: Sequence[Turn],
        ids: Ids,
        made: Made,
        of_ids: list[Change],
        of_messages: list[Change],
    ) -> None:
        try:
            self._beginning = _Beginning(turns, ids, copy_json(made), [*of_ids], [*of_messages])
        except (TypeError, RecursionError):  # a value that is not JSON, which no store holds
            self._beginning = None
