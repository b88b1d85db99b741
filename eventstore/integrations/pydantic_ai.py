"""pydantic-ai: a capability that records an agent's runs, and gives the next run its history.

    ledger = Ledger(store.conversation("support-42"))
    history = await ledger.history()
    await agent.run("Where is my order?", message_history=history, capabilities=[ledger])

1. `pydantic_ai_log` records what a run says. In a workflow of Temporal a run is refused.
2. A call whose arguments are refused has failed with kind `validation`, and did not start.
3. `ApprovalRequired` and `CallDeferred` pause a call. A decision in the log (`chat.approve`,
   `chat.reject`) is what a run continues with.
4. `resume` lets pydantic-ai itself run the calls that are open: validated, with the agent's
   dependencies and hooks. Calls with a recorded answer do not run again.
5. The arguments that run are the log's. A call is recorded as it comes out of the hooks of
   every capability: what these have changed is an edit. A call that needs a decision is refused
   then, because pydantic-ai shows the model's arguments. A call that a hook answers has no attempt.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from eventstore.aio.conversation import AsyncConversation
from eventstore.clock import system_clock
from eventstore.domain.failure import Failure
from eventstore.domain.statuses import Approved, Pending, Rejected
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.durable_workflows import (
    as_step,
    in_dbos_workflow,
    in_temporal_workflow,
    kept,
)
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.host_answers import host_edit
from eventstore.integrations.recorded_calls import shown_text, validation_failure

try:
    from pydantic_ai import exceptions, messages
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied
    from pydantic_ai.toolsets import WrapperToolset
    from pydantic_core import to_jsonable_python

    from eventstore.integrations.pydantic_ai_log import RunLog, keep_seen, seen_by_host
    from eventstore.integrations.pydantic_ai_messages import (
        parsed_call,
        recorded_value,
        shown_messages,
        value_of,
        wording_of,
    )
except ImportError as error:
    raise missing_extra("pydantic-ai", error) from error

if TYPE_CHECKING:
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.capabilities.abstract import (
        WrapRunHandler,
        WrapToolExecuteHandler,
        WrapToolValidateHandler,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import DeferredToolRequests, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.toolsets.abstract import ToolsetTool

    from eventstore.domain.tool import Tool

T = TypeVar("T")

_MISSING = object()

_PAUSES = (exceptions.ApprovalRequired, exceptions.CallDeferred)
_WRAPPERS = (
    exceptions.ToolRetryError,
    exceptions.ModelRetry,
    exceptions.ToolFailedError,
    exceptions.ToolFailed,
)
"""What a tool's own exception may be wrapped in."""


