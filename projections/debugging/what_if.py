"""What if: the same log under other policies.

1. Nothing runs again. Each recorded failure, call and prompt is judged by the other policy where it
   stands; what would have followed from another decision is not known.
2. A failure would have been retried if the classifier says that it is transient and the tool's
   retry policy has another attempt. Otherwise it is final, and ends the run if the error policy
   says so. An answer of the tool to the model (`ModelRetry`, `NotApplicable`) ends none.
3. A call would have been hidden if the gates did not let the model see its tool in that turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Unpack

import msgspec

from eventstore import (
    DefaultRetryClassifier,
    Event,
    MessageAdded,
    Recorded,
    RetryClass,
    RetryClassifier,
    RetryPolicy,
    ToolErrorPolicy,
    ToolFailed,
    ToolGate,
    ToolPending,
    ToolRunning,
    ToolsOffered,
    compose_gates,
)
from eventstore.domain.one_line import one_line
from eventstore.providers import AnyProvider
from projections.formatting import NotebookText, plural
from projections.history.gate_context import gate_context
from projections.history.options import HistoryKeywords
from projections.history.projection import model_history
from projections.history.token_counter import TokenCounter

MAX_LISTED = 5
"""Calls that a line of the text names."""

_encode = msgspec.json.encode


class JudgedCall(msgspec.Struct, frozen=True, gc=False):
    """A place in the log where another policy decides otherwise: the event's version, the call."""

    version: int
    call_id: str
    tool: str
    kind: str = ""

    def __str__(self) -> str:
        kind = f", {self.kind}" if self.kind else ""
        return f"{one_line(self.tool, 64)} at version {self.version}{kind}"


class WhatIf(NotebookText, msgspec.Struct, frozen=True):
    """What other policies would have decided.

    - `ended`: failures that would have ended the run; the run stops at the first of them.
    - `retried`: failures after which there would have been another attempt, and was none.
    - `not_retried`: failures after which there was another attempt, and would have been none.
    - `hidden`: calls of tools that the gates would have hidden.
    - `size_before` and `size_after`: the next prompt as it is, and with the other options, in
      tokens, or in characters (`unit`) where no counter was given.
    """

    ended: tuple[JudgedCall, ...]
    retried: tuple[JudgedCall, ...]
    not_retried: tuple[JudgedCall, ...]
    hidden: tuple[JudgedCall, ...]
    size_before: int
    size_after: int
    unit: str

    @property
    def saved(self) -> int:
        """How much smaller the next prompt would be; negative if it would be larger."""
        return self.size_before - self.size_after

    @property
    def lines(self) -> tuple[str, ...]:
        """The result in five lines."""
        return (
            f"would have ended the run: {_listed(self.ended)}",
            f"would have been retried: {_listed(self.retried)}",
            f"would not have been retried: {_listed(self.not_retried)}",
            f"would have been hidden: {_listed(self.hidden)}",
            f"the next prompt: {self.size_after:,} {self.unit} in place of {self.size_before:,}",
        )

    def __str__(self) -> str:
        return "\n".join(self.lines)


def what_if(
    events: Iterable[Recorded],
    *,
    errors: ToolErrorPolicy | None = None,
    classifier: RetryClassifier | None = None,
    retries: RetryPolicy | Mapping[str, RetryPolicy] | None = None,
    gates: Sequence[ToolGate] = (),
    provider: AnyProvider = "openai",
    counter: TokenCounter | None = None,
    **options: Unpack[HistoryKeywords],
) -> WhatIf:
    """Return what other policies would have decided in one conversation.

    `errors` ends runs. `classifier` and `retries` (of every tool, or of some by name) retry
    failures; without both of them no retry is judged. `gates` hide tools: they are asked before
    each turn, which takes a prompt for each. `options` are those of `model_history`; `counter`,
    such as `estimate_tokens`, measures the prompts.

    Raises:
        ValueError: the provider is unknown, or an option makes no sense.
        TypeError: a gate is async, or is not a gate.
    """
    events = list(events)
    retry = _Retries(classifier, retries)
    failures = list(_failures(events))
    ended = [f for f in failures if errors is not None and _ends(f, errors, retry)]
    judged = failures if retry.is_judged else []
    size = counter or len
    unit = "characters" if counter is None else "tokens"
    before, after = model_history(events), model_history(events, **options)
    return WhatIf(
        ended=tuple(f.place for f in ended),
        retried=tuple(f.place for f in judged if retry.again(f) and not f.was_retried),
        not_retried=tuple(f.place for f in judged if f.was_retried and not retry.again(f)),
        hidden=tuple(_hidden(events, gates)) if gates else (),
        size_before=size(_encode(before.render(provider)).decode()),
        size_after=size(_encode(after.render(provider)).decode()),
        unit=unit,
    )


