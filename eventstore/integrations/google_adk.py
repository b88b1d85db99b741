"""google-adk: a plugin that records a runner's runs, and gives a new session its history.

    ledger = Ledger(store.conversation("support-42"))
    runner = InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=[ledger]))

1. A response is recorded when ADK makes its event: the ids of its calls are set, no tool has run.
2. A call is started in `before_tool_callback`, and ends in one of the two callbacks after a tool.
   Arguments of wrong types are refused before the start, for ADK would pass them on.
3. A call of a tool in `needs_approval`, or with `require_confirmation`, asks for ADK's confirmation
   before it starts. It goes on with that, or with a decision in the log. The session's state keeps
   the revision that was asked about, for ADK asks about the model's arguments, and keeps no other.
4. `resume` says the user's last words again. Responses that the log has come from the log, and so
   do the answers to calls that ran; ADK itself runs the calls that are open.
5. The arguments that run are those of the log. What a plugin before this one has changed is an
   edit. ADK calls the agent's own `before_tool_callback` after this plugin: what that changes, or
   answers in place of the tool, is not seen here.
6. How a tool ended is recorded before any plugin sees it, wherever the ledger stands in the list.
   An error that ADK, or a tool of ADK, has made into a result is a failure. Of the text alone is
   known whether it leaves a doubt.
7. An agent that is run as a tool has a session of its own, which is part of the call.
"""

from __future__ import annotations

import json
import time
from asyncio import CancelledError
from collections import deque
from contextlib import AsyncExitStack, aclosing
from contextvars import ContextVar
from copy import deepcopy
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from msgspec.structs import replace

from eventstore.aio.conversation import AsyncConversation
from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.revision import Revision
from eventstore.domain.statuses import Approved, Pending
from eventstore.integrations.error_texts import failure_of_text
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.recorded_calls import (
    AsyncRecordedCalls,
    first_seen,
    host_edit,
    may_run,
    seen_at_pause,
    seen_unedited,
    shown_revision,
    shown_text,
    validation_failure,
)

try:
    from google.adk.models import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools import BaseTool, FunctionTool
    from google.adk.tools.tool_confirmation import ToolConfirmation
    from google.genai import types
    from pydantic import PydanticUserError, TypeAdapter, ValidationError
except ImportError as error:
    raise missing_extra("google-adk", error) from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Sequence

    from google.adk.agents import InvocationContext
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.events import Event
    from google.adk.models import LlmRequest
    from google.adk.runners import Runner
    from google.adk.sessions import Session
    from google.adk.tools import ToolContext

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool

PROVIDER: Final = "gemini"
"""The form of the contents of ADK, whichever model it asks."""

