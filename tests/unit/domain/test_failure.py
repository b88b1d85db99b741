"""Classification of exceptions: the table, exceptions of well-known libraries, totality."""

from __future__ import annotations

import concurrent.futures
import errno
import http.client
import importlib
import json
import socket
import ssl
import subprocess
import urllib.error
from datetime import UTC, datetime
from email.message import Message
from http import HTTPStatus
from typing import Any

import httpx
import msgspec
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    ErrorEnvelope,
    NonResolvedToolError,
    ProviderError,
    ProviderErrorKind,
    RetryPolicy,
)
from eventstore.domain.failure import ErrorKind, Failure, classify
from eventstore.domain.foreign_errors import retry_after_of

TRANSIENT, RATE_LIMIT, QUOTA, AUTH, PERMANENT, VALIDATION, INTERNAL = ErrorKind


class Carrying(Exception):
    """An exception with the given attributes."""

    def __init__(self, **attributes: object) -> None:
        super().__init__("carrying")
        self.__dict__.update(attributes)


class Response:
    """The part of an HTTP response that clients keep on their exceptions."""

    def __init__(self, status_code: object, headers: object = None) -> None:
        self.status_code = status_code
        self.headers = headers


class Evil(BaseException):
    """An exception whose every attribute and text raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Touchy:
    """An object whose every public attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattribute__(name)
        raise RuntimeError(name)


