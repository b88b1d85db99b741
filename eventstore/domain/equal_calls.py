"""Equal calls: calls of a conversation that ask for the same effect under different ids. Pure.

1. What counts is the call in force, an approved edit included: the same tool with the same
   arguments. Numbers count by their value, so that 8 and 8.0 are the same. Where the tool's
   function is known, what it gets counts: an argument that is left out is its default.
2. Where the tool has a key of its own (an order's number), the same key is enough.
3. A call stands in the way of an equal one while it is in doubt: it may have taken effect. So does
   one that a fork has closed, whose outcome only the origin knows. One whose next attempt is to
   come stands in the way of calls that have not started, and not of other next attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from eventstore.domain.arguments import checked
from eventstore.domain.calls import FunctionCall
from eventstore.domain.closing_codes import FORKED, NOT_EXECUTED
from eventstore.domain.events import ToolRejected
from eventstore.domain.json_types import JsonObject, as_whole_number, with_leaves
from eventstore.domain.statuses import Failed, Rejected, Running
from eventstore.domain.tool import Tool

EqualCalls: TypeAlias = Literal["refuse", "answer", "run"]
"""What a call gets that equals an earlier one; see `Dispatcher`."""

KeyOf: TypeAlias = Callable[[Any], object]
"""Returns what the effect of a call is known by, of its arguments; None where nothing is.

Of equal arguments it returns equal keys.
"""

EQUAL_CALL = "equal_call"
"""What answers or refuses a call because of an equal one, as the log names it."""


def check_equal_calls(name: str, value: object) -> None:
    """Raise an error unless the value is one of `EqualCalls`.

    Raises:
        TypeError: it is not.
    """
    checked(name, value, get_args(EqualCalls).__contains__, "pass 'refuse', 'answer' or 'run'")


class Equality(msgspec.Struct, frozen=True, eq=False):
    """When two calls of a tool ask for the same effect.

    `key_of` is the tool's own key; None means that all arguments count. `taken` returns what the
    tool's function gets of arguments, by parameter; None means the arguments as they stand.
    """

    key_of: KeyOf | None = None
    taken: Callable[[JsonObject], JsonObject] | None = None

    def holds(self, call: FunctionCall, other: FunctionCall) -> bool:
        """Return whether two calls ask for the same effect.

        Raises:
            ValueError: the key of `call` is equal to none, not even to itself, as NaN.
        """
        if call.name != other.name:
            return False
        if value_of(call) == value_of(other):
            return True
        if not (call.is_object and other.is_object):
            return False
        return self._takes_same(call, other) or self._has_same_key(call, other)

    def _takes_same(self, call: FunctionCall, other: FunctionCall) -> bool:
        if self.taken is None:
            return False
        one, another = (self.taken(msgspec.to_builtins(c.arguments)) for c in (call, other))
        return one.keys() == another.keys() and all(
            _is_same(value, another[name]) for name, value in one.items()
        )

    def _has_same_key(self, call: FunctionCall, other: FunctionCall) -> bool:
        if self.key_of is None:
            return False
        key = _key(self.key_of, call)
        if key is None:
            return False
        if key != _key(self.key_of, call):
            raise ValueError(
                f"the key of call {call.id!r} of tool {call.name!r} is {key!r}, which does not "
                "equal itself when it is made again: let equal_by return text, a number or None"
            )
        return key == _key_or_none(self.key_of, other)


class SameEffect(msgspec.Struct, frozen=True, eq=False):
    """Which calls stand in the way of an equal one.

    `is_ours` returns whether a call is under way here, so that its end will come.
    """

    equality: Equality
    is_ours: Callable[[Tool], bool]

    def in_the_way(self, tool: Tool, others: Iterable[Tool]) -> Tool | None:
        """Return the first call that stands in the way of `tool`, or None."""
        call, has_failed = tool.effective_call, type(tool.status) is Failed
        return next(
            (
                other
                for other in others
                if other.id != tool.id
                and not (has_failed and other.retry_announced and not other.in_doubt)
                and not self.is_ours(other)
                and self.equality.holds(call, other.effective_call)
            ),
            None,
        )


def stands_in_the_way(tool: Tool) -> bool:
    """Return whether a call may have taken effect, or is to run again, as far as is known here."""
    status = tool.status
    if type(status) is Failed:
        return tool.in_doubt or tool.retry_announced or status.failure.code == FORKED
    return type(status) is Running or tool.ended_in_doubt or tool.retry_announced


_encode = msgspec.json.Encoder(order="deterministic").encode


def value_of(call: FunctionCall) -> bytes:
    """Return the bytes of a call's name and arguments, in which a whole float is an integer.

    The fingerprint differs where `1` and `1.0` do; these bytes do not.
    """
    if not call.is_object:
        return call.digest()
    return _encode([call.name, with_leaves(call.arguments, as_whole_number)])


def calls_equal_to(
    call: Tool | FunctionCall, tools: Mapping[str, Tool], equality: Equality
) -> list[Tool]:
    """Return the calls among `tools` that ask for the same as `call`, except itself, in order."""
    asked = call.effective_call if isinstance(call, Tool) else call
    return [
        tool
        for tool in tools.values()
        if tool.id != call.id and equality.holds(asked, tool.effective_call)
    ]


def _is_same(one: object, other: object) -> bool:
    """Return whether a function gets the same: equal JSON, or equal objects of a class."""
    return bool(with_leaves(one, _marked) == with_leaves(other, _marked))


def _marked(value: object) -> object:
    """Return a value that equals others as JSON values do: True and 1 differ."""
    return (bool, value) if isinstance(value, bool) else value


def _key(key_of: KeyOf, call: FunctionCall) -> object:
    return key_of(msgspec.to_builtins(call.arguments))


def _key_or_none(key_of: KeyOf, call: FunctionCall) -> object:
    """Return the key of an earlier call, which may be of an older version of the tool."""
    try:
        return _key(key_of, call)
    except Exception:  # noqa: BLE001 - it has no such key
        return None


def refusal(first: Tool) -> str:
    """Return what the model reads of a call that did not run because of an equal one."""
    if isinstance(first.status, Rejected):
        return first.status.model_text
    if first.retry_announced and not first.in_doubt:
        return (
            f"not executed: it asks for the same as the call {first.id!r}, which has failed and "
            "will be tried again"
        )
    return (
        f"not executed: it asks for the same as the call {first.id!r}, which may have taken "
        "effect: check before asking for it again"
    )


def refused(call_id: str, first: Tool) -> ToolRejected:
    """Return what refuses a call because of an equal one, in doubt or rejected."""
    details: JsonObject = {"kind": NOT_EXECUTED, "reason": EQUAL_CALL, "equal_call": first.id}
    return ToolRejected(call_id, refusal(first), "rule", EQUAL_CALL, details)
