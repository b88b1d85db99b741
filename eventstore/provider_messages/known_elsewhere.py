"""Which messages of a history another conversation has: a session that was resumed or forked.

A program that writes the same records into another file says so, or it does not. Where its call ids
are unique, the log itself can tell: a message and all before it have the same stem there.

1. A conversation is found by a call: the index of fingerprints has all that make it.
2. A call that too many conversations make is passed over, for the next one. So messages without a
   call that finds them are no copies, as far as the log can tell.
3. Whichever conversation is imported first has what happened. The other one's are the copies. What
   is stored as a copy there did not happen there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from eventstore.append.stored_once import event_id_of, is_of_stem
from eventstore.domain.calls import FunctionCall
from eventstore.domain.events import Recorded
from eventstore.provider_messages.batches import Batch
from eventstore.provider_messages.history_messages import HistoryMessage
from eventstore.providers.model import ParsedMessage
from eventstore.session import Session

Find = Callable[[str], Iterable[Recorded]]
"""Yields the events of all calls with a fingerprint, in any conversation."""

MAX_EVENTS = 1_000
"""Events of calls with one fingerprint that are looked at."""


def known_elsewhere(
    messages: Batch, conversation_id: str, session: Session, find: Find
) -> frozenset[bytes]:
    """Return the stems of the messages that happened in other conversations."""
    for message in messages:
        for call in _calls_of(message):
            found = [*islice(find(_fingerprint(call, session)), MAX_EVENTS + 1)]
            if len(found) > MAX_EVENTS:
                continue
            others = {
                recorded.conversation_id
                for recorded in found
                if recorded.conversation_id != conversation_id
                and is_of_stem(bytes.fromhex(recorded.event_id), message.stem)
            }
            stems = {event_id_of(each.stem, 0): each.stem for each in messages}
            stored = [session.known_ids(other, [*stems]) for other in sorted(others)]
            return frozenset(stems[event_id] for ids in stored for event_id in ids)
    return frozenset()


def _calls_of(message: HistoryMessage) -> list[FunctionCall]:
    said = (item for item in message.items if isinstance(item, ParsedMessage))
    return [made.call for item in said for made in item.calls]


def _fingerprint(call: FunctionCall, session: Session) -> str:
    """Return the fingerprint of a call as the rules of the store let it be stored."""
    arguments, raw = session.covered(call.arguments), session.covered(call.raw)
    return FunctionCall(call.name, arguments, call.id, raw).fingerprint
