"""`FunctionTool`: a Python function that the model may call, and what a host allows for it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from eventstore.failure import ErrorKind, Failure
from eventstore.numbers import is_number
from eventstore.retry import RetryPolicy

if TYPE_CHECKING:
    from eventstore.tool import FunctionCall, Tool

Classify = Callable[[BaseException], ErrorKind | Failure]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class FunctionTool:
    """A function as a tool: called with the call's arguments, by name; sync or async.

    It gives any value, raises, or gives a `Failure`. Without more it is run once, alone, for as
    long as it takes, and needs no approval.

    - `name`: what the model calls it; the function's own where it is None.
    - `retry`: how often to run it again after a failure that may pass.
    - `timeout`: the seconds an attempt may take. What ran longer may have taken effect; what it
      gives later is still recorded, where it was left behind in a thread.
    - `needs_approval`: whether a person decides before it starts, or a function of the `Tool`
      that says so.
    - `parallel`: safe to run beside its neighbours in the turn, as a read is.
    - `idempotent`: running it twice is as good as once, so an attempt of unknown outcome may be
      followed by another.
    - `verify`: asks the outside system what became of a `Tool`; gives an `Outcome`.
    - `classify`: the `ErrorKind` of what it raised, or the whole `Failure`.
    - `takes_tool`: its first argument is the `Tool`, whose id may serve as an idempotency key.
    - `abort_siblings`: when it fails, what else the turn asked for does not start, and in
      asyncio what runs beside it is cancelled.
    - `counted`: whether it counts to `max_calls_per_turn`; what is `parallel` never does.
    - `ends_run`: whether its success is the run's last word; None leaves that to the others.
    """

    def __init__(  # noqa: PLR0913 - each with a default
        self,
        function: Callable[..., Any],
        name: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        needs_approval: bool | Callable[[Tool], bool] = False,
        parallel: bool = False,
        idempotent: bool = False,
        verify: Callable[[Tool], Any] | None = None,
        classify: Classify | None = None,
        takes_tool: bool = False,
        abort_siblings: bool = False,
        counted: bool = True,
        ends_run: bool | None = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"a tool is a function, got {function!r}")
        named = name or getattr(function, "__name__", None)
        if not isinstance(named, str) or not named or (name is None and named == "<lambda>"):
            raise ValueError(f"{function!r} has no name of its own: pass name='...'")
        if timeout is not None and not _is_time(timeout):
            raise ValueError(
                f"timeout of tool {named!r} is {timeout!r}: pass seconds above 0, or None"
            )
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise TypeError(f"retry of tool {named!r} is {retry!r}: pass a RetryPolicy")
        for option, given in (("verify", verify), ("classify", classify)):
            if given is not None and not callable(given):
                raise TypeError(f"{option} of tool {named!r} is {given!r}: pass a function")
        if not isinstance(needs_approval, bool) and (
            not callable(needs_approval) or is_async(needs_approval)
        ):
            raise TypeError(
                f"needs_approval of tool {named!r} is {needs_approval!r}: "
                "pass True, False, or a function of the Tool that is not async"
            )
        self.function = function
        self.name = named
        self.retry = retry
        self.timeout = timeout
        self.needs_approval = needs_approval
        self.parallel = parallel
        self.idempotent = idempotent
        self.verify = verify
        self.classify = classify
        self.takes_tool = takes_tool
        self.abort_siblings = abort_siblings
        self.counted = counted
        self.ends_run = ends_run
        self.is_async = is_async(function)
        self._accepts, self._requires = _parameters(function, skip=takes_tool)

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name!r}>"

    def named(self, name: str) -> FunctionTool:
        """The same tool by another name."""
        tool = copy(self)
        tool.name = name
        return tool

    def needs_approval_for(self, tool: Tool) -> bool:
        """Whether a person decides on this call."""
        asked = self.needs_approval
        return bool(asked(tool)) if callable(asked) else asked

    def invalid(self, call: FunctionCall) -> Failure | None:
        """Why the function cannot be called with the call's arguments; None where it can."""
        if not call.is_object:
            return _invalid(
                f"the arguments of `{call.name}` are no JSON object: {call.raw}",
                f"Not executed: the arguments of `{call.name}` are no JSON object. "
                "Call it again with a JSON object.",
            )
        given = call.arguments.keys()
        if not given >= self._requires:
            return _invalid(f"`{call.name}` is missing {_listed(self._requires - given)}")
        if self._accepts is not None and not given <= self._accepts:
            return _invalid(f"`{call.name}` takes no {_listed(given - self._accepts)}")
        return None


Tools = (
    Iterable[FunctionTool | Callable[..., Any]] | Mapping[str, FunctionTool | Callable[..., Any]]
)
"""Functions, or functions by the name that the model calls them."""


def _is_time(seconds: object) -> bool:
    return is_number(seconds) and 0 < seconds < math.inf


def registry(tools: Tools) -> dict[str, FunctionTool]:
    """The tools by name, in their order.

    Raises:
        ValueError: two tools have one name, or one has none.
        TypeError: something is no function.
    """
    if not isinstance(tools, Iterable):
        raise TypeError(f"tools is {tools!r}: pass a list of functions")
    known: dict[str, FunctionTool] = {}
    for tool in _named(tools):
        if tool.name in known:
            raise ValueError(f"two tools are named {tool.name!r}: pass another name to one of them")
        known[tool.name] = tool
    return known


def _named(tools: Tools) -> Iterable[FunctionTool]:
    if isinstance(tools, Mapping):
        for name, tool in tools.items():
            yield tool.named(name) if isinstance(tool, FunctionTool) else FunctionTool(tool, name)
        return
    for tool in tools:
        yield tool if isinstance(tool, FunctionTool) else FunctionTool(tool)


def is_async(function: Any) -> bool:
    """Whether calling it gives something to await."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object with async __call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _parameters(
    function: Callable[..., Any], *, skip: bool
) -> tuple[frozenset[str] | None, frozenset[str]]:
    """The names that a function takes, None for any, and those that it needs."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):  # some built in ones have none to look at
        return None, frozenset()
    named = [p for p in parameters[int(skip) :] if p.kind in _NAMED]
    requires = frozenset(p.name for p in named if p.default is p.empty)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None, requires
    return frozenset(p.name for p in named), requires


def _invalid(message: str, model_message: str | None = None) -> Failure:
    told = model_message or f"Not executed: {message}. Call it again with other arguments."
    return Failure(ErrorKind.VALIDATION, message, told, code="invalid_arguments")


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return f"argument{'s' * (len(shown) > 1)} {', '.join(shown)}"
