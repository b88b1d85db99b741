"""Repeats: calls that are made again and again, alone or in a cycle, and what came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

from eventstore import (
    FunctionCall,
    MessageAdded,
    Recorded,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
)
from projections.fold import Projection, fingerprint_of
from projections.text import arguments_text

PERIODS = (2, 3, 4)
"""How many calls a cycle may have."""

_canonical = msgspec.json.Encoder(order="deterministic").encode


class Place(NamedTuple):
    """Where a call was asked for."""

    call_id: str
    version: int


class Repeat(msgspec.Struct, frozen=True, gc=False, tag="repeat"):
    """One call that was made again and again, with the same arguments.

    - `total`: how often in the conversation; `first` and `last` are its first and last time.
    - `run`: the longest row of it without another call between, whatever anybody said between;
      from `run_first` to `run_last`. `current_run` is the row that the log ends with.
    - `since_user`: how often since the last user message; `between_users`: how often at most
      without a user message between.
    - `answers`: how many different answers it got; `answered` calls have one. A failure and a
      rejection are answers.
    """

    conversation_id: str
    fingerprint: str
    call: FunctionCall
    total: int
    run: int
    current_run: int
    since_user: int
    between_users: int
    answers: int
    answered: int
    first: Place
    last: Place
    run_first: Place
    run_last: Place

    @property
    def same_answer(self) -> bool | None:
        """Whether the answer was the same each time; None for fewer than two answers."""
        return self.answers == 1 if self.answered > 1 else None

    def __str__(self) -> str:
        counts = [f"{self.total} times"]
        if self.run > 1:
            counts.append(f"{self.run} in a row")
        if self.between_users > 1:
            counts.append(f"{self.between_users} between two user messages")
        if self.same_answer is not None:
            counts.append("always the same answer" if self.same_answer else "different answers")
        in_a_row = self.run >= self.between_users
        span = _span(*((self.run_first, self.run_last) if in_a_row else (self.first, self.last)))
        return f"{self.call.name} {arguments_text(self.call, 60)}: {', '.join(counts)} ({span})"


class Cycle(msgspec.Struct, frozen=True, gc=False, tag="cycle"):
    """Two to four calls that were made in turn: A B A B A B.

    - `calls` in the order in which the cycle began, with their `fingerprints`.
    - `run`: how many times round at most, whatever anybody said between; from `run_first` to
      `run_last`. `current_run` is the row that the log ends with.
    - `since_user`: how many times round since the last user message.
    """

    conversation_id: str
    fingerprints: tuple[str, ...]
    calls: tuple[FunctionCall, ...]
    run: int
    current_run: int
    since_user: int
    run_first: Place
    run_last: Place

    def __str__(self) -> str:
        calls = " > ".join(f"{call.name} {arguments_text(call, 40)}" for call in self.calls)
        return f"{calls}: {self.run} times round ({_span(self.run_first, self.run_last)})"


Finding: TypeAlias = Repeat | Cycle


def _span(first: Place, last: Place) -> str:
    return f"{first.call_id} at version {first.version} to {last.call_id} at {last.version}"


class Repeats(Projection):
    """The repeats so far; `findings` lists those that reach the `threshold`.

    A finding is a call made `threshold` times in a row, or so often without a user message
    between, or a cycle that went round so often. `comparable` gives what of a result is compared
    with others, for tools that put the time into every answer.

    An event that comes again or late is passed over.
    """

    def __init__(
        self, threshold: int = 3, comparable: Callable[[Any], Any] | None = None
    ) -> None:
        if threshold < 2:  # noqa: PLR2004 - once is no repeat
            raise ValueError(f"threshold is {threshold}: pass 2 or more")
        self.threshold = threshold
        self._comparable = comparable or (lambda result: result)
        self._streams: dict[str, _Stream] = {}

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        stream = self._streams.get(recorded.conversation_id)
        if stream is None:
            stream = self._streams[recorded.conversation_id] = _Stream(recorded.version - 1)
        if recorded.version <= stream.version:
            return
        stream.version = recorded.version
        event: Any = recorded.event
        kind = type(event)
        if kind is ToolPending:
            if event.call.id not in stream.open:
                stream.request(recorded, event.call)
        elif kind is MessageAdded:
            if event.role == "user":
                stream.stretch += 1
                stream.calls = 0
        elif kind in _ANSWERS and event.call_id in stream.open:
            stream.answer(event.call_id, self._digest(event), last=kind is not ToolFailed)

    def _digest(self, event: Any) -> bytes:
        try:
            content = _canonical(_ANSWERS[type(event)](event, self._comparable))
        except Exception:  # noqa: BLE001 - a result that is no JSON, or not as `comparable` expects
            content = type(event).__name__.encode()
        return blake2b(content, digest_size=8).digest()

    @property
    def findings(self) -> list[Finding]:
        """The repeats that reach the threshold, the longest first."""
        found: list[Finding] = []
        for conversation_id, stream in self._streams.items():
            found += stream.repeats(conversation_id, self.threshold)
            found += stream.cycles(conversation_id, self.threshold)
        return sorted(found, key=_longest_first)


def _longest_first(finding: Finding) -> tuple[int, str, int]:
    if isinstance(finding, Repeat):
        length = max(finding.run, finding.between_users)
    else:
        length = finding.run * len(finding.calls)
    return -length, finding.conversation_id, finding.run_first.version


class _Made(msgspec.Struct, gc=False):
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


class _Row(msgspec.Struct, gc=False):
    """Calls in a row that go round: so many fit the cycle that began with `made`."""

    made: tuple[_Made, ...]
    first: Place
    length: int

    @property
    def rounds(self) -> int:
        """How often it went round."""
        return self.length // len(self.made)


class _Cycle(msgspec.Struct, gc=False):
    """The longest row of one cycle."""

    made: tuple[_Made, ...]
    first: Place
    last: Place
    run: int = 0


class _Stream:
    """One conversation: what was called, and how it goes on at the moment."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.stretch = 0  # how many user messages came before
        self.calls = 0  # how many calls since the last of them
        self.open: dict[str, tuple[_Made, bytes | None]] = {}
        self._made: dict[str, _Made] = {}
        self._recent: deque[tuple[_Made, Place]] = deque(maxlen=max(PERIODS))
        self._run = 0
        self._run_first = Place("", 0)
        self._rows: dict[int, _Row] = {}
        self._cycles: dict[tuple[str, ...], _Cycle] = {}

    def request(self, recorded: Recorded, call: FunctionCall) -> None:
        """Take in a call."""
        fingerprint = fingerprint_of(recorded, call)
        if fingerprint is None or not call.id:
            return
        place = Place(call.id, recorded.version)
        made = self._made.get(fingerprint)
        if made is None:
            made = self._made[fingerprint] = _Made(fingerprint, place, place, place, place)
        self.open[call.id] = made, None
        self.calls += 1
        made.again(call, place, self.stretch)
        self._in_a_row(made, place)
        self._in_turn(made, place)
        self._recent.append((made, place))

    def _in_a_row(self, made: _Made, place: Place) -> None:
        if self._recent and self._recent[-1][0] is made:
            self._run += 1
        else:
            self._run, self._run_first = 1, place
        made.in_a_row(self._run, self._run_first)

    def _in_turn(self, made: _Made, place: Place) -> None:
        recent = self._recent
        for period in PERIODS:
            if len(recent) < period or recent[-period][0] is not made:
                self._rows.pop(period, None)
                continue
            row = self._rows.get(period)
            if row is None:
                turn = list(recent)[-period:]
                row = _Row(tuple(m for m, _ in turn), turn[0][1], period)
                self._rows[period] = row
            row.length += 1
            if row.rounds > 1 and not _is_smaller_cycle(row.made):
                self._went_round(row, place)

    def _went_round(self, row: _Row, place: Place) -> None:
        key = _rotation(row.made)
        cycle = self._cycles.get(key)
        if cycle is None:
            cycle = self._cycles[key] = _Cycle(row.made, row.first, place)
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

    def repeats(self, conversation_id: str, threshold: int) -> Iterator[Repeat]:
        """The calls that were repeated so often."""
        for made in self._made.values():
            if max(made.run, made.between_users) < threshold or made.call is None:
                continue
            current = bool(self._recent) and self._recent[-1][0] is made
            yield Repeat(
                conversation_id, made.fingerprint, made.call, made.total, made.run,
                self._run if current else 0,
                made.since_user if made.stretch == self.stretch else 0, made.between_users,
                len(made.answers), sum(made.answers.values()),
                made.first, made.last, made.run_first, made.run_last,
            )  # fmt: skip

    def cycles(self, conversation_id: str, threshold: int) -> Iterator[Cycle]:
        """The cycles that went round so often."""
        rows = {_rotation(row.made): row for row in self._rows.values()}
        for key, cycle in self._cycles.items():
            if cycle.run < threshold:
                continue
            row = rows.get(key)
            yield Cycle(
                conversation_id,
                tuple(made.fingerprint for made in cycle.made),
                tuple(made.call for made in cycle.made if made.call),
                cycle.run,
                row.rounds if row else 0,
                min(row.length, self.calls) // len(row.made) if row else 0,
                cycle.first,
                cycle.last,
            )


