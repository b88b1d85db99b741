"""What the processes of the torture tests do; each opens a store of its own."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from eventstore import EventStore
from eventstore.errors import IllegalTransition
from eventstore.testing import message

LONG = 10 if os.environ.get("TOOLLEDGER_LONG") else 1
"""How many times as long the torture takes."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["alembic.command", "alembic.config", "eventstore.storage.sqlite", "eventstore.testing"]
)


def spawn(job: Callable[..., object], *args: Any) -> tuple[Any, Connection]:
    """A process that runs `job(*args, pipe)`, and our end of its pipe."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=job, args=(*args, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


@contextmanager
def children(jobs: list[Callable[..., object]]) -> Iterator[list[tuple[Any, Connection]]]:
    """Processes that are all gone at the end, whatever happens."""
    spawned = [spawn(job) for job in jobs]
    try:
        yield spawned
    finally:
        for process, pipe in spawned:
            process.kill()
            process.join()
            pipe.close()


def at_once(jobs: list[Callable[..., object]]) -> list[Any]:
    """Run jobs in processes that begin at one moment; what each sent at last."""
    with children([partial(_when_told, job) for job in jobs]) as spawned:
        for _, pipe in spawned:
            assert pipe.recv() == "ready"
        for _, pipe in spawned:
            pipe.send("go")
        return [pipe.recv() for _, pipe in spawned]


def _when_told(job: Callable[..., Any], pipe: Connection) -> None:
    pipe.send("ready")
    pipe.recv()
    try:
        pipe.send(job())
    except Exception as error:  # noqa: BLE001 - the test looks at it
        pipe.send(error)


def received(pipe: Connection) -> Iterator[Any]:
    """What comes out of the pipe until its other end is gone."""
    while True:
        try:
            yield pipe.recv()
        except (EOFError, ConnectionResetError):
            return


# jobs


def append_without_end(url: str, seed: int, pipe: Connection) -> None:
    """Append, and tell of each event after its append has returned."""
    chance = random.Random(seed)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        number = 0
        while True:
            texts = [f"{seed}.{number + n}" for n in range(chance.choice([1, 1, 1, 3, 20]))]
            number += len(texts)
            padding = "x" * chance.choice([0, 100, 3000])
            recorded = chat.append(*(message(f"{text} {padding}") for text in texts))
            pipe.send([(r.version, text) for r, text in zip(recorded, texts, strict=True)])


def run_calls(url: str, worker: str, count: int) -> int:
    """Run calls from request to result, and say how many."""
    with EventStore.open(url) as store:
        live(store, worker, count)
    return count


def live(store: EventStore, worker: str, count: int) -> None:
    """Some calls of one worker, from request to result, in the one conversation."""
    chat = store.conversation("chat")
    for n in range(count):
        tool = chat.request("work", {"worker": worker, "n": n})
        chat.start(tool.id)
        chat.complete(tool.id, [worker, n])


def start_all(url: str, attempt: int, call_ids: list[str]) -> list[str]:
    """Try to start the attempt of every call; which of them it got."""
    got = []
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        for call_id in call_ids:
            try:
                chat.start(call_id, attempt=attempt)
            except IllegalTransition:
                continue
            got.append(call_id)
    return got


def open_and_append(url: str, worker: int) -> str:
    """Open what may not be there yet, and append; the epoch."""
    with EventStore.open(url) as store:
        store.conversation(f"chat-{worker}").append(message(), message())
        return store.read().cursor.epoch
