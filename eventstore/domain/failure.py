"""Failures: what went wrong in an attempt, as a value.

A failure is a fact, logged once. The decisions to run the call again, to ask the provider again or
to end the run are derived from it elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import force_setattr

from eventstore.domain.doubt import (
    CODES_OF_DOUBT,
    ENDED_FROM_OUTSIDE,
    says_of_effect,
    text_of_doubt,
    unknown_outcome,
)
from eventstore.domain.foreign_errors import (
    ERROR_STATUSES,
    by_class,
    or_none,
    retry_after_of,
    status_of,
    transport_code_of,
)
from eventstore.domain.provider_error_kinds import ProviderErrorKind
from eventstore.domain.sdk_errors import cause_of
from eventstore.domain.value_paths import dig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MODEL_RETRY = "model_retry"
"""The code of a failure by which a tool gives the model a hint; see `ModelRetry`."""

NOT_APPLICABLE = "not_applicable"
"""The code of a failure by which a tool says that it cannot help; see `NotApplicable`."""

_CLIENT_ERROR_STATUSES = range(400, 500)


class ErrorKind(StrEnum):
    """The kind of a failure, called `ToolErrorKind` in entelix-core.

    The values are stored: they never change.
    """

    TRANSIENT = "transient"
    """No answer, or a temporary problem of the other side: try again after a pause."""

    RATE_LIMIT = "rate_limit"
    """Too many requests, with a hint how long to wait: try again after that time."""

    QUOTA = "quota"
    """A budget is used up: an operator has to raise it, or its next period must begin."""

    AUTH = "auth"
    """Credentials are missing, wrong or too weak: an operator has to correct them."""

    PERMANENT = "permanent"
    """Refused permanently: the same request will be refused again."""

    VALIDATION = "validation"
    """The input is malformed: the model wrote it and can correct it."""

    INTERNAL = "internal"
    """A defect, or an error that is not classified: look at the code of the tool."""

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self in (ErrorKind.TRANSIENT, ErrorKind.RATE_LIMIT)

    @classmethod
    def from_http_status(cls, status: int, retry_after: float | None = None) -> ErrorKind:
        """Return the kind of an HTTP status; `retry_after` is the server's hint in seconds.

        A status outside 400 to 599 is transient: there was no terminal response.
        """
        match status:
            case 429:
                return cls.QUOTA if retry_after is None else cls.RATE_LIMIT
            case 401 | 403:
                return cls.AUTH
            case 408 | 425:
                return cls.TRANSIENT
            case _:
                return cls.PERMANENT if status in _CLIENT_ERROR_STATUSES else cls.TRANSIENT


ERROR_KINDS = {
    ProviderErrorKind.AUTHENTICATION: ErrorKind.AUTH,
    ProviderErrorKind.RATE_LIMIT: ErrorKind.RATE_LIMIT,
    ProviderErrorKind.QUOTA_EXCEEDED: ErrorKind.QUOTA,
    ProviderErrorKind.INVALID_REQUEST: ErrorKind.VALIDATION,
    ProviderErrorKind.CONTENT_FILTERED: ErrorKind.PERMANENT,
    ProviderErrorKind.SERVER_ERROR: ErrorKind.TRANSIENT,
    ProviderErrorKind.TRANSPORT: ErrorKind.TRANSIENT,
    ProviderErrorKind.INVALID_RESPONSE: ErrorKind.INTERNAL,
    ProviderErrorKind.UNKNOWN: ErrorKind.INTERNAL,
}
"""The kind of a failure by the cause of a failed model request."""

# one fixed bit for each kind
_BITS = {kind: 1 << number for number, kind in enumerate(ErrorKind)}


def _bits_of(kinds: Iterable[object]) -> int:
    return sum({_BITS[ErrorKind(str(kind))] for kind in kinds})


class ErrorKindSet(msgspec.Struct, frozen=True, gc=False):
    """A set of error kinds, as a value: one byte, one fixed bit for each kind.

    Called `ToolErrorKindSet` in entelix-core.
    """

    bits: int = 0

    def __post_init__(self) -> None:
        """Accept a kind or a collection of kinds; refuse bits that do not stand for a kind."""
        bits = cast("object", self.bits)
        if isinstance(bits, str):
            bits = _bits_of((bits,))
        elif isinstance(bits, Collection):
            bits = _bits_of(cast("Collection[object]", bits))
        if not isinstance(bits, int) or not 0 <= bits < 1 << len(_BITS):
            raise ValueError(
                f"bits is {bits!r}: build a set with ErrorKindSet.of(ErrorKind.AUTH, ...)"
            )
        force_setattr(self, "bits", bits)

    @classmethod
    def empty(cls) -> ErrorKindSet:
        """Return the empty set."""
        return cls()

    @classmethod
    def singleton(cls, kind: ErrorKind) -> ErrorKindSet:
        """Return the set of one kind."""
        return cls.of(kind)

    @classmethod
    def of(cls, *kinds: ErrorKind) -> ErrorKindSet:
        """Return the set of these kinds."""
        return cls(_bits_of(kinds))

    def with_(self, kind: ErrorKind) -> ErrorKindSet:
        """Return a new set that also contains `kind`."""
        return self | self.singleton(kind)

    def contains(self, kind: ErrorKind) -> bool:
        """Return whether `kind` is in the set."""
        return bool(self.bits & _BITS[ErrorKind(kind)])

    __contains__ = contains

    def __or__(self, other: ErrorKindSet) -> ErrorKindSet:
        return ErrorKindSet(self.bits | other.bits)

    def __iter__(self) -> Iterator[ErrorKind]:
        return (kind for kind, bit in _BITS.items() if self.bits & bit)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __repr__(self) -> str:
        return f"ErrorKindSet.of({', '.join(f'ErrorKind.{kind.name}' for kind in self)})"


def classify(exception: BaseException) -> ErrorKind:
    """Return the kind of any exception. It never raises, and imports no library for its errors.

    The first rule that applies decides:

    1. An exception with an `error_kind` is of that kind.
    2. An exception group is of the kind that all its members share, otherwise internal.
    3. An error of a provider's SDK is of the kind of the cause that the provider names, where that
       says more than the status (`sdk_errors`).
    4. An HTTP status from 400 to 599 is of the kind that `ErrorKind.from_http_status` gives.
    5. A class that is known by its name, or by the name of its nearest known base, is of that
       kind; an unreachable network is transient.
    6. Any other HTTP status is transient.
    7. Everything else is internal.
    """
    return or_none(_classify, exception) or ErrorKind.INTERNAL


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What went wrong in one attempt.

    `message` is for operators; the model reads `model_message` instead, if it is set. `code` is
    the other side's own code, or how the attempt was ended (timeout, cancelled, interrupted).
    `retry_after` is the other side's hint in seconds, `exception` the name of the class.

    `in_doubt`: the attempt may have taken effect, or surely has not; None leaves it to the code.
    `leaves_doubt` has the answer.

    Characters that JSON or a database cannot hold (lone surrogates, NUL) are kept as escapes.
    """

    kind: ErrorKind
    message: str
    model_message: str | None = None
    code: str | None = None
    http_status: int | None = None
    retry_after: float | None = None
    exception: str | None = None
    traceback: str | None = None
    in_doubt: bool | None = None

    def __post_init__(self) -> None:
        """Escape the characters that cannot be stored."""
        for field in ("message", "model_message", "code", "exception", "traceback"):
            text = getattr(self, field)
            if text is not None and (escaped := storable(text)) is not text:
                force_setattr(self, field, escaped)

    @classmethod
    def from_exception(
        cls,
        exc: BaseException,
        *,
        classifier: Callable[[BaseException], ErrorKind] = classify,
        with_traceback: bool = False,
        now: int | None = None,
    ) -> Failure:
        """Make the failure of an exception. It never raises: a broken `classifier` means internal.

        It is in doubt if the exception shows that the attempt may have taken effect (`doubt`): a
        timeout, a lost connection, an interruption. Of the tool's effect it knows nothing.

        The model reads the exception's own `model_message`, if it has one. `now`, in microseconds
        since 1970 UTC, is the time that a date in a Retry-After header counts from.
        """
        name = or_none(_class_name, exc) or "Exception"
        kind = or_none(lambda: ErrorKind(classifier(exc))) or ErrorKind.INTERNAL
        in_doubt = says_of_effect(exc)
        end = None if in_doubt is False else or_none(unknown_outcome, exc)
        return cls(
            kind=kind,
            message=or_none(lambda: storable(str(exc))) or name,
            model_message=or_none(_model_message_of, exc),
            code=end or or_none(_code_of, exc, kind),
            http_status=or_none(status_of, exc),
            retry_after=retry_after_of(exc, now),
            exception=name,
            traceback=or_none(_traceback, exc) if with_traceback else None,
            in_doubt=True if in_doubt else None,
        )

    @property
    def leaves_doubt(self) -> bool:
        """Whether the attempt may have taken effect: as the failure says, otherwise by its code."""
        return self.code in CODES_OF_DOUBT if self.in_doubt is None else self.in_doubt

    @property
    def answers_model(self) -> bool:
        """Whether the tool itself answered the model: with a hint, or that it does not apply."""
        return self.is_model_retry or self.is_not_applicable

    @property
    def is_model_retry(self) -> bool:
        """Whether the tool asked the model to call it again, with a hint."""
        return self.code == MODEL_RETRY

    @property
    def is_not_applicable(self) -> bool:
        """Whether the tool said that it cannot help with the call."""
        return self.code == NOT_APPLICABLE

    @property
    def model_text(self) -> str:
        """Text that the model reads: of a failure in doubt it says so."""
        text = self.model_message
        if not self.in_doubt:
            return self.message if text is None else text
        is_silent = self.code in ENDED_FROM_OUTSIDE or self.message == self.exception
        said = None if is_silent else self.message
        return text_of_doubt(said if text is None else text, self.code)


