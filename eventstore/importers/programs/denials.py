"""Denials in session logs of Claude Code: what refused a call, by the marks of its record.

1. `toolDenialKind` says how a call was denied, `permissionDecision.source` what decided.
2. A call that ran before it was denied (`toolDenialAfterRun`), or that was interrupted, is no
   denial: it may have taken effect, and failed.
3. Older versions have no marks: the beginning of the result says it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.importers.reading.transcript import is_refusal

_KINDS: Final = {
    "user-rejected": "human",
    "permission-rule": "rule",
    "automode-blocked": "gate",
    "automode-unavailable": "gate",
    "automode-parsing-error": "gate",
}
"""What refuses, by the kind of a denial; `interrupted` and `cancelled` are no denials."""

_SOURCES: Final = {"hook": "hook", "config": "rule"}
"""What decided, where the record says more than the kind: the settings, without a person there."""

_HOOK: Final = re.compile(r"\APreToolUse:\S{1,200} hook error:")
_RULE: Final = re.compile(
    r"\A(?:Claude requested permissions to |Permission to use [^\n]{1,2000} has been denied)"
)


class Denials:
    """The denied calls of a conversation, as a test of results: what refused the call of one."""

    def __init__(self) -> None:
        self._by_call: dict[str, str] = {}

    def add(self, record: JsonObject) -> None:
        """Note what refused the calls whose results a record has, if its marks say so."""
        if (who := _refuser(record)) is None:
            return
        for block in objects(member(record, "message"), "content"):
            if block.get("type") == "tool_result" and block.get("is_error") is True:
                self._by_call[text(block, "tool_use_id")] = who

    def __call__(self, result: Any) -> bool | str:
        """Return what refused the call of a block, as in `ToolRejected.source`, or False."""
        if not is_json_object(result) or result.get("is_error") is not True:
            return False
        marked = self._by_call.get(text(result, "tool_use_id"))
        if marked is not None:
            return marked or False
        return is_refusal(result) or _said(text_of(result.get("content")))


def _refuser(record: JsonObject) -> str | None:
    """Return what refused, empty text where nothing did; None where the record has no mark."""
    kind, decision = record.get("toolDenialKind"), member(record, "permissionDecision")
    if kind is None and decision.get("decision") != "reject":
        return None
    if record.get("toolDenialAfterRun") is True or kind == "interrupted":
        return ""
    if kind == "cancelled":
        return None  # a question that was put away, or an attempt: the text says which
    who = _SOURCES.get(text(decision, "source")) or _KINDS.get(str(kind), "human")
    blocks = objects(member(record, "message"), "content")
    by_hook = any(_HOOK.match(text_of(block.get("content"))) for block in blocks)
    return "hook" if by_hook else who


def _said(said: str) -> bool | str:
    if _HOOK.match(said):
        return "hook"
    return "rule" if _RULE.match(said) else False
