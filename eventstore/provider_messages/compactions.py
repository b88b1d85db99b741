"""Compactions of a history that is imported: from the numbers of its messages to versions.

The log itself says which versions its messages have: their events are stored under ids that begin
with the stem of their message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Protocol

from eventstore.append.stored_once import event_id_of
from eventstore.domain.copies import copy_id
from eventstore.domain.events import Event, HistoryCompacted, MessageAdded
from eventstore.providers.model import ParsedCompaction, ParsedMessage

_ASKED_AT_ONCE = 100


class _Log(Protocol):
    def known_ids(self, conversation_id: str, event_ids: Sequence[bytes]) -> Mapping[bytes, int]:
        """Return which of the event ids are stored in the conversation, with their versions."""
        ...


class HistoryPlaces:
    """Where the messages of a history are in the log, for one batch of them.

    `stems` are those of all messages that the log has; the next one of the batch has its events
    after `version`.
    """

    def __init__(
        self, log: _Log, conversation_id: str, stems: Iterable[bytes], version: int
    ) -> None:
        self._log = log
        self._id = conversation_id
        self._given_stems = stems
        self._version = version
        self._offsets: list[int] = []  # of the messages of the batch

    @cached_property
    def _stems(self) -> Sequence[bytes]:
        return [*self._given_stems]

    def add(self, offset: int) -> None:
        """Take in the next message of the batch: so many new events are before its own."""
        self._offsets.append(offset)

    def compacted(self, compaction: ParsedCompaction, offset: int, provider: str) -> list[Event]:
        """Return the events of a compaction, which so many new events are before.

        Where nothing is before it, they are its messages.
        """
        said = [_said(message, provider) for message in compaction.messages]
        before = self._version + offset
        until = before if compaction.end is None else self._before(compaction.end, before)
        if not until:
            return [*said]
        return [
            HistoryCompacted(
                until,
                tuple(said),
                self._before(compaction.first, before) if compaction.first else 0,
                compaction.hides_system,
                compaction.trigger,
                compaction.tokens_before,
            )
        ]

    def _before(self, number: int, end: int) -> int:
        """Return the version before the events of a message, or of the next that has some.

        `end` is that before the message that asks.
        """
        known = len(self._stems)
        for start in range(number, known, _ASKED_AT_ONCE):
            stems = self._stems[start : start + _ASKED_AT_ONCE]
            ids = [event_id for stem in stems for event_id in first_ids(stem)]
            if found := self._log.known_ids(self._id, ids):
                return min(found.values()) - 1
        new = max(number - known, 0)
        return self._version + self._offsets[new] if new < len(self._offsets) else end


def first_ids(stem: bytes) -> tuple[bytes, bytes]:
    """Return the ids that the first event of a message may have: as its own, and as a copy."""
    event_id = event_id_of(stem, 0)
    return event_id, copy_id(event_id)


def _said(message: ParsedMessage, provider: str) -> MessageAdded:
    native = None if message.calls else message.native
    return MessageAdded(
        message.role,
        message.parts,
        provider=provider if native is not None else None,
        native=native,
        exact=native is not None and message.well_formed,
    )
