"""google-adk: a plugin that records a runner's runs, and gives a new session its history.

    ledger = Ledger(store.conversation("support-42"))
    runner = InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=[ledger]))

1. A response is recorded when ADK makes its event: the ids of its calls are set, no tool has run.
2. A call is started in `before_tool_callback`; `google_adk_ends` records how it ended. Arguments of
   wrong types are refused before the start, because ADK would pass them on.
3. A call of a tool in `needs_approval`, or with `require_confirmation`, asks for ADK's confirmation
   before it starts. It continues with that, or with a decision in the log. ADK asks about the
   model's arguments, so the session's state keeps the revision that was asked about.
4. `resume` says the user's last words again. Responses that the log has come from the log, and so
   do the answers to calls that ran; ADK itself runs the calls that are open.
5. The arguments that run are the log's. What a plugin before this one has changed is an
   edit. ADK calls the agent's own `before_tool_callback` after this plugin: what that changes, or
   answers in place of the tool, is not seen here.
6. An agent that is run as a tool has a session of its own, which is part of the call.
"""

from __future__ import annotations

import json
import time
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from eventstore.aio.conversation import AsyncConversation
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.revision import Revision
from eventstore.domain.statuses import Approved, Pending
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.host_answers import (
    first_seen,
    host_edit,
    seen_unedited,
    seen_with_edit,
    shown_revision,
)
from eventstore.integrations.recorded_calls import (
    AsyncRecordedCalls,
    record_response,
    validation_failure,
)
from eventstore.providers.json_values import copy as copied

try:
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_confirmation import ToolConfirmation
    from google.genai import types
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    from eventstore.integrations.google_adk_contents import (
        PROVIDER,
        REPLAYED,
        as_returned,
        history_before,
        is_response,
        parts_of,
        response_of,
        responses_in,
        rewound,
        text_of,
        waits_for_the_model,
        without_minted_ids,
        words_in,
    )
    from eventstore.integrations.google_adk_ends import ToolEnds, refusal_of, seen_key
except ImportError as error:
    raise missing_extra("google-adk", error) from error

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import AsyncGenerator, Collection, Sequence

    from google.adk.agents import InvocationContext
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.events import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.runners import Runner
    from google.adk.sessions import Session
    from google.adk.tools.tool_context import ToolContext

    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool

_TRANSFER: Final = "transfer_to_agent"  # changes nothing but the run, and so is done again
_WAITS: Final = "This call waits for a decision."

_RUNS_A_CALL: ContextVar[Ledger | None] = ContextVar("toolledger_adk_call", default=None)
"""The ledger whose call the current task runs."""


