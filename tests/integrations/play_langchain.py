"""The scenes as LangChain's agent plays them. Its checkpoints are lost with each process."""

from __future__ import annotations

from typing import Any

from integrations.langchain_model import ScriptedModel, lang_tools, questions_after, streamed_text
from integrations.scenes import Play, Played, Tools
from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from eventstore import AsyncEventStore
from eventstore.integrations.langchain import Ledger

_SAVERS: dict[str, InMemorySaver] = {}
"""The checkpointers that are kept from one run to the next, by the log beside them."""


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    config: Any = {"configurable": {"thread_id": play.chat}}
    if play.kill:
        config["max_concurrency"] = 1
    async with AsyncEventStore.open(play.url) as store:
        ledger = Ledger(store.conversation(play.chat), needs_approval=["mail"])
        model = ScriptedModel(script=list(play.script))
        agent = create_agent(
            model,
            lang_tools(tools),
            middleware=[ToolErrorMiddleware(lambda error, _: str(error)), ledger],
            checkpointer=_SAVERS.setdefault(play.url, InMemorySaver())
            if play.kept
            else InMemorySaver(),
        )
        given = {"messages": [("user", play.prompt)]}
        if play.prompt is None:
            resumed = await ledger.aresume(agent, config)
            if resumed is None:
                return Played()
            result = resumed
        elif play.streamed:
            return Played(await streamed_text(agent, given, config))
        else:
            result = await agent.ainvoke(given, config)
        if play.answer is not None:
            tools.change_mail()
            return Played(shown=await questions_after(play.answer, agent, config))
    text = "" if "__interrupt__" in result else str(result["messages"][-1].text)
    return Played(text, model.asked)
