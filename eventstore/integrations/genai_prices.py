"""genai-prices: the prices of the large providers' models, kept by the authors of pydantic.

    store = EventStore.open("sqlite:///agent.db", prices=GenaiPrices())

A model that the package does not know has no cost. What a provider asks for writing its cache is
not counted, because usage has no such tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eventstore.integrations.extras import missing_extra

try:
    import genai_prices
except ImportError as error:
    raise missing_extra("genai-prices", error) from error

if TYPE_CHECKING:
    from decimal import Decimal

    from eventstore.domain.events import ModelResponded

_PROVIDERS: Final = {
    "anthropic": "anthropic",
    "bedrock": "aws",
    "claude-agent-sdk": "anthropic",
    "cohere": "cohere",
    "gemini": "google",
    "google-adk": "google",
    "mistral": "mistral",
    "openai": "openai",
    "openai-responses": "openai",
}
"""The package's names of providers. Any other provider is looked for by the model's name."""


class GenaiPrices:
    """The price table of the package `genai-prices`, in US dollars."""

    def cost(self, responded: ModelResponded) -> Decimal | None:
        """Return what a response has cost; None where the package does not know its model."""
        usage, model = responded.usage, responded.model
        if usage is None or model is None:
            return None
        tokens = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
            output_tokens=usage.output_tokens,
        )
        for provider in dict.fromkeys((_PROVIDERS.get(responded.provider or ""), None)):
            try:
                found = genai_prices.calc_price(tokens, model_ref=model, provider_id=provider)
            except LookupError:
                continue
            return found.total_price
        return None
