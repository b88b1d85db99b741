"""A response with an id. It is stored once, if it is told again with nothing said between.

Its events are stored under ids that name it and the version that it follows. So it is recognised
when it comes again.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventstore.append.command import IdentifiedEvents, PendingAppend
from eventstore.append.conversation_state import ConversationState
from eventstore.append.stored_once import event_id_of, event_ids_of, stem_of
from eventstore.append.tool_fold import LookUp
from eventstore.domain.events import Event, ModelResponded
from eventstore.domain.recorded_responses import tokens_agree
from eventstore.domain.tool import Tool
from eventstore.errors import VersionConflict
from eventstore.provider_messages.message_events import NewMessage


class NamedResponse:
    """A response that is to be recorded, unless the log has it as its last one."""

    def __init__(self, message: NewMessage, stem: bytes, expected_version: int | None) -> None:
        self._message = message
        self._stem = stem
        self._expected_version = expected_version
        self._turn: int | None = None  # of the response, if the log has it

    def decide(self, state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        """Return the events to store; none if the log has them."""
        is_repeat = _repeats_last(state, self._stem, self._message.facts)
        self._turn = state.last_turn.number if is_repeat else None
        if self._turn is not None:
            return ()
        if self._expected_version not in (None, state.version):
            raise VersionConflict(self._expected_version or 0, state.version)
        events = self._message.events(state, look_up)
        here = _stem_after(self._stem, state.version)
        return IdentifiedEvents(events, event_ids_of(here, len(events)))

    def result(self, done: PendingAppend) -> list[Tool]:
        """Return the calls of the response; as they stand now, if it was recorded before."""
        if self._turn is None:
            return done.tools()
        return [tool for tool in done.look_up().values() if tool.turn == self._turn]


def _repeats_last(state: ConversationState, stem: bytes, facts: ModelResponded | None) -> bool:
    """Return whether a response is the last one of the conversation, told again."""
    turn = state.last_turn
    if turn.origin is None:
        return False
    version, given = turn.origin
    event_id = bytes.fromhex(given) if isinstance(given, str) else given
    # Older versions stored a response under its stem alone.
    known = (event_id_of(stem, 0), event_id_of(_stem_after(stem, version - 1), 0))
    if event_id not in known or not turn.may_be_repeated(state.open_tools()):
        return False
    last = turn.own_response
    return last is None or facts is None or tokens_agree(last, facts)


def _stem_after(stem: bytes, version: int) -> bytes:
    """Return the stem of a response that follows a version of its conversation."""
    return stem_of(stem, version.to_bytes(8, "big"))
