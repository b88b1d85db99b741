"""What a run of openai-agents writes to the log.

1. What a model is asked is recorded before, what it answers with its calls before any of them runs.
   A tool runs between the start and the end of an attempt.
2. The SDK checks arguments inside the tool's own invocation: refused arguments fail an attempt that
   has begun, with kind `validation`.
3. A decision of the SDK's state is recorded before the tool runs. It is for the call as the model
   asked for it, because that is what the state has.
4. A tool with a `failure_error_function` of its own hides its exceptions: what that returns is
   recorded as the result. The tools of an MCP server hide none; see `openai_agents_mcp`.
5. What the SDK tells the model of a call is kept as it says it, in its form. So the next prompt has
   these words, and no exception that the SDK has kept to itself.
"""

from __future__ import annotations

import json
import time
from asyncio import CancelledError
from inspect import isawaitable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from agents import AgentsException, ItemHelpers, ModelBehaviorError, ModelResponse
from agents.exceptions import ToolTimeoutError
from openai.types.responses import ResponseFunctionToolCall

from eventstore.domain.decision_errors import CallChanged
from eventstore.domain.doubt import text_of_doubt
from eventstore.domain.events import MessageAdded
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.statuses import Pending
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.host_answers import first_seen
from eventstore.integrations.openai_agents_mcp import RemoteEnds, words_of
from eventstore.integrations.recorded_calls import (
    AsyncRecordedCalls,
    id_in_framework,
    record_response,
    unknown_tool,
    validation_failure,
)
from eventstore.integrations.recorded_wordings import recorded_of, wording_in
from eventstore.providers.json_values import members_of
from eventstore.providers.native_form import without_restorable_native
from eventstore.providers.openai_responses.client_items import id_of_output, said_by
from eventstore.providers.openai_responses.shapes import CALL_OF
from eventstore.providers.parsing import parse_own
from eventstore.providers.parts_as_text import answer_text
from eventstore.providers.sdk_objects import member, plain
from eventstore.providers.to_events import events_of_history

if TYPE_CHECKING:
    from collections.abc import Collection

    from agents import FunctionTool
    from agents.run_config import ToolErrorFormatterArgs
    from agents.tool_context import ToolContext

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.aio.conversation import AsyncConversation
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool

PROVIDER: Final = "openai-responses"
"""The form of the SDK's items."""

_WORDS = ("user", "system", "developer")


