"""openai: a tool loop over the Responses or the Chat Completions API, recorded, and resumed.

    ledger = Ledger(store.conversation("support-42"), [find_order])
    text = ledger.responses(client, "Where is my order?", model="gpt-5").until_done()

1. The prompt is recorded before the model is asked, each response with its calls before any of them
   runs. The calls run in a dispatcher: typed arguments, gates, approvals, retries as it has them.
2. The messages of a request are the log's. A runner without a prompt continues after a
   crash, or after a decision: the open calls that may start run first, then the model is asked.
3. A call that waits for a decision ends the run, after the other calls of its response.
4. The calls of a response that was cut off have failed, and the run ends. A response that failed is
   recorded, and `ResponseFailed` is raised; a runner without a prompt asks again.

The SDK's own `ResponsesToolRunner` ends at the first error of a tool, and its checkpoints have no
exception: so the loop is this one.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from eventstore.aio.conversation import AsyncConversation
from eventstore.conversation import Conversation
from eventstore.dispatch import AsyncDispatcher, Dispatcher, Toolbox
from eventstore.domain.finish_reasons import is_of_cut_off_response
from eventstore.domain.messages import Text
from eventstore.domain.statuses import Failed, Pending
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.openai_client_tools import schemas, with_approvals
from eventstore.integrations.recorded_calls import (
    RecordedCalls,
    awaited_chat,
    blocking_chat,
    is_done,
)
from eventstore.responses.streams import recording

try:
    from openai import AsyncOpenAI, OpenAI
except ImportError as error:
    raise missing_extra("openai", error) from error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from eventstore.dispatch.function_tool import Tools
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool

_Provider = Literal["openai", "openai-responses"]


class Ledger:
    """What records the tool loops of a client in a conversation.

    A conversation of an `EventStore` serves an `OpenAI`, one of an `AsyncEventStore` serves an
    `AsyncOpenAI` as well. `tools` and `options` go to a `Dispatcher`.
    """

    def __init__(
        self, chat: Conversation | AsyncConversation, tools: Tools, **options: Any
    ) -> None:
        self.chat = chat
        self.tools = tools
        self.options = options

    @overload
    def responses(
        self, client: OpenAI, prompt: str | list[Any] | None = None, **params: Any
    ) -> RecordedRunner: ...
    @overload
    def responses(
        self, client: AsyncOpenAI, prompt: str | list[Any] | None = None, **params: Any
    ) -> AsyncRecordedRunner: ...
    def responses(
        self,
        client: OpenAI | AsyncOpenAI,
        prompt: str | list[Any] | None = None,
        **params: Any,
    ) -> RecordedRunner | AsyncRecordedRunner:
        """Return a runner over `client.responses.create`; `params` are its own.

        Without a prompt it continues after a crash, or after a decision. The model is not asked,
        and nothing is yielded, if it has had the last word.

        Raises:
            TypeError: an `AsyncOpenAI` needs a conversation of an `AsyncEventStore`.
        """
        return self._runner(client, "openai-responses", prompt, params)

    @overload
    def completions(
        self, client: OpenAI, prompt: str | list[Any] | None = None, **params: Any
    ) -> RecordedRunner: ...
    @overload
    def completions(
        self, client: AsyncOpenAI, prompt: str | list[Any] | None = None, **params: Any
    ) -> AsyncRecordedRunner: ...
    def completions(
        self,
        client: OpenAI | AsyncOpenAI,
        prompt: str | list[Any] | None = None,
        **params: Any,
    ) -> RecordedRunner | AsyncRecordedRunner:
        """Return a runner over `client.chat.completions.create`; see `responses`."""
        return self._runner(client, "openai", prompt, params)

    def _runner(
        self,
        client: OpenAI | AsyncOpenAI,
        provider: _Provider,
        prompt: str | list[Any] | None,
        params: dict[str, Any],
    ) -> RecordedRunner | AsyncRecordedRunner:
        loop = _Loop(self, provider, prompt, params)
        if isinstance(client, AsyncOpenAI):
            return AsyncRecordedRunner(loop, awaited_chat(self.chat), client)
        return RecordedRunner(loop, client)


class RecordedRunner:
    """A tool loop: an iterator of responses, or with `stream=True` of all their chunks."""

    def __init__(self, loop: _Loop, client: OpenAI) -> None:
        self._loop = loop
        self._create = _create(client, loop.provider)
        self._dispatcher = Dispatcher(loop.chat, loop.tools, **loop.options)

    def __iter__(self) -> Iterator[Any]:
        loop = self._loop
        if loop.begins_with_prompt():
            loop.record_prompt()
        else:
            before = loop.version_to_resume()
            if _wait(self._dispatcher.resume()) or loop.is_done(before):
                return
        while True:
            request = loop.request()
            requested_at = time.monotonic()
            answer = self._create(**request)
            if loop.streams:
                with recording(
                    answer, loop.chat, loop.provider, requested_at=requested_at
                ) as stream:
                    yield from stream
                calls = stream.tools
            else:
                calls = loop.record(answer, time.monotonic() - requested_at)
                yield answer
            if not calls or _ended_early(calls) or _wait(self._dispatcher.dispatch(calls)):
                return

    def until_done(self) -> str | None:
        """Run to the end; return the model's last words, or None if a call waits for a decision."""
        for _ in self:
            pass
        return self._loop.last_words()