class Ledger(AbstractCapability[Any]):
    """A capability that records every call of an agent in a conversation.

    `chat` is a conversation of an `AsyncEventStore`, which serves `run_sync` as well.

    Raises:
        TypeError: `chat` is a conversation of an `EventStore`.
    """

    def __init__(self, chat: AsyncConversation, *, read_only: Collection[str] = ()) -> None:
        self.chat = chat
        self._log = RunLog(chat, read_only)
        self._calls = self._log.calls
        self._toolsets: dict[str, Collection[str]] = {}  # by run: the tools that the ledger runs
        self._to_run: dict[tuple[str, str], messages.ToolCallPart] = {}  # by run and id

    async def history(self) -> list[messages.ModelMessage]:
        """Return what was said so far as `message_history` for a run with a new prompt.

        Each call is answered: an open one with what is known of it. In a workflow of DBOS this is
        a step: a recovery gets the same history.
        """

        async def look() -> list[messages.ModelMessage]:
            return list(shown_messages(await self._calls.turns()))

        return await self._kept("toolledger.history", look)

    async def resume(self, agent: Agent[Any, Any], **options: Any) -> AgentRunResult[Any]:
        """Continue an agent after a crash, or after a decision; `options` go to `agent.run`.

        The calls of the last turn that may start run first. Then the model is asked.

        Raises:
            CallUnderWay: another worker executes a call; nothing is done.
        """
        history = await self._kept("toolledger.resume", self._open_history)
        attached: list[AbstractCapability[Any]] = []
        agent.root_capability.apply(attached.append)
        if not any(each is self for each in attached):
            options["capabilities"] = [*(options.get("capabilities") or ()), self]
        return await agent.run(message_history=history, **options)

    async def _open_history(self) -> list[messages.ModelMessage]:
        """Return the history; its last response has no answers if one of its calls may start."""
        await self._calls.check_no_other_worker()
        turns = await self._calls.turns()
        history = list(shown_messages(turns))
        if any(awaits_attempt(tool) for tool in await self._calls.last_calls(turns)):
            history.pop()  # its answers: pydantic-ai handles the calls of the last response
        return history

    async def _kept(self, name: str, look: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what a look at the log returned first in this workflow, if it is in one.

        Raises:
            UserError: it is in a workflow of Temporal, where it would wait for ever.
        """
        if in_temporal_workflow():
            raise exceptions.UserError(
                f"the ledger of conversation {self.chat.id!r} is used in a workflow of Temporal, "
                "where nothing may wait for a database: run the agent in an activity, or record "
                "inside of its tools, which are activities"
            )
        return await kept(name, look)

    # what pydantic-ai calls

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Find out whether a run is another's replay."""
        run_id = str(ctx.run_id)

        async def look() -> str:
            return run_id

        self._log.first_ids[run_id] = await self._kept("toolledger.run", look)
        try:
            return await handler()
        finally:
            self._log.first_ids.pop(run_id, None)
            self._toolsets.pop(run_id, None)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Record the user's words, and the answers that no tool gave."""

        async def record() -> None:
            await self._log.record_answers(request_context.messages)
            await self._log.record_words(self._log.step(ctx), request_context.messages)

        await as_step("toolledger.words", record)
        self._log.note_request(ctx)
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: messages.ModelResponse,
    ) -> messages.ModelResponse:
        """Record the response and its calls, before any of them runs."""
        await self._log.record_response(ctx, response)
        return response

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Record the answers that no tool gave, such as the results of output tools."""
        await self._log.record_answers(result.all_messages())
        return result

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: messages.ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: WrapToolValidateHandler,
    ) -> dict[str, Any]:
        """Record refused arguments as a failure of kind `validation`: nothing has run."""
        try:
            return await handler(args)
        except _PAUSES:
            raise
        except Exception as error:
            tool = await self._log.tool(ctx, call)
            if awaits_attempt(tool):
                failure = validation_failure(_origin(error))
                await self._calls.fail(tool, failure, wording_of(error, call))
            raise

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: messages.ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> object:
        """Run a call between its start and its end; one that ran before gives its answer.

        Raises:
            UserError: a workflow of DBOS runs the tool as a child workflow.
        """
        if in_dbos_workflow() and _is_child_workflow(tool_def):
            raise exceptions.UserError(
                f"tool {call.tool_name!r} is a child workflow of DBOS, and its agent has a ledger: "
                "make the function a DBOS.step, or call the agent outside of a workflow"
            )

        name = call.tool_name
        if name not in self._toolsets.get(str(ctx.run_id), ()):  # another's wrapper runs it
            execute = partial(self._execute, ctx, call, args, None, lambda: handler(args))
            return await self._recorded(ctx, call, execute)
        place = (str(ctx.run_id), call.tool_call_id)
        self._to_run[place] = call
        try:
            return await handler(args)
        finally:
            self._to_run.pop(place, None)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Return the toolset whose calls are recorded, with the arguments that come to it."""
        return _RecordedToolset(toolset, self)

    def note_tools(self, ctx: RunContext[Any], names: Collection[str]) -> None:
        """Take in the names of the tools whose calls come to the toolset that is recorded."""
        if str(ctx.run_id) in self._log.first_ids:
            self._toolsets[str(ctx.run_id)] = names

    async def run_tool(
        self,
        ctx: RunContext[Any],
        args: dict[str, Any],
        tool: ToolsetTool[Any],
        run: Callable[[], Awaitable[Any]],
    ) -> object:
        """Run a call between its start and its end, if pydantic-ai handles one in this context."""
        call = self._to_run.pop((str(ctx.run_id), str(ctx.tool_call_id)), None)
        if call is None:
            return await run()
        execute = partial(self._execute, ctx, call, args, tool, run)
        return await self._recorded(ctx, call, execute)

    async def _recorded(
        self,
        ctx: RunContext[Any],
        call: messages.ToolCallPart,
        execute: Callable[[], Coroutine[Any, Any, object]],
    ) -> object:
        ended = await as_step("toolledger.call", execute)
        if ended is None:
            return value_of(await self._calls.answer(await self._log.tool(ctx, call)))
        return ended[0]

    async def _execute(
        self,
        ctx: RunContext[Any],
        call: messages.ToolCallPart,
        args: dict[str, Any],
        by: ToolsetTool[Any] | None,
        run: Callable[[], Awaitable[Any]],
    ) -> object:
        tool = await self._log.tool(ctx, call, to_run=not ctx.tool_call_approved)
        asked = self._asked(ctx, call, args, by)
        is_given = asked == tool.effective_call.arguments
        decides = ctx.tool_call_approved and type(tool.status) is Pending
        if not decides and _awaits_approval(tool):
            untouched = not (tool.attempts or tool.edit)
            if not (is_given if ctx.tool_call_approved else untouched):
                raise exceptions.ApprovalRequired  # the decision comes as a result, with its edit
        if decides or may_run(tool):
            base = asked if decides else tool.effective_call.arguments
            if by is not None and _is_changed(args, base, by, ctx):
                tool = await self._edited(tool, args, decides=decides)
                self._cover(args, by, ctx)
            elif decides:
                edit = None if is_given else args
                seen = seen_by_host(ctx.messages, tool)
                tool = await self.chat.approve(tool.id, edit, reason="by the host", seen=seen)
        if not may_run(tool):
            return value_of(await self._calls.answer(tool))
        async with self._calls.running(tool, _PAUSES) as attempt:
            if attempt is None:
                return await self._execute(ctx, call, args, by, run)
            try:
                result = await run()
            except _WRAPPERS as error:
                failure = Failure.from_exception(_origin(error), now=system_clock())
                in_doubt = failure.leaves_doubt and attempt.has_effect
                await attempt.fail(failure, wording=None if in_doubt else wording_of(error, call))
                if attempt.tool.in_doubt:
                    answer = shown_text(await self._calls.answer(attempt.tool))
                    raise exceptions.ToolFailed(answer) from error
                raise
            value = result.return_value if isinstance(result, messages.ToolReturn) else result
            await attempt.complete(recorded_value(value))
            return result

    def _asked(
        self,
        ctx: RunContext[Any],
        call: messages.ToolCallPart,
        args: dict[str, Any],
        by: ToolsetTool[Any] | None,
    ) -> object:
        """Return the arguments that the model asked for, as the log may hold them."""
        given = parsed_call(call).call.arguments
        asked = self.chat.session.blocking.covered(given)
        if asked != given:
            self._cover(args, by, ctx)
        return asked

    def _cover(
        self, args: dict[str, Any], by: ToolsetTool[Any] | None, ctx: RunContext[Any]
    ) -> None:
        """Take out of the arguments that are to run what the log does not hold.

        Raises:
            ValidationError: the tool does not take what is left.
        """
        given = to_jsonable_python(args, serialize_unknown=True)
        left = self.chat.session.blocking.covered(given)
        if left != given:
            if by is not None:
                left = by.args_validator.validate_python(left, context=ctx.validation_context)
            args.clear()
            args.update(left)

    async def _edited(self, tool: Tool, args: dict[str, Any], *, decides: bool) -> Tool:
        """Return a call that needs no decision, with the arguments that the host's code has for it.

        Raises:
            UserError: the decision on the call is one on other arguments.
        """
        given = to_jsonable_python(args, serialize_unknown=True)
        edit = host_edit(tool, given, self.chat.session.blocking)
        if decides or edit is None or isinstance(tool.status, Approved):
            raise exceptions.UserError(
                f"a capability has changed the arguments of call {tool.id!r} to others than those "
                "that were decided on; it did not run: take the change out, or approve the call "
                "with the arguments that are to run"
            )
        return await self._calls.edit(tool, edit)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Answer the requests for approval that the log has a decision on; keep what they show.

        In a workflow of DBOS this is a step: a recovery has the decisions that there were.
        """
        results, shown = await self._kept(
            "toolledger.decisions", lambda: self._decisions(ctx, requests.approvals)
        )
        keep_seen(ctx.messages, shown)
        return results if results.approvals else None

    async def _decisions(
        self, ctx: RunContext[Any], asked: Sequence[messages.ToolCallPart]
    ) -> tuple[DeferredToolResults, dict[str, str]]:
        """Return the decisions on calls, and the revisions that people are asked about, by call."""
        results, shown = DeferredToolResults(), dict[str, str]()
        for call in asked:
            tool = await self._log.tool(ctx, call)
            shown[tool.id] = str(tool.revision)
            status = tool.status
            if await self._log.calls.is_approved(tool):
                edit = None if tool.edit is None else tool.edit.arguments
                results.approvals[call.tool_call_id] = ToolApproved(override_args=edit)
            elif isinstance(status, Rejected):
                said = shown_text(await self._calls.answer(tool))
                results.approvals[call.tool_call_id] = ToolDenied(said)
        return results, shown


@dataclass
class _RecordedToolset(WrapperToolset[Any]):
    """The toolset of a run, whose calls are recorded as all capabilities leave them."""

    ledger: Ledger

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools; see `Ledger.note_tools`."""
        tools = await super().get_tools(ctx)
        self.ledger.note_tools(ctx, tools.keys())
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> object:
        """Run a call; see `Ledger.run_tool`."""
        call = super().call_tool
        return await self.ledger.run_tool(
            ctx, tool_args, tool, lambda: call(name, tool_args, ctx, tool)
        )


