"""What the errors of the providers' own SDKs say: the cause, the text, the size of a long prompt.

1. No SDK is imported: an exception belongs to an SDK by the package of its class or of a base.
2. `_SDKS` declares, for each package, where it keeps the provider's answer. Nothing else is read.
3. A provider's own word for a cause is stronger than the HTTP status, which often says less: 429
   stands for a rate limit and for a budget that is used up, 400 for many things. A word that says
   no more than the status does counts only without a status of an error, as in the middle of a
   stream, whose status is 200.
4. Classes and sentences stand for errors that never reached a provider, such as a missing key.

The words are those of the providers' own references: OpenAI and Azure (error codes), Anthropic
(errors), Google (google.rpc.Code, ErrorInfo), Mistral, AWS (Bedrock runtime, common errors, and the
throttling codes of botocore's retries).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from eventstore.domain.foreign_errors import (
    ERROR_STATUSES,
    by_class,
    or_none,
    package_of,
    status_of,
)
from eventstore.domain.provider_error_kinds import AuthErrorKind, ProviderErrorKind
from eventstore.domain.value_paths import Path, dig, values_at


class ProviderCause(NamedTuple):
    """The cause of a failed model request; `auth` is its detail where `kind` is AUTHENTICATION."""

    kind: ProviderErrorKind
    auth: AuthErrorKind | None = None


class Overflow(NamedTuple):
    """The tokens of a prompt that is too long, and of the model; None where it is not said."""

    used: int | None = None
    limit: int | None = None


class _Sdk(NamedTuple):
    """Where an SDK keeps the provider's answer: paths from `body`, which may be JSON text."""

    body: Path
    words: tuple[Path, ...] = ()
    texts: tuple[Path, ...] = ()


_SDKS = {
    "openai": _Sdk(
        ("body",),
        (("code",), ("type",), ("error", "code"), ("error", "type")),
        (("message",), ("error", "message"), ("error_description",)),
    ),
    "anthropic": _Sdk(("body",), (("error", "type"),), (("error", "message"),)),
    "google": _Sdk(
        ("details",),
        (
            ("error", "details", "violations", "quotaId"),
            ("error", "details", "reason"),
            ("error", "status"),
        ),
        (("error", "message"), ("message",)),
    ),
    "mistralai": _Sdk(
        ("body",),
        (("type",), ("code",)),
        (("message",), ("detail",), ("detail", "msg"), ("message", "detail", "msg")),
    ),
    "botocore": _Sdk(("response", "Error"), (("Code",),), (("Message",),)),
    "cohere": _Sdk(("body",), (), (("message",),)),
    "ollama": _Sdk(("error",), (), ((),)),
    **dict.fromkeys(
        ("httpx", "httpx2"),
        _Sdk(("response", "text"), (), (("error", "message"), ("message",), ())),
    ),
}

_INVALID_KEY = ProviderCause(ProviderErrorKind.AUTHENTICATION, AuthErrorKind.INVALID)
_NO_KEY = ProviderCause(ProviderErrorKind.AUTHENTICATION, AuthErrorKind.MISSING)
_EXPIRED = ProviderCause(ProviderErrorKind.AUTHENTICATION, AuthErrorKind.EXPIRED)
_NOT_ALLOWED = ProviderCause(
    ProviderErrorKind.AUTHENTICATION, AuthErrorKind.INSUFFICIENT_PERMISSIONS
)
_RATE_LIMIT = ProviderCause(ProviderErrorKind.RATE_LIMIT)
_QUOTA = ProviderCause(ProviderErrorKind.QUOTA_EXCEEDED)
_FILTERED = ProviderCause(ProviderErrorKind.CONTENT_FILTERED)
_SERVER_ERROR = ProviderCause(ProviderErrorKind.SERVER_ERROR)
_INVALID_REQUEST = ProviderCause(ProviderErrorKind.INVALID_REQUEST)
_INVALID_RESPONSE = ProviderCause(ProviderErrorKind.INVALID_RESPONSE)
_TRANSPORT = ProviderCause(ProviderErrorKind.TRANSPORT)

