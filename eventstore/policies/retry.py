"""Retry policy: whether the host may run a tool call again, and when. Pure decisions."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from eventstore.domain.arguments import is_number, is_seconds
from eventstore.domain.error_codes import CODES
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.policies.termination import TERMINATED


class RetryClass(StrEnum):
    """The answer to: may the same call succeed when it is run again?

    Called `RetryClass` in rig-compose, too.
    """

    TRANSIENT = "transient"
    """It may succeed: run it again, if the tool has a retry policy."""

    PERMANENT = "permanent"
    """It will fail again: change the call, or give up."""


@runtime_checkable
class RetryClassifier(Protocol):
    """An object that gives an error its retry class. It is pure and never raises.

    Called `RetryClassifier` in rig-compose, too.
    """

    def classify(self, error: BaseException | Failure | ErrorKind) -> RetryClass:
        """Return the retry class of an error, of the failure recorded for it, or of its kind."""
        raise NotImplementedError


class DefaultRetryClassifier:
    """The default rule: a tool that raised may be run again; a refused call may not.

    1. An exception counts as the failure that is recorded for it, so that the log gives the same
       answer as the exception did.
    2. A failure that a policy, a hook or the tool itself made terminal is never run again, and
       neither is one by which the tool answers the model (`ModelRetry`, `NotApplicable`).
    3. Transient, rate_limit and internal failures may be run again, others may not.
    4. An internal failure with the code of an agent's own error (a wrong configuration, an invalid
       answer of the provider, a cancelled run, a wait for a person) is not run again, either.

    The rule answers for every error and never raises. Called `DefaultRetryClassifier` in
    rig-compose, too.
    """

    def classify(self, error: BaseException | Failure | ErrorKind) -> RetryClass:
        """Return TRANSIENT for transient, rate_limit and internal errors, otherwise PERMANENT."""
        if isinstance(error, BaseException):
            error = Failure.from_exception(error)
        kind, code = (error.kind, error.code) if isinstance(error, Failure) else (error, None)
        if isinstance(error, Failure) and error.answers_model:
            return RetryClass.PERMANENT
        if code == TERMINATED or (kind is ErrorKind.INTERNAL and code in _NEVER_AGAIN):
            return RetryClass.PERMANENT
        if kind in (ErrorKind.TRANSIENT, ErrorKind.RATE_LIMIT, ErrorKind.INTERNAL):
            return RetryClass.TRANSIENT
        return RetryClass.PERMANENT


# The codes of agent errors and of waits for a person; see `error_codes`. The others say no more
# than that a tool raised.
_NEVER_AGAIN = frozenset({"awaiting_review", *CODES}) - {
    "deadline_exceeded",
    "internal_error",
    "serde",
    "tool_failed",
}


_MIN_JITTER = 0.1  # part of the backoff; a random wait is never close to zero
_MAX_DOUBLINGS = 64  # more would leave the range of a float, long after any `max_backoff`


class RetryPolicy(msgspec.Struct, frozen=True, gc=False):
    """How often a tool may be run, and how long to wait in between; times are in seconds.

    A tool without a policy is run once. `max_attempts` includes the first attempt. Called
    `RetryHint` with `RetryToolLayer` in entelix-core, `RetryController` in katu-core.
    """

    max_attempts: int = 3
    initial_backoff: float = 0.2
    max_backoff: float = 30.0

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise ValueError(
                f"max_attempts is {self.max_attempts!r}: pass 1 or more, the first one counts"
            )
        for name in ("initial_backoff", "max_backoff"):
            seconds = getattr(self, name)
            if not is_seconds(seconds):
                raise ValueError(f"{name} is {seconds!r}: pass seconds, 0 or more")

    def delay(self, attempt: int, hint: float | None = None, chance: float = 1.0) -> float | None:
        """Return the seconds to wait after `attempt`; None if no attempt may follow.

        1. A provider's `hint` above zero is used as it is.
        2. Otherwise the backoff is `initial_backoff`, doubled for each attempt after the first;
           `chance`, a random number from 0 to 1, picks a wait from a tenth of it to the whole.
        3. The result is never longer than `max_backoff`.

        It is zero only if `initial_backoff` or `max_backoff` is zero.

        Raises:
            ValueError: a number is out of range.
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
        backoff = self.initial_backoff * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS)
        return min(backoff, self.max_backoff) * (_MIN_JITTER + (1 - _MIN_JITTER) * chance)
