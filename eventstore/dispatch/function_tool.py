"""`FunctionTool`: a Python function that the model may call, and how the host lets it run.

Its parameters, their types and its docstring are what the model is told of it, and what the
arguments of a call are checked against before anything runs (`signature`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast

from eventstore.dispatch.docstrings import read_docstring
from eventstore.dispatch.signature import signature_of
from eventstore.domain.arguments import checked_minimum, is_seconds
from eventstore.domain.calls import is_tool_name
from eventstore.domain.equal_calls import EqualCalls, Equality, KeyOf, check_equal_calls
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.tool_effect import ToolEffect
from eventstore.errors import NonResolvedToolError
from eventstore.policies.result_limits import ResultLimits
from eventstore.policies.retry import RetryPolicy
from eventstore.policies.termination import FatalToolError, ToolErrorPolicy
from eventstore.providers.registry import adapter_of
from eventstore.providers.tool_definition import ToolDefinition

if TYPE_CHECKING:
    from eventstore.domain.calls import FunctionCall
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.tool import Tool
    from eventstore.providers.registry import AnyProvider

P = ParamSpec("P")
R = TypeVar("R")

Classify: TypeAlias = Callable[[BaseException], ErrorKind | Failure]
ExceptionClasses: TypeAlias = type[Exception] | tuple[type[Exception], ...]
ToolEffectName: TypeAlias = Literal["read_only", "mutating", "destructive"]


class FunctionTool(Generic[P, R]):
    """A function as a tool: called with the arguments of the call by name; sync or async.

    It returns any value, raises, or returns a `Failure`. By default it is run once, alone, without
    a time limit, and needs no approval. Arguments that do not have the types of its parameters fail
    the call, and nothing runs.

    - `name`: the name for the model; None means the name of the function. `description`: what the
      model is told of it; None means its docstring, without the sections on arguments and results.
    - `typed`: whether types are checked, or only the names of the arguments.
    - `effect`: what it does to the world, a `ToolEffect` or its name ("read_only", "mutating",
      "destructive"). It is the default of `needs_approval` (a destructive tool needs it) and of
      `idempotent` (a read-only tool is). Without an effect both are False.
    - `retry`: how often to run it again after a transient failure.
    - `timeout`: the most seconds for an attempt. A longer attempt may have taken effect; if its
      thread returns a result later, that is still recorded.
    - `needs_approval`: whether a person decides before it starts, or a function of the `Tool` that
      says so.
    - `parallel`: it may run concurrently with its neighbours in the turn, as a read may.
    - `idempotent`: running it twice has the same effect as once, so that an attempt of unknown
      outcome may be followed by another.
    - `verify`: asks the outside system for the outcome of a `Tool`; returns an `Outcome`.
    - `sure`: the exceptions after which nothing has taken effect. After any other a "mutating" or
      "destructive" tool that is not idempotent leaves its call in doubt, unless it surely came
      before the effect: a refused connection, a refusal by HTTP status, a hint to the model. Other
      tools do so after a timeout, a lost connection and the like (`doubt`), read-only ones never.
    - `equal_calls`: what a call gets that asks for the same as an earlier one of the conversation
      ("refuse", "answer" or "run"); None means as the dispatcher says, and "run" for a tool that is
      idempotent or read-only. `equal_by`: returns what the effect of a call is known by, of its
      arguments (an order's number). Without it all arguments count, as the function gets them.
    - `classify`: returns the `ErrorKind` of an exception that it raised, or the whole `Failure`.
    - `fatal`: the exceptions by which it ends the run, as it does with `FatalToolError`.
    - `policy`: the failures of this tool that end the run; None means those of the dispatcher.
    - `denial`: what the model reads when it calls the tool while gates hide it, and no gate gives a
      reason; None means the text of the dispatcher.
    - `max_model_retries`: how many hints (`ModelRetry`) it may give in a row; the next one ends the
      run. None means any number. See `model_retries`.
    - `takes_tool`: its first argument is the `Tool`, whose id may serve as an idempotency key.
    - `abort_siblings`: if it fails, the other calls of the turn do not start; in asyncio, those
      that run concurrently are cancelled.
    - `counted`: whether it counts for `max_calls_per_turn`; a `parallel` tool never does.
    - `result_limits`: how much of its results the model reads; see `Toolbox.result_limits`.
    - `ends_run`: whether its success lets the run end; None leaves that to the other calls.

    Raises:
        TypeError: the function or an option has the wrong type, or the type of a parameter cannot
            be checked.
        ValueError: there is no name, the timeout is not above 0, or the effect is unknown.
    """

    def __init__(  # noqa: PLR0913 - each with a default
        self,
        function: Callable[P, R],
        name: str | None = None,
        *,
        description: str | None = None,
        typed: bool = True,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        effect: ToolEffect | ToolEffectName | None = None,
        needs_approval: bool | Callable[[Tool], bool] | None = None,
        parallel: bool = False,
        idempotent: bool | None = None,
        verify: Callable[[Tool], object] | None = None,
        sure: ExceptionClasses = (),
        equal_calls: EqualCalls | None = None,
        equal_by: KeyOf | None = None,
        classify: Classify | None = None,
        fatal: ExceptionClasses = (),
        policy: ToolErrorPolicy | None = None,
        denial: str | None = None,
        max_model_retries: int | None = None,
        takes_tool: bool = False,
        abort_siblings: bool = False,
        counted: bool = True,
        result_limits: ResultLimits | None = None,
        ends_run: bool | None = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"a tool is a function, got {function!r}")
        self.function = function
        self.name = _checked_name(function, name)
        self.retry = retry
        self.timeout = timeout
        self.effect = None if effect is None else _checked_effect(self.name, effect)
        is_destructive = self.effect is ToolEffect.DESTRUCTIVE
        is_read_only = self.effect is ToolEffect.READ_ONLY
        self.needs_approval = is_destructive if needs_approval is None else needs_approval
        self.parallel = parallel
        self.idempotent = is_read_only if idempotent is None else idempotent
        self.verify = verify
        self.sure = sure
        self.equal_calls: EqualCalls | None = equal_calls
        self.equal_by = equal_by
        self.classify = classify
        self.fatal = fatal
        self.policy = policy
        self.denial = denial
        self.max_model_retries = max_model_retries
        self.takes_tool = takes_tool
        self.abort_siblings = abort_siblings
        self.counted = counted
        self.result_limits = result_limits
        self.ends_run = ends_run
        self.is_async = is_async(function)
        self._check_options()
        self._docstring = read_docstring(_docstring_of(function))
        self.description = self._docstring.description if description is None else description
        try:
            self._signature = signature_of(function, skip=takes_tool, typed=typed)
        except TypeError as error:
            raise TypeError(f"tool {self.name!r}: {error}") from error

    def _check_options(self) -> None:
        name = self.name
        timeout, retry = cast("object", self.timeout), cast("object", self.retry)
        if timeout is not None and not (is_seconds(timeout) and timeout > 0):
            raise ValueError(
                f"timeout of tool {name!r} is {timeout!r}: pass seconds above 0, or None"
            )
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise TypeError(f"retry of tool {name!r} is {retry!r}: pass a RetryPolicy")
        for option, function in (
            ("verify", self.verify),
            ("classify", self.classify),
            ("equal_by", self.equal_by),
        ):
            if function is not None and not callable(function):
                raise TypeError(f"{option} of tool {name!r} is {function!r}: pass a function")
        limits = cast("object", self.result_limits)
        if limits is not None and not isinstance(limits, ResultLimits):
            raise TypeError(f"result_limits of tool {name!r} is {limits!r}: pass ResultLimits()")
        if self.equal_calls is not None:
            check_equal_calls(f"equal_calls of tool {name!r}", self.equal_calls)
        self._check_error_options()
        approval = self.needs_approval
        if not isinstance(approval, bool) and (not callable(approval) or is_async(approval)):
            raise TypeError(
                f"needs_approval of tool {name!r} is {approval!r}: "
                "pass True, False, or a function of the Tool that is not async"
            )

    def _check_error_options(self) -> None:
        name = self.name
        for option, classes in (("fatal", self.fatal), ("sure", self.sure)):
            for cls in classes if isinstance(classes, tuple) else (classes,):
                if not (isinstance(cls, type) and issubclass(cls, Exception)):
                    raise TypeError(
                        f"{option} of tool {name!r} has {cls!r}: pass classes of exceptions"
                    )
        policy, denial = cast("object", self.policy), cast("object", self.denial)
        if policy is not None and not isinstance(policy, ToolErrorPolicy):
            raise TypeError(f"policy of tool {name!r} is {policy!r}: pass a ToolErrorPolicy")
        if self.max_model_retries is not None:
            checked_minimum(f"max_model_retries of tool {name!r}", self.max_model_retries, 0)
        if denial is not None and not (isinstance(denial, str) and denial.strip()):
            raise ValueError(f"denial of tool {name!r} is {denial!r}: pass text for the model")

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name!r}>"

    @property
    def is_counted(self) -> bool:
        """Whether a call counts for `max_calls_per_turn`."""
        return self.counted and not self.parallel

    def named(self, name: str) -> FunctionTool[P, R]:
        """Return the same tool with another name."""
        tool = copy(self)
        tool.name = _checked_name(self.function, name)
        return tool

    def needs_approval_for(self, tool: Tool) -> bool:
        """Return whether a person decides on this call.

        Raises:
            TypeError: the function that says so returned None, as one without a `return` does.
        """
        approval = self.needs_approval
        return self._checked_answer(approval(tool), tool) if callable(approval) else approval

    def _checked_answer(self, answer: object, tool: Tool) -> bool:
        if answer is None:
            raise TypeError(
                f"needs_approval of tool {self.name!r} gave None for call {tool.id!r}: "
                "return True or False"
            )
        return bool(answer)

    def equal_calls_or(self, default: EqualCalls) -> EqualCalls:
        """Return what an equal call gets; `default` is for tools that must not run twice."""
        if self.equal_calls is not None:
            return self.equal_calls
        if self.idempotent or self.effect is ToolEffect.READ_ONLY:
            return "run"
        return default

    @property
    def equality(self) -> Equality:
        """When two of its calls ask for the same effect."""
        return Equality(self.equal_by, self._signature.taken)

    def is_fatal(self, error: BaseException | None) -> bool:
        """Return whether an error that the function raised ends the run."""
        return isinstance(error, (FatalToolError, self.fatal))

    def invalid(self, call: FunctionCall) -> Failure | None:
        """Return why the function cannot take the arguments of the call; None if it can."""
        if not call.is_object:
            return _invalid(
                f"the arguments of `{call.name}` are not a JSON object: {call.raw}",
                f"Not executed: the arguments of `{call.name}` are not a JSON object. "
                "Call it again with a JSON object.",
            )
        complaint = self._signature.complaint(call.arguments)
        return None if complaint is None else _invalid(f"`{call.name}` {complaint}")

    def bind(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments of a call as the types of the function.

        Raises:
            msgspec.ValidationError: one does not have its type; the error names the path.
        """
        return self._signature.bind(arguments)

    def call(self, *first: object, arguments: JsonObject) -> Any:
        """Call the function with the arguments of a call, as its types."""
        function = cast("Callable[..., Any]", self.function)
        return function(*first, **self._signature.bind(arguments))

    def stored(self, result: object) -> object:
        """Return what is stored of a result: the JSON of the declared type, if there is one."""
        return self._signature.stored(result)

    def result(self, tool: Tool) -> R:
        """Return the result of a completed call as the declared type of the function.

        Raises:
            NonResolvedToolError: the call is not completed.
            msgspec.ValidationError: what is stored does not have that type.
        """
        if tool.response is None:
            raise NonResolvedToolError(tool.id, tool.status.name)
        result: Any = tool.response.result
        declared = self._signature.result
        return cast("R", result if declared is None else declared.convert(result))

    @property
    def parameters(self) -> JsonObject:
        """JSON schema of the arguments."""
        return self._signature.schema(self._docstring.parameters)

    def schema(self, provider: AnyProvider) -> JsonObject:
        """Return the definition of the tool for a request to a provider, such as "anthropic".

        Raises:
            ValueError: the provider is unknown.
        """
        definition = ToolDefinition(self.name, self.description, self.parameters)
        return adapter_of(provider).tool_definition(definition)


AnyFunctionTool: TypeAlias = FunctionTool[..., Any]

Tools: TypeAlias = (
    Iterable[AnyFunctionTool | Callable[..., Any]]
    | Mapping[str, AnyFunctionTool | Callable[..., Any]]
)
"""Functions, or functions by the names for the model."""


def _checked_name(function: object, name: str | None) -> str:
    if not callable(function):
        raise TypeError(f"a tool is a function, got {function!r}")
    found = name or getattr(function, "__name__", None)
    if name is not None and not is_tool_name(cast("object", name)):
        raise ValueError(f"name of a tool is {name!r}: pass text that is not blank")
    if not isinstance(found, str) or not found or (name is None and found == "<lambda>"):
        raise ValueError(f"{function!r} has no name of its own: pass name='...'")
    return found


def _checked_effect(name: str, effect: ToolEffect | ToolEffectName) -> ToolEffect:
    try:
        return ToolEffect(effect)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in ToolEffect)
        raise ValueError(f"effect of tool {name!r} is {effect!r}: pass one of {known}") from None


