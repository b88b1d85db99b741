"""Results of one turn in several messages: their merge is named, whatever else is repaired."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, validate
from projections import model_history, repair_messages


def _call(number: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "find", "input": {}}


def _result(number: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "found"}


PLAIN = ("role", "content")
TURNED = ("content", "role")


@pytest.mark.parametrize("first", [PLAIN, TURNED])
@pytest.mark.parametrize("second", [PLAIN, TURNED])
def test_the_merge_of_split_results_is_named(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    """Two messages have one result each, in either order of their members."""
    split = [
        {key: {"role": "user", "content": [_result(number)]}[key] for key in keys}
        for number, keys in (("a", first), ("b", second))
    ]
    messages = [
        {"role": "user", "content": "Where are they?"},
        {"role": "assistant", "content": [_call("a"), _call("b")]},
        *split,
        {"role": "assistant", "content": [_call("c")]},  # not answered: another repair
        {"role": "user", "content": "Go on."},
    ]
    repaired = repair_messages(messages, "anthropic")
    assert [each.rule for each in repaired.repairs].count("results") == 1
    assert repaired.messages[2] == {"role": "user", "content": [_result("a"), _result("b")]}


@pytest.mark.parametrize("second", [PLAIN, TURNED])
def test_a_log_of_split_results_names_their_merge(
    chat: Conversation, second: tuple[str, ...]
) -> None:
    """The list is recorded whole; the next prompt has one message with both results."""
    last = {"role": "user", "content": [_result("b")]}
    given = [
        {"role": "user", "content": "Where are they?"},
        {"role": "assistant", "content": [_call("a"), _call("b")]},
        {"role": "user", "content": [_result("a")]},
        {key: last[key] for key in second},
    ]
    chat.record_messages(given, "anthropic")
    history = model_history(chat.events())
    messages = history.render("anthropic")["messages"]
    assert messages[2:] == [{"role": "user", "content": [_result("a"), _result("b")]}]
    assert [(made.what, made.rule) for made in history.repairs] == [("merged", "results")]
    assert validate(messages, "anthropic") == []


def test_results_in_one_message_name_no_merge(chat: Conversation) -> None:
    """Neither those of one turn after the other."""
    given = [
        {"role": "user", "content": "Where are they?"},
        {"role": "assistant", "content": [_call("a"), _call("b")]},
        {"role": "user", "content": [_result("b"), _result("a")]},
        {"role": "assistant", "content": [_call("c")]},
        {"role": "user", "content": [_result("c")]},
    ]
    chat.record_messages(given, "anthropic")
    history = model_history(chat.events())
    assert (history.render("anthropic")["messages"], history.repairs) == (given, [])
