"""`Trace`: what gates, hooks and models said, for people who ask why a history is as it is.

1. An offer belongs to the turn that follows it. An offer that was made late, for a turn whose calls
   have not moved on since, belongs to that turn.
2. What hooks said belongs to their call.
3. What the model's response said of itself belongs to its turn (`ResponseTurns`).
4. The model is told nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventstore import HookAnswer, HookRaised, ModelResponded, ToolsOffered
from eventstore.domain.response_turns import ResponseTurns
from projections.history.entries import Entry


class Trace:
    """The offers and responses by the version of their turn, and the answers of hooks by call."""

    __slots__ = ("_next", "_response_turns", "answers", "offers", "responses")

    def __init__(self) -> None:
        self.offers: dict[int, ToolsOffered] = {}
        self.answers: dict[str, tuple[tuple[HookAnswer, ...], ...]] = {}
        self.responses: dict[int, ModelResponded] = {}
        self._next: ToolsOffered | None = None
        self._response_turns = ResponseTurns()

    def copy(self) -> Trace:
        """Return the same trace, which later events do not change."""
        other = Trace()
        other.offers, other.answers = self.offers.copy(), self.answers.copy()
        other.responses = self.responses.copy()
        return other

    def add_answers(self, call_id: str, answers: tuple[HookAnswer, ...]) -> None:
        """Take in what hooks said of a call before one of its steps."""
        self.answers[call_id] = (*self.answers.get(call_id, ()), answers)

    def add_raised(self, call_id: str, event: HookRaised) -> None:
        """Take in that a function of the host raised, and what hooks said before it."""
        kind = event.failure.exception or str(event.failure.kind)
        reason = f"{kind}: {event.failure.message}"
        raised = HookAnswer(event.hook, "raised", reason, event.asked == "approver")
        self.add_answers(call_id, (*event.hooks, raised))

    def add_offer(self, event: ToolsOffered, entries: Sequence[Entry]) -> None:
        """Take in an offer, for the last turn or for the next one."""
        last = entries[-1] if entries else None
        if last is not None and last.version not in self.offers and _has_not_moved_on(last):
            self.offers[last.version] = event
        else:
            self._next = event

    def add_response(self, event: ModelResponded, version: int) -> None:
        """Take in a response, for the last turn or for the next one; or what completes one."""
        if event.completes is not None:
            if (whole := self._response_turns.complete(event)) is not None:
                self.responses[whole[0]] = whole[1]
            return
        if self._response_turns.knows(event):
            return
        turn = self._response_turns.add_response(event, version)
        if turn is not None:
            self.responses[turn] = event

    def end_turn(self) -> None:
        """Let no later response belong to the last turn."""
        self._response_turns.close()

    def begin_turn(self, version: int) -> None:
        """Give the last offer, and a response that waits, to a turn of the model."""
        response = self._response_turns.add_turn(version)
        if response is not None:
            self.responses[version] = response
        if self._next is not None:
            self.offers[version], self._next = self._next, None


def _has_not_moved_on(entry: Entry) -> bool:
    return bool(entry.calls) and all(len(call.versions) == 1 for call in entry.calls)