class EvilNumber(int):
    """A number whose methods raise."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]
    __lt__ = __gt__ = __le__ = __ge__ = __eq__

    def __int__(self) -> int:
        return 10**5000


class Text(str):
    """A text that msgspec does not know."""

    __slots__ = ()


class Unreadable(Exception):
    """An exception with the given text, or whose text raises the given exception."""

    def __str__(self) -> str:
        if isinstance(self.args[0], Exception):
            raise self.args[0]
        return self.args[0]  # type: ignore[no-any-return]


def named(module: str, *names: str, base: type[Exception] = Exception) -> Exception:
    """Return an exception of a class with that name and module, derived from the next names."""
    cls = base
    for name in reversed(names):
        cls = type(name, (cls,), {"__module__": module})
    return cls("told so")


# --- the kinds


def test_the_stored_values_never_change() -> None:
    """These seven words are in logs."""
    assert list(ErrorKind) == [
        "transient",
        "rate_limit",
        "quota",
        "auth",
        "permanent",
        "validation",
        "internal",
    ]


@pytest.mark.parametrize("kind", ErrorKind)
def test_only_transient_and_rate_limit_are_retryable(kind: ErrorKind) -> None:
    """Only temporary problems may be tried again unchanged."""
    assert kind.is_retryable == (kind in {TRANSIENT, RATE_LIMIT})


@pytest.mark.parametrize(
    ("status", "retry_after", "kind"),
    [
        (429, 5.0, RATE_LIMIT),
        (429, None, QUOTA),
        (401, None, AUTH),
        (403, None, AUTH),
        (403, 5.0, AUTH),
        (408, None, TRANSIENT),
        (425, None, TRANSIENT),
        (500, None, TRANSIENT),
        (502, None, TRANSIENT),
        (503, 5.0, TRANSIENT),
        (529, None, TRANSIENT),
        (599, None, TRANSIENT),
        (400, None, PERMANENT),
        (404, None, PERMANENT),
        (409, 5.0, PERMANENT),
        (422, None, PERMANENT),
        (499, None, PERMANENT),
        (-1, None, TRANSIENT),
        (0, None, TRANSIENT),
        (101, None, TRANSIENT),
        (200, None, TRANSIENT),
        (302, None, TRANSIENT),
        (399, None, TRANSIENT),
        (600, None, TRANSIENT),
        (10**30, None, TRANSIENT),
    ],
)
def test_a_status_has_one_kind(status: int, retry_after: float | None, kind: ErrorKind) -> None:
    """The table of HTTP statuses; outside 400 to 599 there was no terminal response."""
    assert ErrorKind.from_http_status(status, retry_after) is kind


# --- classify


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (TimeoutError(), TRANSIENT),
        (TimeoutError("timed out"), TRANSIENT),
        (concurrent.futures.TimeoutError(), TRANSIENT),
        (ConnectionError(), TRANSIENT),
        (ConnectionResetError(errno.ECONNRESET, "reset"), TRANSIENT),
        (BrokenPipeError(), TRANSIENT),
        (http.client.RemoteDisconnected("gone"), TRANSIENT),
        (http.client.IncompleteRead(b""), TRANSIENT),
        (socket.gaierror(socket.EAI_NONAME, "unknown name"), TRANSIENT),
        (ssl.SSLError("handshake"), TRANSIENT),
        (ssl.SSLCertVerificationError("expired"), TRANSIENT),
        (OSError(errno.ENETUNREACH, "unreachable"), TRANSIENT),
        (OSError(errno.EHOSTUNREACH, "no route"), TRANSIENT),
        (subprocess.TimeoutExpired("make", 5), TRANSIENT),
        (urllib.error.URLError("no host"), TRANSIENT),
        (PermissionError(errno.EACCES, "denied"), AUTH),
        (OSError(errno.ENOSPC, "full"), INTERNAL),
        (FileNotFoundError("gone"), INTERNAL),
        (ValueError("odd"), INTERNAL),
        (KeyError("x"), INTERNAL),
        (RecursionError(), INTERNAL),
        (SystemExit(503), INTERNAL),
        (KeyboardInterrupt(), INTERNAL),
        (GeneratorExit(), INTERNAL),
    ],
    ids=repr,
)
def test_builtin_exceptions_are_classified(exception: BaseException, kind: ErrorKind) -> None:
    """Timeouts and network errors are transient, permission errors are auth, others internal."""
    assert classify(exception) is kind


def test_input_that_cannot_be_read_is_a_validation_failure() -> None:
    """The model has to correct broken JSON and JSON of the wrong form."""
    with pytest.raises(json.JSONDecodeError) as of_json:
        json.loads("{")
    with pytest.raises(msgspec.DecodeError) as of_msgspec:
        msgspec.json.decode("{")
    with pytest.raises(msgspec.ValidationError) as of_type:
        msgspec.json.decode("1", type=str)
    for caught in (of_json, of_msgspec, of_type):
        assert classify(caught.value) is VALIDATION


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (named("httpx", "ConnectTimeout", "TimeoutException", "TransportError"), TRANSIENT),
        (named("httpx2", "ReadError", "NetworkError", "TransportError"), TRANSIENT),
        (named("httpx", "UnsupportedProtocol", "TransportError"), INTERNAL),
        (named("httpx", "DecodingError", "RequestError"), INTERNAL),
        (named("requests.exceptions", "ConnectTimeout", "Timeout"), TRANSIENT),
        (named("requests.exceptions", "ConnectionError"), TRANSIENT),
        (named("requests.exceptions", "InvalidURL"), INTERNAL),
        (named("urllib3.exceptions", "ReadTimeoutError", "TimeoutError"), TRANSIENT),
        (named("aiohttp.client_exceptions", "ClientConnectionError"), TRANSIENT),
        (named("botocore.exceptions", "ReadTimeoutError", "HTTPClientError"), TRANSIENT),
        (named("openai", "APITimeoutError", "APIConnectionError"), TRANSIENT),
        (named("anthropic", "APIConnectionError"), TRANSIENT),
        (named("pydantic_core._pydantic_core", "ValidationError"), VALIDATION),
        (named("pydantic.v1.error_wrappers", "ValidationError"), VALIDATION),
        (named("jsonschema.exceptions", "ValidationError"), VALIDATION),
        (named("somebody.else", "ValidationError"), INTERNAL),
        (named("mine", "ToolTimeout", base=TimeoutError), TRANSIENT),
        (named("mine", "Denied", base=PermissionError), AUTH),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exceptions_of_libraries_are_classified_by_name(
    exception: Exception, kind: ErrorKind
) -> None:
    """A class is found by package and name, an unknown class by its nearest known base."""
    assert classify(exception) is kind


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (Carrying(response=Response(503)), TRANSIENT),
        (Carrying(response=Response(404)), PERMANENT),
        (Carrying(response=Response(429, {"retry-after": "7"})), RATE_LIMIT),
        (Carrying(response=Response(429, {"Retry-After": "7"})), RATE_LIMIT),
        (Carrying(response=Response(429, {})), QUOTA),
        (Carrying(response=Response(429, {"retry-after": "0"})), QUOTA),
        (Carrying(response=Response(302)), TRANSIENT),
        (Carrying(response=Response("503")), INTERNAL),
        (Carrying(response=Response(True)), INTERNAL),
        (Carrying(response=None), INTERNAL),
        (Carrying(status_code=401), AUTH),
        (Carrying(status_code=0), TRANSIENT),
        (Carrying(status_code=HTTPStatus.NOT_FOUND), PERMANENT),
        (Carrying(status=403), AUTH),
        (Carrying(status=429, headers={"Retry-After": "7"}), RATE_LIMIT),
        (Carrying(status="UNAVAILABLE", code=503), TRANSIENT),
        (Carrying(code=422), PERMANENT),
        (Carrying(code=7), INTERNAL),
        (Carrying(status=1), INTERNAL),
        (Carrying(response={"ResponseMetadata": {"HTTPStatusCode": 403}}), AUTH),
        (
            Carrying(
                response={
                    "ResponseMetadata": {
                        "HTTPStatusCode": 429,
                        "HTTPHeaders": {"retry-after": "7"},
                    }
                }
            ),
            RATE_LIMIT,
        ),
        (Carrying(response={"ResponseMetadata": []}), INTERNAL),
        (urllib.error.HTTPError("x:", 404, "gone", Message(), None), PERMANENT),
        (urllib.error.HTTPError("x:", 500, "oops", Message(), None), TRANSIENT),
    ],
)
def test_the_http_status_is_found_in_exceptions_of_clients(
    exception: Exception, kind: ErrorKind
) -> None:
    """The status is read from attributes of the exception or its response, or from keys."""
    assert classify(exception) is kind


def test_an_error_status_outranks_the_class() -> None:
    """A time-out with a response has the kind of the response."""
    exception = named("mine", "Refused", base=TimeoutError)
    exception.status_code = 404  # type: ignore[attr-defined]
    assert classify(exception) is PERMANENT


def test_an_invalid_response_is_internal() -> None:
    """A known class outranks the status of a successful response."""
    exception = named("openai", "APIResponseValidationError")
    exception.status_code = 200  # type: ignore[attr-defined]
    assert classify(exception) is INTERNAL


def test_an_exception_group_has_the_kind_that_all_members_share() -> None:
    """Members of one kind give that kind, at any depth; members that differ give internal."""
    timeouts = ExceptionGroup("two", [TimeoutError(), ConnectionError()])
    assert classify(timeouts) is TRANSIENT
    assert classify(ExceptionGroup("deep", [timeouts, Carrying(status=503)])) is TRANSIENT
    assert classify(ExceptionGroup("mixed", [timeouts, ValueError()])) is INTERNAL
    assert classify(BaseExceptionGroup("stopped", [KeyboardInterrupt()])) is INTERNAL


# --- the real ones


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_real_httpx_exceptions(library: str) -> None:
    """Status errors carry their response; transport errors are transient."""
    httpx: Any = pytest.importorskip(library)
    request = httpx.Request("GET", "https://tool.example")
    limited = httpx.Response(429, headers={"Retry-After": "12"}, request=request)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        limited.raise_for_status()
    assert classify(caught.value) is RATE_LIMIT
    assert retry_after_of(caught.value) == 12.0
    assert classify(httpx.ReadTimeout("slow", request=request)) is TRANSIENT
    assert classify(httpx.ConnectError("refused", request=request)) is TRANSIENT
    assert classify(httpx.UnsupportedProtocol("ftp")) is INTERNAL


@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_real_sdk_exceptions(library: str) -> None:
    """Both SDKs name their exceptions alike, and keep the response."""
    sdk: Any = pytest.importorskip(library)
    httpx = importlib.import_module(
        sdk.APIStatusError.__init__.__annotations__["response"].partition(".")[0]
    )
    request = httpx.Request("POST", "https://model.example")

    def refused(name: str, status: int, **headers: str) -> Exception:
        response = httpx.Response(status, headers=headers, request=request)
        error: Exception = getattr(sdk, name)("no", response=response, body={"code": "why"})
        return error

    assert classify(refused("AuthenticationError", 401)) is AUTH
    assert classify(refused("PermissionDeniedError", 403)) is AUTH
    assert classify(refused("RateLimitError", 429)) is QUOTA
    assert classify(refused("RateLimitError", 429, **{"retry-after": "3"})) is RATE_LIMIT
    assert classify(refused("UnprocessableEntityError", 422)) is PERMANENT
    assert classify(refused("InternalServerError", 529)) is TRANSIENT
    assert classify(sdk.APITimeoutError(request)) is TRANSIENT
    nonsense = sdk.APIResponseValidationError(httpx.Response(200, request=request), None)
    assert classify(nonsense) is INTERNAL


def test_the_code_of_an_openai_error_is_kept() -> None:
    """The provider's own code, its status and its hint are facts to log."""
    openai: Any = pytest.importorskip("openai")
    httpx = importlib.import_module(openai.APIError.__init__.__annotations__["request"][:6])
    response = httpx.Response(429, request=httpx.Request("POST", "https://model.example"))
    error = openai.RateLimitError("spent", response=response, body={"code": "insufficient_quota"})
    assert Failure.from_exception(error) == Failure(
        QUOTA,
        "spent",
        code="insufficient_quota",
        http_status=429,
        exception="openai.RateLimitError",
    )


