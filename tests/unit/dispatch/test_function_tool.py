"""`FunctionTool`: the checks of its options and of a call's arguments."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support.dispatchers import make

from eventstore import Conversation, ErrorKind, Failure, FunctionCall, FunctionTool, Tool
from eventstore.dispatch.function_tool import registry


def two(*a: int, b: int, c: int = 3, d: int, e: int = 5) -> None:
    """Take parameters of all kinds."""


def anything(a: int, **more: int) -> None:
    """Accept any arguments."""


class AsyncCallable:
    """An object with an async `__call__`."""

    async def __call__(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (two, {"b": 1, "d": 1}, None),
        (two, {"b": 1, "c": 1, "d": 1, "e": 1}, None),
        (two, {"b": 1}, "`t` is missing argument d"),
        (two, {}, "`t` is missing arguments b, d"),
        (two, {"a": 1, "b": 1, "d": 1}, "`t` takes no argument a"),
        (anything, {"a": 1, "x": 2}, None),
        (anything, {"x": 2}, "`t` is missing argument a"),
        (dict, {"x": 2}, None),
    ],
)
def test_arguments_are_checked_against_the_functions_own(
    function: Any, arguments: dict[str, Any], message: str | None
) -> None:
    """Arguments are checked by name; a function without a signature is called unchecked."""
    failure = FunctionTool(function, "t").invalid(FunctionCall.of("t", arguments))
    assert (failure.message if failure else None) == message
    assert failure is None or isinstance(failure, Failure)


def test_takes_tool_hides_the_first_parameter_from_the_model() -> None:
    """The model's arguments must not contain this parameter."""
    spec = FunctionTool(anything, takes_tool=True)
    assert spec.invalid(FunctionCall.of("anything", {})) is None


def test_is_async_recognises_coroutine_functions() -> None:
    """A partial and an object with an async `__call__` are recognised, too."""

    async def run() -> None:
        pass

    assert FunctionTool(run).is_async
    assert FunctionTool(partial(run), "run").is_async
    assert FunctionTool(AsyncCallable(), "run").is_async
    assert not FunctionTool(two).is_async


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FunctionTool(5), TypeError, "a tool is a function, got 5"),  # type: ignore[arg-type]
        (lambda: FunctionTool(lambda: 1), ValueError, "has no name of its own: pass name="),
        (lambda: FunctionTool(partial(two)), ValueError, "has no name of its own"),
        (lambda: FunctionTool(two, " "), ValueError, "name of a tool is ' ': pass text that is"),
        (lambda: FunctionTool(two).named(""), ValueError, "name of a tool is '': pass text that"),
        (lambda: FunctionTool(two, timeout=0), ValueError, "timeout of tool 'two' is 0: pass"),
        (lambda: FunctionTool(two, retry=3), TypeError, "retry of tool 'two' is 3: pass a Retry"),  # type: ignore[arg-type]
        (lambda: FunctionTool(two, timeout="3"), ValueError, "timeout of tool 'two' is '3': pass"),  # type: ignore[arg-type]
        (lambda: FunctionTool(two, verify=5), TypeError, "verify of tool 'two' is 5: pass a fun"),  # type: ignore[arg-type]
        (
            lambda: FunctionTool(two, classify=ErrorKind.AUTH),  # type: ignore[arg-type]
            TypeError,
            "classify of tool 'two' is <ErrorKind.AUTH: 'auth'>: pass a function",
        ),
        (
            lambda: FunctionTool(two, needs_approval="no"),  # type: ignore[arg-type]
            TypeError,
            "needs_approval of tool 'two' is 'no': pass True, False, or a function",
        ),
        (
            lambda: FunctionTool(two, effect="harmless"),  # type: ignore[arg-type]
            ValueError,
            "effect of tool 'two' is 'harmless': pass one of 'read_only', 'mutating', 'destructi",
        ),
        (
            lambda: FunctionTool(two, needs_approval=AsyncCallable()),  # type: ignore[arg-type]
            TypeError,
            "a function of the Tool that is not async",
        ),
        (lambda: registry(two), TypeError, "tools is <function two .*>: pass a list of functions"),  # type: ignore[arg-type]
        (lambda: registry([two, two]), ValueError, "two tools are named 'two': pass another"),
    ],
)
def test_an_invalid_tool_is_refused(make: Any, error: type[Exception], message: str) -> None:
    """The error names the tool and the remedy."""
    with pytest.raises(error, match=message):
        make()


def test_the_repr_of_a_tool_has_its_name() -> None:
    """Renaming returns a new tool."""
    tool = FunctionTool(two)
    assert repr(tool.named("other")) == "<FunctionTool 'other'>"
    assert repr(tool) == "<FunctionTool 'two'>"


def test_a_function_that_forgets_to_say_whether_a_person_decides_lets_nothing_run(
    kind: str, chat: Conversation
) -> None:
    """An answer of None is no answer: the call stays open, and the error names its tool."""
    ran: list[int] = []

    def forgets(tool: Tool) -> bool:
        tool.effective_call.arguments.get("amount")
        return None  # type: ignore[return-value]

    def pay(amount: int) -> None:
        ran.append(amount)

    paying = FunctionTool(pay, needs_approval=forgets)
    call = chat.request("pay", {"amount": 1})
    with pytest.raises(TypeError, match="needs_approval of tool 'pay' gave None"):
        make(kind, chat, [paying]).dispatch([call])
    assert (ran, chat.tools[call.id].is_pending) == ([], True)
