"""Calls in a row, of one conversation: how they are told apart and counted."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from eventstore import FunctionCall, Recorded
from projections.fold import fingerprint_of

PERIODS = (2, 3, 4)
"""How many calls a cycle may have."""


class Place(NamedTuple):
    """Where a call was asked for."""

    call_id: str
    version: int


class Made(msgspec.Struct, gc=False):
    """The calls of one conversation with one fingerprint; `call` is kept from the second on."""

    fingerprint: str
    first: Place
    last: Place
    run_first: Place
    run_last: Place
    call: FunctionCall | None = None
    total: int = 0
    run: int = 0
    stretch: int = 0
    since_user: int = 0
    between_users: int = 0
    answers: dict[bytes, int] = {}

    def again(self, call: FunctionCall, place: Place, stretch: int) -> None:
        """Count one more, made in a stretch between user messages."""
        self.total += 1
        self.last = place
        if self.total > 1:
            self.call = call
        self.since_user = self.since_user + 1 if stretch == self.stretch else 1
        self.stretch = stretch
        self.between_users = max(self.between_users, self.since_user)

    def in_a_row(self, run: int, first: Place) -> None:
        """Note a row of calls that ends with the last one."""
        if run > self.run:
            self.run, self.run_first, self.run_last = run, first, self.last

    def answered(self, digest: bytes, instead_of: bytes | None) -> None:
        """Note an answer, given in place of an earlier one to the same call."""
        answers = self.answers
        answers[digest] = answers.get(digest, 0) + 1
        if instead_of is not None:
            answers[instead_of] -= 1
            if not answers[instead_of]:
                del answers[instead_of]


class Row(msgspec.Struct, gc=False):
    """Calls in a row that go round: so many fit the cycle that began with `made`."""

    made: tuple[Made, ...]
    first: Place
    length: int

    @property
    def rounds(self) -> int:
        """How often it went round."""
        return self.length // len(self.made)


class LongestRow(msgspec.Struct, gc=False):
    """The longest row of one cycle: `run` times round."""

    made: tuple[Made, ...]
    first: Place
    last: Place
    run: int = 0


class Stream:
    """One conversation: what was called, and how it goes on at the moment."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.stretch = 0  # how many user messages came before
        self.calls = 0  # how many calls since the last of them
        self.open: dict[str, tuple[Made, bytes | None]] = {}
        self.made: dict[str, Made] = {}
        self._recent: deque[tuple[Made, Place]] = deque(maxlen=max(PERIODS))
        self._run = 0
        self._run_first = Place("", 0)
        self._rows: dict[int, Row] = {}
        self.longest: dict[tuple[str, ...], LongestRow] = {}

    def request(self, recorded: Recorded, call: FunctionCall) -> None:
        """Take in a call."""
        fingerprint = fingerprint_of(recorded, call)
        if fingerprint is None or not call.id:
            return
        place = Place(call.id, recorded.version)
        made = self.made.get(fingerprint)
        if made is None:
            made = self.made[fingerprint] = Made(fingerprint, place, place, place, place)
        self.open[call.id] = made, None
        self.calls += 1
        made.again(call, place, self.stretch)
        self._in_a_row(made, place)
        self._in_turn(made, place)
        self._recent.append((made, place))

    def _in_a_row(self, made: Made, place: Place) -> None:
        if self._recent and self._recent[-1][0] is made:
            self._run += 1
        else:
            self._run, self._run_first = 1, place
        made.in_a_row(self._run, self._run_first)

    def _in_turn(self, made: Made, place: Place) -> None:
        recent = self._recent
        for period in PERIODS:
            if len(recent) < period or recent[-period][0] is not made:
                self._rows.pop(period, None)
                continue
            row = self._rows.get(period)
            if row is None:
                turn = list(recent)[-period:]
                row = Row(tuple(m for m, _ in turn), turn[0][1], period)
                self._rows[period] = row
            row.length += 1
            if row.rounds > 1 and not _is_smaller_cycle(row.made):
                self._went_round(row, place)

    def _went_round(self, row: Row, place: Place) -> None:
        key = rotation(row.made)
        cycle = self.longest.get(key)
        if cycle is None:
            cycle = self.longest[key] = LongestRow(row.made, row.first, place)
        if row.rounds > cycle.run:
            cycle.made, cycle.run = row.made, row.rounds
            cycle.first, cycle.last = row.first, place

    def answer(self, call_id: str, digest: bytes, *, last: bool) -> None:
        """Take in the answer to an open call; after the last one it is open no more."""
        made, before = self.open[call_id]
        made.answered(digest, before)
        if last:
            del self.open[call_id]
        else:
            self.open[call_id] = made, digest

    def run_of(self, made: Made) -> int:
        """How many calls of its fingerprint the log ends with."""
        return self._run if self._recent and self._recent[-1][0] is made else 0

    def since_user(self, made: Made) -> int:
        """How many calls of its fingerprint there are since the last user message."""
        return made.since_user if made.stretch == self.stretch else 0

    def rounds_of(self, cycle: tuple[str, ...]) -> tuple[int, int]:
        """How often a cycle goes round where the log ends: in all, and since the user message."""
        for row in self._rows.values():
            if rotation(row.made) == cycle:
                return row.rounds, min(row.length, self.calls) // len(row.made)
        return 0, 0


def rotation(made: tuple[Made, ...]) -> tuple[str, ...]:
    """The name of a cycle, wherever in it one begins."""
    names = [m.fingerprint for m in made]
    return min(tuple(names[n:] + names[:n]) for n in range(len(names)))


def _is_smaller_cycle(made: tuple[Made, ...]) -> bool:
    """Whether they only seem to be so many: A A is a row of A, A B A B the cycle A B."""
    return any(
        all(m is made[n % period] for n, m in enumerate(made))
        for period in range(1, len(made))
        if len(made) % period == 0
    )
