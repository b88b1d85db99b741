"""The limit of nesting: measured in any text and value, without recursion."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.domain.nesting import json_text, nests_too_deeply, too_deep, with_texts

_TEXTS = st.text(st.sampled_from('[]{}"\\,:aé'), max_size=4)
VALUES = st.recursive(
    st.integers() | _TEXTS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=12,
)


def levels_of(value: Any) -> int:
    """Return how many levels a value has, by recursion."""
    if not isinstance(value, dict | list):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max(map(levels_of, members), default=0)


def nested(levels: int) -> Any:
    """Return lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@given(VALUES, st.integers(0, 6))
def test_levels_are_counted_outside_of_texts(value: Any, levels: int) -> None:
    """Brackets, quotes and backslashes in a text are no structure; text and bytes are the same."""
    expected = levels_of(value) > levels
    text = msgspec.json.encode(value)
    assert nests_too_deeply(text, levels) is expected
    assert nests_too_deeply(text.decode(), levels) is expected
    assert (too_deep(value, levels) is not None) is expected


@given(VALUES)
def test_json_text_is_that_of_msgspec(value: Any) -> None:
    """The text is the same, without its limit."""
    assert json_text(value) == msgspec.json.encode(value).decode()


def test_any_depth_is_measured_and_written() -> None:
    """This holds where a value stands many times at each level, or contains itself."""
    assert json_text(nested(20_000)) == "[" * 20_000 + "1" + "]" * 20_000
    shared: Any = 1
    for _ in range(200):
        shared = [shared, shared]
    assert too_deep(shared) is None
    place = too_deep([shared])
    assert place is not None
    assert place.endswith("[1][1]… and 188 steps more")
    endless: list[Any] = []
    endless.append({"again": endless})
    assert too_deep(endless) is not None
    with pytest.raises(ValueError, match="contains itself"):
        json_text(endless)


def test_only_too_deep_values_become_text() -> None:
    """Siblings stay as they are."""
    value = {"a": [1, [2, [3]]], "b": [[4]], "c": '["'}
    made = msgspec.json.decode(with_texts(msgspec.json.encode(value), 2, 2))
    assert made == {"a": "[1,[2,[3]]]", "b": [[4]], "c": '["'}
