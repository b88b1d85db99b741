"""Prices of models: what a response has cost, where only its tokens are known. Pure.

1. A price table is anything that has `cost`. `PriceTable` is one of your own;
   `eventstore.integrations.genai_prices` has those that a well-kept package knows.
2. A response that states its cost, or does not state its tokens, stays as it is.
3. A model that the table does not know has no cost, rather than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import msgspec

from eventstore.domain.events import ModelResponded

_TOKENS_PER_PRICE = 1_000_000
_DATE = re.compile(r"[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|latest)\Z")


class Prices(Protocol):
    """A price table."""

    def cost(self, responded: ModelResponded) -> Decimal | None:
        """Return what a response has cost; None where the table does not know its model."""
        ...


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The price of a million tokens of one model, in a currency of your choice.

    `cached` is for tokens of the prompt that came from the provider's cache; without it they cost
    as much as the others.
    """

    input: Decimal
    output: Decimal
    cached: Decimal | None = None

    def __post_init__(self) -> None:
        """Refuse what is not an amount of money."""
        for name in ("input", "output", "cached"):
            price: object = getattr(self, name)
            if price is None and name == "cached":
                continue
            if not (isinstance(price, Decimal) and price.is_finite() and price >= 0):
                raise ValueError(f"{name} is {price!r}: pass a Decimal, 0 or more")


class PriceTable:
    """A price table of your own, by the models' names.

    A name stands for its dated versions, too: `gpt-5` for `gpt-5-2025-08-07`, and not for
    `gpt-5-mini`.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def read(cls, path: str | Path) -> PriceTable:
        """Read a JSON file: `{"gpt-5": {"input": "1.25", "output": "10", "cached": "0.125"}}`.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not such a table.
        """
        data = Path(path).read_bytes()
        try:
            return cls(msgspec.json.decode(data, type=dict[str, Price]))
        except ValueError as error:
            raise ValueError(f"{path} is no price table: {error}") from error

    def cost(self, responded: ModelResponded) -> Decimal | None:
        """Return what a response has cost; None where the table does not know its model."""
        usage, model = responded.usage, responded.model
        if usage is None or model is None:
            return None
        price = self._prices.get(model) or self._prices.get(_DATE.sub("", model))
        if price is None:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        of_cached = price.input if price.cached is None else price.cached
        total = price.input * (usage.input_tokens - cached)
        total += of_cached * cached + price.output * usage.output_tokens
        return total / _TOKENS_PER_PRICE


def priced(responded: ModelResponded, prices: Prices | None) -> ModelResponded:
    """Return a response with its cost, where it has tokens, no cost, and the table knows it.

    A response that does not say the tokens of its prompt has no known cost.
    """
    usage = responded.usage
    if prices is None or usage is None or usage.cost is not None or not usage.input_tokens:
        return responded
    cost = prices.cost(responded)
    if cost is None:
        return responded
    return msgspec.structs.replace(responded, usage=msgspec.structs.replace(usage, cost=cost))
