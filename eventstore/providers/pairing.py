"""What pairs results with the calls that they answer; `to_events` has the rules."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec

from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.own_texts import error_of_text, without_note
from eventstore.domain.statuses import Completed, Failed, Rejected
from eventstore.domain.tool import Tool
from eventstore.providers.json_values import as_text
from eventstore.providers.model import ParsedItem, ParsedResult

_encode = msgspec.json.Encoder().encode


class Slot(msgspec.Struct, gc=False):
    """A call that waits for its result; `text` is what answered it, `shown` what the model reads.

    `refused`: no result can follow. `error`: a result that is not an error replaces it.
    """

    id: str
    provider_id: str | None
    name: str
    item: int
    position: tuple[int, int]
    """The turn of the call, and its index there."""
    attempts: int = 0
    text: str | None = None
    error: bool = False
    refused: bool = False
    shown: str | None = None
    settled_here: bool = False
    """Whether the log shows that it ran here or was settled here, and not by a result alone."""

    @classmethod
    def of(cls, tool: Tool) -> Slot:
        """Return the slot of a call in the log, answered as the log says."""
        position = (tool.turn, tool.index)
        slot = cls(tool.id, tool.provider_call_id or tool.id, tool.call.name, -1, position)
        slot.attempts = tool.attempts
        slot.settled_here = tool.attempts > 0
        status = tool.status
        if type(status) is Failed:
            failure = status.failure
            said = Failure(ErrorKind.INTERNAL, failure.message, in_doubt=failure.in_doubt)
            slot.settled_here |= failure != said
            slot.text, slot.error = status.failure.message, True
            slot.shown = status.model_text
        elif type(status) is Completed:
            result = status.response.result
            slot.text = result if isinstance(result, str) else _encode(result).decode()
            slot.shown = as_text(result)  # of a list of parts: their texts
            slot.settled_here |= status.synthetic
        elif type(status) is Rejected:
            slot.text, slot.refused, slot.settled_here = status.reason or "", True, True
            slot.shown = status.model_text
        elif tool.is_resolved:
            slot.text = ""
        return slot

    def repeats(self, said: str, *, error: bool) -> bool:
        """Return whether a result says what has answered the call."""
        if self.text == said and self.error >= error:
            return True
        if self.error or self.refused:
            return without_note(error_of_text(said) or said) in (self.text, self.shown)
        return not error and self.shown is not None and self.is_shown_as(said)

    def is_shown_as(self, said: str) -> bool:
        """Return whether the model reads this of the call, which has been answered."""
        words = (self.shown,) if self.refused else (self.text, self.shown)
        unmarked = error_of_text(said) if self.error or self.refused else None
        return said in words or without_note(unmarked or said) in words


class HandedBack:
    """Results that may repeat what calls of the last turn were answered with before.

    `to_events` has the rules. `results` are all that follow the turn; with `is_rest` they continue
    a list whose results were recorded before: their number does not say which calls they answer.
    """

    def __init__(
        self,
        answered: Sequence[Slot],
        waiting: Sequence[Slot],
        results: Iterable[ParsedResult],
        *,
        is_rest: bool,
    ) -> None:
        self._before = {slot.id for slot in answered}
        self._calls = sorted((*answered, *waiting), key=lambda slot: slot.position)
        self._is_rest = is_rest
        self._counts = Counter(_named(result) for result in results)
        self._counts[None, None] = sum(result.id is None for result in results)
        self._groups: dict[_Named, list[Slot]] = {}
        self._queues: dict[_Named, deque[Slot]] = {}
        self._repeated: set[str] = set()  # the calls whose answer came again

    def call_of(self, result: ParsedResult) -> Slot | None:
        """Return the call that a result belongs to; None if it answers the next that waits."""
        named = _named(result)
        group = self._groups.get(named)
        if group is None:
            group = [slot for slot in self._calls if _may_be_of(slot, named)]
            all_wait = self._before.isdisjoint(slot.id for slot in group)
            if all_wait or (result.id is not None and len(group) == 1):
                group = []
            self._groups[named] = group
        if not self._is_rest and self._counts[named] >= len(group):
            return self._in_order(self._queues.setdefault(named, deque(group)))
        return self._in_its_words(group, result.text)

    def _in_order(self, queue: deque[Slot]) -> Slot | None:
        while queue:
            slot = queue.popleft()
            if slot.text is None or slot.id in self._before:
                return slot
        return None

    def _in_its_words(self, group: Sequence[Slot], said: str) -> Slot | None:
        none_waits = not self._is_rest and all(slot.text is not None for slot in group)
        for slot in group:
            if slot.id not in self._before or slot.id in self._repeated:
                continue
            if (slot.settled_here or none_waits) and slot.is_shown_as(said):
                self._repeated.add(slot.id)
                return slot
        return None


def results_before_next_turn(items: Sequence[ParsedItem]) -> Iterator[ParsedResult]:
    """Yield the results before the next message of the assistant."""
    for item in items:
        if isinstance(item, ParsedResult):
            yield item
        elif item.role == "assistant":
            return


_Named: TypeAlias = tuple[str | None, str | None]
"""The id of a call; without one, the name of its tool, if a result says it."""


def _named(result: ParsedResult) -> _Named:
    return (result.id, None) if result.id is not None else (None, result.name)


def _may_be_of(slot: Slot, named: _Named) -> bool:
    call_id, name = named
    if call_id is not None:
        return slot.provider_id == call_id
    return name is None or slot.name == name


class Window:
    """The unanswered calls of the assistant messages right before, in order."""

    __slots__ = ("_by_id", "_by_name", "_order")

    def __init__(self) -> None:
        self._by_id: dict[str | None, Slot | deque[Slot]] = {}
        self._order: list[Slot] | deque[Slot] = []  # a queue, once a result without id came
        self._by_name: dict[int, dict[str, deque[Slot]]] = {}  # of a queue, once asked for

    def add(self, slot: Slot) -> None:
        """Take in a call."""
        if self._by_name:
            self._by_name = {}
        known = self._by_id.setdefault(slot.provider_id, slot)
        if isinstance(known, deque):
            known.append(slot)
        elif known is not slot:
            self._by_id[slot.provider_id] = deque((known, slot))
        self._order.append(slot)

    def take(self, call_id: str | None, name: str | None) -> Slot | None:
        """Return the call that a result of this id answers.

        Without an id it is the first call of that name, and without a name the first one.
        """
        if call_id is None:
            if isinstance(self._order, list):
                self._order = deque(self._order)
            return self._first(self._order, name)
        return self._first(self._by_id.get(call_id), None)

    def take_unnamed(self, name: str | None) -> Slot | None:
        """Return the first call of that name that has no id; without a name, the first one."""
        return self._first(self._by_id.get(None), name)

    def _first(self, slots: Slot | deque[Slot] | None, name: str | None) -> Slot | None:
        if isinstance(slots, Slot):
            fits = name is None or slots.name == name
            return slots if fits and slots.text is None else None
        first = _unanswered(slots)
        if first is None or slots is None or name is None or first.name == name:
            return first
        named = self._by_name.get(id(slots))
        if named is None:
            named = self._by_name[id(slots)] = {}
            for slot in slots:
                named.setdefault(slot.name, deque()).append(slot)
        return _unanswered(named.get(name))


def _unanswered(slots: deque[Slot] | None) -> Slot | None:
    while slots and slots[0].text is not None:
        slots.popleft()
    return slots[0] if slots else None


class TakenIds(AbstractSet[str]):
    """The call ids in use, and the next free number for each that is used again."""

    def __init__(self, known: AbstractSet[str]) -> None:
        self.known = known
        self.added: set[str] = set()
        self._next: dict[str, int] = {}

    def __contains__(self, call_id: object) -> bool:
        return call_id in self.added or call_id in self.known

    def __iter__(self) -> Iterator[str]:
        yield from self.known
        yield from self.added

    def __len__(self) -> int:
        return len(self.known) + len(self.added)

    def is_shared(self, call_id: str) -> bool:
        """Return whether several calls have this id of the provider's."""
        return f"{call_id}_2" in self

    def qualify(self, call_id: str) -> str:
        """Return the id with the next number that is free."""
        number = self._next.get(call_id, 2)
        while f"{call_id}_{number}" in self:
            number += 1
        self._next[call_id] = number + 1
        return f"{call_id}_{number}"
