"""What any exception says as an agent's error: the provider's cause, the text, a suggestion."""

from __future__ import annotations

from eventstore.agent_errors.provider_causes import SUGGESTIONS, kind_of_status
from eventstore.domain.credentials import without_credentials
from eventstore.domain.failure import ErrorKind, Failure, storable
from eventstore.domain.foreign_errors import retry_after_of
from eventstore.domain.provider_error_kinds import ProviderErrorKind
from eventstore.domain.sdk_errors import ProviderCause, cause_of, text_of
from eventstore.domain.value_paths import dig
from eventstore.errors import EventStoreError

_MAX_TEXT_CHARS = 2_000  # an answer may be a whole page of HTML


def provider_cause(exc: BaseException, failure: Failure) -> ProviderCause | None:
    """Return why the provider refused or did not answer; None if the error is not a provider's."""
    if cause := cause_of(exc):
        return cause
    if failure.http_status is not None:
        # Whether there is a hint decides the kind, also where the time that it means is not known.
        hint = retry_after_of(exc, now=0)
        return ProviderCause(*kind_of_status(failure.http_status, hint))
    if failure.kind is ErrorKind.TRANSIENT:
        return ProviderCause(ProviderErrorKind.TRANSPORT)
    is_unreadable = failure.kind is ErrorKind.VALIDATION and failure.code in (None, "serde")
    if is_unreadable and not isinstance(exc, EventStoreError):
        return ProviderCause(ProviderErrorKind.INVALID_RESPONSE)
    return None


def safe_text(exc: BaseException, failure: Failure) -> str:
    """Return the provider's or the exception's own text, without credentials, cut to its limit."""
    text = without_credentials(storable(text_of(exc) or failure.message), exc)
    return text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"


def own_suggestion(exc: BaseException) -> str | None:
    """Return what the exception itself suggests to the user."""
    own = dig(exc, "suggestion")
    return own if isinstance(own, str) else None


def suggestion_for(cause: ProviderCause) -> str | None:
    """Return what the user can do about a cause, where the library knows."""
    return SUGGESTIONS.get(cause.auth or cause.kind)
