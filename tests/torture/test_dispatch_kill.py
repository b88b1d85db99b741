"""Dispatchers are killed in the middle of turns; `resume` repeats no call of unknown outcome."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from support import workers
from support.dispatchers import awaited, check_log
from support.tiers import repeated

from eventstore import (
    AsyncDispatcher,
    Dispatcher,
    EventStore,
    FunctionTool,
    Outcome,
    RetryPolicy,
    Tool,
)
from projections import resume_plan


class Bank:
    """An outside system: a file with a line for each payment, which takes its time."""

    def __init__(self, path: Path, tell: Callable[[str], None] | None = None) -> None:
        self.path = path
        self.tell = tell
        self.turns = threading.Lock()

    def pay(self, tool: Tool, slow: float) -> str:
        """Pay each time that it is called."""
        if self.tell is not None:
            with self.turns:
                self.tell(tool.id)
        time.sleep(slow / 2)  # a real tool takes a while, on both sides of its effect
        with self.path.open("ab") as books:
            books.write(f"{tool.id}\n".encode())
            books.flush()
            os.fsync(books.fileno())
        time.sleep(slow / 2)
        return tool.id

    def flaky(self, tool: Tool, slow: float) -> str:
        """Fail the first time; pay the second."""
        if tool.attempts == 1:
            raise ConnectionRefusedError("refused")
        return self.pay(tool, slow)

    def payments(self) -> Counter[str]:
        """Return how often each call was paid."""
        return Counter(self.path.read_text().split() if self.path.exists() else ())

    def verify(self, tool: Tool) -> Outcome:
        """Return whether a call was paid."""
        return Outcome.done(tool.id) if self.payments()[tool.id] else Outcome.not_done()

    def tools(self, *, verify: bool) -> list[FunctionTool]:
        """Return tools that run alone, in parallel, and with retries."""
        ask = self.verify if verify else None
        return [
            FunctionTool(self.pay, takes_tool=True, verify=ask),
            FunctionTool(self.pay, "pay_beside", takes_tool=True, parallel=True, verify=ask),
            FunctionTool(
                self.flaky, takes_tool=True, verify=ask, retry=RetryPolicy(2, 0.002, 0.002)
            ),
        ]


def dispatch_without_end(url: str, books: str, seed: int, kind: str, pipe: Connection) -> None:
    """Dispatch turn after turn; tell of each payment before it is made, and of each turn after."""
    chance = random.Random(seed)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        tools = Bank(Path(books), pipe.send).tools(verify=False)
        while True:
            before = chat.version
            chat.add_message("user", "pay")
            names = chance.choices(["pay", "pay_beside", "pay_beside", "flaky"], k=4)
            given = [chat.request(name, {"slow": chance.random() / 50}) for name in names]
            if kind == "threads":
                Dispatcher(chat, tools).dispatch(given)
            else:
                import asyncio  # as late as the library does

                asyncio.run(AsyncDispatcher(awaited(chat), tools).dispatch(given))
            pipe.send(workers.notes_of(str(seed), chat, after=before))


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_killed_turn_is_resumed_without_running_anything_twice(tmp_path: Path, kind: str) -> None:
    """The process is killed at random moments, then resumed without `verify` and with it."""
    url, books = f"sqlite:///{tmp_path / 'agent.db'}", tmp_path / "books"
    bank = Bank(books)
    chance = random.Random(kind)
    unknown_seen = 0
    witness = workers.Witness()
    for seed in range(repeated(12)):
        job = partial(dispatch_without_end, url, str(books), seed, kind)
        with workers.children([job]) as ((process, pipe),):
            said = [pipe.recv() for _ in range(chance.randint(1, 6))]
            time.sleep(chance.random() / 100)  # a random moment; nothing is waited for
            process.kill()
            process.join()
            said += workers.received(pipe)
        witness.hear(said)
        with EventStore.open(url) as store:
            witness.look(store)
            unknown_seen += resume(store, bank)
            witness.look(store)
    assert unknown_seen > 0
    with EventStore.open(url) as store:
        tools = store.conversation("chat").tools
    paid = bank.payments()
    assert max(paid.values()) == 1, "nobody paid twice"
    assert {id_ for id_, tool in tools.items() if tool.response} == set(paid)
    assert {tool.status.name for tool in tools.values()} == {"Completed"}


def await_threads(unborn: set[threading.Thread]) -> None:
    """Wait until the dispatcher's threads have ended.

    A thread whose start was interrupted may never begin: it is waited for once, and then counts as
    `unborn`.
    """
    for thread in threading.enumerate():
        if thread.name != "dispatch" or thread in unborn:
            continue
        patience = time.monotonic() + 2
        while thread.ident is None and time.monotonic() < patience:
            time.sleep(0.001)
        if thread.ident is None:
            unborn.add(thread)
        else:
            thread.join()


def dispatch_interrupted(url: str, books: str, rounds: int) -> int:
    """Dispatch turns with Ctrl-C at random moments; return how many were interrupted."""
    chance = random.Random(3)
    bank = Bank(Path(books))
    cut = 0
    witness = workers.Witness()
    unborn: set[threading.Thread] = set()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with EventStore.open(url) as store:
        for number in range(rounds):
            chat = store.conversation(f"chat-{number}")
            chat.add_message("user", "pay")
            names = chance.choices(["pay", "pay_beside", "flaky"], k=4)
            given = [chat.request(name, {"slow": 0.0}) for name in names]
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.02))
                Dispatcher(chat, bank.tools(verify=False)).dispatch(given)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                cut += 1
            await_threads(unborn)
            check_log(chat)
            paid = bank.payments()
            for tool in chat.tools.values():
                assert tool.is_resolved or tool.status.name in ("Pending", "Running")
                if tool.status.name in ("Pending", "Rejected"):
                    assert paid[tool.id] == 0
                if tool.response is not None:
                    assert paid[tool.id] == 1
            resume(store, bank, chat.id)
            witness.hear([workers.notes_of("main", chat)])
        witness.look(store)
    assert max(bank.payments().values()) == 1
    return cut


def test_ctrl_c_inside_a_lock_is_raised_as_ctrl_c(tmp_path: Path) -> None:
    """Python's own locks may raise another error instead."""

    def wait(_: float) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            threading.Lock().release()

    with EventStore.open(f"sqlite:///{tmp_path / 'agent.db'}") as store:
        chat = store.conversation("chat")
        calls = [chat.request("flaky", {"slow": 0.0})]
        with pytest.raises(KeyboardInterrupt):
            Dispatcher(chat, Bank(tmp_path / "books").tools(verify=False), sleep=wait).dispatch(
                calls
            )
        assert chat.tools[calls[0].id].status.name == "Failed"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no signals by timer here")
def test_a_turn_interrupted_at_a_random_moment_pays_once(tmp_path: Path) -> None:
    """The signals are real, in a process without a tracer."""
    url, books = f"sqlite:///{tmp_path / 'agent.db'}", str(tmp_path / "books")
    (cut,) = workers.at_once([partial(dispatch_interrupted, url, books, repeated(60))])
    assert isinstance(cut, int), cut
    assert cut > 0


def resume(store: EventStore, bank: Bank, conversation_id: str = "chat") -> int:
    """Resume in this process; return how many outcomes were unknown."""
    chat = store.conversation(conversation_id)
    check_log(chat)
    unknown = {step.id for step in resume_plan(chat.events()).unknown}
    before = bank.payments()
    Dispatcher(chat, bank.tools(verify=False)).resume()
    after = bank.payments()
    assert all(before[id_] == after[id_] for id_ in unknown), "an unknown call was run again"
    assert {step.id for step in resume_plan(chat.events()).unknown} == unknown
    Dispatcher(chat, bank.tools(verify=True)).resume()
    plan: Any = resume_plan(chat.events())
    assert not plan.unknown
    assert not plan.safe
    check_log(chat)
    return len(unknown)
