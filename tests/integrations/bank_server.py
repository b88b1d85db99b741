"""An MCP server over stdio, whose refunds are lines of the file that its argument names."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("bank")


@server.tool()
def refund(number: int) -> str:
    """Refund an order; for order 1 and 2 no answer comes: the server dies, or hangs."""
    with Path(sys.argv[1]).open("a", encoding="utf-8") as effects:
        effects.write(f"{number}\n")
    if number == 1:
        os._exit(1)
    if number == 2:
        time.sleep(3600)
    return f"refunded {number}"


if __name__ == "__main__":
    server.run("stdio")
