"""Every provider's rules validate any value, each time alike, without changing it."""

from __future__ import annotations

import copy
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from support.provider_histories import CHAT, FORMS, histories, values
from support.tiers import LONG

from eventstore import validate
from eventstore.providers import PROVIDERS
from eventstore.providers.registry import rule_book


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@given(data=st.data())
@settings(max_examples=60)
def test_any_history_is_validated_and_left_alone(provider: str, data: st.DataObject) -> None:
    """No value raises or makes a long message; codes ascend, and a second run gives the same."""
    history = data.draw(histories(FORMS.get(provider, CHAT)) | values)
    before = repr(history)
    found = validate(history, provider)
    assert repr(history) == before
    assert validate(copy.copy(history), provider) == found
    assert [each.code for each in found] == sorted(each.code for each in found)
    for each in found:
        assert len(each.message.encode()) < 2_000
        assert each.place.split("[")[0].split(".")[0] in ("messages", "contents", "input")


RARE = ("anthropic", "bedrock")
"""Providers of which some rules are so seldom broken that it takes a minute to see all of them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(name, marks=pytest.mark.skipif(name in RARE and not LONG, reason="long tier"))
        for name in sorted(FORMS)
    ],
)
def test_generated_histories_break_every_rule_of_a_provider(provider: str) -> None:
    """Otherwise the properties above would not test that rule."""
    book = rule_book(provider)
    missing = set(book.RULES)

    def is_last_missing(history: object) -> bool:
        missing.difference_update(code for code, _, _ in book.findings(history))
        return not missing

    generate = settings(max_examples=3_000, phases=[Phase.generate], database=None)
    find(histories(FORMS[provider]), is_last_missing, settings=generate, random=Random(0))
