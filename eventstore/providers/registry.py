"""The registry of providers: the one list of their adapters and rule books.

A provider is a folder with `adapter.py` and `rules.py`, its name in `ProviderName` and its line in
`_BUILT_IN`. Nothing of a provider is imported before it is first asked for.
"""

from __future__ import annotations

from collections.abc import KeysView, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Final, Literal, NewType, TypeAlias, cast

import msgspec

from eventstore.domain.json_types import JsonValue
from eventstore.domain.messages import Audio, Document, Image, Opaque
from eventstore.providers.adapter_protocol import ProviderAdapter
from eventstore.providers.models import ModelFact, ModelRules, rules_of_model
from eventstore.providers.rule_book import RuleBook

ProviderName: TypeAlias = Literal[
    "anthropic",
    "bedrock",
    "cohere",
    "gemini",
    "litellm",
    "mistral",
    "ollama",
    "openai",
    "openai-responses",
]
"""The providers that are built in."""

RegisteredProvider = NewType("RegisteredProvider", str)
"""The name of a provider that `register` has added."""

AnyProvider: TypeAlias = ProviderName | RegisteredProvider
"""The name of a provider, built in or registered."""

_BUILT_IN: Final[dict[ProviderName, str]] = {
    "openai": "eventstore.providers.openai",
    "anthropic": "eventstore.providers.anthropic",
    "gemini": "eventstore.providers.gemini",
    "openai-responses": "eventstore.providers.openai_responses",
    "mistral": "eventstore.providers.mistral",
    "bedrock": "eventstore.providers.bedrock",
    "cohere": "eventstore.providers.cohere",
    "ollama": "eventstore.providers.ollama",
    "litellm": "eventstore.providers.litellm",
}
"""Provider to package, the likeliest first: a guess between several names the first."""


class _Provider(msgspec.Struct):
    package: str
    rules: RuleBook | None = None
    facts: tuple[ModelFact, ...] = ()


_providers: Final[dict[str, _Provider]] = {
    name: _Provider(package) for name, package in _BUILT_IN.items()
}

_adapters: Final[dict[str, ProviderAdapter]] = {}
"""The adapters that are loaded, or registered."""

PROVIDERS: Final[KeysView[str]] = _providers.keys()
"""The names of all providers, also of those that are registered later."""


def register(
    adapter: ProviderAdapter, rules: RuleBook, facts: Sequence[ModelFact] = ()
) -> RegisteredProvider:
    """Add a provider that is not built in, and return its name for `provider` parameters.

    `facts` are what is known of its models.

    Raises:
        ValueError: the name is taken.
    """
    if adapter.name in _providers:
        raise ValueError(f"provider {adapter.name!r} is registered already: choose another name")
    _providers[adapter.name] = _Provider("", rules, tuple(facts))
    _adapters[adapter.name] = adapter
    return RegisteredProvider(adapter.name)


def _find(name: str) -> _Provider:
    """Return what is registered under a name.

    Raises:
        TypeError: the name is not a text, as when arguments were swapped.
        ValueError: the provider is unknown.
    """
    if not isinstance(name, str):
        given = type(name).__name__
        raise TypeError(f"provider is of type {given}: pass one of {', '.join(sorted(PROVIDERS))}")
    found = _providers.get(name)
    if found is None:
        raise ValueError(f"provider is {name!r}: pass one of {', '.join(sorted(PROVIDERS))}")
    return found


def known_provider(name: str) -> AnyProvider:
    """Return `name` as the name of a provider, for text that comes from outside the program.

    Raises:
        ValueError: the provider is unknown.
    """
    adapter_of(name)
    return cast("AnyProvider", name)


def adapter_of(name: str) -> ProviderAdapter:
    """Return the adapter of a provider.

    Raises:
        ValueError: the provider is unknown.
    """
    try:
        return _adapters[name]
    except (KeyError, TypeError):  # it is unknown, or not loaded yet
        found = _find(name)
        adapter: ProviderAdapter = import_module(f"{found.package}.adapter").ADAPTER
        return _adapters.setdefault(name, adapter)


def rule_book(name: str) -> RuleBook:
    """Return the rules of a provider.

    Raises:
        ValueError: the provider is unknown.
    """
    found = _find(name)
    if found.rules is None:
        found.rules = cast("RuleBook", import_module(f"{found.package}.rules"))
    return found.rules


def model_rules(name: str, model: str | None) -> ModelRules:
    """Return what is known of a model of a provider; nothing of a model that is not known.

    Raises:
        ValueError: the provider is unknown.
    """
    return _rules_of_model(name, model, _find(name).facts)


_rules_of_model = lru_cache(maxsize=256)(rules_of_model)


def list_key(name: str) -> str:
    """Return the keyword argument that holds the message list of a provider.

    Raises:
        ValueError: the provider is unknown.
    """
    return adapter_of(name).list_key


def audio(part: Opaque) -> Audio | None:
    """Return the sound in a provider's part, if others can play it too."""
    data: JsonValue = part.data
    if part.provider not in PROVIDERS or not isinstance(data, dict):
        return None
    return adapter_of(part.provider).audio(data)


def media(part: Opaque) -> Image | Document | None:
    """Return the image or document that a provider's part shows, if others can show it too."""
    data: JsonValue = part.data
    if part.provider not in PROVIDERS or not isinstance(data, dict):
        return None
    return adapter_of(part.provider).media(data)