def _is_child_workflow(tool_def: ToolDefinition) -> bool:
    """Return whether `DBOSDurability` runs a tool as a workflow of its own."""
    config = (tool_def.metadata or {}).get("dbos")
    return isinstance(config, dict) and "child_workflow" in config


def _awaits_approval(tool: Tool) -> bool:
    """Return whether pydantic-ai has to be told that a call is approved, or that it waits."""
    status = tool.status
    return isinstance(status, Approved) or (isinstance(status, Pending) and status.needs_decision)


def _origin(error: BaseException) -> BaseException:
    """Return the tool's own exception, under those that pydantic-ai wraps it in."""
    while isinstance(error, _WRAPPERS) and error.__cause__ is not None:
        error = error.__cause__
    return error


# arguments


def _is_changed(
    args: dict[str, Any], given: object, tool: ToolsetTool[Any], ctx: RunContext[Any]
) -> bool:
    """Return whether the arguments to run are others than those that a tool makes of the `given`.

    What it makes anew each time, such as a default with a random part, does not count.
    """
    validator, context = tool.args_validator, ctx.validation_context
    ways: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: validator.validate_python(given, context=context),
        lambda: validator.validate_json(json.dumps(given), context=context),
    )
    return all(_differs(args, make) for make in ways)


def _differs(args: dict[str, Any], make: Callable[[], dict[str, Any]]) -> bool:
    try:
        first, again = make(), make()
    except ValueError:  # the host's code has repaired them
        return True
    names = args.keys() | first.keys() | again.keys()
    fixed = [name for name in names if _is_same(first, again, name)]
    return not all(_is_same(args, first, name) for name in fixed)


def _is_same(one: dict[str, Any], other: dict[str, Any], name: str) -> bool:
    """Return whether a value is equal in both; one that cannot be compared is made anew."""
    try:
        return bool(one.get(name, _MISSING) == other.get(name, _MISSING))
    except Exception:  # noqa: BLE001 - a class of the host, such as an array, may raise anything
        return False
