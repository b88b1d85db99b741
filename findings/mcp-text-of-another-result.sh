#!/usr/bin/env bash
# Guess: the text of a tool's result is the JSON of its structured content, so that a model which is shown the
#     text knows what a program reads from the other.
# Package: mcp 2.1.1
# Date: 2026-11-28
# Output: the structured content is what the return type makes of the value; the text is the value as the function
#     returned it. A default of the type is in the first only, and what the type does not have, in the second only:
#     it is shown to the model, though the output schema that clients were given does not have it.
#
#     model returned: text {"amount":1,"currency":"EUR"}, structured {"amount":1,"currency":"EUR"}
#     dictionary returned: text {"amount":1}, structured {"amount":1,"currency":"EUR"}
#     one with more in it: text {"amount":1,"card":"5500"}, structured {"amount":1,"currency":"EUR"}
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q mcp==2.1.1

cat >run.py <<'PYTHON'
import asyncio
import json

from mcp import Client
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

server = MCPServer("shop")


class Payment(BaseModel):
    amount: int
    currency: str = "EUR"


@server.tool(name="model returned")
def model() -> Payment:
    return Payment(amount=1)


@server.tool(name="dictionary returned")
def dictionary() -> Payment:
    return {"amount": 1}


@server.tool(name="one with more in it")
def more() -> Payment:
    return {"amount": 1, "card": "5500"}


def compact(value):
    return json.dumps(value, separators=(",", ":"))


async def main():
    async with Client(server) as client:
        for name in ("model returned", "dictionary returned", "one with more in it"):
            result = await client.call_tool(name, {})
            text = compact(json.loads(result.content[0].text))
            print(f"{name}: text {text}, structured {compact(result.structured_content)}")


asyncio.run(main())
PYTHON

venv/bin/python run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*: text .*, structured .*\)/\1/p' "$here") seen.txt
