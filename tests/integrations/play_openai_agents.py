"""The scenes as openai-agents plays them, with its `ScriptedModel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import Agent, RunConfig, Usage, function_tool, set_tracing_disabled
from agents.run_config import ToolExecutionConfig
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from integrations.scenes import Play, Played, Tools, note_request

from eventstore import AsyncEventStore, CallChanged
from eventstore.integrations.openai_agents import Ledger


def fake_model(play: Play) -> ScriptedModel:
    """Return the model that follows the script."""

    def answer(call: ModelCall) -> ModelStep:
        note_request(play, call.input)
        calls = [i.get("call_id") for i in call.input if i.get("type") == "function_call"]
        answered = [said for said in play.script if said.calls and said.calls[0][2] in calls]
        said = play.script[len(answered)]
        words = [assistant_message(said.text)] if said.text else []
        output = [
            *words,
            *(function_call(n, a, call_id=i, item_id=f"fc_{i}") for n, a, i in said.calls),
        ]
        used = Usage(requests=1, input_tokens=9, output_tokens=4, total_tokens=13)
        return ModelStep(output, used, response_id=f"resp_{len(answered)}")

    return ScriptedModel([ModelStep.respond(answer) for _ in play.script])


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    set_tracing_disabled(disabled=True)
    own: list[Callable[..., Any]] = [
        tools.find_order,
        tools.refund,
        tools.ponder,
        tools.consult,
        tools.audit,
    ]
    agent = Agent(
        "support",
        model=fake_model(play),
        tools=[
            *(function_tool(tool) for tool in own),
            function_tool(tools.mail, needs_approval=True),
        ],
    )
    one_by_one = ToolExecutionConfig(max_function_tool_concurrency=1 if play.kill else None)
    config = RunConfig(tool_execution=one_by_one)
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(store.conversation(play.chat))
        if play.prompt is None:
            resumed = await ledger.resume(agent, run_config=config)
            if resumed is None:
                return Played()
            result = resumed
        elif play.streamed:
            streamed = ledger.run_streamed(agent, play.prompt, run_config=config)
            async for _ in streamed.stream_events():
                pass
            return Played(str(streamed.final_output))
        else:
            result = await ledger.run(agent, play.prompt, run_config=config)
        if play.answer is not None:
            tools.change_mail()
            state: Any = result.to_state()
            decide = state.approve if play.answer else state.reject
            decide(result.interruptions[0])
            try:
                result = await ledger.run(agent, state, run_config=config)
            except CallChanged as changed:
                return Played(shown=str(changed.now.effective_call.arguments))
        return Played("" if result.interruptions else str(result.final_output))
