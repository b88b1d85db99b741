"""A filter of events: what to look at in a long log, the same in Python and on the command line.

1. Conditions on calls (`failed`, `open`, `tool`, `call`) keep the events of the calls that meet
   them all. Events that belong to no call are left out, except the end of a run that failed.
2. Conditions on events (`grep`, `since`, `until`, `around`, `turn`) keep the events that meet them
   all.
3. `select` gives the events that meet both. `whole_calls` gives every event of the calls that have
   such an event, for folds that need a call from its start to its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from fnmatch import fnmatchcase

from eventstore import MessageAdded, Recorded, RunEnded, ToolPending
from projections.debugging.call_facts import CallFacts, LogFacts
from projections.formatting import did_you_mean
from projections.replay import describe

AROUND_EVENTS = 3
"""Events before and after a version that `around` keeps."""

Place = int | datetime
"""A version, or a time with a time zone."""


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """Which events of a log to look at; without conditions, all.

    - `failed`: of calls that failed in some attempt or were answered with an error; and the end of
      a run with a failure. `open`: of calls without an end.
    - `tool`: of calls of this tool; `*` and `?` are wildcards. `call`: of the call with this id, or
      whose id begins with it.
    - `grep`: a regular expression found in what the event says, whatever the case.
    - `since`, `until`: from and up to a version, or a time with a time zone, inclusive.
    - `around`: a version, or a version and a number of events before and after it (3 by default).
    - `turn`: of the assistant's turn with this number, with its calls.

    Raises:
        ValueError: a condition makes no sense.
    """

    failed: bool = False
    open: bool = False
    tool: str | None = None
    call: str | None = None
    grep: str | None = None
    since: Place | None = None
    until: Place | None = None
    around: int | tuple[int, int] | None = None
    turn: int | None = None

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            _check_place(name, getattr(self, name))
        if self.grep is not None:
            _pattern(self.grep)

    def __bool__(self) -> bool:
        """Return whether there is a condition."""
        given = (getattr(self, field.name) for field in fields(self))
        return any(value is not None and value is not False for value in given)

    def select(self, events: Iterable[Recorded]) -> Iterator[Recorded]:
        """Return the events that meet the conditions, in their order.

        Conditions on calls need the whole log in memory, because a call may fail at its end.

        Raises:
            ValueError: the log has no such tool or call, or several calls begin with `call`.
        """
        if not self._is_about_calls:
            return filter(self._meets, events)
        kept = list(events)
        calls = self._chosen_calls(kept)
        return (each for each in kept if self._is_of(calls, each) and self._meets(each))

    def whole_calls(self, events: Iterable[Recorded]) -> list[Recorded]:
        """Return every event of the calls that have an event which meets the conditions.

        Raises:
            ValueError: the log has no such tool or call, or several calls begin with `call`.
        """
        kept = list(events)
        keys = {_key(each) for each in self.select(kept)}
        return [each for each in kept if each.call_id is not None and _key(each) in keys]

    def is_over(self, recorded: Recorded) -> bool:
        """Return whether the event is after `until`, and with it every later one."""
        return self.until is not None and _order(recorded, self.until) > 0

    @property
    def _is_about_calls(self) -> bool:
        has_name = self.tool is not None or self.call is not None or self.turn is not None
        return self.failed or self.open or has_name

    def _meets(self, recorded: Recorded) -> bool:
        if self.since is not None and _order(recorded, self.since) < 0:
            return False
        if self.is_over(recorded):
            return False
        if self.around is not None:
            version, count = _span(self.around)
            if abs(recorded.version - version) > count:
                return False
        return self.grep is None or _pattern(self.grep).search(describe(recorded, None)) is not None

    def _chosen_calls(self, events: list[Recorded]) -> set[tuple[str, str]]:
        """Return the conversation and the id of each call that meets the conditions on calls."""
        facts: dict[str, LogFacts] = {}
        turns: dict[tuple[str, str], int | None] = {}
        for each in events:
            facts.setdefault(each.conversation_id, LogFacts()).extend((each,))
            if isinstance(each.event, ToolPending):
                turns[each.conversation_id, each.event.call_id] = each.event.turn
        calls = {
            (conversation_id, call.id): call
            for conversation_id, log in facts.items()
            for call in log.calls.values()
        }
        ids = None if self.call is None else _matching_ids(self.call, {key[1] for key in calls})
        self._check_tool({call.name for call in calls.values()})
        return {
            key
            for key, call in calls.items()
            if (ids is None or call.id in ids)
            and (self.turn is None or turns[key] == self.turn)
            and self._fits(call)
        }

    def _fits(self, call: CallFacts) -> bool:
        if self.tool is not None and not fnmatchcase(call.name, self.tool):
            return False
        return (call.is_open or not self.open) and (bool(call.errors) or not self.failed)

    def _check_tool(self, names: set[str]) -> None:
        tool = self.tool
        if tool is not None and not any(fnmatchcase(name, tool) for name in names):
            raise ValueError(f"there is no call of a tool {tool!r}{did_you_mean(tool, names)}")

    def _is_of(self, calls: set[tuple[str, str]], recorded: Recorded) -> bool:
        event = recorded.event
        if _key(recorded) in calls:
            return True
        if isinstance(event, RunEnded):
            names_no_call = self.tool is None and self.call is None and self.turn is None
            return self.failed and not self.open and names_no_call and event.failure is not None
        if isinstance(event, MessageAdded) and self.turn is not None:
            return event.turn == self.turn and event.role == "assistant"
        return False


def _key(recorded: Recorded) -> tuple[str, str]:
    return recorded.conversation_id, recorded.call_id or ""


def _check_place(name: str, place: Place | None) -> None:
    if isinstance(place, datetime) and place.tzinfo is None:
        raise ValueError(
            f"{name} is {place!r}, which has no time zone: pass for example datetime.now(UTC)"
        )
    if isinstance(place, int) and (isinstance(place, bool) or place < 0):
        raise ValueError(f"{name} is {place!r}: pass a version, 0 or more, or a time")


def _order(recorded: Recorded, place: Place) -> int:
    """Return how far the event is after a version or a time; negative before it."""
    if isinstance(place, datetime):
        return recorded.time - round(place.timestamp() * 1_000_000)
    return recorded.version - place


def _span(around: int | tuple[int, int]) -> tuple[int, int]:
    return around if isinstance(around, tuple) else (around, AROUND_EVENTS)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error


def _matching_ids(beginning: str, ids: set[str]) -> set[str]:
    """Return the ids that are meant: the id itself, or the one that begins so.

    Raises:
        ValueError: none does, or several do.
    """
    if beginning in ids:
        return {beginning}
    found = sorted(each for each in ids if each.startswith(beginning))
    if len(found) == 1:
        return set(found)
    if not found:
        raise ValueError(f"there is no call {beginning!r}{did_you_mean(beginning, ids)}")
    raise ValueError(
        f"{len(found):,} calls begin with {beginning!r}, among them {found[0]!r} and {found[1]!r}: "
        "pass more of the id"
    )