_MINTED: Final = "adk-"  # begins the id of a call to which the model gave none
_CONTROL: Final = "adk_request_"  # begins the names of ADK's own calls, which ask the host
_TRANSFER: Final = "transfer_to_agent"  # changes nothing but the run, and so is done again
_REPLAYED: Final = "toolledger_replayed"
_MCP_ERRORS: Final = ("MCP tool execution failed", "Unexpected error during MCP tool execution")
"""Begin what ADK answers with an error of the MCP SDK, and with any other, as of a transport."""
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
        if not isinstance(chat, AsyncConversation):
            raise TypeError(f"chat is {chat!r}: open the log with AsyncEventStore")
        self.chat = chat
        self._calls = AsyncRecordedCalls(chat, "google-adk", needs_approval, read_only)
        self._needs_approval = frozenset(needs_approval)
        self._open: dict[str, tuple[AsyncAttempt, AsyncExitStack]] = {}  # by ADK's ids
        self._signatures: dict[FunctionTool, _Signature] = {}
        self._requested_at: dict[tuple[str, str], float] = {}  # by invocation and agent
        self._session = ""
        self._history: list[types.Content] = []  # what was said before the session
        self._failed: dict[str, Tool] = {}  # by ADK's ids, until the model's answer is given
        self._ends = _Ends(self)
        self._lacks_answers = False  # the session; so the model is shown the log's
        self._replay: deque[tuple[types.Content, list[Tool]]] | None = None  # given again

    async def resume(
        self, runner: Runner, *, user_id: str, session_id: str, **options: Any
    ) -> AsyncGenerator[Event, None]:
        """Let a runner go on after a crash, or after a decision; yield its events.

        The calls of the last turn that may start run first. Then the model is asked. Nothing is
        done if the model has had the last word. A session that is lost is made anew; one that is
        kept is rewound to before the user's last words. `options` go to `runner.run_async`.

        Raises:
            CallUnderWay: another worker is at a call; nothing is done.
        """
        await self._calls.check_no_other_worker()
        contents = await self._contents()
        if not _waits_for_the_model(contents):
            return
        said = _words_in(contents)[-1]
        message = contents[said]
        session = await _rewound(runner, user_id, session_id, message)
        self._session, self._history = session.id, _before(session, contents[:said])
        self._replay = _responses(contents[said:], list((await self.chat.tools()).values()))
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
            self._history = _before(session, await self._contents())
        manager = invocation_context.plugin_manager
        if self._ends not in manager.plugins:  # a new list: ADK goes through the old one just now
            manager.plugins = [self._ends, *manager.plugins]
        if self._replay is not None:
            return
        answers = [p.function_response for p in _parts(user_message) if p.function_response]
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
            return LlmResponse(content=response, custom_metadata={_REPLAYED: True})
        said = await self._contents() if self._lacks_answers else self._history
        kept = [] if self._lacks_answers else llm_request.contents
        llm_request.contents = [*map(_without_minted_ids, said), *kept]
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
        if _is_response(event):
            requested_at = self._requested_at.pop((event.invocation_id, event.author), None)
            latency = None if requested_at is None else time.monotonic() - requested_at
            response = _response_of(event)
            tools = await self.chat.record(response, PROVIDER, latency=latency)
            self._calls.know(tools)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Start a call that may run; else give its answer."""
        call = await self._call(tool, tool_context)
        if call is None or type(tool) is BaseTool:  # ADK answers to a name that no tool has
            return None
        edited = host_edit(call, tool_args)
        call = await self._checked(call, tool, edited)
        decided = await self._decided(call, tool, tool_context, edited)
        if decided is None:
            asked = await self._calls.now(call)
            tool_context.request_confirmation(hint=_question(asked, edited))
            tool_context.state[_seen_key(asked)] = str(shown_revision(asked, edited))
            tool_context.actions.skip_summarization = True
            return {"error": _WAITS}
        call = decided
        if not may_run(call):
            return None if tool.name == _TRANSFER else await self._answered(call)
        if isinstance(call.status, Approved) and tool_context.tool_confirmation is None:
            tool_context.tool_confirmation = ToolConfirmation(confirmed=True)
        stack = AsyncExitStack()
        attempt = await stack.enter_async_context(self._calls.running(call))
        if attempt is None:
            return await self.before_tool_callback(
                tool=tool, tool_args=tool_args, tool_context=tool_context
            )
        self._open[tool_context.function_call_id or ""] = attempt, stack
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
        """Let the model read a tool's own exception, so that the run goes on."""
        del tool, tool_args
        failed = self._failed.pop(tool_context.function_call_id or "", None)
        if failed is None or isinstance(error, CancelledError):
            return None
        return await self._answered(failed)

    async def on_run_error_callback(
        self, *, invocation_context: InvocationContext, error: Exception
    ) -> None:
        """Record that a run ended under calls of which ADK told no end, as where a callback raised.

        Whether their tools have run is not known.
        """
        if not self._is_own(invocation_context.session):
            return
        failure = replace(Failure.from_exception(error), in_doubt=True)
        while self._open:
            _, (attempt, stack) = self._open.popitem()
            async with stack:
                await attempt.fail(failure)

    # how a tool ended

    async def record_result(
        self, tool: BaseTool, context: ToolContext, result: object
    ) -> dict[str, Any] | None:
        """Record what a tool returned, or that it paused; return the answer of one in doubt."""
        call_id = context.function_call_id or ""
        self._failed.pop(call_id, None)
        under_way = self._under_way(context)
        if under_way is None:
            return None
        attempt, stack = under_way
        async with stack:
            asked = context.actions.requested_tool_confirmations.get(call_id)
            if asked is not None:
                seen = seen_at_pause(attempt.tool)
                context.state[_seen_key(attempt.tool)] = str(seen)
                await attempt.pause(reason=asked.hint)
            elif context.actions.requested_auth_configs:
                await attempt.pause(reason="credentials")
            elif tool.is_long_running:
                await attempt.pause(reason="long-running")
            elif (failure := _failure(tool, result)) is not None:
                await attempt.fail(failure)
            else:
                await attempt.complete(result)
        return await self._answered(attempt.tool) if attempt.tool.in_doubt else None

    async def record_error(
        self, context: ToolContext, error: BaseException
    ) -> dict[str, Any] | None:
        """Record a tool's own exception; return the answer of a call in doubt."""
        under_way = self._under_way(context)
        if under_way is None:
            return None
        attempt, stack = under_way
        async with stack:
            await attempt.fail(error)
        if isinstance(error, CancelledError):
            return None
        if attempt.tool.in_doubt:
            return await self._answered(attempt.tool)
        self._failed[context.function_call_id or ""] = attempt.tool
        return None

    def _is_own(self, session: Session) -> bool:
        """Return whether a session is recorded; that of an agent that is run as a tool is not.

        Raises:
            RuntimeError: two sessions run at once.
        """
        if session.id == self._session or _RUNS_A_CALL.get() is self:
            return session.id == self._session
        raise RuntimeError(
            f"session {session.id!r} runs beside {self._session!r}: give each a runner with a "
            "ledger of its own conversation"
        )

    # the log

    async def _contents(self) -> list[types.Content]:
        """Return what was said so far; each call has its answer."""
        items = await self._calls.items(PROVIDER)
        return [types.Content.model_validate(item) for item in items]

    async def _has_more_answers_than(self, session: Session) -> bool:
        """Return whether a session lacks answers of the log: a run of it broke off.

        ADK leaves calls without answers out of a request, and so the answers of those beside them.
        """
        kept = sum(len(event.get_function_responses()) for event in session.events)
        known = (await self._contents())[len(self._history) :]
        return kept < sum(part.function_response is not None for c in known for part in _parts(c))

    async def _call(self, tool: BaseTool, context: ToolContext) -> Tool | None:
        """Return the call of a tool's context, to run; None if it is one of another session."""
        if not self._is_own(context.session) or not context.function_call_id:
            return None
        needs_decision = context.tool_confirmation or tool.name in self._needs_approval
        return await self._calls.find(context.function_call_id, as_recorded=not needs_decision)

    def _under_way(self, context: ToolContext) -> tuple[AsyncAttempt, AsyncExitStack] | None:
        """Return the attempt of a tool's context, which ends now; None if it has none here."""
        if not self._is_own(context.session):
            return None
        return self._open.pop(context.function_call_id or "", None)

    async def _checked(self, call: Tool, tool: BaseTool, edited: JsonObject | None) -> Tool:
        """Return a call, failed if its tool does not take its arguments, or the `edited` ones."""
        if isinstance(call.status, Pending | Approved) and isinstance(tool, FunctionTool):
            if tool not in self._signatures:
                self._signatures[tool] = _Signature(tool.func)
            arguments = call.effective_call.arguments if edited is None else edited
            wrong = self._signatures[tool].wrong_argument(arguments)
            if wrong is not None:
                now = await self._calls.now(call)
                if isinstance(now.status, Pending | Approved):
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
        if not isinstance(call.status, Pending) or (call.is_paused and tool.is_long_running):
            return call
        confirmation = context.tool_confirmation
        if confirmation is None:
            waits = (
                call.is_paused
                or tool.name in self._needs_approval
                or await tool.check_require_confirmation(
                    deepcopy(call.effective_call.arguments), context
                )
            )
            if not waits and edited is None:
                return call
            if not waits:
                reason, seen = "edited by the host", first_seen(call)
                return await self.chat.approve(call.id, edited, reason=reason, seen=seen)
            now = await self._calls.now(call)
            return None if isinstance(now.status, Pending) else now
        seen = Revision.parse(context.state.get(_seen_key(call)) or str(first_seen(call)))
        if edited is not None:
            now = await self._calls.now(call)
            if seen != shown_revision(now, edited):
                raise CallChanged("approved", now.revision, now)
            seen = now.revision
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
        if "error" in given and (call.attempts or reason.startswith(_refusal_of(call.call.name))):
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
        texts = {call_id: _text_of(answer.response or {}) for call_id, answer in answers.items()}
        found = await self._calls.unanswered(texts)
        return [(tool, answers[call_id]) for call_id, tool in found.items()]

    async def _answered(self, call: Tool) -> dict[str, Any]:
        """Return the recorded answer of a call, as ADK gives a tool's answer."""
        answer = await self._calls.answer(call)
        result = None if call.response is None else call.response.result
        if isinstance(result, dict) and not answer.is_error:
            return result
        return {"error" if answer.is_error else "result": shown_text(answer)}