# Words that say more than the HTTP status.
_SPECIFIC_WORDS = (
    (_INVALID_KEY, "invalid_api_key API_KEY_INVALID"),
    (_INVALID_KEY, "UnrecognizedClientException InvalidSignatureException InvalidClientTokenId"),
    (_INVALID_KEY, "SignatureDoesNotMatch AuthFailure"),
    (_NO_KEY, "MissingAuthenticationToken MissingAuthenticationTokenException"),
    (_EXPIRED, "ExpiredToken ExpiredTokenException RequestExpired"),
    (_NOT_ALLOWED, "AccessDenied AccessDeniedException UnauthorizedOperation"),
    (_NOT_ALLOWED, "unsupported_country_region_territory API_KEY_SERVICE_BLOCKED"),
    (_RATE_LIMIT, "rate_limit_exceeded rate_limit_error rate_limited RATE_LIMIT_EXCEEDED"),
    (_RATE_LIMIT, "service_tier_capacity_exceeded"),
    (_RATE_LIMIT, "Throttling ThrottlingException ThrottledException TooManyRequestsException"),
    (_RATE_LIMIT, "RequestThrottled RequestThrottledException RequestLimitExceeded SlowDown"),
    (_RATE_LIMIT, "ProvisionedThroughputExceededException BandwidthLimitExceeded"),
    (_QUOTA, "insufficient_quota billing_hard_limit_reached billing_not_active billing_error"),
    (_QUOTA, "ServiceQuotaExceededException"),
    (_FILTERED, "content_filter content_policy_violation invalid_prompt"),
    (_SERVER_ERROR, "overloaded_error server_is_overloaded slow_down"),
    (_SERVER_ERROR, "ModelNotReadyException ModelStreamErrorException"),
)

# Error words as general as an HTTP status: used for an error that carries no status.
_GENERAL_WORDS = (
    (_INVALID_KEY, "authentication_error UNAUTHENTICATED"),
    (_NOT_ALLOWED, "permission_error PERMISSION_DENIED"),
    (_INVALID_REQUEST, "invalid_request_error not_found_error request_too_large"),
    (_INVALID_REQUEST, "INVALID_ARGUMENT ValidationException validationException"),
    (_QUOTA, "RESOURCE_EXHAUSTED"),
    (_RATE_LIMIT, "throttlingException"),
    (_SERVER_ERROR, "api_error server_error timeout_error INTERNAL UNAVAILABLE"),
    (_SERVER_ERROR, "internalServerException modelStreamErrorException"),
    (_SERVER_ERROR, "serviceUnavailableException"),
)

# What Google's quotas that waiting a minute does not refill have in their names.
_LONG_QUOTA = "PerDay"

_CLASSES = (
    (_NO_KEY, "botocore", "NoCredentialsError PartialCredentialsError NoAuthTokenError"),
    (_NO_KEY, "google", "DefaultCredentialsError"),
    (_EXPIRED, "botocore", "SSOTokenLoadError TokenRetrievalError UnauthorizedSSOTokenError"),
    (_EXPIRED, "google", "RefreshError"),
    (_FILTERED, "openai", "ContentFilterFinishReasonError"),
    (_INVALID_REQUEST, "botocore", "ParamValidationError"),
    (_INVALID_RESPONSE, "openai", "APIResponseValidationError LengthFinishReasonError"),
    (_INVALID_RESPONSE, "anthropic", "APIResponseValidationError"),
    (_INVALID_RESPONSE, "botocore", "ResponseParserError"),
    (_INVALID_RESPONSE, "google", "UnknownApiResponseError"),
    (_INVALID_RESPONSE, "mistralai", "ResponseValidationError"),
    (_TRANSPORT, "mistralai", "NoResponseError"),
)
_MISCONFIGURED = (
    ("botocore", "NoRegionError InvalidRegionError ProfileNotFound ConfigNotFound"),
    ("httpx", "InvalidURL LocalProtocolError UnsupportedProtocol"),
    ("httpx2", "InvalidURL LocalProtocolError UnsupportedProtocol"),
)

# Sentences of the SDKs that have no class of their own: the package, or builtins, and a part.
_SENTENCES = (
    ("openai", "OpenAIError", "Missing credentials", _NO_KEY),
    ("openai", "OpenAIError", "api_key client option must be set", _NO_KEY),
    ("builtins", "TypeError", "Could not resolve authentication method", _NO_KEY),  # anthropic
    ("builtins", "ValueError", "No API key was provided", _NO_KEY),  # google-genai
    ("builtins", "ValueError", "Missing key inputs argument!", _NO_KEY),  # google-genai, older
)

