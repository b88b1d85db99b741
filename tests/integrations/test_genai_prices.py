"""The prices of the package genai-prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

pytest.importorskip("genai_prices")

from eventstore import ModelResponded, Usage
from eventstore.integrations.genai_prices import GenaiPrices

TOKENS = Usage(1_000_000, 100_000, 400_000)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5-2025-08-07"),
        ("openai-responses", "gpt-5"),
        ("anthropic", "claude-opus-4-5"),
        ("gemini", "gemini-2.5-pro"),
        ("bedrock", "anthropic.claude-3-5-sonnet-20241022-v2:0"),
        ("mistral", "mistral-large-latest"),
        ("pydantic-ai", "gpt-4o"),
        (None, "gpt-4o"),
    ],
)
def test_the_large_providers_models_have_a_cost(provider: str | None, model: str) -> None:
    """Tokens of the cache cost less than others, where the provider says so."""
    prices = GenaiPrices()
    cost = prices.cost(ModelResponded(provider, model, usage=TOKENS))
    assert cost is not None
    assert cost > 0
    uncached = prices.cost(ModelResponded(provider, model, usage=Usage(1_000_000, 100_000)))
    assert uncached is not None
    assert cost <= uncached


def test_models_that_the_package_does_not_know_have_no_cost() -> None:
    """Responses without tokens or a model have none either; odd tokens are no error."""
    prices = GenaiPrices()
    assert prices.cost(ModelResponded("openai", "no-such-model", usage=TOKENS)) is None
    assert prices.cost(ModelResponded("openai", "gpt-5")) is None
    assert prices.cost(ModelResponded("openai", usage=TOKENS)) is None
    odd = prices.cost(ModelResponded("openai", "gpt-5", usage=Usage(10, 0, 100)))
    assert odd is not None
    assert odd < Decimal(1)
