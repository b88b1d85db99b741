"""Repeats: calls that are made again and again, alone or in a cycle, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any, TypeAlias

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
from projections.fold import Projection
from projections.rows import Place, Stream
from projections.text import arguments_text

_canonical = msgspec.json.Encoder(order="deterministic").encode


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
    - `since_user`: how many times round in that row since the last user message.
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

    def __init__(self, threshold: int = 3, comparable: Callable[[Any], Any] | None = None) -> None:
        if threshold < 2:  # noqa: PLR2004 - once is no repeat
            raise ValueError(f"threshold is {threshold}: pass 2 or more")
        self.threshold = threshold
        self._comparable = comparable
        self._streams: dict[str, Stream] = {}

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        stream = self._streams.get(recorded.conversation_id)
        if stream is None:
            stream = self._streams[recorded.conversation_id] = Stream(recorded.version - 1)
        if recorded.version <= stream.version:
            return
        stream.version = recorded.version
        event: Any = recorded.event
        kind: Any = type(event)
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
        answer: Any = _ANSWERS[type(event)](event)
        if self._comparable is not None and type(event) is ToolCompleted:
            with suppress(Exception):  # not what `comparable` expects: it stands as it is
                answer = self._comparable(answer)
        try:
            content = _canonical([event.tag, answer])
        except Exception:  # noqa: BLE001 - no JSON: a log made by hand
            content = type(answer).__name__.encode()
        return blake2b(content, digest_size=8).digest()

    @property
    def findings(self) -> list[Finding]:
        """The repeats that reach the threshold, the longest first."""
        found: list[Finding] = []
        for conversation_id, stream in self._streams.items():
            found += _repeats(conversation_id, stream, self.threshold)
            found += _cycles(conversation_id, stream, self.threshold)
        return sorted(found, key=_longest_first)


def _longest_first(finding: Finding) -> tuple[int, str, int]:
    if isinstance(finding, Repeat):
        length = max(finding.run, finding.between_users)
    else:
        length = finding.run * len(finding.calls)
    return -length, finding.conversation_id, finding.run_first.version


def _repeats(conversation_id: str, stream: Stream, threshold: int) -> Iterator[Repeat]:
    for made in stream.made.values():
        if max(made.run, made.between_users) >= threshold and made.call is not None:
            yield Repeat(
                conversation_id, made.fingerprint, made.call, made.total, made.run,
                stream.run_of(made), stream.since_user(made), made.between_users,
                len(made.answers), sum(made.answers.values()),
                made.first, made.last, made.run_first, made.run_last,
            )  # fmt: skip


def _cycles(conversation_id: str, stream: Stream, threshold: int) -> Iterator[Cycle]:
    for name, row in stream.longest.items():
        if row.run >= threshold:
            marks = tuple(made.fingerprint for made in row.made)
            calls = tuple(made.call for made in row.made if made.call is not None)
            now, since_user = stream.rounds_of(name)
            yield Cycle(
                conversation_id, marks, calls, row.run, now, since_user, row.first, row.last
            )


_ANSWERS: dict[Any, Callable[[Any], Any]] = {
    ToolCompleted: lambda event: event.response.result,
    ToolFailed: lambda event: [event.failure.kind, event.failure.model_text],
    ToolRejected: lambda event: [event.source, event.reason],
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
