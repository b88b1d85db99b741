"""`ErrorEnvelope`: a failure as programs read it."""

from __future__ import annotations

import math

import msgspec
import pytest

from eventstore import ErrorClass, ErrorEnvelope, ErrorKind, Failure
from eventstore.domain.error_codes import CODES


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
def test_the_code_follows_the_status_then_the_code_then_the_kind(
    failure: Failure, code: str
) -> None:
    """An unknown code of the other side is replaced by the code of the kind."""
    assert ErrorEnvelope.of(failure).code == code
    assert code in CODES


def test_unknown_members_are_left_out_of_the_envelope() -> None:
    """The class is written as programs expect it."""
    bare = ErrorEnvelope.of(Failure(ErrorKind.AUTH, "x"))
    assert msgspec.json.encode(bare) == b'{"code":"auth_failed","class":"client"}'
    assert bare.error_class is ErrorClass.CLIENT


@pytest.mark.parametrize("seconds", [math.inf, math.nan])
def test_an_infinite_retry_after_is_left_out(seconds: float) -> None:
    """A failure may hold any number, but JSON has no infinity."""
    failure = Failure(ErrorKind.RATE_LIMIT, "x", retry_after=seconds)
    assert ErrorEnvelope.of(failure).retry_after_secs is None