class _Failed(msgspec.Struct, frozen=True):
    """A recorded failure, and whether another attempt followed it."""

    place: JudgedCall
    event: ToolFailed
    was_retried: bool


class _Retries:
    """The decision on another attempt."""

    def __init__(
        self,
        classifier: RetryClassifier | None,
        policies: RetryPolicy | Mapping[str, RetryPolicy] | None,
    ) -> None:
        self.is_judged = classifier is not None or policies is not None
        self._classifier = classifier or DefaultRetryClassifier()
        self._policies = policies

    def again(self, failed: _Failed) -> bool:
        """Return whether another attempt would have followed; as it was, if that is not judged."""
        if not self.is_judged:
            return failed.was_retried
        if self._classifier.classify(failed.event.failure) is not RetryClass.TRANSIENT:
            return False
        policy = self._policy(failed.place.tool)
        return policy.delay(max(failed.event.attempt, 1)) is not None

    def _policy(self, tool: str) -> RetryPolicy:
        if self._policies is None:
            return RetryPolicy()
        if isinstance(self._policies, RetryPolicy):
            return self._policies
        return self._policies.get(tool, RetryPolicy(max_attempts=1))


def _failures(events: Sequence[Recorded]) -> Iterator[_Failed]:
    names: dict[str, str] = {}
    started = {
        (recorded.event.call_id, recorded.event.attempt)
        for recorded in events
        if isinstance(recorded.event, ToolRunning)
    }
    for recorded in events:
        event = recorded.event
        if isinstance(event, ToolPending):
            names[event.call_id] = event.call.name
        elif isinstance(event, ToolFailed):
            name, kind = names.get(event.call_id, ""), str(event.failure.kind)
            place = JudgedCall(recorded.version, event.call_id, name, kind)
            yield _Failed(place, event, (event.call_id, event.attempt + 1) in started)


def _ends(failed: _Failed, errors: ToolErrorPolicy, retry: _Retries) -> bool:
    failure = failed.event.failure
    if retry.again(failed) or failure.answers_model:
        return False
    return errors.classifies_terminal(failure.kind)


def _hidden(events: Sequence[Recorded], gates: Sequence[ToolGate]) -> Iterator[JudgedCall]:
    """Yield the calls that the gates would not have let the model make."""
    available: Sequence[str] = tuple({event.call.name: None for event in _requests(events)})
    turn: int | None = None
    decision = compose_gates(gates, gate_context((), available))
    for place, recorded in enumerate(events):
        event = recorded.event
        if isinstance(event, ToolsOffered):
            available = event.available
        is_of_turn, its_turn = _turn_of(event)
        if is_of_turn and (its_turn is None or its_turn != turn):
            turn = its_turn
            decision = compose_gates(gates, gate_context(events[:place], available))
        if isinstance(event, ToolPending) and not decision.allows(event.call.name):
            yield JudgedCall(recorded.version, event.call_id, event.call.name)


def _turn_of(event: Event) -> tuple[bool, int | None]:
    """Return whether an event is of a turn of the model, and of which."""
    if isinstance(event, ToolPending) or (
        isinstance(event, MessageAdded) and event.role == "assistant"
    ):
        return True, event.turn
    return False, None


def _requests(events: Iterable[Recorded]) -> Iterator[ToolPending]:
    return (recorded.event for recorded in events if isinstance(recorded.event, ToolPending))


def _listed(calls: Sequence[JudgedCall]) -> str:
    if not calls:
        return "no call"
    more = f"; and {len(calls) - MAX_LISTED:,} more" if len(calls) > MAX_LISTED else ""
    return f"{plural(len(calls), 'call')}: {'; '.join(map(str, calls[:MAX_LISTED]))}{more}"
