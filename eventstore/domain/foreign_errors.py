"""What any library's exception says of an HTTP answer: its status, and how long to wait.

1. No library is imported. An attribute is read from the places that are declared here.
2. Nothing raises: an attribute or a text of a foreign exception may.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeVar

from eventstore.domain.value_paths import Path, dig, values_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")

CAUSES_KEPT = 16
"""The most causes of an error that are looked at, each of them the cause of the one before."""

ERROR_STATUSES = range(400, 600)
_STATUS_NUMBERS = range(1000)
_DELAY_SECONDS = re.compile("[0-9]{1,9}")

# The places of the HTTP status and the headers in an exception. In order: httpx, requests, openai
# and anthropic; the same, flat; botocore.
_STATUSES = (
    ("response", "status_code"),
    ("status_code",),
    ("response", "ResponseMetadata", "HTTPStatusCode"),
)
# aiohttp, urllib and google; elsewhere these names may mean something else than an HTTP status.
_MAYBE_STATUSES = (("response", "status"), ("status",), ("code",))
_HEADERS = (
    ("response", "headers"),
    ("headers",),
    ("response", "ResponseMetadata", "HTTPHeaders"),
)
# Google's RetryInfo, in the body of an answer: "34.5s".
_RETRY_DELAYS: tuple[Path, ...] = (
    ("details", "error", "details", "retryDelay"),
    ("details", "details", "retryDelay"),
)

_TRANSPORT_CODES = {("ssl", "SSLError"): "tls_failure", ("socket", "gaierror"): "dns_failure"}


def status_of(exception: BaseException) -> int | None:
    """Return the HTTP status that an exception carries."""
    if not isinstance(exception, Exception):
        return None  # the code of SystemExit is not an HTTP status
    for path in _STATUSES:
        if (status := or_none(_status_number, dig(exception, *path))) is not None:
            return status
    for path in _MAYBE_STATUSES:
        if (status := or_none(_status_number, dig(exception, *path))) in ERROR_STATUSES:
            return status
    return None


def retry_after_of(exception: BaseException, now: int | None = None) -> float | None:
    """Return the other side's hint, in seconds above zero, how long to wait; None without one.

    The first of these that is there:

    1. The exception's own `retry_after_hint` or `retry_after`.
    2. The header Retry-After-Ms (OpenAI, Anthropic), or Retry-After: an integer, or a date. A date
       counts from the Date header of the same response, otherwise from `now`, in microseconds
       since 1970 UTC; without either it is not read.
    3. Google's RetryInfo in the body.
    """
    has_hint = or_none(hasattr, exception, "retry_after_hint")
    own = dig(exception, "retry_after_hint" if has_hint else "retry_after")
    if (seconds := or_none(_positive, own)) is not None:
        return seconds
    for path in _HEADERS:
        headers = dig(exception, *path)
        if seconds := or_none(_header_milliseconds, headers):
            return seconds
        for name, date in (("retry-after", "date"), ("Retry-After", "Date")):
            if seconds := or_none(_header_seconds, headers, name, date, now):
                return seconds
    return or_none(_retry_delay, exception)


def by_class(exception: BaseException, known: Mapping[tuple[str, str], _T]) -> _T | None:
    """Return what is known of the exception's class, or of the nearest base that is known.

    The keys are the package (the first name of the module) and the name of the class.
    """
    for cls in type(exception).__mro__:
        if value := known.get((package_of(cls), cls.__name__)):
            return value
    return None


def transport_code_of(exception: BaseException) -> str | None:
    """Return the code of a connection that failed in TLS or DNS, by the nearest cause that says."""
    cause: BaseException | None = exception
    for _ in range(CAUSES_KEPT + 1):
        if cause is None:
            break
        if code := by_class(cause, _TRANSPORT_CODES):
            return code
        cause = cause.__cause__
    return None


def package_of(cls: type) -> str:
    """Return the first name of the module of a class."""
    return str(cls.__module__).partition(".")[0]


def or_none(function: Callable[..., _T], *args: object) -> _T | None:
    """Return the result of the function, or None when it raises."""
    try:
        return function(*args)
    except Exception:  # noqa: BLE001 - a foreign exception may raise anything, and is recorded all the same
        return None


def _status_number(value: object) -> int | None:
    """Return the number that may be an HTTP status, or None."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    number = int.__index__(value)  # enums and other subclasses included
    return number if number in _STATUS_NUMBERS else None


def _positive(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < math.inf else None


def _header_milliseconds(headers: Any) -> float | None:
    return _positive(float(headers.get("retry-after-ms")) / 1000)


def _header_seconds(headers: Any, name: str, date: str, now: int | None) -> float | None:
    text = str(headers.get(name)).strip()
    if _DELAY_SECONDS.fullmatch(text):
        return float(text) or None
    answered: str | None = headers.get(date)
    if answered is not None:
        return _positive(_http_date(text) - _http_date(answered))
    return None if now is None else _positive(_http_date(text) - now / 1e6)


def _retry_delay(exception: BaseException) -> float | None:
    """Return the seconds of a protobuf Duration in the body, such as "34.5s"."""
    for path in _RETRY_DELAYS:
        for delay in values_at(exception, path):
            if isinstance(delay, str) and (seconds := _positive(float(delay.removesuffix("s")))):
                return seconds
    return None


def _http_date(text: str) -> float:
    """Return a date of HTTP, in any of its three forms, as seconds since 1970 UTC."""
    from calendar import timegm
    from email.utils import parsedate_to_datetime  # slow to load, and seldom needed

    return timegm(parsedate_to_datetime(text).utctimetuple())  # without a zone it is UTC