class RunLog:
    """The requests, the responses and the calls of a ledger's runs, in its conversation."""

    def __init__(self, chat: AsyncConversation, read_only: Collection[str]) -> None:
        self.chat = chat
        self.calls = AsyncRecordedCalls(chat, "openai-agents", read_only=read_only)
        self.remote_ends: RemoteEnds = {}
        self.replayed: ModelResponse | None = None
        """What the next request is answered with, in place of asking the model."""
        self._errors: dict[str, Exception] = {}  # by the call whose tool raised it
        self._timeout_texts: dict[str, str] = {}  # by the call: what the model reads

    async def record_request(self, given: str | list[Any]) -> ModelResponse | None:
        """Record what the model is asked; return the response that is to be given again, if any."""
        replayed, self.replayed = self.replayed, None
        if replayed is not None:
            return replayed
        said = [{"role": "user", "content": given}] if isinstance(given, str) else _tail(given)
        outputs = [item for item in said if item.get("type") in CALL_OF]
        await self._record_outputs({str(id_of_output(item)): item for item in outputs})
        words: Any = [item for item in said if item.get("role") in _WORDS]
        if words:
            events = _words_added(ItemHelpers.input_to_new_input_list(words))
            await self.calls.record_words(lambda stored: events[len(stored) :])
        return None

    async def record_response(
        self, response: object, latency: float, known: Collection[str] | None = None
    ) -> None:
        """Record a response and its calls, before any of them runs.

        A call of a tool that is not among the `known` names has failed.
        """
        output = [plain(item) for item in response.output]  # type: ignore[attr-defined]
        name = member(response, "response_id") or member(response, "id")
        whole: JsonObject = {"output": output, "usage": _usage(member(response, "usage"))}
        if name is not None:
            whole["id"] = name
        tools = await record_response(self.chat, whole, PROVIDER, latency)
        for tool in tools:
            if known is not None and tool.call.name not in known:  # the SDK may end the run for it
                await self.chat.fail(tool.id, unknown_tool(tool.call.name))
        self.calls.know(tools)

    async def _record_outputs(self, items: dict[str, JsonObject]) -> None:
        """Record the outputs of calls that no tool ran, such as a handoff or a refusal.

        Raises:
            CallChanged: a call has changed since the model asked for it.
        """
        texts = {call_id: said_by(item).text for call_id, item in items.items()}
        if (words := self.calls.blocking.worded(texts)) is not None:
            await self.chat.session.run(words)
        for call_id, tool in (await self.calls.unanswered(texts)).items():
            if tool.revision != first_seen(tool):
                raise _RefusedAnswer("completed", first_seen(tool), tool)
            if items[call_id]["type"] == "function_call_output":
                await self.chat.complete(tool.id, items[call_id].get("output"), synthetic=True)
            else:
                await self.chat.record(items[call_id], PROVIDER)

    async def record_refusal(self, tool: Tool, reason: str | None, guardrail: str) -> None:
        """Record that a guardrail of the host has refused a call, as it was then."""
        if awaits_attempt(tool):
            wording = None
            if reason is not None:
                wording = wording_in(_output_item(id_in_framework(tool), reason), PROVIDER)
            await self.calls.reject(tool, reason, "hook", guardrail, seen=tool, wording=wording)

    async def note_error(self, args: ToolErrorFormatterArgs[Any], text: str | None) -> None:
        """Keep a tool's own exception; record a refused or an unknown call, told in a `text`."""
        if args.error is not None:
            self._errors[args.call_id] = args.error
            return
        tool = await self.calls.find(args.call_id)
        if tool is not None and awaits_attempt(tool):
            said = args.default_message if text is None else text
            wording = wording_in(_output_item(args.call_id, said), PROVIDER)
            if args.kind == "approval_rejected":
                if tool.revision == first_seen(tool):  # otherwise the next request is refused
                    await self.calls.reject(tool, said, seen=tool, wording=wording)
            else:
                failure = Failure(ErrorKind.VALIDATION, args.default_message)
                await self.calls.fail(tool, failure, wording)

    async def approved(self, tool: Tool) -> Tool:
        """Return a call with the host's approval of what the model asked for.

        Raises:
            CallChanged: the call has changed since.
        """
        try:
            return await self.chat.approve(tool.id, reason="by the host", seen=first_seen(tool))
        except CallChanged as changed:
            raise _RefusedAnswer("approved", changed.seen, changed.now) from None

    async def invoke(self, tool: FunctionTool, context: ToolContext[Any], arguments: str) -> object:
        """Run a call of a tool between its start and its end; one that ran gives its answer."""
        began = time.monotonic()
        approved = context.is_tool_approved(tool.name, context.tool_call_id)
        needs_decision = tool.needs_approval is True or approved is True
        found = await self.calls.find(context.tool_call_id, as_recorded=not needs_decision)
        if found is None:
            raise LookupError(f"the log has no call {context.tool_call_id!r}")
        waits = needs_decision and isinstance(found.status, Pending)
        if waits and found.effective_call.is_object:  # the tool itself refuses anything else
            found = await self.approved(found)
        if not may_run(found):
            return await self.output(found)
        async with self.calls.running(found) as attempt:
            if attempt is None:
                return await self.invoke(tool, context, arguments)
            is_given = found.edit is None and not self.is_covered(arguments)
            given = arguments if is_given else json.dumps(attempt.arguments)
            result = await self._invoked(tool, context, given, attempt, began)
            is_remote = found.id in self.remote_ends
            failed = self._failure_of(found, context.tool_call_id)
            if tool.tool_output_guardrails:  # which may put other words in their place
                output = (_item(tool, context, result) or {}).get("output")
                text = output if isinstance(output, str) else None
                self.calls.blocking.unworded[context.tool_call_id] = found.id, text
            if failed is not None:
                in_doubt = _leaves_doubt(failed) and attempt.has_effect
                item = None if in_doubt else _item(tool, context, result)
                await attempt.fail(failed, wording=wording_in(item, PROVIDER) if item else None)
                if attempt.tool.in_doubt:
                    return await self.output(attempt.tool)
            else:
                value: Any = plain(words_of(result) if is_remote else result)
                item, wording = _item(tool, context, result), None
                if item is not None:
                    value, wording = recorded_of(item, PROVIDER, value)
                await attempt.complete(value, wording=wording)
            return result

    async def _invoked(
        self,
        tool: FunctionTool,
        context: ToolContext[Any],
        given: str,
        attempt: AsyncAttempt,
        began: float,
    ) -> Any:
        """Return what the SDK makes of an attempt; record why it failed, if that ends the run."""
        try:
            return await tool.on_invoke_tool(context, given)
        except CancelledError as cancelled:
            if _is_timeout(tool, time.monotonic() - began):
                text = await self._text_of_timeout(tool, context, in_doubt=attempt.has_effect)
                self._timeout_texts[context.tool_call_id] = text
                wording = wording_in(_output_item(context.tool_call_id, text), PROVIDER)
                await attempt.fail(cancelled, wording=wording)
            raise
        except ModelBehaviorError as refused:
            await attempt.fail(validation_failure(refused))
            raise
        except Exception:
            if (ended := self.remote_ends.pop(attempt.tool.id, None)) is not None:
                await attempt.fail(ended)
            raise

    async def output(self, tool: Tool) -> Any:
        """Return the answer of the log to a call as the SDK puts it into an item."""
        answer = await self.calls.answer(tool)
        if answer.provider == PROVIDER and answer.native is not None and answer.note is None:
            return answer.native["output"]
        return answer_text(answer)

    async def timeout_text(self, tool: FunctionTool, context: ToolContext[Any]) -> str:
        """Return what the model reads of a call that has timed out."""
        known = self._timeout_texts.pop(context.tool_call_id, None)
        if known is not None:
            return known
        call = await self.calls.find(context.tool_call_id)
        return await self._text_of_timeout(
            tool, context, in_doubt=call is not None and call.in_doubt
        )

    async def _text_of_timeout(
        self, tool: FunctionTool, context: ToolContext[Any], *, in_doubt: bool
    ) -> str:
        """Return the SDK's text, or the host's, which says that the call may have taken effect."""
        error = ToolTimeoutError(tool.name, tool.timeout_seconds or 0)
        own = tool.timeout_error_function
        given = str(error) if own is None else own(context, error)
        text = await given if isawaitable(given) else given
        return text_of_doubt(text, "timeout") if in_doubt else text

    def is_covered(self, arguments: str) -> bool:
        """Return whether the rules of the store cover a part of these arguments."""
        return bool(self.chat.session.blocking.covered(arguments) != arguments)

    def _failure_of(self, call: Tool, call_id: str) -> Exception | Failure | None:
        """Return why the tool of a call has failed; None if it has not."""
        raised = self._errors.pop(call_id, None)
        failed = self.remote_ends.pop(call.id, None) or raised
        return validation_failure(failed) if isinstance(failed, ModelBehaviorError) else failed


