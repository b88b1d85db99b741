"""Which messages of a session of Claude Code follow which: where a person went back, or compacted.

A record names the one before it. The conversation is the way to what was said last.

1. What a person, or the program for them, says follows the record that it names. Where that has an
   answer already, the person went back: what followed it is an abandoned branch.
2. Everything else continues where its branch ends. The calls of a message and their results are
   one step, whichever of them is named: results name their call, and parallel ones stand beside.
3. A boundary follows the record that it logically follows. It hides what is before it, but for a
   segment that the program preserved; the summary after it stands in its place. Without a summary
   it says nothing.
4. Abandoned branches are in the order in which they were left, so that a file that grows keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.dialogue import spoken
from eventstore.importers.reading.json_members import member, text
from eventstore.importers.reading.kept_items import KeptItems
from eventstore.providers.model import ParsedCompaction


class Kept(msgspec.Struct, frozen=True):
    """Messages that a boundary preserves: those of the steps from the first to the last."""

    first: int
    last: int
    before_summary: bool
    """Whether the summary follows them."""


class Boundary(msgspec.Struct):
    """A compaction: what it says of itself, and the places of its summary among the messages."""

    facts: JsonObject
    summary: list[int] = []
    kept: Kept | None = None


class _Step(msgspec.Struct):
    """A message with what belongs to it; the places of its parts among the messages."""

    parent: int | None
    places: list[int] = []
    boundary: Boundary | None = None
    last_child: int | None = None


class SessionPath:
    """The steps of a session so far."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._of_record: dict[str, int] = {}
        self._of_message: dict[str, int] = {}

    def add(self, record: JsonObject, place: int | None) -> None:
        """Take in a record; `place` is that of its message among those of the session."""
        kind, uuid = record["type"], text(record, "uuid")
        step: int | None
        if kind == "system" and record.get("subtype") == "compact_boundary":
            step = self._bound(record)
        elif kind == "user" and record.get("isCompactSummary") is True:
            step = self._summary(record, place)
        elif kind == "assistant":
            step = self._answer(record, place)
        elif kind == "user":
            step = self._said(record, place)
        else:
            step = self._named(record, "parentUuid")
        if uuid and step is not None:
            self._of_record.setdefault(uuid, step)

    def paths(self) -> list[list[int | Boundary]]:
        """Return the places of each branch in order: first the conversation's, then the others'."""
        leaves = [n for n, step in enumerate(self._steps) if step.last_child is None]
        seen: set[int] = set()
        found: list[list[int | Boundary]] = []
        for leaf in reversed(leaves):
            way: list[_Step] = []
            number: int | None = leaf
            while number is not None and number not in seen:
                seen.add(number)
                way.append(self._steps[number])
                number = self._steps[number].parent
            found.append(_in_order(way))
        return [*found[:1], *reversed([path for path in found[1:] if path])]

    def _bound(self, record: JsonObject) -> int:
        facts = member(record, "compactMetadata")
        before = self._named(record, "logicalParentUuid", "parentUuid")
        boundary = Boundary(facts, [], self._kept(facts, text(record, "uuid")))
        step = self._begin(self._end_of(before), boundary=boundary)
        for uuid in _preserved(facts):  # what comes next may name one of them
            if uuid in self._of_record:
                self._of_record[uuid] = step
        return step

    def _kept(self, facts: JsonObject, uuid: str) -> Kept | None:
        steps = [self._of_record[each] for each in _preserved(facts) if each in self._of_record]
        places = [place for step in steps for place in self._steps[step].places]
        if not places:
            return None
        anchor = text(member(facts, "preservedSegment"), "anchorUuid")
        return Kept(min(places), max(places), before_summary=anchor == uuid)

    def _summary(self, record: JsonObject, place: int | None) -> int:
        before = self._named(record, "parentUuid")
        last = self._end_of(before)
        if last is None or self._steps[last].boundary is None:
            last = self._begin(last, boundary=Boundary({}))
        boundary = self._steps[last].boundary
        if boundary is not None and place is not None:
            boundary.summary.append(place)
        return last

    def _answer(self, record: JsonObject, place: int | None) -> int:
        message_id = text(member(record, "message"), "id")
        step = self._of_message.get(message_id)
        if step is None:
            step = self._begin(self._end_of(self._named(record, "parentUuid")))
            if message_id:
                self._of_message[message_id] = step
        return self._put(step, place)

    def _said(self, record: JsonObject, place: int | None) -> int:
        before = self._named(record, "parentUuid")
        if _is_result(record):
            step = self._end_of(None) if before is None else before
            return self._put(self._begin(None) if step is None else step, place)
        if before is None and record.get("parentUuid", "") is not None:
            before = self._end_of(None)  # it is not known what it follows
        return self._put(self._begin(before), place)

    def _named(self, record: JsonObject, *members: str) -> int | None:
        """Return the step of the first record that is named, and known."""
        names = (text(record, name) for name in members)
        return next((self._of_record[name] for name in names if name in self._of_record), None)

    def _end_of(self, step: int | None) -> int | None:
        """Return where the branch of a step ends; of none, where the last branch ends."""
        if step is None:
            return len(self._steps) - 1 if self._steps else None
        while (child := self._steps[step].last_child) is not None:
            step = child
        return step

    def _begin(self, parent: int | None, *, boundary: Boundary | None = None) -> int:
        number = len(self._steps)
        self._steps.append(_Step(parent, [], boundary))
        if parent is not None:
            self._steps[parent].last_child = number
        return number

    def _put(self, step: int, place: int | None) -> int:
        if place is not None:
            self._steps[step].places.append(place)
        return step


