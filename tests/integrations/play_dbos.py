"""A process that runs a workflow of DBOS with an agent, or recovers the one that was killed.

`python -m integrations.play_dbos FOLDER run|recover agent|durability` prints the last words.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec import dbos as durable
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from eventstore import AsyncEventStore
from eventstore.integrations.pydantic_ai import Ledger

WORKFLOW = "w1"


def answer(given: list[Any], _: Any) -> ModelResponse:
    """Ask for both tools, and then say so."""
    if any(part.part_kind == "tool-return" for part in given[-1].parts):
        return ModelResponse([TextPart("done")])
    calls = [ToolCallPart(name, {}, tool_call_id=name[0]) for name in ("refund", "mail")]
    return ModelResponse(calls)


async def play(folder: Path, way: str, kind: str) -> None:
    """Run the workflow, and be killed while a tool runs; or let DBOS recover it."""

    def note(effect: str) -> None:
        with (folder / "effects").open("a") as effects:
            effects.write(f"{effect}\n")

    async with AsyncEventStore.open(f"sqlite:///{folder}/ledger.db") as store:
        capabilities: list[Any] = [Ledger(store.conversation("chat"))]
        if kind == "durability":
            capabilities.append(durable.DBOSDurability())
        model = FunctionModel(answer, model_name="plays")
        agent: Agent[None, str] = Agent(model, name="shop", capabilities=capabilities)

        @agent.tool_plain(sequential=True)
        async def refund() -> str:
            """Refund the order."""
            note("refund")
            return "paid back"

        @agent.tool_plain(sequential=True)
        async def mail() -> str:
            """Send a mail."""
            note("mail")
            if way == "run":
                os.kill(os.getpid(), signal.SIGKILL)
            return "mailed"

        DBOS(
            config={
                "name": "shop",
                "system_database_url": f"sqlite:///{folder}/dbos.db",
                "log_level": "ERROR",
                "application_version": "1",
            }
        )
        run: Any
        if kind == "agent":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the older way, which is still there
                run = durable.DBOSAgent(agent).run
        else:

            @DBOS.workflow()
            async def shop(words: str) -> Any:
                return await agent.run(words)

            run = shop
        DBOS.launch()
        if way == "run":
            with SetWorkflowID(WORKFLOW):
                await run("Refund order 7.")
        handle: Any = await DBOS.retrieve_workflow_async(WORKFLOW)
        print((await handle.get_result()).output, flush=True)
        DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), *sys.argv[2:]))
