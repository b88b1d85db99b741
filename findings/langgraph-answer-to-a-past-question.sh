#!/usr/bin/env bash
# Guess: an interrupt that was answered can be answered otherwise from the checkpoint at which it waited. To
#     invoke that checkpoint with None asks once more, so to invoke it with `Command(resume="no")` answers no.
# Package: langgraph 1.2.24
# Package: langgraph-checkpoint 4.3.2
# Date: 2026-11-28
# Output: None asks once more, but `Command(resume="no")` gives the node the old answer: the first run's yes is
#     kept with the checkpoint and goes first. The no is dropped, also when it names the interrupt's id. It
#     arrives when None was invoked in between, and in a copy of the checkpoint.
#
#     at first: yes
#     None there: asks again
#     no there: yes
#     no there, by id: yes
#     None there, then no: no
#     no in a copy: no
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langgraph==1.2.24 langgraph-checkpoint==4.3.2

cat >run.py <<'PYTHON'
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

THREAD = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    answer: str


def ask(state):
    return {"answer": interrupt("Pay 12 euro?")}


def answered():
    """Return a graph whose interrupt was answered with yes, and how it stood when it waited."""
    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    desk = graph.compile(checkpointer=InMemorySaver())
    desk.invoke({"answer": "none yet"}, THREAD)
    waiting = desk.get_state(THREAD)
    desk.invoke(Command(resume="yes"), THREAD)
    return desk, waiting


def told(desk, value, config):
    result = desk.invoke(value, config)
    return "asks again" if "__interrupt__" in result else result["answer"]


no = Command(resume="no")
desk, waiting = answered()
print("at first:", desk.get_state(THREAD).values["answer"])
print("None there:", told(desk, None, waiting.config))

desk, waiting = answered()
print("no there:", told(desk, no, waiting.config))

desk, waiting = answered()
named = Command(resume={waiting.interrupts[0].id: "no"})
print("no there, by id:", told(desk, named, waiting.config))

desk, waiting = answered()
desk.invoke(None, waiting.config)
print("None there, then no:", told(desk, no, THREAD))

desk, waiting = answered()
copy = desk.update_state(waiting.config, None, as_node="__copy__")
print("no in a copy:", told(desk, no, copy))
PYTHON

venv/bin/python -W ignore run.py | tee seen.txt
diff <(sed -n 's/^#     \(.*: \(yes\|no\|asks again\)\)$/\1/p' "$here") seen.txt
