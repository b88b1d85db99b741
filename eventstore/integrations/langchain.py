"""LangChain: middleware that records an agent's runs, and gives the next run its history.

    ledger = Ledger(store.conversation("support-42"))
    agent = create_agent(model, tools, middleware=[ledger])

It keeps the rules of `eventstore.integrations.langgraph`. A run whose messages have no response of
the model begins with the history of the log: an agent without a checkpointer continues, too. The
agent's `system_prompt` stays with the agent.

Middleware that stands before it in the list wraps it: a retry there is another attempt of the call.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from eventstore.integrations.extras import missing_extra

try:
    from langchain.agents.middleware import AgentMiddleware, ModelResponse
    from langchain_core.messages import RemoveMessage
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
except ImportError as error:
    raise missing_extra("langchain", error) from error

from eventstore.integrations import langgraph

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentState, ModelRequest
    from langchain_core.messages import AnyMessage
    from langgraph.runtime import Runtime


class Ledger(langgraph.Ledger, AgentMiddleware):
    """Middleware that records every call of an agent in a conversation."""

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a run with the history of the log, where its messages lack it."""
        return _replaced(self._recorded_model.missing_history(state["messages"]))

    async def abefore_agent(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Begin a run; see `before_agent`."""
        missing_history = partial(self._recorded_model.missing_history, state["messages"])
        return _replaced(await self.call_blocking(missing_history))

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Record what the model is asked, and what it answers before any of its tools runs."""
        again, shown = self._recorded_model.ask(request.messages)
        if again is not None:
            return ModelResponse([again])
        requested_at = time.monotonic()
        response = handler(request.override(messages=shown))
        self._recorded_model.record_response(response.result, time.monotonic() - requested_at)
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Record what the model is asked and answers; see `wrap_model_call`."""
        recorded = self._recorded_model
        again, shown = await self.call_blocking(lambda: recorded.ask(request.messages))
        if again is not None:
            return ModelResponse([again])
        requested_at = time.monotonic()
        response = await handler(request.override(messages=shown))
        latency = time.monotonic() - requested_at
        await self.call_blocking(lambda: recorded.record_response(response.result, latency))
        return response


def _replaced(messages: list[AnyMessage] | None) -> dict[str, Any] | None:
    if messages is None:
        return None
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *messages]}
