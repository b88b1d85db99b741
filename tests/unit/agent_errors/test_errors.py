"""The agent's errors: their texts and codes, and their JSON form."""

from __future__ import annotations

import copy
import math
import pickle
import socket
import ssl
from typing import ClassVar

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    AgentError,
    AuthErrorKind,
    Cancelled,
    ConfigError,
    ContextOverflow,
    ErrorEnvelope,
    ErrorKind,
    Failure,
    InternalError,
    ProviderError,
    ProviderErrorKind,
    ToolError,
    classify,
)

texts = st.text(max_size=20)
storable = texts.filter(lambda text: "\0" not in text)
provider_errors = st.builds(
    lambda kind, message, status, wait, auth, suggestion: ProviderError(
        kind,
        message,
        status=status,
        retry_after=wait,
        auth=auth if kind is ProviderErrorKind.AUTHENTICATION else None,
        suggestion=suggestion,
    ),
    st.sampled_from(ProviderErrorKind),
    storable,
    st.none() | st.integers(400, 599),
    st.none() | st.integers(0, 10**6),
    st.none() | st.sampled_from(AuthErrorKind),
    st.none() | storable,
)
agent_errors = provider_errors | st.one_of(
    st.builds(ToolError, storable, st.none() | storable, storable),
    st.builds(ContextOverflow, st.integers(0, 10**9), st.integers(0, 10**9)),
    st.builds(ConfigError, storable),
    st.builds(Cancelled, suggestion=st.none() | storable),
    st.builds(InternalError, storable),
)


def facts(error: BaseException | None) -> object:
    """Return all facts of an error and of its causes."""
    if error is None:
        return None
    return type(error), str(error), error.__dict__, facts(error.__cause__)


@given(agent_errors, st.none() | agent_errors)
def test_an_error_and_its_causes_go_through_json(
    error: AgentError, cause: AgentError | None
) -> None:
    """The decoded error has the same facts and encodes to the same JSON."""
    error.__cause__ = cause
    again = AgentError.decode(error.encode())
    assert facts(again) == facts(error)
    assert again.encode() == error.encode()


@given(agent_errors)
def test_an_error_can_be_copied_and_sent(error: AgentError) -> None:
    """An error can be pickled, as worker processes do."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own
        assert facts(again) == facts(error)
        assert again.args == error.args


def test_a_foreign_cause_is_kept_as_an_internal_error() -> None:
    """Its class is named; its own cause is kept."""
    reset = ConnectionResetError("reset")
    reset.__cause__ = OSError("cable")
    error = ProviderError(ProviderErrorKind.TRANSPORT, "no answer", cause=reset)
    assert error.__cause__ is reset
    again = AgentError.decode(error.encode()).__cause__
    assert isinstance(again, InternalError)
    assert (again.exception, str(again)) == ("ConnectionResetError", "reset")
    assert str(again.__cause__) == "cable"


def test_circular_causes_are_cut_off() -> None:
    """Python lets an error be its own cause."""
    error = ConfigError("round")
    error.__cause__ = error
    depth, cause = 0, AgentError.decode(error.encode()).__cause__
    while cause is not None:
        depth, cause = depth + 1, cause.__cause__
    assert depth == 16


def test_characters_that_cannot_be_stored_are_escaped() -> None:
    """No database accepts lone surrogates and NUL in JSON text."""
    again = AgentError.decode(ToolError("a\0", "\ud800", "b\0").encode())
    assert isinstance(again, ToolError)
    assert (again.name, again.call_id, again.message) == ("a\\x00", "\\ud800", "b\\x00")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{}", "missing required field `type`"),
        ('{"type": "odd"}', "Invalid value 'odd' - at `\\$.type`"),
        ('{"type": "tool", "name": 1}', r"at `\$.name`"),
        ('{"type": "provider", "kind": {}}', "kind names 0 causes, it takes one"),
        ('{"type": "provider", "kind": {"Odd": {"message": ""}}}', "'Odd'"),
        (
            '{"type": "provider", "kind": {"RateLimit": {"message": "", "retry_after": -1}}}',
            "retry_after is -0.001",
        ),
    ],
)
def test_invalid_json_is_refused_and_the_error_names_the_place(data: str, message: str) -> None:
    """There is one clear error for wrong input, with the path to it."""
    with pytest.raises(msgspec.ValidationError, match=message):
        AgentError.decode(data)


def test_wrong_arguments_are_refused() -> None:
    """The error names the value."""
    with pytest.raises(ValueError, match="auth is only for AUTHENTICATION"):
        ProviderError(ProviderErrorKind.UNKNOWN, "x", auth=AuthErrorKind.INVALID)
    with pytest.raises(ValueError, match="'Odd' is not a valid ProviderErrorKind"):
        ProviderError("Odd", "x")  # type: ignore[arg-type]
    for wait in (-1, math.inf, math.nan, "60"):
        with pytest.raises(ValueError, match="pass seconds, 0 or more"):
            ProviderError(ProviderErrorKind.RATE_LIMIT, "x", retry_after=wait)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (None, "transport_failure"),
        (ConnectionResetError(), "transport_failure"),
        (ssl.SSLCertVerificationError("expired"), "tls_failure"),
        (socket.gaierror("unknown"), "dns_failure"),
    ],
)
def test_a_transport_error_has_the_code_of_its_tls_or_dns_cause(
    cause: BaseException | None, code: str
) -> None:
    """Without such a cause it has the code of a transport error."""
    assert ProviderError(ProviderErrorKind.TRANSPORT, "x", cause=cause).code == code


def test_a_suggestion_is_not_part_of_any_text() -> None:
    """A suggestion is only for the user, not for the log or the model."""
    error = ConfigError("no key", suggestion="set OPENAI_API_KEY")
    assert error.suggestion == "set OPENAI_API_KEY"
    failure = Failure.from_exception(error)
    assert "OPENAI" not in f"{error}{failure.message}{failure.model_text}"


def test_an_internal_error_takes_over_the_wrapped_exception() -> None:
    """The error has the exception's text and class, and the exception as its cause."""
    cause = KeyError("x")
    error = InternalError(cause)
    assert (str(error), error.exception, error.__cause__) == ("'x'", "KeyError", cause)
    assert InternalError(cause, cause=ValueError("y")).__cause__ is not cause
    assert InternalError("odd").__cause__ is None


