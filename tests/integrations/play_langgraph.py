"""The scenes as a graph of LangGraph plays them. Its checkpoints are kept beside the log."""

from __future__ import annotations

from typing import Any

from integrations.langchain_model import ScriptedModel, lang_tools, questions_after, streamed_text
from integrations.scenes import Play, Played, Tools
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

from eventstore import AsyncEventStore
from eventstore.integrations.langgraph import Ledger

_SAVERS: dict[str, InMemorySaver] = {}
"""The checkpointers that are kept from one run to the next, by the log beside them."""


def graph_of(ledger: Ledger, model: ScriptedModel, tools: Tools) -> StateGraph[Any]:
    """Return the graph: the model, and a step for each of its calls."""

    def route(state: MessagesState) -> Any:
        return [Send("tools", [call]) for call in state["messages"][-1].tool_calls] or END

    graph = StateGraph(MessagesState)
    graph.add_node("model", ledger.model_node(model))
    graph.add_node("tools", ledger.tool_node(lang_tools(tools), handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, ["tools", END])
    graph.add_edge("tools", "model")
    return graph


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    config: Any = {"configurable": {"thread_id": play.chat}}
    if play.kill:
        config["max_concurrency"] = 1
    checkpoints = play.url.removeprefix("sqlite:///") + ".checkpoints"
    async with (
        AsyncEventStore.open(play.url) as store,
        AsyncSqliteSaver.from_conn_string(checkpoints) as saver,
    ):
        ledger = Ledger(store.conversation(play.chat), needs_approval=["mail"])
        model = ScriptedModel(script=list(play.script))
        # A run that is cancelled in the middle of a checkpoint leaves LangGraph's file locked.
        own = _SAVERS.setdefault(play.url, InMemorySaver()) if play.kept else saver
        graph = graph_of(ledger, model, tools).compile(checkpointer=own)
        given: Any = {"messages": [("user", play.prompt)]}
        if play.prompt is None:
            resumed = await ledger.aresume(graph, config)
            if resumed is None:
                return Played()
            result = resumed
        elif play.streamed:
            return Played(await streamed_text(graph, given, config))
        else:
            result = await graph.ainvoke(given, config)
        if play.answer is not None:
            tools.change_mail()
            return Played(shown=await questions_after(play.answer, graph, config))
    text = "" if "__interrupt__" in result else str(result["messages"][-1].text)
    return Played(text, model.asked)
