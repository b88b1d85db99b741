"""After-hooks: functions of the host that see a result before it is recorded, and may replace it.

1. The hooks are called in order with the `Tool` and the result; each sees what those before it made
   of it. The answer is None, or a `Replace`.
2. They see every result of a call: of its tool, also a late one, of a hook that skipped the call
   (`Skip`), and of `verify`.
3. A result that was replaced carries the names of the hooks that did so, and their reasons. What
   it was before is not kept.
4. The tool has done its work when they are called. If a hook raises, the result that is recorded
   says that it is withheld: what a hook may have been about to hide is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from eventstore.dispatch.decisions import Replace, name_of, replacement_of
from eventstore.dispatch.effects import CallHook
from eventstore.domain.tool import Tool

AfterHook: TypeAlias = Callable[[Tool, Any], object]
"""Sees a result and may replace it; see `Dispatcher`. The answer may be awaitable."""


class FinalResult(msgspec.Struct, frozen=True):
    """The result to record; `by` and `reason` say what replaced it, a hook raised `error`."""

    result: Any
    by: str | None = None
    reason: str | None = None
    error: BaseException | None = None


def final_result(
    hooks: Sequence[AfterHook], tool: Tool, before: FinalResult
) -> Generator[CallHook, Any, FinalResult]:
    """Ask the hooks one after the other, and return what is to be recorded."""
    final = before
    for hook in hooks:
        name = name_of(hook)
        ask = partial(_ask, hook, _own_copy(final.result))
        try:
            replacement = replacement_of((yield CallHook(ask, tool, may_block=False)), name)
        except BaseException as error:  # noqa: BLE001 - raised after the result is recorded
            why = f"it raised {type(error).__name__}"
            text = f"[The tool has done its work. Its result is withheld by {name}: {why}.]"
            return _replaced(final, Replace(text, why), name, error)
        if replacement is not None:
            final = _replaced(final, replacement, name)
    return final


def final_result_now(
    hooks: Sequence[AfterHook],
    tool: Tool,
    result: object,
    resolve: Callable[[object], object],
) -> FinalResult:
    """Return the same for a late result, in its own thread; `resolve` waits for an awaitable."""
    steps = final_result(hooks, tool, FinalResult(result))
    try:
        effect = next(steps)
        while True:
            try:
                answer = resolve(effect.function(effect.tool))
            except BaseException as error:  # noqa: BLE001 - `final_result` decides
                effect = steps.throw(error)
            else:
                effect = steps.send(answer)
    except StopIteration as end:
        final: FinalResult = end.value
        return final


def _ask(hook: AfterHook, result: object, tool: Tool) -> object:
    return hook(tool, result)


def _own_copy(result: object) -> object:
    """Return the result for a hook: a change in place would not be noted, and must not count."""
    if type(result) not in (dict, list):
        return result
    try:
        return msgspec.to_builtins(result)
    except Exception:  # noqa: BLE001 - it holds objects that are not JSON; the hook sees the result
        return result


def _replaced(
    before: FinalResult, replacement: Replace, name: str, error: BaseException | None = None
) -> FinalResult:
    author = replacement.by or name
    by = author if before.by is None else f"{before.by}, {author}"
    reasons = [reason for reason in (before.reason, replacement.reason) if reason]
    return FinalResult(replacement.result, by, "; ".join(reasons) or None, error)
