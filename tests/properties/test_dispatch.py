"""Whatever fails, a dispatched turn leaves each call resolved or open, and a valid log.

Turns have any calls to tools that return, raise anything, are interrupted or never answer, with
gates, hooks, approvers and outside systems that fail, too. The store fails or Ctrl-C comes at any
write, a cancel at any await and at any write, Ctrl-C at any line.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.dispatchers import awaited, check_log
from support.interrupts import interrupt
from support.tiers import examples

import eventstore
from eventstore import (
    Approve,
    AsyncConversation,
    AsyncDispatcher,
    Conversation,
    Dispatcher,
    ErrorKind,
    EventStore,
    Failure,
    FunctionTool,
    Outcome,
    Reject,
    RetryPolicy,
    Skip,
    StoreFull,
    Terminate,
    Tool,
    ToolApproved,
    ToolErrorPolicy,
    ToolErrorTerminal,
    ToolGate,
)
from eventstore.aio.futures import UncancellableFuture
from projections import current_tools, resume_plan

DISPATCH = Path(eventstore.__file__).parent / "dispatch"


class Odd(BaseException):
    """An exception that no code expects."""


# what a tool does in one attempt
DEEDS: dict[str, Callable[[], Any]] = {
    "returns": lambda: "done",
    "gives something odd": lambda: {1j},
    "gives a failure": lambda: Failure(ErrorKind.RATE_LIMIT, "slow down", retry_after=1.0),
    **{
        f"raises {error!r}": lambda error=error: _raise(error)  # type: ignore[misc]
        for error in (
            ConnectionError("reset"),
            PermissionError("no"),
            KeyError("x"),
            TimeoutError("late"),
            ExceptionGroup("two", [KeyError("y")]),
            StopIteration(1),
            StopAsyncIteration(),
            RecursionError(),
            asyncio.CancelledError(),
            KeyboardInterrupt(),
            SystemExit(2),
            GeneratorExit(),
            Odd("odd"),
        )
    },
}

# what a host's own function gives, when it is asked about a call
ANSWERS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "yes": lambda: True,
    "edits": lambda: Approve({"n": 77}),
    "breaks": lambda: Approve({"wrong": 1}),
    "no": lambda: Reject("no"),
    "skips": lambda: Skip("instead"),
    "ends": lambda: Terminate("enough"),
    "nonsense": lambda: "nonsense",
    "raises": lambda: _raise(ConnectionError("host")),
    "interrupts": lambda: _raise(KeyboardInterrupt()),
}
FOUND: dict[str, Callable[[], Any]] = {
    "done": lambda: Outcome.done("verified"),
    "not done": Outcome.not_done,
    "failed": lambda: Outcome.failed("declined"),
    "unknown": lambda: None,
    "nonsense": lambda: 5,
    "raises": lambda: _raise(ConnectionError("outside")),
    "interrupts": lambda: _raise(KeyboardInterrupt()),
}


def _raise(error: BaseException) -> Any:
    raise error


tools = st.fixed_dictionaries(
    {
        "deeds": st.lists(st.sampled_from(sorted(DEEDS)), min_size=1, max_size=3),
        "is_async": st.booleans(),
        "parallel": st.booleans(),
        "retry": st.sampled_from([None, None, RetryPolicy(2), RetryPolicy(3, 0, 0)]),
        "idempotent": st.sampled_from([False, False, True]),
        "needs_approval": st.sampled_from([False, False, True]),
        "abort_siblings": st.sampled_from([False, False, False, True]),
        "found": st.sampled_from([None, *FOUND]),
    }
)
calls = st.lists(
    st.tuples(
        st.sampled_from(["t0", "t0", "t1", "t1", "t2", "unknown"]),
        st.sampled_from([{"n": 1}, {"n": 1}, {"n": 2}, {}, {"wrong": 1}, "{oops"]),
        st.sampled_from(["pending", "pending", "pending", "approved", "edited", "running"]),
    ),
    min_size=1,
    max_size=5,
)
worlds = st.fixed_dictionaries(
    {
        "tools": st.lists(tools, min_size=1, max_size=3),
        "calls": calls,
        "gate": st.sampled_from([None, None, None, "hides", "raises", "interrupts"]),
        "hook": st.sampled_from([None, None, *ANSWERS]),
        "approver": st.sampled_from([None, *ANSWERS]),
        "limit": st.sampled_from([None, None, 0, 1, 2]),
        "policy": st.sampled_from([ToolErrorPolicy.new(), ToolErrorPolicy.operator_safe()]),
        "broken_write": st.sampled_from([None, None, *range(12)]),
        "how": st.sampled_from(["fails", "fails for good", "interrupted", "interrupted after"]),
    }
)


def each_write(chat: Any, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Change how the conversation's commands are run; other conversations keep their session."""
    session = chat.session = copy.copy(chat.session)
    verb = "submit" if isinstance(chat, AsyncConversation) else "run"
    setattr(session, verb, change(getattr(session, verb)))


