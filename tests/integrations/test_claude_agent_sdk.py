"""The Claude Agent SDK plays the scenes with its own Claude Code, and what it has is kept.

Each process of Claude Code takes a second: what needs several of them is for the long tier.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from integrations.scenes import (
    DONE,
    FIND_7,
    REFUND,
    Play,
    Said,
    Scenes,
    Tools,
    check,
    effects_of,
    url_in,
)
from support.frameworks import required
from support.tiers import LONG

required("claude_agent_sdk")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    create_sdk_mcp_server,
    tool,
)
from integrations.claude_model import served
from integrations.play_claude_agent_sdk import options_of

from eventstore import AsyncEventStore, Completed, EventStore, Failed, Rejected, Running
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from eventstore.integrations.claude_agent_sdk import Ledger, with_doubts
from projections import model_history

long_tier = pytest.mark.skipif(not LONG, reason="takes several seconds: set TOOLLEDGER_LONG=1")


class TestClaudeAgentSDK(Scenes):
    """The scenes with the queries of a `Ledger`."""

    framework = "claude_agent_sdk"
    sees_requests = False
    failure = (None, "carrier down")  # Claude Code gives the text alone
    attempts_of_bad_arguments = 1

    @pytest.mark.parametrize("allowed", ["ann"])
    def test_opposite_answers_reach_their_calls(self, tmp_path: Path, allowed: str) -> None:
        """Claude Code keeps one waiting call of a turn: the other has failed, and did not run."""
        calls = tuple(("mail", f'{{"to": "{to}"}}', f"call_{to}") for to in (allowed, "bob"))
        url = url_in(tmp_path)
        assert self._play(Play(url=url, script=(Said("", calls), Said(DONE)))).text == ""
        with EventStore.open(url) as store:
            first, second = store.conversation("support-42").tools.values()
            assert first.is_paused
            assert isinstance(second.status, Failed)
            assert second.status.failure.code == "not_run"
        assert effects_of(url) == []

    @long_tier
    def test_bad_arguments_start_nothing(self, tmp_path: Path) -> None:
        """Arguments that do not fit the tool are a failure of kind validation."""
        super().test_bad_arguments_start_nothing(tmp_path)

    @long_tier
    def test_an_approval_is_granted_elsewhere(self, tmp_path: Path) -> None:
        """The deferred call goes on in another process with the decision."""
        super().test_an_approval_is_granted_elsewhere(tmp_path)

    @long_tier
    def test_a_rejected_call_never_runs(self, tmp_path: Path) -> None:
        """The model reads that a person refused the deferred call."""
        super().test_a_rejected_call_never_runs(tmp_path)

    @long_tier
    def test_a_killed_run_is_resumed(self, tmp_path: Path) -> None:
        """No call runs again; the third, which Claude Code gives up, has failed as not run."""
        find_8 = ("find_order", '{"number": 8}', "call_c")
        calls = ((*FIND_7, "call_a"), (*REFUND, "call_b"), find_8)
        script = (Said("Let me look.", calls), Said(DONE))
        url = url_in(tmp_path)
        killed = self._process(Play(url=url, script=script, kill=True))
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        again = self._play_elsewhere(Play(url=url, script=script, prompt=None))
        assert again.text == DONE
        with EventStore.open(url) as store:
            chat = store.conversation("support-42")
            found, refunded, given_up = chat.tools.values()
            assert [type(found.status), type(refunded.status)] == [Completed, Running]
            assert isinstance(given_up.status, Failed)
            assert (given_up.status.failure.code, given_up.attempts) == ("not_run", 0)
            assert "outcome unknown" in str(model_history(chat.events()).render("openai"))
            check(url, chat, ["find_order", "refund"])

    def test_a_call_equal_to_one_in_doubt_does_not_run(self, tmp_path: Path) -> None:
        """Claude Code resumes sessions of its own alone."""
        pytest.skip("no session of Claude Code has what the log has")


@long_tier
def test_one_call_of_a_turn_is_deferred(tmp_path: Path) -> None:
    """The first goes on with its decision; the second has failed at once, and never runs."""
    url = url_in(tmp_path)
    calls = (("mail", '{"to": "ann"}', "call_m"), ("mail", '{"to": "bob"}', "call_n"))
    play = Play(url=url, script=(Said("", calls), Said(DONE)))

    async def main() -> None:
        async with AsyncEventStore.open(url) as store:
            chat = store.conversation("support-42")
            ledger = Ledger(chat, needs_approval=["mcp__shop__mail"])
            with served(play.script, tmp_path) as env:
                options = options_of(Tools(play, "claude_agent_sdk"), tmp_path, env)
                async for _ in ledger.query("Mail both.", options):
                    pass
                await chat.approve("call_m", {"to": "grace"})
                async for _ in ledger.resume(options):
                    pass

    asyncio.run(main())
    with EventStore.open(url) as store:
        tools = store.conversation("support-42").tools
    assert isinstance(tools["call_m"].status, Completed)
    assert isinstance(tools["call_n"].status, Failed)
    assert tools["call_n"].status.failure.code == "not_run"
    assert [(name, to) for name, to, _ in effects_of(url)] == [("mail", "grace")]


@pytest.mark.parametrize("in_place", [False, True])
def test_the_answers_of_can_use_tool_are_decisions(tmp_path: Path, in_place: bool) -> None:
    """An edit that it allows is what runs; what it denies has been rejected, and never ran."""
    url = url_in(tmp_path)
    calls = ((*FIND_7, "call_a"), (*REFUND, "call_b"))
    play = Play(url=url, script=(Said("", calls), Said(DONE)))
    paused: list[bool] = []

    async def main() -> None:
        async with AsyncEventStore.open(url) as store:
            ledger = Ledger(store.conversation("support-42"))

            async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
                paused.append((await ledger.chat.tools())[context.tool_use_id].is_paused)
                if name == "mcp__shop__refund":
                    return PermissionResultDeny(message="too much")
                if in_place:  # the SDK runs what became of the arguments
                    given["number"] = 8
                    return PermissionResultAllow()
                return PermissionResultAllow(updated_input={"number": 8})

            with served(play.script, tmp_path) as env:
                options = options_of(
                    Tools(play, "claude_agent_sdk"), tmp_path, env, can_use_tool=decide
                )
                async for _ in ledger.query("Order 7?", options):
                    pass

    asyncio.run(main())
    assert paused == [True, True]
    with EventStore.open(url) as store:
        tools = store.conversation("support-42").tools
    assert isinstance(tools["call_a"].status, Completed)
    assert tools["call_a"].effective_call.arguments == {"number": 8}
    assert isinstance(tools["call_b"].status, Rejected)
    assert tools["call_b"].status.reason == "too much"
    assert [(name, number) for name, number, _ in effects_of(url)] == [("find_order", 8)]


def played(
    tmp_path: Path, url: str, tools: list[Any], *calls: tuple[str, str, str], **options: Any
) -> str:
    """Ask for calls of tools in one turn; return what the model was asked last."""
    asked: list[str] = []

    async def main() -> None:
        async with AsyncEventStore.open(url) as store:
            ledger = Ledger(store.conversation("support-42"))
            with served((Said("", calls), Said(DONE)), tmp_path, asked) as env:
                shop = ClaudeAgentOptions(
                    mcp_servers={"shop": create_sdk_mcp_server("shop", tools=tools)},
                    tools=[],
                    allowed_tools=[f"mcp__shop__{tool.name}" for tool in tools],
                    setting_sources=[],
                    system_prompt="You help.",
                    cwd=tmp_path,
                    env=env,
                    stderr=lambda _: None,
                    **options,
                )
                async for _ in ledger.query("Refund it.", shop):
                    pass

    asyncio.run(main())
    return asked[-1]


def test_the_text_of_an_error_tells_of_a_doubt(tmp_path: Path) -> None:
    """With `with_doubts` the exception does, whatever its text is; the model reads of it."""

    @tool("refund", "Refund an order", {"number": int})
    async def refund(given: Any) -> Any:
        raise TimeoutError("the read operation timed out")

    @with_doubts
    @tool("pay", "Pay an order", {"number": int})
    async def pay(given: Any) -> Any:
        raise RuntimeError("the bank failed") from ConnectionResetError()

    @with_doubts
    @tool("find", "Find an order", {"number": int})
    async def find(given: Any) -> Any:
        raise ValueError("no such order")

    url = url_in(tmp_path)
    names = ("refund", "pay", "find")
    calls = [(name, '{"number": 7}', f"call_{name}") for name in names]
    asked = played(tmp_path, url, [refund, pay, find], *calls)
    with EventStore.open(url) as store:
        failed = store.conversation("support-42").tools.values()
    said = [(t.in_doubt, t.status.failure.message) for t in failed if isinstance(t.status, Failed)]
    assert said == [
        (True, "the read operation timed out"),
        (True, "the bank failed."),
        (False, "no such order"),
    ]
    assert asked.count(MAY_HAVE_TAKEN_EFFECT) == 2


@pytest.mark.parametrize("says", ["edit", "deny"])
def test_a_hook_of_the_host_edits_or_rejects_a_call(tmp_path: Path, says: str) -> None:
    """The log has the arguments that run before they do; what the hook denies has no attempt."""
    ran: list[int] = []

    @tool("refund", "Refund an order", {"number": int})
    async def refund(given: Any) -> Any:
        ran.append(given["number"])
        return {"content": [{"type": "text", "text": f"refunded {given['number']}"}]}

    async def hook(*_: Any) -> Any:
        output = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
        edit: dict[str, Any] = {**output, "updatedInput": {"number": 8}}
        deny = {**output, "permissionDecision": "deny", "permissionDecisionReason": "too much"}
        return {"hookSpecificOutput": edit if says == "edit" else deny}

    url = url_in(tmp_path)
    hooks = {"PreToolUse": [HookMatcher(matcher="mcp__shop__refund", hooks=[hook])]}
    asked = played(tmp_path, url, [refund], (*REFUND[:1], '{"number": 7}', "call_a"), hooks=hooks)
    with EventStore.open(url) as store:
        (call,) = store.conversation("support-42").tools.values()
    if says == "edit":
        assert isinstance(call.status, Completed)
        assert (call.effective_call.arguments, ran) == ({"number": 8}, [8])
    else:
        assert isinstance(call.status, Rejected)
        assert (call.status.reason, call.attempts, ran) == ("too much", 0, [])
        assert "too much" in asked