def registry(tools: Tools) -> dict[str, AnyFunctionTool]:
    """Return the tools by name, in their order.

    Raises:
        ValueError: two tools have the same name, or one has no name.
        TypeError: a tool is not a function.
    """
    if not isinstance(cast("object", tools), Iterable):
        raise TypeError(f"tools is {tools!r}: pass a list of functions")
    known: dict[str, AnyFunctionTool] = {}
    for tool in _named(tools):
        if tool.name in known:
            raise ValueError(f"two tools are named {tool.name!r}: pass another name to one of them")
        known[tool.name] = tool
    return known


def _named(tools: Tools) -> Iterable[AnyFunctionTool]:
    if isinstance(tools, Mapping):
        for name, tool in cast("Mapping[str, AnyFunctionTool | Callable[..., Any]]", tools).items():
            yield tool.named(name) if isinstance(tool, FunctionTool) else FunctionTool(tool, name)
        return
    for tool in tools:
        yield tool if isinstance(tool, FunctionTool) else FunctionTool(tool)


def is_async(function: object) -> bool:
    """Return whether the function is a coroutine function, or an object that is called as one."""
    while isinstance(function, partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    # An object may be called through an async `__call__` of its class.
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)


def _docstring_of(function: Callable[..., Any]) -> str | None:
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function.__doc__
    return type(function).__call__.__doc__ or type(function).__doc__


def _invalid(message: str, model_message: str | None = None) -> Failure:
    text = model_message or f"Not executed: {message}. Call it again with other arguments."
    return Failure(ErrorKind.VALIDATION, message, text, code="invalid_arguments")
