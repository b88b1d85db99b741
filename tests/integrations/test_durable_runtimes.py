"""A run that its runtime plays again after a crash is recorded once, and repeats no effect."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import TESTS
from support import unmeasured
from support.frameworks import required

required("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from eventstore import AsyncEventStore, Completed, Conversation, EventStore, Running
from eventstore.integrations.pydantic_ai import Ledger
from projections import usage_statistics


def played(*given: str) -> subprocess.CompletedProcess[str]:
    """Play a half of the workflow in a process of its own."""
    command = [sys.executable, "-m", "integrations.play_dbos", *given]
    path = f"{TESTS}{os.pathsep}{TESTS.parent}"
    environment = {**unmeasured.environment(), "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def check(chat: Conversation, *, responses: int) -> None:
    """Check that the log has the user's words once, each response once, and the doubt."""
    words = [r.event for r in chat.events() if r.event.tag == "message"]
    assert [each.role for each in words] == ["user", *["assistant"] * responses]  # type: ignore[union-attr]
    assert usage_statistics(chat.events()).overall.responses == responses
    refund, mail = chat.tools.values()
    assert (type(refund.status), refund.attempts) == (Completed, 1)
    assert (type(mail.status), mail.attempts) == (Running, 1)
    assert mail.in_doubt


@pytest.mark.parametrize("kind", ["agent", "durability"])
def test_a_recovered_workflow_of_dbos_repeats_nothing(tmp_path: Path, kind: str) -> None:
    """The first tool is answered from the log; the one that was under way is in doubt."""
    required("dbos")
    killed = played(str(tmp_path), "run", kind)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    recovered = played(str(tmp_path), "recover", kind)
    assert recovered.returncode == 0, recovered.stderr
    assert recovered.stdout.splitlines()[-1] == "done"
    assert (tmp_path / "effects").read_text().split() == ["refund", "mail"]
    with EventStore.open(f"sqlite:///{tmp_path}/ledger.db") as store:
        chat = store.conversation("chat")
        check(chat, responses=2)
        mail = list(chat.tools.values())[1]
        chat.settle(mail.id, seen=mail, completed="mailed", by="ann")


def test_a_run_that_its_host_names_is_played_again(tmp_path: Path) -> None:
    """A second ledger with the same `run_id` finds what the first one recorded."""
    effects: list[str] = []

    class Killed(BaseException):
        """The process ends."""

    def answer(given: list[Any], _: Any) -> ModelResponse:
        if any(part.part_kind == "tool-return" for part in given[-1].parts):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("refund", {}, tool_call_id="c1")])

    async def play() -> None:
        async with AsyncEventStore.open(f"sqlite:///{tmp_path}/ledger.db") as store:
            for attempt in range(3):
                ledger = Ledger(store.conversation("chat"), run_id="order-7")
                agent: Agent[None, str] = Agent(FunctionModel(answer), capabilities=[ledger])

                @agent.tool_plain
                def refund() -> str:
                    """Refund."""
                    effects.append("refund")
                    return "paid back"

                for number in range(2):  # the runs of one id are told apart by their order
                    result = await agent.run(f"Refund order {number}.")
                    assert result.output == "done"
                assert effects == ["refund"] * 2, attempt

    asyncio.run(play())
    with EventStore.open(f"sqlite:///{tmp_path}/ledger.db") as store:
        chat = store.conversation("chat")
        roles = [r.event.role for r in chat.events() if r.event.tag == "message"]  # type: ignore[union-attr]
        assert roles == ["user", "assistant", "assistant"] * 2
        assert usage_statistics(chat.events()).overall.responses == 4
