"""What people said since the model's last response, which a framework shows in each request.

1. A framework's request repeats words that are stored: only new ones are appended.
2. A step of a run that is played again says the same words again, which are stored once.
3. A text of the library that a framework hands back is not a user's words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from eventstore.append.command import Command, IdentifiedEvents
from eventstore.append.stored_once import event_id_of, stem_of_step
from eventstore.domain.events import Event, MessageAdded
from eventstore.domain.messages import Text
from eventstore.domain.own_texts import is_own_text

if TYPE_CHECKING:
    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.conversation import Conversation

SelectNew: TypeAlias = Callable[[Sequence[MessageAdded]], Sequence[MessageAdded]]
"""Selects the words to append, given those that are stored since the last response."""


class WordsSaid:
    """The words in a conversation after the model's last response."""

    def __init__(self, chat: Conversation) -> None:
        self._chat = chat
        self._answered_at = 0  # the version of the last response, as far as that was looked for

    def recording(self, select: SelectNew, step: str | None = None) -> Command[None]:
        """Return the append of the words that `select` returns.

        It leaves out words that the same `step` of a run appended before.
        """

        def decide(_: ConversationState, __: LookUp) -> Sequence[Event]:
            events = [event for event in select(self._stored()) if not _is_own(event)]
            return events if step is None else self._not_said(events, step)

        return Command(self._chat.id, decide, lambda _: None, exclusive=True)

    def _stored(self) -> list[MessageAdded]:
        stored: list[MessageAdded] = []
        for recorded in self._chat.session.events(self._chat.id, self._answered_at):
            event = recorded.event
            if isinstance(event, MessageAdded) and event.role == "assistant":
                self._answered_at = recorded.version
                stored = []
            elif isinstance(event, MessageAdded):
                stored.append(event)
        return stored

    def _not_said(self, events: Sequence[MessageAdded], step: str) -> IdentifiedEvents:
        """Return the words that the step has not said before."""
        times: Counter[bytes] = Counter()
        ids: list[bytes] = []
        for event in events:
            stem = stem_of_step(step, (event.role, event.parts))
            ids.append(event_id_of(stem, times[stem]))
            times[stem] += 1
        known = self._chat.session.known_ids(self._chat.id, ids)
        new = [index for index, event_id in enumerate(ids) if event_id not in known]
        return IdentifiedEvents([events[n] for n in new], [ids[n] for n in new])


def _is_own(event: MessageAdded) -> bool:
    """Return whether words are a text that the library put into a prompt."""
    return bool(event.parts) and all(
        isinstance(part, Text) and is_own_text(part.text) for part in event.parts
    )
