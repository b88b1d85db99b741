"""What the host's own `PreToolUse` hooks say of a call, before the ledger starts it.

1. Claude Code asks all hooks at once. The host's are wrapped, and the start of the call waits for
   them.
2. Arguments that one has changed are an edit. They do not run where a decision on the call was
   needed: they are taken out of the hook's answer.
3. What one denies is rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from claude_agent_sdk import HookCallback, HookContext, HookInput, HookJSONOutput

    from eventstore.domain.json_types import JsonObject


class HostSaid(NamedTuple):
    """What the hooks of the host said of a call."""

    edit: JsonObject | None = None
    denied: bool = False
    reason: str | None = None


class HostHooks:
    """The `PreToolUse` hooks of the host in one run; `may_edit` says so by Claude Code's ids."""

    def __init__(self, may_edit: Callable[[str], Awaitable[bool]]) -> None:
        self._may_edit = may_edit
        self._begun: dict[str, list[asyncio.Future[HookJSONOutput]]] = {}  # by Claude Code's ids
        self._said: dict[str, HostSaid] = {}

    async def said(self, call_id: str) -> HostSaid:
        """Return what the hooks said of a call, once all have answered."""
        if begun := self._begun.pop(call_id, []):
            await asyncio.wait(begun)
        return self._said.pop(call_id, HostSaid())

    def wrapped(self, own: HookCallback) -> HookCallback:
        """Return a hook of the host, whose answer the start of the call waits for."""

        async def asked(
            hook: HookInput, call_id: str | None, context: HookContext
        ) -> HookJSONOutput:
            if "agent_id" in hook:
                return await own(hook, call_id, context)
            name = cast("Mapping[str, str]", hook)["tool_use_id"]
            answer = asyncio.ensure_future(self._answered(name, own(hook, call_id, context)))
            self._begun.setdefault(name, []).append(answer)
            return await answer

        return asked

    async def _answered(self, name: str, asked: Awaitable[HookJSONOutput]) -> HookJSONOutput:
        """Return the answer of a hook, without an edit of what needs a decision."""
        answer: Any = await asked
        output = answer.get("hookSpecificOutput") or {}
        if output.get("permissionDecision") == "deny" or answer.get("decision") == "block":
            reason = output.get("permissionDecisionReason") or answer.get("reason")
            self._note(name, denied=True, reason=reason)
        edit = output.get("updatedInput")
        if edit is None:
            return answer
        if await self._may_edit(name):
            self._note(name, edit=edit)
            return answer
        kept = {member: value for member, value in output.items() if member != "updatedInput"}
        return cast("HookJSONOutput", {**answer, "hookSpecificOutput": kept})

    def _note(self, call_id: str, **said: Any) -> None:
        self._said[call_id] = self._said.get(call_id, HostSaid())._replace(**said)
