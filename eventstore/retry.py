"""May the host run this tool call again? A pure decision on what went wrong."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from eventstore.failure import ErrorKind, classify


class RetryClass(StrEnum):
    """Whether the same call may succeed when it is run again."""

    TRANSIENT = "transient"
    """It may: run it again, if the tool allows it."""

    PERMANENT = "permanent"
    """It will not: change the call, or give up."""


class RetryClassifier(Protocol):
    """Anything that gives an error its retry class. Pure, and never raises."""

    def classify(self, error: BaseException | ErrorKind) -> RetryClass:
        """The retry class of an error, or of an error kind."""


class DefaultRetryClassifier:
    """A tool that raised may be run again; what was refused may not. Total."""

    def classify(self, error: BaseException | ErrorKind) -> RetryClass:
        """TRANSIENT for transient, rate_limit and internal errors, else PERMANENT."""
        kind = error if isinstance(error, ErrorKind) else classify(error)
        if kind in (ErrorKind.TRANSIENT, ErrorKind.RATE_LIMIT, ErrorKind.INTERNAL):
            return RetryClass.TRANSIENT
        return RetryClass.PERMANENT
