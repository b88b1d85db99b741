"""Repeats: calls that are made again and again, alone or in a cycle, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from eventstore import (
    FunctionCall,
    MessageAdded,
    PayloadsRedacted,
    Recorded,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
)
from projections.formatting import NotebookText, arguments_text
from projections.projection import Projection
from projections.redactions import ReadMarkers
from projections.repeats.streaks import CallRequest, ConversationCalls

MIN_THRESHOLD = 2
"""Calls that are a repeat."""

_canonical = msgspec.json.Encoder(order="deterministic").encode


class Repeat(NotebookText, msgspec.Struct, frozen=True, gc=False, tag="repeat"):
    """One call that was made again and again, with the same arguments.

    - `total`: how often in the conversation; `first` and `last` are the first and the last call.
    - `run`: the most calls in a row, without another call between them (messages may come
      between); from `run_first` to `run_last`. `current_run` is the row that the log ends with.
    - `since_user`: how often since the last user message; `between_users`: how often at most
      without a user message between.
    - `answers`: the number of different answers; `answered`: the number of calls with an answer.
      A failure and a rejection are answers.
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
    first: CallRequest
    last: CallRequest
    run_first: CallRequest
    run_last: CallRequest

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


class Cycle(NotebookText, msgspec.Struct, frozen=True, gc=False, tag="cycle"):
    """Two to four calls that were made in turn: A B A B A B.

    - `calls`: in the order in which the cycle began, with their `fingerprints`.
    - `run`: the most rounds without another call between (messages may come between); from
      `run_first` to `run_last`. `current_run` are the rounds that the log ends with.
    - `since_user`: the rounds of these since the last user message.
    """

    conversation_id: str
    fingerprints: tuple[str, ...]
    calls: tuple[FunctionCall, ...]
    run: int
    current_run: int
    since_user: int
    run_first: CallRequest
    run_last: CallRequest

    def __str__(self) -> str:
        calls = " > ".join(f"{call.name} {arguments_text(call, 40)}" for call in self.calls)
        return f"{calls}: {self.run} times round ({_span(self.run_first, self.run_last)})"


Finding: TypeAlias = Repeat | Cycle
Answer: TypeAlias = ToolCompleted | ToolFailed | ToolRejected


def _span(first: CallRequest, last: CallRequest) -> str:
    return f"{first.call_id} at version {first.version} to {last.call_id} at {last.version}"


class Repeats(Projection):
    """The repeats so far; `findings` lists those that reach the `threshold`.

    A finding is a call made `threshold` times in a row, or that often without a user message
    between, or a cycle that went round that often. `comparable` returns the part of a result that
    is compared with others, for tools that put the time into every answer.

    An event that comes again or late is ignored. After events of a conversation that were read are
    redacted, its repeats are counted from there on.

    Raises:
        ValueError: `threshold` is less than 2.
    """

    def __init__(self, threshold: int = 3, comparable: Callable[[Any], Any] | None = None) -> None:
        if threshold < MIN_THRESHOLD:
            raise ValueError(f"threshold is {threshold}: pass 2 or more")
        self.threshold = threshold
        self._comparable = comparable
        self._conversations: dict[str, ConversationCalls] = {}
        self._markers = ReadMarkers()

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        chat = self._conversations.get(recorded.conversation_id)
        if chat is None:
            chat = self._conversations[recorded.conversation_id] = ConversationCalls(
                recorded.version - 1
            )
        if recorded.version <= chat.version:
            return
        chat.version = recorded.version
        event = recorded.event
        self._markers.take(recorded)
        # `isinstance` is slow for a msgspec class, and every event of a log comes here.
        if type(event) is ToolPending:
            if event.call.id not in chat.open:
                chat.add(recorded, event.call)
        elif type(event) is MessageAdded:
            if event.role == "user":
                chat.begin_section()
        elif (
            type(event) is ToolCompleted or type(event) is ToolFailed or type(event) is ToolRejected
        ) and event.call_id in chat.open:
            is_final = type(event) is not ToolFailed
            chat.answer(event.call_id, self._digest(event), is_final=is_final)
        elif type(event) is PayloadsRedacted and self._markers.gone(recorded):
            name = recorded.conversation_id
            self._conversations[name] = ConversationCalls(recorded.version)

    def _digest(self, event: Answer) -> bytes:
        answer = _answer_of(event)
        if self._comparable is not None and type(event) is ToolCompleted:
            with suppress(Exception):  # not what `comparable` expects: compare the whole result
                answer = self._comparable(answer)
        try:
            content = _canonical([event.tag, answer])
        except Exception:  # noqa: BLE001 - a log made by hand may hold anything
            content = type(answer).__name__.encode()
        return blake2b(content, digest_size=8).digest()

    @property
    def findings(self) -> list[Finding]:
        """The repeats that reach the threshold, the longest first."""
        found: list[Finding] = []
        for conversation_id, chat in self._conversations.items():
            found += _repeats(conversation_id, chat, self.threshold)
            found += _cycles(conversation_id, chat, self.threshold)
        return sorted(found, key=_longest_first)


def _longest_first(finding: Finding) -> tuple[int, str, int]:
    if isinstance(finding, Repeat):
        length = max(finding.run, finding.between_users)
    else:
        length = finding.run * len(finding.calls)
    return -length, finding.conversation_id, finding.run_first.version


def _repeats(conversation_id: str, chat: ConversationCalls, threshold: int) -> Iterator[Repeat]:
    for count in chat.counts.values():
        if max(count.run, count.between_users) >= threshold and count.call is not None:
            yield Repeat(
                conversation_id=conversation_id,
                fingerprint=count.fingerprint,
                call=count.call,
                total=count.total,
                run=count.run,
                current_run=chat.current_run(count),
                since_user=chat.since_user(count),
                between_users=count.between_users,
                answers=len(count.answers),
                answered=sum(count.answers.values()),
                first=count.first,
                last=count.last,
                run_first=count.run_first,
                run_last=count.run_last,
            )


def _cycles(conversation_id: str, chat: ConversationCalls, threshold: int) -> Iterator[Cycle]:
    for key, streak in chat.longest_streaks.items():
        if streak.rounds >= threshold:
            current_run, since_user = chat.current_rounds(key)
            yield Cycle(
                conversation_id=conversation_id,
                fingerprints=tuple(count.fingerprint for count in streak.calls),
                calls=tuple(count.call for count in streak.calls if count.call is not None),
                run=streak.rounds,
                current_run=current_run,
                since_user=since_user,
                run_first=streak.first,
                run_last=streak.last,
            )


def _answer_of(event: Answer) -> object:
    if isinstance(event, ToolCompleted):
        return event.response.result
    if isinstance(event, ToolFailed):
        return [event.failure.kind, event.failure.model_text]
    return [event.source, event.reason]


def repeats(
    events: Iterable[Recorded],
    threshold: int = 3,
    *,
    comparable: Callable[[Any], Any] | None = None,
) -> list[Finding]:
    """Return what the calls of `events` repeat, the longest first; see `Repeat` and `Cycle`.

    `threshold` is how often a call must be made, in a row or without a user message between, or
    how often a cycle must go round. `comparable` returns the part of a result that is compared
    with others: leave out what differs each time, and a loop shows that it always gets the same
    answer.

    Raises:
        ValueError: `threshold` is less than 2.
    """
    return Repeats(threshold, comparable).extend(events).findings
