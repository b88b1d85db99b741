"""Claude Agent SDK: queries whose messages and calls are recorded in a conversation.

    ledger = Ledger(store.conversation("support-42"))
    async for message in ledger.query("Where is my order 7?", options):
        print(message)

1. A response is recorded when the model has ended it, with its usage. The hook `PreToolUse` of each
   of its calls waits for that: all calls of a turn are pending before any of them runs.
2. `PreToolUse` starts an attempt; `PostToolUse` and `PostToolUseFailure` end it. A hook that cannot
   record blocks its tool.
3. Where `can_use_tool` is asked, the attempt pauses. Its answer is recorded as the decision.
4. A call of a tool in `needs_approval` is deferred, which ends the run. A decision in the log
   (`chat.approve`, `chat.reject`) is what `resume` continues with.
5. Claude Code keeps the session that the model reads. Its id comes from the conversation's, so that
   each later run continues it.
6. What a subagent says and calls is not recorded: the call that began it is.
7. The arguments that run are the log's. `claude_agent_sdk_hooks` says what the host's own
   hooks may change.
8. Of an exception the hooks have the text, which says whether it leaves a doubt. `with_doubts`
   lets the exception say that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Collection, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import NAMESPACE_URL, uuid5

from eventstore.agent_errors.response_failed import ResponseFailed
from eventstore.aio.conversation import AsyncConversation
from eventstore.append.commands import attempts
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT, text_of_doubt
from eventstore.domain.events import ToolPaused
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.leases import DEFAULT_LEASE_SECONDS
from eventstore.domain.own_texts import is_own_text
from eventstore.domain.statuses import Approved, Pending
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.error_texts import failure_of_text
from eventstore.integrations.extras import missing_extra
from eventstore.integrations.host_answers import host_edit
from eventstore.integrations.recorded_calls import AsyncRecordedCalls, shown_text
from eventstore.provider_messages.record import record
from eventstore.providers.json_values import copy as copied
from eventstore.providers.streaming import streamed_response

try:
    import claude_agent_sdk as sdk
    from claude_agent_sdk.types import StreamEvent

    from eventstore.integrations.claude_agent_sdk_hooks import HostHooks
except ImportError as error:
    raise missing_extra("claude-agent-sdk", error) from error

if TYPE_CHECKING:
    from claude_agent_sdk import (
        CanUseTool,
        ClaudeAgentOptions,
        HookContext,
        HookJSONOutput,
        Message,
        PermissionResult,
        SdkMcpTool,
        ToolPermissionContext,
        ToolResultBlock,
    )

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.domain.tool import Tool

PROVIDER: Final = "anthropic"
"""The form of the responses that Claude Code streams."""
GO_ON: Final = "Continue from where you left off."
"""What a resumed session is told; Claude Code says the same where it continues by itself."""
NOT_RUN: Final = Failure(
    ErrorKind.INTERNAL, "the run ended before it began: nothing has happened", code="not_run"
)
"""The failure of a call that Claude Code has given up."""
OTHER_WAITS: Final = Failure(
    ErrorKind.INTERNAL,
    "not run: another call waits for a decision; ask again after it",
    code="not_run",
)
"""The failure of a second call of a turn that needs an approval: Claude Code keeps one."""

_HOOK_SECONDS: Final = 600.0
_DEFERRED_SECONDS: Final = 20.0
_REFUSED_ARGUMENTS: Final = ("Input validation error", "InputValidationError")


class Ledger:
    """Queries of the SDK whose messages and calls are recorded in one conversation.

    `chat` is a conversation of an `AsyncEventStore`. `needs_approval` names the tools whose calls
    wait for a decision, as the model knows them (`mcp__shop__refund`).

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
        self.chat = chat
        self._calls = AsyncRecordedCalls(chat, "claude-agent-sdk", needs_approval, read_only)
        self._needs_approval = frozenset(needs_approval)

    @property
    def session_id(self) -> str:
        """The id of the session in which Claude Code keeps this conversation."""
        return str(uuid5(NAMESPACE_URL, f"toolledger:{self.chat.id}"))

    async def query(
        self, prompt: str | AsyncIterable[dict[str, Any]], options: ClaudeAgentOptions | None = None
    ) -> AsyncGenerator[Message, None]:
        """Yield the messages that `claude_agent_sdk.query` gives, and record them."""
        run = self._run(await self._in_session(options))
        async with aclosing(run.messages(prompt)) as messages:
            async for message in messages:
                yield message

    async def resume(
        self, options: ClaudeAgentOptions | None = None
    ) -> AsyncGenerator[Message, None]:
        """Continue after a crash, or after a decision, and yield the messages.

        A deferred call continues with its decision. Any other call of the last turn that had not
        begun has failed with code `not_run`, because Claude Code gives it up: the model may ask
        again. Nothing is done, and no message comes, if the model has had the last word.

        Raises:
            CallUnderWay: another worker executes a call; nothing is done.
        """
        turns = await self._calls.turns_to_resume()
        if not turns:
            return
        deferred = await self._settle(await self._calls.last_calls(turns))
        run = self._run(await self._in_session(options))
        async with aclosing(run.messages(run.continuation(deferred=deferred))) as messages:
            async for message in messages:
                yield message

    def _run(self, options: ClaudeAgentOptions) -> _Run:
        return _Run(self.chat, self._calls, self._needs_approval, options)

    async def _in_session(self, options: ClaudeAgentOptions | None) -> ClaudeAgentOptions:
        """Return the options with the conversation's session, unless the host chose one."""
        given = options or sdk.ClaudeAgentOptions()
        if given.resume or given.session_id or given.continue_conversation:
            return given
        if await self.chat.version:
            return replace(given, resume=self.session_id)
        return replace(given, session_id=self.session_id)

    async def _settle(self, last: list[Tool]) -> bool:
        """Record which calls Claude Code has given up; return whether one was deferred."""
        deferred = {
            recorded.event.call_id
            async for recorded in self.chat.events()
            if isinstance(recorded.event, ToolPaused) and not recorded.event.attempt
        }
        if any(tool.id in deferred for tool in last):
            return True
        for tool in last:
            if awaits_attempt(tool):
                await self.chat.fail(tool.id, NOT_RUN)
        return False


