"""What is appended with an archive: one event, decided on a conversation as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventstore.append.event_ids import event_ids
from eventstore.append.salts import salts
from eventstore.domain.codec import encode
from eventstore.storage.interface import Draft

if TYPE_CHECKING:
    from eventstore.domain.detached import EventsArchived, EventsRestored
    from eventstore.domain.events import Recorded


class ChangedMeanwhile(Exception):
    """A conversation was appended to since it was read."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(conversation_id)
        self.conversation_id = conversation_id


def unchanged(name: str, drafts: Sequence[Draft], tail: Sequence[Recorded]) -> Sequence[Draft]:
    """Return the drafts, if the conversation was not appended to since it was read.

    Raises:
        ChangedMeanwhile: it was; the `tail` is what was appended.
    """
    if tail:
        raise ChangedMeanwhile(name)
    return drafts


def draft_of(event: EventsArchived | EventsRestored, now: int) -> Draft:
    """Return the draft of an event that is appended `now`, in microseconds since 1970 UTC."""
    (event_id,), (salt,) = event_ids(1, now), salts(1)
    return Draft(event_id, now, event.tag, event.schema, encode(event), salt=salt)
