"""A ledger beside Temporal: refused in a workflow, and a retried activity is recognized.

Temporal's own replayer and its environment for activities run here, which need no server.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import url_in
from support.frameworks import required

required("pydantic_ai")
required("temporalio")

from pydantic_ai import Agent, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from eventstore import AsyncEventStore
from eventstore.integrations.pydantic_ai import Ledger


def answer(given: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Ask for a refund, and say then that it is done."""
    if len(given) > 1:
        return ModelResponse([TextPart("Done.")])
    return ModelResponse([ToolCallPart("refund", {"number": 7}, "call_1")])


async def history(ledger: Ledger) -> None:
    """Look at the log."""
    await ledger.history()


async def run(ledger: Ledger) -> None:
    """Run an agent."""
    await Agent(FunctionModel(answer), capabilities=[ledger]).run("Refund order 7.")


async def resume(ledger: Ledger) -> None:
    """Let an agent go on."""
    await ledger.resume(Agent(FunctionModel(answer), capabilities=[ledger]))


USES = {use.__name__: use for use in (history, run, resume)}
"""What a workflow may try with a ledger."""


class Shop:
    """A workflow that uses a ledger, which is set beside it."""

    ledger: Ledger
    refused: UserError

    @workflow.run
    async def run(self, use: str) -> None:
        """Use the ledger, and note the error."""
        with pytest.raises(UserError) as refused:
            await USES[use](Shop.ledger)
        Shop.refused = refused.value


workflow.defn(Shop)


def begun(use: str) -> WorkflowHistory:
    """Return the history of a workflow whose first task has begun."""
    kinds = ("WORKFLOW_EXECUTION_STARTED", "WORKFLOW_TASK_SCHEDULED", "WORKFLOW_TASK_STARTED")
    events = [
        HistoryEvent(event_id=number, event_type=EventType.Value(f"EVENT_TYPE_{kind}"))
        for number, kind in enumerate(kinds, 1)
    ]
    for event in events:
        event.event_time.GetCurrentTime()
    started, scheduled, of_task = events
    run: Any = started.workflow_execution_started_event_attributes
    run.workflow_type.name = "Shop"
    run.task_queue.name = "shop"
    run.original_execution_run_id = "run-1"
    given = run.input.payloads.add()
    given.metadata["encoding"] = b"json/plain"
    given.data = json.dumps(use).encode()
    scheduled.workflow_task_scheduled_event_attributes.task_queue.name = "shop"
    of_task.workflow_task_started_event_attributes.scheduled_event_id = scheduled.event_id
    return WorkflowHistory("refund-7", events)


@pytest.mark.parametrize("use", USES)
def test_a_ledger_in_a_workflow_is_refused(tmp_path: Path, use: str) -> None:
    """A look at the log would wait for ever there, and the error says where to go."""

    async def scene() -> None:
        async with AsyncEventStore.open(url_in(tmp_path)) as store:
            Shop.ledger = Ledger(store.conversation("c"))
            replayer = Replayer(workflows=[Shop], workflow_runner=UnsandboxedWorkflowRunner())
            await replayer.replay_workflow(begun(use))
            assert "run the agent in an activity" in str(Shop.refused)
            assert await Shop.ledger.chat.version == 0

    asyncio.run(scene())


def test_an_activity_that_is_tried_again_repeats_no_effect(tmp_path: Path) -> None:
    """The id of its workflow names the run of the agent."""
    paid: list[int] = []

    def refund(number: int) -> str:
        paid.append(number)
        return "paid back"

    async def scene() -> int:
        async with AsyncEventStore.open(url_in(tmp_path)) as store:
            chat = store.conversation("c")

            @activity.defn
            async def support(words: str) -> str:
                agent = Agent(FunctionModel(answer), tools=[refund], capabilities=[Ledger(chat)])
                return (await agent.run(words, run_id=activity.info().workflow_id)).output

            versions: list[int] = []
            for _ in range(2):
                await ActivityEnvironment().run(support, "Refund order 7.")
                versions.append(await chat.version)
            first, second = versions
            assert second == first
            return second

    assert asyncio.run(scene()) > 0
    assert paid == [7]
