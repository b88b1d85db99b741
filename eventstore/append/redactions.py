"""`Redactions`: what a conversation's log says was redacted, as far as starts depend on it.

1. A call does not start after any of its events was redacted: what is left of it no longer says
   what was asked, decided or done.
2. A marker that no redaction has recorded, or that is not the recorded one, may stand for a step of
   any call. Nothing starts in its conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eventstore.domain.redaction import PayloadsRedacted
from eventstore.errors import IllegalTransition, StoreCorrupt

if TYPE_CHECKING:
    from eventstore.domain.events import Event, Recorded


class Redactions(msgspec.Struct):
    """The markers and the records of redactions in one conversation, by version."""

    calls: set[str] = msgspec.field(default_factory=set[str])
    """The ids of the calls with an event that was redacted."""
    markers: dict[int, str] = msgspec.field(default_factory=dict[int, str])
    recorded: dict[int, str] = msgspec.field(default_factory=dict[int, str])
    is_stale: bool = False
    """Whether an event was read before it was redacted: what was taken from it must not be kept."""

    def __copy__(self) -> Redactions:
        return Redactions(
            self.calls.copy(), self.markers.copy(), self.recorded.copy(), self.is_stale
        )

    def take_marker(self, recorded: Recorded, marker: str) -> None:
        """Take in an event that was read from a marker."""
        self.markers[recorded.version] = marker
        if recorded.call_id is not None:
            self.calls.add(recorded.call_id)

    def take_locked(self, recorded: Recorded) -> None:
        """Take in an event that is encrypted, and whose key is not there."""
        if recorded.call_id is not None:
            self.calls.add(recorded.call_id)

    def take_record(self, event: Event) -> None:
        """Take in the record of a redaction."""
        if type(event) is PayloadsRedacted:
            for each in event.payloads:
                if event.origin is None:
                    self.recorded[each.version] = each.marker
                if each.call_id is not None:
                    self.calls.add(each.call_id)
            markers = self.markers
            self.is_stale = any(markers.get(v) != mark for v, mark in self.recorded.items())

    def check_start(self, conversation_id: str, call_id: str, status: str) -> None:
        """Raise an error if a call must not start, for what was redacted.

        Raises:
            IllegalTransition: an event of the call was redacted.
            StoreCorrupt: the conversation has a marker that is not as it was recorded.
        """
        for version, marker in self.markers.items():
            if self.recorded.get(version) != marker:
                raise StoreCorrupt(
                    f"version {version} of conversation {conversation_id!r} was redacted, and no "
                    "record says so: it may be a step of any call, and nothing was started; run "
                    "`toolledger verify`, and restore the database from a copy, or record the "
                    f"redaction if you know of it: `toolledger redact ... --version {version}`"
                )
        if call_id in self.calls:
            reason = (
                "an event of the call was redacted, or its key is not there, so that the log does "
                "not say what it was; request it anew"
            )
            raise IllegalTransition(status, "running", call_id, reason)
