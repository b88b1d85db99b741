"""Convert parsed items to events: every call gets a unique id, every result finds its call.

A result answers, in this order:

1. a call of the assistant messages right before it: by id; where ids are missing, by position among
   the calls of its tool, or among all where it names no tool;
2. the latest unanswered call with its id, anywhere before it;
3. a failed call with its id in the same turn, if the result is not an error (a completion replaces
   a failure: one of an attempt that ran here is the log's, one that was a result is kept as text);
4. the first later call with its id (the result was logged too early).

An equal repeat is left out, also of a failure or a refusal in the words that the model reads. It is
known before rule 2: a result that repeats the latest call with its id answers no earlier one.

A prompt that the library rendered may be handed back, so several calls of the last turn may be
meant by a result without an id, or with an id that they share: answered ones and waiting ones.

- If the results are as many as those calls, each belongs to the call in its place. A call that was
  answered keeps its answer, and the library's own text stands for a call that waits.
- Otherwise it is not known which of them they answer. A result in the words of a call that the log
  shows to have run (it was started), or to have been settled here (by a hook, a person, a gate or a
  limit), is a repeat of that. So one real result with the same words is left out, and its call
  still waits: it can be answered. Where the host runs the tools and records the results, no call
  was started: each result is new, and answers the next call.

A result in the words of a call in doubt is a failure in doubt. A call without a result whose
response is not whole (`finish_reasons`) fails. A result that answers no call is kept as a message
of role `tool`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

import msgspec
from msgspec import to_builtins

from eventstore.append.conversation_state import ConversationState
from eventstore.append.last_turn import mint_call_id
from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.events import (
    Event,
    MessageAdded,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
)
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.messages import Image, Opaque, Part, Text
from eventstore.domain.own_texts import is_own_text, tells_of_doubt
from eventstore.domain.tool import Tool
from eventstore.providers.model import ParsedCall, ParsedItem, ParsedMessage, ParsedResult
from eventstore.providers.pairing import (
    HandedBack,
    Slot,
    TakenIds,
    Window,
    results_before_next_turn,
)
from eventstore.providers.registry import adapter_of, media


class Finding(msgspec.Struct, frozen=True, gc=False):
    """A fault in the messages: the item that has it, and what was done about it."""

    item: int
    what: str
    rule: str
    problem: str
    call_id: str | None = None


_NO_ID = ("re-keyed", "no-id", "the call has no id: one was minted")
_USED = ("re-keyed", "used-id", "the call's id was used before: it was qualified")
_TWICE = ("merged", "two-results", "the same result twice: one was left out")
_OTHER = ("wrapped", "two-results", "the call has another result already: kept as text")
_FAILED = ("wrapped", "two-results", "the call failed by another result: that is kept as text")
_EARLY = ("moved", "early-result", "the result came before its call: moved after it")
_FORM = ("rewritten", "form", "it was not in its provider's form")
_MOVED = ("moved", "late-result", "the result did not follow its call: moved after it")
_OWN_TEXT = ("dropped", "own-text", "toolledger's own text is not a result: the call has none")
_ORPHAN = ("wrapped", "orphan", "the result answers no call: kept as text")


class Conversion(msgspec.Struct):
    """The events of messages, item by item, and the faults found in the messages."""

    by_item: list[list[Event]]
    findings: list[Finding]

    @property
    def events(self) -> list[Event]:
        """All events, in order."""
        return [event for events in self.by_item for event in events]


class Resumed(msgspec.Struct, frozen=True):
    """The end of a history whose next items follow: they repeat nothing of it.

    An assistant message with the provider's id `message_id` continues the last one of the history,
    and shares its turn. `may_be_continued`: the last message was the assistant's, so that a
    continuation may follow it.
    """

    message_id: str | None = None
    may_be_continued: bool = False


def to_events(
    items: Sequence[ParsedItem],
    state: ConversationState,
    look_up: Callable[[], Mapping[str, Tool]],
    provider: str,
    *,
    imported: bool,
    resumed: Resumed | None = None,
    keeps_own_texts: bool = False,
) -> Conversion:
    """Return the events of `items` after `state`.

    `look_up` returns all calls; it is called only where a result may repeat an earlier one.
    `imported` means that the items happened elsewhere: a call without a result may have run there.
    `resumed` says that the items continue a history that the state holds. A text of the library's
    own is not a result, unless `keeps_own_texts`.
    """
    writer = _Writer(items, state, look_up, provider, imported=imported, resumed=resumed)
    writer.keeps_own_texts = keeps_own_texts
    for number, item in enumerate(items):
        writer.events.append([])
        if isinstance(item, ParsedMessage):
            writer.message(number, item)
        else:
            writer.result(number, item)
    writer.insert_early()
    writer.fail_unanswered()
    return Conversion(writer.events, writer.findings)


def events_of_history(items: Sequence[ParsedItem], provider: str) -> Conversion:
    """Return the events of a history that is not in a log, with each text in it."""
    state = ConversationState("", 0)
    return to_events(items, state, dict, provider, imported=True, keeps_own_texts=True)


class _Writer:
    def __init__(
        self,
        items: Sequence[ParsedItem],
        state: ConversationState,
        look_up: Callable[[], Mapping[str, Tool]],
        provider: str,
        *,
        imported: bool,
        resumed: Resumed | None,
    ) -> None:
        self._items = items
        self._imported = imported
        self._message_id = resumed and resumed.message_id  # of the last assistant message
        self._may_continue = resumed is not None and resumed.may_be_continued
        self._is_rest = resumed is not None
        self.events: list[list[Event]] = []
        self.findings: list[Finding] = []
        self.keeps_own_texts = False
        self._provider = provider
        self._adapter = adapter_of(provider)
        self._conversation_id = state.conversation_id
        self._look_up = look_up
        self._state = state
        self._taken = TakenIds(state.known)
        self._turn = state.last_turn.number
        self._index = state.last_turn.index  # of the next call in the turn
        self._open: dict[str, list[Slot]] = {}  # provider id -> unanswered, oldest first
        self._answered: dict[str, Slot] = {}  # provider id -> the last that was answered
        self._answered_earlier: dict[str, Slot] | None = None  # the same, of all calls of the log
        self._not_whole: list[tuple[int, str, Failure]] = []
        self._early: list[tuple[int, ParsedResult]] = []
        self._failed: dict[str, MessageAdded] = {}  # what a failed call's result says, as text
        self._placed: list[Slot | None] = []  # by the results up to here
        self._window = Window()
        self._answers_of = -1  # the turn of the last results
        self._last = -1  # the item that the last message or turn began with
        # The window still grows: no result, no other message and no step of a call came.
        self._fresh = state.last_turn.is_open
        waiting: list[Slot] = []
        for entry in state.open.values():
            tool = entry.tool
            slot = Slot.of(tool)
            if slot.text is not None:
                self._answered[slot.provider_id or ""] = slot
                continue
            self._open.setdefault(slot.provider_id or "", []).append(slot)
            if tool.turn == self._turn:
                self._window.add(slot)
                waiting.append(slot)
        self._waiting = waiting  # the open calls of the last turn
        self._handed_back: HandedBack | None = None
        self._follows_last_turn = self._index > len(waiting)  # with calls that were answered

    # messages

    def message(self, number: int, item: ParsedMessage) -> None:
        events = self.events[number]
        if not item.well_formed:
            self._found(number, _FORM, None)
        results = self._results(item) if item.result_count else ()
        if item.result_count and not item.parts:
            if results:
                events.append(self._added(item, None, results))
            return
        if item.role != "assistant":
            self._last = number
            self._fresh = self._may_continue = False
            events.append(self._added(item, None, results))
            return
        piece = item.is_continuation and self._may_continue
        self._may_continue = item.is_continuation
        if not piece and (item.message_id is None or item.message_id != self._message_id):
            self._last = number
            self._message_id = item.message_id
            self._turn += 1
            self._index = 0
            if not self._fresh:
                self._window = Window()
                self._fresh = True
                self._follows_last_turn = False
            events.append(self._added(item, self._turn))
        elif item.parts or piece:
            events.append(self._added(item, self._turn))
        for call in item.calls:
            asked = self._pending(number, self._index, call)
            events.append(asked)
            self._index += 1
            if item.not_whole is not None:
                self._not_whole.append((number, asked.call_id, item.not_whole))

    def _added(
        self, item: ParsedMessage, turn: int | None, results: tuple[str, ...] = ()
    ) -> MessageAdded:
        role = item.role if item.parts or not results else "tool"
        return MessageAdded(
            role,
            item.parts,
            turn,
            len(item.calls),
            self._provider,
            item.native,
            item.well_formed,
            item.shares_message,
            None,
            results,
            finish_reason=item.finish_reason,
        )

    def _results(self, item: ParsedMessage) -> tuple[str, ...]:
        """Return the calls that a message's results answer, if it holds more than these.

        So it does where a message before has other results of the turn, which are merged then.
        """
        slots = [slot for slot in self._placed[-item.result_count :] if slot is not None]
        positions = [slot.position for slot in slots]
        turns = {turn for turn, _ in positions}
        if (
            not item.well_formed
            or item.role != "user"
            or len({*positions}) < item.result_count
            or len(turns) > 1
        ):
            return ()
        (turn,) = turns
        is_plain = item.native is None and not item.parts and positions == sorted(positions)
        before, self._answers_of = self._answers_of, turn
        if is_plain and turn != before:
            return ()
        return tuple(slot.id for slot in slots)

    def _pending(self, number: int, index: int, call: ParsedCall) -> ToolPending:
        self._follows_last_turn = False
        given = call.id
        if given is None:
            call_id = mint_call_id(self._conversation_id, self._turn, index, self._taken)
            if self._adapter.call_ids == "required":
                self._found(number, _NO_ID, call_id)
        elif given in self._taken.added or given in self._taken.known:
            call_id = self._taken.qualify(given)
            self._found(number, _USED, call_id)
        else:
            call_id = given
        self._taken.added.add(call_id)
        slot = Slot(call_id, given, call.call.name, number, (self._turn, index))
        self._open.setdefault(given or "", []).append(slot)
        self._window.add(slot)
        made = call.call
        return ToolPending(
            FunctionCall(made.name, made.arguments, call_id, made.raw),
            given,
            self._turn,
            index,
            self._imported,
        )

    # results

    def result(self, number: int, item: ParsedResult) -> None:
        self._fresh = self._may_continue = False
        if not item.well_formed:
            self._found(number, _FORM, item.id)
        slot = self._of_last_turn(number, item) or self._unanswered(item)
        if tells_of_doubt(item.text):
            item = msgspec.structs.replace(item, is_error=True)
        elif not self.keeps_own_texts and is_own_text(item.text):
            self._found(number, _OWN_TEXT, item.id)
            self._placed.append(None)
            if slot is not None and slot.text is None and item.id is None:
                slot.text = item.text  # the next result without an id is another call's
            return
        if slot is None and item.id is not None:
            slot = self._repeat(item)
        answered = slot is not None and self._answer(number, item, slot, self.events[number])
        self._placed.append(slot if answered else None)
        if slot is None:
            self._early.append((number, item))

    def _unanswered(self, item: ParsedResult) -> Slot | None:
        slot = self._window.take(item.id, item.name)
        if slot is None and item.id is not None:
            waiting = self._open.get(item.id)
            while waiting and waiting[-1].text is not None:
                waiting.pop()
            if waiting:
                slot = waiting[-1]
                later = self._repeat(item) if self._taken.is_shared(item.id) else None
                if (
                    later is not None
                    and later.position > slot.position
                    and later.is_shown_as(item.text)
                ):
                    slot = later
            elif item.id not in self._named and item.id not in self._answered:
                # Only the result has an id: pair it by position with a call that has none.
                slot = self._window.take_unnamed(item.name)
        return slot

    @cached_property
    def _named(self) -> AbstractSet[str | None]:
        """The ids of all calls, also of those to come."""
        messages = (item for item in self._items if isinstance(item, ParsedMessage))
        return {call.id for message in messages for call in message.calls}

    def _of_last_turn(self, number: int, item: ParsedResult) -> Slot | None:
        """Return the call of the last turn that a result belongs to, where an id does not say it.

        Return None if no call of the turn that it may mean was answered before, or if it is new.
        """
        if not self._follows_last_turn or not (item.id is None or self._taken.is_shared(item.id)):
            return None
        if self._handed_back is None:
            answered = [
                slot
                for tool in self._tools.values()
                if tool.turn == self._turn and (slot := Slot.of(tool)).text is not None
            ]
            results = results_before_next_turn(self._items[number:])
            self._handed_back = HandedBack(answered, self._waiting, results, is_rest=self._is_rest)
        return self._handed_back.call_of(item)

    @cached_property
    def _tools(self) -> Mapping[str, Tool]:
        """All calls, as the log has them, and the append under way."""
        return {**self._look_up(), **self._state.settled_uncommitted}

    def _repeat(self, item: ParsedResult) -> Slot | None:
        """Return the last call with the id of a result that was answered."""
        call_id = item.id or ""
        is_asked_for = call_id not in self._answered or self._taken.is_shared(call_id)
        if is_asked_for and call_id in self._taken.known and self._answered_earlier is None:
            self._answered_earlier = {}
            for tool in sorted(self._tools.values(), key=lambda tool: (tool.turn, tool.index)):
                slot = Slot.of(tool)
                if slot.text is not None:
                    self._answered_earlier[slot.provider_id or ""] = slot
        here, earlier = self._answered.get(call_id), (self._answered_earlier or {}).get(call_id)
        if here is None or earlier is None:
            return here or earlier
        return here if here.position >= earlier.position else earlier

    def _answer(self, number: int, item: ParsedResult, slot: Slot, events: list[Event]) -> bool:
        """Let the result answer the call; return whether it does."""
        rejected = bool(item.rejected) and not slot.attempts  # one that started is not rejected
        error = item.is_error and not rejected
        if slot.text is not None:
            if slot.repeats(item.text, error=error) or self._is_made_of(item, slot):
                self._found(number, _TWICE, slot.id)
                return False
            is_old = slot.position[0] < self._turn
            if not slot.error or error or rejected or is_old or item.id is None:
                self._found(number, _OTHER, slot.id)
                events.append(self._orphan(item, slot.id))
                return False
            if not slot.settled_here:
                self._found(number, _FAILED, slot.id)
                events.append(self._failed.get(slot.id) or _failure_as_text(slot))
        if slot.item < min(number, self._last):
            self._found(number, _MOVED, slot.id)
        slot.text, slot.error = item.text, error
        if error:
            self._failed[slot.id] = self._orphan(item, slot.id)
        if slot.provider_id:
            self._answered[slot.provider_id] = slot
        events.append(self._ended(item, slot, rejected=rejected))
        return True

    def _is_made_of(self, item: ParsedResult, slot: Slot) -> bool:
        """Return whether a result is the form that the answer of a call has in a prompt."""
        if item.native is None or slot.text is None:
            return False
        return self._adapter.is_made_of(item.native, slot.text, is_error=slot.error)

    def _ended(self, item: ParsedResult, slot: Slot, *, rejected: bool) -> Event:
        provider = self._provider if item.native is not None else None
        if rejected:
            source = item.rejected if isinstance(item.rejected, str) else "human"
            return ToolRejected(slot.id, item.text, source, provider=provider, native=item.native)
        if item.is_error:
            in_doubt = tells_of_doubt(item.text) or None
            failure = Failure(ErrorKind.INTERNAL, item.text, in_doubt=in_doubt)
            return ToolFailed(
                slot.id, failure, slot.attempts, item.duration, None, provider, item.native
            )
        shown = to_builtins(item.parts) if item.parts else item.text
        return ToolCompleted(
            slot.id,
            FunctionResponse(slot.name, shown, slot.id),
            slot.attempts,
            item.duration,
            provider=provider,
            native=item.native,
            in_parts=bool(item.parts),
        )

    def insert_early(self) -> None:
        """Move results that came before their calls after them; keep the others as text."""
        for number, item in self._early:
            slot = next(
                (
                    waiting
                    for waiting in self._open.get(item.id or "", ())
                    if waiting.text is None and waiting.item > number and item.id is not None
                ),
                None,
            )
            if slot is not None:
                self._found(number, _EARLY, slot.id)
                self._answer(number, item, slot, self.events[slot.item])
            else:
                self._found(number, _ORPHAN, item.id)
                self.events[number].append(self._orphan(item, item.id))

    def fail_unanswered(self) -> None:
        """Fail the calls without a result whose response is not whole: none of them may run."""
        unanswered = {
            slot.id for slots in self._open.values() for slot in slots if slot.text is None
        }
        for number, call_id, why in self._not_whole:
            if call_id in unanswered:
                self.events[number].append(ToolFailed(call_id, why))

    def _orphan(self, item: ParsedResult, call_id: str | None) -> MessageAdded:
        parts = (*((Text(item.text),) if item.text else ()), *self._shown(item))
        if not self._adapter.keeps_server_calls or not item.well_formed:
            return MessageAdded("tool", parts, call_id=call_id)
        return MessageAdded("tool", parts, None, 0, self._provider, item.native, call_id=call_id)

    def _shown(self, item: ParsedResult) -> Iterator[Part]:
        """Yield the images and documents in a result: its text only names them."""
        shown = item.parts
        if item.native is not None:
            shown = self._adapter.result_parts(item.native)
        return (p for p in shown if isinstance(p, Image) or (isinstance(p, Opaque) and media(p)))

    def _found(self, number: int, finding: tuple[str, str, str], call_id: str | None) -> None:
        self.findings.append(Finding(number, *finding, call_id))


def _failure_as_text(slot: Slot) -> MessageAdded:
    """Return as text how a call of the log had failed."""
    return MessageAdded("tool", (Text(slot.shown or slot.text or ""),), call_id=slot.id)
