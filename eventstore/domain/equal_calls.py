"""Equal calls: calls of a conversation that ask for the same effect under different ids. Pure.

1. What counts is the call in force, an approved edit included: the same tool with the same
   arguments. Where the tool has a key of its own (an order's number), the same key is enough.
2. A call stands in the way of an equal one while it is in doubt: it may have taken effect. So does
   one that a fork has closed, whose outcome only the origin knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from eventstore.domain.arguments import checked
from eventstore.domain.calls import FunctionCall
from eventstore.domain.events import FORKED, NOT_EXECUTED, ToolRejected
from eventstore.domain.json_types import JsonObject
from eventstore.domain.statuses import Failed, Rejected
from eventstore.domain.tool import Tool

EqualCalls: TypeAlias = Literal["refuse", "answer", "run"]
"""What a call gets that equals an earlier one; see `Dispatcher`."""

KeyOf: TypeAlias = Callable[[Any], object]
"""Returns what the effect of a call is known by, of its arguments; None where nothing is."""

EQUAL_CALL = "equal_call"
"""What answers or refuses a call because of an equal one, as the log names it."""


def check_equal_calls(name: str, value: object) -> None:
    """Raise an error unless the value is one of `EqualCalls`.

    Raises:
        TypeError: it is not.
    """
    checked(name, value, get_args(EqualCalls).__contains__, "pass 'refuse', 'answer' or 'run'")


class SameEffect(msgspec.Struct, frozen=True, eq=False):
    """Which calls stand in the way of an equal one.

    `key_of` is the tool's own key; None means that all arguments count. `is_ours` returns whether a
    running call is under way here, so that its end will come.
    """

    key_of: KeyOf | None
    is_ours: Callable[[Tool], bool]

    def in_the_way(self, tool: Tool, others: Iterable[Tool]) -> Tool | None:
        """Return the first call that stands in the way of `tool`, or None."""
        call = tool.effective_call
        return next(
            (
                other
                for other in others
                if other.id != tool.id
                and not self.is_ours(other)
                and is_equal(call, other.effective_call, self.key_of)
            ),
            None,
        )


def stands_in_the_way(tool: Tool) -> bool:
    """Return whether a call may have taken effect, as far as this conversation knows."""
    if tool.in_doubt:
        return True
    status = tool.status
    return type(status) is Failed and status.failure.code == FORKED


def is_equal(call: FunctionCall, other: FunctionCall, key_of: KeyOf | None = None) -> bool:
    """Return whether two calls ask for the same effect."""
    if call.name != other.name:
        return False
    if call.digest() == other.digest():
        return True
    if key_of is None or not (call.is_object and other.is_object):
        return False
    key = key_of(msgspec.to_builtins(call.arguments))
    return key is not None and key == _key_or_none(key_of, other)


def calls_equal_to(
    call: Tool | FunctionCall, tools: Mapping[str, Tool], key_of: KeyOf | None = None
) -> list[Tool]:
    """Return the calls among `tools` that ask for the same as `call`, except itself, in order."""
    asked = call.effective_call if isinstance(call, Tool) else call
    return [
        tool
        for tool in tools.values()
        if tool.id != call.id and is_equal(asked, tool.effective_call, key_of)
    ]


def _key_or_none(key_of: KeyOf, call: FunctionCall) -> object:
    """Return the key of an earlier call, which may be of an older version of the tool."""
    try:
        return key_of(msgspec.to_builtins(call.arguments))
    except Exception:  # noqa: BLE001 - it has no such key
        return None


def refusal(first: Tool) -> str:
    """Return what the model reads of a call that did not run because of an equal one."""
    if isinstance(first.status, Rejected):
        return first.status.model_text
    return (
        f"not executed: it asks for the same as the call {first.id!r}, which may have taken "
        "effect: check before asking for it again"
    )


def refused(call_id: str, first: Tool) -> ToolRejected:
    """Return what refuses a call because of an equal one, in doubt or rejected."""
    details: JsonObject = {"kind": NOT_EXECUTED, "reason": EQUAL_CALL, "equal_call": first.id}
    return ToolRejected(call_id, refusal(first), "rule", EQUAL_CALL, details)
