"""`ResponseTurns`: which turn of the model each recorded response belongs to.

1. A response that is recorded after its turn belongs to that turn, one that is recorded before it
   to the next one: hosts do both.
2. A turn has one response. A second one belongs to the next turn.
3. What comes after a user's message cannot belong to the turn before it, nor what comes before it
   to the turn after it. An imported turn has none.
4. What is added to a response later belongs to its turn, while that is the last one.
"""

from __future__ import annotations

from typing import TypeAlias

from eventstore import ModelResponded

_Response: TypeAlias = tuple[int, ModelResponded]
"""A response with its version."""


class ResponseTurns:
    """The last turn of one conversation, its response, and the response that waits for its turn."""

    __slots__ = ("_is_closed", "_response", "_turn", "_waiting")

    def __init__(self) -> None:
        self._turn: int | None = None
        self._response: _Response | None = None
        self._waiting: _Response | None = None
        self._is_closed = False

    def add_turn(self, turn: int) -> ModelResponded | None:
        """Take in an event of a turn; return the response of that turn, if it came before."""
        if turn != self._turn:
            self._turn, self._response, self._waiting = turn, self._waiting, None
            self._is_closed = False
        return None if self._response is None else self._response[1]

    def add_response(self, response: ModelResponded, version: int) -> int | None:
        """Take in a response; return its turn, or None if it belongs to the next one."""
        if self._turn is None or self._is_closed or self._response is not None:
            self._waiting = version, response
            return None
        self._response = version, response
        return self._turn

    def complete(self, new: ModelResponded) -> tuple[int, ModelResponded] | None:
        """Take in what completes a response; return its turn and all of it, if that is the last."""
        if (waiting := self._waiting) is not None and waiting[0] == new.completes:
            self._waiting = waiting[0], waiting[1].completed_by(new)
        response = self._response
        if response is None or self._turn is None or response[0] != new.completes:
            return None
        self._response = response[0], response[1].completed_by(new)
        return self._turn, self._response[1]

    def close(self) -> None:
        """Let no later response belong to the last turn, and none so far to the next one."""
        self._is_closed = True
        self._waiting = None