def test_real_requests_exceptions() -> None:
    """Status errors carry their response; without one it is a network problem."""
    requests: Any = pytest.importorskip("requests")
    response = requests.Response()
    response.status_code = 503
    response.headers["Retry-After"] = "4"
    error = requests.HTTPError("unavailable", response=response)
    assert classify(error) is TRANSIENT
    assert retry_after_of(error) == 4.0
    assert classify(requests.ConnectionError("refused")) is TRANSIENT
    assert classify(requests.ReadTimeout("slow")) is TRANSIENT
    assert classify(requests.exceptions.InvalidURL("odd")) is INTERNAL


def test_real_pydantic_exceptions() -> None:
    """The model has to correct arguments of the wrong form."""
    pydantic: Any = pytest.importorskip("pydantic")
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic.TypeAdapter(int).validate_python("many")
    assert classify(caught.value) is VALIDATION


def test_real_jsonschema_exceptions() -> None:
    """The model has to correct arguments that break the tool's schema."""
    jsonschema: Any = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError) as caught:
        jsonschema.validate("many", {"type": "integer"})
    assert classify(caught.value) is VALIDATION


def test_real_aiohttp_exceptions() -> None:
    """Its response errors have `status` and `headers`; an unreachable server is transient."""
    aiohttp: Any = pytest.importorskip("aiohttp")
    limited = aiohttp.ClientResponseError(None, (), status=429, headers={"Retry-After": "2"})
    assert classify(limited) is RATE_LIMIT
    assert classify(aiohttp.ServerDisconnectedError()) is TRANSIENT
    assert classify(aiohttp.ServerTimeoutError()) is TRANSIENT


