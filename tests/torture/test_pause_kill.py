"""Processes are killed in and around pauses; the call waits again, or its outcome is unknown."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
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
    Conversation,
    Dispatcher,
    EventStore,
    FunctionTool,
    Outcome,
    Tool,
)
from projections import pending_approvals, resume_plan

CALL = "call_1"


class NeedsPerson(Exception):
    """The exception by which a framework pauses a tool."""


class Bank:
    """An outside system: a file with a line for each payment, which needs a person's approval."""

    def __init__(self, path: Path, reach: Callable[[str], None] = lambda _: None) -> None:
        self.path = path
        self.reach = reach

    def pay(self, tool: Tool) -> str:
        """Pay each time that it is called for an approved call."""
        if tool.decided_at is None:
            self.reach("before the pause")
            raise NeedsPerson(f"pay {tool.id}?")
        self.reach("before the payment")
        with self.path.open("ab") as books:
            books.write(f"{tool.id}\n".encode())
            books.flush()
            os.fsync(books.fileno())
        self.reach("after the payment")
        return tool.id

    def payments(self) -> Counter[str]:
        """Return how often each call was paid."""
        return Counter(self.path.read_text().split() if self.path.exists() else ())

    def verify(self, tool: Tool) -> Outcome:
        """Return whether a call was paid."""
        return Outcome.done(tool.id) if self.payments()[tool.id] else Outcome.not_done()

    def tools(self, *, verify: bool = False) -> list[FunctionTool[..., Any]]:
        """Return tools that run alone and in parallel."""
        each: dict[str, Any] = {
            "takes_tool": True,
            "verify": self.verify if verify else None,
            "equal_calls": "run",  # each call of a payment is meant
        }
        return [
            FunctionTool(self.pay, **each),
            FunctionTool(self.pay, "pay_beside", parallel=True, **each),
        ]


def run(kind: str, chat: Conversation, bank: Bank, call_ids: list[str]) -> None:
    """Run calls that may pause."""
    with suppress(NeedsPerson):
        if kind == "running":
            for call_id in call_ids:
                with chat.running(call_id, pauses=NeedsPerson) as attempt:
                    attempt.complete(bank.pay(attempt.tool))
        elif kind == "threads":
            Dispatcher(chat, bank.tools(), pauses=NeedsPerson).dispatch(call_ids)
        else:
            dispatcher = AsyncDispatcher(awaited(chat), bank.tools(), pauses=NeedsPerson)
            asyncio.run(dispatcher.dispatch(call_ids))


def live(url: str, books: str, moment: str, kind: str, pipe: Connection) -> None:
    """Let a call pause, be approved and run; at the moment stop, and wait to be killed."""

    def reach(here: str) -> None:
        if here == moment:
            pipe.send(here)
            threading.Event().wait()

    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        bank = Bank(Path(books), reach)
        chat.add_message("user", "pay")
        chat.request("pay", call_id=CALL)
        run(kind, chat, bank, [CALL])
        reach("after the pause")
        if moment == "in the wait":
            pipe.send(moment)
            chat.decision(CALL, timeout=600)
        chat.approve(CALL, by="grace")
        reach("after the decision")
        run(kind, chat, bank, [CALL])
        reach("after the result")


@pytest.mark.parametrize("kind", ["running", "threads", "asyncio"])
@pytest.mark.parametrize(
    ("moment", "action", "paid"),
    [
        ("before the pause", "unknown", 0),
        ("after the pause", "waiting", 0),
        ("in the wait", "waiting", 0),
        ("after the decision", "start", 0),
        ("before the payment", "unknown", 0),
        ("after the payment", "unknown", 1),
        ("after the result", "done", 1),
    ],
)
def test_a_process_that_is_killed_around_a_pause_pays_once(
    tmp_path: Path, kind: str, moment: str, action: str, paid: int
) -> None:
    """The log says what is known, a resume runs nothing else, and the call then goes on."""
    url, bank = f"sqlite:///{tmp_path / 'agent.db'}", Bank(tmp_path / "books")
    with workers.children([partial(live, url, str(bank.path), moment, kind)]) as ((process, pipe),):
        assert pipe.poll(60)
        assert pipe.recv() == moment
        process.kill()
        process.join()
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        (step,) = resume_plan(chat.events(), lambda _: False).steps
        assert (step.action, bank.payments()[CALL]) == (action, paid)
        witness = workers.Witness()
        witness.look(store)
        in_inbox = [approval.call_id for approval in pending_approvals(store)]
        assert in_inbox == ([CALL] if action == "waiting" else [])
        check_log(chat)
        version = chat.version
        Dispatcher(chat, bank.tools(), pauses=NeedsPerson).resume()
        if action != "start":
            assert (chat.version, bank.payments()[CALL]) == (version, paid)
        finish(store, bank)
        assert bank.payments() == {CALL: 1}
        assert chat.tools[CALL].status.name == "Completed"
        witness.look(store)


