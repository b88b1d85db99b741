"""pydantic-ai: a capability that records an agent's runs, and gives the next run its history.

    ledger = Ledger(store.conversation("support-42"))
    history = await ledger.history()
    await agent.run("Where is my order?", message_history=history, capabilities=[ledger])

1. The user's prompt is recorded before the model is asked, and the response, with its thinking, its
   signatures and its usage, before any of its tools runs.
2. A call whose arguments are refused has failed with kind `validation`, and did not start.
3. `ApprovalRequired` and `CallDeferred` pause a call. A decision in the log (`chat.approve`,
   `chat.reject`) is what a run goes on with. The response of a call that waits keeps the revision
   that was asked about, in its `metadata`; an answer of the host is for that.
4. `resume` lets pydantic-ai itself run the calls that are open: validated, with the agent's
   dependencies and hooks. Calls with a recorded answer do not run again.
5. The arguments that run are those of the log. A call is recorded as it comes out of the hooks of
   every capability: what these have changed is an edit. A call that needs a decision is refused
   then, because pydantic-ai shows the model's arguments. A call that a hook answers has no attempt.
6. A run is known by its `run_id`, and in a workflow of DBOS by the id that it had first. What the
   same run says again at the same step is stored once, and its calls are as the log has them. In a
   workflow of Temporal a run is refused.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from eventstore.aio.conversation import AsyncConversation
from eventstore.domain.arguments import in_microseconds
from eventstore.domain.events import MessageAdded, ModelResponded
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.domain.statuses import Approved, Pending, Rejected
from eventstore.domain.usage import Usage
from eventstore.integrations.durable_workflows import (
    as_step,
    in_dbos_workflow,
    in_temporal_workflow,
    kept,
)
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.recorded_calls import (
    AsyncRecordedCalls,
    first_seen,
    host_edit,
    may_run,
    shown_text,
    validation_failure,
)
from eventstore.providers.call_arguments import function_call
from eventstore.providers.model import ParsedCall
from eventstore.providers.parts_as_text import plain_text

try:
    from pydantic import TypeAdapter
    from pydantic_ai import exceptions, messages
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied
    from pydantic_ai.toolsets import WrapperToolset
    from pydantic_core import to_jsonable_python
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

    from eventstore.domain.revision import Revision
    from eventstore.domain.tool import Tool
    from eventstore.providers.model import Call, Turn

FRAMEWORK = "pydantic-ai"
"""The `provider` of its messages in the log."""

T = TypeVar("T")

_MISSING = object()
_SEEN = "toolledger_seen"  # a member of a response's metadata: revisions, by call

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
        if not isinstance(chat, AsyncConversation):
            raise TypeError(
                f"chat is {chat!r}: open the log with AsyncEventStore, which serves run_sync, too"
            )
        self.chat = chat
        self._calls = AsyncRecordedCalls(chat, FRAMEWORK, read_only=read_only)
        self._early: set[tuple[str, str]] = set()  # the step and id of calls that stand alone
        self._requested_at: dict[str, float] = {}  # by step and `time.monotonic`
        self._first_ids: dict[str, str] = {}  # of runs in workflows, by the ids that they have now
        self._toolsets: dict[str, Collection[str]] = {}  # by run: the tools that the ledger runs
        self._to_run: dict[tuple[str, str], messages.ToolCallPart] = {}  # by run and id

    async def history(self) -> list[messages.ModelMessage]:
        """Return what was said so far as `message_history` for a run with a new prompt.

        Each call is answered: an open one with what is known of it. In a workflow of DBOS this is
        a step: a recovery gets the same history.
        """

        async def look() -> list[messages.ModelMessage]:
            return list(_messages(await self._calls.turns()))

        return await self._kept("toolledger.history", look)

    async def resume(self, agent: Agent[Any, Any], **options: Any) -> AgentRunResult[Any]:
        """Let an agent go on after a crash, or after a decision; `options` go to `agent.run`.

        The calls of the last turn that may start run first. Then the model is asked.

        Raises:
            CallUnderWay: another worker is at a call; nothing is done.
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
        tools = await self.chat.tools()
        history = list(_messages(turns))
        last = [tools[call.id].status for call in turns[-1].calls] if turns else []
        if any(isinstance(status, Pending | Approved) for status in last):
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

        self._first_ids[run_id] = await self._kept("toolledger.run", look)
        try:
            return await handler()
        finally:
            self._first_ids.pop(run_id, None)
            self._toolsets.pop(run_id, None)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Record the user's words, and the answers that no tool gave."""
        step = self._step(ctx)

        async def record() -> None:
            await self._record_answers(request_context.messages)
            await self._record_words(step, request_context.messages)

        await as_step("toolledger.words", record)
        self._requested_at[step] = time.monotonic()
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: messages.ModelResponse,
    ) -> messages.ModelResponse:
        """Record the response and its calls, before any of them runs."""
        await self._record_response(ctx, response)
        return response

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Record the answers that no tool gave, such as those of output tools."""
        await self._record_answers(result.all_messages())
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
            tool = await self._tool(ctx, call)
            if isinstance(tool.status, Pending | Approved):
                await self.chat.fail(tool.id, validation_failure(_origin(error)))
            raise

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: messages.ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
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
            return await self._recorded(ctx, call, args, None, lambda: handler(args))
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
        if str(ctx.run_id) in self._first_ids:
            self._toolsets[str(ctx.run_id)] = names

    async def run_tool(
        self,
        ctx: RunContext[Any],
        args: dict[str, Any],
        tool: ToolsetTool[Any],
        run: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Run a call between its start and its end, if pydantic-ai handles one in this context."""
        call = self._to_run.pop((str(ctx.run_id), str(ctx.tool_call_id)), None)
        return await (run() if call is None else self._recorded(ctx, call, args, tool, run))

    async def _recorded(
        self,
        ctx: RunContext[Any],
        call: messages.ToolCallPart,
        args: dict[str, Any],
        by: ToolsetTool[Any] | None,
        run: Callable[[], Awaitable[Any]],
    ) -> Any:
        async def execute() -> Any:
            return await self._execute(ctx, call, args, by, run)

        ended = await as_step("toolledger.call", execute)
        if ended is None:
            return shown_text(await self._calls.answer(await self._tool(ctx, call)))
        return ended[0]

    async def _execute(
        self,
        ctx: RunContext[Any],
        call: messages.ToolCallPart,
        args: dict[str, Any],
        by: ToolsetTool[Any] | None,
        run: Callable[[], Awaitable[Any]],
    ) -> Any:
        tool = await self._tool(ctx, call, to_run=not ctx.tool_call_approved)
        asked = _parsed(call).call.arguments
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
            elif decides:
                edit = None if is_given else args
                seen = _seen(ctx.messages, tool)
                tool = await self.chat.approve(tool.id, edit, reason="by the host", seen=seen)
        if not may_run(tool):
            return shown_text(await self._calls.answer(tool))
        async with self._calls.running(tool, _PAUSES) as attempt:
            if attempt is None:
                return await self._execute(ctx, call, args, by, run)
            try:
                result = await run()
            except _WRAPPERS as error:
                await attempt.fail(_origin(error))
                if attempt.tool.in_doubt:
                    answer = shown_text(await self._calls.answer(attempt.tool))
                    raise exceptions.ToolFailed(answer) from error
                raise
            value = result.return_value if isinstance(result, messages.ToolReturn) else result
            await attempt.complete(value)
            return result

    async def _edited(self, tool: Tool, args: dict[str, Any], *, decides: bool) -> Tool:
        """Return a call that needs no decision, with the arguments that the host's code has for it.

        Raises:
            UserError: the decision on the call is one on other arguments.
        """
        edit = host_edit(tool, to_jsonable_python(args, serialize_unknown=True))
        if decides or edit is None or isinstance(tool.status, Approved):
            raise exceptions.UserError(
                f"a capability has changed the arguments of call {tool.id!r} to others than those "
                "that were decided on; it did not run: take the change out, or approve the call "
                "with the arguments that are to run"
            )
        seen = first_seen(tool)
        return await self.chat.approve(tool.id, edit, reason="edited by the host", seen=seen)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Answer the requests for approval that the log has a decision on; keep what they show.

        In a workflow of DBOS this is a step: a recovery has the decisions that there were.
        """
        results, shown = await self._kept(
            "toolledger.decisions", lambda: self._decisions(ctx, requests.approvals)
        )
        _keep_seen(ctx.messages, shown)
        return results if results.approvals else None

    async def _decisions(
        self, ctx: RunContext[Any], asked: Sequence[messages.ToolCallPart]
    ) -> tuple[DeferredToolResults, dict[str, str]]:
        """Return the decisions on calls, and the revisions that people are asked about, by call."""
        results, shown = DeferredToolResults(), dict[str, str]()
        for call in asked:
            tool = await self._tool(ctx, call)
            shown[tool.id] = str(tool.revision)
            status = tool.status
            if isinstance(status, Approved):
                edit = None if tool.edit is None else tool.edit.arguments
                results.approvals[call.tool_call_id] = ToolApproved(override_args=edit)
            elif isinstance(status, Rejected):
                reason = status.reason or "The tool call was denied."
                results.approvals[call.tool_call_id] = ToolDenied(reason)
        return results, shown

    # recording

    def _step(self, ctx: RunContext[Any]) -> str:
        """Return what names a model's response: its run, and the step in it."""
        run_id = str(ctx.run_id)
        return f"{self._first_ids.get(run_id, run_id)} {ctx.run_step}"

    async def _record_words(self, step: str, given: Sequence[messages.ModelMessage]) -> None:
        """Record the system's and the user's words after the last response, if they are new."""
        said = [part for message in _after_response(given) for part in message.parts]
        events = [_message_added(part) for part in said if isinstance(part, _WORDS)]
        if events:
            await self._calls.record_words(lambda stored: _without_stored(events, stored), step)

    async def _record_response(
        self, ctx: RunContext[Any], response: messages.ModelResponse
    ) -> None:
        step = self._step(ctx)
        requested_at = self._requested_at.pop(step, None)
        latency = None if requested_at is None else time.monotonic() - requested_at
        calls = [p for p in response.tool_calls if (step, p.tool_call_id) not in self._early]
        parts = [Text(p.content) for p in response.parts if isinstance(p, messages.TextPart)]
        if calls or parts or not response.tool_calls:
            (native,) = messages.ModelMessagesTypeAdapter.dump_python([response], mode="json")
            made = [_parsed(call) for call in calls]
            said = f"{step} {json.dumps(native['parts'], sort_keys=True)}"  # or it was asked anew
            responded = _responded(response, latency)
            await self._calls.record(said, parts, made, native, responded, step)

    async def _record_answers(self, given: Sequence[messages.ModelMessage]) -> None:
        """Record answers that pydantic-ai gave itself: to unknown tools, output tools, refusals.

        Raises:
            CallChanged: the host has denied what the call is no longer.
        """
        said = [part for message in _after_response(given) for part in message.parts]
        answers = {p.tool_call_id: p for p in said if isinstance(p, messages.ToolReturnPart)}
        texts = {call_id: part.model_response_str() for call_id, part in answers.items()}
        for call_id, tool in (await self._calls.unanswered(texts)).items():
            part, text = answers[call_id], texts[call_id]
            if part.outcome == "denied":
                await self.chat.reject(tool.id, text, seen=_seen(given, tool))
            elif part.outcome in ("failed", "retried"):
                await self.chat.fail(tool.id, Failure(ErrorKind.VALIDATION, text))
            elif part.outcome == "success":
                await self.chat.complete(tool.id, text, synthetic=True)

    async def _tool(
        self, ctx: RunContext[Any], call: messages.ToolCallPart, *, to_run: bool = False
    ) -> Tool:
        """Return the call in the log, for `running` or as it stands now.

        Where words came first, `run_stream` runs tools before it shows the response: then the call
        is recorded by itself, and the words after it.
        """
        tool = await self._calls.find(call.tool_call_id, as_recorded=to_run)
        if tool is not None and _is_made_in(ctx.messages, call.tool_call_id):
            return tool
        step = self._step(ctx)
        self._early.add((step, call.tool_call_id))
        (tool,) = await self._calls.record(f"{step} {call.tool_call_id}", (), [_parsed(call)], None)
        return tool


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
    ) -> Any:
        """Run a call; see `Ledger.run_tool`."""
        call = super().call_tool
        return await self.ledger.run_tool(
            ctx, tool_args, tool, lambda: call(name, tool_args, ctx, tool)
        )


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