def test_real_botocore_exceptions() -> None:
    """Its client errors carry a dict with status, headers and code."""
    exceptions: Any = pytest.importorskip("botocore.exceptions")
    answer = {
        "Error": {"Code": "AccessDeniedException", "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": 403, "HTTPHeaders": {}},
    }
    failure = Failure.from_exception(exceptions.ClientError(answer, "Converse"))
    assert (failure.kind, failure.code, failure.http_status) == (
        AUTH,
        "AccessDeniedException",
        403,
    )
    assert classify(exceptions.EndpointConnectionError(endpoint_url="x:")) is TRANSIENT


# --- the hint


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("1", 1.0),
        ("120", 120.0),
        (" 30 ", 30.0),
        (30, 30.0),
        ("0", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
        (None, None),
        ("1" * 400, None),
        ("\u0663", None),
        ("nan", None),
        ("1e3", None),
        (True, None),
        (b"5", None),
    ],
)
def test_retry_after_is_a_positive_integer_of_seconds(
    header: object, seconds: float | None
) -> None:
    """Zero and malformed values are ignored."""
    assert retry_after_of(Carrying(headers={"retry-after": header})) == seconds
    assert retry_after_of(Carrying(response=Response(429, {"Retry-After": header}))) == seconds


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wednesday, 21-Oct-26 07:28:30 GMT", 30.0),
        ("Wed Oct 21 07:28:30 2026", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", None),
        ("Wed, 99 Oct 2026 07:28:30 GMT", None),
    ],
)
@pytest.mark.parametrize("names", [("retry-after", "date"), ("Retry-After", "Date")])
def test_a_date_in_retry_after_counts_from_the_date_of_the_response(
    names: tuple[str, str], date: str, seconds: float | None
) -> None:
    """All three date forms of HTTP are read; without a `Date` header it counts from `now`."""
    answered = "Wed, 21 Oct 2026 07:28:00 GMT"
    error = Carrying(headers=dict(zip(names, (date, answered), strict=True)), status_code=429)
    assert retry_after_of(error) == seconds
    assert Failure.from_exception(error).retry_after == seconds
    assert classify(error) is (ErrorKind.RATE_LIMIT if seconds else ErrorKind.QUOTA)
    alone = Carrying(headers={names[0]: date}, status_code=503)
    now = round(datetime(2026, 10, 21, 7, 28, tzinfo=UTC).timestamp() * 1_000_000)
    assert retry_after_of(alone, now) == seconds
    assert retry_after_of(alone) is None


