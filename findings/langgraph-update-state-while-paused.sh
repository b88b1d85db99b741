#!/usr/bin/env bash
# Guess: `update_state` adds to the state of a paused thread and leaves the rest of it alone. A node of the
#     broken step that had finished does not run again, and an interrupt that waits is still listed.
# Package: langgraph 1.2.24
# Package: langgraph-checkpoint 4.3.2
# Date: 2026-11-27
# Output: the new checkpoint has none of the writes that were pending. The finished node runs once more, so
#     its side effect happens twice. The interrupt is in no list, and `Command(resume=...)` reaches it.
#
#     retried at once: paid 1 times, mailed 2 times
#     retried after update_state: paid 2 times, mailed 2 times
#     waiting before update_state: 1
#     waiting after update_state: 0
#     resumed with: yes
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q langgraph==1.2.24 langgraph-checkpoint==4.3.2

cat >run.py <<'PYTHON'
import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

THREAD = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    notes: Annotated[list, operator.add]


def graph(*nodes):
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node.__name__, node)
        builder.add_edge(START, node.__name__)
    return builder.compile(checkpointer=InMemorySaver())


ran = []


def pay(state):
    ran.append("pay")
    return {"notes": ["paid"]}


def mail(state):
    ran.append("mail")
    if ran.count("mail") == 1:
        raise ConnectionError("the mail server is away")
    return {"notes": ["sent"]}


for told, note in (("at once", None), ("after update_state", "hurry")):
    ran.clear()
    shop = graph(pay, mail)
    try:
        shop.invoke({"notes": []}, THREAD)
    except ConnectionError:
        pass
    if note:
        shop.update_state(THREAD, {"notes": [note]})
    shop.invoke(None, THREAD)
    print(f"retried {told}: paid {ran.count('pay')} times, mailed {ran.count('mail')} times")


def ask(state):
    print("resumed with:", interrupt("Pay 12 euro?"))
    return {"notes": []}


desk = graph(ask)
desk.invoke({"notes": []}, THREAD)
print("waiting before update_state:", len(desk.get_state(THREAD).interrupts))
desk.update_state(THREAD, {"notes": ["hurry"]})
print("waiting after update_state:", len(desk.get_state(THREAD).interrupts))
desk.invoke(Command(resume="yes"), THREAD)
PYTHON

venv/bin/python run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(retried\|waiting\|resumed\) .*\)/\1/p' "$here") seen.txt