class _Run:
    """One query: its hooks, its answers to `can_use_tool`, and what its messages record."""

    def __init__(
        self,
        chat: AsyncConversation,
        calls: AsyncRecordedCalls,
        needs_approval: Collection[str],
        options: ClaudeAgentOptions,
    ) -> None:
        self._chat = chat
        self._calls = calls
        self._needs_approval = needs_approval
        self._options = options
        self._response = streamed_response(PROVIDER)
        self._recorded = asyncio.Condition()  # a response and its calls
        self._attempts: dict[str, AsyncAttempt] = {}  # under way, by call
        self._host_hooks = HostHooks(self._may_be_edited)
        self._deferred: str | None = None  # Claude Code keeps one call for later, the last
        self._moved = asyncio.Event()
        self._ended = asyncio.Event()

    async def messages(
        self, prompt: str | AsyncIterable[dict[str, Any]]
    ) -> AsyncGenerator[Message, None]:
        """Yield the messages of the run; each was recorded before."""
        try:
            stream = cast(
                "AsyncGenerator[Message, None]",
                sdk.query(prompt=prompt, options=self._recording_options()),
            )
            async with aclosing(stream):
                async for message in stream:
                    await self._take(message)
                    if self._options.include_partial_messages or type(message) is not StreamEvent:
                        yield message
        except BaseException as error:
            await self._break_off(error)
            raise
        finally:
            self._ended.set()
        await self._break_off(asyncio.CancelledError("the run ended"))

    async def continuation(self, *, deferred: bool) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what a resumed session is told; nothing if it continues with a deferred call."""
        try:
            if deferred:
                await asyncio.wait_for(self._moved.wait(), _DEFERRED_SECONDS)
        except TimeoutError:  # Claude Code did not keep that it deferred the call
            deferred = False
        if not deferred:
            said = {"role": "user", "content": GO_ON}
            yield {"type": "user", "message": said, "parent_tool_use_id": None}
        await self._ended.wait()  # the SDK hangs up on hooks and tools after this

    def _recording_options(self) -> ClaudeAgentOptions:
        """Return the options with the hooks of the host, and the ones that record."""
        given = self._options
        hooks: dict[Any, list[sdk.HookMatcher]] = dict(given.hooks or {})
        for event, hook in (
            ("UserPromptSubmit", self._said),
            ("PreToolUse", self._start),
            ("PostToolUse", self._complete),
            ("PostToolUseFailure", self._fail),
        ):
            own = sdk.HookMatcher(hooks=[hook], timeout=_HOOK_SECONDS, on_failure="block")
            hosts = hooks.get(event, [])
            if event == "PreToolUse":
                hosts = [
                    replace(each, hooks=[*map(self._host_hooks.wrapped, each.hooks)])
                    for each in hosts
                ]
            hooks[event] = [*hosts, own]
        return replace(
            given,
            hooks=hooks,
            can_use_tool=given.can_use_tool and partial(self._ask, given.can_use_tool),
            include_partial_messages=True,  # the end of a response, and its usage
            env={"CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1", **given.env},
        )

    # what the messages record

    async def _take(self, message: Message) -> None:
        """Record a response at its end, and the answers to calls that no tool gave."""
        if isinstance(message, StreamEvent) and message.parent_tool_use_id is None:
            self._moved.set()
            self._response.add(message.event)
            if message.event["type"] == "message_stop":
                await self._record_response()
        elif isinstance(message, sdk.UserMessage) and message.parent_tool_use_id is None:
            for block in message.content:
                if isinstance(block, sdk.ToolResultBlock):
                    await self._settle(block)
        elif isinstance(message, sdk.ResultMessage):
            self._ended.set()

    async def _record_response(self) -> None:
        """Record what the model has said so far, and wake the hooks of its calls."""
        ended, self._response = self._response, streamed_response(PROVIDER)
        came = ended.response()
        if came is not None:
            broken_off = not ended.is_finished
            command = record(
                self._chat.id,
                came,
                PROVIDER,
                prices=self._chat.session.blocking.prices,
                broken_off=broken_off,
            )
            with suppress(ResponseFailed):  # the SDK tells the host
                self._calls.know(await self._chat.session.run(command))
        async with self._recorded:
            self._recorded.notify_all()

    async def _settle(self, result: ToolResultBlock) -> None:
        """Record why a call did not run: a rule refused it, or its name or its arguments are."""
        tool = await self._calls.find(result.tool_use_id)
        if tool is None:
            return
        text = str(_value(result.content))
        attempt = self._attempts.pop(tool.id, None)
        if attempt is not None:  # neither hook came: a rule, or a hook of the host, refused it
            tool = await attempt.pause(reason="Claude Code did not run it")
        if is_own_text(text):
            return
        if tool.is_paused:
            await self._chat.reject(tool.id, text, source="policy")
        elif awaits_attempt(tool):
            await self._chat.fail(tool.id, Failure(ErrorKind.VALIDATION, text))

    async def _break_off(self, error: BaseException) -> None:
        """Record the end of what is under way when the run ends."""
        if isinstance(error, GeneratorExit):
            error = asyncio.CancelledError("the messages were not read to their end")
        await self._record_response()
        while self._attempts:
            _, attempt = self._attempts.popitem()
            await attempt.fail(error)

    # what Claude Code calls

    async def _said(
        self, hook: Mapping[str, Any], _: str | None, __: HookContext
    ) -> HookJSONOutput:
        """Record someone's words."""
        if hook["prompt"] != GO_ON:
            await self._chat.add_message("user", hook["prompt"])
        return {}

    async def _start(
        self, hook: Mapping[str, Any], _: str | None, __: HookContext
    ) -> HookJSONOutput:
        """Start a call, or say why it does not run."""
        if "agent_id" in hook:
            return {}
        self._moved.set()
        tool, is_decided = await self._after_host_hooks(hook["tool_use_id"])
        attempt = None
        while attempt is None:
            if isinstance(tool.status, Pending) and self._waits(tool):
                return await self._defer(tool, tool.status)
            if not may_run(tool):
                answer = await self._calls.answer(tool)
                return _permission("deny", permissionDecisionReason=shown_text(answer))
            attempt = await self._calls.begin(tool)
            if attempt is None:  # decided on meanwhile, or its approval has expired
                tool = await self._calls.now(tool.id)
                is_decided = isinstance(tool.status, Approved)
        self._attempts[tool.id] = attempt
        if is_decided or self._is_covered(hook["tool_input"]):
            return _permission("allow", updatedInput=attempt.arguments)
        return {}

    def _is_covered(self, given: object) -> bool:
        """Return whether the rules of the store cover a part of these arguments."""
        return bool(self._chat.session.blocking.covered(given) != given)

    async def _defer(self, tool: Tool, status: Pending) -> HookJSONOutput:
        """Let a call wait for a person; Claude Code keeps one."""
        if self._deferred not in {None, tool.id}:
            await self._chat.fail(tool.id, OTHER_WAITS)
            return _permission("deny", permissionDecisionReason=OTHER_WAITS.message)
        self._deferred = tool.id
        if not status.needs_decision:
            await self._chat.session.run(attempts.pause(self._chat.id, tool.id, None, "deferred"))
        return _permission("defer")

    async def _after_host_hooks(self, call_id: str) -> tuple[Tool, bool]:
        """Return a call with what the host's hooks said, and whether the log has a decision."""
        said = await self._host_hooks.said(call_id)
        tool = await self._awaited(call_id)
        is_decided = isinstance(tool.status, Approved)
        if said.denied and awaits_attempt(tool):
            tool = await self._chat.reject(tool.id, said.reason, "hook", seen=tool)
        elif said.edit is not None:
            edit = host_edit(tool, said.edit, self._chat.session.blocking)
            if edit is not None:
                tool = await self._calls.edit(tool, edit)
        return tool, is_decided

    async def _may_be_edited(self, call_id: str) -> bool:
        """Return whether a hook of the host may change the arguments of a call."""
        tool = await self._awaited(call_id)
        return isinstance(tool.status, Pending) and not self._waits(tool)

    async def _complete(
        self, hook: Mapping[str, Any], _: str | None, __: HookContext
    ) -> HookJSONOutput:
        """Record a result."""
        attempt = await self._under_way(hook)
        if attempt is not None:
            await attempt.complete(_value(hook["tool_response"]))
        return {}

    async def _fail(
        self, hook: Mapping[str, Any], _: str | None, __: HookContext
    ) -> HookJSONOutput:
        """Record a failure: Claude Code gives its text."""
        attempt = await self._under_way(hook)
        text = hook["error"]
        if attempt is None:
            return {}
        if hook.get("is_interrupt"):
            await attempt.fail(asyncio.CancelledError(text))
        elif text.startswith(_REFUSED_ARGUMENTS):
            await attempt.fail(Failure(ErrorKind.VALIDATION, text))
        else:
            failed = await attempt.fail(failure_of_text(text))
            if failed.in_doubt and MAY_HAVE_TAKEN_EFFECT not in text:
                return _output("PostToolUseFailure", additionalContext=MAY_HAVE_TAKEN_EFFECT)
        return {}

    async def _ask(
        self,
        ask: CanUseTool,
        name: str,
        given: dict[str, Any],
        context: ToolPermissionContext,
    ) -> PermissionResult:
        """Let the host decide on a call; it has paused meanwhile."""
        tool = await self._calls.find(context.tool_use_id or "")
        attempt = None if tool is None else self._attempts.pop(tool.id, None)
        if attempt is None:  # a subagent's
            return await ask(name, given, context)
        call_id = attempt.tool.id
        asked = await attempt.pause(reason=context.decision_reason or "can_use_tool")
        before = copied(given)  # the host may change in place what it is given
        answer = await ask(name, given, context)
        if isinstance(answer, sdk.PermissionResultDeny):
            await self._chat.reject(call_id, answer.message, by="can_use_tool", seen=asked)
            return answer
        runs = given if answer.updated_input is None else answer.updated_input
        edited = None if runs == before else runs
        await self._chat.approve(call_id, edited, by="can_use_tool", seen=asked)
        begun = await self._chat.begin(call_id, lease=DEFAULT_LEASE_SECONDS)
        self._attempts[call_id] = begun
        return replace(answer, updated_input=begun.arguments) if self._is_covered(runs) else answer

    async def _awaited(self, call_id: str) -> Tool:
        """Return a call once the response that makes it is recorded."""
        async with self._recorded:
            while (tool := await self._calls.find(call_id)) is None:
                await self._recorded.wait()
        return tool

    async def _under_way(self, hook: Mapping[str, Any]) -> AsyncAttempt | None:
        """Return the attempt that a hook ends, if it is one of this conversation."""
        tool = await self._calls.find(hook["tool_use_id"])
        return None if tool is None else self._attempts.pop(tool.id, None)

    def _waits(self, tool: Tool) -> bool:
        """Return whether a pending call waits for a person's decision."""
        return not may_run(tool) or tool.call.name in self._needs_approval


def with_doubts(tool: SdkMcpTool[Any]) -> SdkMcpTool[Any]:
    """Return a tool whose error says where the call may have taken effect, by its exception.

    `create_sdk_mcp_server` hands on the text of an exception alone, and a lost connection under an
    error of one's own is not seen in that.
    """

    async def handler(given: object) -> dict[str, Any]:
        try:
            return await tool.handler(given)
        except Exception as error:
            failure = Failure.from_exception(error)
            if not failure.leaves_doubt:
                raise
            text = text_of_doubt(failure.model_text, failure.code)
            return {"content": [{"type": "text", "text": text}], "is_error": True}

    return replace(tool, handler=handler)


def _permission(decision: str, **more: object) -> HookJSONOutput:
    """Return what `PreToolUse` says of a call."""
    return _output("PreToolUse", permissionDecision=decision, **more)


def _output(event: str, **said: object) -> HookJSONOutput:
    output: Any = {"hookEventName": event, **said}
    return {"hookSpecificOutput": output}


def _value(result: object) -> object:
    """Return what a tool returned: the text of one block of text, or all of it."""
    match result:
        case [{"type": "text", "text": text}]:
            return text
        case _:
            return result
