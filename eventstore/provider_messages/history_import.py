"""Importing a whole history of messages, in batches.

An import may be repeated:

1. Each message has a stem: a digest over it and all messages before it.
2. Its events are stored under ids that begin with the stem, so the log itself says how far an
   import came.
3. The same messages again add nothing, and a longer list adds its tail. Two imports at a time, or
   one that was killed and is repeated, store nothing twice.
4. A conversation that continues with other messages is refused (`ImportConflict`).
5. The events of a copied message are copies (`Recorded.is_copy`). It is known again, however it was
   stored: as a copy, or as the conversation's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from eventstore.append.command import Command, PendingAppend
from eventstore.append.conversation_state import ConversationState
from eventstore.append.inputs import times_at_source
from eventstore.append.stored_once import event_id_of, stem_of
from eventstore.append.tool_fold import LookUp
from eventstore.domain.events import Event, RunStarted
from eventstore.domain.json_types import JsonObject
from eventstore.provider_messages.batches import (
    DEFAULT_SIZES,
    Batch,
    ImportSizes,
    in_batches,
    in_own_form,
)
from eventstore.provider_messages.compactions import HistoryPlaces
from eventstore.provider_messages.history_messages import HistoryReader
from eventstore.provider_messages.known_elsewhere import Find, known_elsewhere
from eventstore.provider_messages.new_messages import (
    LastKnown,
    NewEvents,
    check_continues,
    events_of_new,
    known_messages,
    last_message_id,
)
from eventstore.providers.adapter_protocol import ResultTest
from eventstore.providers.detection import listed
from eventstore.providers.registry import list_key
from eventstore.providers.to_events import Finding
from eventstore.session import Session

_encode = msgspec.json.Encoder(order="deterministic").encode


class ImportSource(msgspec.Struct, frozen=True, kw_only=True):
    """What an import knows of its messages besides themselves; see `Conversation.import_messages`.

    `times` may grow while the messages are taken. `full_text` gives the whole of a result whose
    message has a part of its text: the log keeps it, and the provider's message as it was. With
    `find`, messages that another conversation has are copies; see `known_elsewhere`.
    """

    is_error: ResultTest | None = None
    is_rejection: ResultTest | None = None
    error_pattern: str | re.Pattern[str] | None = None
    full_text: Callable[[str], str | None] | None = None
    started: RunStarted | None = None
    times: Sequence[int | None] = ()
    find: Find | None = None


class Imported(msgspec.Struct):
    """What an import did.

    `added` messages, as so many `events`; `skipped` ones were there already, and `silent` ones gave
    no event. `calls` were made by the messages, also by those that were there. `findings` say what
    was wrong in the new ones; their `item` is the message's number, from 0.
    """

    added: int = 0
    skipped: int = 0
    events: int = 0
    findings: list[Finding] = []
    silent: int = 0
    calls: int = 0

    @property
    def messages(self) -> int:
        """How many messages were read."""
        return self.added + self.skipped + self.silent


class Import:
    """One import under way: messages in order, batch after batch."""

    def __init__(
        self,
        session: Session,
        conversation_id: str,
        provider: str,
        source: ImportSource,
        sizes: ImportSizes = DEFAULT_SIZES,
    ) -> None:
        self.done = Imported()
        self._session = session
        self._id = conversation_id
        self._provider = provider
        self._source = source
        self._sizes = sizes
        self._last = LastKnown()
        self._message_id: str | None = None  # of the last assistant message
        self._stems: list[bytes] = []  # of the messages of the batches before

    def run(self, messages: Iterable[Any] | JsonObject) -> Imported:
        """Append the messages that the log does not hold yet."""
        source, provider, sizes = self._source, self._provider, self._sizes
        tests = (source.is_error, source.is_rejection)
        reader = HistoryReader(provider, *tests, source.error_pattern, source.full_text)
        read = map(reader.read, listed(messages, list_key(provider)))
        batches = in_batches(read, sizes)
        for batch in in_own_form(batches, provider, sizes):
            self._append(batch)
        return self.done

    def _append(self, batch: Batch) -> None:
        known, last, new = 0, self._last, NewEvents()

        def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
            nonlocal known, last, new
            known, last = known_messages(batch, state, self._last, self._session)
            new = self._events(batch, known, state, look_up)
            if new.events:
                check_continues(self._session, state, last, len(self._stems) + known)
            if new.events and not state.version:
                self._begin(new)
            return new.identified()

        command = Command(self._id, decide, PendingAppend.recorded, exclusive=True)
        written = self._session.run(command)
        done, first = self.done, len(self._stems) + known
        done.findings += (msgspec.structs.replace(f, item=first + f.item) for f in new.findings)
        done.skipped += known
        done.added += new.messages
        done.silent += len(batch) - known - new.messages
        done.calls += sum(message.calls for message in batch)
        done.events += len(written)
        self._last = LastKnown(written[-1].version, batch[-1].stem) if written else last
        self._message_id = last_message_id(batch, self._message_id)
        self._stems += (message.stem for message in batch)

    def _events(
        self, batch: Batch, known: int, state: ConversationState, look_up: LookUp
    ) -> NewEvents:
        first = len(self._stems) + known
        count = len(batch) - known
        given = self._source.times[first : first + count]
        times = list(times_at_source(given, len(given)))
        times += [None] * (count - len(times))
        stems = chain(self._stems, (message.stem for message in batch[:known]))
        begins = not state.version and self._source.started is not None
        places = HistoryPlaces(self._session, self._id, stems, state.version + begins)
        return events_of_new(
            batch[:known],
            self._marked(batch[known:]),
            times,
            state,
            look_up,
            self._provider,
            self._message_id,
            places,
        )

    def _marked(self, new: Batch) -> Batch:
        """Return messages, those as copies that another conversation has."""
        find = self._source.find
        if find is None or not new or new[-1].is_copy:
            return new
        copied = known_elsewhere(new, self._id, self._session, find)
        return [
            msgspec.structs.replace(each, is_copy=True) if each.stem in copied else each
            for each in new
        ]

    def _begin(self, new: NewEvents) -> None:
        """Let a new conversation begin with the run that its source names."""
        started = self._source.started
        if started is not None:
            new.events.insert(0, started)
            new.ids.insert(0, event_id_of(stem_of(b"started", _encode(started)), 0))
            new.times.insert(0, new.times[0])
