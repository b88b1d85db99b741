"""`ErrorEnvelope`: what programs are told of a failure."""

from __future__ import annotations

import math

import msgspec
import pytest

from eventstore import ErrorClass, ErrorEnvelope, ErrorKind, Failure
from eventstore.envelope import CODES


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure(ErrorKind.QUOTA, "x", code="insufficient_quota", http_status=429), "rate_limited"),
        (Failure(ErrorKind.INTERNAL, "x", code="timeout"), "deadline_exceeded"),
        (Failure(ErrorKind.INTERNAL, "x", code="cancelled"), "cancelled"),
        (Failure(ErrorKind.INTERNAL, "x", code="E42"), "internal_error"),
        (Failure(ErrorKind.TRANSIENT, "x"), "transport_failure"),
        (Failure(ErrorKind.RATE_LIMIT, "x"), "rate_limited"),
        (Failure(ErrorKind.QUOTA, "x"), "quota_exceeded"),
        (Failure(ErrorKind.AUTH, "x"), "auth_failed"),
        (Failure(ErrorKind.PERMANENT, "x"), "permanent_failure"),
        (Failure(ErrorKind.VALIDATION, "x", code="invalid_arguments"), "invalid_request"),
        (Failure(ErrorKind.INTERNAL, "x"), "internal_error"),
    ],
    ids=repr,
)
def test_the_status_speaks_first_then_the_code_then_the_kind(failure: Failure, code: str) -> None:
    """A code that is the other side's own word gives way to the kind."""
    assert ErrorEnvelope.of(failure).code == code
    assert code in CODES


def test_what_is_not_known_is_left_out() -> None:
    """The class is written as programs expect it."""
    bare = ErrorEnvelope.of(Failure(ErrorKind.AUTH, "x"))
    assert msgspec.json.encode(bare) == b'{"code":"auth_failed","class":"client"}'
    assert bare.error_class is ErrorClass.CLIENT


@pytest.mark.parametrize("seconds", [math.inf, math.nan])
def test_a_wait_without_an_end_is_none(seconds: float) -> None:
    """Whatever somebody wrote into a failure."""
    failure = Failure(ErrorKind.RATE_LIMIT, "x", retry_after=seconds)
    assert ErrorEnvelope.of(failure).retry_after_secs is None
