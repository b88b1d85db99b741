"""`LastTurn`: the last turn of a conversation, and the last response, which may wait for its turn.

1. A turn is an assistant message with its calls. Calls without a turn join the last one while it is
   open; anything that is said or done ends it, and the next call begins another.
2. An event that names a turn begins it. One that names the last turn again is a further piece.
3. A response that is recorded while its turn is open belongs to that. Otherwise it waits for the
   next turn, and so does every further response of a turn that has its own.
4. A message that comes after it, before its turn, leaves uncertain which turn it belongs to.
5. A call of a response that was cut off fails as soon as both are known, unless it is uncertain
   that they belong together.

6. A response that failed belongs to no turn.

A call without an id gets one that is made of its turn, so that a repeated append gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

import msgspec

from eventstore.domain.events import (
    Event,
    MessageAdded,
    ModelResponded,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
)
from eventstore.domain.fingerprint import content_id
from eventstore.domain.finish_reasons import is_of_cut_off_response, why_not_whole
from eventstore.domain.recorded_responses import could_be_one
from eventstore.domain.statuses import Approved, Failed, Pending
from eventstore.domain.tool import Tool

_ENDS = (ToolCompleted, ToolFailed, ToolRejected)


class LastTurn(msgspec.Struct):
    """The last turn: its `number`, 0 before the first, and the `index` of the next call in it."""

    number: int = 0
    index: int = 0
    is_open: bool = False
    """Whether only calls came since it began, so that a further call joins it."""
    response: tuple[int, ModelResponded] | None = None
    """The last response that was recorded, with its version."""
    response_waits: bool = False
    """Whether that came before its turn, so that the turn is still to be recorded."""
    has_response: bool = False
    """Whether no later response can be that of this turn."""
    is_certain: bool = False
    """Whether it is certain which turn is that of the last response."""
    origin: tuple[int, str | bytes] | None = None
    """Version and event id of the first event of the last response or turn."""
    moved_on: bool = False
    """Whether a message came since the last response or turn."""
    failed: tuple[int, ModelResponded] | None = None
    """A response that failed, with its version, if nothing came after it."""

    # taking in events

    def follow(self, event: Event, version: int, event_id: str | bytes) -> None:
        """Take in an event of the conversation."""
        before = self.number
        if type(event) is ModelResponded and self._follow_failed(event, version):
            return
        self.failed = None
        if type(event) is ModelResponded:
            self._follow_response(event, version)
            is_first = self.response_waits and event.completes is None
        else:
            self._follow_said(event)
            is_first = self.number > before
        if is_first:
            self.origin = version, event_id

    def _follow_failed(self, event: ModelResponded, version: int) -> bool:
        """Take in a response that failed, or what completes it; return whether it is one."""
        if event.failed and event.completes is None:
            self.failed, self.is_open = (version, event), False
            return True
        if self.failed is None or self.failed[0] != event.completes:
            return False
        self.failed = self.failed[0], self.failed[1].completed_by(event)
        return True

    def _follow_said(self, event: Event) -> None:
        if type(event) is ToolPending:
            turn = event.turn
            if turn is not None and turn >= self.number:
                if turn > self.number:
                    self._begin(turn)
                self.index = event.index + 1
            self.is_open = True
        elif type(event) is MessageAdded and event.turn is not None:
            if event.turn > self.number:  # otherwise it is a further piece of the same turn
                self._begin(event.turn)
                self.index = 0
            self.is_open = True
        elif not _is_of_its_response(event):
            self.is_open = False
            self.moved_on = self.moved_on or type(event) is MessageAdded

    def _begin(self, turn: int) -> None:
        if self.response_waits and self.moved_on:
            self.is_certain = False
        self.number, self.moved_on = turn, False
        self.has_response, self.response_waits = self.response_waits, False

    def _follow_response(self, event: ModelResponded, version: int) -> None:
        if event.completes is None:
            self.response_waits = self.has_response or not self.is_open
            is_next = not self.number or self.moved_on
            is_next = is_next or (self.has_response and self.is_certain)
            self.is_certain = not self.response_waits or is_next
            self.moved_on = False
            self.response = version, event
            self.has_response = True
        elif self.response is not None and self.response[0] == event.completes:
            self.response = event.completes, self.response[1].completed_by(event)
        self.is_open = False

    # numbers for what has none

    def next_call(self) -> tuple[int, int]:
        """Return turn and index for a call without a turn: in the open turn, or in a new one."""
        return (self.number, self.index) if self.is_open else (self.number + 1, 0)

    def numbered(
        self, events: Sequence[Event], conversation_id: str, known: AbstractSet[str]
    ) -> list[Event]:
        """Return `events`; calls and assistant messages without a turn or an id are given one.

        `known` are the ids of the calls of the conversation.
        """
        last = LastTurn(self.number, self.index, self.is_open)
        numbered: list[Event] = []
        for given in events:
            event = given
            if type(event) is ToolPending:
                event = last._in_turn(event, conversation_id, known)
            elif type(event) is MessageAdded and event.role == "assistant" and event.turn is None:
                event = msgspec.structs.replace(event, turn=last.number + 1)
            last.follow(event, 0, b"")
            numbered.append(event)
        return numbered

    def _in_turn(
        self, event: ToolPending, conversation_id: str, known: AbstractSet[str]
    ) -> ToolPending:
        turn, index = event.turn, event.index
        if turn is None:
            turn, index = self.next_call()
        call = event.call
        if not call.id:
            call_id = mint_call_id(conversation_id, turn, index, known)
            call = msgspec.structs.replace(call, id=call_id)
        if call is event.call and turn is event.turn:
            return event
        return msgspec.structs.replace(event, call=call, turn=turn, index=index)

    # the response

    def waiting_response(self, responded: ModelResponded) -> tuple[int, ModelResponded] | None:
        """Return the response whose turn is about to be recorded, if it waits for its turn.

        One that failed has no turn, and is told again.

        See `recorded_responses`.
        """
        last = self.failed if responded.failed else self.response
        if last is None or not (responded.failed or (self.response_waits and not self.moved_on)):
            return None
        return last if could_be_one(last[1], responded) else None

    @property
    def own_response(self) -> ModelResponded | None:
        """The response that waits for its turn, or that of this turn."""
        is_there = self.response_waits or self.has_response
        return self.response[1] if is_there and self.response is not None else None

    def with_not_run(
        self, events: Sequence[Event], responded: ModelResponded | None = None
    ) -> Sequence[Event]:
        """Return `events`, and the failures of their calls if their response is not whole.

        It was told of before its turn: by a budget, where the message is recorded alone. `events`
        have their turns; `responded` is what they say of their own response. Nothing fails where
        it is not certain whose response it was: one that was told of after the calls of its turn
        had begun looks like one that waits for the next turn.
        """
        last = self.response
        if last is None or not self.is_certain or self.moved_on:
            return events
        if responded is not None and not could_be_one(last[1], responded):
            return events
        said = (e for e in events if type(e) is MessageAdded or type(e) is ToolPending)
        first = next(said, None)
        turn = None if first is None else first.turn
        is_this_turn = turn == self.number and self.has_response
        if turn is None or is_this_turn is self.response_waits:
            return events
        ended = {e.call_id for e in events if isinstance(e, _ENDS)}
        made = (e.call_id for e in events if type(e) is ToolPending and e.turn == turn)
        not_run = _failures((call_id for call_id in made if call_id not in ended), last[1])
        return [*events, *not_run]

    def not_run_of(self, responded: ModelResponded, tools: Iterable[Tool]) -> list[ToolFailed]:
        """Return the failures of this turn's calls, if their response is told of only now.

        `tools` are the open calls of the conversation. Those that have begun stay as they are.
        """
        if self.has_response or self.moved_on or not self.number or responded.failed:
            return []
        not_begun = (tool for tool in self._of_this(tools) if _has_not_begun(tool))
        return _failures((tool.id for tool in not_begun), responded)

    def may_be_repeated(self, tools: Iterable[Tool]) -> bool:
        """Return whether the last response is still the last word: it has no answer.

        A call that failed because its response is not whole is no answer, nor is an attempt that
        is to be repeated. `tools` are the open calls of the conversation.
        """
        if self.moved_on:
            return False
        if self.response_waits or not self.index:
            return True
        return any(_is_unanswered(tool) for tool in self._of_this(tools))

    def _of_this(self, tools: Iterable[Tool]) -> Iterable[Tool]:
        return (tool for tool in tools if tool.turn == self.number)


def mint_call_id(conversation_id: str, turn: int, index: int, taken: AbstractSet[str]) -> str:
    """Return an id for a call that came without one; it is not among those `taken`.

    The same index in the same turn gives the same id; every other gives another.
    """
    minted = f"call_{_digest_prefix(conversation_id)}{turn:04x}{index:04x}"
    salt = 0
    while minted in taken:
        salt += 1
        prefix = _digest_prefix(f"{conversation_id}.{turn}.{index}.{salt}")
        minted = f"call_{prefix}{turn:04x}{index:04x}"
    return minted


@lru_cache(1024)
def _digest_prefix(text: str) -> str:
    """Return 16 hex digits for a text."""
    return content_id(text.encode()).hex()[:16]


def _failures(call_ids: Iterable[str], responded: ModelResponded) -> list[ToolFailed]:
    why = why_not_whole(responded.provider, responded.finish_reason)
    return [] if why is None else [ToolFailed(call_id, why) for call_id in call_ids]


def _has_not_begun(tool: Tool) -> bool:
    return not tool.attempts and type(tool.status) in (Pending, Approved)


def _is_of_its_response(event: Event) -> bool:
    """Return whether an event comes with its response, which may still tell its tokens."""
    return type(event) is ToolFailed and is_of_cut_off_response(event.failure)


def _is_unanswered(tool: Tool) -> bool:
    status = tool.status
    if tool.retry_announced or type(status) is not Failed:
        return True
    return is_of_cut_off_response(status.failure)