class _Ends(BasePlugin):
    """What stands before the other plugins, so that none of them hides how a tool ended."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__("toolledger_ends")
        self._ledger = ledger

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: object,
    ) -> dict[str, Any] | None:
        """Record a result; see `Ledger.record_result`."""
        del tool_args
        return await self._ledger.record_result(tool, tool_context, result)

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: BaseException,
    ) -> dict[str, Any] | None:
        """Record an exception; see `Ledger.record_error`."""
        del tool, tool_args
        return await self._ledger.record_error(tool_context, error)


def _question(call: Tool, edited: JsonObject | None) -> str:
    """Return what a confirmation asks; ADK adds the arguments of the model."""
    if call.edit is None and edited is None:
        return f"May {call.call.name}() run?"
    in_force = call.effective_call.arguments if edited is None else edited
    arguments = json.dumps(in_force, ensure_ascii=False)
    return f"May {call.call.name}() run, with {arguments}?"


def _seen_key(call: Tool) -> str:
    """Return the key of a session's state that has what was asked about a call."""
    return f"toolledger:{call.id}"


# sessions


async def _rewound(
    runner: Runner, user_id: str, session_id: str, message: types.Content
) -> Session:
    """Return a session as it was before its last message, if that is `message`; its state stays."""
    names = {"user_id": user_id, "session_id": session_id}
    service = runner.session_service
    kept = await service.get_session(app_name=runner.app_name, **names)
    if kept is None:
        return await service.create_session(app_name=runner.app_name, **names)
    words = _words_of(kept)
    if not words or _text(words[-1].content) != _text(message):
        return kept  # the crash came before ADK had the message
    await runner.rewind_async(rewind_before_invocation_id=words[-1].invocation_id, **names)
    again = await service.get_session(app_name=runner.app_name, **names)
    return kept if again is None else again.model_copy(update={"state": kept.state})


