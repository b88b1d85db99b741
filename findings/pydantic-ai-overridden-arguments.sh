#!/usr/bin/env bash
# Guess: where a person approves a call with other arguments (`ToolApproved(override_args=...)`), the messages
#     tell afterwards with which arguments the tool ran, in the call or beside its result.
# Package: pydantic-ai-slim 2.68.0
# Date: 2026-11-28
# Output: they do not. The call has the model's arguments, the result has none, and no part of the stored
#     messages has the number that was paid. Whoever replays or audits them sees another payment.
#
#     paid: [10]
#     the call says: {'amount': 1000}
#     the result says: ToolReturnPart done None
#     1000 is in the stored messages: True
#     10 is in the stored messages: False
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q pydantic-ai-slim==2.68.0

cat >run.py <<'PYTHON'
import json

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel


def answer(messages, info):
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse([TextPart("Paid.")])
    return ModelResponse([ToolCallPart("pay", {"amount": 1000}, "call_1")])


agent = Agent(FunctionModel(answer), output_type=[str, DeferredToolRequests])
paid = []


@agent.tool_plain(requires_approval=True)
def pay(amount: int) -> str:
    paid.append(amount)
    return "done"


def numbers(value):
    """Return each number in what JSON holds, other than those of its `usage`."""
    if isinstance(value, dict):
        return [n for key, item in value.items() if key != "usage" for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [value] if isinstance(value, int) else []


waiting = agent.run_sync("Pay.")
approvals = {"call_1": ToolApproved(override_args={"amount": 10})}
done = agent.run_sync(
    message_history=waiting.all_messages(),
    deferred_tool_results=DeferredToolResults(approvals=approvals),
)
parts = [part for message in done.all_messages() for part in message.parts]
(call,) = [part for part in parts if isinstance(part, ToolCallPart)]
(result,) = [part for part in parts if isinstance(part, ToolReturnPart)]
print("paid:", paid)
print("the call says:", call.args)
print("the result says:", type(result).__name__, result.content, result.metadata)
stored = numbers(json.loads(ModelMessagesTypeAdapter.dump_json(done.all_messages())))
for number in (1000, 10):
    print(f"{number} is in the stored messages:", number in stored)
PYTHON

venv/bin/python -W ignore run.py | tee seen.txt
diff <(sed -n 's/^#     \(\(paid\|the \|10\).*: .*\)/\1/p' "$here") seen.txt