def _is_timeout(tool: FunctionTool, seconds: float) -> bool:
    """Return whether the SDK has cut a call short that ran so long, and tells the model."""
    most, behavior = tool.timeout_seconds, tool.timeout_behavior
    return most is not None and seconds >= most and behavior == "error_as_result"


def _leaves_doubt(failed: Exception | Failure) -> bool:
    failure = failed if isinstance(failed, Failure) else Failure.from_exception(failed)
    return failure.leaves_doubt


def _item(tool: FunctionTool, context: ToolContext[Any], output: object) -> JsonObject | None:
    """Return the item by which the model is told of an output; None where the SDK refuses it."""
    form: dict[str, Any] = {}
    if not isinstance(output, str):
        form["output_json_schema"] = getattr(tool, "output_json_schema", None)
        form["output_type_adapter"] = getattr(tool, "_output_type_adapter", None)
    call: Any = context.tool_call or ResponseFunctionToolCall(
        arguments="", call_id=context.tool_call_id, name=tool.name, type="function_call"
    )
    given = {name: value for name, value in form.items() if value is not None}
    try:
        item = ItemHelpers.tool_call_output_item(call, output, **given)
    except (AgentsException, TypeError):  # the SDK refuses the output, and ends the run
        return None
    return members_of(plain(item))


def _output_item(call_id: str, text: str) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


class _RefusedAnswer(CallChanged, AgentsException):
    """The error of a late answer, as one of the SDK, which would put another into its words."""


def _tail(items: list[JsonObject]) -> list[JsonObject]:
    """Return the input items after the model's last one."""
    return list(takewhile(_is_given, reversed(items)))[::-1]


def _words_added(items: list[Any]) -> list[MessageAdded]:
    """Return the events of someone's words."""
    parsed = [without_restorable_native(item, PROVIDER) for item in parse_own(items, PROVIDER)]
    events = events_of_history(parsed, PROVIDER).events
    return [event for event in events if isinstance(event, MessageAdded)]


def _usage(used: object) -> JsonObject:
    """Return the tokens that a response has used, by the names of the API."""
    read, written = member(used, "input_tokens_details"), member(used, "output_tokens_details")
    return {
        "input_tokens": member(used, "input_tokens"),
        "output_tokens": member(used, "output_tokens"),
        "input_tokens_details": {"cached_tokens": member(read, "cached_tokens")},
        "output_tokens_details": {"reasoning_tokens": member(written, "reasoning_tokens")},
    }


def _is_given(item: JsonObject) -> bool:
    """Return whether an input item is not the model's: someone's words, or a call's output."""
    return item.get("type") in CALL_OF or item.get("role") in _WORDS
