#!/usr/bin/env bash
# Guess: once every session of a user is deleted from a `DatabaseSessionService`, its tables hold nothing of that
#     user any more.
# Package: google-adk 2.13.0
# Date: 2026-11-28
# Output: what the sessions wrote under `user:` stays, and the service has no call that deletes it. The
#     user's next session begins with it.
#
#     sessions left: 0
#     the next session knows: {'user:diet': 'no nuts', 'user:name': 'Ann'}
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q google-adk==2.13.0 sqlalchemy aiosqlite greenlet

cat >run.py <<'PYTHON'
import asyncio

from google.adk.events import Event, EventActions
from google.adk.sessions import DatabaseSessionService

USER = {"app_name": "shop", "user_id": "ann"}


async def main():
    service = DatabaseSessionService("sqlite+aiosqlite:///adk.db")
    session = await service.create_session(
        **USER, session_id="1", state={"user:name": "Ann", "basket": "tea"}
    )
    actions = EventActions(state_delta={"user:diet": "no nuts", "step": 2})
    await service.append_event(session, Event(author="shop", invocation_id="i", actions=actions))
    listed = await service.list_sessions(**USER)
    for found in listed.sessions:
        await service.delete_session(**USER, session_id=found.id)
    print("sessions left:", len((await service.list_sessions(**USER)).sessions))
    following = await service.create_session(**USER, session_id="2")
    print("the next session knows:", dict(sorted(following.state.items())))


asyncio.run(main())
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(sessions left\|the next session knows\): .*\)/\1/p' "$here") seen.txt
