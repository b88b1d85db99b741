"""What a rollout of Codex repeats of its parent's: that of a fork, or of a sub-agent.

It begins with its own header and its parent's, and goes on with what the parent had, perhaps under
new times. Where that ends is told, in this order, by

1. the turns: their ids are UUIDs of version 7, and the first of its own is made after the thread;
2. the times, where the parent's were kept: they are before the thread began;
3. the parent's rollout, where it is beside this one, or in the same tree of days.

Where none of them tells, nothing is taken for a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from msgspec.structs import replace

from eventstore.domain.json_types import JsonObject
from eventstore.importers.reading.dialogue import Dialogue
from eventstore.importers.reading.json_members import member, text
from eventstore.importers.reading.regular_files import fault_of
from eventstore.importers.reading.times import time_of
from eventstore.providers.model import HistoryItem, ParsedMessage

_THREAD = re.compile(r"\A[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_DAY_FOLDERS = 3  # sessions/YEAR/MONTH/DAY


class CopiedTurns:
    """What the records of a rollout say, one after the other, of where its own ones begin."""

    def __init__(self) -> None:
        self.are_there = False
        """Whether it repeats its parent's records at all."""
        self.are_named = False
        """Whether a turn of the parent's was seen."""
        self.began = 0
        """When the thread began, in microseconds since 1970 UTC."""
        self.are_over = False
        """Whether its own turns have begun."""

    def begin(self, header: JsonObject) -> None:
        """Take in the thread's own header."""
        made = _made_at(text(header, "id"))
        self.began = time_of(header.get("timestamp")) or 0 if made is None else made
        self.are_there = bool(text(header, "forked_from_id"))

    def ends_with(self, payload: JsonObject) -> bool:
        """Return whether a record is the first of the thread's own turns."""
        if self.are_over or not self.are_there:
            return False
        passed_on = member(payload, "internal_chat_message_metadata_passthrough")
        turn = text(payload, "turn_id") or text(passed_on, "turn_id")
        at = _made_at(turn) or (time_of(payload.get("started_at")) if turn else None)
        if at is not None:
            self.are_over = at >= self.began
            self.are_named = True
        return self.are_over

    def before_the_thread(self, dialogue: Dialogue) -> int:
        """Return how many items the times of a dialogue tell for copies."""
        return _leading(time is not None and time < self.began for _, time in dialogue)


def shared(dialogue: Dialogue, parents: Dialogue) -> int:
    """Return how many items a dialogue begins with that its parent has, in their order."""
    theirs = (_said(item) for item, _ in parents)
    return _leading(_said(item) in theirs for item, _ in dialogue)


def rollout_of(thread: str, beside: Path) -> Path | None:
    """Return the rollout of a thread, of which one that was forked from it lies at `beside`."""
    if not _THREAD.match(thread):
        return None
    folder, days = beside.parent, beside.parts[-1 - _DAY_FOLDERS : -1]
    name = f"rollout-*{thread}.jsonl"
    places = [(folder, name)]
    if len(days) == _DAY_FOLDERS and all(part.isdigit() for part in days):
        places.append((beside.parents[_DAY_FOLDERS], f"*/*/*/{name}"))
    found = ((root, each) for root, pattern in places for each in sorted(root.glob(pattern)))
    return next((each for root, each in found if fault_of(each, root) is None), None)


def _made_at(id_: str) -> int | None:
    """Return when a UUID of version 7 was made, in microseconds; None for any other text."""
    if not _THREAD.match(id_):
        return None
    made = UUID(id_)
    return (made.int >> 80) * 1000 if made.version == 7 else None  # noqa: PLR2004 - as it is called


def _leading(are: Iterator[bool]) -> int:
    """Return how many values are true before the first that is not."""
    count = 0
    for each in are:
        if not each:
            break
        count += 1
    return count


def _said(item: HistoryItem) -> HistoryItem:
    """Return an item without what tells pieces of one message."""
    return replace(item, message_id=None) if isinstance(item, ParsedMessage) else item
