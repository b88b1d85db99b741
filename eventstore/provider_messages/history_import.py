"""Recording messages that a provider wrote: in one append, or a whole history in batches.

An import may be repeated:

1. Each message has a place: a digest over it and all messages before it.
2. Its events are stored under ids that begin with the place, so the log itself says how far an
   import came.
3. The same messages again add nothing, and a longer list adds its tail. Two imports at a time, or
   one that was killed and is repeated, store nothing twice.
4. A conversation that goes on with other messages is refused (`ImportConflict`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.append.commands import Command, stored_once
from eventstore.append.conversation_state import ConversationState, IdentifiedEvents
from eventstore.append.pending_append import PendingAppend
from eventstore.append.places import (
    PLACE_BYTES,
    calls_of,
    event_id_at,
    event_ids_at,
    has_place,
    place_of,
    place_of_step,
    start_of_ids,
)
from eventstore.append.tool_fold import LookUp
from eventstore.domain.arguments import check_version, event_ids_as_bytes
from eventstore.domain.events import (
    Event,
    MessageAdded,
    ModelResponded,
    RunStarted,
    ToolFailed,
    ToolPending,
)
from eventstore.domain.failure import Failure
from eventstore.domain.finish_reasons import BROKEN_OFF, is_of_cut_off_response, why_not_whole
from eventstore.domain.json_types import is_json_object
from eventstore.domain.jsonable import readable
from eventstore.domain.messages import Text
from eventstore.domain.recorded_responses import another_after, completion, tokens_agree
from eventstore.errors import ImportConflict, VersionConflict
from eventstore.providers.compaction import compact
from eventstore.providers.detection import MESSAGE_PLACE, listed, refuse_foreign
from eventstore.providers.model import (
    NativeMessage,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
)
from eventstore.providers.parsing import parse, parse_own
from eventstore.providers.registry import known_provider, list_key
from eventstore.providers.response_facts import finish_reason_of, stated_facts
from eventstore.providers.responses import refuse_fragments, response_place
from eventstore.providers.sdk_objects import plain
from eventstore.providers.to_events import Finding, to_events

if TYPE_CHECKING:
    from uuid import UUID

    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.messages import Part
    from eventstore.domain.tool import Tool
    from eventstore.policies.prices import Prices
    from eventstore.session import Session

Test = Callable[[Any], bool]
"""Judges a provider's result: whether it is an error, or a rejection."""

BATCH_MESSAGES = 500
"""Messages that are appended together; a batch ends before a user message."""

MAX_BATCH_MESSAGES = 5000
"""Messages at most that are appended together when there is no user message."""

MAX_UNJUDGED_MESSAGES = 20_000
"""Messages that are held back at most until a call shows which provider's form they have. Then
those are judged together, and then the next."""


class ImportSizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages an import appends together and holds back; see the constants above."""

    batch_messages: int = BATCH_MESSAGES
    max_batch_messages: int = MAX_BATCH_MESSAGES
    max_unjudged_messages: int = MAX_UNJUDGED_MESSAGES


DEFAULT_SIZES = ImportSizes()


class ImportSource(msgspec.Struct, frozen=True):
    """What an import knows of its messages beside themselves; see `Conversation.import_messages`.

    `times` may grow while the messages are taken.
    """

    started: RunStarted | None = None
    times: Sequence[int | None] = ()
    error_pattern: str | re.Pattern[str] | None = None


_ITEMS = (ParsedMessage, ParsedResult)
_encode = msgspec.json.Encoder(order="deterministic").encode


def record(  # noqa: PLR0913 - each with a default
    conversation_id: str,
    message: object,
    provider: str,
    event_ids: Sequence[UUID | str | bytes] | None = None,
    expected_version: int | None = None,
    *,
    step: str | None = None,
    usage: bool = True,
    latency: float | None = None,
    prices: Prices | None = None,
    broken_off: bool = False,
) -> Command[list[Tool]]:
    """Record one message; see `Conversation.record`.

    With `broken_off` it is what came of a response whose stream broke off: the message is marked.
    The calls of a response that is not whole fail at once, without having run. `prices` is for its
    `usage`. Of a response that a budget told of before its message, only what is new is stored
    (`recorded_responses`).
    """
    if expected_version is not None:
        check_version("expected_version", expected_version)
    refuse_fragments(message)
    given = message if is_json_object(message) else [message]
    items = [compact(i, provider) for i in parse_own(given, provider, None, None, "the message")]
    if broken_off:
        items = [_not_whole(item, BROKEN_OFF) for item in items]
    facts = stated_facts(message, known_provider(provider), prices, latency) if usage else None
    if broken_off and usage and facts is None:  # it was made all the same, and counts
        facts = ModelResponded(known_provider(provider))
    said = _Said(conversation_id, items, provider, facts, broken_off)
    if step is not None:
        return _of_step(step, said, event_ids, expected_version)
    if event_ids is None and (items or facts):  # a response may say nothing at all
        place = response_place(message, items, provider)[:PLACE_BYTES]
        if place:
            recording = _NamedResponse(conversation_id, items, provider, facts, broken_off, place)
            recording.expected_version = expected_version
            return Command(conversation_id, recording.decide, recording.result, exclusive=True)
    ids = [] if event_ids is None else event_ids_as_bytes(event_ids, len(event_ids))

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        events = said.events(state, look_up)
        if event_ids is None:
            return events
        return IdentifiedEvents(events, _ids_with_added(events, ids))

    def result(done: PendingAppend) -> list[Tool]:
        return _recorded_tools(done, ids)

    return Command(conversation_id, decide, result, expected_version, ids, exclusive=True)


class _Said(msgspec.Struct):
    """A message that is to be recorded, and what its response says of itself."""

    conversation_id: str
    items: Sequence[ParsedItem]
    provider: str
    facts: ModelResponded | None
    broken_off: bool

    def events(self, state: ConversationState, look_up: LookUp) -> list[Event]:
        """Return the events of the message."""
        made = to_events(self.items, state, look_up, self.provider, imported=False).events
        events = _in_whole_messages(made)
        if self.broken_off:
            events = [_marked_broken_off(event) for event in events]
        not_run = state.not_run(events, self.facts)
        return [*events, *not_run, *_not_recorded(self.facts, state)]


def _of_step(
    step: str, said: _Said, event_ids: Sequence[object] | None, expected_version: int | None
) -> Command[list[Tool]]:
    """Record what a step of a run says; see `eventstore.append.places`."""
    if event_ids is not None:
        raise ValueError(f"step is {step!r}, and event_ids are given: pass one of them")
    place = place_of_step(step, [_content(item) for item in said.items])
    recording = Command(said.conversation_id, said.events, PendingAppend.tools, expected_version)
    return stored_once(recording, place, step)


class _NamedResponse(_Said):
    """A response with an id. It is stored once, if it is told again with nothing said between.

    Its events are stored under ids that name it and its place: so it is known when it comes again.
    """

    place: bytes
    expected_version: int | None = None
    turn: int | None = None
    """The turn of the response, if the log has it."""

    def decide(self, state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        """Return the events to store; none if the log has them."""
        self.turn = state.turn if _repeats_last(state, self.place, self.facts) else None
        if self.turn is not None:
            return ()
        if self.expected_version not in (None, state.version):
            raise VersionConflict(self.expected_version or 0, state.version)
        events = self.events(state, look_up)
        here = _place_at(self.place, state.version)
        return IdentifiedEvents(events, event_ids_at(here, len(events)))

    def result(self, done: PendingAppend) -> list[Tool]:
        """Return the calls of the response; as they stand now, if it was recorded before."""
        if self.turn is None:
            return done.tools()
        return [tool for tool in done.look_up().values() if tool.turn == self.turn]


def record_turn(
    conversation_id: str,
    parts: Sequence[Part],
    calls: Sequence[ParsedCall],
    provider: str,
    native: NativeMessage | None,
    response_id: bytes,
    responded: ModelResponded | None = None,
    step: str | None = None,
) -> Command[list[Tool]]:
    """Record what a model said and the calls it made, as a host or framework gives them.

    `provider` names the form of `native`; it need not be registered. A turn with the same
    `response_id` is stored once, and with it what the response says of itself (`responded`). If
    the response is not whole, its calls fail. Ids of calls that were used before are qualified.
    `step` is that of a run, if it may have to ask the model anew.
    """
    place = place_of(b"turn", provider.encode(), response_id)
    why = None
    if responded is not None:
        why = why_not_whole(responded.provider, responded.finish_reason)
    item = ParsedMessage("assistant", tuple(parts), tuple(calls), not_whole=why)

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        made = to_events([item], state, look_up, "openai", imported=False).events
        events: list[Event] = [
            msgspec.structs.replace(event, provider=provider, native=native)
            if type(event) is MessageAdded
            else event
            for event in made
        ]
        not_run = state.not_run(events, responded)
        return [*events, *not_run, *_not_recorded(responded, state)]

    return stored_once(Command(conversation_id, decide, PendingAppend.tools), place, step)


def _not_recorded(
    facts: ModelResponded | None, state: ConversationState
) -> Sequence[ModelResponded]:
    """Return the event of a response; only what is new, if it came before its turn."""
    if facts is None:
        return ()
    waiting = state.waiting_response(facts)
    if waiting is None:
        last = state.last_response
        return (another_after(last and last[1], facts),)
    version, earlier = waiting
    new = completion(earlier, facts, version)
    return () if new is None else (new,)


def _repeats_last(state: ConversationState, place: bytes, facts: ModelResponded | None) -> bool:
    """Return whether a response is the last one of the conversation, told again."""
    if state.origin is None:
        return False
    version, given = state.origin
    event_id = bytes.fromhex(given) if isinstance(given, str) else given
    # Older versions stored a response under its place alone.
    known = (event_id_at(place, 0), event_id_at(_place_at(place, version - 1), 0))
    if event_id not in known or not state.may_be_repeated():
        return False
    last = state.last_of_turn
    return last is None or facts is None or tokens_agree(last, facts)


def _place_at(place: bytes, version: int) -> bytes:
    """Return the place of a response that follows a version of its conversation."""
    return place_of(place, version.to_bytes(8, "big"))


def _ids_with_added(events: Sequence[Event], given: Sequence[bytes]) -> list[bytes]:
    """Return the ids of events, where the caller named those of the message and its calls.

    What a response says of itself, and that a call did not run, are stored beside them.
    """
    added = [_is_added(event) for event in events]
    event_ids_as_bytes(given, len(events) - sum(added))
    rest = iter(given)
    return [
        event_id_at(place_of(given[0], number.to_bytes(8, "big")), 0) if is_added else next(rest)
        for number, is_added in enumerate(added)
    ]


def _is_added(event: Event) -> bool:
    if type(event) is ToolFailed:
        return is_of_cut_off_response(event.failure)
    return type(event) is ModelResponded


def _recorded_tools(done: PendingAppend, known: Sequence[bytes]) -> list[Tool]:
    """Return the calls of a message; as they stand now, if it was recorded before."""
    if not known or not done.stored_ids >= set(known):
        return done.tools()
    return calls_of(done, lambda event_id: event_id in known)


def _in_whole_messages(events: Sequence[Event]) -> list[Event]:
    """Return events with one message for all items of a turn: some providers' have several."""
    whole: list[Event] = []
    places: dict[int, int] = {}  # of messages in `whole`, by their turns
    for event in events:
        if type(event) is MessageAdded and event.turn is not None:
            place = places.setdefault(event.turn, len(whole))
            if place < len(whole):
                first: Any = whole[place]
                whole[place] = first.continued_by(event)
                continue
        whole.append(event)
    return whole


