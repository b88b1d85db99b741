"""The scenes as the runner of the openai SDK's Responses plays them, over a mocked transport."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from integrations.openai_transport import ScriptedAPI
from integrations.scenes import Play, Played, Tools, note_request

from eventstore import AsyncEventStore, FunctionTool
from eventstore.integrations.openai import Ledger


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    return await play_over(play, tools, Ledger.responses)


async def play_over(play: Play, tools: Tools, runner: Callable[..., Any]) -> Played:
    """Play over one of the two APIs."""
    mail = FunctionTool(tools.mail, needs_approval=True)
    async with AsyncEventStore.open(play.url, redact=play.rules) as store:
        ledger = Ledger(
            store.conversation(play.chat),
            [tools.find_order, tools.refund, mail, tools.ponder, tools.consult, tools.audit],
        )
        client = ScriptedAPI(play.script, asked=partial(note_request, play)).async_client()
        options: dict[str, Any] = {"stream": True} if play.streamed else {}
        running = runner(ledger, client, play.prompt, model="gpt-5", **options)
        return Played(await running.until_done() or "")