def _rotation(made: tuple[_Made, ...]) -> tuple[str, ...]:
    """The name of a cycle, wherever in it one begins."""
    names = [m.fingerprint for m in made]
    return min(tuple(names[n:] + names[:n]) for n in range(len(names)))


def _is_smaller_cycle(made: tuple[_Made, ...]) -> bool:
    """Whether they only seem to be so many: A A is a row of A, A B A B the cycle A B."""
    return any(
        all(m is made[n % period] for n, m in enumerate(made))
        for period in range(1, len(made))
        if len(made) % period == 0
    )


_ANSWERS: dict[Any, Callable[[Any, Callable[[Any], Any]], Any]] = {
    ToolCompleted: lambda event, comparable: ["completed", comparable(event.response.result)],
    ToolFailed: lambda event, _: ["failed", event.failure.kind, event.failure.model_text],
    ToolRejected: lambda event, _: ["rejected", event.source, event.reason],
}


def repeats(
    events: Iterable[Recorded],
    threshold: int = 3,
    *,
    comparable: Callable[[Any], Any] | None = None,
) -> list[Finding]:
    """What the calls of `events` repeat, the longest row first; see `Repeat` and `Cycle`.

    `threshold` is how often a call must be made, in a row or without a user message between, or
    a cycle go round. `comparable` gives what of a result is compared with others: without what
    differs each time, a loop shows that it always gets the same answer.
    """
    return Repeats(threshold, comparable).extend(events).findings
