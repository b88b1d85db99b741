"""`ResultLimits`: what is cut, where, and what the mark says."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import ResultLimits

NONE = ResultLimits(characters=None, items=None, bytes=None)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=30,
)
limits = st.builds(
    ResultLimits,
    characters=st.none() | st.integers(100, 200),
    items=st.none() | st.integers(3, 8),
    bytes=st.none() | st.integers(100, 600),
)


def test_a_long_text_is_cut_in_the_middle() -> None:
    """The mark counts for the limit, and says how much is left out."""
    bounded = ResultLimits(characters=100).bound("a" * 500 + "z" * 500)
    assert bounded.text == "a" * 28 + "[... 944 of 1,000 characters left out ...]" + "z" * 28
    assert bounded.left_out == ("944 of 1,000 characters",)


def test_a_long_list_keeps_its_first_and_last_items() -> None:
    """The result is still JSON."""
    bounded = ResultLimits(items=4).bound({"rows": list(range(10))})
    rows = msgspec.json.decode(bounded.text)["rows"]
    assert rows == [0, 1, "[... 7 of 10 items left out ...]", 9]
    assert bounded.left_out == ("7 of 10 items at $.rows",)


def test_the_whole_is_cut_where_its_members_leave_too_much() -> None:
    """No half of a character is left: each of these has 3 bytes."""
    bounded = ResultLimits(bytes=100).bound(["€" * 60] * 3)
    head, mark, tail = re.split(r"(\[\.\.\. .* \.\.\.\])", bounded.text)
    assert (head[:3], tail[-3:]) == ('["€', '€"]')
    left = 550 - len((head + tail).encode())
    assert mark == f"[... {left} of 550 bytes left out ...]"
    assert len(bounded.text.encode()) <= 100


@pytest.mark.parametrize("result", ["text", "", 5, None, {"a": [1, {"b": "c"}]}, []])
def test_a_short_result_stays_as_the_model_reads_it(result: Any) -> None:
    """Text stays as it is, everything else is JSON."""
    bounded = ResultLimits().bound(result)
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    assert (bounded.text, bounded.left_out) == (text, ())


def test_the_defaults_are_those_of_rig_compose() -> None:
    """The defaults are 4,000 characters of a string, 64 items of an array, 256,000 bytes in all."""
    assert msgspec.structs.astuple(ResultLimits()) == (4_000, 64, 256_000)


@given(result=json_values, limits=limits)
def test_nothing_is_longer_than_its_limit_and_nothing_is_cut_twice(
    result: Any, limits: ResultLimits
) -> None:
    """Without a note of what is left out, the text is that of the whole result."""
    bounded = limits.bound(result)
    assert limits.bound(result) == bounded
    assert limits.bound(bounded.text).text == bounded.text or limits.characters is not None
    if limits.bytes is not None:
        assert len(bounded.text.encode()) <= limits.bytes
    if not bounded.left_out:
        assert bounded.text == NONE.bound(result).text
    if not any("bytes" in place for place in bounded.left_out):
        again = bounded.text if isinstance(result, str) else msgspec.json.decode(bounded.text)
        assert limits.bound(again).left_out == ()


@given(texts=st.lists(st.text(max_size=300), max_size=4), limits=limits)
def test_the_texts_of_one_result_share_the_limit_of_bytes(
    texts: list[str], limits: ResultLimits
) -> None:
    """Each text has its own limit of characters."""
    bounded, left_out = limits.bound_texts(texts)
    if limits.bytes is not None:
        assert len("\n".join(bounded).encode()) <= limits.bytes
    assert left_out or bounded == texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"characters": 99}, "characters is 99: pass 100 or more"),
        ({"items": 2}, "items is 2: pass 3 or more"),
        ({"bytes": 1.5}, "bytes is 1.5: pass 100 or more"),
    ],
)
def test_limits_leave_room_for_a_mark(options: dict[str, Any], message: str) -> None:
    """The error names the limit and its minimum."""
    with pytest.raises(ValueError, match=message):
        ResultLimits(**options)
