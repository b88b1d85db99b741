"""What if: other policies over recorded failures, calls and prompts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from eventstore import (
    Conversation,
    ErrorKind,
    Failure,
    ModelRetry,
    RetryClass,
    RetryPolicy,
    ToolErrorPolicy,
    ToolGate,
    ToolGateContext,
    ToolsOffered,
)
from projections import WhatIf, what_if


def versions(calls: Collection[Any]) -> list[int]:
    """Return the versions of judged calls."""
    return [call.version for call in calls]


@pytest.fixture
def run(chat: Conversation) -> Conversation:
    """Return a run with a retried time-out (4), a refused login (7), a hint to the model (10)."""
    chat.add_message("user", "go")
    search = chat.request("search", {"q": "lamp"})
    chat.start(search.id)
    chat.fail(search.id, TimeoutError("no answer"))
    login = chat.request("login", {})
    chat.start(login.id)
    chat.fail(login.id, Failure(ErrorKind.AUTH, "expired"))
    hint = chat.request("search", {"q": ""})
    chat.start(hint.id)
    chat.fail(hint.id, ModelRetry("pass a word"))
    chat.start(search.id, 2)
    chat.complete(search.id, "found")
    return chat


def test_the_same_policies_change_nothing(run: Conversation) -> None:
    """Without a policy nothing is judged."""
    found = what_if(run.events())
    assert found == WhatIf((), (), (), (), found.size_before, found.size_before, "characters")
    assert found.saved == 0


def test_an_error_policy_ends_the_run(run: Conversation) -> None:
    """Retried failures and hints to the model end nothing."""
    found = what_if(run.events(), errors=ToolErrorPolicy.operator_safe())
    assert versions(found.ended) == [7]
    assert str(found.ended[0]) == "login at version 7, auth"
    every = ToolErrorPolicy(frozenset(ErrorKind))
    assert versions(what_if(run.events(), errors=every).ended) == [7]
    once = RetryPolicy(max_attempts=1)
    assert versions(what_if(run.events(), errors=every, retries=once).ended) == [4, 7]


def test_other_retries(run: Conversation) -> None:
    """Calls that were retried and would not be, and the other way round."""
    found = what_if(run.events(), retries=RetryPolicy(max_attempts=1))
    assert (versions(found.retried), versions(found.not_retried)) == ([], [4])

    class All:
        """Everything may be run again."""

        def classify(self, error: object) -> Any:
            return RetryClass.TRANSIENT

    found = what_if(run.events(), classifier=All(), retries={"login": RetryPolicy()})
    assert (versions(found.retried), versions(found.not_retried)) == ([7], [4])
    assert "would have been retried: 1 call: login at version 7, auth" in str(found)


def test_a_gate_hides_calls(run: Conversation) -> None:
    """The gate is asked before each turn, with what was known then."""

    class NoLoginAtFirst(ToolGate):
        def allowlist(self, context: ToolGateContext) -> Collection[str] | None:
            return {"search"} if context.iteration < 5 else None

    assert versions(what_if(run.events(), gates=[NoLoginAtFirst()]).hidden) == [5]

    class Offered(ToolGate):
        def allowlist(self, context: ToolGateContext) -> Collection[str] | None:
            return {"new"} & set(context.available_tool_names) or None

    assert what_if(run.events(), gates=[Offered()]).hidden == ()
    run.append(ToolsOffered(1, ("new", "old")))
    run.request("old")
    assert versions(what_if(run.events(), gates=[Offered()]).hidden) == [run.version]


def test_the_size_of_the_prompt(run: Conversation) -> None:
    """A window saves tokens, which a counter of the caller's counts."""
    run.add_message("user", "go on")
    found = what_if(run.events(), last_turns=1, counter=lambda text: len(text) // 4)
    assert found.unit == "tokens"
    assert found.size_after < found.size_before
    assert found.saved == found.size_before - found.size_after
    with pytest.raises(ValueError, match="last_turns"):
        what_if(run.events(), last_turns=0)