def _responded(response: messages.ModelResponse, latency: float | None) -> ModelResponded:
    """Return what a response says of itself, and the `latency` in seconds with which it came."""
    used = response.usage
    own = (response.provider_details or {}).get("finish_reason")  # pydantic-ai has no name for some
    return ModelResponded(
        provider=response.provider_name,
        model=response.model_name,
        response_id=response.provider_response_id,
        finish_reason=response.finish_reason or (own if isinstance(own, str) else None),
        usage=Usage.stated(
            [used.input_tokens],
            [used.output_tokens],
            [used.cache_read_tokens],
            [used.output_reasoning_tokens],
        )
        if used.has_values()
        else None,
        latency=in_microseconds("latency", latency),
    )


def _is_made_in(given: Sequence[messages.ModelMessage], call_id: str) -> bool:
    """Return whether the last response makes a call."""
    last = _last_response(given)
    return last is not None and any(part.tool_call_id == call_id for part in last.tool_calls)


def _parsed(call: messages.ToolCallPart) -> ParsedCall:
    return ParsedCall(call.tool_call_id, function_call(call.tool_name, call.args or {}))


def _is_child_workflow(tool_def: ToolDefinition) -> bool:
    """Return whether `DBOSDurability` runs a tool as a workflow of its own."""
    config = (tool_def.metadata or {}).get("dbos")
    return isinstance(config, dict) and "child_workflow" in config


