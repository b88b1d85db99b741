#!/usr/bin/env bash
# Guess: with a `FileHistoryProvider` a call that waits for approval outlives the process. The file has the
#     call, so that the next process opens the session by its id, sends the approval, and the tool runs.
# Package: agent-framework-core 1.23.0
# Date: 2026-11-28
# Output: the tool runs only when the whole `AgentSession` is kept beside the file, as what waits is in its
#     state. Otherwise the approval is dropped with a line in the log. The run goes on and looks well: the
#     model is asked again, without call and approval. The call stays open for good.
#
#     the same session: paid [12], the model was sent: user, call, result
#     the session as JSON: paid [12], the model was sent: user, call, result
#     the session by its id: paid [], the model was sent: user
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q agent-framework-core==1.23.0

cat >run.py <<'PYTHON'
import asyncio
import json

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FileHistoryProvider,
    FunctionInvocationLayer,
    Message,
    tool,
)

paid = []


class Fake(FunctionInvocationLayer, BaseChatClient):
    """Pays at the first request; answers at the second."""

    requests = 0

    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        self.sent = messages
        self.requests += 1
        call = Content.from_function_call("call_1", "pay", arguments='{"amount": 12}')
        said = call if self.requests == 1 else Content.from_text("Paid.")

        async def response():
            return ChatResponse(messages=Message("assistant", [said]))

        return response()


@tool(approval_mode="always_require")
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return "done"


def kinds(messages):
    contents = [(message.role, content) for message in messages for content in message.contents]
    kinds = (role if c.type == "text" else c.type.removeprefix("function_") for role, c in contents)
    return ", ".join(kinds)


async def approve(told, reopened):
    paid.clear()
    client = Fake()

    def agent():
        history = FileHistoryProvider(told.replace(" ", "-"))
        return Agent(client=client, tools=[pay], context_providers=[history])

    session = AgentSession(session_id="1")
    response = await agent().run("Pay.", session=session)
    (request,) = response.user_input_requests
    asked = Content.from_dict(json.loads(json.dumps(request.to_dict())))
    approval = Message("user", [asked.to_function_approval_response(True)])
    await agent().run(approval, session=reopened(session))
    print(f"{told}: paid {paid}, the model was sent: {kinds(client.sent)}")


async def main():
    await approve("the same session", lambda session: session)
    await approve(
        "the session as JSON",
        lambda session: AgentSession.from_dict(json.loads(json.dumps(session.to_dict()))),
    )
    await approve("the session by its id", lambda session: AgentSession(session_id="1"))


asyncio.run(main())
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*: paid \[.*\)/\1/p' "$here") seen.txt
