#!/usr/bin/env bash
# Guess: `DBOS.run_step_async` awaits the coroutine that a lambda returns, as it awaits an async function:
#     its type takes any callable that returns a coroutine.
# Package: dbos 3.4.0
# Date: 2026-11-27
# Output: it asks `inspect.iscoroutinefunction` of the callable. What a lambda, or an object with an async
#     `__call__`, returns is never awaited, and cannot be stored. A `functools.partial` is awaited.
#
#     async function: paid
#     partial of it: paid
#     lambda of it: TypeError: cannot pickle 'coroutine' object
#     object with async __call__: TypeError: cannot pickle 'coroutine' object
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q dbos==3.4.0

cat >run.py <<'PYTHON'
import asyncio
from functools import partial

from dbos import DBOS


async def pay():
    return "paid"


class Pay:
    async def __call__(self):
        return "paid"


WAYS = {
    "async function": pay,
    "partial of it": partial(pay),
    "lambda of it": lambda: pay(),
    "object with async __call__": Pay(),
}


@DBOS.workflow()
async def shop(way):
    try:
        return await DBOS.run_step_async({"name": "pay"}, WAYS[way])
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def main():
    DBOS(config={"name": "shop", "system_database_url": "sqlite:///dbos.db", "log_level": "CRITICAL"})
    DBOS.launch()
    for way in WAYS:
        print(f"{way}: {await shop(way)}")
    DBOS.destroy()


asyncio.run(main())
PYTHON
venv/bin/python -W ignore run.py | tee seen.txt
diff <(sed -n 's/^#     \(.*: \(paid\|TypeError\).*\)/\1/p' "$here") seen.txt
