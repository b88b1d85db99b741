"""How the calls of a rollout of Codex CLI ended, by the events beside their results.

The event of a command or a patch comes before its result; `declined` means that a person refused.
"""

from __future__ import annotations

from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.importers.reading.json_members import member, text

_EVENTS: Final = frozenset({"exec_command_end", "patch_apply_end"})
_ITEMS: Final = frozenset({"CommandExecution", "FileChange", "McpToolCall", "DynamicToolCall"})
_FAILED: Final = frozenset({"failed", "declined"})


class Ends:
    """The ends that events told so far, by the ids of their calls."""

    def __init__(self) -> None:
        self._by_call: dict[str, JsonObject] = {}

    def add(self, event: JsonObject) -> None:
        """Note the end that an event tells, if it is one."""
        kind = text(event, "type")
        if kind in _EVENTS:
            self._by_call[text(event, "call_id")] = event
        elif kind == "item_completed":
            item = member(event, "item")
            if text(item, "type") in _ITEMS:
                self._by_call[text(item, "id")] = item

    def failed(self, call_id: str) -> bool | None:
        """Return whether a call failed; None where no event says it."""
        end = self._by_call.get(call_id, {})
        code: JsonValue = end.get("exit_code")
        if isinstance(code, int) and not isinstance(code, bool) and code != 0:
            return True
        status = text(end, "status")
        return status in _FAILED if status else None

    def declined(self, call_id: str) -> bool:
        """Return whether a person refused a call."""
        return self._by_call.get(call_id, {}).get("status") == "declined"