# The paths of the other side's code in an exception: the last is botocore's.
_CODES = (("code",), ("response", "Error", "Code"))

# Kind, package (the first name of the module) and names of exceptions.
_KNOWN_CLASSES = (
    (ErrorKind.TRANSIENT, "builtins", "ConnectionError TimeoutError"),
    (ErrorKind.TRANSIENT, "socket", "gaierror herror"),
    (ErrorKind.TRANSIENT, "ssl", "SSLError"),
    (ErrorKind.TRANSIENT, "subprocess", "TimeoutExpired"),
    (ErrorKind.TRANSIENT, "http", "BadStatusLine IncompleteRead"),
    (ErrorKind.TRANSIENT, "urllib", "URLError"),
    (ErrorKind.TRANSIENT, "urllib3", "MaxRetryError ProtocolError ProxyError SSLError"),
    (ErrorKind.TRANSIENT, "urllib3", "NewConnectionError TimeoutError"),
    (ErrorKind.TRANSIENT, "httpx", "TransportError"),
    (ErrorKind.TRANSIENT, "httpx2", "TransportError"),
    (ErrorKind.TRANSIENT, "requests", "ChunkedEncodingError ConnectionError Timeout"),
    (ErrorKind.TRANSIENT, "aiohttp", "ClientConnectionError ClientPayloadError"),
    (ErrorKind.TRANSIENT, "botocore", "ConnectionError HTTPClientError"),
    (ErrorKind.TRANSIENT, "openai", "APIConnectionError"),
    (ErrorKind.TRANSIENT, "anthropic", "APIConnectionError"),
    (ErrorKind.AUTH, "builtins", "PermissionError"),
    (ErrorKind.VALIDATION, "eventstore", "UnhashableArguments UnparsedArguments"),
    (ErrorKind.VALIDATION, "json", "JSONDecodeError"),
    (ErrorKind.VALIDATION, "jsonschema", "ValidationError"),
    (ErrorKind.VALIDATION, "msgspec", "DecodeError"),
    (ErrorKind.VALIDATION, "pydantic", "ValidationError"),
    (ErrorKind.VALIDATION, "pydantic_ai", "ModelRetry"),
    (ErrorKind.VALIDATION, "pydantic_core", "ValidationError"),
    # A mistake of the caller: waiting does not help.
    (ErrorKind.INTERNAL, "httpx", "LocalProtocolError UnsupportedProtocol"),
    (ErrorKind.INTERNAL, "httpx2", "LocalProtocolError UnsupportedProtocol"),
)
_KINDS_BY_CLASS = {
    (package, name): kind for kind, package, names in _KNOWN_CLASSES for name in names.split()
}

