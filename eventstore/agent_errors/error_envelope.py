"""The error envelope: a failure for programs, as a stable code, its class and a retry hint."""

from __future__ import annotations

import math

import msgspec

from eventstore.domain.error_codes import CODES, ErrorClass, code_of_status
from eventstore.domain.failure import MODEL_RETRY, ErrorKind, Failure
from eventstore.domain.foreign_errors import ERROR_STATUSES

# a recorded code -> the code for programs
_CODES_OF_RECORDED = {
    "timeout": "deadline_exceeded",
    "cancelled": "cancelled",
    "interrupted": "cancelled",  # by Ctrl-C or an exit: not the interruption for a review
    "awaiting_review": "interrupted",
    MODEL_RETRY: "model_retry_exhausted",
}

_CODES_BY_KIND = {
    ErrorKind.TRANSIENT: "transport_failure",
    ErrorKind.RATE_LIMIT: "rate_limited",
    ErrorKind.QUOTA: "quota_exceeded",
    ErrorKind.AUTH: "auth_failed",
    ErrorKind.PERMANENT: "permanent_failure",
    ErrorKind.VALIDATION: "invalid_request",
    ErrorKind.INTERNAL: "internal_error",
}


class ErrorEnvelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A failure as programs read it; unknown members are left out of its JSON.

    `retry_after_secs` are whole seconds, `provider_status` is an HTTP status from 400 to 599.
    """

    code: str
    error_class: ErrorClass = msgspec.field(name="class")
    retry_after_secs: int | None = None
    provider_status: int | None = None

    @classmethod
    def of(cls, failure: Failure) -> ErrorEnvelope:
        """Make the envelope of a failure, from its HTTP status, otherwise its code or kind."""
        code = _code(failure)
        seconds = failure.retry_after
        return cls(
            code,
            CODES[code].error_class,
            int(seconds) if seconds is not None and math.isfinite(seconds) else None,
            failure.http_status if failure.http_status in ERROR_STATUSES else None,
        )


def _code(failure: Failure) -> str:
    if failure.http_status is not None:
        return code_of_status(failure.http_status)
    code = failure.code
    if code in _CODES_OF_RECORDED:
        return _CODES_OF_RECORDED[code]
    return code if code in CODES else _CODES_BY_KIND[failure.kind]
