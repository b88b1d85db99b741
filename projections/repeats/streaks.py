"""The calls of one conversation, counted: repeats, calls in a row, and cycles.

1. Calls are equal if their fingerprints are: the same tool with the same arguments.
2. Equal calls without another call between them are in a row, whatever messages come between.
3. Calls go round in a cycle if each equals the call two, three or four places before it
   (`PERIODS`). A cycle that is itself a shorter cycle, or a row, is not counted.
4. Of each fingerprint and of each cycle the longest streak is kept, and the current one.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from eventstore import FunctionCall, Recorded
from projections.projection import fingerprint_of

PERIODS = (2, 3, 4)
"""The numbers of calls that a cycle may have."""


class CallRequest(NamedTuple):
    """The call id and the version of a request."""

    call_id: str
    version: int


class CallCount(msgspec.Struct, gc=False):
    """The calls of one conversation with one fingerprint.

    `call` is kept from the second call on. `section` is the number of user messages before the
    last call, `answers` the number of times that each answer was given.
    """

    fingerprint: str
    first: CallRequest
    last: CallRequest
    run_first: CallRequest
    run_last: CallRequest
    call: FunctionCall | None = None
    total: int = 0
    run: int = 0
    section: int = 0
    since_user: int = 0
    between_users: int = 0
    answers: dict[bytes, int] = {}

    def add(self, call: FunctionCall, request: CallRequest, section: int) -> None:
        """Count one more call, made in a section between user messages."""
        self.total += 1
        self.last = request
        if self.total > 1:
            self.call = call
        self.since_user = self.since_user + 1 if section == self.section else 1
        self.section = section
        self.between_users = max(self.between_users, self.since_user)

    def record_run(self, run: int, first: CallRequest) -> None:
        """Record a number of calls in a row that ends with the last one, if it is the longest."""
        if run > self.run:
            self.run, self.run_first, self.run_last = run, first, self.last

    def record_answer(self, digest: bytes, instead_of: bytes | None) -> None:
        """Record an answer; it replaces an earlier answer to the same call."""
        answers = self.answers
        answers[digest] = answers.get(digest, 0) + 1
        if instead_of is not None:
            answers[instead_of] -= 1
            if not answers[instead_of]:
                del answers[instead_of]


class Streak(msgspec.Struct, gc=False):
    """The current calls that fit a cycle: `length` of them, from `first` on."""

    calls: tuple[CallCount, ...]
    first: CallRequest
    length: int

    @property
    def rounds(self) -> int:
        """How often the cycle was completed."""
        return self.length // len(self.calls)


class LongestStreak(msgspec.Struct, gc=False):
    """The longest streak of one cycle: `rounds` times round."""

    calls: tuple[CallCount, ...]
    first: CallRequest
    last: CallRequest
    rounds: int = 0


class ConversationCalls:
    """One conversation: the calls made so far, and the streaks that it ends with.

    `open` are the calls without a final answer, by id.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.counts: dict[str, CallCount] = {}
        self.longest_streaks: dict[tuple[str, ...], LongestStreak] = {}
        self.open: dict[str, tuple[CallCount, bytes | None]] = {}  # with the answer so far
        self._section = 0  # the number of user messages so far
        self._calls_in_section = 0
        self._recent: deque[tuple[CallCount, CallRequest]] = deque(maxlen=max(PERIODS))
        self._run = 0
        self._run_first = CallRequest("", 0)
        self._streaks: dict[int, Streak] = {}

    def begin_section(self) -> None:
        """Take in a user message."""
        self._section += 1
        self._calls_in_section = 0

    def add(self, recorded: Recorded, call: FunctionCall) -> None:
        """Take in a call."""
        fingerprint = fingerprint_of(recorded, call)
        if fingerprint is None or not call.id:
            return
        request = CallRequest(call.id, recorded.version)
        count = self.counts.get(fingerprint)
        if count is None:
            count = self.counts[fingerprint] = CallCount(
                fingerprint, request, request, request, request
            )
        self.open[call.id] = count, None
        self._calls_in_section += 1
        count.add(call, request, self._section)
        self._update_run(count, request)
        self._update_streaks(count, request)
        self._recent.append((count, request))

    def _update_run(self, count: CallCount, request: CallRequest) -> None:
        if self._recent and self._recent[-1][0] is count:
            self._run += 1
        else:
            self._run, self._run_first = 1, request
        count.record_run(self._run, self._run_first)

    def _update_streaks(self, count: CallCount, request: CallRequest) -> None:
        recent = self._recent
        for period in PERIODS:
            if len(recent) < period or recent[-period][0] is not count:
                self._streaks.pop(period, None)
                continue
            streak = self._streaks.get(period)
            if streak is None:
                cycle = list(recent)[-period:]
                streak = Streak(tuple(each for each, _ in cycle), cycle[0][1], period)
                self._streaks[period] = streak
            streak.length += 1
            if streak.rounds > 1 and not _is_shorter_cycle(streak.calls):
                self._record_streak(streak, request)

    def _record_streak(self, streak: Streak, request: CallRequest) -> None:
        key = cycle_key(streak.calls)
        longest = self.longest_streaks.get(key)
        if longest is None:
            longest = LongestStreak(streak.calls, streak.first, request)
            self.longest_streaks[key] = longest
        if streak.rounds > longest.rounds:
            longest.calls, longest.rounds = streak.calls, streak.rounds
            longest.first, longest.last = streak.first, request

    def answer(self, call_id: str, digest: bytes, *, is_final: bool) -> None:
        """Take in the answer to an open call; a final answer closes it."""
        count, before = self.open[call_id]
        count.record_answer(digest, before)
        if is_final:
            del self.open[call_id]
        else:
            self.open[call_id] = count, digest

    def current_run(self, count: CallCount) -> int:
        """Return the number of calls of a fingerprint in a row that the log ends with."""
        return self._run if self._recent and self._recent[-1][0] is count else 0

    def since_user(self, count: CallCount) -> int:
        """Return the number of calls of a fingerprint since the last user message."""
        return count.since_user if count.section == self._section else 0

    def current_rounds(self, key: tuple[str, ...]) -> tuple[int, int]:
        """Return how often a cycle goes round at the end: in all, and since the user message."""
        for streak in self._streaks.values():
            if cycle_key(streak.calls) == key:
                length = min(streak.length, self._calls_in_section)
                return streak.rounds, length // len(streak.calls)
        return 0, 0


def cycle_key(calls: tuple[CallCount, ...]) -> tuple[str, ...]:
    """Return the key of a cycle: the same for each call that it may begin with."""
    names = [call.fingerprint for call in calls]
    return min(tuple(names[start:] + names[:start]) for start in range(len(names)))


def _is_shorter_cycle(calls: tuple[CallCount, ...]) -> bool:
    """Return whether a cycle has a shorter period: A A is a row of A, A B A B is the cycle A B."""
    return any(
        all(call is calls[index % period] for index, call in enumerate(calls))
        for period in range(1, len(calls))
        if len(calls) % period == 0
    )
