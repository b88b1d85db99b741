"""Workflows of DBOS whose process is killed while a tool runs, or a person is asked.

`python -m integrations.play_dbos FOLDER` starts them and ends by SIGKILL. The same once more lets
DBOS recover them, with the person's approval, and prints what they return. Their effects are lines
of `ran.txt`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, RunContext, Tool
from pydantic_ai.durable_exec.dbos import DBOSAgent, DBOSDurability
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from eventstore import AsyncEventStore, ToolCompleted
from eventstore.integrations.pydantic_ai import Ledger

WRAPPER, CAPABILITY = CHATS = ("wrapper", "capability")
"""The conversations: of a `DBOSAgent`, and of an agent with `DBOSDurability`."""

ASKING = "asking"
"""The conversation whose workflow waits for a person."""


class Shop:
    """The agents, their tools and their effects."""

    def __init__(self, folder: Path, store: AsyncEventStore) -> None:
        self._effects = folder / "ran.txt"
        self._is_first = not self._effects.exists()
        self._running = 0
        self.ledgers = {name: Ledger(store.conversation(name)) for name in (*CHATS, ASKING)}

    def agent(self, name: str, *capabilities: Any) -> Agent[None, str]:
        """Return the agent of a conversation, under the name of that."""

        def note(effect: str) -> None:
            with self._effects.open("a") as file:
                file.write(f"{name} {effect}\n")

        def answer(given: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            note("model")
            if not self._is_first:
                return ModelResponse([TextPart(_read(given))])
            asked = any(isinstance(part, ToolReturnPart) for part in given[-1].parts)
            calls = ("find", "mail", "ship") if asked else ("refund",)
            return ModelResponse([ToolCallPart(call, {}, f"call_{call}") for call in calls])

        def refund() -> str:
            note("refund")
            return "paid back"

        @DBOS.step(name=f"{name}.find")
        async def find() -> str:
            note("find")
            return "found"

        async def mail() -> str:
            note("mail")
            if not self._is_first:
                return "sent"
            async for recorded in self.ledgers[name].chat.follow():
                event = recorded.event
                if isinstance(event, ToolCompleted) and event.call_id == "call_find":
                    break
            self._running += 1
            if self._running == len(CHATS):
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.Event().wait()
            return "never"

        def ship() -> str:
            note("ship")
            return "on its way"

        tools: list[Any] = [refund, Tool(find, name="find"), mail, Tool(ship, sequential=True)]
        model = FunctionModel(answer, model_name="fake")
        ledger = self.ledgers[name]
        return Agent(model, name=name, tools=tools, capabilities=[ledger, *capabilities])

    def asking_agent(self) -> Agent[None, str | DeferredToolRequests]:
        """Return an agent whose refund a person has to approve."""

        def answer(given: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            if any(isinstance(part, ToolReturnPart) for part in given[-1].parts):
                return ModelResponse([TextPart(_read(given))])
            return ModelResponse([ToolCallPart("refund", {}, "call_refund")])

        def refund(ctx: RunContext[None]) -> str:
            if not ctx.tool_call_approved:
                raise ApprovalRequired
            with self._effects.open("a") as file:
                file.write(f"{ASKING} refund\n")
            return "paid back"

        return Agent(
            FunctionModel(answer, model_name="fake"),
            name=ASKING,
            tools=[refund],
            output_type=[str, DeferredToolRequests],
            capabilities=[self.ledgers[ASKING], DBOSDurability()],
        )


def _read(given: list[ModelMessage]) -> str:
    """Return what the model reads last: the answers of the tools, after how many prompts."""
    prompts = [p for m in given for p in m.parts if isinstance(p, UserPromptPart)]
    answers = [p.content for p in given[-1].parts if isinstance(p, ToolReturnPart)]
    return json.dumps([len(prompts), *answers])


async def main(folder: Path) -> None:
    """Start the workflows, or let DBOS recover them."""
    is_first = not (folder / "ran.txt").exists()
    async with AsyncEventStore.open(f"sqlite:///{folder}/ledger.db") as store:
        shop = Shop(folder, store)
        DBOS(
            config={
                "name": "shop",
                "system_database_url": f"sqlite:///{folder}/dbos.db",
                "log_level": "ERROR",
                "application_version": "1",
            }
        )
        with warnings.catch_warnings(action="ignore"):  # `DBOSAgent` is deprecated
            wrapper = DBOSAgent(shop.agent(WRAPPER))
        agent = shop.agent(CAPABILITY, DBOSDurability())

        @DBOS.workflow(name="support")
        async def support() -> str:
            history = await shop.ledgers[CAPABILITY].history()
            return (await agent.run("Refund order 7.", message_history=history)).output

        asking_agent, asked = shop.asking_agent(), asyncio.Event()

        @DBOS.workflow(name=ASKING)
        async def asking() -> str:
            first = await asking_agent.run("Refund order 8.")
            assert isinstance(first.output, DeferredToolRequests)
            assert first.all_messages()[-1].metadata  # what the person is asked about
            asked.set()
            assert await DBOS.recv_async("decision")
            result = await shop.ledgers[ASKING].resume(asking_agent)
            assert isinstance(result.output, str)
            return result.output

        if is_first:
            await store.conversation(CAPABILITY).add_message("user", "Hello?")
        else:
            await store.conversation(ASKING).approve("call_refund", seen=None)
        DBOS.launch()
        if is_first:
            with SetWorkflowID(ASKING):
                await DBOS.start_workflow_async(asking)
            await asked.wait()
            with SetWorkflowID(WRAPPER):
                first = asyncio.create_task(wrapper.run("Refund order 7."))
            with SetWorkflowID(CAPABILITY):
                await support()
            await first
        await DBOS.send_async(ASKING, "yes", "decision")
        handles: list[Any] = [await DBOS.retrieve_workflow_async(name) for name in (*CHATS, ASKING)]
        results = [await handle.get_result() for handle in handles]
        print(json.dumps([getattr(result, "output", result) for result in results]))
        DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
