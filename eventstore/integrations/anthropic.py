"""anthropic: a tool runner that records a conversation, and continues from its log.

    ledger = Ledger(store.conversation("support-42"))
    runner = ledger.tool_runner(client, "Where is my order?", tools=tools, **options)
    message = runner.until_done()

1. The prompt is recorded before the model is asked, each message with its calls before any of them
   runs. A tool runs between the start and the end of an attempt.
2. The runner's messages are the log's. A runner without a prompt continues after a crash, or
   after a decision: the calls of the last turn that may start run first.
3. A turn with a call of a tool in `needs_approval`, or of a definition without a function, ends the
   run. Its other calls run.
4. The SDK checks arguments inside the tool's own call: refused arguments fail an attempt that has
   begun, with kind `validation`.
5. The SDK runs no calls of a message that the server paused. They run all the same, and another
   runner of the SDK continues from the log.
6. A message that failed, or was refused without a word, is recorded, and `ResponseFailed` is
   raised. A runner without a prompt asks again.

6. What the SDK tells the model of a call is kept as it says it, in its form.

The SDK does not tell a tool which call it runs: it is the first open one of the turn with this name
and these arguments.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, cast, overload

from eventstore.aio.conversation import AsyncConversation
from eventstore.append.commands import attempts
from eventstore.conversation import Conversation
from eventstore.domain.statuses import Failed, Pending, Rejected
from eventstore.domain.wording import Wording
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.recorded_calls import (
    RecordedCalls,
    awaited_chat,
    blocking_chat,
    shown_text,
    unknown_tool,
)

try:
    from anthropic import Anthropic, AsyncAnthropic
    from anthropic.lib.tools import (
        BetaAsyncBuiltinFunctionTool,
        BetaAsyncFunctionTool,
        BetaBuiltinFunctionTool,
        BetaFunctionTool,
        ToolError,
    )
    from anthropic.types.beta import BetaMessage

    from eventstore.integrations.anthropic_results import (
        PROVIDER,
        failure_of,
        recorded_result,
        wording_of_error,
    )
except ImportError as error:
    raise missing_extra("anthropic", error) from error

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaFunctionToolResultType
    from anthropic.types.beta import BetaToolUnionParam

    from eventstore.domain.tool import Tool

_RUNNABLE = (BetaFunctionTool, BetaBuiltinFunctionTool)
_ASYNC_RUNNABLE = (BetaAsyncFunctionTool, BetaAsyncBuiltinFunctionTool)


class Ledger:
    """What records the tool runners of a client in a conversation.

    A conversation of an `EventStore` serves an `Anthropic`, one of an `AsyncEventStore` serves an
    `AsyncAnthropic` as well. `needs_approval` names the tools whose calls wait for a decision.
    """

    def __init__(
        self,
        chat: Conversation | AsyncConversation,
        *,
        needs_approval: Collection[str] = (),
        read_only: Collection[str] = (),
    ) -> None:
        self.chat = chat
        self.needs_approval = frozenset(needs_approval)
        self.read_only = frozenset(read_only)

    @overload
    def tool_runner(
        self, client: Anthropic, prompt: str | list[Any] | None = None, **params: Any
    ) -> RecordedRunner: ...
    @overload
    def tool_runner(
        self, client: AsyncAnthropic, prompt: str | list[Any] | None = None, **params: Any
    ) -> AsyncRecordedRunner: ...
    def tool_runner(
        self,
        client: Anthropic | AsyncAnthropic,
        prompt: str | list[Any] | None = None,
        **params: Any,
    ) -> RecordedRunner | AsyncRecordedRunner:
        """Return a runner, as `client.beta.messages.tool_runner` does; `params` are its own.

        Without a prompt it continues after a crash, or after a decision. The model is not asked,
        and nothing is yielded, if it has had the last word.

        Raises:
            TypeError: an `AsyncAnthropic` needs a conversation of an `AsyncEventStore`, or a tool
                cannot be recorded.
            ValueError: `run_tools_eagerly` runs calls before their message is complete.
        """
        if params.get("run_tools_eagerly"):
            raise ValueError("run_tools_eagerly would run a call before it is recorded")
        turn = _Turn(self, params.pop("tools", ()))
        if isinstance(client, AsyncAnthropic):
            return AsyncRecordedRunner(turn, awaited_chat(self.chat), client, prompt, params)
        return RecordedRunner(turn, client, prompt, params)


class RecordedRunner:
    """A tool runner whose messages and calls are recorded: an iterator of messages, or streams."""

    def __init__(
        self, turn: _Turn, client: Anthropic, prompt: str | list[Any] | None, params: dict[str, Any]
    ) -> None:
        self._turn = turn
        self._client = client
        self._prompt = prompt
        self._params = params
        self._tools = [
            _RecordedTool(tool, turn) if isinstance(tool, _RUNNABLE) else _definition(tool)
            for tool in turn.tools
        ]

    def __iter__(self) -> Iterator[Any]:
        if self._prompt is not None:
            self._turn.record_prompt(self._prompt)
        elif (last := self._turn.to_resume()) is None or self._run_open(last):
            return
        while (yield from self._messages()):
            pass

    def _messages(self) -> Generator[Any, None, bool]:
        """Yield the messages of one runner of the SDK; return whether another has to continue."""
        runner = self._client.beta.messages.tool_runner(
            tools=self._tools, **self._turn.params(self._params)
        )
        self._turn.note_request()
        with closing(runner):  # also where a loop over this one is left
            for item in runner:
                if isinstance(item, BetaMessage):
                    message = item
                    calls = self._turn.record(message)
                    yield item
                else:
                    yield item
                    message = item.get_final_message()
                    calls = self._turn.record(message)
                if self._turn.waits(calls):
                    self._run_open(calls)
                    return False
                if self._turn.leaves_open(message, calls):
                    return not self._run_open(calls)
                self._turn.note_request()
        return False

    def until_done(self) -> BetaMessage | None:
        """Run to the end, or to a call that waits for a decision; return the last message.

        None: the model was not asked.
        """
        last: Any = None
        for item in self:
            last = item
        return last if last is None or isinstance(last, BetaMessage) else last.get_final_message()

    def _run_open(self, calls: list[Tool]) -> bool:
        """Run the calls of a turn that may start; return whether others wait for a decision."""
        by_name = {tool.name: tool for tool in self._tools if isinstance(tool, _RecordedTool)}
        for call in self._turn.open(calls):
            if call.call.name in by_name:
                try:
                    by_name[call.call.name].run(call)
                except Exception:
                    if not self._turn.has_no_result(call):
                        raise
        return self._turn.waits(calls)


class AsyncRecordedRunner:
    """`RecordedRunner` for an `AsyncAnthropic`."""

    def __init__(
        self,
        turn: _Turn,
        chat: AsyncConversation,
        client: AsyncAnthropic,
        prompt: str | list[Any] | None,
        params: dict[str, Any],
    ) -> None:
        self._turn = turn
        self._call = chat.session.call
        self._client = client
        self._prompt = prompt
        self._params = params
        self._tools = [
            _AsyncRecordedTool(tool, turn, chat)
            if isinstance(tool, _ASYNC_RUNNABLE)
            else _definition(tool)
            for tool in turn.tools
        ]

    async def __aiter__(self) -> AsyncIterator[Any]:
        prompt = self._prompt
        if prompt is not None:
            await self._call(lambda: self._turn.record_prompt(prompt))
        elif (last := await self._call(self._turn.to_resume)) is None or await self._run_open(last):
            return
        while True:
            continues = False
            params = await self._call(lambda: self._turn.params(self._params))
            runner = self._client.beta.messages.tool_runner(tools=self._tools, **params)
            self._turn.note_request()
            try:
                async for item in runner:
                    if isinstance(item, BetaMessage):
                        message = item
                        calls = await self._record(message)
                        yield item
                    else:
                        yield item
                        message = await item.get_final_message()
                        calls = await self._record(message)
                    if await self._call(partial(self._turn.waits, calls)):
                        await self._run_open(calls)
                        return
                    if await self._call(partial(self._turn.leaves_open, message, calls)):
                        continues = not await self._run_open(calls)
                        break
                    self._turn.note_request()
            finally:
                await runner.close()
            if not continues:
                return

    async def until_done(self) -> BetaMessage | None:
        """Run to the end, or to a call that waits for a decision; return the last message.

        None: the model was not asked.
        """
        last: Any = None
        async for item in self:
            last = item
        if last is None or isinstance(last, BetaMessage):
            return last
        return await last.get_final_message()

    async def _record(self, message: BetaMessage) -> list[Tool]:
        return await self._call(lambda: self._turn.record(message))

    async def _run_open(self, calls: list[Tool]) -> bool:
        """Run the calls of a turn that may start; return whether others wait for a decision."""
        by_name = {tool.name: tool for tool in self._tools if isinstance(tool, _AsyncRecordedTool)}
        for call in await self._call(lambda: self._turn.open(calls)):
            if call.call.name in by_name:
                try:
                    await by_name[call.call.name].run(call)
                except Exception:
                    if not await self._call(partial(self._turn.has_no_result, call)):
                        raise
        return await self._call(lambda: self._turn.waits(calls))


class _RecordedTool(BetaBuiltinFunctionTool):
    """A tool whose calls are recorded."""

    def __init__(self, tool: BetaFunctionTool[Any] | BetaBuiltinFunctionTool, turn: _Turn) -> None:
        self._tool = tool
        self._turn = turn

    def to_dict(self) -> BetaToolUnionParam:
        """Return the tool's definition."""
        return self._tool.to_dict()

    def call(self, input: object) -> BetaFunctionToolResultType:
        """Run a call between its start and its end; one that ran before gives its answer."""
        try:
            return self.run(self._turn.take(self.name, input))
        finally:
            self._turn.note_request()

    def run(self, found: Tool) -> BetaFunctionToolResultType:
        """Run this call, or give its answer if it may not start."""
        if not may_run(found):
            return self._turn.answer(found)
        with self._turn.calls.starts.running(found) as attempt:
            if attempt is None:
                return self.run(self._turn.calls.now(found.id))
            try:
                result = self._tool.call(attempt.arguments)
            except Exception as error:
                failure = failure_of(error)
                attempt.fail(failure, wording=wording_of_error(error, failure, attempt))
                if attempt.tool.in_doubt:
                    return self._turn.answer(attempt.tool)
                raise
            value, wording = recorded_result(result, attempt)
            attempt.complete(value, wording=wording)
            return result