class Ledger(BasePlugin):
    """A plugin that records every call of a runner's agents in a conversation.

    `chat` is a conversation of an `AsyncEventStore`; its sessions run one after the other.
    `needs_approval` names the tools whose calls wait for a decision.

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
        self._calls = AsyncRecordedCalls(chat, "google-adk", needs_approval, read_only)
        self._needs_approval = frozenset(needs_approval)
        self._signatures: dict[FunctionTool, _Signature] = {}
        self._requested_at: dict[tuple[str, str], float] = {}  # by invocation and agent
        self._session = ""
        self._history: list[types.Content] = []  # what was said before the session
        self._ends = ToolEnds(self._calls, self._is_own)
        self._lacks_answers = False  # the session; so the model is shown the log's
        self._replay: deque[tuple[types.Content, list[Tool]]] | None = None  # given again

    async def resume(
        self, runner: Runner, *, user_id: str, session_id: str, **options: Any
    ) -> AsyncGenerator[Event, None]:
        """Continue a runner after a crash, or after a decision; yield its events.

        The calls of the last turn that may start run first. Then the model is asked. Nothing is
        done if the model has had the last word. A session that is lost is made anew; one that is
        kept is rewound to before the user's last words. `options` go to `runner.run_async`.

        Raises:
            CallUnderWay: another worker executes a call; nothing is done.
        """
        await self._calls.check_no_other_worker()
        contents = await self._contents()
        if not waits_for_the_model(contents):
            return
        said = words_in(contents)[-1]
        message = contents[said]
        session = await rewound(runner, user_id, session_id, message)
        self._session, self._history = session.id, history_before(session, contents[:said])
        self._replay = responses_in(contents[said:], list((await self.chat.tools()).values()))
        if session.state:
            options["state_delta"] = {**session.state, **(options.get("state_delta") or {})}
        run = runner.run_async(
            user_id=user_id, session_id=session_id, new_message=message, **options
        )
        try:
            async with aclosing(run) as events:
                async for event in events:
                    yield event
        finally:
            self._replay = None

    # what ADK calls

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        """Record the user's words, or the late answer to a long-running call."""
        session = invocation_context.session
        if session.id != self._session:
            if _RUNS_A_CALL.get() is self:  # an agent that is run as a tool
                return
            self._session = session.id
            self._history = history_before(session, await self._contents())
        manager = invocation_context.plugin_manager
        if self._ends not in manager.plugins:  # a new list: ADK goes through the old one just now
            manager.plugins = [self._ends, *manager.plugins]
        if self._replay is not None:
            return
        answers = [p.function_response for p in parts_of(user_message) if p.function_response]
        for call, answer in await self._unanswered(answers):
            await self._record_answer(call, answer)
        if not answers:
            self._lacks_answers = await self._has_more_answers_than(session)
            await self.chat.record(user_message, PROVIDER)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Give a response that the log has; else put what was said before into the request."""
        if not self._is_own(callback_context.session):
            return None
        if self._replay:
            response, tools = self._replay.popleft()
            self._calls.know(tools)
            return LlmResponse(content=response, custom_metadata={REPLAYED: True})
        said = await self._contents() if self._lacks_answers else self._history
        kept = [] if self._lacks_answers else llm_request.contents
        llm_request.contents = [*map(without_minted_ids, said), *kept]
        asking = (callback_context.invocation_id, callback_context.agent_name)
        self._requested_at[asking] = time.monotonic()
        return None

    async def on_event_callback(
        self, *, invocation_context: InvocationContext, event: Event
    ) -> None:
        """Record a response with its calls, before any of them runs."""
        if event.partial or not self._is_own(invocation_context.session):
            return
        asked = event.actions.requested_tool_confirmations
        for call, answer in await self._unanswered(event.get_function_responses()):
            if answer.id not in asked and not call.is_paused:
                await self._record_answer(call, answer)
        if is_response(event):
            requested_at = self._requested_at.pop((event.invocation_id, event.author), None)
            latency = None if requested_at is None else time.monotonic() - requested_at
            response = response_of(event)
            tools = await record_response(self.chat, response, PROVIDER, latency)
            self._calls.know(tools)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Start a call that may run; else give its answer."""
        call = await self._call(tool, tool_context)
        if call is None or type(tool) is BaseTool:  # ADK answers to a name that no tool has
            return None
        edited = host_edit(call, tool_args, self.chat.session.blocking)
        call = await self._checked(call, tool, edited)
        decided = await self._decided(call, tool, tool_context, edited)
        if decided is None:
            asked = await self._calls.now(call.id)
            tool_context.request_confirmation(hint=_question(asked, edited))
            tool_context.state[seen_key(asked)] = str(shown_revision(asked, edited))
            tool_context.actions.skip_summarization = True
            return {"error": _WAITS}
        call = decided
        if not may_run(call):
            return None if tool.name == _TRANSFER else await self._ends.answered(call)
        if isinstance(call.status, Approved) and tool_context.tool_confirmation is None:
            tool_context.tool_confirmation = ToolConfirmation(confirmed=True)
        attempt = await self._ends.begin(tool_context.function_call_id or "", call)
        if attempt is None:
            return await self.before_tool_callback(
                tool=tool, tool_args=tool_args, tool_context=tool_context
            )
        _RUNS_A_CALL.set(self)
        tool_args.clear()
        tool_args.update(attempt.arguments)
        return None

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: BaseException,
    ) -> dict[str, Any] | None:
        """Let the model read a tool's own exception, so that the run continues."""
        failed = self._ends.failed.pop(tool_context.function_call_id or "", None)
        if failed is None or isinstance(error, CancelledError):
            return None
        return await self._ends.answered(failed)

    async def on_run_error_callback(
        self, *, invocation_context: InvocationContext, error: Exception
    ) -> None:
        """Record that a run ended under calls of which ADK told no end: a callback raised."""
        if self._is_own(invocation_context.session):
            await self._ends.break_off(error)

    def _is_own(self, session: Session) -> bool:
        """Return whether a session is recorded. An agent that is run as a tool has one that is not.

        Raises:
            RuntimeError: two sessions run at once.
        """
        if session.id == self._session or _RUNS_A_CALL.get() is self:
            return session.id == self._session
        raise RuntimeError(
            f"session {session.id!r} runs while {self._session!r} does: give each a runner with a "
            "ledger of its own conversation"
        )

    # the log

    async def _contents(self) -> list[types.Content]:
        """Return what was said so far; each call has its answer."""
        items = await self._calls.items(PROVIDER)
        contents = [types.Content.model_validate(item) for item in items]
        as_returned(contents, await self._calls.turns())
        return contents

    async def _has_more_answers_than(self, session: Session) -> bool:
        """Return whether a session lacks answers of the log: a run of it broke off.

        ADK leaves calls without answers out of a request, and with them the answers to the others.
        """
        kept = sum(len(event.get_function_responses()) for event in session.events)
        known = (await self._contents())[len(self._history) :]
        return kept < sum(part.function_response is not None for c in known for part in parts_of(c))

    async def _call(self, tool: BaseTool, context: ToolContext) -> Tool | None:
        """Return the call of a tool's context, to run; None if it is one of another session."""
        if not self._is_own(context.session) or not context.function_call_id:
            return None
        needs_decision = context.tool_confirmation or tool.name in self._needs_approval
        return await self._calls.find(context.function_call_id, as_recorded=not needs_decision)

    async def _checked(self, call: Tool, tool: BaseTool, edited: JsonObject | None) -> Tool:
        """Return a call, failed if its tool does not take its arguments, or the `edited` ones."""
        if awaits_attempt(call) and isinstance(tool, FunctionTool):
            if tool not in self._signatures:
                self._signatures[tool] = _Signature(tool.func)
            arguments = call.effective_call.arguments if edited is None else edited
            wrong = self._signatures[tool].wrong_argument(arguments)
            if wrong is not None:
                now = await self._calls.now(call.id)
                if awaits_attempt(now):
                    return await self.chat.fail(call.id, validation_failure(wrong))
                return now
        return call

    async def _decided(
        self, call: Tool, tool: BaseTool, context: ToolContext, edited: JsonObject | None
    ) -> Tool | None:
        """Return a call once it is decided on, or needs no decision; None while it waits.

        `edited` are the arguments to which an earlier plugin has changed the log's.

        Raises:
            CallChanged: the call is no longer as it was when ADK asked for the confirmation.
        """
        expired = isinstance(call.status, Approved) and not await self._calls.is_approved(call)
        is_pending = isinstance(call.status, Pending) or expired
        if not is_pending or (call.is_paused and tool.is_long_running):
            return call
        confirmation = context.tool_confirmation
        if confirmation is None:
            waits = (
                expired
                or call.is_paused
                or tool.name in self._needs_approval
                or await tool.check_require_confirmation(
                    copied(call.effective_call.arguments), context
                )
            )
            if not waits:
                return call if edited is None else await self._calls.edit(call, edited)
            now = await self._calls.now(call.id)
            return None if expired or isinstance(now.status, Pending) else now
        seen = Revision.parse(context.state.get(seen_key(call)) or str(first_seen(call)))
        if edited is not None:
            seen = seen_with_edit(await self._calls.now(call.id), seen, edited)
        if confirmation.confirmed:
            return await self.chat.approve(call.id, edited, reason="by the host", seen=seen)
        return await self.chat.reject(call.id, "by the host", seen=seen)

    async def _record_answer(self, call: Tool, answer: types.FunctionResponse) -> None:
        """Record an answer that no tool gave in a run: its call is refused, or ran for long.

        Raises:
            CallChanged: the call is not as it was when a plugin of the host refused it.
        """
        given = answer.response or {}
        reason = str(given.get("error"))
        if "error" in given and (call.attempts or reason.startswith(refusal_of(call.call.name))):
            await self.chat.fail(call.id, Failure(ErrorKind.VALIDATION, reason))
        elif "error" in given:
            await self.chat.reject(call.id, reason, "hook", seen=seen_unedited(call))
        else:
            await self.chat.complete(call.id, given.get("result", given), synthetic=True)

    async def _unanswered(
        self, given: Sequence[types.FunctionResponse]
    ) -> list[tuple[Tool, types.FunctionResponse]]:
        """Return the calls that have no answer in the log, with those that ADK gives."""
        answers = {answer.id: answer for answer in given if answer.id}
        texts = {call_id: text_of(answer.response or {}) for call_id, answer in answers.items()}
        found = await self._calls.unanswered(texts)
        return [(tool, answers[call_id]) for call_id, tool in found.items()]


def _question(call: Tool, edited: JsonObject | None) -> str:
    """Return what a confirmation asks; ADK adds the arguments of the model."""
    if call.edit is None and edited is None:
        return f"May {call.call.name}() run?"
    in_force = call.effective_call.arguments if edited is None else edited
    arguments = json.dumps(in_force, ensure_ascii=False)
    return f"May {call.call.name}() run, with {arguments}?"


class _Signature:
    """The types of a function's arguments; ADK itself checks only that none is missing."""

    def __init__(self, function: Callable[..., object]) -> None:
        try:
            self._hints = get_type_hints(function)
        except (NameError, TypeError):  # a name that only type checkers know, or no function
            self._hints = {}
        self._adapters: dict[str, TypeAdapter[Any]] = {}

    def wrong_argument(self, arguments: JsonObject) -> ValidationError | None:
        """Return why the function does not take a value."""
        for name in self._hints.keys() & arguments.keys():
            try:
                if name not in self._adapters:
                    self._adapters[name] = TypeAdapter(self._hints[name])
                self._adapters[name].validate_python(arguments[name])
            except ValidationError as wrong:
                return wrong
            except PydanticUserError:  # pydantic has no schema for the type
                continue
        return None
