"""A run that a durable runtime recovers is recognized, and no tool takes effect twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import TESTS, url_in
from support import unmeasured
from support.frameworks import required

required("pydantic_ai")
required("dbos")

from dbos import DBOS
from pydantic_ai import Agent, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from eventstore import AsyncEventStore, EventStore, MessageAdded, ModelResponded, Text
from eventstore.integrations.pydantic_ai import Ledger
from projections import model_history

CHATS = {"wrapper": ["Refund order 7."], "capability": ["Hello?", "Refund order 7."]}
"""What the user said in each conversation of `play_dbos`."""


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the workflows of `play_dbos` in another process."""
    path = f"{TESTS}{os.pathsep}{TESTS.parent}"
    return subprocess.run(
        [sys.executable, "-m", "integrations.play_dbos", str(folder)],
        env={**unmeasured.environment(), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def said_by_users(events: list[Any]) -> list[str]:
    """Return the words of the users."""
    said = [e.parts for e in events if isinstance(e, MessageAdded) and e.role == "user"]
    return [part.text for parts in said for part in parts if isinstance(part, Text)]


def test_dbos_recovers_a_killed_run(tmp_path: Path) -> None:
    """A completed call is not paid again, the killed one is in doubt, and the next one runs.

    DBOS refuses a recovery that makes other steps than it has stored. It may be killed between the
    end of a call in our log and in its own: of one workflow it has stored no call.
    """
    killed = play(tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with closing(sqlite3.connect(tmp_path / "dbos.db")) as kept:
        lost = kept.execute(
            "DELETE FROM operation_outputs"
            " WHERE workflow_uuid = 'wrapper' AND function_name = 'toolledger.call'"
        )
        assert lost.rowcount > 0
        kept.commit()
    again = play(tmp_path)
    assert again.returncode == 0, again.stderr
    *outputs, approved = map(json.loads, json.loads(again.stdout.splitlines()[-1]))
    assert approved == [1, "paid back"]

    effects = (tmp_path / "ran.txt").read_text().splitlines()
    ran = ["find", "mail", "model", "model", "model", "refund", "ship"]
    expected = [f"{chat} {name}" for chat in CHATS for name in ran]
    assert sorted(effects) == sorted([*expected, "asking refund"])
    with EventStore.open(f"sqlite:///{tmp_path}/ledger.db") as store:
        for (name, words), (prompts, *answers) in zip(CHATS.items(), outputs, strict=True):
            chat = store.conversation(name)
            tools = {i: (t.status.name, t.in_doubt) for i, t in chat.tools.items()}
            assert tools == {
                "call_refund": ("Completed", False),
                "call_find": ("Completed", False),
                "call_mail": ("Running", True),
                "call_ship": ("Completed", False),
            }
            events = [recorded.event for recorded in chat.events()]
            assert said_by_users(events) == words
            assert prompts == len(words)
            assert len([event for event in events if isinstance(event, ModelResponded)]) == 3
            assert answers[::2] == ["found", "on its way"]
            assert "outcome unknown" in answers[1]
            mail = chat.tool("call_mail")
            chat.settle(mail.id, seen=mail, completed="sent", by="grace")
            shown = [c.answer.text for t in model_history(chat).turns for c in t.calls]
            assert shown == ["paid back", "found", "sent", "on its way"]


def refunding(*, anew: str = "") -> Any:
    """Return a model that asks for a refund, with another id or number if it is asked `anew`."""
    count = 0

    def answer(given: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        nonlocal count
        count += 1
        if len(given) > 1:
            return ModelResponse([TextPart("Done.")])
        number = count if anew == "number" else 7
        call_id = f"call_{count if anew == 'id' else 1}"
        return ModelResponse([ToolCallPart("refund", {"number": number}, call_id)])

    return FunctionModel(answer, model_name="fake")


@pytest.mark.parametrize(
    ("anew", "run_ids", "paid", "responses"),
    [
        ("", ("order-7", "order-7"), 1, 2),
        ("", ("order-7", "order-8"), 2, 4),
        ("id", ("order-7", "order-7"), 1, 3),
        ("number", ("order-7", "order-7"), 2, 3),
    ],
    ids=["a replay", "another run", "asked anew", "asked anew under the same id"],
)
def test_a_run_is_known_by_its_id(
    tmp_path: Path, anew: str, run_ids: tuple[str, str], paid: int, responses: int
) -> None:
    """The same run that says the same is a replay, by whichever runtime, in another ledger."""
    payments: list[int] = []
    model = refunding(anew=anew)

    def refund(number: int) -> str:
        """Refund an order."""
        payments.append(number)
        return "paid"

    async def scene() -> list[Any]:
        async with AsyncEventStore.open(url_in(tmp_path)) as store:
            chat = store.conversation("c")
            if run_ids[0] == run_ids[1]:  # a host may have added the words before
                await chat.add_message("user", "Refund order 7.", step="order-7 1")
            for run_id in run_ids:
                ledger = Ledger(chat)
                agent = Agent(model, tools=[refund], capabilities=[ledger])
                result = await agent.run("Refund order 7.", run_id=run_id)
                assert result.output == "Done."
            return [recorded.event async for recorded in chat.events()]

    events = asyncio.run(scene())
    assert len(payments) == paid
    assert len(said_by_users(events)) == len({*run_ids})
    assert len([e for e in events if isinstance(e, ModelResponded)]) == responses


def test_a_tool_that_is_a_workflow_is_refused(tmp_path: Path) -> None:
    """The ledger makes a step of each call, and DBOS runs no workflow in a step."""

    async def scene() -> str:
        async with AsyncEventStore.open(url_in(tmp_path)) as store:
            chat = store.conversation("c")
            agent = Agent(refunding(), name="shop", capabilities=[Ledger(chat)])

            @agent.tool_plain(metadata={"dbos": {"child_workflow": True}})
            def refund(number: int) -> str:
                """Refund an order."""
                raise AssertionError(number)

            @DBOS.workflow()
            async def shop() -> None:
                await agent.run("Refund order 7.")

            DBOS(config={"name": "shop", "system_database_url": f"sqlite:///{tmp_path}/dbos.db"})
            DBOS.launch()
            try:
                with pytest.raises(UserError, match="tool 'refund' is a child workflow of DBOS"):
                    await shop()
            finally:
                DBOS.destroy(destroy_registry=True)
            return (await chat.tool("call_1")).status.name

    assert asyncio.run(scene()) == "Pending"
