#!/usr/bin/env bash
# Guess: a hook for `MessageAddedEvent` that takes a secret out of a message in place is run before the session
#     manager stores the message, or the change is stored with what comes next.
# Package: strands-agents 1.62.0
# Date: 2026-11-28
# Output: the session manager is the first to hear of the event, wherever the hook was added, and nothing that
#     follows stores the message again. The agent's own messages are clean; a restart brings the secrets back,
#     and the model is sent them.
#
#     the model was sent: Log in with ***. / {} / token ***
#     the agent has: Log in with ***. / {} / token *** / Done.
#     after a restart it has: Log in with 1234. / {} / token 1234 / Done.
#     the model is then sent: Log in with 1234. / {} / token 1234 / Done. / Thanks.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q strands-agents==1.62.0

cat >run.py <<'PYTHON'
from strands import Agent, tool
from strands.hooks import HookProvider, MessageAddedEvent
from strands.models import Model
from strands.session import FileSessionManager


def texts(messages):
    """Return what the messages say, with the inputs of calls and the texts of results."""
    found = []
    for message in messages:
        for block in message["content"]:
            if "toolUse" in block:
                found.append(str(block["toolUse"]["input"]))
            for part in block.get("toolResult", {}).get("content", [block]):
                found += [part["text"]] if "text" in part else []
    return " / ".join(found)


class Fake(Model):
    """Calls the tool for the word "Log"."""

    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *args, **kwargs):
        yield {}

    async def stream(self, messages, *args, **kwargs):
        self.sent = texts(messages)
        call = "Log" in messages[-1]["content"][0].get("text", "")
        start = {"toolUse": {"toolUseId": "t1", "name": "log_in"}} if call else {}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        delta = {"toolUse": {"input": "{}"}} if call else {"text": "Done."}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if call else "end_turn"}}


class Redaction(HookProvider):
    def register_hooks(self, registry, **kwargs):
        registry.add_callback(MessageAddedEvent, self.redact)

    def redact(self, event):
        for block in event.message["content"]:
            for part in block.get("toolResult", {}).get("content", [block]):
                if "text" in part:
                    part["text"] = part["text"].replace("1234", "***")


@tool
def log_in() -> str:
    """Log in."""
    return "token 1234"


def agent():
    return Agent(
        model=Fake(),
        tools=[log_in],
        hooks=[Redaction()],
        session_manager=FileSessionManager("1", storage_dir="sessions"),
        agent_id="helper",
        callback_handler=None,
    )


first = agent()
first("Log in with 1234.")
print("the model was sent:", first.model.sent)
print("the agent has:", texts(first.messages))
second = agent()
print("after a restart it has:", texts(second.messages))
second("Thanks.")
print("the model is then sent:", second.model.sent)
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*: Log in with .*\)/\1/p' "$here") seen.txt