def full_later() -> UncancellableFuture[Any]:
    """Return the future of a write that fails."""
    future: UncancellableFuture[Any] = UncancellableFuture(loop=asyncio.get_running_loop())
    future.get_loop().call_soon(future.set_result, (None, StoreFull("no space")))
    return future


class World:
    """A host with everything that a turn needs, and a record of the effects of its tools."""

    def __init__(self, plan: dict[str, Any], chat: Conversation) -> None:
        self.plan = plan
        self.chat = chat
        self.runs: Counter[str] = Counter()
        self.deeds: defaultdict[str, list[str]] = defaultdict(list)
        self.at_peace = False
        self.closing = False
        self.gave_up = False
        self.unverified_reruns: list[str] = []
        self.cleared: set[str] = set()
        self.given = [self._request(*call) for call in plan["calls"]]

    def _request(self, name: str, arguments: Any, status: str) -> Tool:
        tool = self.chat.request(name, arguments)
        if status == "approved":  # as an older version approved calls that cannot run, too
            self.chat.append(ToolApproved(tool.id))
            return self.chat.tool(tool.id)
        if status == "edited":
            return self.chat.approve(tool.id, {"n": 9})
        return self.chat.start(tool.id) if status == "running" else tool

    def break_write(self, chat: Any, full: Callable[[], Any]) -> None:
        """Let a write fail as planned; `full` is how it does."""
        number, how = self.plan["broken_write"], self.plan["how"]
        if number is None:
            return
        count = iter(range(1000))

        def broken(write: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any) -> Any:
                now = next(count)
                hit = now == number or (now > number and how == "fails for good")
                if self.at_peace or not hit:
                    return write(*args)
                if how.startswith("fails"):
                    self.gave_up = True
                    return full()
                # Ctrl-C again, while the first is being cleaned up: then nothing more is closed.
                self.gave_up |= self.closing
                if how == "interrupted after":
                    write(*args)
                raise KeyboardInterrupt

            return run

        each_write(chat, broken)

    def dispatcher(self, of: Callable[..., Any], chat: Any) -> Any:
        """Return a dispatcher as planned, which records whether it is cleaning up."""
        dispatcher = of(chat, self.tools(), **self.settings())
        closing = dispatcher._closing

        def noted(*args: Any) -> Any:
            self.closing = True
            return closing(*args)

        dispatcher._closing = noted
        return dispatcher

    def tools(self) -> list[FunctionTool]:
        """Return the tools as planned."""
        return [self._tool(f"t{n}", **spec) for n, spec in enumerate(self.plan["tools"])]

    def _tool(
        self, name: str, *, deeds: list[str], is_async: bool, found: str | None, **spec: Any
    ) -> FunctionTool:
        def begin(tool: Tool, n: int) -> Any:
            doubt = [d for d in self.deeds[tool.id] if _is_doubtful(d)]
            if doubt and not spec["idempotent"] and tool.id not in self.cleared:
                self.unverified_reruns.append(tool.id)
            number = self.runs[tool.id]
            self.runs[tool.id] += 1
            # The log says so before it happens, and with these arguments.
            now = self.chat.tools[tool.id]
            assert now.status.name == "Running"
            assert now.status.arguments == {"n": n}  # type: ignore[union-attr]
            assert now.attempts >= self.runs[tool.id]
            deed = "returns" if self.at_peace else deeds[number % len(deeds)]
            self.deeds[tool.id].append(deed)
            return DEEDS[deed]()

        async def begin_async(tool: Tool, n: int) -> Any:
            try:
                await asyncio.sleep(0)
                result = begin(tool, n)
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.deeds[tool.id].append("raises CancelledError()")
                raise
            return result

        def verify(tool: Tool) -> Any:
            if found == "not done":
                self.cleared.add(tool.id)
            return FOUND[found or "unknown"]()

        return FunctionTool(
            begin_async if is_async else begin,
            name,
            takes_tool=True,
            verify=verify if found and not self.at_peace else None,
            **spec,
        )

    def settings(self) -> dict[str, Any]:
        """Return the options of the dispatcher."""
        plan = self.plan
        chosen: dict[str, Any] = {
            "policy": plan["policy"],
            "max_calls_per_turn": plan["limit"],
            "sleep": lambda _: None,
            "chance": lambda: 0.5,
            "clock": lambda: 0,
        }
        if plan["gate"]:
            chosen["gates"] = [Gate(plan["gate"])]
        if plan["hook"]:
            chosen["hooks"] = [lambda _: ANSWERS[plan["hook"]]()]
        if plan["approver"]:
            chosen["approver"] = lambda _: ANSWERS[plan["approver"]]()
        return chosen

    # what has to hold

    def check(self, error: BaseException | None, done: list[Tool] | None) -> None:
        """Assert that the log is valid and agrees with the effects of the tools."""
        check_log(self.chat)
        now = self.chat.tools
        assert list(now.values()) == list(current_tools(self.chat.events()).values())
        started = {id_ for id_ in now if self._was_running(id_)}
        for id_, tool in now.items():
            self._check_call(tool, error, was_running=id_ in started)
        assert self.unverified_reruns == []
        if done is not None:
            assert done == [now[tool.id] for tool in self.given]
        if isinstance(error, ToolErrorTerminal):
            assert all(t.is_resolved or t.id in started or self._may_wait(t) for t in now.values())

    def _was_running(self, id_: str) -> bool:
        return next(t for t in self.given if t.id == id_).attempts > 0

    def _may_wait(self, tool: Tool) -> bool:
        """Return whether a person in another process has to decide."""
        spec = self.spec(tool)
        asks = spec is not None and spec["needs_approval"] and tool.is_pending
        return bool(asks) and self.plan["approver"] in (None, "nothing")

    def spec(self, tool: Tool) -> dict[str, Any] | None:
        """Return the plan for a call's tool."""
        specs = {f"t{n}": spec for n, spec in enumerate(self.plan["tools"])}
        return specs.get(tool.call.name)

    def _check_call(self, tool: Tool, error: BaseException | None, *, was_running: bool) -> None:
        status: Any = tool.status
        runs, deeds = self.runs[tool.id], self.deeds[tool.id]
        assert runs <= tool.attempts
        if tool.is_pending or status.name in ("Approved", "Rejected"):
            assert runs == 0, "what ran is not said to be waiting, or to be refused"
        if status.name == "Completed" and not status.synthetic and not was_running:
            assert "verified" in str(status.response.result) or deeds
        if status.name == "Failed" and not status.failure.leaves_doubt and not was_running:
            # A known failure is the tool's own, or nothing ran.
            assert not runs or "returns" not in deeds
        if status.name == "Failed" and status.failure.code == "not_run":
            assert runs < tool.attempts, "what ran is not said not to have run"
        if status.name == "Running" and not was_running:
            assert self.gave_up, "nothing else leaves an end unrecorded"
        hosts_fault = isinstance(error, Exception) or (error is not None and self.gave_up)
        if not hosts_fault:
            assert tool.is_resolved or was_running or self._may_wait(tool)

    def peace(self) -> None:
        """Let everything work from now on: no approval is needed and no tool is hidden."""
        self.at_peace = True
        self.plan = {**self.plan, "gate": None, "hook": None, "approver": None, "limit": None}


