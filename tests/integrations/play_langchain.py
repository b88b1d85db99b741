"""The scenes as LangChain's agent plays them. Its checkpoints are lost with each process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrations.langchain_model import ScriptedModel, lang_tools, played
from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from eventstore import AsyncEventStore
from eventstore.integrations.langchain import Ledger

if TYPE_CHECKING:
    from integrations.scenes import Play, Played, Tools

_SAVERS: dict[str, InMemorySaver] = {}
"""The checkpointers that are kept from one run to the next, by the log beside them."""


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(store.conversation(play.chat), needs_approval=["mail"])
        model = ScriptedModel(script=list(play.script), play=play)
        agent = create_agent(
            model,
            lang_tools(tools),
            middleware=[ToolErrorMiddleware(lambda error, _: str(error)), ledger],
            checkpointer=_SAVERS.setdefault(play.url, InMemorySaver())
            if play.kept
            else InMemorySaver(),
        )
        return await played(play, tools, ledger, agent, model)
