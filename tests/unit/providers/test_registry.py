"""The registry: built-in providers, those that a program adds, and names that are unknown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from eventstore import validate
from eventstore.providers import (
    PROVIDERS,
    FormatSignature,
    ProviderName,
    adapter_of,
    known_provider,
    register,
    registry,
)
from eventstore.providers.openai import rules
from eventstore.providers.openai.adapter import OpenAIAdapter
from projections import repair_messages

FOLDERS = Path(registry.__file__).parent


class AcmeAdapter(OpenAIAdapter):
    """A provider that speaks OpenAI's format under a name of its own."""

    name = "acme"
    signature = FormatSignature()


def test_the_names_are_those_that_a_type_checker_accepts() -> None:
    """`ProviderName` and the registry list the same providers, each with its folder."""
    assert set(PROVIDERS) == set(get_args(ProviderName))
    folders = {path.parent.name.replace("_", "-") for path in FOLDERS.glob("*/adapter.py")}
    assert folders == set(PROVIDERS)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_an_adapter_has_the_name_that_it_is_registered_under(provider: str) -> None:
    """Therefore the provider's name in an event leads back to its adapter."""
    assert adapter_of(provider).name == provider == known_provider(provider)


def test_a_registered_provider_is_validated_and_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own adapter and rules do the work, and its name is then taken."""
    monkeypatch.setattr(registry, "_providers", dict(registry._providers))
    acme = register(AcmeAdapter(), rules)
    broken = [{"role": "tool", "tool_call_id": "a", "content": "R"}]
    assert [found.code for found in validate(broken, acme)] == ["OA02"]
    assert validate(repair_messages(broken, acme).messages, acme) == []
    with pytest.raises(ValueError, match="'acme' is registered already: choose another name"):
        register(AcmeAdapter(), rules)


def test_an_unknown_provider_is_named_with_the_known_ones() -> None:
    """The error for a misspelt name lists the providers."""
    with pytest.raises(ValueError, match="provider is 'opnai': pass one of anthropic, bedrock,"):
        known_provider("opnai")


def test_swapped_arguments_are_named() -> None:
    """A list where the provider's name belongs is told by its type, and its text is not."""
    with pytest.raises(TypeError, match="provider is of type list: pass one of anthropic,"):
        repair_messages("anthropic", [{"role": "user"}])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="provider is of type dict: pass one of anthropic,"):
        validate([], {})  # type: ignore[arg-type]


def test_importing_the_package_loads_no_provider() -> None:
    """Adapters and rules are loaded when they are first asked for."""
    code = (
        "import sys, eventstore, eventstore.providers as p; "
        "found = [m for m in sys.modules if m.endswith(('.adapter', '.rules'))]; "
        "assert found == [], found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