def _awaits_approval(tool: Tool) -> bool:
    """Return whether pydantic-ai has to be told that a call is approved, or that it waits."""
    status = tool.status
    return isinstance(status, Approved) or (isinstance(status, Pending) and status.needs_decision)


def _last_response(given: Sequence[messages.ModelMessage]) -> messages.ModelResponse | None:
    return next((m for m in reversed(given) if isinstance(m, messages.ModelResponse)), None)


def _keep_seen(given: Sequence[messages.ModelMessage], shown: dict[str, str]) -> None:
    """Keep the revisions that people are asked about with the response that made the calls."""
    response = _last_response(given)
    if response is not None and shown:
        before = response.metadata or {}
        response.metadata = {**before, _SEEN: {**before.get(_SEEN, {}), **shown}}


def _seen(given: Sequence[messages.ModelMessage], tool: Tool) -> str | Revision:
    """Return what a person was asked about a call; without a note, what the model asked for."""
    response = _last_response(given)
    kept = ((response and response.metadata) or {}).get(_SEEN, {})
    return kept.get(tool.id) or first_seen(tool)


def _origin(error: BaseException) -> BaseException:
    """Return the tool's own exception, under those that pydantic-ai wraps it in."""
    while isinstance(error, _WRAPPERS) and error.__cause__ is not None:
        error = error.__cause__
    return error


