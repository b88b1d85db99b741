"""entelix-core, katu-core, rig-compose: limits, errors of SDKs, logs as entries.

Each test quotes the sentence of the system that it holds.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from eventstore import (
    AgentError,
    Conversation,
    ErrorEnvelope,
    ErrorKind,
    Failure,
    InternalError,
    ModelResponded,
    ProviderError,
    ProviderErrorKind,
    RetryClass,
    Usage,
    UsageBudget,
    UsageLimitBreach,
    UsageLimitExceeded,
    UsageLimits,
    classify,
)
from projections import HistoryEntry, history_entries, repair_history

AXES = [
    ("requests", UsageLimits(requests=0), Usage()),
    ("input_tokens", UsageLimits(input_tokens=4), Usage(input_tokens=5)),
    ("output_tokens", UsageLimits(output_tokens=4), Usage(output_tokens=5)),
    ("total_tokens", UsageLimits(total_tokens=4), Usage(3, 2)),
    ("cost", UsageLimits(cost=Decimal(4)), Usage(cost=Decimal(5))),
]


@pytest.mark.parametrize(("axis", "limits", "usage"), AXES, ids=[axis for axis, _, _ in AXES])
def test_usage_limit_breach_axes(
    chat: Conversation, axis: str, limits: UsageLimits, usage: Usage
) -> None:
    """In entelix: "axes: requests, input/output/total tokens, cost (limit + observed)"."""
    with pytest.raises(UsageLimitExceeded) as raised:
        UsageBudget(chat, limits).after_response(ModelResponded(usage=usage))
    breach = raised.value.breach
    assert breach.axis == axis
    assert breach.observed == breach.limit + 1


def test_usage_limit_breach_of_tool_calls(chat: Conversation) -> None:
    """In entelix: "axes: …, tool calls, …"; they count before any of them runs."""
    chat.request("search")
    with pytest.raises(UsageLimitExceeded) as raised:
        UsageBudget(chat, UsageLimits(tool_calls=0)).before_request()
    assert raised.value.breach == UsageLimitBreach("tool_calls", Decimal(0), Decimal(1))


def test_usage_limit_exceeded_is_a_quota() -> None:
    """In entelix: "UsageLimit(requests 10/11)→quota", "client, request quota reached"."""
    error = UsageLimitExceeded(UsageLimitBreach("requests", Decimal(10), Decimal(11)))
    failure = Failure.from_exception(error)
    assert classify(error) is ErrorKind.QUOTA
    envelope = ErrorEnvelope.of(failure)
    assert (envelope.code, envelope.error_class) == ("quota_exceeded", "client")
    assert failure.model_text == "request quota reached"


class HttpError(Exception):
    """The exception of an HTTP client for a status."""

    def __init__(self, status_code: int, retry_after: str | None = None) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code
        self.headers = {} if retry_after is None else {"Retry-After": retry_after}


@pytest.mark.parametrize(
    ("status", "kind", "auth"),
    [
        (401, ProviderErrorKind.AUTHENTICATION, "invalid"),
        (403, ProviderErrorKind.AUTHENTICATION, "insufficient_permissions"),
        (400, ProviderErrorKind.INVALID_REQUEST, None),
        (422, ProviderErrorKind.INVALID_REQUEST, None),
        (500, ProviderErrorKind.SERVER_ERROR, None),
        (599, ProviderErrorKind.SERVER_ERROR, None),
        (404, ProviderErrorKind.UNKNOWN, None),
    ],
)
def test_http_mapping_of_exceptions(status: int, kind: ProviderErrorKind, auth: str | None) -> None:
    """In katu: "400, 422→InvalidRequest; 500 to 599→ServerError; anything else→Unknown".

    "401→Authentication(invalid); 403→Authentication(insufficient_permissions)".
    """
    error = AgentError.from_exception(HttpError(status))
    assert isinstance(error, ProviderError)
    assert (error.kind, error.auth, error.status) == (kind, auth, status)


def test_a_429_is_a_rate_limit_where_its_header_says_so() -> None:
    """In katu: "429→RateLimit(header seconds)". Here it is a quota without a header."""
    limited = AgentError.from_exception(HttpError(429, "60"))
    assert (limited.retryable, limited.retry_after) == (True, 60)
    bare = AgentError.from_exception(HttpError(429))
    assert isinstance(bare, ProviderError)
    assert bare.kind is ProviderErrorKind.QUOTA_EXCEEDED


def test_a_send_failure_is_transport_and_an_undecodable_body_an_invalid_response() -> None:
    """In katu: "send failure→Transport; undecodable body→InvalidResponse"."""
    sent = AgentError.from_exception(ConnectionResetError("connection reset"))
    assert isinstance(sent, ProviderError)
    assert str(sent) == "provider error: transport error: connection reset"
    with pytest.raises(ValueError, match="Expecting") as raised:
        __import__("json").loads("<html>")
    read = AgentError.from_exception(raised.value)
    assert isinstance(read, ProviderError)
    assert read.kind is ProviderErrorKind.INVALID_RESPONSE


def test_internal_has_the_inner_text() -> None:
    """In katu: "Internal(any): the inner text, not retryable, none"."""
    error = AgentError.from_exception(KeyError("x"))
    assert isinstance(error, InternalError)
    assert (str(error), error.retryable, error.retry_after) == ("'x'", False, None)


def test_a_suggestion_is_never_shown_in_the_text() -> None:
    """In katu: "suggestion never shown"."""
    error = AgentError.from_exception(HttpError(401), suggestion="run /login")
    assert error.suggestion == "run /login"
    assert "/login" not in str(error)


def test_a_log_keeps_the_first_completion_after_retries(chat: Conversation) -> None:
    """In rig-compose: "F(timeout), C(hits 1), C(hits 99) → [C(hits 1)]"."""
    first = chat.request("search", {"q": "rig"})
    chat.start(first.id)
    chat.fail(first.id, TimeoutError("timeout"))
    for call, attempt, hits in ((first, 2, 1), (chat.request("search", {"q": "rig"}), 1, 99)):
        chat.start(call.id, attempt=attempt)
        chat.complete(call.id, {"hits": hits})
    entries = history_entries(chat.events())
    assert [entry.retry_class for entry in entries] == [RetryClass.TRANSIENT, None, None]
    assert repair_history(entries) == [HistoryEntry.completed(first.call, {"hits": 1})]


def test_a_log_keeps_the_order_of_first_occurrence(chat: Conversation) -> None:
    """In rig-compose: "C(a), C(b), C(a, ignored) → [a, b]"."""
    for argument in "aba":
        call = chat.request("search", {"q": argument})
        chat.start(call.id)
        chat.complete(call.id, argument)
    assert [entry.output for entry in repair_history(history_entries(chat.events()))] == ["a", "b"]
