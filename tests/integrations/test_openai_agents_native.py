"""The tools of openai-agents that run in forms of their own are recorded as calls."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import url_in, with_ledger
from support.frameworks import required

required("agents")

from agents import (
    Agent,
    ApplyPatchTool,
    AsyncComputer,
    ComputerTool,
    LocalShellTool,
    ShellTool,
    set_tracing_disabled,
)
from agents.editor import ApplyPatchOperation, ApplyPatchResult
from agents.testing import ScriptedModel, assistant_message
from agents.tool import ShellCallOutcome, ShellCommandOutput, ShellResult
from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from eventstore import Completed, Failed, Running, Tool, validate
from eventstore.integrations.openai_agents import Ledger
from projections import model_history

set_tracing_disabled(disabled=True)
played = partial(with_ledger, Ledger)
item: Any = TypeAdapter(ResponseOutputItem).validate_python

SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "a",
    "action": {"commands": ["make"]},
    "status": "completed",
}
LOCAL = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "a",
    "action": {"type": "exec", "command": ["make"], "env": {}},
    "status": "completed",
}
PATCH = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "a",
    "operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"},
    "status": "completed",
}
CLICK = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "a",
    "action": {"type": "wait"},
    "pending_safety_checks": [],
    "status": "completed",
}


class Editor:
    """An editor that changes no file, and keeps what it was asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.error = error

    def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        """Update no file."""
        self.asked.append(operation.diff or "")
        if self.error is not None:
            raise self.error
        return ApplyPatchResult("completed", "patched words")

    create_file = delete_file = update_file


class Screen(AsyncComputer):
    """A screen that shows nothing."""

    async def screenshot(self) -> str:
        """Return a picture."""
        return "iVBORw0KGgo="

    async def wait(self) -> None:
        """Do nothing."""

    async def _unused(self, *_: Any, **__: Any) -> None: ...

    click = double_click = scroll = type = move = keypress = drag = _unused


async def tool_of(ledger: Ledger) -> Tool:
    """Return the only call, whose prompt has to be valid."""
    (tool,) = (await ledger.chat.tools()).values()
    events = [recorded async for recorded in ledger.chat.events()]
    assert validate(model_history(events).render("openai-responses")["input"], PROVIDER) == []
    return tool


PROVIDER: Any = "openai-responses"


def agent_with(tool: Any, *answers: Any) -> Agent[Any]:
    """Return an agent whose model calls and then says that it is done."""
    said = [[item(answer)] if isinstance(answer, dict) else answer for answer in answers]
    return Agent(
        "support", model=ScriptedModel([*said, [assistant_message("Done.")]]), tools=[tool]
    )


def test_a_shell_runs_between_its_start_and_its_end(tmp_path: Path) -> None:
    """The call is in the log before the commands run; its output is in the next prompt."""

    async def scene(ledger: Ledger) -> None:
        seen: list[Any] = []

        async def execute(request: Any) -> ShellResult:
            tool = (await ledger.chat.tools())["a"]
            seen.append((request.data.action.commands, type(tool.status)))
            outcome = ShellCallOutcome("exit", 0)
            return ShellResult([ShellCommandOutput("made words", "", outcome)])

        agent = agent_with(ShellTool(execute), SHELL)
        result = await ledger.run(agent, "Build it.")
        assert result.final_output == "Done."
        assert seen == [(["make"], Running)]
        tool = await tool_of(ledger)
        assert (tool.call.name, tool.call.arguments) == ("shell", {"commands": ["make"]})
        assert (type(tool.status), tool.attempts) == (Completed, 1)
        again = ScriptedModel([[assistant_message("Yes.")]])
        await ledger.run(Agent("support", model=again), "Sure?")
        assert again.last_call is not None
        kinds = [each.get("type") for each in again.last_call.input if isinstance(each, dict)]
        assert kinds.count("shell_call") == kinds.count("shell_call_output") == 1
        assert "made words" in str(again.last_call.input)

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize("tool_of_host", ["shell", "local_shell", "apply_patch"])
def test_an_error_of_a_tool_fails_its_call(tmp_path: Path, tool_of_host: str) -> None:
    """The log has the exception; what it may have done is in doubt."""

    async def scene(ledger: Ledger) -> None:
        def execute(_: Any) -> str:
            raise OSError("no disk")

        tools: dict[str, tuple[Any, Any]] = {
            "shell": (ShellTool(execute), SHELL),
            "local_shell": (LocalShellTool(execute), LOCAL),
            "apply_patch": (ApplyPatchTool(Editor(OSError("no disk"))), PATCH),
        }
        tool, asked = tools[tool_of_host]
        try:
            await ledger.run(agent_with(tool, asked), "Go.")
        except OSError:
            assert tool_of_host == "local_shell"  # the SDK ends the run for it
        failed = await tool_of(ledger)
        assert isinstance(failed.status, Failed)
        assert "no disk" in failed.status.error

    played(url_in(tmp_path), scene)