class _AsyncRecordedTool(BetaAsyncBuiltinFunctionTool):
    """`_RecordedTool` for asyncio."""

    def __init__(
        self,
        tool: BetaAsyncFunctionTool[Any] | BetaAsyncBuiltinFunctionTool,
        turn: _Turn,
        chat: AsyncConversation,
    ) -> None:
        self._tool = tool
        self._turn = turn
        self._session = chat.session

    def to_dict(self) -> BetaToolUnionParam:
        """Return the tool's definition."""
        return self._tool.to_dict()

    async def call(self, input: object) -> BetaFunctionToolResultType:
        """Run a call between its start and its end; one that ran before gives its answer."""
        try:
            return await self.run(
                await self._session.call(lambda: self._turn.take(self.name, input))
            )
        finally:
            self._turn.note_request()

    async def run(self, found: Tool) -> BetaFunctionToolResultType:
        """Run this call, or give its answer if it may not start."""
        if not may_run(found):
            return await self._answer(found)
        async with self._turn.calls.starts.running_async(self._session, found) as attempt:
            if attempt is None:
                return await self.run(
                    await self._session.call(lambda: self._turn.calls.now(found.id))
                )
            try:
                result = await self._tool.call(attempt.arguments)
            except Exception as error:
                failure = failure_of(error)
                await attempt.fail(failure, wording=wording_of_error(error, failure, attempt))
                if attempt.tool.in_doubt:
                    return await self._answer(attempt.tool)
                raise
            value, wording = recorded_result(result, attempt)
            await attempt.complete(value, wording=wording)
            return result

    async def _answer(self, tool: Tool) -> BetaFunctionToolResultType:
        return await self._session.call(lambda: self._turn.answer(tool))


