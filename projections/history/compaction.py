"""Compactions: which turns the model no longer sees, and the messages that stand in their place.

1. A compaction hides whole turns: those that began after its `after`, and of which all was over at
   its `until`. Where its boundary is inside of a turn, that turn stays.
2. A turn with an open call stays, also when the call ends, because that is after the boundary: no
   result loses its call.
3. Messages of the system stay, unless the compaction `hides_system`. So do pinned ones.
4. Its messages stand where its range begins, behind what the system says first. They are gone when
   a later compaction has a range in which that place is.
5. What is hidden is the rule over the log so far, whatever was shown before.

The log keeps everything, and nothing else follows from a compaction: open calls are still open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from eventstore import HistoryCompacted, MessageAdded
from eventstore.domain.covered import covered_event
from eventstore.providers import Turn
from projections.formatting import plural
from projections.history.entries import Entry, Repair
from projections.history.turns import message_turn

SYSTEM_ROLES = ("system", "developer")


class Compaction(msgspec.Struct, frozen=True):
    """A compaction of the log, and the turns that stand in the place of what it hides."""

    version: int
    event: HistoryCompacted
    turns: tuple[Turn, ...]

    @classmethod
    def of(cls, version: int, event: HistoryCompacted) -> Compaction:
        """Return the compaction of an event."""
        return cls(version, event, tuple(_turns(event.messages, version)))

    @property
    def until(self) -> int:
        """The version up to which it hides; nothing that came after it."""
        return min(self.event.until, self.version - 1)


class ShownTurn(NamedTuple):
    """A turn to show, and the version of the last event that concerns it."""

    turn: Turn
    last_version: int


class Compactions:
    """The compactions of one log so far."""

    def __init__(self) -> None:
        self._all: list[Compaction] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, version: int, event: HistoryCompacted) -> None:
        """Take in a compaction."""
        self._all.append(Compaction.of(version, event))

    def cover(self, version: int) -> None:
        """Give up what one says, if it is that of a version; see `redactions`."""
        for place, each in enumerate(self._all):
            if each.version == version:
                self._all[place] = Compaction.of(version, covered_event(each.event))

    def hidden(self, entries: Iterable[Entry], pinned: Collection[int]) -> frozenset[int]:
        """Return the places of the entries that are hidden."""
        if not self._all:
            return frozenset()
        of_all = _Ranges(self._all)
        of_system = _Ranges(each for each in self._all if each.event.hides_system)
        return frozenset(
            entry.place
            for entry in entries
            if (of_system if entry.role in SYSTEM_ROLES else of_all).hide(entry)
            and entry.version not in pinned
        )

    def shown(
        self, turns: Sequence[Turn], entries: Sequence[Entry], hidden: Collection[int]
    ) -> Iterator[ShownTurn]:
        """Yield the turns that are shown, in order; `turns` has one for each entry."""
        waiting = sorted(self._in_force(), key=lambda each: -each.event.after)
        for entry, turn in zip(entries, turns, strict=True):
            stays = entry.place not in hidden
            is_of_system = stays and entry.role in SYSTEM_ROLES
            while waiting and waiting[-1].event.after < entry.version and not is_of_system:
                yield from _stand_ins(waiting.pop())
            if stays:
                yield ShownTurn(turn, last_version(entry))
        for each in reversed(waiting):
            yield from _stand_ins(each)

    def repairs(self, entries: Sequence[Entry], hidden: Collection[int]) -> Iterator[Repair]:
        """Yield for each compaction in force what its messages stand for."""
        versions = sorted(entries[place].version for place in hidden)
        for each in self._in_force():
            first = bisect_left(versions, each.event.after + 1)
            count = max(bisect_left(versions, each.until + 1) - first, 0)
            yield Repair("collapsed", "compaction", _words(each, count), None, (each.version,))

    def _in_force(self) -> list[Compaction]:
        """Return those that no later one has taken the place of."""
        kept: list[Compaction] = []
        for each in self._all:
            after, until = each.event.after, each.until
            kept = [old for old in kept if not after <= old.event.after < until]
            kept.append(each)
        return kept


class _Ranges:
    """What several compactions hide together."""

    def __init__(self, compactions: Iterable[Compaction]) -> None:
        ranges = sorted((each.event.after, each.until) for each in compactions)
        self._starts = [after for after, _ in ranges]
        self._ends = list(accumulate((until for _, until in ranges), max))

    def hide(self, entry: Entry) -> bool:
        """Return whether one of them hides an entry."""
        place = bisect_left(self._starts, entry.version)  # the ranges before it begin before
        if not place or last_version(entry) > self._ends[place - 1]:
            return False
        return all(call.tool.is_resolved for call in entry.calls)


def last_version(entry: Entry) -> int:
    """Return the version of the last event that concerns an entry."""
    return max((entry.version, entry.last_piece, *(call.versions[-1] for call in entry.calls)))


def _turns(messages: Iterable[MessageAdded], version: int) -> Iterator[Turn]:
    for message in messages:
        turn = message_turn(Entry(message.role, message, version), message)
        if turn.parts:
            yield turn


def _stand_ins(compaction: Compaction) -> Iterator[ShownTurn]:
    for turn in compaction.turns:
        yield ShownTurn(turn, compaction.version)


def _words(compaction: Compaction, count: int) -> str:
    event = compaction.event
    size = "" if event.tokens_before is None else f"; {event.tokens_before:,} tokens before"
    how = f"the {event.trigger} compaction" if event.trigger else "the compaction"
    stand = f"{plural(len(event.messages), 'message')} in the place of {plural(count, 'turn')}"
    return f"{how} at version {compaction.version} has {stand}{size}"
