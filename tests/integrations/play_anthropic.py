"""The scenes as anthropic's tool runner plays them, over a transport that answers by the script."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from anthropic import beta_async_tool
from integrations.anthropic_transport import ScriptedAPI
from integrations.scenes import Play, Played, Tools, note_request

from eventstore import AsyncEventStore
from eventstore.integrations.anthropic import Ledger


def awaited(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tool for the awaited runner."""

    @wraps(tool)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return tool(*args, **kwargs)

    return run


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""

    @wraps(tools.audit)
    def audited(number: int) -> str:
        return json.dumps(tools.audit(number))

    own = [awaited(tools.find_order), awaited(tools.refund), awaited(tools.mail)]
    own += [tools.ponder, tools.consult, awaited(audited)]
    api = ScriptedAPI(play.script, asked=partial(note_request, play))
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(store.conversation(play.chat), needs_approval=["mail"])
        runner = ledger.tool_runner(
            api.async_client(),
            play.prompt,
            model="claude-opus-4-8",
            max_tokens=1000,
            tools=[beta_async_tool(tool) for tool in own],
            stream=play.streamed,
        )
        message = await runner.until_done()
    text = [] if message is None else [b.text for b in message.content if b.type == "text"]
    return Played("".join(text) if message and message.stop_reason == "end_turn" else "")