def finish(store: EventStore, bank: Bank) -> None:
    """Resume with `verify`, as a person approves what is in the inbox, until nothing is open."""
    chat = store.conversation("chat")
    dispatcher = Dispatcher(chat, bank.tools(verify=True), pauses=NeedsPerson)
    for _ in range(2):  # what had not paused does so now
        for waiting in pending_approvals(store):
            chat.approve(waiting.call_id, by="grace")
        with suppress(NeedsPerson):
            dispatcher.resume()
    check_log(chat)


def test_a_decision_after_a_kill_reaches_the_next_process(tmp_path: Path) -> None:
    """A process waits for the decision and is killed; the next one waits in its place."""
    url, bank = f"sqlite:///{tmp_path / 'agent.db'}", Bank(tmp_path / "books")
    job = partial(live, url, str(bank.path), "in the wait", "threads")
    with workers.children([job]) as ((process, pipe),):
        assert pipe.poll(60)
        process.kill()
        process.join()
    with (
        EventStore.open(url) as store,
        workers.children([partial(go_on, url, str(bank.path))]) as ((_, pipe),),
    ):
        assert pipe.poll(60)
        assert pipe.recv() == "waits"
        store.conversation("chat").approve(CALL, by="grace")
        assert pipe.poll(60)
        assert pipe.recv() == ("grace", "Completed")
    assert bank.payments() == {CALL: 1}


def go_on(url: str, books: str, pipe: Connection) -> None:
    """Wait for the decision on the call, then run it."""
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        pipe.send("waits")
        decided: Any = chat.decision(CALL, timeout=60)
        (done,) = Dispatcher(chat, Bank(Path(books)).tools(), pauses=NeedsPerson).dispatch([CALL])
        pipe.send((decided.status.by, done.status.name))


def pause_without_end(url: str, books: str, seed: int, kind: str, pipe: Connection) -> None:
    """Let turn after turn pause, be approved and run; tell of each step, and of each turn after."""
    chance = random.Random(seed)
    with EventStore.open(url) as store:
        chat = store.conversation("chat")
        bank = Bank(Path(books), pipe.send)
        while True:
            before = chat.version
            chat.add_message("user", "pay")
            names = chance.choices(["pay", "pay_beside", "pay_beside"], k=3)
            ids = [chat.request(name).id for name in names]
            run(kind, chat, bank, ids)
            for call_id in ids:
                if chance.random() < 0.8:
                    chat.approve(call_id, by="grace")
            run(kind, chat, bank, ids)
            pipe.send(workers.notes_of(str(seed), chat, after=before))


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_turns_that_pause_and_are_killed_pay_once(tmp_path: Path, kind: str) -> None:
    """The process is killed at random moments; whatever waits has not been paid."""
    url, bank = f"sqlite:///{tmp_path / 'agent.db'}", Bank(tmp_path / "books")
    chance = random.Random(kind)
    seen: Counter[str] = Counter()
    witness = workers.Witness()
    for seed in range(200):
        if seed >= repeated(12) and seen["waiting"] and seen["unknown"]:
            break  # where a random kill lands depends on the machine
        job = partial(pause_without_end, url, str(bank.path), seed, kind)
        with workers.children([job]) as ((process, pipe),):
            said = [pipe.recv() for _ in range(chance.randint(1, 12))]
            time.sleep(chance.random() / 100)  # a random moment; nothing is waited for
            process.kill()
            process.join()
            said += workers.received(pipe)
        witness.hear(said)
        with EventStore.open(url) as store:
            witness.look(store)
            chat = store.conversation("chat")
            check_log(chat)
            plan = resume_plan(chat.events(), lambda _: False)
            seen.update(step.action for step in plan.steps)
            paid = bank.payments()
            assert all(paid[step.id] == 0 for step in [*plan.waiting, *plan.safe])
            inbox = {approval.call_id for approval in pending_approvals(store)}
            assert {step.id for step in plan.waiting} <= inbox
            finish(store, bank)
            assert not resume_plan(chat.events()).unknown
            witness.look(store)
    assert seen["waiting"] > 0
    assert seen["unknown"] > 0
    with EventStore.open(url) as store:
        tools = store.conversation("chat").tools
    paid = bank.payments()
    assert max(paid.values()) == 1
    assert {call_id for call_id, tool in tools.items() if tool.response} == set(paid)
    assert {tool.status.name for tool in tools.values()} == {"Completed"}