class Gate(ToolGate):
    """A gate that follows the plan."""

    def __init__(self, plan: str) -> None:
        self.plan = plan

    def allowlist(self, context: Any, /) -> set[str]:
        """Return all names but one, or raise an error."""
        if self.plan == "raises":
            raise ZeroDivisionError
        if self.plan == "interrupts":
            raise KeyboardInterrupt
        return {"t1", "t2"}


def _is_doubtful(deed: str) -> bool:
    return any(name in deed for name in ("Timeout", "Cancelled", "Keyboard", "System", "Generator"))


@pytest.fixture(scope="module")
def store() -> Iterator[EventStore]:
    """Return one store for all worlds; each has its own conversation."""
    with EventStore.open("sqlite://") as store:
        yield store
        assert list(store.verify()) == []


numbers = itertools.count()


@contextlib.contextmanager
def a_world(store: EventStore, plan: dict[str, Any]) -> Iterator[World]:
    """Yield a world, then resume its turn without faults, as a new process."""
    chat = store.conversation(f"chat-{next(numbers)}")
    chat.add_message("user", "go")
    world = World(plan, chat)
    yield world
    world.peace()
    doubtful = {step.id for step in resume_plan(chat.events()).unknown}
    before = Counter(world.runs)
    Dispatcher(chat, world.tools(), **world.settings()).resume()
    check_log(chat)
    for tool in chat.tools.values():
        spec = world.spec(tool)
        if tool.id in doubtful and not (spec and spec["idempotent"]):
            assert world.runs[tool.id] == before[tool.id], "an unknown call was run again"
        elif tool.id not in doubtful:
            assert tool.is_resolved or (spec and spec["needs_approval"] and tool.is_pending)


