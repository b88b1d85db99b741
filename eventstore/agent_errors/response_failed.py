"""`ResponseFailed`: a response of the model that is an error, or says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eventstore.agent_errors.errors import ProviderError
from eventstore.agent_errors.provider_causes import SUGGESTIONS, kind_of_status
from eventstore.domain.credentials import without_credentials
from eventstore.domain.failure import storable
from eventstore.domain.finish_reasons import Ending, ending_of
from eventstore.domain.foreign_errors import ERROR_STATUSES
from eventstore.domain.provider_error_kinds import ProviderErrorKind
from eventstore.domain.sdk_errors import ProviderCause, cause_of_words

_MAX_TEXT_CHARS: Final = 2_000

_BY_ENDING: Final[dict[Ending, ProviderErrorKind]] = {
    "withheld": ProviderErrorKind.CONTENT_FILTERED,
    "truncated": ProviderErrorKind.INVALID_RESPONSE,
    "malformed": ProviderErrorKind.SERVER_ERROR,
    "broken": ProviderErrorKind.SERVER_ERROR,
}
"""The kind of a response whose provider names no cause: asked anew, the model may do better."""

_ENDED_BY_CALLER: Final = frozenset({"cancelled", "user_cancel", "abort"})

_TEXTS: Final[dict[Ending, str]] = {
    "withheld": "the provider withheld it",
    "truncated": "a limit ended it before the first word",
    "malformed": "the provider could not read what the model wrote",
    "broken": "the provider says no more",
}


class ResponseFailed(ProviderError):
    """A response of the model failed: it is an error, or it ended before it said anything.

    It is recorded, as a `ModelResponded` with this `reason` as its finish reason. Nothing of it is
    shown to the model, so that the next prompt is the one before. `retryable` says whether that may
    be sent again, after `retry_after` seconds. `message` is the provider's own sentence, without
    credentials, `provider_code` its word for the error, `status` the HTTP status that it names.
    """

    def __init__(
        self,
        reason: str,
        message: str | None = None,
        *,
        provider: str | None = None,
        words: Sequence[str] = (),
        status: int | None = None,
    ) -> None:
        self.reason = reason
        self.provider = provider
        self.provider_code = words[0] if words else None
        ending = ending_of(provider, reason)
        kind, auth = _cause(reason, ending, words, status, is_explained=message is not None)
        text = message or _TEXTS.get(ending, "the provider says no more")
        text = without_credentials(storable(text))
        super().__init__(
            kind,
            text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…",
            status=status if status in ERROR_STATUSES else None,
            auth=auth,
            suggestion=SUGGESTIONS.get(auth or kind),
        )

    def _text(self, message: str) -> str:
        remedy = "ask again" if self.retryable else "asking again in the same way will not help"
        return f"the response failed ({self.reason}): {message}; it is recorded, {remedy}"


def _cause(
    reason: str, ending: Ending, words: Sequence[str], status: int | None, *, is_explained: bool
) -> ProviderCause:
    """Return why a response failed: by the provider's words, its status, or how it ended.

    An error in words that are not known may be any.
    """
    if cause := cause_of_words(words, status):
        return cause
    if status in ERROR_STATUSES and status is not None:
        return ProviderCause(*kind_of_status(status, None))
    if is_explained or reason.partition(":")[0].lower() in _ENDED_BY_CALLER:
        return ProviderCause(ProviderErrorKind.UNKNOWN)
    return ProviderCause(_BY_ENDING.get(ending, ProviderErrorKind.UNKNOWN))
