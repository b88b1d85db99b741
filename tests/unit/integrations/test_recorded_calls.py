"""The calls of a conversation by a framework's ids: read, started, and asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from eventstore import (
    AsyncConversation,
    AsyncEventStore,
    Completed,
    Failed,
    FunctionCall,
    IllegalTransition,
    Rejected,
    Running,
    Tool,
)
from eventstore.integrations.recorded_calls import AsyncRecordedCalls
from eventstore.providers.model import ParsedCall

Scene = Callable[[AsyncConversation, AsyncRecordedCalls], Awaitable[None]]

Transition = Callable[[AsyncConversation, str], Awaitable[Any]]


def play(folder: Path, scene: Scene) -> None:
    """Let a scene use the calls of one conversation of a new log."""

    async def main() -> None:
        async with AsyncEventStore.open(f"sqlite:///{folder / 'agent.db'}") as store:
            chat = store.conversation("c")
            await scene(chat, AsyncRecordedCalls(chat, "a-framework"))

    asyncio.run(main())


async def asked(calls: AsyncRecordedCalls, response: str, *call_ids: str) -> list[Tool]:
    """Record a response with calls of these ids of the framework."""
    made = [ParsedCall(each, FunctionCall.of("look", {"at": each}, each)) for each in call_ids]
    return await calls.record(response, (), made, None)


async def found(calls: AsyncRecordedCalls, call_id: str) -> Tool:
    """Return a call that is there, to run it."""
    tool = await calls.find(call_id, as_recorded=True)
    assert tool is not None
    return tool


def test_a_call_that_was_just_recorded_runs_without_a_read(tmp_path: Path) -> None:
    """Its start is decided on the log; no thread that reads was started for it."""

    async def scene(chat: AsyncConversation, calls: AsyncRecordedCalls) -> None:
        reads: list[object] = []
        session: Any = chat.session
        submit = session.executor.submit
        session.executor.submit = lambda function: reads.append(function) or submit(function)
        await asked(calls, "r1", "a", "b")
        for call_id in ("a", "b"):
            async with calls.running(await found(calls, call_id)) as attempt:
                assert attempt is not None
                await attempt.complete(call_id)
        assert await calls.unanswered({"a": "x", "b": "x"}) == {}
        assert reads == []
        assert [tool.attempts for tool in (await chat.tools()).values()] == [1, 1]
        tool = await found(calls, "a")  # the second time it is read
        assert isinstance(tool.status, Completed)

    play(tmp_path, scene)


async def completed(chat: AsyncConversation, call_id: str) -> None:
    """Let another worker run a call to its end."""
    async with chat.running(call_id) as attempt:
        await attempt.complete("done by another")


async def failed(chat: AsyncConversation, call_id: str) -> None:
    """Let another worker run a call that fails."""
    with pytest.raises(ZeroDivisionError):
        async with chat.running(call_id):
            raise ZeroDivisionError


async def paused(chat: AsyncConversation, call_id: str) -> None:
    """Let another worker pause a call until a person decides."""
    async with chat.running(call_id) as attempt:
        await attempt.pause(reason="a person decides")


@pytest.mark.parametrize(
    ("transition", "status"),
    [
        (lambda chat, call_id: chat.reject(call_id, "no"), Rejected),
        (lambda chat, call_id: chat.start(call_id), Running),
        (completed, Completed),
        (failed, Failed),
    ],
    ids=["rejected", "started", "completed", "failed"],
)
def test_a_call_that_changed_since_it_was_recorded_does_not_run(
    tmp_path: Path, transition: Transition, status: type
) -> None:
    """Another was first: there is no attempt, and the call is found as it stands now."""

    async def scene(chat: AsyncConversation, calls: AsyncRecordedCalls) -> None:
        (tool,) = await asked(calls, "r1", "a")
        await transition(chat, tool.id)
        version = await chat.version
        async with calls.running(await found(calls, "a")) as attempt:
            assert attempt is None
        assert await chat.version == version
        now = await found(calls, "a")
        assert isinstance(now.status, status)

    play(tmp_path, scene)


def test_a_call_that_waits_for_a_person_does_not_run(tmp_path: Path) -> None:
    """Neither does one whose arguments a person has changed, before they are looked at."""

    async def scene(chat: AsyncConversation, calls: AsyncRecordedCalls) -> None:
        (tool,) = await asked(calls, "r1", "a")
        fresh = await found(calls, "a")
        await paused(chat, tool.id)
        async with calls.running(fresh) as attempt:
            assert attempt is None
        await chat.approve(tool.id, {"at": "b"}, by="grace")
        async with calls.running(fresh) as attempt:
            assert attempt is None
        async with calls.running(await found(calls, "a")) as attempt:
            assert attempt is not None
            assert (attempt.number, attempt.arguments) == (2, {"at": "b"})
            await attempt.complete("seen")

    play(tmp_path, scene)


def test_a_call_that_an_approval_leaves_as_it_is_runs(tmp_path: Path) -> None:
    """The call is as it was recorded, and no read is needed."""

    async def scene(chat: AsyncConversation, calls: AsyncRecordedCalls) -> None:
        (tool,) = await asked(calls, "r1", "a")
        await chat.approve(tool.id, by="grace")
        async with calls.running(await found(calls, "a")) as attempt:
            assert attempt is not None
            await attempt.complete("seen")
        assert isinstance((await found(calls, "a")).status, Completed)

    play(tmp_path, scene)


def test_a_start_that_the_log_refuses_is_refused(tmp_path: Path) -> None:
    """A call that has not changed since it was read would be found the same again."""

    async def scene(chat: AsyncConversation, calls: AsyncRecordedCalls) -> None:
        (tool,) = await asked(calls, "r1", "a")
        await chat.start(tool.id)
        now = await calls.find("a")
        assert now is not None
        with pytest.raises(IllegalTransition, match="no recorded end"):
            async with calls.running(now):
                raise AssertionError

    play(tmp_path, scene)


def test_an_id_that_a_later_response_uses_again_means_its_call(tmp_path: Path) -> None:
    """The end of the first call says nothing about the second."""

    async def scene(_: AsyncConversation, calls: AsyncRecordedCalls) -> None:
        (first,) = await asked(calls, "r1", "a")
        async with calls.running(await found(calls, "a")) as attempt:
            assert attempt is not None
            await attempt.complete("seen")
        assert await calls.unanswered({"a": "x"}) == {}
        (second,) = await asked(calls, "r2", "a")
        assert second.id != first.id
        assert [tool.id for tool in (await calls.unanswered({"a": "x"})).values()] == [second.id]
        assert (await found(calls, "a")).id == second.id

    play(tmp_path, scene)


@pytest.mark.parametrize("way", ["paused", "failed", "cancelled"])
def test_a_call_is_asked_for_unless_it_ended_here(tmp_path: Path, way: str) -> None:
    """One that pauses waits; an exception ends the attempt, and is raised."""

    async def scene(chat: AsyncConversation, calls: AsyncRecordedCalls) -> None:
        (tool,) = await asked(calls, "r1", "a")
        errors = {"failed": ZeroDivisionError("no"), "cancelled": asyncio.CancelledError()}
        if way == "paused":
            async with calls.running(await found(calls, "a")) as attempt:
                assert attempt is not None
                await attempt.pause()
        else:
            with pytest.raises(type(errors[way])):
                async with calls.running(await found(calls, "a")):
                    raise errors[way]
        waits = await calls.unanswered({"a": "x"})
        assert [*waits] == (["a"] if way == "paused" else [])
        assert (await chat.tool(tool.id)).attempts == 1

    play(tmp_path, scene)


@pytest.mark.parametrize("given", ["store", "chat"])
def test_only_a_conversation_of_the_awaited_store_is_taken(
    request: pytest.FixtureRequest, given: str
) -> None:
    """The error names the store to open."""
    with pytest.raises(TypeError, match="AsyncEventStore"):
        AsyncRecordedCalls(request.getfixturevalue(given), "a-framework")
