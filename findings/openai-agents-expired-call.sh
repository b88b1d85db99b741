#!/usr/bin/env bash
# Guess: a session whose items expire leaves out an output together with its call, so that what it gives is
#     always an input that the API takes.
# Package: openai-agents 0.24.0
# Date: 2026-11-27
# Output: each item expires on its own. A call that is older than the limit is gone, and the output that was
#     added later is given without it.
#
#     while all is fresh: user, function_call, function_call_output
#     when the call has expired: function_call_output
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q openai-agents==0.24.0 cryptography

cat >run.py <<'PYTHON'
import asyncio

from agents import SQLiteSession
from agents.extensions.memory import EncryptedSession

CALL = {"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "paid"}


async def kinds(session):
    items = await session.get_items()
    return ", ".join(item.get("type") or item["role"] for item in items)


async def main():
    session = EncryptedSession("1", SQLiteSession("1"), encryption_key="a key", ttl=6)
    await session.add_items([{"role": "user", "content": "Pay."}, CALL])
    await asyncio.sleep(4)  # the tool takes its time
    await session.add_items([OUTPUT])
    print("while all is fresh:", await kinds(session))
    await asyncio.sleep(4)
    print("when the call has expired:", await kinds(session))


asyncio.run(main())
PYTHON

venv/bin/python run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(wh.*: .*function_call_output\)$/\1/p' "$here") seen.txt
