"""The asyncio dispatcher: cancellation at any moment, threads, event loops."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest
from support.dispatchers import awaited, last, make, raising, tags

from eventstore import (
    AsyncConversation,
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    Dispatcher,
    ErrorKind,
    EventStore,
    Failed,
    Failure,
    FunctionTool,
    Outcome,
    RetryPolicy,
    Tool,
    ToolFailed,
    ToolGateContext,
    ToolRejected,
)
from eventstore.append.command import Command
from eventstore.storage.interface import Append, AppendOutcome, Storage
from projections import resume_plan

AGENTS = 20
VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


def test_the_dispatcher_takes_its_own_kind_of_conversation(chat: Conversation) -> None:
    """Each dispatcher refuses the other's conversation, and names the remedy."""

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("support-42")
            calls = [await chat.request("add", {"a": n}) for n in range(3)]
            dispatcher = AsyncDispatcher(chat, [add])
            assert dispatcher.conversation is chat
            done = await dispatcher.dispatch(calls)
            assert [tool.response and tool.response.result for tool in done] == [1, 2, 3]
            assert list((await chat.tools()).values()) == done
            with pytest.raises(TypeError, match="AsyncDispatcher takes those of an Async"):
                Dispatcher(chat, [add])  # type: ignore[arg-type]

    asyncio.run(main())
    with pytest.raises(TypeError, match=r"AsyncEventStore\(store\) makes one"):
        AsyncDispatcher(chat, [add])  # type: ignore[arg-type]


def add(a: int) -> int:
    """Return the sum."""
    return a + 1


# commits


class Paced:
    """A storage whose operations each wait for the event loop."""

    def __init__(self, storage: Storage, loop: asyncio.AbstractEventLoop) -> None:
        self.storage = storage
        self.loop = loop
        self.operations = 0

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.storage, name)

        def run(*args: Any) -> Any:
            go_on = threading.Event()
            self.loop.call_soon_threadsafe(go_on.set)
            assert go_on.wait(30), "the loop was held up"
            self.operations += 1
            return operation(*args)

        return run


def test_the_event_loop_runs_during_commits_and_reads() -> None:
    """No commit and no read runs on the loop: each of them waits for it here."""

    def look(events: Any, names: Any) -> ToolGateContext:
        return ToolGateContext(len(list(events)), (), None, names)

    async def main() -> None:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("support-42")
            calls = [await chat.request("add", {"a": n}) for n in range(5)]
            await chat.start(calls[4].id)
            committer = store.session.blocking.committer
            paced = Paced(committer.storage, asyncio.get_running_loop())
            committer.storage = paced  # type: ignore[assignment]
            tools = [
                FunctionTool(add, idempotent=True, needs_approval=lambda tool: tool.index == 1)
            ]
            options: Any = {"approver": lambda _: True, "gate_context": look}
            dispatcher = AsyncDispatcher(chat, tools, **options)
            await dispatcher.offer()
            done = await dispatcher.dispatch([calls[0], calls[1].id])
            assert len(done) == 2
            assert len(await dispatcher.resume()) == 3
            committer.storage = paced.storage
            assert {tool.status.name for tool in (await chat.tools()).values()} == {"Completed"}
            assert paced.operations > 10

    asyncio.run(main())


class Counted:
    """A storage that counts its commits, and waits for permission to commit."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.commits: list[int] = []
        self.may = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def append(self, requests: Sequence[Append]) -> list[AppendOutcome]:
        """Count the commit and store the append."""
        self.commits.append(len(requests))
        assert self.may.wait(30)
        return self.storage.append(requests)


async def until(condition: Callable[[], bool]) -> None:
    """Yield to the event loop until the condition holds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0)


def test_concurrent_agents_share_their_commits() -> None:
    """Appends that wait during a commit share the next one: 40 steps, four commits."""
    barrier = asyncio.Barrier(AGENTS)

    async def meet() -> str:
        if await barrier.wait() == 0:
            storage.may.clear()
        async with barrier:
            return "met"

    async def main() -> None:
        nonlocal storage
        async with AsyncEventStore.open("sqlite://") as store:
            chats = [store.conversation(f"order-{n}") for n in range(AGENTS)]
            calls = [await chat.request("meet") for chat in chats]
            committer = store.session.blocking.committer
            storage = Counted(committer.storage)
            committer.storage = storage  # type: ignore[assignment]
            writer = store.session.writer
            running = asyncio.gather(
                *(
                    AsyncDispatcher(chat, [meet]).dispatch([call])
                    for chat, call in zip(chats, calls, strict=True)
                )
            )
            for steps in (AGENTS, 2 * AGENTS):
                await until(lambda: sum(storage.commits) + len(writer) == steps)  # noqa: B023
                storage.may.set()
            done = [tool for (tool,) in await running]
            assert [tool.response and tool.response.result for tool in done] == ["met"] * AGENTS
            assert sum(storage.commits) == 2 * AGENTS
            assert len(storage.commits) <= 4

    storage: Any = None
    asyncio.run(main())


