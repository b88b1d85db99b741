"""LangChain plays the scenes, and what it has of its own is kept."""

from __future__ import annotations

from integrations.scenes import Scenes
from support.frameworks import required

required("langchain")


class TestLangChain(Scenes):
    """The scenes with a `Ledger` as middleware."""

    framework = "langchain"
    attempts_of_bad_arguments = 1
