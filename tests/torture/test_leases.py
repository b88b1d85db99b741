"""Workers that resume the same conversations are killed and suspended, and their clocks jump."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from support import workers
from support.dispatchers import check_log
from support.tiers import repeated

from eventstore import (
    Conversation,
    CurrentAttempt,
    Dispatcher,
    EventStore,
    FunctionTool,
    Outcome,
    RetryPolicy,
    Tool,
    current_attempt,
)
from eventstore.clock import system_clock
from projections import resume_plan

LEASE = 0.2
"""Seconds; a suspended worker is suspended for longer."""

CHATS = [f"chat-{number}" for number in range(4)]


class Superseded(ConnectionRefusedError):
    """The bank has seen a higher fence: nothing was paid."""


class Bank:
    """An outside system: a file that grows by a line for each payment, and for each fence."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self._chance = chance

    def pay(self, tool: Tool, number: int) -> str:
        """Pay, unless a higher fence was seen."""
        now = attempt_of(tool)
        self._take_a_while()
        with ExitStack() as stack:
            books = self._opened(stack)
            if self._fence(now.idempotency_key) > now.fence:
                raise Superseded(f"attempt {now.fence} was superseded")
            line = f"paid {now.idempotency_key} {now.fence} {tool.id} {number}\n"
            os.write(books, line.encode())
        self._take_a_while()
        return tool.id

    def verify(self, tool: Tool) -> Outcome:
        """Return whether a call was paid; no attempt before the next one can pay from now on."""
        now = attempt_of(tool)
        with ExitStack() as stack:
            books = self._opened(stack)
            os.write(books, f"fence {now.idempotency_key} {now.fence}\n".encode())
            is_paid = self.payments()[tool.id]
        self._take_a_while()
        return Outcome.done(tool.id) if is_paid else Outcome.not_done()

    def payments(self) -> Counter[str]:
        """Return how often each call was paid."""
        return Counter(line[3] for line in self._lines() if line[0] == "paid")

    def _fence(self, key: str) -> int:
        return max((int(line[2]) for line in self._lines() if line[1] == key), default=0)

    def _lines(self) -> list[list[str]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines()]

    def _opened(self, stack: ExitStack) -> int:
        books = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        stack.callback(os.close, books)
        fcntl.flock(books, fcntl.LOCK_EX)
        return books

    def _take_a_while(self) -> None:
        time.sleep(self._chance.random() * LEASE * 2)  # a real tool takes a while

    def tools(self) -> list[FunctionTool[Any, Any]]:
        """Return a tool that can be asked, and one that cannot."""
        retry = RetryPolicy(99, 0.001, 0.001)
        return [
            FunctionTool(self.pay, takes_tool=True, verify=self.verify, retry=retry),
            FunctionTool(self.pay, "pay_blindly", takes_tool=True),
        ]


def attempt_of(tool: Tool) -> CurrentAttempt:
    """Return the current attempt, which is one of this call."""
    attempt = current_attempt()
    assert attempt is not None
    assert attempt.call_id == tool.id
    return attempt


def resume_without_end(url: str, books: str, seed: int, pipe: Connection) -> None:
    """Resume again and again; the clock of the store jumps by up to three leases."""
    chance = random.Random(seed)

    def clock() -> int:
        jump = chance.uniform(-3, 3) * LEASE if chance.random() < 0.2 else 0
        return system_clock() + round(jump * 1_000_000)

    with EventStore.open(url, clock=clock) as store:
        pipe.send("ready")
        while True:
            chat = store.conversation(chance.choice(CHATS))
            Dispatcher(chat, Bank(Path(books), chance).tools(), lease=LEASE).resume()
            time.sleep(chance.random() / 50)


def is_settled(store: EventStore) -> bool:
    """Return whether nothing is left to do but what no worker may do."""
    plan = resume_plan(store.read(), lambda _: False)
    unknown = {step.tool.call.name for step in plan.unknown}
    return not plan.safe and unknown <= {"pay_blindly"}


def disturb(process: Any, chance: random.Random) -> bool:
    """Kill a worker, or suspend it for longer than its lease; return whether it lives."""
    if chance.random() < 0.3:
        process.kill()
        process.join()
        return False
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(LEASE * chance.uniform(5, 10))
    os.kill(process.pid, signal.SIGCONT)
    return True


def test_workers_that_are_killed_and_suspended_pay_once(tmp_path: Path) -> None:
    """No call is paid twice, none is lost, and one that cannot be asked stays in doubt."""
    for seed in range(repeated(3)):
        chance = random.Random(seed)
        url, books = f"sqlite:///{tmp_path / f'{seed}.db'}", tmp_path / f"books-{seed}"
        job = partial(resume_without_end, url, str(books))
        with EventStore.open(url) as store, ExitStack() as stack:
            chats = [store.conversation(name) for name in CHATS]
            calls: list[tuple[Conversation, Tool]] = []
            team = [spawned(stack, job, seed * 100 + number) for number in range(4)]
            for number in range(8):
                names = chance.choices(["pay", "pay", "pay_blindly"], k=len(chats))
                for chat, name in zip(chats, names, strict=True):
                    calls.append((chat, chat.request(name, {"number": number})))
                time.sleep(chance.random() * LEASE)  # a random moment; nothing is waited for
                place = chance.randrange(len(team))
                if not disturb(team[place], chance):
                    team[place] = spawned(stack, job, seed * 100 + 10 + number)
            patience = time.monotonic() + 120
            while not is_settled(store) and time.monotonic() < patience:
                time.sleep(LEASE / 2)
            for process in team:
                process.kill()
                process.join()
            for chat in chats:
                check_log(chat)
            paid = Bank(books, chance).payments()
            assert max(paid.values()) == 1, "nobody paid twice"
            for chat, call in calls:
                now = chat.tool(call.id)
                if now.response is not None:
                    assert paid[call.id] == 1
                else:
                    assert (now.call.name, now.in_doubt) == ("pay_blindly", True), now


def spawned(stack: ExitStack, job: Any, seed: int) -> Any:
    """Start a worker, which ends with the test; return its process when it is at work."""
    ((process, pipe),) = stack.enter_context(workers.children([partial(job, seed)]))
    assert pipe.recv() == "ready"
    return process
