"""What went wrong in an attempt, as a value: seven kinds, sets of them, `classify`, `Failure`.

A failure is a fact, logged once. Whether to run the call again, to ask the provider again or to
end the run is derived from it, each in its own place.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Collection
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

_CLIENT_ERRORS = range(400, 500)
_ERRORS = range(400, 600)
_THREE_DIGITS = range(1000)
_DELAY = re.compile("[0-9]{1,9}")


class ErrorKind(StrEnum):
    """The kind of a failure. The values are stored: they never change."""

    TRANSIENT = "transient"
    """No answer, or a passing trouble of the other side: try again after a pause."""

    RATE_LIMIT = "rate_limit"
    """Too many requests, with a hint how long to wait: wait that long, then try again."""

    QUOTA = "quota"
    """A budget is used up: somebody has to raise it, or wait for its next period."""

    AUTH = "auth"
    """Credentials are missing, wrong or too weak: somebody has to mend them."""

    PERMANENT = "permanent"
    """Refused for good: the same request will be refused again."""

    VALIDATION = "validation"
    """The input is malformed: the model wrote it and can write it anew."""

    INTERNAL = "internal"
    """A defect, or an error that nobody has classified: look at the tool's code."""

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self in (ErrorKind.TRANSIENT, ErrorKind.RATE_LIMIT)

    @classmethod
    def from_http_status(cls, status: int, retry_after: float | None = None) -> ErrorKind:
        """The kind of an HTTP status; `retry_after` is the server's hint in seconds.

        A status outside 400 to 599 is transient: no terminal response was received.
        """
        match status:
            case 429:
                return cls.QUOTA if retry_after is None else cls.RATE_LIMIT
            case 401 | 403:
                return cls.AUTH
            case 408 | 425:
                return cls.TRANSIENT
            case _:
                return cls.PERMANENT if status in _CLIENT_ERRORS else cls.TRANSIENT


# one fixed bit for each kind
_BITS = {kind: 1 << place for place, kind in enumerate(ErrorKind)}


class ErrorKindSet(msgspec.Struct, frozen=True, gc=False):
    """A set of error kinds, as a value: one byte, one fixed bit for each kind."""

    bits: int = 0

    def __post_init__(self) -> None:
        """Take a kind, or any collection of kinds, and refuse bits that stand for no kind."""
        given: Any = self.bits
        if isinstance(given, Collection):
            kinds = (given,) if isinstance(given, str) else given
            given = reduce(or_, (_BITS[ErrorKind(kind)] for kind in kinds), 0)
            force_setattr(self, "bits", given)
        if not isinstance(given, int) or not 0 <= given < 1 << len(_BITS):
            raise ValueError(
                f"bits is {given!r}: build a set with ErrorKindSet.of(ErrorKind.AUTH, ...)"
            )

    @classmethod
    def empty(cls) -> ErrorKindSet:
        """The set without a kind."""
        return cls()

    @classmethod
    def singleton(cls, kind: ErrorKind) -> ErrorKindSet:
        """The set of one kind."""
        return cls.of(kind)

    @classmethod
    def of(cls, *kinds: ErrorKind) -> ErrorKindSet:
        """The set of these kinds."""
        return cls(kinds)  # type: ignore[arg-type]

    def with_(self, kind: ErrorKind) -> ErrorKindSet:
        """A new set, with `kind` in it."""
        return self | self.singleton(kind)

    def contains(self, kind: ErrorKind) -> bool:
        """Whether `kind` is in the set."""
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
    """The kind of any exception. Total, and imports no library to know its errors.

    The first rule that answers decides:

    1. An exception that bears an `error_kind` is of that kind.
    2. An exception group is of the kind that all its members share, else internal.
    3. An HTTP status from 400 to 599 is of the kind that `ErrorKind.from_http_status` gives.
    4. A class known by name, its own or its nearest base's, is of that kind; an unreachable
       network is transient.
    5. Any other HTTP status is transient.
    6. Everything else is internal.
    """
    return _attempt(_classify, exception) or ErrorKind.INTERNAL