# Codes of exceptions that have none of their own; see `error_codes`.
_KNOWN_CODES = (
    ("awaiting_review", "eventstore", "NonResolvedToolError"),
    ("awaiting_review", "langgraph", "GraphBubbleUp"),
    ("awaiting_review", "pydantic_ai", "ApprovalRequired CallDeferred"),
    ("deadline_exceeded", "anthropic", "APITimeoutError"),
    ("deadline_exceeded", "botocore", "ConnectTimeoutError ReadTimeoutError"),
    ("deadline_exceeded", "httpx", "TimeoutException"),
    ("deadline_exceeded", "httpx2", "TimeoutException"),
    ("deadline_exceeded", "openai", "APITimeoutError"),
    ("deadline_exceeded", "requests", "Timeout"),
    ("deadline_exceeded", "subprocess", "TimeoutExpired"),
    ("deadline_exceeded", "urllib3", "TimeoutError"),
    ("invalid_response", "anthropic", "APIResponseValidationError"),
    ("invalid_response", "botocore", "ResponseParserError"),
    ("invalid_response", "google", "UnknownApiResponseError"),
    ("invalid_response", "mistralai", "ResponseValidationError"),
    ("invalid_response", "openai", "APIResponseValidationError LengthFinishReasonError"),
    (MODEL_RETRY, "pydantic_ai", "ModelRetry"),
    ("serde", "json", "JSONDecodeError"),
    ("serde", "msgspec", "DecodeError EncodeError"),
)
_CODES_BY_CLASS = {
    (package, name): code for code, package, names in _KNOWN_CODES for name in names.split()
}

