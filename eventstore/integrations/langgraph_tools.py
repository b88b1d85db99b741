"""How the tools of a graph end: a `ToolNode` makes text of an exception, and tells only that.

1. A tool runs as a copy with a callback, which keeps its own exception.
2. The copy refuses arguments that are not the attempt's: code after the ledger has changed them.
3. A result is the tool's message, or a command that adds one. A message with `status="error"` is a
   failure: with the tool's exception if it is known, otherwise with the text.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException
from pydantic import ValidationError

from eventstore.append.inputs import failure_of
from eventstore.domain.wording import Wording
from eventstore.integrations.recorded_calls import validation_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from langchain_core.callbacks import Callbacks
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from eventstore.attempt import StartedAttempt
    from eventstore.domain.failure import Failure
    from eventstore.domain.tool import Tool

    Returned: TypeAlias = ToolMessage | Command[Any]


class _ChangedArguments(RuntimeError):
    """A middleware between the ledger and the tool has changed the arguments that the log has."""

    in_doubt = False

    def __init__(self, tool: Tool) -> None:
        super().__init__(
            f"the arguments of call {tool.id!r} were changed after its start was recorded; it did "
            "not run: give create_agent() the ledger as the last of its middleware"
        )


class ToolErrors:
    """The exception of one tool, which a `ToolNode` may turn into text."""

    def __init__(self, tool: Tool) -> None:
        self.error: BaseException | None = None
        self.tool = tool

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the exception of the tool that runs in the block."""
        before = _ERRORS.set(self)
        try:
            yield
        finally:
            _ERRORS.reset(before)


_ERRORS: ContextVar[ToolErrors | None] = ContextVar("toolledger_tool_errors", default=None)
"""Where the exception of the tool that runs in this context is kept."""


class _Watcher(BaseCallbackHandler):
    """Looks at the arguments of tools, and keeps their exceptions."""

    run_inline = True
    raise_error = True

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        inputs: dict[str, Any] | None = None,
        **kwargs: object,
    ) -> None:
        """Refuse arguments that are not the attempt's."""
        errors = _ERRORS.get()
        if errors is None or inputs is None:
            return
        in_force = errors.tool.effective_call.arguments
        if inputs != {name: in_force[name] for name in in_force if name in inputs}:
            raise _ChangedArguments(errors.tool)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: object) -> None:
        """Keep the exception."""
        errors = _ERRORS.get()
        if errors is not None:
            errors.error = error


class WatchedTools:
    """Copies of a graph's tools that tell their exceptions; a copy learns its signature once."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[BaseTool, dict[str, Any], BaseTool]] = {}

    def of(self, tool: BaseTool) -> BaseTool:
        """Return the copy of a tool as it is now."""
        known = self._copies.get(id(tool))
        if known is not None and known[0] is tool and known[1] == tool.__dict__:
            return known[2]
        callbacks = _with_handler(tool.callbacks, _Watcher())
        copied = tool.model_copy(update={"callbacks": callbacks})
        self._copies[id(tool)] = tool, tool.__dict__.copy(), copied
        return copied


def _with_handler(callbacks: Callbacks, handler: BaseCallbackHandler) -> Callbacks:
    if callbacks is None or isinstance(callbacks, list):
        return [*(callbacks or ()), handler]
    manager = callbacks.copy()
    manager.add_handler(handler)
    return manager


def failure_in(
    result: Returned, errors: ToolErrors, request: ToolCallRequest
) -> Failure | BaseException | str | None:
    """Return the failure that a result tells of, with the tool's own exception if it is known."""
    message = _message(result, request)
    if message is None or message.status != "error":
        return None
    if isinstance(errors.error, ValidationError) or request.tool is None:
        return validation_failure(errors.error or ToolException(str(message.text)))
    return errors.error or str(message.text)


def wording_in(
    result: Returned,
    failure: Failure | BaseException | str,
    request: ToolCallRequest,
    attempt: StartedAttempt,
) -> Wording | None:
    """Return what the model is told of a failure in a result; None where the log tells of a doubt.

    What it reads of a refused call, or of a tool with an exception, is the text of the message.
    """
    message = _message(result, request)
    if message is None or (failure_of(failure).leaves_doubt and attempt.has_effect):
        return None
    return Wording(str(message.text))


def value_in(result: Returned, request: ToolCallRequest) -> object:
    """Return what a result says to the model; a command may say nothing."""
    message = _message(result, request)
    return None if message is None else message.content


def _message(result: Returned, request: ToolCallRequest) -> ToolMessage | None:
    """Return the answer in a result: a message, a command that adds one, or a list of them."""
    if isinstance(result, ToolMessage):
        return result
    results = result if isinstance(result, list) else [result]
    for message in (message for one in results for message in _added_messages(one)):
        if isinstance(message, ToolMessage) and message.tool_call_id == request.tool_call["id"]:
            return message
    return None


def _added_messages(result: Returned) -> Sequence[object]:
    if isinstance(result, ToolMessage):
        return [result]
    held = result.update.get("messages", []) if isinstance(result.update, dict) else []
    return held if isinstance(held, list) else [held]