# cancels


async def cancelled_once(
    dispatch: Coroutine[Any, Any, Any], begun: asyncio.Event, *, times: int = 1
) -> None:
    """Cancel the dispatch once something has begun, and see that it ends as cancelled."""
    task = asyncio.ensure_future(dispatch)
    await begun.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_cancel_is_recorded_and_the_turn_closed(
    chat: Conversation, parallel: bool, times: int, timeout: float | None
) -> None:
    """A call that ran may have taken effect; one that had not started did not run.

    Both are answered.
    """
    calls = [chat.request("endless"), chat.request("endless"), chat.request("add", {"a": 1})]

    async def run() -> None:
        begun = asyncio.Event()

        async def endless() -> None:
            begun.set()
            await asyncio.Event().wait()

        tool = FunctionTool(endless, parallel=parallel, timeout=timeout)
        await cancelled_once(
            AsyncDispatcher(awaited(chat), [tool, add]).dispatch(calls), begun, times=times
        )

    asyncio.run(run())
    expected = ["Failed", "Failed" if parallel else "Rejected", "Rejected"]
    assert [tool.status.name for tool in chat.tools.values()] == expected
    assert last(chat, ToolFailed).failure.code == "cancelled"
    assert last(chat, ToolRejected).by == "cancelled"


def test_a_task_cancelled_before_dispatch_starts_nothing(chat: Conversation) -> None:
    """Every call is rejected, because it did not run."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await AsyncDispatcher(awaited(chat), [add]).dispatch(calls)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert tags(chat) == ["pending", "pending", "rejected", "rejected"]


def test_a_cancel_while_calls_are_looked_up_closes_the_turn(chat: Conversation) -> None:
    """This holds for calls that are passed by id, too."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]

    async def run() -> None:
        shared = awaited(chat)
        executor = shared.session.outside_transaction(chat.id).executor
        submit = executor.submit

        def cancelled(look: Any) -> Any:
            asyncio.get_running_loop().call_soon(task.cancel)
            return submit(look)

        executor.submit = cancelled  # type: ignore[method-assign]
        dispatch = AsyncDispatcher(shared, [add]).dispatch([call.id for call in calls])
        task = asyncio.ensure_future(dispatch)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert tags(chat) == ["pending", "pending", "rejected", "rejected"]


def test_a_cancel_before_the_resume_leaves_calls_that_ran_elsewhere(chat: Conversation) -> None:
    """A call that may have started elsewhere is not rejected; the others are."""
    function = {"name": "add", "arguments": '{"a": 1}'}
    calls = [{"id": "elsewhere", "type": "function", "function": function}]
    chat.record_messages([{"role": "assistant", "tool_calls": calls}], provider="openai")
    chat.request("add", {"a": 1})

    async def run() -> None:
        dispatcher = AsyncDispatcher(awaited(chat), [add])
        finish = dispatcher._finish

        def cancelled(*args: Any) -> Any:
            asyncio.get_running_loop().call_soon(task.cancel)
            return finish(*args)

        dispatcher._finish = cancelled  # type: ignore[method-assign]
        task = asyncio.ensure_future(dispatcher.resume())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert [tool.status.name for tool in chat.tools.values()] == ["Pending", "Rejected"]


