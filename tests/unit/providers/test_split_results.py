"""Results of one turn in several messages: their merge is named, whatever else is repaired."""

from __future__ import annotations

from typing import Any

import pytest

from projections import repair_messages


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
