"""The rules of every provider judge anything at all, the same each time, and leave it alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventstore import validate
from eventstore.wire import PROVIDERS

ODD = [
    10**400,
    "\ud800",
    "x" * 100_000,
    b"bytes",
    float("nan"),
    {"a"},
    object(),
    None,
    1,
    "",
    [],
]
KEYS = (
    "role", "content", "parts", "type", "text", "id", "tool_calls", "tool_call_id", "tool_name",
    "function", "name", "arguments", "prefix", "images", "toolUse", "toolResult", "toolUseId",
    "input", "status", "json", "tool_use", "functionCall", "functionResponse", "call_id", "output",
)  # fmt: skip
leaves = st.one_of(
    st.sampled_from(ODD),
    st.sampled_from(["user", "assistant", "tool", "system", "model", "error", "abcDEF123", "{}"]),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "model"])},
        optional={key: values for key in KEYS if key != "role"},
    )
    | values,
    max_size=5,
)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@given(given_=st.one_of(messages, values))
@settings(max_examples=25)
def test_anything_is_judged_and_left_alone(provider: str, given_: Any) -> None:
    """No value raises or floods a message; codes ascend; the same is said of the same again."""
    before = repr(given_)
    found = validate(given_, provider)
    assert repr(given_) == before
    assert validate(copy.copy(given_), provider) == found
    assert [each.code for each in found] == sorted(each.code for each in found)
    for each in found:
        assert len(each.message.encode()) < 2_000
        assert each.place.split("[")[0].split(".")[0] in ("messages", "contents", "input")


def nested(depth: int) -> Any:
    """A value with as many levels."""
    value: Any = "x"
    for _ in range(depth):
        value = [{"content": value}]
    return value


@pytest.mark.parametrize("provider", ["bedrock", "mistral", "ollama"])
def test_what_is_nested_too_deep_to_walk_is_judged(provider: str) -> None:
    """Wherever it stands."""
    deep = nested(50_000)
    for given_ in (
        deep,
        [{"role": "user", "content": deep}],
        [{"role": "assistant", "content": [{"toolUse": {"input": deep}}, {"text": deep}]}],
        [{"role": "assistant", "tool_calls": deep}, {"role": "tool", "tool_call_id": deep}],
        [{"role": "assistant", "tool_calls": [{"id": deep, "function": {"arguments": deep}}]}],
    ):
        assert validate(given_, provider) != []