def _words_of(session: Session) -> list[Event]:
    """Return the messages of a session's user that have not been rewound."""
    events: list[Event] = []
    for event in session.events:
        undone = event.actions.rewind_before_invocation_id
        if undone is not None:
            ids = [earlier.invocation_id for earlier in events]
            del events[ids.index(undone) if undone in ids else len(ids) :]
        events.append(event)
    return [
        event
        for event in events
        if event.author == "user" and event.content and not event.get_function_responses()
    ]


def _before(session: Session, contents: list[types.Content]) -> list[types.Content]:
    """Return what was said before a session, whose messages are the last of `contents`."""
    words = _words_in(contents)
    own = len(_words_of(session))
    return contents[: words[max(len(words) - own, 0)]] if own and words else contents


# contents


def _words_in(contents: list[types.Content]) -> list[int]:
    """Return the places of the user's words, which are no answers to calls."""
    return [
        place
        for place, content in enumerate(contents)
        if content.role == "user" and not any(part.function_response for part in _parts(content))
    ]


def _waits_for_the_model(contents: list[types.Content]) -> bool:
    """Return whether a run has begun, and the model has not had the last word."""
    if not _words_in(contents):
        return False
    last = contents[-1]
    return last.role != "model" or any(part.function_call for part in _parts(last))