# The words and the sentences that say that a prompt is too long.
_OVERFLOW_WORDS = frozenset({"context_length_exceeded"})
_OVERFLOW_SENTENCES = (
    # OpenAI, and servers that copy it
    (
        r"maximum context length is (?P<limit>[\d,]+) tokens.{0,500}?(?:resulted in|requested|has) "
        r"(?:about )?(?P<used>[\d,]+)"
    ),
    r"maximum context length is (?P<limit>[\d,]+) tokens",
    # Anthropic, also on Bedrock
    r"prompt is too long: (?P<used>[\d,]+) tokens > (?P<limit>[\d,]+) maximum",
    r"exceed context limit: (?P<used>[\d,]+ \+ [\d,]+) > (?P<limit>[\d,]+)",
    # Google
    (
        r"input token count (?:\((?P<used>[\d,]+)\) )?exceeds the maximum number of tokens "
        r"allowed \(?(?P<limit>[\d,]+)"
    ),
    # Mistral
    (
        r"Prompt contains (?P<used>[\d,]+) tokens.{0,500}?too large for model with "
        r"(?P<limit>[\d,]+) maximum"
    ),
    # Bedrock
    r"Input is too long for requested model",
)


def _by_word(table: tuple[tuple[ProviderCause, str], ...]) -> dict[str, ProviderCause]:
    return {word: cause for cause, words in table for word in words.split()}


_SPECIFIC, _GENERAL = _by_word(_SPECIFIC_WORDS), _by_word(_GENERAL_WORDS)
_BY_CLASS = {(package, name): cause for cause, package, names in _CLASSES for name in names.split()}
_CONFIGURATION = {
    (package, name): True for package, names in _MISCONFIGURED for name in names.split()
}


def cause_of(exception: BaseException) -> ProviderCause | None:
    """Return the cause that an SDK's exception names; None if its HTTP status alone decides."""
    words = _words(exception)
    cause = _by_specific_word(words) or by_class(exception, _BY_CLASS)
    if cause is not None or status_of(exception) in ERROR_STATUSES:
        return cause
    return _by_general_word(words) or _by_sentence(exception)


def cause_of_words(words: Sequence[str], status: int | None) -> ProviderCause | None:
    """Return the cause that a provider's words name; None if its HTTP status alone decides."""
    cause = _by_specific_word(words)
    return cause if cause or status in ERROR_STATUSES else _by_general_word(words)


def _by_specific_word(words: Sequence[str]) -> ProviderCause | None:
    if any(_LONG_QUOTA in word for word in words):
        return _QUOTA
    return next((_SPECIFIC[word] for word in words if word in _SPECIFIC), None)


def _by_general_word(words: Sequence[str]) -> ProviderCause | None:
    return next((_GENERAL[word] for word in words if word in _GENERAL), None)


def is_misconfigured(exception: BaseException) -> bool:
    """Return whether the client is set up in a way that no request can be sent."""
    return by_class(exception, _CONFIGURATION) or False


def overflow_of(exception: BaseException) -> Overflow | None:
    """Return the sizes if the provider refused a prompt because it is too long, otherwise None."""
    if _sdk_of(exception) is None:
        return None
    text = text_of(exception) or ""
    for sentence in _OVERFLOW_SENTENCES:
        if match := re.search(sentence, text, re.DOTALL):
            sizes = {name: _tokens(digits) for name, digits in match.groupdict().items()}
            return Overflow(**sizes)
    return None if _OVERFLOW_WORDS.isdisjoint(_words(exception)) else Overflow()


def text_of(exception: BaseException) -> str | None:
    """Return the provider's own sentence, otherwise the text of the SDK's exception, if any."""
    if (sdk := _sdk_of(exception)) is not None:
        body = _body(exception, sdk)
        for path in sdk.texts:
            texts = [text for text in values_at(body, path) if isinstance(text, str) and text]
            if texts:
                return "; ".join(texts)
    return or_none(str, exception)


def _words(exception: BaseException) -> list[str]:
    """Return the provider's words for the cause, the most telling first."""
    if (sdk := _sdk_of(exception)) is None:
        return []
    body = _body(exception, sdk)
    return [word for path in sdk.words for word in values_at(body, path) if isinstance(word, str)]


def _sdk_of(exception: BaseException) -> _Sdk | None:
    packages = (package_of(cls) for cls in type(exception).__mro__)
    return next((_SDKS[package] for package in packages if package in _SDKS), None)


def _body(exception: BaseException, sdk: _Sdk) -> Any:
    body = dig(exception, *sdk.body)
    decoded = or_none(msgspec.json.decode, body) if isinstance(body, str | bytes) else None
    return body if decoded is None else decoded


def _by_sentence(exception: BaseException) -> ProviderCause | None:
    cls = type(exception)
    for package, name, part, cause in _SENTENCES:
        if (package_of(cls), cls.__name__) == (package, name):
            text = or_none(str, exception)
            if text is not None and part in text:
                return cause
    return None


def _tokens(digits: str | None) -> int | None:
    """Return the number that is written, or the sum."""
    if digits is None:
        return None
    return sum(int(number.replace(",", "")) for number in digits.split("+"))
