"""`ResponseTurns`: which turn of the model each recorded response belongs to.

1. A response that is recorded after its turn belongs to that turn, one that is recorded before it
   to the next one: hosts do both.
2. A turn has one response. A second one belongs to the next turn.
3. What comes after a user's message cannot belong to the turn before it, nor what comes before it
   to the turn after it. An imported turn has none.
4. What is added to a response later belongs to its turn, while that is the last one.
5. A response that failed belongs to no turn.
6. A response that is told again, with no turn and no user's words between, is no response of its
   own (`recorded_responses`). Our own appends never store it; those by hand may.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from eventstore.domain.events import Event, MessageAdded, ModelResponded, ToolPending
from eventstore.domain.finish_reasons import EMPTY
from eventstore.domain.recorded_responses import is_repeat

_Response: TypeAlias = tuple[int, ModelResponded]
"""A response with its version."""


class ResponseTurns(msgspec.Struct, gc=False, omit_defaults=True):
    """The last turn of one conversation, its response, and the response that waits for its turn.

    The projector stores it as JSON: a field's name must not change.
    """

    turn: int | None = None
    response: _Response | None = None
    waiting: _Response | None = None
    is_closed: bool = False

    def add_turn(self, turn: int) -> ModelResponded | None:
        """Take in an event of a turn; return the response of that turn, if it came before."""
        if turn != self.turn:
            self.turn, self.response, self.waiting = turn, self.waiting, None
            self.is_closed = False
        return None if self.response is None else self.response[1]

    def follow(self, event: Event) -> None:
        """Take in an event that is no response, where the response of its turn is not needed."""
        if type(event) is ToolPending:
            if event.imported:
                self.close()
            elif event.turn is not None:
                self.add_turn(event.turn)
        elif type(event) is MessageAdded:
            if event.role == "user":
                self.close()
            elif event.role == "assistant" and event.turn is not None:
                self.add_turn(event.turn)

    def knows(self, response: ModelResponded) -> bool:
        """Return whether a response is the last one, told again."""
        last = self.waiting or (None if self.is_closed else self.response)
        return last is not None and not response.is_another and is_repeat(last[1], response)

    def add_response(self, response: ModelResponded, version: int) -> int | None:
        """Take in a response; return its turn, or None if it belongs to the next one, or failed."""
        if response.failed:
            return None
        if self.turn is None or self.is_closed or self.response is not None:
            self.waiting = version, response
            return None
        self.response = version, response
        return self.turn

    def complete(self, new: ModelResponded) -> tuple[int, ModelResponded] | None:
        """Take in what completes a response; return its turn and all of it, if that is the last."""
        if (waiting := self.waiting) is not None and waiting[0] == new.completes:
            self.waiting = waiting[0], waiting[1].completed_by(new)
        response = self.response
        if response is None or self.turn is None or response[0] != new.completes:
            return None
        self.response = response[0], response[1].completed_by(new)
        return self.turn, self.response[1]

    def close(self) -> None:
        """Let no later response belong to the last turn, and none so far to the next one."""
        self.is_closed = True
        self.waiting = None


def used_nothing(responded: ModelResponded) -> bool:
    """Return whether a response is an error that names no tokens: the model wrote none."""
    return responded.failed and responded.usage is None and responded.finish_reason != EMPTY
