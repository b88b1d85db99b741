"""Recording of streamed responses: chunks pass through, the message is stored at the end.

The rule:

1. Each chunk is handed on as it came, the SDK's own object.
2. When the stream ends, the whole message is recorded, as `Conversation.record` would record the
   same response without streaming. Its calls are in `tools`, pending.
3. If the stream breaks off before the model ended the message (an error, a cancelled task, a loop
   that is left), what came is recorded and marked (`MessageAdded.broken_off`). Its calls fail at
   once with code `broken_off`: the model may not have finished them, so none may run.
4. An error in the stream, and a response that ended without a word, are recorded, too, and
   `ResponseFailed` is raised at the end of the stream, unless the SDK raises its own exception.
5. If nothing came, nothing is recorded.

A loop that is left is noticed when the `with` block ends; without one, when Python frees the
iterator.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Generator, Iterable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
)
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, overload

from eventstore.agent_errors.response_failed import ResponseFailed
from eventstore.aio.conversation import AsyncConversation
from eventstore.conversation import Conversation
from eventstore.domain.arguments import is_seconds
from eventstore.errors import EventStoreError
from eventstore.provider_messages.record import record
from eventstore.providers.streaming import StreamedResponse, streamed_response

if TYPE_CHECKING:
    from types import TracebackType

    from eventstore.append.command import Command
    from eventstore.domain.tool import Tool
    from eventstore.policies.prices import Prices
    from eventstore.providers.registry import AnyProvider

C = TypeVar("C")

Stream: TypeAlias = Iterable[C] | AbstractContextManager[Iterable[C]]
"""What the SDKs give: a stream, or a context manager that opens one."""
AsyncStream: TypeAlias = AsyncIterable[C] | AbstractAsyncContextManager[AsyncIterable[C]]


@overload
def recording(
    stream: Stream[C],
    chat: Conversation,
    provider: AnyProvider = ...,
    *,
    usage: bool = ...,
    requested_at: float | None = ...,
    step: str | None = ...,
) -> RecordedStream[C]: ...
@overload
def recording(
    stream: AsyncStream[C],
    chat: AsyncConversation,
    provider: AnyProvider = ...,
    *,
    usage: bool = ...,
    requested_at: float | None = ...,
    step: str | None = ...,
) -> AsyncRecordedStream[C]: ...
def recording(
    stream: Stream[C] | AsyncStream[C],
    chat: Conversation | AsyncConversation,
    provider: AnyProvider = "openai",
    *,
    usage: bool = True,
    requested_at: float | None = None,
    step: str | None = None,
) -> RecordedStream[C] | AsyncRecordedStream[C]:
    """Return the stream of a response that records the message when it ends.

    `stream` is what an SDK gives: of `create(stream=True)`, or of its `stream(...)`. Iterate over
    the result in its place. In a `with` block, a loop that is left is recorded at once. For an
    `AsyncConversation` the stream is asynchronous. `usage` is as in `Conversation.record`. With
    `requested_at`, what `time.monotonic()` returned right before the request, the latency of a
    response that came to its end is stored, too. `step` is as in `Conversation.record`.

    Raises:
        TypeError: the stream cannot be iterated, is not awaited, or is asynchronous and the
            conversation is not.
        ValueError: streams of the provider are not read, or `requested_at` is not a time of
            `time.monotonic()`.
    """
    response = streamed_response(provider)
    if requested_at is not None and not is_seconds(time.monotonic() - requested_at):
        raise ValueError(
            f"requested_at is {requested_at!r}: pass time.monotonic() of before the request"
        )
    if isinstance(stream, dict):
        raise TypeError("the stream is a dict: pass what it holds, for Bedrock response['stream']")
    if isinstance(chat, Conversation):
        if isinstance(stream, Iterable | AbstractContextManager):
            return RecordedStream(
                stream, chat, provider, response, usage=usage, requested_at=requested_at, step=step
            )
    elif isinstance(stream, AsyncIterable | AbstractAsyncContextManager):
        return AsyncRecordedStream(
            stream, chat, provider, response, usage=usage, requested_at=requested_at, step=step
        )
    raise TypeError(_refusal(stream, chat))


def _refusal(stream: object, chat: Conversation | AsyncConversation) -> str:
    kind = type(stream).__name__
    if isinstance(stream, Awaitable):
        return f"the stream is a {kind}: await it first"
    wanted = "a stream" if isinstance(chat, Conversation) else "an asynchronous stream"
    return f"the stream is a {kind}: pass {wanted} with this {type(chat).__name__}"


class _Outcome:
    """What came of one stream, and the command that records it, once."""

    def __init__(
        self,
        chat_id: str,
        provider: AnyProvider,
        response: StreamedResponse,
        *,
        usage: bool,
        requested_at: float | None,
        step: str | None,
        prices: Prices | None,
    ) -> None:
        self._usage = usage
        self._requested_at = requested_at
        self._step = step
        self._prices = prices
        self._chat_id = chat_id
        self._provider = provider
        self._response = response
        self._ended = False
        self.tools: list[Tool] = []
        """The calls that the message makes, once it is recorded."""
        self._failed: ResponseFailed | None = None  # until it is raised

    @property
    def broken_off(self) -> bool:
        """Whether the stream ended before the model had finished the message."""
        return self._ended and not self._response.is_finished

    def _raise_failure(self, error: BaseException | None) -> None:
        """Raise that the response failed, once, unless the loop ends with another `error`."""
        failed = self._failed
        if failed is not None and error is None:
            self._failed = None
            raise failed

    def _end(self) -> Command[list[Tool]] | None:
        """Return the command that records what came; None if it was recorded, or nothing came."""
        if self._ended:
            return None
        self._ended = True
        came = self._response.response()
        if came is None:
            return None
        broken_off = not self._response.is_finished
        latency = None
        if self._requested_at is not None and not broken_off:
            latency = time.monotonic() - self._requested_at
        return record(
            self._chat_id,
            came,
            self._provider,
            step=self._step,
            usage=self._usage,
            latency=latency,
            prices=self._prices,
            broken_off=broken_off,
        )


class RecordedStream(_Outcome, Generic[C]):
    """A stream whose message is recorded at its end; see `recording`."""

    def __init__(
        self,
        stream: Stream[C],
        chat: Conversation,
        provider: AnyProvider,
        response: StreamedResponse,
        *,
        usage: bool,
        requested_at: float | None,
        step: str | None,
    ) -> None:
        super().__init__(
            chat.id,
            provider,
            response,
            usage=usage,
            requested_at=requested_at,
            step=step,
            prices=chat.session.prices,
        )
        self._chat = chat
        self._stream = stream
        self._source: Iterable[C] | None = None
        self._closing = ExitStack()

    def __enter__(self) -> RecordedStream[C]:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._record(error)
        finally:
            self._closing.__exit__(kind, error, traceback)

    def __iter__(self) -> Generator[C, None, None]:
        try:
            for chunk in self._open():
                self._response.add(chunk)
                yield chunk
        except BaseException as error:
            self._record(error)
            raise
        self._record(None)

    def close(self) -> None:
        """Record what came, and close the stream."""
        self.__exit__(None, None, None)

    def _open(self) -> Iterable[C]:
        if self._source is None:
            stream = self._stream
            if isinstance(stream, AbstractContextManager):
                self._source = self._closing.enter_context(stream)
            else:
                self._source = stream
        return self._source

    def _record(self, error: BaseException | None) -> None:
        command = self._end()
        try:
            if command is not None:
                self.tools = self._chat.session.run(command)
        except ResponseFailed as failed:
            self._failed = failed
        except EventStoreError as unrecorded:
            if error is None:
                raise
            error.add_note(f"what came of the response was not recorded: {unrecorded}")
        self._raise_failure(error)


class AsyncRecordedStream(_Outcome, Generic[C]):
    """A stream whose message is recorded at its end; see `recording`."""

    def __init__(
        self,
        stream: AsyncStream[C],
        chat: AsyncConversation,
        provider: AnyProvider,
        response: StreamedResponse,
        *,
        usage: bool,
        requested_at: float | None,
        step: str | None,
    ) -> None:
        super().__init__(
            chat.id,
            provider,
            response,
            usage=usage,
            requested_at=requested_at,
            step=step,
            prices=chat.session.blocking.prices,
        )
        self._chat = chat
        self._stream = stream
        self._source: AsyncIterable[C] | None = None
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> AsyncRecordedStream[C]:
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._record(error)
        finally:
            await self._closing.__aexit__(kind, error, traceback)

    async def __aiter__(self) -> AsyncGenerator[C, None]:
        try:
            async for chunk in await self._open():
                self._response.add(chunk)
                yield chunk
        except BaseException as error:
            await self._record(error)
            raise
        await self._record(None)

    async def aclose(self) -> None:
        """Record what came, and close the stream."""
        await self.__aexit__(None, None, None)

    async def _open(self) -> AsyncIterable[C]:
        if self._source is None:
            stream = self._stream
            if isinstance(stream, AbstractAsyncContextManager):
                self._source = await self._closing.enter_async_context(stream)
            else:
                self._source = stream
        return self._source

    async def _record(self, error: BaseException | None) -> None:
        command = self._end()
        try:
            if command is not None:
                self.tools = await self._chat.session.run(command)
        except ResponseFailed as failed:
            self._failed = failed
        except EventStoreError as unrecorded:
            if error is None:
                raise
            error.add_note(f"what came of the response was not recorded: {unrecorded}")
        self._raise_failure(error)
