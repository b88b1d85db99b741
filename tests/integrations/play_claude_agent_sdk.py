"""The scenes as the Claude Agent SDK plays them: its own Claude Code asks an API made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    tool,
)
from integrations.claude_model import served
from integrations.scenes import Play, Played, Tools, effects_path, note_request

from eventstore import AsyncEventStore
from eventstore.integrations.claude_agent_sdk import Ledger


def server_of(tools: Tools) -> Any:
    """Return a server of the SDK with the tools of the scenes."""

    def answer(text: str) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": text}]}

    @tool("find_order", "Find an order", {"number": int})
    async def find_order(given: Any) -> dict[str, Any]:
        return answer(tools.find_order(**given))

    @tool("refund", "Refund an order", {"number": int, "amount": float})
    async def refund(given: Any) -> dict[str, Any]:
        return answer(tools.refund(**given))

    @tool("mail", "Send a mail", {"to": str})
    async def mail(given: Any) -> dict[str, Any]:
        return answer(tools.mail(**given))

    @tool("ponder", "Ponder", {"number": int})
    async def ponder(given: Any) -> dict[str, Any]:
        return answer(await tools.ponder(**given))

    @tool("consult", "Consult another agent", {"question": str})
    async def consult(given: Any) -> dict[str, Any]:
        return answer(await tools.consult(**given))

    @tool("audit", "Audit an order", {"number": int})
    async def audit(given: Any) -> dict[str, Any]:
        return answer(json.dumps(tools.audit(**given)))

    own = [find_order, refund, mail, ponder, consult, audit]
    return create_sdk_mcp_server("shop", tools=own)


def options_of(tools: Tools, folder: Path, env: dict[str, str], **more: Any) -> ClaudeAgentOptions:
    """Return options with the tools of the scenes and no others, which all may be used."""
    return ClaudeAgentOptions(
        mcp_servers={"shop": server_of(tools)},
        tools=[],
        setting_sources=[],
        system_prompt="You help.",
        cwd=folder,
        env=env,
        stderr=lambda _: None,  # a pipe of its own, as it may outlive its host
        **more,
    )


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    folder = effects_path(play.url).parent
    asked: list[str] = []
    with served(play.script, folder, asked=asked) as env:
        async with AsyncEventStore.open(play.url, redact=play.rules) as store:
            ledger = Ledger(store.conversation(play.chat), needs_approval=["mcp__shop__mail"])
            allowed = [
                f"mcp__shop__{name}"
                for name in ("find_order", "refund", "mail", "ponder", "consult", "audit")
            ]
            options = options_of(
                tools,
                folder,
                env,
                allowed_tools=allowed,
                include_partial_messages=play.streamed,
            )
            prompt = play.prompt
            run = ledger.resume(options) if prompt is None else ledger.query(prompt, options)
            results = [m async for m in run if isinstance(m, ResultMessage)]
            for request in asked:
                note_request(play, json.loads(request))
            return Played((results[-1].result or "") if results else "")
