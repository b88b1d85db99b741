"""Retry classes, and the waits of a `RetryPolicy`."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    AgentError,
    Cancelled,
    ConfigError,
    ContextOverflow,
    DefaultRetryClassifier,
    ErrorKind,
    Failure,
    FunctionCall,
    InternalError,
    NonResolvedToolError,
    ProviderError,
    ProviderErrorKind,
    RetryClass,
    RetryPolicy,
    Tool,
    ToolError,
    ToolErrorTerminal,
    UnhashableArguments,
    UnparsedArguments,
)

policies = st.builds(
    lambda attempts, first, factor: RetryPolicy(attempts, first, first * factor),
    st.integers(1, 10**6),
    st.floats(1e-6, 1e6),
    st.floats(1, 1e6),
)


@given(policies, st.integers(1, 10**7), st.floats(0, 1))
def test_a_backoff_is_never_zero_and_never_above_the_cap(
    policy: RetryPolicy, attempt: int, chance: float
) -> None:
    """Every wait lies between a tenth and the whole of the doubled backoff."""
    delay = policy.delay(attempt, None, chance)
    if attempt >= policy.max_attempts:
        assert delay is None
        return
    assert delay is not None
    whole = policy.delay(attempt, None, 1.0)
    assert whole is not None
    assert 0 < whole * 0.0999 <= delay <= whole <= policy.max_backoff


@given(policies, st.integers(1, 100), st.floats(0, 1), st.floats(1e-9, 1e9))
def test_a_hint_wins_over_the_random_backoff_and_is_capped(
    policy: RetryPolicy, attempt: int, chance: float, hint: float
) -> None:
    """The provider's word is taken as it is, up to the longest wait."""
    delay = policy.delay(attempt, hint, chance)
    assert delay == (min(hint, policy.max_backoff) if attempt < policy.max_attempts else None)


def test_the_backoff_doubles_up_to_the_cap() -> None:
    """With `chance=1` the waits are exact."""
    policy = RetryPolicy(max_attempts=7, initial_backoff=1, max_backoff=10)
    assert [policy.delay(attempt) for attempt in range(1, 8)] == [1, 2, 4, 8, 10, 10, None]


def test_a_first_backoff_above_the_cap_is_cut_to_it() -> None:
    """The cap holds for the first wait, too."""
    policy = RetryPolicy(max_attempts=3, initial_backoff=60)
    assert [policy.delay(attempt) for attempt in (1, 2, 3)] == [30, 30, None]


def test_a_hint_of_zero_is_no_hint() -> None:
    """A wait of zero never happens by accident."""
    policy = RetryPolicy(2, 1.0)
    for hint in (0, 0.0, -1, math.nan):
        assert policy.delay(1, hint) == 1.0


def test_a_backoff_of_zero_waits_only_for_a_hint() -> None:
    """Zero is an allowed choice."""
    policy = RetryPolicy(2, 0)
    assert policy.delay(1, None, 0.5) == 0
    assert policy.delay(1, 3.0, 0.5) == 3.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_attempts": 0}, "max_attempts is 0: pass 1 or more"),
        ({"max_attempts": 1.5}, "max_attempts is 1.5"),
        ({"initial_backoff": -1}, "initial_backoff is -1: pass seconds"),
        ({"max_backoff": math.inf}, "max_backoff is inf: pass seconds"),
        ({"initial_backoff": math.nan}, "initial_backoff is nan: pass seconds"),
        ({"max_attempts": True}, "max_attempts is True: pass 1 or more"),
        ({"initial_backoff": "1"}, "initial_backoff is '1': pass seconds"),
    ],
)
def test_an_invalid_retry_policy_is_refused(arguments: dict[str, float], message: str) -> None:
    """The error names the value and says what to pass."""
    with pytest.raises(ValueError, match=message):
        RetryPolicy(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attempt", "chance", "message"),
    [(0, 0.5, "attempt is 0: attempts are counted from 1"), (1, 1.5, "chance is 1.5: pass")],
)
def test_invalid_arguments_of_delay_are_refused(attempt: int, chance: float, message: str) -> None:
    """Attempts begin at 1, and `chance` lies between 0 and 1."""
    with pytest.raises(ValueError, match=message):
        RetryPolicy().delay(attempt, None, chance)


def test_a_policy_is_a_value_and_goes_through_json() -> None:
    """Equal policies compare equal, and can be kept in a settings file."""
    policy = RetryPolicy(5, 0.1, 2.0)
    assert msgspec.json.decode(msgspec.json.encode(policy), type=RetryPolicy) == policy
    assert len({policy, RetryPolicy(5, 0.1, 2.0)}) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("flake"), RetryClass.TRANSIENT),
        (TimeoutError(), RetryClass.TRANSIENT),
        (PermissionError("no"), RetryClass.PERMANENT),
        (ToolError("bash", "1", "flake"), RetryClass.TRANSIENT),
        (ToolError("bash", "1", "no", cause=PermissionError()), RetryClass.PERMANENT),
        (InternalError("odd"), RetryClass.TRANSIENT),
        (ContextOverflow(2, 1), RetryClass.PERMANENT),
        (ConfigError("no key"), RetryClass.PERMANENT),
        (Cancelled(), RetryClass.PERMANENT),
        (ProviderError(ProviderErrorKind.INVALID_RESPONSE, "odd"), RetryClass.PERMANENT),
        (ProviderError(ProviderErrorKind.UNKNOWN, "odd"), RetryClass.PERMANENT),
        (ProviderError(ProviderErrorKind.UNKNOWN, "odd", status=404), RetryClass.PERMANENT),
        (ProviderError(ProviderErrorKind.SERVER_ERROR, "odd"), RetryClass.TRANSIENT),
        (ProviderError(ProviderErrorKind.TRANSPORT, "odd"), RetryClass.TRANSIENT),
        (UnparsedArguments("1", "{not"), RetryClass.PERMANENT),
        (UnhashableArguments("$.a", "NaN"), RetryClass.PERMANENT),
        (NonResolvedToolError("1", "Pending"), RetryClass.PERMANENT),
        (AgentError("else"), RetryClass.TRANSIENT),
        (Failure(ErrorKind.VALIDATION, "no such city"), RetryClass.PERMANENT),
        (Failure(ErrorKind.RATE_LIMIT, "slow down"), RetryClass.TRANSIENT),
        (
            ToolErrorTerminal(
                Failure(ErrorKind.TRANSIENT, "x"), Tool("1", FunctionCall("f", {}, "1"))
            ),
            RetryClass.PERMANENT,
        ),
    ],
    ids=repr,
)
def test_raised_errors_may_run_again_and_refusals_may_not(
    error: BaseException, expected: RetryClass
) -> None:
    """The failure that is recorded for an error has the class that the error had."""
    assert DefaultRetryClassifier().classify(error) is expected
    if isinstance(error, BaseException):
        assert DefaultRetryClassifier().classify(Failure.from_exception(error)) is expected
