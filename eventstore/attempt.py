"""One attempt to run a call, as a context manager.

1. An attempt ends with a result, a failure or a pause.
2. A pause says that the call has not run to its end. An exception is a pause if its class was named
   as one (`pauses`), whether it derives from `Exception` or from `BaseException`.
3. A timeout, a cancel, Ctrl-C or an exit is never a pause, because the call may have taken effect.
   Such a class is refused, and a base class does not cover it: it stays a failure of unknown
   outcome.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from eventstore.append import commands
from eventstore.clock import system_clock
from eventstore.domain.doubt import unknown_outcome, unknown_outcome_of
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.times import Moment, microseconds_of
from eventstore.domain.tool import Tool
from eventstore.errors import UnparsedArguments

if TYPE_CHECKING:
    from eventstore.append.commands import Command
    from eventstore.domain.json_types import JsonObject
    from eventstore.session import Session


Pauses: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]
"""The exceptions by which a framework pauses a tool."""

NO_RESULT = Failure(ErrorKind.INTERNAL, "the attempt ended without a result", code="no_result")
"""The failure of an attempt whose block ended without `complete()` or `fail()`."""


def checked_pauses(pauses: Pauses) -> Pauses:
    """Return the exception classes by which an attempt pauses.

    Raises:
        TypeError: one of them is not an exception class, or leaves the outcome unknown.
    """
    for cls in pauses if isinstance(pauses, tuple) else (pauses,):
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise TypeError(f"pauses has {cls!r}: pass exception classes")
        if unknown_outcome_of(cls) is not None:
            raise TypeError(
                f"pauses has {cls.__name__}, after which the call may have taken effect: it is "
                "recorded as a failure; pass the exceptions by which a framework pauses a tool"
            )
    return pauses


def is_pause(error: BaseException, pauses: Pauses) -> bool:
    """Return whether an error pauses the attempt that raised it."""
    return isinstance(error, pauses) and unknown_outcome(error) is None


class StartedAttempt:
    """An attempt that has begun, and the commands that record its end with number and duration."""

    def __init__(self, conversation_id: str, tool: Tool) -> None:
        self._began_ns = time.monotonic_ns()
        self._conversation_id = conversation_id
        self.number = tool.attempts
        """Which attempt this is, from 1."""
        self.tool = tool
        self.ended = False

    @property
    def arguments(self) -> JsonObject:
        """The arguments in force, the caller's own copy.

        Raises:
            UnparsedArguments: what the model wrote is not a JSON object.
        """
        call = self.tool.effective_call
        if call.raw is not None:
            raise UnparsedArguments(self.tool.id, call.raw)
        return cast("JsonObject", msgspec.to_builtins(call.arguments))

    def completion(
        self, result: object, by: str | None = None, reason: str | None = None
    ) -> Command[Tool]:
        """Return the command that records the result; `by` changed it, for a `reason`."""
        return commands.complete(
            self._conversation_id,
            self.tool.id,
            result,
            attempt=self.number,
            duration=self._elapsed_microseconds(),
            by=by,
            reason=reason,
        )

    def suspension(self, until: Moment | None = None, reason: str | None = None) -> Command[Tool]:
        """Return the command that records the pause.

        Raises:
            TypeError, ValueError: `until` is not a time.
        """
        return commands.pause(
            self._conversation_id,
            self.tool.id,
            None if until is None else microseconds_of("until", until),
            reason,
            attempt=self.number,
            duration=self._elapsed_microseconds(),
        )

    def end(self, error: BaseException, pauses: Pauses) -> Command[Tool]:
        """Return the command that records how an error ended it: a pause, or a failure."""
        if is_pause(error, pauses):
            return self.suspension(reason=str(error) or type(error).__name__)
        return self.failure(error)

    def failure(
        self, error: BaseException | Failure | str, delay: float | None = None
    ) -> Command[Tool]:
        """Return the command that records the failure."""
        if isinstance(error, BaseException):
            error = Failure.from_exception(error, now=system_clock())
        return commands.fail(
            self._conversation_id,
            self.tool.id,
            error,
            delay,
            attempt=self.number,
            duration=self._elapsed_microseconds(),
        )

    def _elapsed_microseconds(self) -> int:
        return (time.monotonic_ns() - self._began_ns) // 1000


class Attempt(StartedAttempt):
    """One attempt under way: `arguments` to run the tool with, then `complete` or `fail`."""

    def __init__(self, session: Session, conversation_id: str, tool: Tool) -> None:
        super().__init__(conversation_id, tool)
        self._session = session

    def complete(self, result: object) -> Tool:
        """Record the result: any value."""
        # The tool has done its work: if that cannot be recorded now, it has still not failed.
        self.ended = True
        self.tool = self._session.run(self.completion(result))
        return self.tool

    def pause(self, until: Moment | None = None, reason: str | None = None) -> Tool:
        """Record that it pauses: the call waits again, until a time or until a person decides.

        `until` is a `datetime` with a time zone, or microseconds since 1970 UTC. Without it the
        call needs a decision before the next attempt. `reason` is for people.

        Raises:
            TypeError, ValueError: `until` is not a time; the attempt goes on.
        """
        self.tool = self._session.run(self.suspension(until, reason))
        self.ended = True
        return self.tool

    def fail(self, error: BaseException | Failure | str, *, delay: float | None = None) -> Tool:
        """Record the failure; `delay` is the wait in seconds before the next attempt."""
        self.tool = self._session.run(self.failure(error, delay))
        self.ended = True
        return self.tool
