"""The tools of openai-agents that run in forms of their own: shells and patches, recorded.

1. Each runs between the start and the end of an attempt, as a function does.
2. The editor of patches is told an operation and not which call asks for it: it is the latest call
   that asks for just that.
3. A computer is not told of a call at all: its calls end with the outputs in the next request, and
   their starts are not recorded.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agents import ApplyPatchTool, LocalShellTool, ShellTool
from agents.editor import ApplyPatchOperation, ApplyPatchResult
from agents.tool import ShellResult

from eventstore.domain.statuses import Pending
from eventstore.integrations.call_starts import awaits_attempt, may_run
from eventstore.integrations.recorded_calls import shown_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agents import LocalShellCommandRequest, RunContextWrapper, ShellCommandRequest

    from eventstore.domain.json_types import JsonObject
    from eventstore.integrations.openai_agents_log import RunLog

    NativeTool: TypeAlias = ApplyPatchTool | LocalShellTool | ShellTool
    Request: TypeAlias = LocalShellCommandRequest | ShellCommandRequest
    Run: TypeAlias = Callable[[JsonObject | None], Awaitable[object]]

NATIVE_TOOLS = (ApplyPatchTool, LocalShellTool, ShellTool)


class RecordedNative:
    """What runs the calls of a tool, recorded in the log of a ledger's runs."""

    def __init__(self, log: RunLog, tool: NativeTool) -> None:
        self.log = log
        self._tool = tool
        self._needs_approval = getattr(tool, "needs_approval", False) is True

    async def run(self, call_id: str, context: RunContextWrapper[Any], run: Run) -> Any:
        """Run a call between its start and its end; one that ran gives its answer.

        `run` gets the arguments of an edit, or None where the call runs as the model asked.
        """
        approved = context.is_tool_approved(self._tool.name, call_id)
        needs_decision = self._needs_approval or approved is True
        found = await self.log.calls.find(call_id, as_recorded=not needs_decision)
        if found is None:
            raise LookupError(f"the log has no call {call_id!r}")
        if needs_decision and isinstance(found.status, Pending):
            found = await self.log.approved(found)
        if not may_run(found):
            return shown_text(await self.log.calls.answer(found))
        async with self.log.calls.running(found) as attempt:
            if attempt is None:
                return await self.run(call_id, context, run)
            result = await run(None if found.edit is None else attempt.arguments)
            await attempt.complete(_as_result(result))
            return result


class RecordedExecutor(RecordedNative):
    """The executor of a shell."""

    async def __call__(self, request: Request) -> Any:
        """Run the commands of a request."""
        executor: Any = getattr(self._tool, "executor", None)

        async def execute(edited: JsonObject | None) -> object:
            given = request if edited is None else _edited_request(request, edited)
            return await _awaited(executor(given))

        return await self.run(request.data.call_id, request.ctx_wrapper, execute)


class RecordedEditor(RecordedNative):
    """The editor of patches."""

    async def create_file(self, operation: ApplyPatchOperation) -> Any:
        """Create a file."""
        return await self._edit(operation)

    async def update_file(self, operation: ApplyPatchOperation) -> Any:
        """Update a file."""
        return await self._edit(operation)

    async def delete_file(self, operation: ApplyPatchOperation) -> Any:
        """Delete a file."""
        return await self._edit(operation)

    async def _edit(self, operation: ApplyPatchOperation) -> Any:
        async def edit(edited: JsonObject | None) -> object:
            known = {each.name for each in fields(operation)}
            change = {key: value for key, value in (edited or {}).items() if key in known}
            given = replace(operation, **change)
            editor: Any = getattr(self._tool, "editor", None)
            return await _awaited(getattr(editor, given.type)(given))

        call_id = await self._call_of(operation)
        if call_id is None or operation.ctx_wrapper is None:
            return await edit(None)
        return await self.run(call_id, operation.ctx_wrapper, edit)

    async def _call_of(self, operation: ApplyPatchOperation) -> str | None:
        asked = {"type": operation.type, "path": operation.path, "diff": operation.diff}
        asked = {key: value for key, value in asked.items() if value is not None}
        asked = self.log.chat.session.blocking.covered(asked)
        equal = [
            tool
            for tool in reversed((await self.log.chat.tools()).values())
            if tool.call.name == self._tool.name and tool.call.arguments == asked
        ]
        first = [tool for tool in reversed(equal) if awaits_attempt(tool)] or equal
        return (first[0].provider_call_id or first[0].id) if first else None


async def _awaited(result: Any) -> object:
    return await result if inspect.isawaitable(result) else result


def _edited_request(request: Request, edited: JsonObject) -> Any:
    """Return a request with the commands that an edit of the call asks for."""
    data: Any = request.data
    if hasattr(data, "model_copy"):  # an item of the openai package
        action = cast("Any", type(data.action))
        changed = {"action": action.model_validate(edited)}
        return replace(request, data=data.model_copy(update=changed))
    known = {each.name for each in fields(data.action)}
    edit = type(data.action)(**{key: edited[key] for key in edited if key in known})
    return replace(request, data=replace(data, action=edit))


def _as_result(result: object) -> object:
    """Return a result as the log keeps it: with the members of the output that it makes."""
    if isinstance(result, ShellResult):
        return [
            {"stdout": each.stdout, "stderr": each.stderr, "outcome": _outcome(each.outcome)}
            for each in result.output
        ]
    if isinstance(result, ApplyPatchResult):
        return {"status": result.status or "completed", "output": result.output or ""}
    return "" if result is None else result


def _outcome(outcome: Any) -> JsonObject:
    if outcome.type == "timeout":
        return {"type": "timeout"}
    return {"type": "exit", "exit_code": outcome.exit_code or 0}