def _marked_broken_off(event: Event) -> Event:
    """Return an event of a response that broke off; its message is marked."""
    if type(event) is not MessageAdded:
        return event
    return msgspec.structs.replace(event, broken_off=True)


def _not_whole(item: ParsedItem, why: Failure | None) -> ParsedItem:
    """Return an item of a response that is not whole: its calls fail."""
    if why is None or not isinstance(item, ParsedMessage):
        return item
    return msgspec.structs.replace(item, not_whole=why)


def record_messages(
    conversation_id: str,
    messages: Sequence[Any] | JsonObject,
    provider: str,
    is_error: Test | None = None,
    is_rejection: Test | None = None,
    *,
    imported: bool = True,
) -> Command[list[Tool]]:
    """Record messages as one append; see `Conversation.record_messages`."""
    items = parse_own(messages, provider, is_error, is_rejection, MESSAGE_PLACE)
    compacted = [compact(item, provider) for item in items]

    def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
        events = to_events(compacted, state, look_up, provider, imported=imported).events
        return [*events, *state.not_run(events)]

    return Command(conversation_id, decide, PendingAppend.tools, exclusive=True)


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
        """How many messages were read."""
        return self.added + self.skipped


class Import:
    """One import under way: messages in order, batch after batch."""

    def __init__(
        self,
        session: Session,
        conversation_id: str,
        provider: str,
        is_error: Test | None,
        is_rejection: Test | None,
        source: ImportSource,
        sizes: ImportSizes = DEFAULT_SIZES,
    ) -> None:
        self.done = Imported()
        self._sizes = sizes
        self._session = session
        self._id = conversation_id
        self._provider = provider
        self._tests = (is_error, is_rejection)
        self._source = source
        pattern = source.error_pattern
        self._error = None if pattern is None else re.compile(pattern)
        self._taken = 0  # messages
        self._place = b""  # of the last message taken in
        self._key: str | None = None  # of the last assistant message
        self._end = _End()

    def extend(self, messages: Iterable[Any] | JsonObject) -> Imported:
        """Append the messages that the log does not hold yet."""
        given = map(self._plain, listed(messages, list_key(self._provider)))
        for batch in self._judged(self._batches(given)):
            self._append(batch)
        return self.done

    def _plain(self, message: Any) -> Any:
        """Return a message as JSON; a response that is not whole keeps what says so."""
        if isinstance(message, _ITEMS):
            return message
        reason = finish_reason_of(message, self._provider)
        if why_not_whole(self._provider, reason) and hasattr(message, "model_dump"):
            return message.model_dump(mode="json", exclude_none=True)
        return plain(message)

    def _batches(self, messages: Iterable[Any]) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for message in messages:
            if self._is_full(batch, message):
                yield batch
                batch = []
            batch.append(message)
        if batch:
            yield batch

    def _is_full(self, batch: list[Any], following: Any) -> bool:
        if len(batch) < self._sizes.batch_messages:
            return False
        is_largest = len(batch) >= self._sizes.max_batch_messages
        return is_largest or _is_user_message(following, self._provider)

    def _judged(self, batches: Iterator[list[Any]]) -> Iterator[list[_Message]]:
        """Yield the batches, each once it is sure that the messages are in the provider's form.

        Raises:
            ForeignForm: They are not. Batches that were held back are not yielded.
        """
        calls = False
        given: list[Any] = []
        held: list[list[_Message]] = []
        for batch in batches:
            taken = [self._message(message) for message in batch]
            if calls:
                yield taken
                continue
            given += [message for message in batch if not isinstance(message, _ITEMS)]
            held.append(taken)
            if _makes_calls(taken) or len(given) >= self._sizes.max_unjudged_messages:
                calls = self._judge(given, held)
                yield from held
                given, held = [], []
        self._judge(given, held)
        yield from held

    def _judge(self, given: list[Any], taken: list[list[_Message]]) -> bool:
        items = (item for batch in taken for message in batch for item in message.items)
        return refuse_foreign(given, items, self._provider, first=self.done.messages)

    def _message(self, message: Any) -> _Message:
        times, number = self._source.times, self._taken
        self._taken += 1
        if isinstance(message, _ITEMS):
            try:
                form = _form(message)
            except ValueError:  # half of a surrogate pair
                message = _encodable(message)
                form = _form(message)
            items = [message]
        else:
            try:
                form = _encode(message)
            except TypeError:  # keys of objects that are not text
                message = readable(message)[0]
                form = _encode(message)
            parsed = parse([message], self._provider, *self._tests)
            items = [compact(item, self._provider) for item in parsed]
        self._place = place_of(self._place, form)
        time = times[number] if number < len(times) else None
        return _Message(self._place, [self._judged_by_text(item) for item in items], time)

    def _judged_by_text(self, item: ParsedItem) -> ParsedItem:
        """Return the item; a result whose text says so is a failure."""
        if (
            self._error is None
            or not isinstance(item, ParsedResult)
            or item.is_error
            or item.rejected
        ):
            return item
        return msgspec.structs.replace(item, is_error=bool(self._error.search(item.text)))

    def _append(self, batch: list[_Message]) -> None:
        tail = _Tail(0, self._end)

        def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
            nonlocal tail
            tail = self._tail(batch, state, look_up)
            return tail.events

        command = Command(self._id, decide, PendingAppend.recorded, exclusive=True)
        written = self._session.run(command)
        done = self.done
        done.findings += tail.findings
        done.skipped += tail.known
        done.added += len(batch) - tail.known
        done.events += len(written)
        self._end = _End(written[-1].version, batch[-1].place) if written else tail.end
        self._key = _last_key(batch, self._key)

    def _tail(self, batch: list[_Message], state: ConversationState, look_up: LookUp) -> _Tail:
        known, end = self._known(batch, state)
        rest = batch[known:]
        owners = [number for number, message in enumerate(rest) for _ in message.items]
        transcript = to_events(
            [item for message in rest for item in message.items],
            state,
            look_up,
            self._provider,
            imported=True,
            key=_last_key(batch[:known], self._key),
            goes_on=_goes_on(batch[:known]),
            is_rest=True,
        )
        identified = _identified(transcript.by_item, [rest[n] for n in owners])
        events, ids, times = identified.events, identified.ids, identified.times
        base = self.done.messages + known
        if events:
            self._check(state, end, base)
        started = self._source.started
        if events and not state.version and started is not None:
            events.insert(0, started)
            ids.insert(0, event_id_at(place_of(b"started", _encode(started)), 0))
            times.insert(0, times[0])
        findings = [
            msgspec.structs.replace(found, item=base + owners[found.item])
            for found in transcript.findings
        ]
        return _Tail(known, end, IdentifiedEvents(events, ids, times), findings)

    def _known(self, batch: list[_Message], state: ConversationState) -> tuple[int, _End]:
        """Return how many messages of the batch the log has, and where they end in it."""
        if state.version == self._end.version:
            return 0, self._end
        firsts = [event_id_at(message.place, 0) for message in batch]
        known_ids = self._session.known_ids
        # The place of the last message covers all before it.
        stored = known_ids(self._id, firsts[-1:]) or known_ids(self._id, firsts)
        for number in range(len(batch), 0, -1):
            if version := stored.get(firsts[number - 1]):
                return number, _End(version, batch[number - 1].place)
        return 0, self._end

    def _check(self, state: ConversationState, end: _End, messages: int) -> None:
        """Refuse to add to a conversation that goes on with other messages.

        What was recorded of the known calls may follow the last known message: decisions, starts,
        ends. Other messages and calls may not, nor events of another import.

        Raises:
            ImportConflict: it names the event.
        """
        if state.version == end.version:
            return
        mark = start_of_ids(end.place) if end.place else b""
        for recorded in self._session.events(self._id, end.version):
            event_id = bytes.fromhex(recorded.event_id)
            said = isinstance(recorded.event, MessageAdded | ToolPending)
            if (said or has_place(event_id)) and event_id[:PLACE_BYTES] != mark:
                raise ImportConflict(self._id, messages + 1, recorded.version)


