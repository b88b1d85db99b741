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
    "mcp_server": ("mcp", "mcp"),
    "opentelemetry": ("opentelemetry", "opentelemetry"),
    "strands": ("strands", "strands"),
    "claude_agent_sdk": ("claude_agent_sdk", "claude-agent-sdk"),
    "agent_framework": ("agent_framework", "agent-framework"),
    "google_adk": ("google.adk", "google-adk"),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_framework_gives_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has the `pip install` with the extra's name."""
    module, extra = EXTRAS[name]
    integration = f"eventstore.integrations.{name}"
    monkeypatch.delitem(sys.modules, integration, raising=False)
    for loaded in [name for name in sys.modules if f"{name}.".startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as refused:
        import_module(integration)
    assert str(refused.value) == (f"{module} is not installed: pip install 'toolledger[{extra}]'")
