"""What the rules look at: the facts of one conversation, and what several rules ask of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from projections.debugging.call_facts import CallError, CallFacts, LogFacts
from projections.debugging.error_groups import ErrorGroup
from projections.debugging.error_line import error_line
from projections.debugging.rules.commands import work_of
from projections.debugging.rules.empty_results import says_nothing
from projections.debugging.rules.missing import brief, misses_file
from projections.formatting import NotebookText, arguments_text
from projections.projection import Anomaly
from projections.repeats.projection import Finding

_NEVER = 1 << 62
"""A version beyond every log."""


class Cause(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """A place in the log that may be the cause.

    `version` is the event to look at, `versions` every event that belongs to it, in order. `kind`
    is one of: auth, compaction, context, crash, doubled, empty, error, flaky, interrupted, json,
    limit, loop, misplaced, mismatch, open, place, quota, refused, removed, resource, server,
    size, truncated, unreadable. `weight` (0 to 100) orders causes of one log; it is no probability.
    """

    kind: str
    version: int
    versions: tuple[int, ...]
    text: str
    weight: int
    call_id: str | None = None
    tool: str | None = None

    def __str__(self) -> str:
        return f"version {self.version}: {self.text}"


class Evidence:
    """The facts of one conversation, with its errors by their lines, its loops and its damage."""

    def __init__(
        self,
        facts: LogFacts,
        groups: Sequence[ErrorGroup] = (),
        loops: Sequence[Finding] = (),
        damage: Sequence[Anomaly] = (),
    ) -> None:
        self.facts = facts
        self.groups = groups
        self.loops = loops
        self.damage = damage
        self.last_assistant = facts.assistant_messages[-1] if facts.assistant_messages else 0

    @cached_property
    def calls(self) -> list[CallFacts]:
        """The calls, in the order in which they were asked for."""
        return [*self.facts.calls.values()]

    @cached_property
    def successes(self) -> dict[str, int]:
        """For each tool the version of its last result that says no error."""
        found: dict[str, int] = {}
        for call in self.calls:
            if call.status == "completed" and not call.is_error:
                found[call.name] = max(found.get(call.name, 0), call.ended)
        return found

    @cached_property
    def standing_errors(self) -> list[CallError]:
        """The errors of calls that did not succeed later, in the order of the log."""
        recovered = {error.version for group in self.groups for error in group.recovered}
        return [
            error
            for error in self.facts.errors
            if error.call is not None and error.version not in recovered
        ]

    @cached_property
    def _lines(self) -> dict[int, str]:
        return {group.last.version: group.line for group in self.groups}

    def line_of(self, error: CallError) -> str:
        """Return the error line of an error."""
        return self._lines.get(error.version) or error_line(brief(error))

    @cached_property
    def missing(self) -> list[CallError]:
        """The standing errors that say that a file is not in its place."""
        return [error for error in self.standing_errors if misses_file(error, self.line_of(error))]

    @cached_property
    def empty_results(self) -> list[CallFacts]:
        """The calls that completed, with a result that holds no data."""
        return [
            call
            for call in self.calls
            if call.status == "completed" and not call.errors and says_nothing(call.result)
        ]

    @cached_property
    def _requests(self) -> list[int]:
        return sorted(call.version for call in self.calls)

    def recency(self, version: int) -> int:
        """Return 0 for the beginning of the log, up to 8 for its end."""
        return 8 * version // max(self.end_of_log, 1)

    def calls_after(self, version: int) -> int:
        """Return how many calls were asked for after a version."""
        return len(self._requests) - bisect_right(self._requests, version)

    @property
    def end_of_log(self) -> int:
        """The last version."""
        return self.facts.last.version if self.facts.last is not None else 0

    def role_after(self, version: int) -> str | None:
        """Return the role of the first message after a version."""
        messages = self.facts.messages
        at = bisect_right(messages, (version, "~"))
        return messages[at][1] if at < len(messages) else None

    def next_user(self, version: int) -> int:
        """Return the version of the user's next message; beyond the log if there is none."""
        messages = self.facts.user_messages
        at = bisect_right(messages, version)
        return messages[at] if at < len(messages) else _NEVER

    def followers(self, call: CallFacts) -> list[CallFacts]:
        """Return the calls after a call's end, up to the user's next message."""
        return self.asked_between(call.ended, self.next_user(call.ended))

    def asked_between(self, after: int, until: int) -> list[CallFacts]:
        """Return the calls that were asked for after a version, up to another."""
        first, end = (bisect_right(self._requests, version) for version in (after, until))
        return self.calls[first:end]

    def next_calls(self, version: int, count: int) -> list[CallFacts]:
        """Return the calls that were asked for after a version, so many at most."""
        first = bisect_right(self._requests, version)
        return self.calls[first : first + count]

    def of_last_turn(self, version: int, weight: int) -> int:
        """Return the weight of what misled the model; less where the user has gone on since."""
        return weight if self.next_user(version) == _NEVER else weight - 16 + self.recency(version)

    def outlasted(self, error: CallError, weight: int) -> int:
        """Return the weight of what made calls fail; less where the same work was done since."""
        work = work_of(error.call) if error.call is not None else ""
        later = self.asked_between(error.version, self.end_of_log)
        done = any(
            call.status == "completed" and not call.is_error and work_of(call) == work
            for call in later
        )
        return self.stood_last(error.version, weight - 12 * done)

    def stood_last(self, version: int, weight: int) -> int:
        """Return the weight of what went wrong: heavier where nothing came of the run after it."""
        if version > self.facts.last_progress:
            return min(weight + max(26 - 4 * self.calls_after(version), 8), 97)
        return weight + self.recency(version)


def cause(
    kind: str,
    version: int,
    text: str,
    weight: int,
    *,
    versions: Iterable[int] = (),
    call: CallFacts | None = None,
) -> Cause:
    """Return a cause; without versions of its own it is the one event."""
    places = tuple(sorted({*versions})) or (version,)
    call_id, tool = (call.id, call.name) if call is not None else (None, None)
    return Cause(kind, version, places, text, min(max(weight, 1), 100), call_id, tool)


def shown(call: CallFacts) -> str:
    """Return the name of a call with the beginning of its arguments."""
    return f"{call.name} {arguments_text(call.edit or call.call, 48)}"
