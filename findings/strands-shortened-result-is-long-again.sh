#!/usr/bin/env bash
# Guess: an agent that is started anew from a `FileSessionManager` has the messages that it had before. The
#     manager knows how many messages the window left out, so it knows what else the window did.
# Package: strands-agents 1.62.0
# Date: 2026-11-28
# Output: where the window shortens a tool's result, as the model refused the request for its length, the
#     shortened result is in the agent's memory only. The store keeps the long one. After a restart the
#     agent sends it again, and is refused again; and the prefix that the model had cached has changed.
#
#     before the restart: the result has less than 1000 characters
#     after the restart: the result has 10000 characters
#     requests for the next answer, before the restart: accepted
#     requests for the next answer, after the restart: refused, accepted
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q strands-agents==1.62.0

cat >run.py <<'PYTHON'
import json

from strands import Agent, tool
from strands.models import Model
from strands.session import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException


class Fake(Model):
    """Calls the tool for the word "Read"; takes at most 6000 characters."""

    def __init__(self):
        self.requests = []

    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *args, **kwargs):
        yield {}

    async def stream(self, messages, *args, **kwargs):
        if len(json.dumps(messages)) > 6000:
            self.requests.append("refused")
            raise ContextWindowOverflowException("too long")
        self.requests.append("accepted")
        call = "Read" in messages[-1]["content"][0].get("text", "")
        start = {"toolUse": {"toolUseId": "t1", "name": "read"}} if call else {}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        delta = {"toolUse": {"input": "{}"}} if call else {"text": "Fine."}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if call else "end_turn"}}


@tool
def read() -> str:
    """Read the log."""
    return "line " * 2000


def agent():
    session = FileSessionManager("1", storage_dir="sessions")
    options = {"session_manager": session, "agent_id": "reader", "callback_handler": None}
    return Agent(model=Fake(), tools=[read], **options)


def length(agent):
    blocks = [block for message in agent.messages for block in message["content"]]
    (result,) = [block["toolResult"] for block in blocks if "toolResult" in block]
    count = sum(len(part["text"]) for part in result["content"])
    return f"the result has {'less than 1000' if count < 1000 else count} characters"


def requests(agent):
    agent.model.requests.clear()
    agent("And now?")
    return ", ".join(agent.model.requests)


first = agent()
first("Read the log.")
before = length(first)
second = agent()
print("before the restart:", before)
print("after the restart:", length(second))
print("requests for the next answer, before the restart:", requests(first))
print("requests for the next answer, after the restart:", requests(agent()))
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*the restart: .*\)/\1/p' "$here") seen.txt
