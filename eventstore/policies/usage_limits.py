"""Usage limits: how much a run has used, and whether it may use more. Pure.

1. `RunUsage` is a fold over the log. A run begins with `RunStarted`, or else with the first event.
2. A response is counted once, and what is told of it later is added. A call is counted when the
   model asks for it.
3. `UsageLimits.breach` compares the two. It sees no clock: the time is passed to it.
4. What is not known cannot be compared. `UsageLimits.unknown_usages` names the responses that a
   limit on tokens or cost counts without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Literal, Self

import msgspec
from msgspec.structs import force_setattr

from eventstore.domain.events import (
    MessageAdded,
    ModelResponded,
    Recorded,
    RunStarted,
    ToolPending,
)
from eventstore.domain.finish_reasons import why_not_whole
from eventstore.domain.response_turns import ResponseTurns, used_nothing
from eventstore.domain.usage import Usage, UsageLimitBreach

_MICROSECONDS = 1_000_000
_CHOICES = ("raise", "warn", "ignore")
AXES = (
    "requests",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "tool_calls",
    "cost",
    "seconds",
)
"""What a limit may be set on."""


_TOKENS = ("input_tokens", "output_tokens", "total_tokens")


class UnknownUsage(msgspec.Struct, frozen=True):
    """A response of which a limit on `axis` does not know what it counts.

    `version` is that of its event. With `broke_off`, its stream ended before it could say so.
    """

    axis: str
    version: int
    model: str | None = None
    broke_off: bool = False

    def __str__(self) -> str:
        """Say which limit cannot be kept, and why."""
        why = "has no known cost"
        if self.axis in _TOKENS:
            why = "names no tokens, or no valid number of them"
        if self.broke_off:
            why = "broke off before it named its tokens"
        of_model = "" if self.model is None else f" of {self.model}"
        response = f"the response{of_model} at version {self.version}"
        return f"the limit of {self.axis} cannot be kept: {response} {why}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        known = (
            "tell it with after_response(..., cost=...), or open the store with prices="
            if self.axis == "cost"
            else 'ask for them, as with stream_options={"include_usage": True} of OpenAI'
        )
        return f"{known}; or continue without, with UsageLimits(unknown='warn')"


_SAY_NOTHING = frozenset({"anthropic", "bedrock", "gemini"})
"""Providers whose models may answer with nothing, which is 0 tokens, or a number left out."""


def _lacks(axis: str, responded: ModelResponded) -> bool:
    """Return whether a response does not say its tokens on an axis.

    No prompt is of 0 tokens. An answer is where it is not whole, or empty, as some say.
    """
    usage = responded.usage or Usage()
    may_be_empty = responded.provider in _SAY_NOTHING or bool(
        why_not_whole(responded.provider, responded.finish_reason)
    )
    is_empty = responded.usage is not None and may_be_empty
    lacks_output = not usage.output_tokens and not is_empty
    if axis == "output_tokens":
        return lacks_output
    return not usage.input_tokens or (axis == "total_tokens" and lacks_output)


class RunUsage:
    """What the last run of a conversation has used.

    `usage` is the sum of all its responses, `started_at` in microseconds since 1970 UTC (None
    before the first event), `breaches` those that were recorded. The responses that do not say all
    of their tokens, or have no known cost, are `unknown_tokens` and `unknown_costs`, by their
    versions; `broken_off` has the versions of those whose stream broke off.
    """

    def __init__(self) -> None:
        self.started_at: int | None = None
        self._turns = ResponseTurns()
        self._breaks_off = False
        self._start()

    def _start(self) -> None:
        """Begin a run: nothing is used."""
        self.requests = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.breaches: list[UsageLimitBreach] = []
        self.unknown_tokens: dict[int, ModelResponded] = {}
        self.unknown_costs: dict[int, ModelResponded] = {}
        self.broken_off: set[int] = set()

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in the events of one conversation, in their order."""
        for recorded in events:
            self.apply(recorded)
        return self

    def apply(self, recorded: Recorded) -> None:
        """Take in one event."""
        match recorded.event:
            case RunStarted():
                self._start()
                self.started_at = recorded.recorded_at
            case ModelResponded() as responded:
                self._add_response(recorded.version, responded)
            case ToolPending() as asked:
                self._turns.follow(asked)
                self.tool_calls += not asked.imported
            case MessageAdded() as said:
                self._turns.follow(said)
                self._breaks_off = said.broken_off
            case UsageLimitBreach() as breach:
                self.breaches.append(breach)
            case _:
                pass
        if self.started_at is None:
            self.started_at = recorded.recorded_at

    def _add_response(self, version: int, responded: ModelResponded) -> None:
        if responded.completes is None:
            if self._turns.knows(responded):
                return
            self._turns.add_response(responded, version)
            self.requests += 1
            self._note_unknown(version, responded)
            if self._breaks_off:
                self.broken_off.add(version)
            self._breaks_off = False
        else:
            self._turns.complete(responded)
            self._note_known(responded.completes, responded)
        self.usage += responded.usage or Usage()

    def _note_unknown(self, version: int, responded: ModelResponded) -> None:
        """Keep a response that does not say all of its tokens, or has no known cost.

        An error that names no tokens has used none.
        """
        if used_nothing(responded):
            return
        if any(_lacks(axis, responded) for axis in _TOKENS):
            self.unknown_tokens[version] = responded
        if responded.usage is None or responded.usage.cost is None:
            self.unknown_costs[version] = responded

    def _note_known(self, version: int, later: ModelResponded) -> None:
        of_cost = self.unknown_costs.pop(version, None)
        earlier = self.unknown_tokens.pop(version, of_cost)
        if earlier is not None:
            self._note_unknown(version, earlier.completed_by(later))

    def seconds(self, now: int) -> Decimal:
        """Return the seconds since the run began; `now` is in microseconds since 1970 UTC."""
        return Decimal(max(now - (self.started_at or now), 0)) / _MICROSECONDS


class UsageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a run may use, on each axis; None is no limit.

    `requests` to the model, `tool_calls` that it may ask for, tokens of prompts (`input_tokens`),
    answers (`output_tokens`) and both (`total_tokens`), `cost` in the currency of the usages, and
    `seconds` since the run began. A value that is reached is allowed, one beyond it is a breach.

    A limit on tokens or cost cannot be kept where a response names no tokens, or has no known cost.
    `unknown` says what happens then: "raise" `UsageUnknown`, "warn" with a `UsageUnknownWarning`,
    or "ignore" it. What a stream that broke off has used cannot be known: "raise" warns of it.
    """

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    tool_calls: int | None = None
    cost: Decimal | None = None
    seconds: float | None = None
    unknown: Literal["raise", "warn", "ignore"] = "raise"

    def __post_init__(self) -> None:
        """Refuse limits that are not numbers; a cost may be given as any number."""
        if self.unknown not in _CHOICES:
            raise ValueError(f"unknown is {self.unknown!r}: pass one of {', '.join(_CHOICES)}")
        for axis in AXES:
            limit: object = getattr(self, axis)
            if limit is None:
                continue
            is_number = isinstance(limit, int | float | Decimal) and not isinstance(limit, bool)
            if not is_number or not (exact := Decimal(str(limit))).is_finite() or exact < 0:
                raise ValueError(f"{axis} is {limit!r}: pass a number, 0 or more, or None")
            if axis not in ("cost", "seconds") and not isinstance(limit, int):
                raise ValueError(f"{axis} is {limit!r}: pass a whole number, or None")
        if self.cost is not None:
            force_setattr(self, "cost", Decimal(str(self.cost)))

    def breach(self, used: RunUsage, now: int, *, requesting: bool) -> UsageLimitBreach | None:
        """Return the first limit that the run goes beyond, or None.

        If it is `requesting`, the request that is about to be made counts.
        """
        for axis, observed in self._observed(used, now, requesting=requesting):
            limit: object = getattr(self, axis)
            if limit is not None and observed > (most := Decimal(str(limit))):
                return UsageLimitBreach(axis, most, observed)
        return None

    def unknown_usages(self, used: RunUsage) -> list[UnknownUsage]:
        """Return the responses of the run that a limit on tokens or cost counts without."""
        limited = [axis for axis in _TOKENS if getattr(self, axis) is not None]
        lacks = [
            (next((axis for axis in limited if _lacks(axis, each[1])), None), each)
            for each in used.unknown_tokens.items()
        ]
        found = [(axis, each) for axis, each in lacks if axis is not None]
        if self.cost is not None:
            found += [("cost", each) for each in used.unknown_costs.items()]
        return [
            UnknownUsage(axis, version, responded.model, version in used.broken_off)
            for axis, (version, responded) in found
        ]

    def _observed(
        self, used: RunUsage, now: int, *, requesting: bool
    ) -> Iterator[tuple[str, Decimal]]:
        yield "requests", Decimal(used.requests + requesting)
        yield "input_tokens", Decimal(used.usage.input_tokens)
        yield "output_tokens", Decimal(used.usage.output_tokens)
        yield "total_tokens", Decimal(used.usage.total_tokens)
        yield "tool_calls", Decimal(used.tool_calls)
        yield "cost", used.usage.cost or Decimal(0)
        yield "seconds", used.seconds(now)
