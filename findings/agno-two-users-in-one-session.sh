#!/usr/bin/env bash
# Guess: where two users write in one session, as in a thread of a chat, the history that a run is given has
#     the earlier runs in their order: those of all, or those of its own user.
# Package: agno 3.1.10
# Date: 2026-11-28
# Output: neither. The one who began the session is given all runs, but those of the other are numbered from
#     nought as well, and are put among the first. The other is given none, not even what that user said before.
#
#     ann: 1
#     ann: 1 2
#     bob: 3
#     bob: 4
#     ann: 1 3 4 2 5
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q agno==3.1.10 sqlalchemy aiosqlite greenlet

cat >run.py <<'PYTHON'
import time

from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse


class Fake(Model):
    def __init__(self):
        super().__init__(id="fake", name="fake", provider="fake")
        self.asked = []

    def invoke(self, messages, **kwargs):
        self.asked = [message.content for message in messages if message.role == "user"]
        return ModelResponse(role="assistant", content="Yes.")

    async def ainvoke(self, *args, **kwargs):
        return self.invoke(*args, **kwargs)

    def invoke_stream(self, *args, **kwargs):
        yield self.invoke(*args, **kwargs)

    async def ainvoke_stream(self, *args, **kwargs):
        yield self.invoke(*args, **kwargs)

    def _parse_provider_response(self, response, **kwargs):
        return response

    def _parse_provider_response_delta(self, response):
        return response


for number, user in enumerate(("ann", "ann", "bob", "bob", "ann"), start=1):
    agent = Agent(
        id="helper",
        model=Fake(),
        db=SqliteDb(db_file="agno.db"),
        add_history_to_context=True,
        num_history_runs=10,
        telemetry=False,
    )
    agent.run(str(number), session_id="thread", user_id=user)
    print(f"{user}:", *agent.model.asked)
    time.sleep(1.1)  # its times are whole seconds
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(\(ann\|bob\): .*\)/\1/p' "$here") seen.txt
