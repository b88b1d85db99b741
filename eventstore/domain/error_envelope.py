"""What programs are told of a failure: a stable code, whose fault it was, when to come back.

The code, the error kind and the text for the model are three views of one failure.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple

import msgspec

from eventstore.failure import ErrorKind, Failure

_CLIENT_ERRORS = range(400, 500)
_ERRORS = range(400, 600)


class ErrorClass(StrEnum):
    """Whose fault a failure is."""

    CLIENT = "client"
    """Of who asked: ask otherwise, or be allowed more."""

    SERVER = "server"
    """Of who was asked: mend it, or ask again later."""


class Meaning(NamedTuple):
    """What a code stands for; `told` is what the model reads, None for the failure's own text."""

    error_class: ErrorClass
    told: str | None = None


_UPSTREAM = "upstream model error"

CODES = {
    "auth_failed": Meaning(ErrorClass.CLIENT, "authentication failed"),
    "cancelled": Meaning(ErrorClass.CLIENT, "cancelled"),
    "config_error": Meaning(ErrorClass.SERVER, "tool misconfigured"),
    "content_filtered": Meaning(ErrorClass.CLIENT, _UPSTREAM),
    "context_overflow": Meaning(ErrorClass.CLIENT, "input too long"),
    "deadline_exceeded": Meaning(ErrorClass.SERVER, "timed out"),
    "dns_failure": Meaning(ErrorClass.SERVER, _UPSTREAM),
    "internal_error": Meaning(ErrorClass.SERVER),
    "invalid_request": Meaning(ErrorClass.CLIENT),
    "invalid_response": Meaning(ErrorClass.SERVER, _UPSTREAM),
    "model_retry_exhausted": Meaning(ErrorClass.CLIENT),
    "permanent_failure": Meaning(ErrorClass.CLIENT),
    "quota_exceeded": Meaning(ErrorClass.CLIENT, "request quota reached"),
    "rate_limited": Meaning(ErrorClass.CLIENT, _UPSTREAM),
    "tls_failure": Meaning(ErrorClass.SERVER, _UPSTREAM),
    "tool_failed": Meaning(ErrorClass.SERVER),
    "transport_failure": Meaning(ErrorClass.SERVER, _UPSTREAM),
    "upstream_error": Meaning(ErrorClass.SERVER, _UPSTREAM),
    "upstream_invalid": Meaning(ErrorClass.CLIENT, _UPSTREAM),
    "upstream_unauthorized": Meaning(ErrorClass.CLIENT, _UPSTREAM),
    "upstream_unavailable": Meaning(ErrorClass.SERVER, _UPSTREAM),
}
"""Every code that the library gives. They are stable."""

# what an attempt that did not end by itself is recorded with
_ENDS = {"timeout": "deadline_exceeded", "cancelled": "cancelled", "interrupted": "cancelled"}

_BY_KIND = {
    ErrorKind.TRANSIENT: "transport_failure",
    ErrorKind.RATE_LIMIT: "rate_limited",
    ErrorKind.QUOTA: "quota_exceeded",
    ErrorKind.AUTH: "auth_failed",
    ErrorKind.PERMANENT: "permanent_failure",
    ErrorKind.VALIDATION: "invalid_request",
    ErrorKind.INTERNAL: "internal_error",
}


def code_of_status(status: int) -> str:
    """The code of an HTTP status; outside 400 to 599 no terminal response was received."""
    match status:
        case 429:
            return "rate_limited"
        case 401 | 403:
            return "upstream_unauthorized"
        case _ if status in _CLIENT_ERRORS:
            return "upstream_invalid"
        case _ if status in _ERRORS:
            return "upstream_unavailable"
        case _:
            return "transport_failure"


class ErrorEnvelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What programs are told of a failure; what is not known is left out of its JSON.

    `retry_after_secs` are whole seconds, `provider_status` is an HTTP status from 400 to 599.
    """

    code: str
    error_class: ErrorClass = msgspec.field(name="class")
    retry_after_secs: int | None = None
    provider_status: int | None = None

    @classmethod
    def of(cls, failure: Failure) -> ErrorEnvelope:
        """The envelope of a failure: of its HTTP status, else of its code, else of its kind."""
        code = _code(failure)
        seconds = failure.retry_after
        return cls(
            code,
            CODES[code].error_class,
            int(seconds) if seconds is not None and math.isfinite(seconds) else None,
            failure.http_status if failure.http_status in _ERRORS else None,
        )


def _code(failure: Failure) -> str:
    if failure.http_status is not None:
        return code_of_status(failure.http_status)
    code = failure.code
    if code in _ENDS:
        return _ENDS[code]
    return code if code in CODES else _BY_KIND[failure.kind]
