"""Condensations of OpenHands: events that the model sees no more, and the summary of them.

1. A condensation forgets events by their ids, in V0 also by the first and the last of them. What
   was forgotten stays so.
2. The last summary stands where the first forgotten event was: later ones take its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject
from eventstore.importers.reading.dialogue import spoken
from eventstore.importers.reading.json_members import items, text
from eventstore.providers.model import ParsedCompaction


class Condensations:
    """What was forgotten so far of the events of a conversation, and the last summary."""

    def __init__(self) -> None:
        self._events: list[object] = []  # the id of each item's event; None of a condensation
        self._forgotten: set[object] = set()
        self._summary = ""

    def add(self, event: JsonObject, count: int) -> None:
        """Take in an event after which the conversation has so many items."""
        self._events += [event.get("id")] * (count - len(self._events))

    def condensed(self, facts: JsonObject) -> Iterator[ParsedCompaction]:
        """Yield the compactions that a condensation makes, each of events in a row."""
        self._forgotten |= _forgotten(facts, self._events)
        self._summary = text(facts, "summary") or self._summary
        summary = (*spoken("user", self._summary),)
        for first, end in [*self._ranges()]:
            yield ParsedCompaction(summary, first, end, trigger="condensation")
            self._events.append(None)
            summary = ()

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the beginning and the end of each row of items that are forgotten."""
        first = end = None
        for place, event_id in enumerate(self._events):
            if event_id in self._forgotten:
                first, end = place if first is None else first, place + 1
            elif event_id is not None and first is not None and end is not None:
                yield first, end
                first = end = None
        if first is not None and end is not None:
            yield first, end


def _forgotten(facts: JsonObject, known: list[object]) -> set[object]:
    first, last = facts.get("forgotten_events_start_id"), facts.get("forgotten_events_end_id")
    named: set[object] = {each for each in items(facts, "forgotten_event_ids") if _is_id(each)}
    if type(first) is int and type(last) is int:
        named |= {each for each in known if type(each) is int and first <= each <= last}
    return named


def _is_id(value: object) -> bool:
    return type(value) in (int, str)