def place_of(each: int | Boundary) -> int:
    """Return the place of a message among those of the session, or of a boundary's summary."""
    return each if isinstance(each, int) else each.summary[0]


def messages_on(
    path: Sequence[int | Boundary], messages: KeptItems[JsonObject], times: Sequence[int | None]
) -> tuple[SaidOnPath, list[int | None]]:
    """Return what is said on a path, and when: its messages, with its compactions among them."""
    said: list[int | ParsedCompaction] = []
    said_at: list[int | None] = []
    numbers: dict[int, int] = {}  # of messages, by their places
    for each in path:
        if isinstance(each, int):
            numbers[each] = len(said)
            said.append(each)
            said_at.append(times[each])
        else:
            summary = [messages[place] for place in each.summary]
            compactions = [*_compactions(each, summary, numbers, len(said))]
            said += compactions
            said_at += [times[each.summary[0]]] * len(compactions)
    return SaidOnPath(said, messages), said_at


class SaidOnPath(msgspec.Struct):
    """What is said on a path; `said` has the places of the messages, which may wait in a file."""

    said: list[int | ParsedCompaction]
    messages: KeptItems[JsonObject]

    def __len__(self) -> int:
        return len(self.said)

    def __iter__(self) -> Iterator[JsonObject | ParsedCompaction]:
        return (self.messages[each] if isinstance(each, int) else each for each in self.said)


def _compactions(
    boundary: Boundary, summary: Sequence[JsonObject], numbers: Mapping[int, int], count: int
) -> Iterator[ParsedCompaction]:
    """Yield the compactions of a boundary: what is before the segment it preserves, and after.

    `numbers` are those of the messages before it, by their places; there are `count` with others.
    """
    kept, first, last = boundary.kept, count, count
    if kept is not None and kept.first in numbers and kept.last in numbers:
        first, last = numbers[kept.first], numbers[kept.last] + 1
    ranges = [pair for pair in ((0, first), (last, count)) if pair[0] < pair[1]] or [(count, count)]
    with_summary = ranges[-1] if kept is not None and kept.before_summary else ranges[0]
    said = tuple(each for message in summary for each in spoken("user", message["content"]))
    tokens: JsonValue = boundary.facts.get("preTokens")
    for pair in ranges:
        yield ParsedCompaction(
            said if pair is with_summary else (),
            *pair,
            trigger=text(boundary.facts, "trigger") or None,
            tokens_before=tokens if type(tokens) is int and tokens >= 0 else None,
        )


def _preserved(facts: JsonObject) -> list[str]:
    """Return the records that a boundary preserves, as far as it names them."""
    segment = member(facts, "preservedSegment")
    named: JsonValue = member(facts, "preservedMessages").get("uuids")
    uuids = [each for each in named if isinstance(each, str)] if is_json_list(named) else []
    return [*filter(None, (text(segment, "headUuid"), *uuids, text(segment, "tailUuid")))]


def _is_result(record: JsonObject) -> bool:
    """Return whether a record holds the results of calls."""
    content: JsonValue = member(record, "message").get("content")
    return is_json_list(content) and any(
        is_json_object(block) and block.get("type") == "tool_result" for block in content
    )


def _in_order(way: Sequence[_Step]) -> list[int | Boundary]:
    """Return what stands in the steps of a way, in the order of the file."""
    placed: list[int | Boundary] = []
    for step in way:
        placed += step.places
        if step.boundary is not None and step.boundary.summary:
            placed.append(step.boundary)
    return sorted(placed, key=place_of)