class _End(msgspec.Struct, frozen=True):
    """The last message that the log is known to have: the version of an event, and its place."""

    version: int = 0
    place: bytes = b""


class _Message(msgspec.Struct):
    """A message, its place, and what it says."""

    place: bytes
    items: list[ParsedItem]
    time: int | None = None


class _Identified(msgspec.Struct):
    """Events, their ids, and their times at their source."""

    events: list[Event] = []
    ids: list[bytes] = []
    times: list[int | None] = []


class _Tail(msgspec.Struct):
    """The part of a batch that is to be added: all but the first `known` messages."""

    known: int
    end: _End
    events: Sequence[Event] = ()
    findings: list[Finding] = []


def _makes_calls(batch: Iterable[_Message]) -> bool:
    items = (item for message in batch for item in message.items)
    return any(isinstance(item, ParsedMessage) and item.calls for item in items)


def _encodable(item: ParsedItem) -> ParsedItem:
    """Return an item of text alone whose halves of surrogate pairs are written out."""
    if isinstance(item, ParsedResult):
        return msgspec.structs.replace(
            item, id=_escaped(item.id), name=_escaped(item.name), text=_escaped(item.text) or ""
        )
    calls = [
        ParsedCall(
            _escaped(made.id),
            msgspec.structs.replace(
                made.call,
                name=_escaped(made.call.name),
                arguments=readable(made.call.arguments)[0],
                id=_escaped(made.call.id),
                raw=_escaped(made.call.raw),
            ),
        )
        for made in item.calls
    ]
    parts = [
        Text(_escaped(part.text) or "") if isinstance(part, Text) else part for part in item.parts
    ]
    return msgspec.structs.replace(
        item, parts=tuple(parts), calls=tuple(calls), message_id=_escaped(item.message_id)
    )


