"""The codes of failures for programs: the side at fault, and the text for the model.

The code, the error kind and the text for the model are three views of one failure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

_CLIENT_ERROR_STATUSES = range(400, 500)
_ERROR_STATUSES = range(400, 600)


class ErrorClass(StrEnum):
    """The side at fault."""

    CLIENT = "client"
    """The caller: change the request, or get more rights."""

    SERVER = "server"
    """The callee: repair it, or ask again later."""


class CodeMeaning(NamedTuple):
    """The meaning of a code; the model reads `model_message`, or the failure's own text if None."""

    error_class: ErrorClass
    model_message: str | None = None


_UPSTREAM = "upstream model error"

CODES = {
    "auth_failed": CodeMeaning(ErrorClass.CLIENT, "authentication failed"),
    "cancelled": CodeMeaning(ErrorClass.CLIENT, "cancelled"),
    "config_error": CodeMeaning(ErrorClass.SERVER, "tool misconfigured"),
    "content_filtered": CodeMeaning(ErrorClass.CLIENT, _UPSTREAM),
    "context_overflow": CodeMeaning(ErrorClass.CLIENT, "input too long"),
    "deadline_exceeded": CodeMeaning(ErrorClass.SERVER, "timed out"),
    "dns_failure": CodeMeaning(ErrorClass.SERVER, _UPSTREAM),
    "internal_error": CodeMeaning(ErrorClass.SERVER),
    "interrupted": CodeMeaning(ErrorClass.CLIENT, "awaiting human review"),
    "invalid_request": CodeMeaning(ErrorClass.CLIENT),
    "invalid_response": CodeMeaning(ErrorClass.SERVER, _UPSTREAM),
    "model_retry_exhausted": CodeMeaning(ErrorClass.CLIENT),
    "not_applicable": CodeMeaning(ErrorClass.CLIENT),
    "permanent_failure": CodeMeaning(ErrorClass.CLIENT),
    "quota_exceeded": CodeMeaning(ErrorClass.CLIENT, "request quota reached"),
    "rate_limited": CodeMeaning(ErrorClass.CLIENT, _UPSTREAM),
    "serde": CodeMeaning(ErrorClass.SERVER, "output could not be serialised"),
    "tls_failure": CodeMeaning(ErrorClass.SERVER, _UPSTREAM),
    "tool_failed": CodeMeaning(ErrorClass.SERVER),
    "transport_failure": CodeMeaning(ErrorClass.SERVER, _UPSTREAM),
    "upstream_error": CodeMeaning(ErrorClass.SERVER, _UPSTREAM),
    "upstream_invalid": CodeMeaning(ErrorClass.CLIENT, _UPSTREAM),
    "upstream_unauthorized": CodeMeaning(ErrorClass.CLIENT, _UPSTREAM),
    "upstream_unavailable": CodeMeaning(ErrorClass.SERVER, _UPSTREAM),
}
"""Every code that the library gives. The codes are stable."""


def code_of_status(status: int) -> str:
    """Return the code of an HTTP status; outside 400 to 599 there was no terminal response."""
    match status:
        case 429:
            return "rate_limited"
        case 401 | 403:
            return "upstream_unauthorized"
        case _ if status in _CLIENT_ERROR_STATUSES:
            return "upstream_invalid"
        case _ if status in _ERROR_STATUSES:
            return "upstream_unavailable"
        case _:
            return "transport_failure"