def test_a_tool_error_has_the_kind_of_its_cause() -> None:
    """This holds for a cause that was chained by `raise ... from`, too."""
    with pytest.raises(ToolError) as raised:
        raise ToolError("bash", "1", "refused") from PermissionError("no")
    caught = raised.value
    assert classify(caught) is ErrorKind.AUTH
    assert classify(ToolError("bash", "1", "odd")) is ErrorKind.INTERNAL
    caught.__cause__ = caught
    assert classify(caught) is ErrorKind.INTERNAL


def test_a_failure_keeps_the_facts_of_the_agent_error() -> None:
    """The failure has the kind, code, hint, status and both texts of the error."""
    error = ProviderError(ProviderErrorKind.RATE_LIMIT, "key sk-1", status=429, retry_after=2.5)
    assert Failure.from_exception(error) == Failure(
        ErrorKind.RATE_LIMIT,
        "provider error: rate limited: key sk-1",
        "upstream model error",
        "rate_limited",
        429,
        2.5,
        "eventstore.agent_errors.errors.ProviderError",
    )


@given(st.integers(-10, 1100), st.none() | st.integers(1, 100))
def test_a_status_is_retryable_for_the_provider_where_it_is_for_a_tool(
    status: int, retry_after: int | None
) -> None:
    """One table decides: the two readings of a status never disagree."""
    kind = ErrorKind.from_http_status(status, retry_after)
    error = ProviderError.from_http_status(status, "x", retry_after=retry_after)
    assert error.retryable == kind.is_retryable
    assert error.status == status


class DatedHint(Exception):
    """A 429 whose Retry-After is a date, in an answer without a Date."""

    status_code = 429
    headers: ClassVar = {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}


def test_a_hint_whose_time_is_not_known_decides_the_kind_like_any_other() -> None:
    """The kind of the failure, the retry class and the agent's error agree."""
    error = AgentError.from_exception(DatedHint("slow down"))
    assert isinstance(error, ProviderError)
    assert (error.kind, error.retryable) == (ProviderErrorKind.RATE_LIMIT, True)
    assert error.retry_after_hint is None
    assert classify(DatedHint()) is ErrorKind.RATE_LIMIT


@pytest.mark.parametrize(
    ("cause", "code"),
    [(ssl.SSLError("bad"), "tls_failure"), (socket.gaierror("no name"), "dns_failure")],
)
def test_a_failure_of_tls_or_dns_has_one_code(cause: Exception, code: str) -> None:
    """The agent's error, the tool's failure and the envelope agree, also on a cause of a cause."""
    wrapped = ConnectionError("no connection")
    wrapped.__cause__ = ConnectionError("below")
    wrapped.__cause__.__cause__ = cause
    for error in (cause, wrapped):
        failure = Failure.from_exception(error)
        assert AgentError.from_exception(error).code == failure.code == code
        assert ErrorEnvelope.of(failure).code == code
    hidden = RuntimeError("a defect")
    hidden.__cause__ = cause
    assert Failure.from_exception(hidden).code is None


@pytest.mark.parametrize("hint", [1.001, 0.0007, 2.9999, 34.5])
def test_a_hint_is_stored_in_whole_milliseconds(hint: float) -> None:
    """The nearest millisecond counts."""
    error = ProviderError(ProviderErrorKind.RATE_LIMIT, "slow", retry_after=hint)
    again = AgentError.decode(error.encode())
    assert isinstance(again, ProviderError)
    assert again.retry_after_hint == round(hint, 3)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"error":{"message":"bad field"}}', "bad field"),
        ('{"message":"bad field"}', "bad field"),
        ("plain words", "plain words"),
        ("", "Client error '400 Bad Request'"),
        ('{"error":7}', "Client error '400 Bad Request'"),
    ],
)
def test_the_sentence_in_the_body_of_an_http_answer_is_the_text(body: str, text: str) -> None:
    """A library of HTTP alone says no more than the status."""
    request = httpx.Request("POST", "https://model.example")
    answer = httpx.Response(400, content=body.encode(), request=request)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        answer.raise_for_status()
    assert AgentError.from_exception(caught.value).message.startswith(text)