def test_a_local_shell_and_a_patch_are_recorded(tmp_path: Path) -> None:
    """The editor is told no call: the one that asks for just that has run."""

    async def scene(ledger: Ledger) -> None:
        editor = Editor()
        twice = PATCH | {"id": "apc_2", "call_id": "b"}
        agent = agent_with(ApplyPatchTool(editor), [item(PATCH), item(twice)])
        await ledger.run(agent, "Patch it.")
        tools = list((await ledger.chat.tools()).values())
        assert [(type(tool.status), tool.attempts) for tool in tools] == [(Completed, 1)] * 2
        assert editor.asked == ["@@\n-a\n+b"] * 2
        events = [recorded async for recorded in ledger.chat.events()]
        items = model_history(events).render("openai-responses")["input"]
        outputs = [each for each in items if each.get("type") == "apply_patch_call_output"]
        assert [(each["status"], each["output"]) for each in outputs] == [
            ("completed", "patched words")
        ] * 2

    async def local(ledger: Ledger) -> None:
        await ledger.run(agent_with(LocalShellTool(lambda _: "made words"), LOCAL), "Go.")
        tool = await tool_of(ledger)
        assert (tool.call.name, type(tool.status)) == ("local_shell", Completed)

    played(url_in(tmp_path), scene)
    (tmp_path / "b").mkdir()
    played(url_in(tmp_path / "b"), local)


def test_a_call_of_a_computer_ends_with_its_picture(tmp_path: Path) -> None:
    """The SDK says to nobody which call the actions are of: the end comes with the next request."""

    async def scene(ledger: Ledger) -> None:
        await ledger.run(agent_with(ComputerTool(Screen()), CLICK), "Wait.")
        tool = await tool_of(ledger)
        assert (tool.call.name, type(tool.status)) == ("computer", Completed)
        events = [recorded async for recorded in ledger.chat.events()]
        assert "iVBORw0KGgo=" in str(model_history(events).render("openai-responses"))

    played(url_in(tmp_path), scene)


@pytest.mark.parametrize("answer", [True, False])
def test_a_shell_waits_for_a_decision_in_the_log(tmp_path: Path, answer: bool) -> None:
    """`resume` continues with it: the shell runs with the edit, or the refusal is told."""

    async def scene(ledger: Ledger) -> None:
        ran: list[list[str]] = []

        def execute(request: Any) -> str:
            ran.append(request.data.action.commands)
            return "made words"

        agent = agent_with(ShellTool(execute, needs_approval=True), SHELL)
        result = await ledger.run(agent, "Build it.")
        assert (len(result.interruptions), ran) == (1, [])
        if answer:
            await ledger.chat.approve("a", edited_arguments={"commands": ["make", "-n"]})
        else:
            await ledger.chat.reject("a", reason="too dear")
        resumed = await ledger.resume(agent)
        assert resumed is not None
        assert resumed.final_output == "Done."
        tool = await tool_of(ledger)
        assert ran == ([["make", "-n"]] if answer else [])
        assert tool.status.name == ("Completed" if answer else "Rejected")

    played(url_in(tmp_path), scene)


def test_a_shell_that_was_stopped_is_not_run_again(tmp_path: Path) -> None:
    """Its outcome is unknown, and the next prompt says so."""

    async def scene(ledger: Ledger) -> None:
        ran: list[str] = []

        def execute(_: Any) -> str:
            ran.append("make")
            raise asyncio.CancelledError

        agent = agent_with(ShellTool(execute), SHELL)
        with pytest.raises(asyncio.CancelledError):
            await ledger.run(agent, "Build it.")
        tool = await tool_of(ledger)
        assert (ran, tool.in_doubt) == (["make"], True)
        resumed = await ledger.resume(agent)
        assert resumed is not None
        assert (ran, resumed.final_output) == (["make"], "Done.")

    played(url_in(tmp_path), scene)