# words to events and back

_WORDS = (messages.SystemPromptPart, messages.UserPromptPart)


@cache
def _user_content() -> TypeAdapter[list[messages.UserContent]]:
    return TypeAdapter(list[messages.UserContent])


def _after_response(given: Sequence[messages.ModelMessage]) -> list[messages.ModelMessage]:
    """Return the messages after the model's last response."""
    after: list[messages.ModelMessage] = []
    for message in given:
        after = [] if isinstance(message, messages.ModelResponse) else [*after, message]
    return after


def _without_stored(
    said: Sequence[MessageAdded], stored: Sequence[MessageAdded]
) -> Sequence[MessageAdded]:
    """Return words without those at their beginning that are stored."""
    known = 0
    for new, there in zip(said, stored, strict=False):
        if (new.role, new.parts) != (there.role, there.parts):
            break
        known += 1
    return said[known:]


def _message_added(part: messages.SystemPromptPart | messages.UserPromptPart) -> MessageAdded:
    if isinstance(part, messages.SystemPromptPart):
        return MessageAdded("system", (Text(part.content),))
    content = [part.content] if isinstance(part.content, str) else part.content
    return MessageAdded("user", tuple(_part(item) for item in content))


def _part(item: messages.UserContent) -> Part:
    if isinstance(item, str):
        return Text(item)
    if isinstance(item, messages.ImageUrl):
        return Image(url=item.url)
    if isinstance(item, messages.DocumentUrl):
        return Document(url=item.url)
    if isinstance(item, messages.BinaryContent) and not item.vendor_metadata:
        data = b64encode(item.data).decode()
        if item.is_image:
            return Image(data=data, media_type=item.media_type)
        if item.media_type == _PDF:
            return Document(data=data)
    return Opaque(FRAMEWORK, _user_content().dump_python([item], mode="json")[0])


