"""How the calls of an agent-framework agent run.

1. A call runs between the start and the end of an attempt. One with a recorded answer gives that,
   and one in doubt does not run. A retry by middleware of the host is another attempt.
2. The arguments that run are the log's. Arguments that are no JSON object, or that the tool does
   not take, fail the call with kind `validation` before it starts.
3. What middleware of the host has changed in them is an edit: of a call that needs a decision the
   ledger takes that, made on the changed ones.
4. A call that needs a decision is asked about as the framework asks, and the run goes on with the
   other calls. The request has the revision of the call that it shows.
5. The framework hides what an exception says, unless `include_detailed_errors` is set. The log has
   it for operators then, and tells the model what the framework does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from agent_framework import (
    Content,
    FunctionMiddleware,
    MiddlewareFailure,
    MiddlewareTermination,
    UserInputRequiredException,
)
from pydantic_core import to_jsonable_python

from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.failure import Failure
from eventstore.domain.statuses import Failed, Pending
from eventstore.integrations.agent_framework_messages import result_of
from eventstore.integrations.agent_framework_model import SEEN, seen_by_host
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.host_answers import host_edit, seen_with_edit, shown_revision
from eventstore.integrations.mcp_failures import remote_failure
from eventstore.integrations.recorded_calls import shown_text, validation_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_framework import FunctionInvocationContext, FunctionTool

    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool
    from eventstore.integrations.agent_framework_model import RecordedModel

_OCCURRENCE: Final = "function_call_occurrence_id"
_FAILED: Final = "toolledger_failed"  # of an invocation: an attempt has failed in it
_OF_SERVERS: Final = "agent_framework._mcp"
"""The module of the functions that call the tool of an MCP server."""

_FAILURE: Final = "Error: Function failed."
_REFUSED: Final = "Error: Argument parsing failed."
"""What the framework tells the model of an exception, and of arguments that it refuses."""


class RefusedAnswer(CallChanged, MiddlewareFailure):
    """The error of a late answer, as one that the framework lets end a run."""


class RecordedTools(FunctionMiddleware):
    """The calls of an agent, run between their start and their end in the log."""

    def __init__(self, model: RecordedModel) -> None:
        self.detailed = False
        """Whether the framework tells the model what an exception says."""
        self._chat = model.chat
        self._calls = model.calls
        self._needs_approval = model.needs_approval

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """Run a call between its start and its end; one that ran before gives its answer."""
        needs_decision = context.function.name in self._needs_approval
        call_id = str(context.metadata.get("call_id"))
        tool = await self._calls.find(call_id, as_recorded=not needs_decision)
        if tool is None:  # the host's own
            await call_next()
            return
        edited = self._host_edit(tool, context)
        if awaits_attempt(tool):
            await self._check(tool, context.function, edited)
        decided = await self._decided(tool, context, edited)
        if decided is None:
            return
        has_failed = isinstance(decided.status, Failed) and not decided.in_doubt
        if not (may_run(decided) or (has_failed and _FAILED in context.metadata)):
            context.result = shown_text(await self._calls.answer(decided))
            return
        async with self._calls.running(decided, UserInputRequiredException) as attempt:
            if attempt is None:
                await self.process(context, call_next)
                return
            context.arguments = _prepared(context.function, attempt.arguments)
            try:
                await call_next()
            except UserInputRequiredException:
                raise
            except MiddlewareTermination as end:  # the tool ends the run with a result
                await attempt.complete(result_of(end.result))
                raise
            except Exception as error:
                context.metadata[_FAILED] = True
                await attempt.fail(self._failure(error, context.function))
                raise
            await attempt.complete(result_of(context.result))

    def _host_edit(self, tool: Tool, context: FunctionInvocationContext) -> JsonObject | None:
        """Return the arguments that middleware of the host has for a call, or None."""
        given: Any = context.arguments
        asked = tool.call.arguments
        if given == asked or not isinstance(asked, dict):
            return None
        try:
            if given == _prepared(context.function, asked):
                return None
        except TypeError:  # the middleware has repaired them
            pass
        json_form = to_jsonable_python(given, serialize_unknown=True)
        return host_edit(tool, json_form, self._chat.session.blocking)

    async def _check(self, tool: Tool, function: FunctionTool, edited: JsonObject | None) -> None:
        """Refuse arguments that are no JSON object, or that the tool does not take."""
        call = tool.effective_call
        try:
            if call.raw is not None and edited is None:
                raise TypeError("the arguments are not a JSON object")  # noqa: TRY301 - one answer
            _prepared(function, call.arguments if edited is None else edited)
        except TypeError as wrong:
            await self._chat.fail(tool.id, self._with_text(validation_failure(wrong), _REFUSED))
            raise

    async def _decided(
        self, tool: Tool, context: FunctionInvocationContext, edited: JsonObject | None
    ) -> Tool | None:
        """Return a call once it is decided on, or needs no decision; None while it waits.

        Raises:
            CallChanged: the call is no longer as it was when the host was asked about it.
        """
        status = tool.status
        waits = isinstance(status, Pending) and status.needs_decision
        needs_decision = waits or tool.call.name in self._needs_approval
        if not isinstance(status, Pending) or not (needs_decision or edited is not None):
            return tool
        if not needs_decision and edited is not None:
            return await self._calls.edit(tool, edited)
        answer = context.metadata.get("approval_response")
        if answer is None:
            context.result = _request(tool, context, edited)
            return None
        try:
            seen = seen_with_edit(tool, seen_by_host(tool, answer.function_call), edited)
            return await self._chat.approve(tool.id, edited, reason="by the host", seen=seen)
        except CallChanged as changed:
            raise RefusedAnswer("approved", changed.seen, changed.now) from None

    def _failure(self, error: Exception, function: FunctionTool) -> Failure:
        """Return the failure of an exception of a tool."""
        cause = error.__cause__
        if cause is not None and getattr(function.func, "__module__", None) == _OF_SERVERS:
            failure = remote_failure(cause, is_last_try=True)  # a lost call is sent again
        else:
            failure = Failure.from_exception(error)
        return self._with_text(failure, _FAILURE)

    def _with_text(self, failure: Failure, text: str) -> Failure:
        """Return a failure of which the model reads a text, unless the host shows it details."""
        if self.detailed or failure.model_message is not None:
            return failure
        return msgspec.structs.replace(failure, model_message=text)


def _prepared(function: FunctionTool, arguments: Any) -> dict[str, Any]:
    """Return arguments as the framework gives them to a tool.

    Raises:
        TypeError: the tool does not take them.
    """
    return function._prepare_arguments(arguments)  # noqa: SLF001 - `invoke` checks as it runs


def _request(tool: Tool, context: FunctionInvocationContext, edited: JsonObject | None) -> Content:
    """Return what asks for an approval, with the arguments that are to run."""
    call_id, occurrence = context.metadata["call_id"], context.metadata.get(_OCCURRENCE)
    arguments = tool.effective_call.arguments if edited is None else edited
    call = Content.from_function_call(
        call_id,
        tool.call.name,
        arguments=msgspec.to_builtins(arguments),
        id=occurrence or call_id,
        additional_properties={SEEN: str(shown_revision(tool, edited))},
    )
    return Content.from_function_approval_request(str(call.id), call)
