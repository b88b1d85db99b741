"""The causes of a failed model request, as words."""

from __future__ import annotations

from enum import StrEnum


class AuthErrorKind(StrEnum):
    """The problem with the credentials, called `AuthErrorKind` in katu-core, too.

    The values are stored: they never change.
    """

    MISSING = "missing"
    """Credentials are missing: log in, or set a key."""

    INVALID = "invalid"
    """Credentials are wrong: set others."""

    EXPIRED = "expired"
    """Credentials were valid before: log in again."""

    INSUFFICIENT_PERMISSIONS = "insufficient_permissions"
    """They do not allow this: ask for more rights."""

    UNKNOWN = "unknown"
    """The provider does not say."""


class ProviderErrorKind(StrEnum):
    """The cause of a failed model request, called `ProviderErrorKind` in katu-core, too.

    The values are stored: they never change.
    """

    AUTHENTICATION = "Authentication"
    """The credentials were refused: stop, and tell the user."""

    RATE_LIMIT = "RateLimit"
    """Too many requests: wait as long as `retry_after` says, then ask again."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    """The budget is used up: stop, and tell the user."""

    INVALID_REQUEST = "InvalidRequest"
    """The request breaks the provider's rules: correct it."""

    CONTENT_FILTERED = "ContentFiltered"
    """The provider's filter refused: the same content will be refused again."""

    SERVER_ERROR = "ServerError"
    """The provider has an internal problem: wait, then ask again."""

    TRANSPORT = "Transport"
    """No answer came: ask again; a model request has no side effect."""

    INVALID_RESPONSE = "InvalidResponse"
    """The answer makes no sense: look at it."""

    UNKNOWN = "Unknown"
    """The provider gives no known cause."""