def _escaped(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def _form(item: ParsedItem) -> bytes:
    """Return what an item of the neutral model says: members added later do not change it."""
    return _encode(_content(item))


def _content(item: ParsedItem) -> tuple[object, ...]:
    if isinstance(item, ParsedMessage):
        calls = [
            (call.id, call.call.name, call.call.arguments, call.call.raw) for call in item.calls
        ]
        return ("message", item.role, item.parts, calls, item.message_id)
    return ("result", item.id, item.name, item.text, item.parts)


def _is_user_message(message: Any, provider: str) -> bool:
    """Return whether it is a user message: no results of earlier calls are expected after it."""
    items = [message] if isinstance(message, _ITEMS) else parse([message], provider)
    return all(isinstance(item, ParsedMessage) and item.role == "user" for item in items)


def _last_key(batch: Sequence[_Message], before: str | None) -> str | None:
    """Return the provider's id of the last assistant message."""
    for message in reversed(batch):
        for item in reversed(message.items):
            if isinstance(item, ParsedMessage) and item.role == "assistant":
                return item.message_id
    return before


def _goes_on(batch: Sequence[_Message]) -> bool:
    """Return whether a further piece of the assistant's message may follow the last message."""
    last = batch[-1].items[-1:] if batch else []
    return any(isinstance(item, ParsedMessage) and item.is_continuation for item in last)


def _identified(by_item: Sequence[Sequence[Event]], messages: Sequence[_Message]) -> _Identified:
    """Return all events, each with an id that names the message it comes from, and its time."""
    identified = _Identified()
    counts: dict[bytes, int] = {}
    for made, message in zip(by_item, messages, strict=True):
        for event in made:
            count = counts.get(message.place, 0)
            counts[message.place] = count + 1
            identified.events.append(event)
            identified.ids.append(event_id_at(message.place, count))
            identified.times.append(message.time)
    return identified
