"""Effects: what a dispatch workflow asks of its driver.

A workflow is a generator that yields effects and receives their results. It performs nothing
itself: a driver performs each effect, with threads or with asyncio. `read` and `call_hook` are the
typed form of `yield`, to be used with `yield from`. A `Question` to a gate is an effect, too: a
decision of the gates is part of a workflow as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from eventstore.policies.gates import Question

if TYPE_CHECKING:
    from eventstore.append.command import Command
    from eventstore.dispatch.batch import Batch
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.domain.tool import Tool

T = TypeVar("T")


class Write(msgspec.Struct, frozen=True):
    """Run a command on the log, in one step that nothing interrupts; gives its result."""

    command: Command[Any]


class Read(msgspec.Struct, frozen=True):
    """Read from the log; gives the result of `function`."""

    function: Callable[[], object]


class CallHook(msgspec.Struct, frozen=True):
    """Call a function of the host with a `Tool`; gives its answer.

    `may_block`: it may take long, so that it must not run in an event loop.
    """

    function: Callable[[Tool], object]
    tool: Tool
    may_block: bool


class RunTool(msgspec.Struct, frozen=True):
    """Run a tool; gives a `RunResult`, also when it raises.

    `on_late_result` takes the result of a tool whose thread outlives the wait for it.
    """

    definition: AnyFunctionTool
    function: Callable[[], Any]
    on_late_result: Callable[[object], None]


class RunResult(msgspec.Struct, frozen=True):
    """The end of a tool's run: `error` is None if it returned.

    `cancelled`: the task that ran it was cancelled. A `result` that is a `Failure` is recorded as
    it is, also beside an error.
    """

    result: Any = None
    error: BaseException | None = None
    cancelled: bool = False

    @property
    def ends_run(self) -> bool:
        """Whether the error is not the tool's own: Ctrl-C, an exit, a cancelled run."""
        if self.error is None or isinstance(self.error, Exception):
            return False
        return self.cancelled or type(self.error).__name__ != "CancelledError"


class Wait(msgspec.Struct, frozen=True):
    """Wait some seconds before the next attempt, but not longer than the batch lasts."""

    batch: Batch
    seconds: float


class RunConcurrently(msgspec.Struct, frozen=True):
    """Run several workflows concurrently, each to its end; then raise what one raised."""

    batch: Batch
    workflows: Sequence[Workflow[None]]


Effect: TypeAlias = Write | Read | CallHook | Question | RunTool | Wait | RunConcurrently
Workflow: TypeAlias = Generator[Effect, Any, T]


def read(function: Callable[[], T]) -> Workflow[T]:
    """Read from the log, and return the result of `function`."""
    result: T = yield Read(function)
    return result


def call_hook(
    function: Callable[[Tool], object], tool: Tool, *, may_block: bool
) -> Workflow[object]:
    """Call a function of the host, and return its answer."""
    answer: object = yield CallHook(function, tool, may_block)
    return answer
