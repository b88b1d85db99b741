"""openai-agents: a session that records an agent's runs, and gives the next run its history.

    ledger = Ledger(store.conversation("support-42"))
    result = await ledger.run(agent, "Where is my order?")

1. A copy of the agent runs: `openai_agents_copies` says what is recorded of it, and
   `openai_agents_log` how.
2. A decision in the log (`chat.approve`, `chat.reject`) is what `resume` continues with.
3. `resume` gives the SDK the recorded response again, so that the SDK itself runs the calls that
   are open. Calls with a recorded answer do not run again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from eventstore.aio.conversation import AsyncConversation
from eventstore.domain.statuses import Rejected
from eventstore.integrations.call_starts import awaits_attempt
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.recorded_calls import id_in_framework
from eventstore.providers.openai_responses.client_items import id_of_call, id_of_output
from eventstore.providers.openai_responses.shapes import PAIRED
from eventstore.providers.sdk_objects import member

try:
    from agents import Agent, ModelResponse, RunConfig, Runner, Usage
    from agents.memory import SessionABC
    from openai.types.responses import ResponseOutputItem
    from pydantic import TypeAdapter

    from eventstore.integrations.openai_agents_copies import RecordedAgents
    from eventstore.integrations.openai_agents_log import PROVIDER, RunLog
except ImportError as error:
    raise missing_extra("openai-agents", error) from error

if TYPE_CHECKING:
    from agents import RunResult, RunResultStreaming
    from agents.run_config import ToolErrorFormatterArgs

    from eventstore.domain.json_types import JsonObject
    from eventstore.providers.model import Turn


class Ledger(SessionABC):
    """A session of openai-agents that records every call of an agent in a conversation.

    `chat` is a conversation of an `AsyncEventStore`.

    Raises:
        TypeError: `chat` is a conversation of an `EventStore`.
    """

    def __init__(self, chat: AsyncConversation, *, read_only: Collection[str] = ()) -> None:
        self._log = RunLog(chat, read_only)
        self.chat = chat
        self.session_id = chat.id
        self.session_settings = None
        self._history: list[JsonObject] | None = None  # what comes before the replayed calls

    async def run(self, agent: Agent[Any], prompt: str | list[Any], **options: Any) -> RunResult:
        """Run an agent, as `Runner.run` does; `options` are its own.

        Raises:
            ValueError: `session` is another than this ledger.
        """
        return await Runner.run(self.wrapped(agent), prompt, **self._arguments(options))

    def run_streamed(
        self, agent: Agent[Any], prompt: str | list[Any], **options: Any
    ) -> RunResultStreaming:
        """Run an agent, as `Runner.run_streamed` does."""
        return Runner.run_streamed(self.wrapped(agent), prompt, **self._arguments(options))

    async def resume(self, agent: Agent[Any], **options: Any) -> RunResult | None:
        """Continue an agent after a crash, or after a decision.

        The calls of the last turn that may start run first. Then the model is asked. A result with
        `interruptions` waits for a person still. None if the model has had the last word: nothing
        is done.

        Raises:
            CallUnderWay: another worker executes a call; nothing is done.
        """
        turns = await self._log.calls.turns_to_resume()
        if not turns:
            return None
        await self._prepare_replay(turns)
        wrapped, arguments = self.wrapped(agent), self._arguments(options)
        try:
            result = await Runner.run(wrapped, [], **arguments)
        finally:
            self._log.replayed = self._history = None
        while result.interruptions:
            state = result.to_state()
            decided = False
            for waiting in result.interruptions:
                tool = await self._log.calls.find(str(member(waiting.raw_item, "call_id")))
                if tool is None:
                    continue
                if await self._log.calls.is_approved(tool):
                    state.approve(waiting)
                    decided = True
                elif isinstance(tool.status, Rejected):
                    said = await self._log.output(tool)
                    state.reject(waiting, rejection_message=str(said))
                    decided = True
            if not decided:
                break
            result = await Runner.run(wrapped, state, **arguments)
        return result

    async def _prepare_replay(self, turns: Sequence[Turn]) -> None:
        """Let the next request be answered with the open calls of the last response, if any are."""
        calls = self._log.calls
        open_ids = {
            id_in_framework(tool) for tool in await calls.last_calls(turns) if awaits_attempt(tool)
        }
        if not open_ids:
            return
        known = await calls.items(PROVIDER, turns[-1].version)
        history, output = list(known), []
        for item in (await calls.items(PROVIDER))[len(known) :]:
            is_call = item.get("type") in PAIRED
            call_id = id_of_call(item) if is_call else id_of_output(item)
            if call_id not in open_ids:
                history.append(item)
            elif is_call:
                own = item if "id" in item else {"id": call_id, **item}  # an edit has none
                output.append(_output_item().validate_python(own))
        self._history = history
        self._log.replayed = ModelResponse(output=output, usage=Usage(), response_id=None)

    def wrapped(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the agent with its model and its tools recorded, and those it hands over to.

        Raises:
            ValueError: an agent or a tool of it is one that another ledger has wrapped.
        """
        return RecordedAgents(self._log).of(agent)

    def _arguments(self, options: dict[str, Any]) -> dict[str, Any]:
        session = options.pop("session", self)
        if session is not self:
            raise ValueError(
                f"session is {session!r}: the model would be asked without the answers of the log, "
                "and calls would run again; leave it out, because the ledger is the run's session"
            )
        config = options.pop("run_config", None) or RunConfig()
        config = replace(config, tool_error_formatter=self._formatter(config.tool_error_formatter))
        return {"session": self, "run_config": config, **options}

    def _formatter(self, own: Callable[..., Any] | None) -> Callable[..., Any]:
        async def formatted(args: ToolErrorFormatterArgs[Any]) -> str | None:
            given = None if own is None else own(args)
            text: str | None = await given if inspect.isawaitable(given) else given
            await self._log.note_error(args, text)
            return text

        return formatted

    # the session

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return what was said so far, as input items; each call has its answer."""
        items = await self._log.calls.items(PROVIDER) if self._history is None else self._history
        return items if limit is None else items[len(items) - limit :]

    async def add_items(self, items: list[Any]) -> None:
        """Do nothing: everything was recorded before it happened."""

    async def pop_item(self) -> None:
        """Refuse: a log only grows.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a log only grows: start another conversation")

    async def clear_session(self) -> None:
        """Refuse: a log only grows.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a log only grows: start another conversation")


@cache
def _output_item() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseOutputItem)
