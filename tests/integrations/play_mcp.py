"""The scenes with the tools of an MCP server, in the loop of the openai integration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from integrations.openai_transport import ScriptedAPI
from integrations.scenes import Played, note_request
from mcp import Client
from mcp.server.mcpserver import MCPServer

from eventstore import AsyncEventStore
from eventstore.integrations.mcp import tools_of
from eventstore.integrations.openai import Ledger

if TYPE_CHECKING:
    from integrations.scenes import Play, Tools


async def play(play: Play, tools: Tools) -> Played:
    """Play a scene, or its second half."""
    server = MCPServer("orders")
    for tool in (
        tools.find_order,
        tools.refund,
        tools.mail,
        tools.ponder,
        tools.consult,
        tools.audit,
    ):
        server.add_tool(tool)
    async with (
        AsyncEventStore.open(play.url, redact=play.rules) as store,
        Client(server) as session,
    ):
        own = await tools_of(session, needs_approval=["mail"])
        options: dict[str, Any] = {"stream": True} if play.streamed else {}
        running = Ledger(store.conversation(play.chat), own).responses(
            ScriptedAPI(play.script, asked=partial(note_request, play)).async_client(),
            play.prompt,
            model="gpt-5",
            **options,
        )
        return Played(await running.until_done() or "")
