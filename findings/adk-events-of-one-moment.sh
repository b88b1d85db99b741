#!/usr/bin/env bash
# Guess: `DatabaseSessionService` gives the events of a session in the order in which they were appended, as
#     `InMemorySessionService` does, whatever their timestamps are.
# Package: google-adk 2.13.0
# Date: 2026-11-27
# Output: it sorts them by time, and events of one moment by their ids, which are random by default. A
#     response that was appended after its call may come before it.
#
#     in memory: call, response
#     in a database: response, call
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q google-adk==2.13.0 sqlalchemy aiosqlite greenlet

cat >run.py <<'PYTHON'
import asyncio

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

CALL = Part(function_call=FunctionCall(id="c", name="pay", args={"amount": 10}))
RESPONSE = Part(function_response=FunctionResponse(id="c", name="pay", response={"paid": 10}))


async def order(service):
    ids = {"app_name": "shop", "user_id": "ann", "session_id": "1"}
    session = await service.create_session(**ids)
    for name, role, part in (("b", "model", CALL), ("a", "user", RESPONSE)):
        content = Content(role=role, parts=[part])
        event = Event(id=name, author="shop", timestamp=1_800_000_000.0, content=content)
        await service.append_event(session, event)
    found = await service.get_session(**ids)
    parts = [event.content.parts[0] for event in found.events]
    return ", ".join("call" if part.function_call else "response" for part in parts)


async def main():
    print("in memory:", await order(InMemorySessionService()))
    print("in a database:", await order(DatabaseSessionService("sqlite+aiosqlite:///adk.db")))


asyncio.run(main())
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(in .*: \(call\|response\), .*\)/\1/p' "$here") seen.txt
