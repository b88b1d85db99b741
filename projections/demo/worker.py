"""The process of the demo that is killed with -9 in the middle of a call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

import msgspec

from eventstore import Dispatcher, EventStore
from projections.demo.shop import Shop


class Task(msgspec.Struct, frozen=True):
    """The call that a worker runs, and where it stands."""

    url: str
    tenant: str
    conversation_id: str
    call_id: str
    books: str


def run_and_kill(task: Task) -> None:
    """Let another process run a call, and kill it before it can record the result.

    Raises:
        OSError: the process ended before it had called the tool.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(  # noqa: S603 - this program itself
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as worker:
        stdin, stdout = cast("IO[bytes]", worker.stdin), cast("IO[bytes]", worker.stdout)
        stdin.write(msgspec.json.encode(task) + b"\n")
        stdin.flush()
        booked = stdout.readline()
        worker.kill()  # the parcel is booked, and the log does not say so
    if not booked:
        raise OSError(f"the demo's worker could not run (status {worker.returncode})")


def main() -> None:
    """Run the call of the task on standard input, as any worker would."""
    task = msgspec.json.decode(sys.stdin.readline(), type=Task)
    with EventStore.open(task.url, create=False, tenant=task.tenant) as store:
        chat = store.conversation(task.conversation_id)
        tools = Shop(Path(task.books), _wait_to_be_killed).toolbox
        Dispatcher(chat, tools, lease=None).dispatch([task.call_id])


def _wait_to_be_killed() -> None:
    print("booked", flush=True)  # noqa: T201 - the other process reads it
    sys.stdin.read()  # until the other process has ended, at the latest


if __name__ == "__main__":
    main()
