"""What of a batch the log does not hold yet: where the log is in the history, and what follows.

1. The events of a message are stored under ids that begin with its stem. So the log itself says
   how far an import came.
2. What was recorded of the known calls may follow the last known message: decisions, starts, ends.
   Other messages and calls may not, nor events of another import (`ImportConflict`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eventstore.append.command import IdentifiedEvents
from eventstore.append.conversation_state import ConversationState
from eventstore.append.stored_once import event_ids_of, has_stem, is_of_stem
from eventstore.append.tool_fold import LookUp
from eventstore.domain.copies import copy_id
from eventstore.domain.events import Event, MessageAdded, RunEnded, ToolPending
from eventstore.errors import ImportConflict
from eventstore.provider_messages.batches import Batch
from eventstore.provider_messages.compactions import HistoryPlaces, first_ids
from eventstore.providers.model import ParsedMessage
from eventstore.providers.to_events import Finding, Resumed, to_events
from eventstore.session import Session

_SEVERAL = ("dropped", "several-answers", "the response has several answers: the first is kept")


class LastKnown(msgspec.Struct, frozen=True):
    """The last message that the log is known to have: its stem, and the version of an event."""

    version: int = 0
    stem: bytes = b""


class NewEvents(msgspec.Struct):
    """The events of messages, their ids, and their times at their source.

    So many `messages` gave an event.
    """

    events: list[Event] = []
    ids: list[bytes] = []
    times: list[int | None] = []
    findings: list[Finding] = []
    messages: int = 0

    def identified(self) -> IdentifiedEvents:
        """Return the events as an append takes them."""
        return IdentifiedEvents(self.events, self.ids, self.times)


def known_messages(
    batch: Batch, state: ConversationState, last: LastKnown, session: Session
) -> tuple[int, LastKnown]:
    """Return how many messages of the batch the log has, and the last message that it has.

    `last` is the last one of the batches before.
    """
    if state.version == last.version:
        return 0, last
    # The stem of the last message covers all before it.
    ids = {
        event_id: number
        for number, message in enumerate(batch, 1)
        for event_id in first_ids(message.stem)
    }
    conversation_id = state.conversation_id
    stored = session.known_ids(conversation_id, first_ids(batch[-1].stem)) or session.known_ids(
        conversation_id, [*ids]
    )
    if not stored:
        return 0, last
    number, version = max((ids[event_id], version) for event_id, version in stored.items())
    return number, LastKnown(version, batch[number - 1].stem)


def check_continues(
    session: Session, state: ConversationState, last: LastKnown, messages: int
) -> None:
    """Refuse to add to a conversation that continues with other messages; `messages` are known.

    Raises:
        ImportConflict: it names the event.
    """
    if state.version == last.version:
        return
    for recorded in session.events(state.conversation_id, last.version):
        event_id = bytes.fromhex(recorded.event_id)
        is_said = isinstance(recorded.event, MessageAdded | ToolPending)
        if (is_said or has_stem(event_id)) and not (last.stem and is_of_stem(event_id, last.stem)):
            raise ImportConflict(state.conversation_id, messages + 1, recorded.version)


def last_message_id(batch: Batch, before: str | None) -> str | None:
    """Return the provider's id of the last assistant message; `before` is from earlier batches."""
    for message in reversed(batch):
        for item in reversed(message.items):
            if isinstance(item, ParsedMessage) and item.role == "assistant":
                return item.message_id
    return before


def events_of_new(
    known: Batch,
    new: Batch,
    times: Sequence[int | None],
    state: ConversationState,
    look_up: LookUp,
    provider: str,
    message_id: str | None,
    places: HistoryPlaces,
) -> NewEvents:
    """Return the events of `new` messages, which follow the `known` ones of their batch.

    `times` has one for each new message. `message_id` is the id of the last assistant message of
    the batches before. The `item` of a finding is the number of the new message.
    """
    owners = [number for number, message in enumerate(new) for _ in message.items]
    converted = to_events(
        [item for message in new for item in message.items],
        state,
        look_up,
        provider,
        imported=True,
        resumed=Resumed(
            last_message_id(known, message_id),
            may_be_continued=bool(known) and known[-1].may_be_continued,
        ),
    )
    by_message: list[list[Event]] = [[] for _ in new]
    for events, number in zip(converted.by_item, owners, strict=True):
        by_message[number] += events
    made = NewEvents()
    for number, message in enumerate(new):
        if message.failed is not None:
            by_message[number].append(message.failed)
        if message.compaction is not None:
            by_message[number] += places.compacted(message.compaction, len(made.events), provider)
        if message.ended is not None:
            by_message[number].append(RunEnded(message.ended.reason, message.ended.failure))
        places.add(len(made.events))
        made.events += by_message[number]
        made.messages += bool(by_message[number])
        ids = event_ids_of(message.stem, len(by_message[number]))
        made.ids += map(copy_id, ids) if message.is_copy else ids
        made.times += [times[number]] * len(by_message[number])
        if message.answers > 1:
            made.findings.append(Finding(number, *_SEVERAL))
    made.findings += (
        msgspec.structs.replace(found, item=owners[found.item]) for found in converted.findings
    )
    made.findings.sort(key=lambda found: found.item)
    return made