CANCELS: dict[str, Callable[[asyncio.Task[Any], UncancellableFuture[Any]], object]] = {
    "when asked": lambda task, _: task.cancel(),
    "meanwhile": lambda task, settling: settling.get_loop().call_soon(task.cancel),
    "when done": lambda task, settling: settling.add_done_callback(lambda _: task.cancel()),
}


@settings(max_examples=examples(150))
@given(worlds)
def test_whatever_fails_in_threads_each_call_is_resolved_or_honestly_open(
    store: EventStore, plan: dict[str, Any]
) -> None:
    """The log is valid and agrees with what the tools did."""
    with a_world(store, plan) as world:
        error, done = None, None
        world.break_write(world.chat, lambda: _raise(StoreFull("no space")))
        try:
            done = world.dispatcher(Dispatcher, world.chat).dispatch(world.given)
        except BaseException as raised:  # noqa: BLE001 - any is as good
            error = raised
        world.check(error, done)


@settings(max_examples=examples(150))
@given(
    worlds,
    st.sampled_from([None, *range(12)]),
    st.sampled_from([1, 2]),
    st.none() | st.tuples(st.integers(0, 11), st.sampled_from(sorted(CANCELS))),
)
def test_whatever_fails_in_asyncio_each_call_is_resolved_or_honestly_open(
    store: EventStore,
    plan: dict[str, Any],
    cancel_at: int | None,
    times: int,
    cancelled_write: tuple[int, str] | None,
) -> None:
    """The task may be cancelled at any await or write, once or twice."""

    async def run(world: World) -> list[Tool]:
        chat = awaited(world.chat)
        session = chat.session
        world.break_write(chat, full_later)
        if cancelled_write is not None:
            cancel_write(chat, *cancelled_write)
        dispatcher = world.dispatcher(AsyncDispatcher, chat)

        async def settle() -> list[Tool] | BaseException:
            # Ctrl-C must not tear the loop down under the test
            try:
                return await dispatcher.dispatch(world.given)
            except BaseException as error:  # noqa: BLE001 - raised below
                return error

        task = asyncio.ensure_future(settle())
        for _ in range(cancel_at or 0):
            await asyncio.sleep(0)
        if cancel_at is not None and cancel_at > 0:
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
        done = await task
        # what was asked for has been carried out by then
        await AsyncConversation(session, chat.id).append()
        if isinstance(done, BaseException):
            raise done
        return done

    with a_world(store, plan) as world:
        error, done = None, None
        try:
            done = asyncio.run(run(world))
        except BaseException as raised:  # noqa: BLE001 - any is as good
            error = raised
        world.check(error, done)


def cancel_write(chat: Any, number: int, when: str) -> None:
    """Cancel the task that makes the n-th write."""
    count = iter(range(1000))

    def cancelled(write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            settling = write(*args)
            task = asyncio.current_task()
            if next(count) == number and task is not None:
                CANCELS[when](task, settling)
            return settling

        return run

    each_write(chat, cancelled)


# Ctrl-C at any line


@pytest.mark.parametrize("parallel", [False, True])
def test_an_interrupt_at_any_line_leaves_each_call_resolved_or_honestly_open(
    store: EventStore, parallel: bool
) -> None:
    """Ctrl-C comes while the dispatcher prepares, runs or records.

    No call that ran is recorded as not run.
    """
    ran: list[int] = []

    def work(n: int) -> int:
        ran.append(n)
        return n

    line = 0
    interrupts = 1
    while interrupts:
        line += 1
        ran.clear()
        chat = store.conversation(f"interrupted-{parallel}-{line}")
        chat.add_message("user", "go")
        given = [chat.request("work", {"n": n}) for n in range(2)]
        dispatcher = Dispatcher(chat, [FunctionTool(work, parallel=parallel)])
        dispatch = partial(dispatcher.dispatch, given)
        # No signal is ever delivered at a `try:`.
        interrupts = interrupt(dispatch, line, within=DISPATCH, safe=("try:",))
        for thread in threading.enumerate():
            if thread.name == "dispatch":
                thread.join()
        check_log(chat)
        for n, tool in enumerate(chat.tools.values()):
            assert tool.is_resolved or tool.status.name in ("Pending", "Running")
            if tool.status.name in ("Pending", "Rejected"):
                assert n not in ran
        # `resume` runs what did not, and nothing twice.
        Dispatcher(chat, [work]).resume()
        assert len(set(ran)) == len(ran)
    assert line > 100