def test_a_date_without_a_clock_still_makes_a_429_a_rate_limit() -> None:
    """There is a hint, even if it cannot be turned into seconds."""
    error = Carrying(headers={"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, status_code=429)
    failure = Failure.from_exception(error)
    assert (failure.kind, failure.retry_after) == (ErrorKind.RATE_LIMIT, None)


@pytest.mark.parametrize("kind", [ProviderErrorKind.RATE_LIMIT, ProviderErrorKind.SERVER_ERROR])
def test_the_default_wait_of_a_provider_error_is_no_hint(
    kind: ProviderErrorKind,
) -> None:
    """The provider said nothing: the loop has a default, the log has no hint."""
    error = ProviderError(kind, "busy")
    assert error.retry_after in (20.0, 30.0)
    failure = Failure.from_exception(error)
    assert failure.retry_after is None
    assert ErrorEnvelope.of(failure).retry_after_secs is None
    assert RetryPolicy(2, initial_backoff=0.5).delay(1, failure.retry_after) == 0.5
    hinted = Failure.from_exception(ProviderError(kind, "busy", retry_after=7))
    assert hinted.retry_after == 7.0


@pytest.mark.parametrize(
    ("error", "code", "reported"),
    [
        (TimeoutError("x"), "timeout", "deadline_exceeded"),
        (httpx.ReadTimeout("x"), "deadline_exceeded", "deadline_exceeded"),
        (requests.ConnectTimeout("x"), "deadline_exceeded", "deadline_exceeded"),
        (subprocess.TimeoutExpired("x", 1), "deadline_exceeded", "deadline_exceeded"),
        (json.JSONDecodeError("x", "{", 1), "serde", "serde"),
        (msgspec.ValidationError("x"), "serde", "serde"),
        (NonResolvedToolError("1", "Pending"), "awaiting_review", "interrupted"),
        (KeyboardInterrupt(), "interrupted", "cancelled"),
    ],
)
def test_timeouts_broken_json_and_waits_for_a_person_have_codes(
    error: BaseException, code: str, reported: str
) -> None:
    """The envelope says so to programs."""
    failure = Failure.from_exception(error)
    assert (failure.code, ErrorEnvelope.of(failure).code) == (code, reported)


@pytest.mark.parametrize("headers", [None, 5, [("retry-after", "5")], "retry-after", {}, Touchy()])
def test_malformed_headers_give_no_retry_after(headers: object) -> None:
    """The headers are missing or are not a mapping."""
    assert retry_after_of(Carrying(headers=headers)) is None
    assert retry_after_of(ValueError()) is None


# --- Failure


def test_a_failure_keeps_the_facts_of_the_exception() -> None:
    """The failure has the kind, text, status, hint and class; unknown members are left out."""
    exception = Carrying(status_code=503, headers={"retry-after": "9"})
    assert Failure.from_exception(exception) == Failure(
        TRANSIENT,
        "carrying",
        http_status=503,
        retry_after=9.0,
        exception=f"{Carrying.__module__}.Carrying",
    )
    assert Failure.from_exception(ValueError("odd")) == Failure(
        INTERNAL, "odd", exception="ValueError"
    )


def test_the_message_of_an_exception_without_text_is_its_class() -> None:
    """The model always has a text to read."""
    assert Failure.from_exception(TimeoutError()).message == "TimeoutError"


def test_the_traceback_is_kept_on_request() -> None:
    """The traceback names the line, and is left out by default."""
    with pytest.raises(ZeroDivisionError) as caught:
        Failure(PERMANENT, str(1 / 0))
    assert Failure.from_exception(caught.value).traceback is None
    kept = Failure.from_exception(caught.value, with_traceback=True).traceback
    assert kept is not None
    assert "str(1 / 0)" in kept
    assert kept.endswith("ZeroDivisionError: division by zero\n")


def test_a_custom_classifier_decides_the_kind() -> None:
    """A tool may know its own exceptions better."""
    failure = Failure.from_exception(KeyError("x"), classifier=lambda _: ErrorKind.VALIDATION)
    assert failure.kind is VALIDATION


@pytest.mark.parametrize("answer", [None, "sorry", ZeroDivisionError()])
def test_a_classifier_that_fails_makes_the_failure_internal(answer: object) -> None:
    """The failure is recorded all the same."""

    def classifier(_: BaseException) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert Failure.from_exception(TimeoutError(), classifier=classifier).kind is INTERNAL


def test_the_model_reads_model_message_if_it_is_set() -> None:
    """Operators and the model read two texts."""
    assert Failure(PERMANENT, "row 7 is locked").model_text == "row 7 is locked"
    assert Failure(PERMANENT, "row 7 is locked", "try later").model_text == "try later"
    assert Failure(PERMANENT, "row 7 is locked", "").model_text == ""


def test_text_that_cannot_be_stored_is_kept_as_escapes() -> None:
    """Lone surrogates and NUL are escaped, all other text is unchanged."""
    failure = Failure(INTERNAL, "a\ud800b\0c", "\udfff", "\0", exception="\ud800", traceback="\0")
    assert failure == Failure(
        INTERNAL, "a\\ud800b\\x00c", "\\udfff", "\\x00", exception="\\ud800", traceback="\\x00"
    )
    assert Failure(INTERNAL, "caf\u00e9 \U0001f980\n").message == "caf\u00e9 \U0001f980\n"
    assert type(Failure(INTERNAL, Text("sub")).message) is str


def test_a_long_message_is_kept_whole() -> None:
    """Nothing is cut from the log."""
    message = "x" * 3_000_000
    assert Failure.from_exception(ValueError(message)).message == message


@pytest.mark.parametrize("text", [RuntimeError("no"), None, 5, Text("sub"), "\ud800", "", "\0"])
def test_an_exception_with_any_text_can_be_stored(text: object) -> None:
    """A text that raises, is not text or cannot be encoded still gives a message."""
    failure = Failure.from_exception(Unreadable(text), with_traceback=True)
    assert failure.message
    assert type(failure.message) is str
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure


@pytest.mark.parametrize("bases", [(Evil,), (Evil, Exception), (Evil, OSError)])
def test_an_exception_whose_attributes_all_raise_is_internal(bases: tuple[type, ...]) -> None:
    """The exception is recorded as an internal failure, without an error."""
    exception = type("Worse", bases, {"__module__": "mine"})()
    assert Failure.from_exception(exception, with_traceback=True).exception == "mine.Worse"
    assert Failure.from_exception(exception) == Failure(
        INTERNAL, "mine.Worse", exception="mine.Worse"
    )
    assert classify(exception) is INTERNAL
    assert retry_after_of(exception) is None


@pytest.mark.parametrize("number", [EvilNumber(503), EvilNumber(10**6)])
def test_a_status_number_whose_methods_all_raise_is_read(number: int) -> None:
    """The number itself counts, not the methods of its class."""
    failure = Failure.from_exception(Carrying(status_code=number))
    expected = (TRANSIENT, 503) if int.__index__(number) == 503 else (INTERNAL, None)
    assert (failure.kind, failure.http_status) == expected
    msgspec.json.encode(failure)


any_text = st.text(st.characters(exclude_categories=[]))  # lone surrogates, too

hostile_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary()
    | any_text
    | st.sampled_from([Touchy(), Touchy, EvilNumber(429), Text("5"), Response(429, Touchy())]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(Response, inner, inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "ResponseMetadata",
                    "HTTPStatusCode",
                    "HTTPHeaders",
                    "Error",
                    "Code",
                    "retry-after",
                ]
            ),
            inner,
        )
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["response", "status_code", "status", "code", "headers", "errno"]),
        hostile_values,
    ),
    any_text,
    st.sampled_from([Exception, BaseException, OSError, TimeoutError, KeyError]),
    st.one_of(st.none(), st.text(), st.integers()),
)
def test_any_exception_becomes_a_failure_that_can_be_stored(
    attributes: dict[str, Any], message: str, base: type[BaseException], module: object
) -> None:
    """Whatever an exception carries, it is classified, encoded, and read back equal."""
    exception = type("Hostile", (base,), {"__module__": module, **attributes})(message)
    failure = Failure.from_exception(exception, with_traceback=True)
    assert failure.kind is classify(exception)
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure


# --- what an exception says of itself


def test_an_exception_may_carry_its_own_kind() -> None:
    """`kind` outranks the status and the class; a value that is not a kind is ignored."""
    assert classify(Carrying(error_kind=QUOTA, status_code=503)) is QUOTA
    assert classify(Carrying(error_kind="quota", status_code=503)) is TRANSIENT


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (3, 3.0),
        (0.5, 0.5),
        (0, None),
        (-1, None),
        (True, None),
        ("3", None),
        (float("inf"), None),
        (float("nan"), None),
        (10**400, None),
    ],
    ids=repr,
)
def test_an_exception_may_carry_retry_after(given: object, seconds: float | None) -> None:
    """`retry_after` is a number of seconds above zero; a bare 429 is then a rate limit."""
    exception = Carrying(status_code=429, retry_after=given)
    assert retry_after_of(exception) == seconds
    assert classify(exception) is (RATE_LIMIT if seconds else QUOTA)


def test_an_exception_may_carry_a_model_message() -> None:
    """The exception's own text is for the operators."""
    failure = Failure.from_exception(Carrying(model_message="try another city\0"))
    assert (failure.message, failure.model_text) == ("carrying", "try another city\\x00")
    assert Failure.from_exception(Carrying(model_message=7)).model_message is None
