"""The scenes as strands plays them, with a model that follows the script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from integrations.scenes import Play, Played, Tools, effects_path, note_request
from strands import Agent, tool
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager
from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor

from eventstore import AsyncEventStore
from eventstore.integrations.strands import Ledger


class ScriptedModel(Model):
    """A model that streams the response whose number is that of the responses in its prompt."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.asked = ""
        self.stop_reason = "tool_use"  # of a response with calls

    def update_config(self, **config: Any) -> None:
        """Take no configuration."""

    def get_config(self) -> dict[str, Any]:
        """Return no configuration."""
        return {}

    def structured_output(self, *args: Any, **named: Any) -> Any:
        """Refuse: the scenes have none."""
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **named: Any) -> AsyncIterator[Any]:
        """Yield a response in pieces, as Bedrock does."""
        self.asked = json.dumps(messages)
        note_request(self._play, messages)
        said = self._play.script[sum(message["role"] == "assistant" for message in messages)]
        yield {"messageStart": {"role": "assistant"}}
        if said.text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": said.text}}}
            yield {"contentBlockStop": {}}
        for name, arguments, call_id in said.calls:
            use = {"toolUseId": call_id, "name": name}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            for piece in (arguments[:5], arguments[5:]):
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}}}
            yield {"contentBlockStop": {}}
        reason = "max_tokens" if said.cut_off else self.stop_reason
        yield {"messageStop": {"stopReason": reason if said.calls else "end_turn"}}
        usage = {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(store.conversation(play.chat), needs_approval=["mail"])
        own_tools = (
            tools.find_order,
            tools.refund,
            tools.mail,
            tools.ponder,
            tools.consult,
            tools.audit,
        )
        kept: dict[str, Any] = {"messages": await ledger.history()}
        if play.kept:
            folder = str(effects_path(play.url).with_suffix(".sessions"))
            kept = {"session_manager": FileSessionManager("s", storage_dir=folder)}
        model = ScriptedModel(play)
        agent = Agent(
            model,
            tools=[tool(own) for own in own_tools],
            **kept,
            plugins=[ledger],
            callback_handler=None,
            tool_executor=SequentialToolExecutor() if play.kill else ConcurrentToolExecutor(),
        )
        if play.prompt is None:
            resumed = await ledger.resume(agent)
            if resumed is None:
                return Played()
            result = resumed
        elif play.streamed:
            events = [event async for event in agent.stream_async(play.prompt)]
            result = events[-1]["result"]
        else:
            result = await agent.invoke_async(play.prompt)
        if play.answer is not None and result.interrupts:
            tools.change_mail()
            asked = result.interrupts[0].id
            reply: Any = {"interruptResponse": {"interruptId": asked, "response": play.answer}}
            result = await agent.invoke_async([reply])
            return Played(shown=str([each.reason for each in result.interrupts or ()]))
        return Played("" if result.interrupts else str(result).strip(), model.asked)
