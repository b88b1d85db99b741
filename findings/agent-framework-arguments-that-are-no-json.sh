#!/usr/bin/env bash
# Guess: a call whose arguments are broken off in the middle of their JSON never reaches its tool; the model
#     reads that they could not be parsed.
# Package: agent-framework-core 1.23.0
# Date: 2026-11-28
# Output: the broken text becomes a member `raw`, which the types of the tool's arguments leave out. A tool whose
#     parameters have defaults runs with these, and the model reads its result.
#
#     asked for: {"order": 7, "amount": 15
#     the tool ran with: order=0 amount=100
#     the model reads: refunded 100 for order 0
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q agent-framework-core==1.23.0

cat >run.py <<'PYTHON'
import asyncio

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

BROKEN = '{"order": 7, "amount": 15'


def refund(order: int = 0, amount: int = 100) -> str:
    """Refund an order."""
    print(f"the tool ran with: {order=} {amount=}")
    return f"refunded {amount} for order {order}"


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        if len(messages) == 1:
            print(f"asked for: {BROKEN}")
            call = Content.from_function_call("call_1", "refund", arguments=BROKEN)
            return ChatResponse(messages=Message("assistant", [call]))
        print(f"the model reads: {messages[-1].contents[0].result}")
        return ChatResponse(messages=Message("assistant", ["Done."]))


asyncio.run(Agent(Client(), tools=[refund]).run("Refund order 7."))
PYTHON

venv/bin/python run.py | tee seen
diff <(sed -n 's/^#     \(asked\|the tool ran\|the model reads\)/\1/p' "$here") seen
