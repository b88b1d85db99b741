"""The consequences of a provider error's cause: its text, code, wait and suggestion."""

from __future__ import annotations

from typing import NamedTuple

from eventstore.domain.arguments import is_seconds
from eventstore.domain.failure import ErrorKind
from eventstore.domain.provider_error_kinds import AuthErrorKind, ProviderErrorKind


class Consequences(NamedTuple):
    """The consequences of a kind; `seconds` is the default of `retry_after`."""

    text: str
    code: str
    seconds: float | None = None


CONSEQUENCES = {
    ProviderErrorKind.AUTHENTICATION: Consequences("authentication failed", "auth_failed"),
    ProviderErrorKind.RATE_LIMIT: Consequences("rate limited", "rate_limited", 30.0),
    ProviderErrorKind.QUOTA_EXCEEDED: Consequences("quota exceeded", "quota_exceeded"),
    ProviderErrorKind.INVALID_REQUEST: Consequences("invalid request", "invalid_request"),
    ProviderErrorKind.CONTENT_FILTERED: Consequences("content filtered", "content_filtered"),
    ProviderErrorKind.SERVER_ERROR: Consequences(
        "provider internal error", "upstream_unavailable", 20.0
    ),
    ProviderErrorKind.TRANSPORT: Consequences("transport error", "transport_failure"),
    ProviderErrorKind.INVALID_RESPONSE: Consequences("invalid response", "invalid_response"),
    ProviderErrorKind.UNKNOWN: Consequences("unknown provider error", "upstream_error"),
}

SUGGESTIONS = {
    AuthErrorKind.MISSING: "set the API key or the credentials of the provider",
    AuthErrorKind.INVALID: "check the API key or the credentials of the provider",
    AuthErrorKind.EXPIRED: "log in again, or renew the credentials of the provider",
    AuthErrorKind.INSUFFICIENT_PERMISSIONS: "ask for the rights that this request needs",
    ProviderErrorKind.QUOTA_EXCEEDED: "raise the budget, or wait until its next period begins",
}

_AUTH_STATUSES = {401: AuthErrorKind.INVALID, 403: AuthErrorKind.INSUFFICIENT_PERMISSIONS}
_INVALID_REQUESTS = (400, 422)
_SERVER_ERRORS = range(500, 600)


def check_details(
    kind: ProviderErrorKind, auth: AuthErrorKind | None, retry_after: float | None
) -> None:
    """Check what is said of a provider error besides its kind.

    Raises:
        ValueError: `auth` is given for another kind, or `retry_after` is not seconds.
    """
    if auth is not None and kind is not ProviderErrorKind.AUTHENTICATION:
        raise ValueError(f"auth is {auth!r} and kind {kind!r}: auth is only for AUTHENTICATION")
    if retry_after is not None and not is_seconds(retry_after):
        raise ValueError(f"retry_after is {retry_after!r}: pass seconds, 0 or more")


def kind_of_status(
    status: int, retry_after: float | None
) -> tuple[ProviderErrorKind, AuthErrorKind | None]:
    """Return the kind and the auth detail: retryable exactly if `ErrorKind.from_http_status` is."""
    match ErrorKind.from_http_status(status, retry_after):
        case ErrorKind.AUTH:
            return ProviderErrorKind.AUTHENTICATION, _AUTH_STATUSES[status]
        case ErrorKind.RATE_LIMIT:
            return ProviderErrorKind.RATE_LIMIT, None
        case ErrorKind.QUOTA:
            return ProviderErrorKind.QUOTA_EXCEEDED, None
        case ErrorKind.PERMANENT:
            is_invalid = status in _INVALID_REQUESTS
            kind = ProviderErrorKind.INVALID_REQUEST if is_invalid else ProviderErrorKind.UNKNOWN
            return kind, None
        case _:
            is_server = status in _SERVER_ERRORS
            kind = ProviderErrorKind.SERVER_ERROR if is_server else ProviderErrorKind.TRANSPORT
            return kind, None
