"""Importing: the same messages again add nothing, a longer list adds its tail.

Each message has a place: a digest over it and all messages before it. Its events are stored
under ids that begin with the place, so that the log itself says how far an import came, and two
imports at once, or one that was killed, double nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.errors import ImportConflict
from eventstore.events import Event, MessageAdded, RunStarted, ToolPending
from eventstore.fingerprint import content_id
from eventstore.readable import readable
from eventstore.state import ConversationState, Identified, mint
from eventstore.wire import (
    WireItem,
    WireMessage,
    compact,
    list_key,
    listed,
    parse,
    plain,
    refuse_foreign,
)
from eventstore.wire.transcript import Finding, transcribe

if TYPE_CHECKING:
    from eventstore.store import EventStore

Test = Callable[[Any], bool]

BATCH = 500
"""Messages that are appended together; a batch ends where the user speaks."""

MOST = 5000
"""Messages that are appended together where the user does not speak."""

HELD = 20_000
"""Messages that are looked at for a call, which shows whose form they have, before any is written.
Of more, those are judged together, and then the next."""

_PLACE = 12  # bytes of an event id that say the place; the rest counts the message's events

_encode = msgspec.json.Encoder(order="deterministic").encode


class Imported(msgspec.Struct):
    """What an import did.

    `added` messages, as so many `events`; `skipped` ones were there already. `findings` say what
    was wrong in those added; their `item` is the message's number, from 0.
    """

    added: int = 0
    skipped: int = 0
    events: int = 0
    findings: list[Finding] = []

    @property
    def messages(self) -> int:
        """How many messages were taken in."""
        return self.added + self.skipped


class Import:
    """One import under way: messages in order, batch after batch."""

    def __init__(
        self,
        store: EventStore,
        conversation_id: str,
        provider: str,
        is_error: Test | None,
        is_rejection: Test | None,
        started: RunStarted | None,
    ) -> None:
        self.done = Imported()
        self._store = store
        self._id = conversation_id
        self._provider = provider
        self._tests = (is_error, is_rejection)
        self._started = started
        self._place = b""  # of the last message taken in
        self._key: str | None = None  # of the last assistant message
        self._end = _End()

    def extend(self, messages: Iterable[Any] | dict[str, Any]) -> Imported:
        """Take in messages."""
        given = map(plain, listed(messages, list_key(self._provider)))
        for batch in self._judged(_batches(given, self._provider)):
            self._append(batch)
        return self.done

    def _judged(self, batches: Iterator[list[Any]]) -> Iterator[list[_Message]]:
        """The batches, each once it is sure that the messages are of the provider's form.

        Raises:
            ForeignForm: they are not; none of those that were held back are given.
        """
        calls = False
        given: list[Any] = []
        held: list[list[_Message]] = []
        for batch in batches:
            taken = [self._message(message) for message in batch]
            if calls:
                yield taken
                continue
            given += batch
            held.append(taken)
            if _makes_calls(taken) or len(given) >= HELD:
                calls = self._judge(given, held)
                yield from held
                given, held = [], []
        self._judge(given, held)
        yield from held

    def _judge(self, given: list[Any], taken: list[list[_Message]]) -> bool:
        items = (item for batch in taken for message in batch for item in message.items)
        return refuse_foreign(given, items, self._provider, first=self.done.messages)

    def _message(self, message: Any) -> _Message:
        try:
            form = _encode(message)
        except TypeError:  # keys of objects that are no text
            message = readable(message)[0]
            form = _encode(message)
        self._place = content_id(self._place, form)[:_PLACE]
        items = parse([message], self._provider, *self._tests)
        return _Message(self._place, [compact(item, self._provider) for item in items])

    def _append(self, batch: list[_Message]) -> None:
        tail = _Tail(0, self._end)

        def decide(state: ConversationState) -> Sequence[Event]:
            nonlocal tail
            tail = self._tail(batch, state)
            return tail.events

        task = self._store.appender.append(self._id, decide, alone=True)
        done = self.done
        done.findings += tail.findings
        done.skipped += tail.known
        done.added += len(batch) - tail.known
        written = task.recorded
        done.events += len(written)
        self._end = _End(written[-1].version, batch[-1].place) if written else tail.end
        self._key = _last_key(batch, self._key)

    def _tail(self, batch: list[_Message], state: ConversationState) -> _Tail:
        known, end = self._known(batch, state)
        rest = batch[known:]
        owners = [number for number, message in enumerate(rest) for _ in message.items]
        transcript = transcribe(
            [item for message in rest for item in message.items],
            state,
            lambda turn, index, taken: mint(self._id, turn, index, taken),
            lambda: self._store.conversation(self._id).tools,
            self._provider,
            imported=True,
            key=_last_key(batch[:known], self._key),
            goes_on=_goes_on(batch[:known]),
        )
        events, ids = _identified(transcript.by_item, [rest[n].place for n in owners])
        base = self.done.messages + known
        if events:
            self._check(state, end, base)
        if events and not state.version and self._started is not None:
            events.insert(0, self._started)
            ids.insert(0, _event_id(content_id(b"started", _encode(self._started)), 0))
        findings = [
            msgspec.structs.replace(found, item=base + owners[found.item])
            for found in transcript.findings
        ]
        return _Tail(known, end, Identified(events, ids), findings)

    def _known(self, batch: list[_Message], state: ConversationState) -> tuple[int, _End]:
        """How many messages of the batch the log has, and where they end in it."""
        if state.version == self._end.version:
            return 0, self._end
        firsts = [_event_id(message.place, 0) for message in batch]
        look_up = self._store.appender.opened().known_ids
        # The place of the last covers all before it.
        stored = look_up(self._id, firsts[-1:]) or look_up(self._id, firsts)
        for number in range(len(batch), 0, -1):
            if version := stored.get(firsts[number - 1]):
                return number, _End(version, batch[number - 1].place)
        return 0, self._end

    def _check(self, state: ConversationState, end: _End, messages: int) -> None:
        """Refuse to add to a conversation that goes on in another way.

        What was recorded here of the calls may follow the last known message: decisions, starts,
        ends. What was said here, or is of other messages, may not.
        """
        if state.version == end.version:
            return
        mark = _marked(end.place) if end.place else b""
        for recorded in self._store.conversation(self._id).events(after=end.version):
            event_id = bytes.fromhex(recorded.event_id)
            said = isinstance(recorded.event, MessageAdded | ToolPending)
            if (said or _is_ours(event_id)) and event_id[:_PLACE] != mark:
                raise ImportConflict(self._id, messages + 1, recorded.version)


class _End(msgspec.Struct, frozen=True):
    """The last message that the log is known to have: the version of an event, and its place."""

    version: int = 0
    place: bytes = b""


class _Message(msgspec.Struct):
    """A message, its place, and what it says."""

    place: bytes
    items: list[WireItem]


class _Tail(msgspec.Struct):
    """What of a batch is to be added: all but the first `known` messages."""

    known: int
    end: _End
    events: Sequence[Event] = ()
    findings: list[Finding] = []


def _batches(messages: Iterable[Any], provider: str) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for message in messages:
        if len(batch) >= BATCH and (len(batch) >= MOST or _is_users(message, provider)):
            yield batch
            batch = []
        batch.append(message)
    if batch:
        yield batch


def _makes_calls(batch: Iterable[_Message]) -> bool:
    items = (item for message in batch for item in message.items)
    return any(isinstance(item, WireMessage) and item.calls for item in items)


def _is_users(message: Any, provider: str) -> bool:
    """Whether the user speaks, so that results of earlier calls are not expected any more."""
    return all(
        isinstance(item, WireMessage) and item.role == "user" for item in parse([message], provider)
    )


def _last_key(batch: Sequence[_Message], before: str | None) -> str | None:
    """The provider's id of the last assistant message."""
    for message in reversed(batch):
        for item in reversed(message.items):
            if isinstance(item, WireMessage) and item.role == "assistant":
                return item.key
    return before