class _Turn:
    """The calls of a runner's current turn, in the log. All of it blocks."""

    def __init__(self, ledger: Ledger, tools: Iterable[Any]) -> None:
        self.tools = list(tools)
        self.chat = blocking_chat(ledger.chat)
        self._needs_approval = ledger.needs_approval
        runnable = (*_RUNNABLE, *_ASYNC_RUNNABLE)
        self._runnable = {tool.name for tool in self.tools if isinstance(tool, runnable)}
        self.calls = RecordedCalls(self.chat, PROVIDER, self._needs_approval, ledger.read_only)
        self._untaken: list[Tool] = []
        self._requested_at = time.monotonic()

    def note_request(self) -> None:
        """Note that the model is asked now, unless another tool runs before."""
        self._requested_at = time.monotonic()

    def record_prompt(self, prompt: str | list[Any]) -> None:
        """Record what the model is asked."""
        self.chat.record({"role": "user", "content": prompt}, PROVIDER)

    def params(self, own: dict[str, Any]) -> dict[str, Any]:
        """Return the runner's parameters: the conversation so far, and the host's own."""
        return {**self.calls.request(PROVIDER), **own}

    def record(self, message: BetaMessage) -> list[Tool]:
        """Record a message and its calls, before any of them runs."""
        latency = time.monotonic() - self._requested_at
        self._untaken = self.chat.record(message, PROVIDER, latency=latency)
        names = {_name_of(tool) for tool in self.tools}
        for tool in self._untaken:
            if tool.call.name not in names and isinstance(tool.status, Pending):
                wording = Wording(f"Error: Tool '{tool.call.name}' not found")
                failure = attempts.fail(self.chat.id, tool.id, unknown_tool(tool.call.name))
                self.chat.session.run(failure.worded(wording))
        return list(self._untaken)

    def to_resume(self) -> list[Tool] | None:
        """Return the calls of the last turn; None if the model has had the last word.

        Raises:
            CallUnderWay: another worker executes a call.
        """
        turns = self.calls.turns_to_resume()
        self._untaken = self.calls.last_calls(turns)
        return list(self._untaken) if turns else None

    def open(self, calls: list[Tool]) -> list[Tool]:
        """Return the calls that may start now."""
        tools = self.chat.tools
        now = [tools[call.id] for call in calls]
        return [tool for tool in now if may_run(tool) and not self._waits(tool)]

    def waits(self, calls: list[Tool]) -> bool:
        """Return whether a call waits for a decision."""
        return any(self._waits(self.calls.now(call.id)) for call in calls)

    def leaves_open(self, message: BetaMessage, calls: list[Tool]) -> bool:
        """Return whether the SDK continues, or ends, without the calls of a message that may start.

        It runs only the calls of a message that stopped for its tools. One that the server paused
        may have calls, too.
        """
        return message.stop_reason != "tool_use" and bool(self.open(calls))

    def has_no_result(self, call: Tool) -> bool:
        """Return whether a call's failure or rejection is recorded."""
        return isinstance(self.calls.now(call.id).status, Failed | Rejected)

    def take(self, name: str, given: object) -> Tool:
        """Return the call that the SDK runs, as it stands now: each call of a turn once."""
        given = self.chat.session.covered(given)
        for index, tool in enumerate(self._untaken):
            if tool.call.name == name and tool.call.arguments == given:
                del self._untaken[index]
                return self.calls.now(tool.id)
        raise LookupError(f"the log has no open call of {name!r} with {given!r}")

    def answer(self, tool: Tool) -> BetaFunctionToolResultType:
        """Return the recorded answer of a call.

        Raises:
            ToolError: the answer is an error.
        """
        answer = self.calls.answer(tool)
        content: Any = shown_text(answer)
        if answer.provider == PROVIDER and answer.native is not None and answer.note is None:
            content = answer.native.get("content", content)
        if answer.is_error:
            raise ToolError(content)
        return cast("BetaFunctionToolResultType", content)

    def _waits(self, tool: Tool) -> bool:
        status, name = tool.status, tool.call.name
        if awaits_attempt(tool) and name not in self._runnable:
            return True  # the host answers it
        needs = name in self._needs_approval
        return isinstance(status, Pending) and (needs or status.needs_decision)


def _name_of(tool: Any) -> str | None:
    """Return a tool's name; a server's set of tools has none."""
    return tool.get("name") if isinstance(tool, dict) else str(tool.name)


def _definition(tool: Any) -> Any:
    if isinstance(tool, (dict, *_RUNNABLE, *_ASYNC_RUNNABLE)):
        return tool  # the SDK refuses a tool of the other kind
    raise TypeError(f"{tool!r} cannot be recorded: pass its tools with `beta_tool`")
