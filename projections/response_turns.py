"""`ResponseTurns`: which turn of the model each recorded response belongs to.

1. A response that is recorded after its turn belongs to that turn, one that is recorded before it
   to the next one: hosts do both.
2. A turn has one response. A second one belongs to the next turn.
3. What comes after a user's message cannot belong to the turn before it. An imported turn has none.
"""

from __future__ import annotations

from eventstore import ModelResponded


class ResponseTurns:
    """The last turn of one conversation, its response, and the response that waits for its turn."""

    __slots__ = ("_is_closed", "_response", "_turn", "_waiting")

    def __init__(self) -> None:
        self._turn: int | None = None
        self._response: ModelResponded | None = None
        self._waiting: ModelResponded | None = None
        self._is_closed = False

    def add_turn(self, turn: int) -> ModelResponded | None:
        """Take in an event of a turn; return the response of that turn, if it came before."""
        if turn != self._turn:
            self._turn, self._response, self._waiting = turn, self._waiting, None
            self._is_closed = False
        return self._response

    def add_response(self, response: ModelResponded) -> int | None:
        """Take in a response; return its turn, or None if it belongs to the next one."""
        if self._turn is None or self._is_closed or self._response is not None:
            self._waiting = response
            return None
        self._response = response
        return self._turn

    def close(self) -> None:
        """Let no later response belong to the last turn."""
        self._is_closed = True
