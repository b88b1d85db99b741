"""What the model of an agent-framework agent is asked and answers.

1. A response is recorded with its calls before any of them runs; of a streamed one that is its end.
2. In each request the log answers the calls, right after the message that makes them. So the model
   reads during a run what it reads in the next one, also where the framework hides an error, moves
   a late result to the end, or has no result at all.
3. A call of a tool that does not exist has failed. What the host answers, or refuses, is recorded
   with the request, or the end of the run, that shows it.
4. The ledger asks for the approvals of tools with `approval_mode="always_require"`: the framework
   would let the other calls of the response wait, too.
5. A response that is to be given again answers the next request, in place of the model.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from agent_framework import ChatMiddleware, ChatResponse, FunctionTool, ResponseStream

from eventstore.domain.revision import Revision
from eventstore.integrations.agent_framework_messages import (
    FRAMEWORK,
    calls_in,
    contents_of,
    recorded_parts,
    results_in,
    shown_response,
    stated_facts,
    texts_of,
    with_answers,
)
from eventstore.integrations.host_answers import first_seen, seen_unedited
from eventstore.integrations.recorded_calls import AsyncRecordedCalls, unknown_tool

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Sequence,
    )

    from agent_framework import ChatContext, ChatResponseUpdate, Content, Message

    from eventstore.aio.conversation import AsyncConversation
    from eventstore.domain.tool import Tool
    from eventstore.providers.model import Turn

SEEN: Final = "toolledger_seen"
"""The property of a call that the host is asked about: the revision that was shown."""


class RecordedModel(ChatMiddleware):
    """The requests and the responses of an agent's model, in the log.

    `needs_approval` gets the names of the tools that the framework would ask for approval of.
    """

    def __init__(self, chat: AsyncConversation, needs_approval: set[str], **options: Any) -> None:
        self.chat = chat
        self.needs_approval = needs_approval
        self.calls = AsyncRecordedCalls(
            chat, FRAMEWORK, lambda tool: tool.call.name in needs_approval, **options
        )
        self.replayed: Turn | None = None
        """The response that answers the next request."""
        self._copies: dict[int, tuple[FunctionTool, FunctionTool]] = {}

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Record what the model is asked, and what it answers."""
        options: Any = context.options or {}
        tools = [tool for tool in options.get("tools") or () if isinstance(tool, FunctionTool)]
        await self.record_answers(context.messages)
        self._take_over(tools, options.get("tools"))
        if self.replayed is not None:
            turn, self.replayed = self.replayed, None
            context.result = _again(turn, stream=context.stream)
            return
        if calls_in(context.messages):
            context.messages = with_answers(context.messages, await self.calls.turns())
        config = getattr(context.client, "function_invocation_configuration", {})
        known = {tool.name for tool in (*tools, *(config.get("additional_tools") or ()))}
        provider = getattr(context.client, "OTEL_PROVIDER_NAME", None)
        requested_at = time.monotonic()

        async def record(response: ChatResponse[Any]) -> None:
            await self._record_response(response, provider, time.monotonic() - requested_at, known)

        await call_next()
        if isinstance(context.result, ResponseStream):
            context.result = context.result.with_result_hook(record)
        elif context.result is not None:
            await record(context.result)

    def _take_over(self, tools: Iterable[FunctionTool], offered: Any) -> None:
        """Let the ledger ask for the approvals of tools, in place of the framework: rule 4."""
        for tool in tools:
            if tool.approval_mode != "always_require":
                continue
            self.needs_approval.add(tool.name)
            _, copied = self._copies.get(id(tool)) or (tool, copy.copy(tool))
            copied.approval_mode = "never_require"
            self._copies[id(tool)] = (tool, copied)
            offered[offered.index(tool)] = copied

    async def _record_response(
        self,
        response: ChatResponse[Any],
        provider: object,
        latency: float,
        known: Collection[str],
    ) -> None:
        for call in calls_in(response.messages):
            call.call_id = call.call_id or call.id or f"call_{uuid4().hex}"
        facts = stated_facts(response, provider, latency)
        tools = await self.calls.record(
            uuid4().hex, *recorded_parts(response.messages), responded=facts
        )
        for tool in tools:
            if tool.call.name not in known and not tool.is_resolved:
                await self.chat.fail(tool.id, unknown_tool(tool.call.name))
        self.calls.know(tools)

    async def record_answers(self, messages: Sequence[Message]) -> None:
        """Record answers that no tool gave in a run: the host has run a call, or refused it.

        Raises:
            CallChanged: the call has changed since the host was asked about it.
        """
        results = results_in(messages)
        for call_id, tool in (await self.calls.unanswered(texts_of(results))).items():
            await self._record_answer(tool, results[call_id])

    async def _record_answer(self, tool: Tool, result: Content) -> None:
        text = str(result.result or "")
        if result.exception is None:
            await self.chat.complete(tool.id, text, synthetic=True)
        else:
            await self.chat.reject(tool.id, text, "hook", seen=seen_unedited(tool))

    async def record_refusals(self, messages: Sequence[Message]) -> None:
        """Record which calls the host's answers refuse.

        Raises:
            CallChanged: the call has changed since the host was asked about it.
        """
        for response in contents_of(messages, "function_approval_response"):
            call = response.function_call
            if response.approved or call is None or call.hosted:
                continue
            tool = await self.calls.find(str(call.call_id))
            if tool is not None and not tool.is_resolved:
                await self.chat.reject(tool.id, seen=seen_by_host(tool, call))


def seen_by_host(tool: Tool, asked: Content) -> Revision:
    """Return what a host was asked about a call; without a note, what the model asked for."""
    kept = asked.additional_properties.get(SEEN)
    return first_seen(tool) if kept is None else Revision.parse(str(kept))


def _again(turn: Turn, *, stream: bool) -> Any:
    """Return a recorded response, as a model gives it."""
    response: ChatResponse[Any] = ChatResponse(messages=shown_response(turn))
    if not stream:
        return response

    async def updates() -> AsyncIterator[ChatResponseUpdate]:
        for update in response.to_updates():
            yield update

    return ResponseStream(updates(), finalizer=ChatResponse.from_updates)
