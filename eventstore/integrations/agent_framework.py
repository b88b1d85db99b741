"""agent-framework: a history provider that is the log of an agent's runs.

    ledger = Ledger(store.conversation("support-42"))
    agent = Agent(client, tools=[find_order], context_providers=[ledger])

1. A run begins with the history of the log. What the user says is recorded before the model is
   asked; `agent_framework_model` says what is recorded of that, and `agent_framework_tools` how
   calls run.
2. The framework keeps what a run said at its end, and nothing of one that is cancelled. So the
   ledger leaves nothing to its end.
3. A decision in the log (`chat.approve`, `chat.reject`) is what `resume` continues with. It gives
   the framework the last response again, so that the framework itself runs the calls that are
   open. Calls with a recorded answer do not run again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from eventstore.aio.conversation import AsyncConversation
from eventstore.integrations.call_starts import awaits_attempt
from eventstore.integrations.extras import missing_extra

try:
    from agent_framework import HistoryProvider

    from eventstore.integrations.agent_framework_messages import shown_messages, words_added
    from eventstore.integrations.agent_framework_model import RecordedModel
    from eventstore.integrations.agent_framework_tools import RecordedTools
except ImportError as error:
    raise missing_extra("agent-framework", error) from error

if TYPE_CHECKING:
    from agent_framework import Agent, AgentSession, Message, SessionContext

    from eventstore.providers.model import Turn


class Ledger(HistoryProvider):
    """A history provider that records every call of an agent in a conversation.

    `chat` is a conversation of an `AsyncEventStore`. `needs_approval` names the tools whose calls
    wait for a decision, as those with `approval_mode="always_require"` do.

    Raises:
        TypeError: `chat` is a conversation of an `EventStore`.
    """

    def __init__(
        self,
        chat: AsyncConversation,
        *,
        needs_approval: Collection[str] = (),
        read_only: Collection[str] = (),
    ) -> None:
        super().__init__("toolledger")
        self.chat = chat
        self._model = RecordedModel(chat, set(needs_approval), read_only=read_only)
        self._tools = RecordedTools(self._model)
        self._calls = self._model.calls
        self._resumed: Sequence[Turn] | None = None  # the history of the run that begins next

    async def resume(self, agent: Agent[Any], **options: Any) -> Any:
        """Continue an agent after a crash, or after a decision; `options` go to `agent.run`.

        The calls of the last turn that may start run first. Then the model is asked. A response
        with `user_input_requests` waits for a person still. None if the model has had the last
        word: nothing is done.

        Raises:
            CallUnderWay: another worker executes a call; nothing is done.
            ValueError: the agent has another ledger, or none.
        """
        if not any(provider is self for provider in agent.context_providers):
            raise ValueError(
                f"agent {agent.name!r} has context_providers={agent.context_providers!r}: its runs "
                "would not be recorded; give it context_providers=[ledger]"
            )
        turns = await self._calls.turns_to_resume()
        if not turns:
            return None
        self._resumed = turns
        running: Any = agent.run(None, **options)
        return running if options.get("stream") else await running

    # what the framework calls

    async def before_run(
        self,
        *,
        agent: Any,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Begin a run with the history of the log, and record what the user says.

        Raises:
            CallChanged: the host refuses a call that has changed since it was asked about.
            ValueError: the run would not be recorded, or the model asked without the log's answers.
        """
        _check(self, agent, session, context)
        turns, self._resumed = self._resumed, None
        self._model.replayed = None
        if turns is None:
            turns = await self._calls.turns()
        elif any(map(awaits_attempt, await self._calls.last_calls(turns))):
            turns, self._model.replayed = turns[:-1], turns[-1]
        config = getattr(agent.client, "function_invocation_configuration", {})
        self._tools.detailed = bool(config.get("include_detailed_errors"))
        said = context.input_messages
        await self._model.record_refusals(said)
        await self._model.record_answers(said)
        context.extend_messages(self, shown_messages(turns))
        context.extend_middleware(self.source_id, [self._model, self._tools])
        events = words_added(said)
        if events:
            await self._calls.record_words(lambda _: events)

    async def after_run(
        self,
        *,
        agent: Any,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Record answers that no tool gave in a run that ended with them."""
        if context.response is not None:
            await self._model.record_answers(context.response.messages)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return what was said so far, whichever the session; each call has its answer."""
        return shown_messages(await self._calls.turns())

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Do nothing: everything was recorded before it happened."""


def _check(ledger: Ledger, agent: Any, session: AgentSession, context: SessionContext) -> None:
    """Refuse a run that the log would not have, or in which it would not be asked.

    Raises:
        ValueError: it is such a run.
    """
    if getattr(agent, "require_per_service_call_history_persistence", False):
        raise ValueError(
            f"agent {agent.name!r} has require_per_service_call_history_persistence=True, with "
            "which a history provider gets no middleware: leave it out, the ledger records each "
            "call of the model"
        )
    others = [p for p in agent.context_providers if isinstance(p, HistoryProvider)]
    for other in others:
        if other is not ledger and other.load_messages:
            raise ValueError(
                f"agent {agent.name!r} has another history provider, {other.source_id!r}: the "
                "model would read everything twice; give it load_messages=False, or take it out"
            )
    options = {**(getattr(agent, "default_options", None) or {}), **context.options}
    stores = options.get("store")
    if stores is None:
        stores = getattr(agent.client, "STORES_BY_DEFAULT", False)
    if stores or session.service_session_id or options.get("conversation_id"):
        raise ValueError(
            f"the service behind agent {agent.name!r} keeps the history, without the answers of "
            "the log: give the agent default_options={'store': False}, and no conversation_id"
        )
    given = [message.role for message in context.input_messages]
    if "assistant" in given:
        raise ValueError(
            f"the run's messages have the roles {given!r}: the log has what the model said; pass "
            "the new words alone, or record a history of before with chat.record_messages()"
        )