def _goes_on(batch: Sequence[_Message]) -> bool:
    """Whether the last message is one that a further piece of the assistant's may go on with."""
    last = batch[-1].items[-1:] if batch else []
    return any(isinstance(item, WireMessage) and item.piece for item in last)


def _identified(
    by_item: Sequence[Sequence[Event]], places: Sequence[bytes]
) -> tuple[list[Event], list[bytes]]:
    """All events, each with an id that says whose message's it is."""
    events: list[Event] = []
    ids: list[bytes] = []
    counts: dict[bytes, int] = {}
    for made, place in zip(by_item, places, strict=True):
        for event in made:
            count = counts.get(place, 0)
            counts[place] = count + 1
            events.append(event)
            ids.append(_event_id(place, count))
    return events, ids


def _event_id(place: bytes, count: int) -> bytes:
    """A UUID (version 8: made as its maker sees fit) for a message's event."""
    return _marked(place) + count.to_bytes(16 - _PLACE, "big")


def _is_ours(event_id: bytes) -> bool:
    """Whether an event was imported: all others have ids of version 7, or their owner's."""
    return event_id[6] >> 4 == 8  # noqa: PLR2004 - the version


def _marked(place: bytes) -> bytes:
    """The start of a UUIDv8, with as much of `place` as there is room for."""
    return bytes(
        (*place[:6], place[6] & 0x0F | 0x80, place[7], place[8] & 0x3F | 0x80, *place[9:_PLACE])
    )
