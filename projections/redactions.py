"""What a fold that goes on must give up when events that it has read are redacted.

1. A log that is read after a redaction has markers, and a fold over it never saw what is gone.
2. A fold that goes on gets the record, `PayloadsRedacted`, as the next event. It cannot read again,
   and the record does not say what is left of a payload, so it gives up all that it holds of it.
3. A fold that is kept beside its log begins anew, and has what is left: `KeptFolds`, the web pages,
   the tables of a `Projector`.
4. A feed passes over what is archived, also over a record. So one that reads a feed begins anew
   when a conversation came back from an archive, too.
"""

from __future__ import annotations

from eventstore import EventsRestored, PayloadsRedacted, Recorded, RedactedPayload

READ_ANEW = frozenset({PayloadsRedacted, EventsRestored})
"""The events after which a reader of a feed may hold of their conversation what is gone by now."""


class ReadMarkers:
    """The markers that a fold has read, by which it knows what of a redaction it still holds."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, int], tuple[str, bool]] = {}  # and whether it was recorded

    def take(self, recorded: Recorded) -> None:
        """Take in an event that was read from a marker."""
        if recorded.redacted is not None:
            at = recorded.conversation_id, recorded.version
            self._read[at] = recorded.redacted, False

    def gone(self, recorded: Recorded) -> list[RedactedPayload]:
        """Return those payloads of a record that were read before they were redacted."""
        event = recorded.event
        if type(event) is not PayloadsRedacted or event.origin is not None:
            return []
        return [each for each in event.payloads if self._is_gone(recorded.conversation_id, each)]

    def _is_gone(self, conversation_id: str, payload: RedactedPayload) -> bool:
        at = conversation_id, payload.version
        marker, was_recorded = self._read.get(at, ("", True))
        if marker != payload.marker and not was_recorded:
            return False  # the marker is that of a later redaction, whose record is to come
        self._read[at] = payload.marker, True
        return marker != payload.marker
