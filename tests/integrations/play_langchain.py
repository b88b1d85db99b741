"""The scenes as LangChain's agent plays them. Its checkpoints are lost with each process."""

from __future__ import annotations

from typing import Any

from integrations.langchain_model import ScriptedModel, lang_tools, streamed_text
from integrations.scenes import CHAT, Play, Played, Tools
from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from eventstore import AsyncEventStore
from eventstore.integrations.langchain import Ledger


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    config: Any = {"configurable": {"thread_id": CHAT}}
    if play.kill:
        config["max_concurrency"] = 1
    async with AsyncEventStore.open(play.url) as store:
        ledger = Ledger(store.conversation(CHAT), needs_approval=["mail"])
        agent = create_agent(
            ScriptedModel(script=list(play.script)),
            lang_tools(tools),
            middleware=[ToolErrorMiddleware(lambda error, _: str(error)), ledger],
            checkpointer=InMemorySaver(),
        )
        given = {"messages": [("user", play.prompt)]}
        if play.prompt is None:
            result = await ledger.aresume(agent, config)
        elif play.streamed:
            return Played(await streamed_text(agent, given, config))
        else:
            result = await agent.ainvoke(given, config)
    return Played("" if "__interrupt__" in result else str(result["messages"][-1].text))