class AsyncRecordedRunner:
    """`RecordedRunner` for asyncio."""

    def __init__(self, loop: _Loop, chat: AsyncConversation, client: AsyncOpenAI) -> None:
        self._loop = loop
        self._chat = chat
        self._create = _create(client, loop.provider)
        self._dispatcher = AsyncDispatcher(chat, loop.tools, **loop.options)

    async def __aiter__(self) -> AsyncIterator[Any]:
        loop, call = self._loop, self._chat.session.call
        if loop.begins_with_prompt():
            await call(loop.record_prompt)
        else:
            before = await call(loop.version_to_resume)
            if _wait(await self._dispatcher.resume()) or await call(partial(loop.is_done, before)):
                return
        while True:
            request = await call(loop.request)
            requested_at = time.monotonic()
            answer = await self._create(**request)
            if loop.streams:
                async with recording(
                    answer, self._chat, loop.provider, requested_at=requested_at
                ) as stream:
                    async for chunk in stream:
                        yield chunk
                calls = stream.tools
            else:
                latency = time.monotonic() - requested_at
                calls = await call(partial(loop.record, answer, latency))
                yield answer
            if not calls or _ended_early(calls) or _wait(await self._dispatcher.dispatch(calls)):
                return

    async def until_done(self) -> str | None:
        """Run to the end; return the model's last words, or None if a call waits for a decision."""
        async for _ in self:
            pass
        return await self._chat.session.call(self._loop.last_words)


class _Loop:
    """What a loop reads from the log and writes to it, between asking and dispatching."""

    def __init__(
        self,
        ledger: Ledger,
        provider: _Provider,
        prompt: str | list[Any] | None,
        params: dict[str, Any],
    ) -> None:
        self.chat = blocking_chat(ledger.chat)
        self.provider: _Provider = provider
        offered: list[Any] = list(params.get("tools", ()))
        toolbox = with_approvals(Toolbox(ledger.tools), offered)
        self.tools = toolbox
        self.options = ledger.options
        self.streams = bool(params.get("stream"))
        self._prompt = prompt
        own = schemas(toolbox, provider, offered)
        self._params = {**params, "tools": [*own, *offered]}
        if not self._params["tools"]:
            del self._params["tools"]  # the API refuses an empty list
        if self.streams and provider == "openai":
            self._params.setdefault("stream_options", {"include_usage": True})
        self._calls = RecordedCalls(self.chat, provider, toolbox.needs_approval_for)

    def begins_with_prompt(self) -> bool:
        """Return whether there is something to say before the model is asked."""
        return self._prompt is not None

    def version_to_resume(self) -> int:
        """Return the version of the conversation.

        Raises:
            CallUnderWay: another worker executes a call.
        """
        self._calls.check_no_other_worker()
        return self.chat.version

    def is_done(self, version: int) -> bool:
        """Return whether the model has had the last word, and no call has moved since."""
        return self.chat.version == version and is_done(self._calls.turns())

    def record_prompt(self) -> None:
        """Record what the model is asked."""
        self.chat.record({"role": "user", "content": self._prompt}, self.provider)

    def request(self) -> JsonObject:
        """Return the next request: the conversation so far, and the host's own parameters."""
        return {**self._calls.request(self.provider), **self._params}

    def record(self, answer: object, latency: float) -> list[Tool]:
        """Record a response and its calls, before any of them runs."""
        return self.chat.record(answer, self.provider, latency=latency)

    def last_words(self) -> str | None:
        """Return the text of the last response; None if a call of it waits for a decision."""
        turn = self._calls.turns()[-1]
        if turn.role != "assistant":  # the response had no words
            return ""
        tools = self.chat.tools
        if _wait(tools[call.id] for call in turn.calls):
            return None
        return "".join(part.text for part in turn.parts if isinstance(part, Text))


def _wait(calls: Iterable[Tool]) -> bool:
    """Return whether a call waits, for a person or for a time."""
    return any(isinstance(tool.status, Pending) for tool in calls)


def _ended_early(calls: Iterable[Tool]) -> bool:
    """Return whether the response was cut off: its calls have failed."""
    failed = (tool.status for tool in calls if isinstance(tool.status, Failed))
    return any(is_of_cut_off_response(status.failure) for status in failed)


def _create(client: OpenAI | AsyncOpenAI, provider: _Provider) -> Any:
    return cast("Any", client.chat.completions if provider == "openai" else client.responses).create
