"""Sets of error kinds, and the policy that says which of them end a run."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    ErrorKind,
    ErrorKindSet,
    Failure,
    FunctionCall,
    Tool,
    ToolErrorPolicy,
    ToolErrorTerminal,
    classify,
)

kinds = st.lists(st.sampled_from(list(ErrorKind)))


@given(kinds, kinds)
def test_an_error_kind_set_behaves_like_a_set(
    some: list[ErrorKind], others: list[ErrorKind]
) -> None:
    """Membership, union, size and order are those of a set; equal sets compare equal."""
    one, other = ErrorKindSet.of(*some), ErrorKindSet.of(*others)
    assert set(one) == set(some)
    assert len(one) == len(set(some))
    assert set(one | other) == set(some) | set(others)
    assert (one == other) == (set(some) == set(others))
    assert (hash(one) == hash(other)) == (one == other)
    for kind in ErrorKind:
        assert (kind in one) == one.contains(kind) == (kind in some)
        assert one.with_(kind) == ErrorKindSet.of(*some, kind)
    assert ErrorKindSet(some) == ErrorKindSet(frozenset(some)) == one  # type: ignore[arg-type]
    assert msgspec.json.decode(msgspec.json.encode(one), type=ErrorKindSet) == one
    assert eval(repr(one)) == one  # noqa: S307 - what it says is how it is built


@pytest.mark.parametrize("bits", [-1, 128, 1.0])
def test_bits_that_stand_for_no_kind_are_refused(bits: int) -> None:
    """A set can only be built from kinds."""
    with pytest.raises(ValueError, match=r"build a set with ErrorKindSet\.of"):
        ErrorKindSet(bits)


def test_a_kind_may_be_given_by_its_stored_word() -> None:
    """Any other word is refused."""
    assert ErrorKindSet.singleton("auth") == ErrorKindSet.of(ErrorKind.AUTH)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'odd' is not a valid ErrorKind"):
        ErrorKindSet.empty().contains("odd")  # type: ignore[arg-type]


@pytest.mark.parametrize("kinds", [[ErrorKind.AUTH, ErrorKind.AUTH], {"auth"}, ErrorKind.AUTH])
def test_a_policy_takes_any_collection_of_kinds(kinds: Any) -> None:
    """A list or one kind is kept as a set."""
    policy = ToolErrorPolicy(kinds)
    assert policy == ToolErrorPolicy.new().add_terminal_kind(ErrorKind.AUTH)
    assert policy.terminate_on == ErrorKindSet.singleton(ErrorKind.AUTH)


def test_adding_a_kind_makes_a_new_policy() -> None:
    """The first policy, which others may share, does not change."""
    first = ToolErrorPolicy.operator_safe()
    second = first.add_terminal_kind(ErrorKind.INTERNAL)
    assert not first.classifies_terminal(ErrorKind.INTERNAL)
    assert second.classifies_terminal(ErrorKind.INTERNAL)


def test_the_error_names_the_call_and_carries_the_failure() -> None:
    """The error has the failure's kind, and can be pickled."""
    failure = Failure(ErrorKind.QUOTA, "no credit left")
    tool = Tool("call_1", FunctionCall("search", {}, "call_1"))
    error = ToolErrorTerminal(failure, tool)
    assert str(error) == "call 'call_1' of tool 'search' failed for good (quota): no credit left"
    assert classify(error) is ErrorKind.QUOTA
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (again.failure, again.tool, str(again)) == (failure, tool, str(error))
