"""The table of frameworks and scenes in the documentation is what the tests play."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from integrations.docs_blocks import PAGE, blocks, run, section
from integrations.scenes import FRAMEWORKS, SCENES, Scenes

MODULES = {
    "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents",
    "langchain": "langchain",
    "langgraph": "langgraph.checkpoint.sqlite",  # with the versions that the extra asks for
    "anthropic": "anthropic.lib.tools",
    "openai": "openai.types.responses",
    "mcp": "mcp.server.mcpserver",
    "strands": "strands.middleware",
    "google_adk": "google.adk.apps.app",
    "agent_framework": "agent_framework",
    "claude_agent_sdk": "claude_agent_sdk",
}


def test_the_table_is_what_is_played() -> None:
    """Each row has a mark for each scene: played, or a gap."""
    rows = [
        " | ".join([f"| {name}", *("○" if scene in gaps else "●" for scene in SCENES)]) + " |"
        for name, gaps in FRAMEWORKS.values()
    ]
    text = PAGE.read_text("utf-8")
    table = re.search(r"^\| \| (.*?) \|\n\|[-|]+\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    assert table is not None
    assert tuple(table[1].split(" | ")) == tuple(SCENES)
    assert table[2].splitlines() == rows
    assert {name for name in dir(Scenes) if name.startswith("test_")} == set(SCENES.values())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_blocks_of_a_framework_run(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block runs in one session, in an empty folder, as a reader would type it."""
    pytest.importorskip(MODULES[framework])
    monkeypatch.chdir(tmp_path)
    found = blocks("python", section(PAGE, FRAMEWORKS[framework][0]))
    assert len(found) > 2
    asyncio.run(run(found))