# Network errors without a class of their own.
_UNREACHABLE_ERRNOS = {errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}


def _classify(exception: BaseException) -> ErrorKind | None:
    own = dig(exception, "error_kind")
    if isinstance(own, ErrorKind):
        return own
    if isinstance(exception, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", exception)
        kinds = {classify(member) for member in group.exceptions}
        return kinds.pop() if len(kinds) == 1 else None
    if cause := cause_of(exception):
        return ERROR_KINDS[cause.kind]
    status = status_of(exception)
    if status is None:
        return _kind_by_class(exception)
    # From 1970 every date lies ahead: for the kind it is enough that there is a hint.
    by_status = ErrorKind.from_http_status(status, retry_after_of(exception, now=0))
    return by_status if status in ERROR_STATUSES else _kind_by_class(exception) or by_status


def _kind_by_class(exception: BaseException) -> ErrorKind | None:
    if kind := by_class(exception, _KINDS_BY_CLASS):
        return kind
    is_unreachable = isinstance(exception, OSError) and exception.errno in _UNREACHABLE_ERRNOS
    return ErrorKind.TRANSIENT if is_unreachable else None


def _code_of(exception: BaseException, kind: ErrorKind) -> str | None:
    codes = (dig(exception, *path) for path in _CODES)
    own = next((storable(code) for code in codes if isinstance(code, str)), None)
    own = own or by_class(exception, _CODES_BY_CLASS)
    return own or (transport_code_of(exception) if kind is ErrorKind.TRANSIENT else None)


def _model_message_of(exception: BaseException) -> str | None:
    text = dig(exception, "model_message")
    if text is None and by_class(exception, _CODES_BY_CLASS) == MODEL_RETRY:
        text = str(exception)  # a foreign class, whose text is the hint
    return storable(text) if isinstance(text, str) else None


def _class_name(exception: BaseException) -> str:
    cls = type(exception)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def _traceback(exception: BaseException) -> str:
    import traceback  # slow to load, and seldom asked for

    return "".join(traceback.format_exception(exception))


def storable(text: str) -> str:
    """Return the text, with escapes for the characters that cannot be stored."""
    if type(text) is str and text.isascii() and "\0" not in text:
        return text
    return str.encode(text, "utf-8", "backslashreplace").decode().replace("\0", "\\x00")
