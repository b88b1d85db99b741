"""agent-framework plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

from integrations.scenes import ScenesWithDecisions
from support.frameworks import required

required("agent_framework")


class TestAgentFramework(ScenesWithDecisions):
    """The scenes with a `Ledger` as the agent's history provider."""

    framework = "agent_framework"