def _content(part: Part) -> messages.UserContent:
    if isinstance(part, Image):
        if part.url is not None:
            return messages.ImageUrl(part.url)
        return messages.BinaryContent(
            b64decode(part.data or ""), media_type=part.media_type or _PNG
        )
    if isinstance(part, Document):
        if part.url is not None:
            return messages.DocumentUrl(part.url)
        return messages.BinaryContent(b64decode(part.data or ""), media_type=_PDF)
    if isinstance(part, Opaque) and part.provider == FRAMEWORK:
        return _user_content().validate_python([part.data])[0]
    return plain_text((part,), [])


_PDF = "application/pdf"
_PNG = "image/png"


def _messages(turns: Sequence[Turn]) -> Iterator[messages.ModelMessage]:
    """Yield turns as pydantic-ai's messages; the answers of a turn's calls follow it."""
    for turn in turns:
        if turn.hidden:
            continue
        if turn.role == "system":
            yield messages.ModelRequest([messages.SystemPromptPart(plain_text(turn.parts, []))])
        elif turn.role != "assistant":
            content = [_content(part) for part in turn.parts]
            said = content[0] if len(content) == 1 and isinstance(content[0], str) else content
            yield messages.ModelRequest([messages.UserPromptPart(said)])
        else:
            calls = [call for call in turn.calls if not call.hidden]
            response = _response(turn, calls)
            if response.parts:
                yield response
            if calls:
                yield messages.ModelRequest([_returned(call) for call in calls])


def _response(turn: Turn, calls: Sequence[Call]) -> messages.ModelResponse:
    """Return a response as pydantic-ai had it, without the calls that are not shown."""
    if turn.provider == FRAMEWORK and turn.native is not None:
        (own,) = messages.ModelMessagesTypeAdapter.validate_python([turn.native])
        if isinstance(own, messages.ModelResponse):
            shown = {call.provider_id or call.id for call in calls}
            parts = [
                part
                for part in own.parts
                if not isinstance(part, messages.ToolCallPart) or part.tool_call_id in shown
            ]
            return replace(own, parts=parts)
    text = plain_text(turn.parts, [])
    said = [messages.TextPart(text)] if text else []
    made = [messages.ToolCallPart(c.name, _written(c), c.provider_id or c.id) for c in calls]
    return messages.ModelResponse([*said, *made])


def _written(call: Call) -> str | dict[str, Any]:
    """Return the arguments of a call as pydantic-ai takes them."""
    if call.raw is not None:
        return call.raw
    return call.arguments if isinstance(call.arguments, dict) else {}


def _returned(call: Call) -> messages.ToolReturnPart:
    answer = call.answer
    return messages.ToolReturnPart(
        call.name,
        shown_text(answer),
        call.provider_id or call.id,
        outcome="failed" if answer.is_error else "success",
    )
