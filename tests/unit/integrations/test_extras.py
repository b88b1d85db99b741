"""A framework that is not installed is named, with what to install."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

EXTRAS = {
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "openai_agents": ("agents", "openai-agents"),
    "langchain": ("langchain", "langchain"),
    "langgraph": ("langchain_core", "langgraph"),
    "anthropic": ("anthropic", "anthropic"),
    "openai": ("openai", "openai"),
    "mcp": ("mcp", "mcp"),
    "opentelemetry": ("opentelemetry", "opentelemetry"),
    "strands": ("strands", "strands"),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_framework_gives_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has the `pip install` with the extra's name."""
    module, extra = EXTRAS[name]
    integration = f"eventstore.integrations.{name}"
    monkeypatch.delitem(sys.modules, integration, raising=False)
    for loaded in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as refused:
        import_module(integration)
    assert str(refused.value) == (f"{module} is not installed: pip install 'toolledger[{extra}]'")
