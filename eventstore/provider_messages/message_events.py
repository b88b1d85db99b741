"""The events of a message that is recorded as it comes: what it says, and what its response says.

A call of a response that is not whole fails at once, without having run (`finish_reasons`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eventstore.append.conversation_state import ConversationState
from eventstore.append.tool_fold import LookUp
from eventstore.domain.events import Event, MessageAdded, ModelResponded
from eventstore.domain.recorded_responses import another_after, completion
from eventstore.providers.model import ParsedItem
from eventstore.providers.to_events import to_events


class NewMessage(msgspec.Struct, frozen=True):
    """A message that is to be recorded; `facts` are what its response says of itself."""

    conversation_id: str
    items: Sequence[ParsedItem]
    provider: str
    facts: ModelResponded | None
    broken_off: bool

    def events(self, state: ConversationState, look_up: LookUp) -> list[Event]:
        """Return the events of the message."""
        made = to_events(self.items, state, look_up, self.provider, imported=False).events
        events = _in_whole_messages(made)
        if self.broken_off:
            events = [_marked_broken_off(event) for event in events]
        return with_response(events, self.facts, state)


def with_response(
    events: Sequence[Event], facts: ModelResponded | None, state: ConversationState
) -> list[Event]:
    """Return the events of a response, the failures of calls that do not run, and what it says.

    If the response was told of before its message, only what is new of it is stored.
    """
    return [*state.last_turn.with_not_run(events, facts), *_new_facts(facts, state)]


def _new_facts(facts: ModelResponded | None, state: ConversationState) -> Sequence[ModelResponded]:
    if facts is None:
        return ()
    waiting = state.last_turn.waiting_response(facts)
    if waiting is None:
        last = state.last_turn.failed if facts.failed else state.last_turn.response
        return (another_after(last and last[1], facts),)
    version, earlier = waiting
    new = completion(earlier, facts, version)
    return () if new is None else (new,)


def _in_whole_messages(events: Sequence[Event]) -> list[Event]:
    """Return events with one message for all items of a turn: some providers' have several."""
    whole: list[Event] = []
    messages: dict[int, tuple[int, MessageAdded]] = {}  # turn -> its message, and the index of it
    for event in events:
        if type(event) is not MessageAdded or event.turn is None:
            whole.append(event)
        elif event.turn not in messages:
            messages[event.turn] = len(whole), event
            whole.append(event)
        else:
            index, first = messages[event.turn]
            whole[index] = together = first.continued_by(event)
            messages[event.turn] = index, together
    return whole


def _marked_broken_off(event: Event) -> Event:
    """Return an event of a response that broke off; its message is marked."""
    if type(event) is not MessageAdded:
        return event
    return msgspec.structs.replace(event, broken_off=True)
