#!/usr/bin/env bash
# Guess: a session that is rewound before an invocation has the state that it had then: what was written later
#     is not in it, and what was in it before is as it was.
# Package: google-adk 2.13.0
# Date: 2026-11-28
# Output: the state with which the session was created is lost, though no invocation touched it: it is rebuilt
#     from the events, and no event has it. What was added later stays as a key. Either value is None, so
#     that `state.get(key, default)` has no use for its default, and a tool that ran before fails.
#
#     InMemorySessionService, before the invocation: {'basket': 'tea'}
#     InMemorySessionService, after it: {'basket': 'tea', 'paid': 12}
#     InMemorySessionService, rewound: {'basket': None, 'paid': None}
#     InMemorySessionService, the same request again: TypeError
#     DatabaseSessionService, before the invocation: {'basket': 'tea'}
#     DatabaseSessionService, after it: {'basket': 'tea', 'paid': 12}
#     DatabaseSessionService, rewound: {'basket': None, 'paid': None}
#     DatabaseSessionService, the same request again: TypeError
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q google-adk==2.13.0 sqlalchemy aiosqlite greenlet

cat >run.py <<'PYTHON'
import asyncio

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.tools import ToolContext
from google.genai.types import Content, FunctionCall, Part

IDS = {"user_id": "ann", "session_id": "1"}


class Fake(BaseLlm):
    """Pays when the user says so; answers otherwise."""

    async def generate_content_async(self, request, stream=False):
        call = FunctionCall(name="pay", args={"amount": 12})
        pays = request.contents[-1].parts[-1].text == "Pay."
        part = Part(function_call=call) if pays else Part(text="Done.")
        yield LlmResponse(content=Content(role="model", parts=[part]))


def pay(amount: int, tool_context: ToolContext) -> dict:
    """Pay an amount."""
    tool_context.state["paid"] = tool_context.state.get("paid", 0) + amount
    return {"paid": tool_context.state["paid"]}


async def tell(service):
    agent = LlmAgent(name="shop", model=Fake(model="fake"), tools=[pay])
    runner = Runner(app_name="shop", agent=agent, session_service=service)
    await service.create_session(app_name="shop", **IDS, state={"basket": "tea"})

    async def ask(text):
        asked = Content(role="user", parts=[Part(text=text)])
        events = [event async for event in runner.run_async(**IDS, new_message=asked)]
        return events[0].invocation_id

    async def show(when):
        session = await service.get_session(app_name="shop", **IDS)
        print(f"{type(service).__name__}, {when}: {dict(sorted(session.state.items()))}")

    await ask("Hello.")
    await show("before the invocation")
    paid = await ask("Pay.")
    await show("after it")
    await runner.rewind_async(**IDS, rewind_before_invocation_id=paid)
    await show("rewound")
    try:
        await ask("Pay.")
        end = "paid"
    except Exception as error:
        end = type(error).__name__
    print(f"{type(service).__name__}, the same request again: {end}")


async def main():
    for service in (InMemorySessionService(), DatabaseSessionService("sqlite+aiosqlite:///adk.db")):
        await tell(service)


asyncio.run(main())
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*SessionService, .*: .*\)/\1/p' "$here") seen.txt
