"""The numbers of calls and results tell a damaged list before the rules do."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.providers import PROVIDERS, has_all_results, is_valid
from projections import repair_messages

CALL = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
SOURCE = [
    {"role": "user", "content": "Look at both."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "aaaaaaaa1", **CALL}, {"id": "aaaaaaaa2", **CALL}],
    },
    {"role": "tool", "tool_call_id": "aaaaaaaa1", "content": "one"},
    {"role": "tool", "tool_call_id": "aaaaaaaa2", "content": "two"},
]
SAID = {"role": "assistant", "content": "One and two."}


def history(provider: str, *, said: bool) -> list[Any]:
    """Return a valid history with two calls; with the words after them, if `said`."""
    made: list[Any] = repair_messages(
        [*SOURCE, SAID] if said else SOURCE, "openai", provider, prefill=True
    ).messages
    return made


@pytest.mark.parametrize("provider", sorted(PROVIDERS - {"ollama"}))
def test_a_list_whose_last_calls_have_no_results_is_seen(provider: str) -> None:
    """The results are the last messages; without them the rules refuse the list as well."""
    messages = history(provider, said=False)
    assert has_all_results(messages, provider)
    lost = messages[:-1]
    assert not has_all_results(lost, provider)
    assert not is_valid(lost, provider)
    assert has_all_results(history(provider, said=True), provider)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        ["text"],
        [None],
        [{}],
        [{"role": "assistant", "content": 1}],
        [{"role": "assistant", "content": [1], "parts": [2]}],
        [{"role": ["tool"], "content": {"type": "tool_use"}}],
        [{"role": "assistant", "function_call": {"name": "look", "arguments": "{}"}}],
    ],
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_list_in_another_form_is_left_to_the_rules(provider: str, messages: list[Any]) -> None:
    """Nothing raises, and what cannot be counted is not counted."""
    assert has_all_results(messages, provider)


def test_a_provider_that_is_registered_later_is_left_to_its_rules() -> None:
    """Whether it wants a result for each call is not known."""
    assert has_all_results(SOURCE[:2], "a-provider-of-theirs")
