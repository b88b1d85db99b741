"""What a response of a model has cost: tokens, and money where the price is known; and a breach."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import ClassVar, Self

import msgspec


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The usage of one response, or a sum of several.

    `input_tokens` is the whole prompt, of which `cached_tokens` came from the provider's cache.
    `output_tokens` is all that the model wrote, of which `reasoning_tokens` are its reasoning.
    `cost` is in a currency of the caller's choice; None where it is not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Decimal | None = None

    def __post_init__(self) -> None:
        """Refuse what is not a number of tokens or an amount of money."""
        for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
            number: object = getattr(self, name)
            if type(number) is not int or number < 0:
                raise ValueError(f"{name} is {number!r}: pass a whole number, 0 or more")
        cost: object = self.cost
        if cost is not None and not (isinstance(cost, Decimal) and cost.is_finite() and cost >= 0):
            raise ValueError(f"cost is {cost!r}: pass a Decimal, 0 or more, or None")

    @classmethod
    def stated(
        cls,
        input_tokens: Iterable[object],
        output_tokens: Iterable[object],
        cached_tokens: Iterable[object] = (),
        reasoning_tokens: Iterable[object] = (),
    ) -> Self | None:
        """Return the usage by the numbers that a provider or a framework states, each a sum.

        None says that it is not known: there is no number, or one of the prompt's or the answer's
        counts nothing (it is negative, a fraction, a bool or text). A None among them is passed
        over, and so is such a number of the cached tokens or the reasoning.
        """
        given, written = _counts(input_tokens), _counts(output_tokens)
        if not (given or written) or None in (*given, *written):
            return None
        cached, reasoning = _counts(cached_tokens), _counts(reasoning_tokens)
        sums = [sum(filter(None, each)) for each in (given, written, cached, reasoning)]
        return cls(sums[0], sums[1], sums[2], sums[3])

    @property
    def total_tokens(self) -> int:
        """Tokens of the prompt and of the answer."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            sum(costs, Decimal(0)) if costs else None,
        )


class UsageLimitBreach(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A run went beyond a usage limit, or its next request would.

    `axis` is requests, input_tokens, output_tokens, total_tokens, tool_calls, cost or seconds;
    `limit` is the most that was allowed, `observed` what was counted. Called `UsageLimitBreach` in
    entelix-core, too.
    """

    tag: ClassVar[str] = "usage_limit_breach"
    schema: ClassVar[int] = 1
    axis: str
    limit: Decimal
    observed: Decimal

    def __str__(self) -> str:
        return f"{self.axis} {self.observed:f}, the limit is {self.limit:f}"


def _counts(stated: Iterable[object]) -> list[int | None]:
    """Return whole numbers, 0 or more; None for each value that is something else."""
    return [_count(value) for value in stated if value is not None]


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 and value % 1 == 0 else None
