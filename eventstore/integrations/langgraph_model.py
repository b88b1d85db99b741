"""What the model of a graph is asked and answers.

1. What the model is asked is recorded before, what it answers with its calls before any of them
   runs.
2. A response that the log has, and the checkpoint has not seen, is given again.
3. The model reads the log's answers to calls that have none in the checkpoint, and that a call in
   doubt may have taken effect, whatever other code has said of its error.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langchain_core.runnables import Runnable, RunnableConfig

from eventstore.domain.doubt import text_of_doubt
from eventstore.domain.own_texts import is_own_text
from eventstore.domain.statuses import Rejected
from eventstore.integrations.call_starts import awaits_attempt
from eventstore.integrations.host_answers import seen_unedited
from eventstore.integrations.langchain_messages import (
    FRAMEWORK,
    calls_made,
    recorded_parts,
    said_after_response,
    shown_messages,
    shown_response,
    stated_facts,
    trailing_words,
    with_answers,
    words_of,
)
from eventstore.integrations.recorded_calls import (
    awaited_chat,
    blocking_chat,
    id_in_framework,
    validation_failure,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from eventstore.aio.conversation import AsyncConversation
    from eventstore.conversation import Conversation
    from eventstore.integrations.recorded_calls import RecordedCalls
    from eventstore.providers.model import Turn


class Asked(NamedTuple):
    """A recorded request."""

    again: AIMessage | None
    """The recorded response, which is given again in place of asking; otherwise None."""
    shown: list[AnyMessage]
    """What the model is to be shown."""


class RecordedModel:
    """The requests and the responses of a graph's model, in the log. All of it blocks."""

    def __init__(self, chat: Conversation | AsyncConversation, calls: RecordedCalls) -> None:
        self._chat = blocking_chat(chat)
        self._calls = calls

    def ask(self, messages: Sequence[AnyMessage]) -> Asked:
        """Record what is new in a request."""
        after = said_after_response(messages)
        self._record_answers(after)
        turns = self._calls.turns()
        if turns and _is_unseen(turns, messages):
            return Asked(shown_response(turns[-1]), [])
        stored = trailing_words(turns)
        for message in words_of(after)[len(stored) :]:
            if not is_own_text(str(message.text)):
                self._chat.record(convert_to_openai_messages(message), "openai")
        shown = self._with_answers(messages)
        answers = {m.tool_call_id: str(m.text) for m in shown if isinstance(m, ToolMessage)}
        if (words := self._calls.worded(answers)) is not None:
            self._chat.session.run(words)
        return Asked(None, shown)

    def record_response(self, messages: Sequence[BaseMessage], latency: float) -> None:
        """Record a response that took `latency` seconds, and its calls, before any of them runs."""
        for message in messages:
            if isinstance(message, AIMessage):
                parts, calls, native = recorded_parts(message)
                name, facts = message.id or uuid4().hex, stated_facts(message, latency)
                response = self._calls.recording(name, parts, calls, native, facts)
                self._calls.know(self._chat.session.run(response))
        self._record_answers(messages)

    def missing_history(self, given: Sequence[AnyMessage]) -> list[AnyMessage] | None:
        """Return what a run's messages should be where they lack the log's, or None."""
        if any(isinstance(message, AIMessage | ToolMessage) for message in given):
            return None
        turns = self._calls.turns()
        before = self._before_open_calls(turns)
        repeated = not given or [str(m.text) for m in given] == trailing_words(before)
        if repeated:
            return shown_messages(before)
        return [*shown_messages(turns), *given] if turns else None

    def history_to_resume(self) -> list[AnyMessage]:
        """Return the messages to continue from: the calls of the last turn that may start do."""
        return shown_messages(self._before_open_calls(self._calls.turns()))

    def _before_open_calls(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Return the turns before the last response if calls of it may run, otherwise all."""
        last = self._calls.last_calls(turns)
        has_open = any(awaits_attempt(t) or isinstance(t.status, Rejected) for t in last)
        return turns[:-1] if has_open else turns

    def _with_answers(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return a request's messages with the log's answers to calls that have none there.

        A checkpoint has none of a step that broke off, and keeps what it was shown of an open call.
        """
        given = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
        missing = {
            call_id
            for call_id in calls_made(messages)
            if call_id not in given or is_own_text(str(given[call_id].text))
        }
        shown = self._with_doubts(messages)
        return with_answers(shown, missing, self._calls.turns()) if missing else shown

    def _with_doubts(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return messages whose errors say of calls in doubt that they may have taken effect."""
        if not any(isinstance(m, ToolMessage) and m.status == "error" for m in messages):
            return list(messages)
        doubtful = {id_in_framework(tool) for tool in self._chat.tools.values() if tool.in_doubt}
        return [
            m.model_copy(update={"content": text_of_doubt(str(m.text), None)})
            if isinstance(m, ToolMessage) and m.status == "error" and m.tool_call_id in doubtful
            else m
            for m in messages
        ]

    def _record_answers(self, messages: Sequence[BaseMessage]) -> None:
        """Record answers that no tool gave: a refusal by the host, an output without a tool."""
        answers = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
        texts = {call_id: str(message.text) for call_id, message in answers.items()}
        for call_id, tool in self._calls.unanswered(texts).items():
            message = answers[call_id]
            if message.status != "error":
                self._chat.complete(tool.id, message.content, synthetic=True)
            elif tool.call.raw is not None:
                self._chat.fail(tool.id, validation_failure(ValueError(str(message.text))))
            else:
                self._chat.reject(tool.id, str(message.text), seen=seen_unedited(tool))


class ModelNode(Runnable[Any, dict[str, Any]]):
    """A node that asks a model, and records its requests and responses."""

    name = "model"

    def __init__(
        self,
        chat: Conversation | AsyncConversation,
        recorded: RecordedModel,
        model: Runnable[Any, AIMessage],
    ) -> None:
        self._chat = chat
        self._recorded = recorded
        self._model = model

    def invoke(
        self,
        input: Mapping[str, Any],
        config: RunnableConfig | None = None,
        **kwargs: object,
    ) -> dict[str, Any]:
        """Return the model's next message, or the recorded one that the state lacks."""
        response, shown = self._recorded.ask(input["messages"])
        if response is None:
            requested_at = time.monotonic()
            response = self._model.invoke(shown, config, **kwargs)
            self._recorded.record_response([response], time.monotonic() - requested_at)
        return {"messages": [response]}

    async def ainvoke(
        self,
        input: Mapping[str, Any],
        config: RunnableConfig | None = None,
        **kwargs: object,
    ) -> dict[str, Any]:
        """Return the next message; see `invoke`."""
        call = awaited_chat(self._chat).session.call
        response, shown = await call(lambda: self._recorded.ask(input["messages"]))
        if response is None:
            requested_at = time.monotonic()
            given = await self._model.ainvoke(shown, config, **kwargs)
            latency = time.monotonic() - requested_at
            await call(lambda: self._recorded.record_response([given], latency))
            response = given
        return {"messages": [response]}


def _is_unseen(turns: Sequence[Turn], messages: Sequence[BaseMessage]) -> bool:
    """Return whether the last response answers just what these messages ask, and is not there."""
    last = turns[-1]
    made = {call.provider_id or call.id for call in last.calls if not call.hidden}
    if not made.isdisjoint(calls_made(messages)):
        return False
    if not made and not _is_lost(last, messages):
        return False
    asked = [str(message.text) for message in words_of(said_after_response(messages))]
    return asked == trailing_words(turns[:-1])


def _is_lost(turn: Turn, messages: Sequence[BaseMessage]) -> bool:
    """Return whether a response is one of LangChain's, and not among the messages."""
    own = turn.native if turn.provider == FRAMEWORK else None
    name = own.get("id") if turn.role == "assistant" and isinstance(own, dict) else None
    return name is not None and all(message.id != name for message in messages)
