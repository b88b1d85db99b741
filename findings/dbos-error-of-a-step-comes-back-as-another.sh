#!/usr/bin/env bash
# Guess: where a step raised, the workflow that is replayed is given the same error: its type, so that the same
#     `except` takes it, and what it says. One that cannot be stored fails when it is raised first.
# Package: dbos 3.4.0
# Date: 2026-11-28
# Output: an error whose constructor takes other arguments than it hands to `Exception` is stored, and is a
#     `TypeError` when it is read. The workflow that caught it takes another way when it is replayed.
#
#     Refused('no funds'), at first: refunded
#     Refused('no funds'), replayed: refunded
#     Declined(402, 'no funds'), at first: refunded
#     Declined(402, 'no funds'), replayed: ended with TypeError
#     Away(reason='no funds'), at first: refunded
#     Away(reason='no funds'), replayed: ended with TypeError
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q dbos==3.4.0

cat >run.py <<'PYTHON'
import asyncio

from dbos import DBOS, SetWorkflowID


class Refused(Exception):
    """An error as Python has them."""


class Declined(Exception):
    """An error with a number, as clients of an HTTP API have them."""

    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")


class Away(Exception):
    """An error that is built by name."""

    def __init__(self, *, reason):
        super().__init__(reason)


ERRORS = {
    "Refused('no funds')": lambda: Refused("no funds"),
    "Declined(402, 'no funds')": lambda: Declined(402, "no funds"),
    "Away(reason='no funds')": lambda: Away(reason="no funds"),
}


@DBOS.step()
async def pay(told):
    raise ERRORS[told]()


@DBOS.step()
async def refund():
    return "refunded"


@DBOS.workflow()
async def shop(told):
    try:
        return await pay(told)
    except (Refused, Declined, Away):
        return await refund()


async def end(handle):
    try:
        return await handle.get_result()
    except Exception as error:
        return f"ended with {type(error).__name__}"


async def main():
    DBOS(config={"name": "shop", "system_database_url": "sqlite:///dbos.db", "log_level": "CRITICAL"})
    DBOS.launch()
    for told in ERRORS:
        with SetWorkflowID(told):
            print(f"{told}, at first:", await end(await DBOS.start_workflow_async(shop, told)))
        replayed = await DBOS.fork_workflow_async(told, 2)  # from the step behind the one that raised
        print(f"{told}, replayed:", await end(replayed))
    DBOS.destroy()


asyncio.run(main())
PYTHON
venv/bin/python -W ignore run.py 2>errors.txt | tee seen.txt
diff <(sed -n 's/^#     \(.*, \(at first\|replayed\): .*\)/\1/p' "$here") seen.txt