def stepwise(chat: Conversation, number: int) -> tuple[AsyncConversation, list[asyncio.Task[Any]]]:
    """Return the conversation, and the list of tasks to cancel during its n-th write."""
    shared = awaited(chat)
    tasks: list[asyncio.Task[Any]] = []
    count = itertools.count()
    session = shared.session.outside_transaction(chat.id)
    submit = session.submit

    def cancelled(command: Command[Any]) -> Any:
        future = submit(command)
        if next(count) == number:
            for task in tasks:
                asyncio.get_running_loop().call_soon(task.cancel)
        return future

    session.submit = cancelled  # type: ignore[method-assign]
    return shared, tasks


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, ["pending", "pending", "running", "failed", "rejected"]),
        (1, ["pending", "pending", "running", "completed", "rejected"]),
        (2, ["pending", "pending", "running", "completed", "running", "failed"]),
        (3, ["pending", "pending", "running", "completed", "running", "completed"]),
    ],
)
def test_a_cancel_while_a_step_is_recorded_takes_effect_after_it(
    chat: Conversation, number: int, expected: list[str]
) -> None:
    """A call that started and did not run says so; one that did its work is completed."""
    calls = [chat.request("add", {"a": 1}), chat.request("add", {"a": 1})]
    runs: list[int] = []

    def note(a: int) -> None:
        runs.append(a)

    async def run() -> None:
        shared, tasks = stepwise(chat, number)
        dispatcher = AsyncDispatcher(shared, {"add": note})
        tasks.append(asyncio.ensure_future(dispatcher.dispatch(calls)))
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]

    asyncio.run(run())
    assert tags(chat) == expected
    assert len(runs) == expected.count("completed")
    if "failed" in expected:
        assert last(chat, ToolFailed).failure.code == "not_run"
        assert resume_plan(chat.events()).unknown == []


def test_a_result_that_came_just_before_the_cancel_is_recorded(chat: Conversation) -> None:
    """The thread had ended, but its result was not received yet."""
    slow = Slow()

    async def run() -> None:
        task = asyncio.ensure_future(
            AsyncDispatcher(awaited(chat), [FunctionTool(slow)]).dispatch([chat.request("slow")])
        )
        await until(lambda: slow.thread is not None)
        asyncio.get_running_loop().call_soon(slow.end)  # its answer is the next thing to come,
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(task.cancel)  # and this comes after it
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    threads_ended()
    (tool,) = chat.tools.values()
    assert tool.status.name == "Completed"