def _responses(
    contents: list[types.Content], tools: list[Tool]
) -> deque[tuple[types.Content, list[Tool]]]:
    """Return the model's responses with their calls; those in a row are one."""
    responses = [
        types.Content(role="model", parts=[part for content in run for part in _parts(content)])
        for role, run in groupby(contents, lambda content: content.role)
        if role == "model"
    ]
    counts = [sum(part.function_call is not None for part in _parts(r)) for r in responses]
    calls = iter(tools[len(tools) - sum(counts) :])
    return deque(
        (response, list(islice(calls, count)))
        for response, count in zip(responses, counts, strict=True)
    )


def _response_of(event: Event) -> types.GenerateContentResponse:
    """Return an event of the model as the response that it came from."""
    said = types.Candidate(content=event.content, finish_reason=event.finish_reason)
    return types.GenerateContentResponse(
        candidates=[said],
        usage_metadata=event.usage_metadata,
        model_version=event.model_version,
    )


def _is_response(event: Event) -> bool:
    """Return whether an event is a response that the log does not have yet."""
    if event.content is None or event.content.role != "model" or not event.content.parts:
        return False
    if (event.custom_metadata or {}).get(_REPLAYED):
        return False
    return not any((call.name or "").startswith(_CONTROL) for call in event.get_function_calls())


def _without_minted_ids(content: types.Content) -> types.Content:
    """Return a copy without the ids that ADK gave to calls, which no model knows."""
    copy = content.model_copy(deep=True)
    for part in _parts(copy):
        for body in (part.function_call, part.function_response):
            if body is not None and (body.id or "").startswith(_MINTED):
                body.id = None
    return copy


def _text_of(response: dict[str, Any]) -> str:
    """Return the text of an answer, as the history gives it to the model."""
    return "\n".join(str(value) for value in response.values())


def _text(content: types.Content | None) -> list[str | None]:
    """Return the words of a message."""
    return [part.text for part in _parts(content)]


def _parts(content: types.Content | None) -> list[types.Part]:
    return (content and content.parts) or []


# arguments


class _Signature:
    """The types of a function's arguments; ADK itself checks only that none is missing."""

    def __init__(self, function: Any) -> None:
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


# results


def _refusal_of(name: str) -> str:
    """Return how ADK begins its answer to arguments that it refuses, or to an unknown name."""
    return f"Invoking `{name}()` failed"


def _failure(tool: BaseTool, result: object) -> Failure | None:
    """Return the failure that ADK, or a tool of ADK, tells as a result."""
    if not isinstance(result, dict):
        return None
    reason = result.get("error")
    if isinstance(reason, str) and reason.startswith(_refusal_of(tool.name)):
        return Failure(ErrorKind.VALIDATION, reason)
    if isinstance(reason, str) and reason.startswith(_MCP_ERRORS):
        _, _, text = reason.partition(": ")
        return failure_of_text(text, leaves_doubt=not reason.startswith(_MCP_ERRORS[0]))
    detect = getattr(type(tool), "_detect_error_in_response", None)
    is_of_host = detect is getattr(FunctionTool, "_detect_error_in_response", None)
    if detect is None or is_of_host or detect(tool, result) is None:
        return None  # what a function of the host returns is its result, whatever the keys
    return failure_of_text(_error_text(result))


def _error_text(result: dict[str, Any]) -> str:
    """Return the words of an error: of a server's result, of a tool's, or all of it as JSON."""
    content = result.get("content")
    if isinstance(content, list):
        texts = [block["text"] for block in content if isinstance(block, dict) and "text" in block]
        if texts:
            return "\n".join(texts)
    reason = result.get("error")
    if isinstance(reason, str) and result.keys() == {"error"}:
        return reason
    return json.dumps(result, ensure_ascii=False, default=str)
