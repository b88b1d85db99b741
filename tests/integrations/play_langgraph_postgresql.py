"""A graph of LangGraph whose checkpoints and whose log are in one database of PostgreSQL.

    python -m integrations.play_langgraph_postgresql URL FILE kill|resume

Each tool adds its name to the file. With `kill`, `refund` kills the process after that. At the end
it prints the last words, and on how many calls the checkpoint and the log do not agree.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from integrations.langchain_model import ScriptedModel
from integrations.scenes import CHAT, DONE, FIND_7, PROMPT, REFUND, Said
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition

from eventstore import EventStore
from eventstore.integrations.langgraph import Ledger

THREAD: Any = {"configurable": {"thread_id": CHAT}, "max_concurrency": 1}
FIND_8 = ("find_order", '{"number": 8}')
SCRIPT = [
    Said("Let me look.", ((*FIND_7, "call_a"), (*REFUND, "call_b"), (*FIND_8, "call_c"))),
    Said(DONE),
]


def graph_of(ledger: Ledger, file: Path, *, kill: bool) -> StateGraph[Any]:
    """Return the graph: the model, and one superstep for all of its calls."""

    def note(name: str) -> None:
        with file.open("a") as effects:
            effects.write(f"{name}\n")

    def find_order(number: int) -> str:
        """Find an order."""
        note(f"find_order {number}")
        return f"order {number} is lost"

    def refund(number: int, amount: float) -> str:
        """Refund an order."""
        note(f"refund {number}")
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"refunded {amount}"

    graph = StateGraph(MessagesState)
    graph.add_node("model", ledger.model_node(ScriptedModel(script=SCRIPT)))
    graph.add_node("tools", ledger.tool_node([find_order, refund]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph


def main(url: str, file: str, action: str) -> None:
    """Play the first half, or the second."""
    own = url.replace("postgresql+psycopg://", "postgresql://")
    with EventStore.open(url) as store, PostgresSaver.from_conn_string(own) as saver:
        saver.setup()
        ledger = Ledger(store.conversation(CHAT))
        graph = graph_of(ledger, Path(file), kill=action == "kill").compile(checkpointer=saver)
        if action == "kill":
            graph.invoke({"messages": [("user", PROMPT)]}, THREAD, durability="sync")
        else:
            ledger.resume(graph, THREAD)
        messages = graph.get_state(THREAD).values["messages"]
        print(json.dumps([messages[-1].text, len(ledger.disagreements(messages))]))


if __name__ == "__main__":
    main(*sys.argv[1:])
