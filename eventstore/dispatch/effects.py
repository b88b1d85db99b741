"""What a dispatcher wants done: the procedure yields these, a driver performs them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from eventstore.dispatch.function_tool import FunctionTool
    from eventstore.dispatch.turn import Turn
    from eventstore.tool import Tool

T = TypeVar("T")


class Write(msgspec.Struct, frozen=True):
    """Write to the log, in one step that nothing cuts in two; gives what `verb` gives."""

    verb: Callable[[], Any]


class Read(msgspec.Struct, frozen=True):
    """Read from the log; gives what `look` gives."""

    look: Callable[[], Any]


class Ask(msgspec.Struct, frozen=True):
    """Ask the host about a call; gives the answer. `outside`: it may take its time."""

    function: Callable[[Tool], Any]
    tool: Tool
    outside: bool


class Run(msgspec.Struct, frozen=True):
    """Run a tool; gives a `Ran`, whatever it raises.

    `late` takes the result of one that was left behind in its thread, when it comes.
    """

    tool: FunctionTool
    function: Callable[[], Any]
    late: Callable[[Any], None]


class Ran(msgspec.Struct, frozen=True):
    """How a tool ended: `error` is None where it returned. `cancelled`: its run was, too.

    A `result` that is a `Failure` is recorded as it is, whatever the error.
    """

    result: Any = None
    error: BaseException | None = None
    cancelled: bool = False

    @property
    def ends_run(self) -> bool:
        """Whether the error is none of the tool's own: Ctrl-C, an exit, a cancelled run."""
        if self.error is None or isinstance(self.error, Exception):
            return False
        return self.cancelled or type(self.error).__name__ != "CancelledError"


class Wait(msgspec.Struct, frozen=True):
    """Wait before the next attempt, in seconds; not beyond the turn's end."""

    turn: Turn
    seconds: float


class Together(msgspec.Struct, frozen=True):
    """Go through several procedures at once, to the end of each; then raise what one raised."""

    turn: Turn
    procedures: Sequence[Steps[None]]


Effect = Write | Read | Ask | Run | Wait | Together
Steps = Generator[Effect, Any, T]
