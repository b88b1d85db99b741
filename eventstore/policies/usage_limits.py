"""Usage limits: how much a run has used, and whether it may use more. Pure.

1. `RunUsage` is a fold over the log. A run begins with `RunStarted`, or else with the first event.
2. A response is counted once, by its id, and what is told of it later is added. A call is counted
   when the model asks for it.
3. `UsageLimits.breach` compares the two. It sees no clock: the time is passed to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Self

import msgspec
from msgspec.structs import force_setattr

from eventstore.domain.events import (
    ModelResponded,
    Recorded,
    RunStarted,
    ToolPending,
    UsageLimitBreach,
)
from eventstore.domain.usage import Usage

_MICROSECONDS = 1_000_000


class RunUsage:
    """What the last run of a conversation has used.

    `usage` is the sum of all its responses, `started_at` in microseconds since 1970 UTC (None
    before the first event), `breaches` those that were recorded.
    """

    def __init__(self) -> None:
        self.started_at: int | None = None
        self._start()

    def _start(self) -> None:
        """Begin a run: nothing is used."""
        self.requests = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.breaches: list[UsageLimitBreach] = []
        self._responses: set[tuple[str | None, str]] = set()

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
            case ModelResponded(completes=int(), usage=usage):
                self.usage += usage or Usage()
            case ModelResponded() as responded if not self.has_response(responded):
                self.requests += 1
                self.usage += responded.usage or Usage()
                if responded.response_id is not None:
                    self._responses.add((responded.provider, responded.response_id))
            case ToolPending(imported=False):
                self.tool_calls += 1
            case UsageLimitBreach() as breach:
                self.breaches.append(breach)
            case _:
                pass
        if self.started_at is None:
            self.started_at = recorded.recorded_at

    def has_response(self, responded: ModelResponded) -> bool:
        """Return whether the run has the response already, by its provider and id."""
        given = responded.response_id
        return given is not None and (responded.provider, given) in self._responses

    def seconds(self, now: int) -> Decimal:
        """Return the seconds since the run began; `now` is in microseconds since 1970 UTC."""
        return Decimal(max(now - (self.started_at or now), 0)) / _MICROSECONDS


class UsageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a run may use, on each axis; None is no limit.

    `requests` to the model, `tool_calls` that it may ask for, tokens of prompts (`input_tokens`),
    answers (`output_tokens`) and both (`total_tokens`), `cost` in the currency of the usages, and
    `seconds` since the run began. A value that is reached is allowed, one beyond it is a breach.
    """

    requests: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    tool_calls: int | None = None
    cost: Decimal | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits that are not numbers; a cost may be given as any number."""
        for axis in self.__struct_fields__:
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
