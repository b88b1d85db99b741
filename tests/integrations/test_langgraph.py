"""LangGraph plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

from integrations.scenes import Scenes
from support.frameworks import required

required("langgraph")


class TestLangGraph(Scenes):
    """The scenes with a `Ledger` around the model and the tools."""

    framework = "langgraph"
    attempts_of_bad_arguments = 1
