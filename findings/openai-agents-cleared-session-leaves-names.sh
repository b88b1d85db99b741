#!/usr/bin/env bash
# Guess: after `clear_session` no table of an `AdvancedSQLiteSession` names the session any more.
# Package: openai-agents 0.24.0
# Date: 2026-11-28
# Output: messages, their structure and their usage are gone. Two tables go on to name it: one holds a row for
#     each of its branches, the other counts how often it was cleared.
#
#     branch_reservations: 2 rows name it
#     session_clear_generations: 1 rows name it
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q openai-agents==0.24.0

cat >run.py <<'PYTHON'
import asyncio
import sqlite3

from agents.extensions.memory import AdvancedSQLiteSession

NAME = "support-of-ann"


async def main():
    session = AdvancedSQLiteSession(session_id=NAME, db_path="agents.db", create_tables=True)
    await session.add_items(
        [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "And now?"},
        ]
    )
    await session.create_branch_from_turn(2)
    await session.add_items([{"role": "user", "content": "Or so?"}])
    await session.clear_session()
    session.close()


asyncio.run(main())
with sqlite3.connect("agents.db") as file:
    tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    for (table,) in tables.fetchall():
        rows = file.execute(f"SELECT * FROM {table}").fetchall()
        naming = sum(1 for row in rows if NAME in row)
        if naming:
            print(f"{table}: {naming} rows name it")
PYTHON

venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \([a-z_]*: [0-9]* rows name it\)/\1/p' "$here") seen.txt