def test_a_cancel_during_the_wait_makes_no_last_attempt(chat: Conversation) -> None:
    """The failure stays, with the announced delay that `resume` can use."""
    begun = []

    async def run() -> None:
        waiting = asyncio.Event()

        async def sleep(_: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        spec = FunctionTool(raising(ConnectionRefusedError()), "bad", retry=RetryPolicy(5, 60, 60))
        dispatcher = AsyncDispatcher(awaited(chat), [spec], sleep=sleep)
        await cancelled_once(dispatcher.dispatch([chat.request("bad")]), waiting)
        begun.append(1)

    asyncio.run(run())
    assert begun
    assert tags(chat) == ["pending", "running", "failed"]
    assert last(chat, ToolFailed).delay is not None


def test_a_cancel_during_the_approver_closes_the_turn(chat: Conversation) -> None:
    """The call is rejected, because its question is lost."""

    async def run() -> None:
        asked = asyncio.Event()

        async def approver(tool: Tool) -> None:
            asked.set()
            await asyncio.Event().wait()

        dispatcher = AsyncDispatcher(
            awaited(chat), [FunctionTool(add, needs_approval=True)], approver=approver
        )
        await cancelled_once(dispatcher.dispatch([chat.request("add", {"a": 1})]), asked)

    asyncio.run(run())
    assert tags(chat) == ["pending", "rejected"]


def test_a_cancel_during_verify_leaves_the_outcome_unknown(
    chat: Conversation,
) -> None:
    """The interrupted check adds nothing to the log."""
    call = chat.request("add", {"a": 1})
    chat.start(call.id)

    async def run() -> None:
        asked = asyncio.Event()

        async def verify(tool: Tool) -> Outcome:
            asked.set()
            await asyncio.Event().wait()
            return Outcome.unknown()

        dispatcher = AsyncDispatcher(awaited(chat), [FunctionTool(add, verify=verify)])
        await cancelled_once(dispatcher.resume(), asked)

    asyncio.run(run())
    assert tags(chat) == ["pending", "running"]


def test_a_tool_that_ignores_the_cancel_is_completed(chat: Conversation) -> None:
    """Its result is real; a task that swallows a cancel goes on, as always in asyncio."""
    begun = asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    async def run() -> list[Tool]:
        calls = [chat.request("stubborn"), chat.request("add", {"a": 1})]
        task = asyncio.ensure_future(
            AsyncDispatcher(awaited(chat), [stubborn, add]).dispatch(calls)
        )
        await begun.wait()
        task.cancel()
        return await task

    done = asyncio.run(run())
    assert [tool.status.name for tool in done] == ["Completed", "Completed"]


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_tool_that_raises_cancelled_error_fails_alone(chat: Conversation, kind: str) -> None:
    """The call has failed, and the run is not cancelled."""

    async def awaits_cancelled() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    calls = [chat.request("awaits_cancelled"), chat.request("add", {"a": 1})]
    done = make(kind, chat, [awaits_cancelled, add]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Failed", "Completed"]
    assert done[0].status.failure.code == "cancelled"


def test_a_failure_may_cancel_concurrent_siblings(chat: Conversation) -> None:
    """The sibling gets the cancel, both fail, and the run goes on."""
    saw: list[str] = []

    async def run() -> list[Tool]:
        here = asyncio.Event()

        async def sibling() -> None:
            here.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                saw.append("cancel")
                raise

        async def bad() -> None:
            await here.wait()
            raise KeyError("x")

        tools = [
            FunctionTool(sibling, parallel=True),
            FunctionTool(bad, parallel=True, abort_siblings=True),
            add,
        ]
        calls = [chat.request("sibling"), chat.request("bad"), chat.request("add", {"a": 1})]
        return await AsyncDispatcher(awaited(chat), tools).dispatch(calls)

    done = asyncio.run(run())
    assert saw == ["cancel"]
    assert [tool.status.name for tool in done] == ["Failed", "Failed", "Rejected"]
    assert isinstance(done[0].status, Failed)
    assert done[0].status.failure.code == "cancelled"


def test_a_sibling_waiting_for_the_parallel_limit_never_starts(chat: Conversation) -> None:
    """With `max_parallel=1`, the second still waits when the first fails."""

    async def bad() -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    tool = FunctionTool(bad, parallel=True, abort_siblings=True)
    calls = [chat.request("bad"), chat.request("bad")]
    done = asyncio.run(AsyncDispatcher(awaited(chat), [tool], max_parallel=1).dispatch(calls))
    assert [tool.status.name for tool in done] == ["Failed", "Rejected"]


class Slow:
    """A tool that ends on demand, long after the wait for it."""

    __name__ = "slow"

    def __init__(self, result: Any = "late") -> None:
        self.result = result
        self.release = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> Any:
        """Block until the test releases the tool; return or raise its result."""
        self.thread = threading.current_thread()
        self.release.wait(30)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def end(self) -> None:
        """Release the tool and wait for its thread."""
        self.release.set()
        assert self.thread is not None
        self.thread.join()


def threads_ended() -> None:
    """Wait until the dispatchers' threads have ended."""
    while working := [one for one in threading.enumerate() if one.name == "dispatch"]:
        for thread in working:
            thread.join()


late_ends = pytest.mark.parametrize(
    ("result", "status"),
    [("late", "Completed"), (KeyError("x"), "Failed"), (Failure(ErrorKind.QUOTA, "x"), "Failed")],
)


@late_ends
@pytest.mark.parametrize("where", ["threads", "asyncio", "loop is gone"])
def test_a_result_that_comes_after_the_timeout_is_recorded(
    chat: Conversation, where: str, result: Any, status: str
) -> None:
    """The tool did its work all the same; a late error changes nothing."""
    slow = Slow(result)
    spec = FunctionTool(slow, timeout=0.01)

    async def run(dispatcher: AsyncDispatcher) -> None:
        await dispatcher.dispatch([chat.request("slow")])
        if where == "asyncio":
            slow.end()
            await asyncio.sleep(0)  # here comes the late answer

    if where == "threads":
        Dispatcher(chat, [spec]).dispatch([chat.request("slow")])
    else:
        asyncio.run(run(AsyncDispatcher(awaited(chat), [spec])))
    assert tags(chat)[-1] == "failed" or where == "asyncio"
    slow.end()
    threads_ended()
    (tool,) = chat.tools.values()
    assert tool.status.name == status
    assert tags(chat)[:3] == ["pending", "running", "failed"]


def test_a_result_that_comes_after_the_loop_is_closed_is_recorded(chat: Conversation) -> None:
    """Its task was neither cancelled nor awaited to its end; the thread records the result."""
    begun, slow = threading.Event(), Slow()

    def pay() -> Any:
        begun.set()
        return slow()

    call = chat.request("pay")
    loop = asyncio.new_event_loop()
    task = loop.create_task(AsyncDispatcher(awaited(chat), [pay]).dispatch([call]))
    loop.run_until_complete(asyncio.wait_for(loop.run_in_executor(None, begun.wait), 60))
    loop.close()
    assert chat.tool(call.id).status.name == "Running"
    slow.end()
    threads_ended()
    assert chat.tool(call.id).status.name == "Completed"
    assert not task.done()
    del task
    gc.collect()  # nothing is raised where the task is thrown away
    assert tags(chat) == ["pending", "running", "completed"]


def test_a_result_that_comes_after_the_store_is_closed_is_lost() -> None:
    """No error is raised."""
    slow = Slow()
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        Dispatcher(chat, [FunctionTool(slow, timeout=0.01)]).dispatch([chat.request("slow")])
    slow.end()


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("timeout", [None, 30.0])
def test_tools_see_the_callers_context(
    chat: Conversation, parallel: bool, timeout: float | None
) -> None:
    """Context variables are copied into the threads and loops that run tools."""

    def look() -> str:
        return VARIABLE.get()

    async def look_async() -> str:
        return VARIABLE.get()

    tools = [FunctionTool(f, parallel=parallel, timeout=timeout) for f in (look, look_async)]
    VARIABLE.set("seen")
    for number in range(2):
        calls = [chat.request(name) for name in ("look", "look_async")]
        if number:
            done = asyncio.run(AsyncDispatcher(awaited(chat), tools).dispatch(calls))
        else:
            done = Dispatcher(chat, tools).dispatch(calls)
        assert [tool.response.result for tool in done if tool.response] == ["seen", "seen"]


def test_async_tools_run_without_a_loop_and_beside_one(chat: Conversation) -> None:
    """The blocking dispatcher uses its own event loop, also inside another one."""

    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    def run() -> Any:
        (done,) = Dispatcher(chat, [double]).dispatch([chat.request("double", {"n": 4})])
        return done.response and done.response.result

    async def inside() -> Any:
        return run()

    assert run() == 8
    assert asyncio.run(inside()) == 8


def test_a_plain_function_may_return_an_awaitable(chat: Conversation) -> None:
    """Both dispatchers await it."""

    async def later() -> int:
        return 5

    tools: dict[str, Callable[[], Awaitable[int]]] = {"later": lambda: later()}  # noqa: PLW0108
    (one,) = Dispatcher(chat, tools).dispatch([chat.request("later")])
    (two,) = asyncio.run(AsyncDispatcher(awaited(chat), tools).dispatch([chat.request("later")]))
    assert one.response is not None
    assert two.response is not None
    assert one.response.result == two.response.result == 5


def test_async_hooks_and_verifiers_are_awaited(chat: Conversation) -> None:
    """Both dispatchers await hooks and verifiers that are async."""
    asked: list[str] = []

    async def hook(tool: Tool) -> None:
        asked.append("hook")

    async def verify(tool: Tool) -> Outcome:
        asked.append("verify")
        return Outcome.done(1)

    spec = FunctionTool(raising(TimeoutError()), "slow", verify=verify)
    Dispatcher(chat, [spec], hooks=[hook]).dispatch([chat.request("slow")])
    asyncio.run(
        AsyncDispatcher(awaited(chat), [spec], hooks=[hook]).dispatch([chat.request("slow")])
    )
    assert asked == ["hook", "verify"] * 2


def test_waits_may_be_awaited(chat: Conversation) -> None:
    """An async `sleep` is awaited between two attempts."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    spec = FunctionTool(raising(ConnectionRefusedError()), "bad", retry=RetryPolicy(2, 1, 1))
    dispatcher = AsyncDispatcher(awaited(chat), [spec], sleep=sleep, chance=lambda: 1.0)
    asyncio.run(dispatcher.dispatch([chat.request("bad")]))
    assert waits == [1.0]


def test_a_short_wait_passes(chat: Conversation) -> None:
    """The dispatcher waits by itself if the host gives no `sleep`."""
    spec = FunctionTool(
        raising(ConnectionRefusedError()), "bad", retry=RetryPolicy(2, 0.001, 0.001)
    )
    asyncio.run(AsyncDispatcher(awaited(chat), [spec]).dispatch([chat.request("bad")]))
    Dispatcher(chat, [spec]).dispatch([chat.request("bad")])
    assert [tool.attempts for tool in chat.tools.values()] == [2, 2]
