"""The scenes as a graph of LangGraph plays them. Its checkpoints are kept beside the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from integrations.langchain_model import ScriptedModel, lang_tools, played
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

from eventstore import AsyncEventStore
from eventstore.integrations.langgraph import Ledger

if TYPE_CHECKING:
    from integrations.scenes import Play, Played, Tools

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
    checkpoints = play.url.removeprefix("sqlite:///") + ".checkpoints"
    async with (
        AsyncEventStore.open(play.url, redact=play.rules) as store,
        AsyncSqliteSaver.from_conn_string(checkpoints) as saver,
    ):
        ledger = Ledger(store.conversation(play.chat), needs_approval=["mail"])
        model = ScriptedModel(script=list(play.script), play=play)
        # A run that is cancelled in the middle of a checkpoint leaves LangGraph's file locked.
        own = _SAVERS.setdefault(play.url, InMemorySaver()) if play.kept else saver
        graph = graph_of(ledger, model, tools).compile(checkpointer=own)
        return await played(play, tools, ledger, graph, model)
