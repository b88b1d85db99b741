"""May the host run this tool call again, and when? Pure decisions on what went wrong."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from eventstore.agent_errors import AgentError, InternalError, ToolError
from eventstore.failure import ErrorKind, Failure, classify
from eventstore.numbers import is_number
from eventstore.policy import ToolErrorTerminal


class RetryClass(StrEnum):
    """Whether the same call may succeed when it is run again."""

    TRANSIENT = "transient"
    """It may: run it again, if the tool allows it."""

    PERMANENT = "permanent"
    """It will not: change the call, or give up."""


@runtime_checkable
class RetryClassifier(Protocol):
    """Anything that gives an error its retry class. Pure, and never raises."""

    def classify(self, error: BaseException | ErrorKind) -> RetryClass:
        """The retry class of an error, or of an error kind."""


class DefaultRetryClassifier:
    """A tool that raised may be run again; what was refused may not. Total.

    Of an agent's own errors it is `retryable` that counts, except for a tool's and for defects,
    which are what the tool raised. What a policy made terminal is never run again.
    """

    def classify(self, error: BaseException | Failure | ErrorKind) -> RetryClass:
        """TRANSIENT for transient, rate_limit and internal errors, else PERMANENT."""
        if isinstance(error, AgentError) and not isinstance(error, ToolError | InternalError):
            return RetryClass.TRANSIENT if error.retryable else RetryClass.PERMANENT
        if isinstance(error, ToolErrorTerminal):
            return RetryClass.PERMANENT
        if isinstance(error, Failure):
            error = error.kind
        kind = error if isinstance(error, ErrorKind) else classify(error)
        if kind in (ErrorKind.TRANSIENT, ErrorKind.RATE_LIMIT, ErrorKind.INTERNAL):
            return RetryClass.TRANSIENT
        return RetryClass.PERMANENT


_LEAST_PART = 0.1  # of the backoff: a wait drawn by chance is never next to nothing
_DOUBLINGS = 64  # more would leave the range of a float, long after any `max_backoff`


class RetryPolicy(msgspec.Struct, frozen=True, gc=False):
    """How often a tool may be run, and how long to wait in between; times in seconds.

    A tool without a policy is run once. `max_attempts` counts the first attempt, too.
    """

    max_attempts: int = 3
    initial_backoff: float = 0.2
    max_backoff: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise ValueError(
                f"max_attempts is {self.max_attempts!r}: pass 1 or more, the first one counts"
            )
        for name in ("initial_backoff", "max_backoff"):
            seconds = getattr(self, name)
            if not is_number(seconds) or not 0 <= seconds < math.inf:
                raise ValueError(f"{name} is {seconds!r}: pass seconds, 0 or more")

    def delay(self, attempt: int, hint: float | None = None, chance: float = 1.0) -> float | None:
        """The seconds to wait before the attempt after `attempt`; None when no more may follow.

        1. The provider's `hint`, where it is above zero, is waited for as it is.
        2. Otherwise the backoff is `initial_backoff`, doubled for each attempt after the first;
           `chance`, a random number from 0 to 1, picks a wait from a tenth of it to all of it.
        3. Neither is ever longer than `max_backoff`.

        It is zero only where `initial_backoff` or `max_backoff` is.

        Raises:
            ValueError: a number makes no sense.
        """
        if type(attempt) is not int or attempt < 1:
            raise ValueError(f"attempt is {attempt!r}: attempts are counted from 1")
        if hint is not None and not is_number(hint):
            raise ValueError(f"hint is {hint!r}: pass seconds, or None")
        if not is_number(chance) or not 0 <= chance <= 1:
            raise ValueError(f"chance is {chance!r}: pass a number from 0 to 1")
        if attempt >= self.max_attempts:
            return None
        if hint is not None and hint > 0:
            return min(hint, self.max_backoff)
        backoff = self.initial_backoff * 2.0 ** min(attempt - 1, _DOUBLINGS)
        return min(backoff, self.max_backoff) * (_LEAST_PART + (1 - _LEAST_PART) * chance)
