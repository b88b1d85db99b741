"""One attempt to run a call, as a context manager.

1. An attempt ends with a result, a failure or a pause.
2. A pause says that the call has not run to its end. An exception is a pause if its class was named
   as one (`pauses`), whether it derives from `Exception` or from `BaseException`.
3. A timeout, a cancel, Ctrl-C or an exit is never a pause, because the call may have taken effect.
   Such a class is refused, and a base class does not cover it: it stays a failure of unknown
   outcome.
4. The end of an attempt that others have taken over is kept in the log as a late one
   (`ToolEndedLate`), and changes nothing.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from eventstore.append.commands import attempts
from eventstore.append.inputs import failure_of
from eventstore.clock import system_clock
from eventstore.domain.doubt import unknown_outcome, unknown_outcome_of
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.leases import lease_in_microseconds
from eventstore.domain.times import Moment, microseconds_of
from eventstore.domain.tool import Tool
from eventstore.errors import EventStoreError, SilentAttempt, UnparsedArguments
from eventstore.leases.claim import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from eventstore.append.command import Command
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.leases import Lease
    from eventstore.domain.wording import Wording
    from eventstore.leases.keeper import Hold
    from eventstore.session import LogSession, Session


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


class CurrentAttempt(msgspec.Struct, frozen=True):
    """The attempt that the code around runs for: what an outside system may be given.

    `number` counts the attempts of the call from 1. In a `verify` it is the next one's.
    """

    conversation_id: str
    call_id: str
    number: int

    @property
    def fence(self) -> int:
        """Fencing token, which grows with each attempt of the call.

        A system that has seen one refuses the same `idempotency_key` with a smaller one: it comes
        from a worker that was taken over.
        """
        return self.number

    @property
    def idempotency_key(self) -> str:
        """Key of the call, the same in each attempt: 32 hex digits, of no other call."""
        name = f"{len(self.conversation_id)}:{self.conversation_id}{self.call_id}"
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_current: ContextVar[CurrentAttempt | None] = ContextVar("toolledger_attempt", default=None)


@contextmanager
def as_current(attempt: CurrentAttempt) -> Generator[None, None, None]:
    """Let an attempt be the current one of what the block runs."""
    before = _current.get()
    _current.set(attempt)
    try:
        yield
    finally:
        # No token: an async block may be left in another context than it was entered in.
        _current.set(before)


def run_as(
    attempt: CurrentAttempt, function: Callable[..., Any], /, *args: object, **kwargs: object
) -> Any:
    """Call a function as an attempt; what it returns to be awaited runs as that, too."""
    token = _current.set(attempt)
    try:
        value = function(*args, **kwargs)
    finally:
        _current.reset(token)
    return _awaited_as(attempt, value) if hasattr(value, "__await__") else value


async def _awaited_as(attempt: CurrentAttempt, value: Any) -> Any:
    with as_current(attempt):
        return await value


def current_attempt() -> CurrentAttempt | None:
    """Return the attempt that this code runs for, in a tool or its `verify`; otherwise None.

    Tools of a dispatcher and of the integrations, and the block of `Conversation.running`, have
    one.
    """
    return _current.get()


def claim_of(
    session: Session, conversation_id: str, call_id: str, lease: Lease, *, take_over: bool
) -> Claim:
    """Return the claim of an attempt whose lease, if any, is renewed while it runs.

    Raises:
        TypeError, ValueError: `lease` is not a duration.
        EventStoreError: there is a lease, and the session is inside a host's transaction.
    """
    lasts = lease_in_microseconds(lease)
    if lasts is None:
        return Claim(takes_over=take_over)
    log: LogSession = session.outside_transaction(conversation_id)
    return Claim(lasts, log.leases.hold(conversation_id, call_id, lasts), take_over)


class StartedAttempt:
    """An attempt that has begun, and the commands that record its end with number and duration.

    Its lease is renewed as long as the object is there, and its end is not recorded.
    """

    def __init__(self, conversation_id: str, tool: Tool, hold: Hold | None = None) -> None:
        self._began_ns = time.monotonic_ns()
        self._conversation_id = conversation_id
        self.number = tool.attempts
        """Which attempt this is, from 1."""
        self.tool = tool
        self.ended = False
        self.has_effect = True
        """Whether a failure may leave the effect in doubt."""
        self._hold = hold
        self._is_recorded = False
        if hold is not None:
            hold.began()

    @property
    def current(self) -> CurrentAttempt:
        """What the tool may give to an outside system."""
        return CurrentAttempt(self._conversation_id, self.tool.id, self.number)

    def release(self) -> None:
        """Renew its lease no more."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def _note_recorded(self, tool: Tool) -> Tool:
        """Take in that its end is recorded, and return the call after it."""
        self.tool, self.ended, self._is_recorded = tool, True, True
        self.release()
        return tool

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
        return attempts.complete(
            self._conversation_id,
            self.tool.id,
            result,
            attempt=self.number,
            duration=self._elapsed_microseconds(),
            by=by,
            reason=reason,
            is_own=not self._is_recorded,
        )

    def suspension(self, until: Moment | None = None, reason: str | None = None) -> Command[Tool]:
        """Return the command that records the pause.

        Raises:
            TypeError, ValueError: `until` is not a time.
        """
        return attempts.pause(
            self._conversation_id,
            self.tool.id,
            None if until is None else microseconds_of("until", until),
            reason,
            attempt=self.number,
            duration=self._elapsed_microseconds(),
            is_own=not self._is_recorded,
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
        if not self.has_effect:
            error = msgspec.structs.replace(failure_of(error), in_doubt=False)
        return attempts.fail(
            self._conversation_id,
            self.tool.id,
            error,
            delay,
            attempt=self.number,
            duration=self._elapsed_microseconds(),
            is_own=not self._is_recorded,
        )

    def _elapsed_microseconds(self) -> int:
        return (time.monotonic_ns() - self._began_ns) // 1000


class Attempt(StartedAttempt):
    """One attempt under way: `arguments` to run the tool with, then `complete` or `fail`."""

    def __init__(
        self, session: Session, conversation_id: str, tool: Tool, hold: Hold | None = None
    ) -> None:
        super().__init__(conversation_id, tool, hold)
        self._session = session

    def complete(self, result: object, *, wording: Wording | None = None) -> Tool:
        """Record the result: any value. `wording` is what a framework tells the model of it."""
        # The tool has done its work: if that cannot be recorded now, it has still not failed.
        self.ended = True
        return self._note_recorded(self._session.run(self.completion(result).worded(wording)))

    def pause(self, until: Moment | None = None, reason: str | None = None) -> Tool:
        """Record that it pauses: the call waits again, until a time or until a person decides.

        `until` is a `datetime` with a time zone, or microseconds since 1970 UTC. Without it the
        call needs a decision before the next attempt. `reason` is for people.

        Raises:
            TypeError, ValueError: `until` is not a time; the attempt continues.
        """
        return self._note_recorded(self._session.run(self.suspension(until, reason)))

    def fail(
        self,
        error: BaseException | Failure | str,
        *,
        delay: float | None = None,
        wording: Wording | None = None,
    ) -> Tool:
        """Record the failure; `delay` is the wait in seconds before the next attempt.

        `wording` is what a framework tells the model of it.
        """
        return self._note_recorded(self._session.run(self.failure(error, delay).worded(wording)))


@contextmanager
def recording_end(
    session: Session, attempt: Attempt, pauses: Pauses = ()
) -> Generator[None, None, None]:
    """Record the end of an attempt on exit, if the block has not recorded it.

    Raises:
        SilentAttempt: the block has no exception, and recorded no end.
    """
    try:
        with as_current(attempt.current):
            yield
    except BaseException as error:
        if not attempt.ended:
            try:
                session.run(attempt.end(error, pauses))
            except EventStoreError as unrecorded:
                end, call_id = "pause" if is_pause(error, pauses) else "failure", attempt.tool.id
                error.add_note(f"the {end} of call {call_id!r} was not recorded: {unrecorded}")
        raise
    finally:
        attempt.release()
    if not attempt.ended:
        attempt.fail(NO_RESULT)
        raise SilentAttempt(attempt.tool.id)