def retry_after_of(exception: BaseException) -> float | None:
    """The seconds to wait that an exception asks for: more than zero, else None.

    They are in its `retry_after`, or in a Retry-After header as an integer. The header's other
    form, a date, is ignored: to read it takes a clock.
    """
    own = _attempt(_positive, _dig(exception, "retry_after"))
    if own is not None:
        return own
    for path in _HEADERS:
        headers = _dig(exception, *path)
        for name in ("retry-after", "Retry-After"):
            if seconds := _attempt(_seconds, headers, name):
                return seconds
    return None


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What went wrong in one attempt.

    `message` is for operators; `model_message` is what the model reads in its place. `code` is
    the other side's own word for it, `retry_after` its hint in seconds, `exception` the class.
    What JSON or a database cannot hold in a text (lone surrogates, NUL) is kept as an escape.
    """

    kind: ErrorKind
    message: str
    model_message: str | None = None
    code: str | None = None
    http_status: int | None = None
    retry_after: float | None = None
    exception: str | None = None
    traceback: str | None = None

    def __post_init__(self) -> None:
        """Escape what cannot be stored."""
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
    ) -> Failure:
        """The failure that an exception is. Total: where `classifier` raises, it is internal.

        An exception's own `model_message` is what the model reads.
        """
        name = _attempt(_class_name, exc) or "Exception"
        return cls(
            kind=_attempt(lambda: ErrorKind(classifier(exc))) or ErrorKind.INTERNAL,
            message=_attempt(lambda: storable(str(exc))) or name,
            model_message=_attempt(_told, exc),
            code=_attempt(_code_of, exc),
            http_status=_attempt(_status_of, exc),
            retry_after=retry_after_of(exc),
            exception=name,
            traceback=_attempt(_traceback, exc) if with_traceback else None,
        )

    @property
    def model_text(self) -> str:
        """What the model reads."""
        return self.message if self.model_message is None else self.model_message


# Where an exception keeps the HTTP status, the headers and the other side's code: attributes, or
# keys where it is a dict. In order: httpx, requests, openai and anthropic; the same, flat;
# botocore.
_STATUSES = (
    ("response", "status_code"),
    ("status_code",),
    ("response", "ResponseMetadata", "HTTPStatusCode"),
)
# aiohttp, urllib and google; elsewhere these names may mean something that is no HTTP status.
_MAYBE_STATUSES = (("response", "status"), ("status",), ("code",))
_HEADERS = (
    ("response", "headers"),
    ("headers",),
    ("response", "ResponseMetadata", "HTTPHeaders"),
)
_CODES = (("code",), ("response", "Error", "Code"))

# The package (the first name of the module) and the names of exceptions of a kind.
_KNOWN = (
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
    (ErrorKind.VALIDATION, "json", "JSONDecodeError"),
    (ErrorKind.VALIDATION, "jsonschema", "ValidationError"),
    (ErrorKind.VALIDATION, "msgspec", "DecodeError"),
    (ErrorKind.VALIDATION, "pydantic", "ValidationError"),
    (ErrorKind.VALIDATION, "pydantic_core", "ValidationError"),
    # The caller's mistake, or an answer that makes no sense: waiting helps neither.
    (ErrorKind.INTERNAL, "httpx", "LocalProtocolError UnsupportedProtocol"),
    (ErrorKind.INTERNAL, "httpx2", "LocalProtocolError UnsupportedProtocol"),
    (ErrorKind.INTERNAL, "openai", "APIResponseValidationError"),
    (ErrorKind.INTERNAL, "anthropic", "APIResponseValidationError"),
)
_KINDS = {(package, name): kind for kind, package, names in _KNOWN for name in names.split()}

# Network errors that have no class of their own.
_UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH}


def _classify(exception: BaseException) -> ErrorKind | None:
    own = _dig(exception, "error_kind")
    if isinstance(own, ErrorKind):
        return own
    if isinstance(exception, BaseExceptionGroup):
        kinds = {classify(member) for member in exception.exceptions}
        return kinds.pop() if len(kinds) == 1 else None
    status = _status_of(exception)
    if status is None:
        return _kind_by_class(exception)
    by_status = ErrorKind.from_http_status(status, retry_after_of(exception))
    return by_status if status in _ERRORS else _kind_by_class(exception) or by_status


def _kind_by_class(exception: BaseException) -> ErrorKind | None:
    for cls in type(exception).__mro__:
        if kind := _KINDS.get((str(cls.__module__).partition(".")[0], cls.__name__)):
            return kind
    is_unreachable = isinstance(exception, OSError) and exception.errno in _UNREACHABLE
    return ErrorKind.TRANSIENT if is_unreachable else None


def _status_of(exception: BaseException) -> int | None:
    """The HTTP status that an exception carries."""
    if not isinstance(exception, Exception):
        return None  # SystemExit has a code, and it is not this one
    for path in _STATUSES:
        if (status := _attempt(_number, _dig(exception, *path))) is not None:
            return status
    for path in _MAYBE_STATUSES:
        if (status := _attempt(_number, _dig(exception, *path))) in _ERRORS:
            return status
    return None


def _code_of(exception: BaseException) -> str | None:
    codes = (_dig(exception, *path) for path in _CODES)
    return next((storable(code) for code in codes if isinstance(code, str)), None)


def _dig(value: Any, *path: str) -> Any:
    """What lies at the end of a path of attributes or keys; None where the path breaks off."""
    try:
        for step in path:
            value = value[step] if isinstance(value, dict) else getattr(value, step)
    except Exception:  # noqa: BLE001 - an attribute may raise anything
        return None
    return value


def _attempt(function: Callable[..., _T], *args: object) -> _T | None:
    """What the function gives, or None when it raises."""
    try:
        return function(*args)
    except Exception:  # noqa: BLE001 - whatever a foreign exception does, it gets recorded
        return None


def _number(value: object) -> int | None:
    """A number that may be an HTTP status."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    number = int.__index__(value)  # of an enum, too, and of a subclass whatever it overrides
    return number if number in _THREE_DIGITS else None


def _positive(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < math.inf else None


def _told(exception: BaseException) -> str | None:
    told = _dig(exception, "model_message")
    return storable(told) if isinstance(told, str) else None


def _seconds(headers: Any, name: str) -> float | None:
    text = str(headers.get(name)).strip()
    return float(text) or None if _DELAY.fullmatch(text) else None


def _class_name(exception: BaseException) -> str:
    cls = type(exception)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def _traceback(exception: BaseException) -> str:
    import traceback  # noqa: PLC0415 - slow to load, and seldom asked for

    return "".join(traceback.format_exception(exception))


def storable(text: str) -> str:
    """The text itself where it can be stored, else with escapes in place of what cannot."""
    if type(text) is str and text.isascii() and "\0" not in text:
        return text
    return str.encode(text, "utf-8", "backslashreplace").decode().replace("\0", "\\x00")
