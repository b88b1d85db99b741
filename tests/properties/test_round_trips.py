"""A history goes from any provider to any other and back, and keeps its content."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.provider_messages import READ, WRITE, Call, Said, Story
from support.tiers import rounds

from eventstore import EventStore, validate
from eventstore.providers import PROVIDERS, list_key
from eventstore.providers.registry import adapter_of
from projections import model_history, repair_messages

PAIRS = sorted(permutations(sorted(PROVIDERS), 2))
WITHOUT_IDS = frozenset(name for name in PROVIDERS if adapter_of(name).call_ids == "optional")
"""Providers whose calls may come without an id."""

FLAGGING = frozenset(name for name in PROVIDERS if adapter_of(name).error_flag)
"""Providers whose results have a member that says that they are errors."""

EXAMPLES = rounds(5, 100)

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).map(
    lambda text: f"said {text}."
)
results = st.one_of(texts, st.sampled_from(["", " ", "12C", "[1, 2]", '{"a": 1}', "höh 𝄞"]))
values = st.one_of(
    st.integers(-(2**53), 2**53),
    st.booleans(),
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
arguments = st.dictionaries(
    st.text("abc_$é ", min_size=1, max_size=4),
    st.one_of(
        values,
        st.lists(values, max_size=2),
        st.dictionaries(st.text("xy", max_size=2), values, max_size=2),
    ),
    max_size=3,
)
calls = st.builds(
    Call,
    st.sampled_from(["get_weather", "read-file", "F", "x" * 64]),
    arguments,
    results,
    st.booleans(),
)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Generate the words and deeds of a user and an assistant with tools.

    The user is first and last.
    """
    story: Story = []
    for _ in range(draw(st.integers(1, 3))):
        story.append(Said("user", draw(texts), (), draw(st.sampled_from([None, "iVBORw=="]))))
        for _ in range(draw(st.integers(0, 2))):
            made = draw(st.lists(calls, min_size=1, max_size=3))
            story.append(Said("assistant", draw(st.one_of(st.just(""), texts)), tuple(made)))
        story.append(Said("assistant", draw(texts)))
    story.append(Said("user", draw(texts)))
    for number, call in enumerate(call for said in story for call in said.calls):
        call.id = f"abcdefg{number:02d}"  # nine letters and digits, which every provider takes
        if call.failed:
            call.result = f"no {number}"
    return story


def without_ids(story: Story) -> Story:
    """Return the story without ids: only what was said and done."""
    story = copy.deepcopy(story)
    for said in story:
        for call in said.calls:
            call.id = None
    return story


def shown_by(story: Story, provider: str) -> Story:
    """Return the story as far as `provider` can express it: Bedrock's results are never blank."""
    story = copy.deepcopy(story)
    for said in story:
        for call in said.calls:
            if provider == "bedrock" and not call.result.strip():
                call.result = "[The result is empty.]"
    return story


def written(story: Story, provider: str) -> list[Any]:
    """Return the story in the form of `provider`, which is valid."""
    messages = WRITE[provider](copy.deepcopy(story))
    assert [found for found in validate(messages, provider) if found.level == "hard"] == []
    return messages


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@given(story=stories())
@settings(max_examples=EXAMPLES)
def test_a_story_is_read_as_it_was_written(provider: str, story: Story) -> None:
    """The tests' own writer and reader lose nothing."""
    heard = READ[provider](written(story, provider))
    assert without_ids(heard) == without_ids(story)


@pytest.mark.parametrize(("provider", "target"), PAIRS)
@given(story=stories())
@settings(max_examples=EXAMPLES)
def test_another_provider_gets_the_same_story(provider: str, target: str, story: Story) -> None:
    """Calls, arguments, results, errors, order, text and images are the same, there and back."""
    given_ = written(story, provider)
    there = repair_messages(given_, provider, target)
    assert validate(there.messages, target) == []
    heard = READ[target](there.messages)
    expected = shown_by(story, target)
    assert without_ids(heard) == without_ids(expected)
    back = repair_messages(there.messages, target, provider)
    assert validate(back.messages, provider) == []
    again = READ[provider](back.messages)
    assert without_ids(again) == without_ids(shown_by(expected, provider))


@pytest.mark.parametrize(("provider", "target"), PAIRS)
@given(story=stories())
@settings(max_examples=EXAMPLES)
def test_losses_between_providers_are_listed(provider: str, target: str, story: Story) -> None:
    """Dropped ids, errors without a flag and blank results each have a repair."""
    there = repair_messages(written(story, provider), provider, target)
    listed = [(repair.what, repair.rule) for repair in there.repairs]
    heard = READ[target](there.messages)
    count = sum(len(said.calls) for said in story)
    ids = [call.id for said in heard for call in said.calls]
    if provider not in WITHOUT_IDS and target == "ollama":
        assert listed.count(("dropped", "OL01")) == (count > 0)
    elif provider not in WITHOUT_IDS:
        assert ids == [call.id for said in story for call in said.calls]
    failed = sum(call.failed for said in story for call in said.calls)
    if provider in FLAGGING and target not in FLAGGING:
        assert listed.count(("wrapped", "error")) == failed
    blank = sum(not call.result.strip() for said in story for call in said.calls)
    if target == "bedrock":
        assert listed.count(("wrapped", "BE02")) == blank
    explained = {"OL01", "error", "BE02", "text"} | ({"id"} if provider in WITHOUT_IDS else set())
    if provider == "bedrock" and blank:
        explained.add("form")
    assert {rule for _, rule in listed} <= explained


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@given(story=stories())
@settings(max_examples=EXAMPLES)
def test_a_log_gives_every_provider_the_same_story(provider: str, story: Story) -> None:
    """A log that was recorded from one provider is rendered for each of the others."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(written(story, provider), provider)
        history = model_history(chat.events(), collapse="none")
    for target in PROVIDERS:
        messages = history.render(target)[list_key(target)]
        assert validate(messages, target) == [] or target == provider
        expected = story if target == provider == "bedrock" else shown_by(story, target)
        heard = READ[target](messages)
        assert without_ids(shown_by(heard, target)) == without_ids(shown_by(expected, target))


any_ids = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=70)
    | st.sampled_from(["call_1", "call|1", "call.1", "call:1", "abcdefghi", "x" * 64, "x" * 65]),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("target", sorted({*PROVIDERS} - {"ollama", "openai"}))
@given(turns=st.lists(any_ids, min_size=1, max_size=3))
@settings(max_examples=EXAMPLES * 5)
def test_ids_are_legal_different_and_stay(target: str, turns: list[list[str]]) -> None:
    """Any ids become legal, equal in call and result, and stay when the history grows."""
    story: Story = []
    shown: list[list[str | None]] = []
    for number, ids in enumerate(turns):
        story.append(Said("user", f"said {number}"))
        made = [Call("f", {"n": n}, f"R{n}", id=call_id) for n, call_id in enumerate(ids)]
        story += [Said("assistant", "", tuple(made)), Said("assistant", "said so")]
        asked = [*story, Said("user", "and now?")]
        there = repair_messages(WRITE["openai"](asked), "openai", target).messages
        assert validate(there, target) == []
        heard = [said for said in READ[target](there) if said.calls]  # also pairs the halves
        now = [[call.id for call in said.calls] for said in heard]
        assert all(len(set(each)) == len(each) for each in now)
        assert now[: len(shown)] == shown
        if len(set(ids)) == len(ids):
            assert [[call.result for call in said.calls] for said in heard][-1] == [
                f"R{n}" for n in range(len(ids))
            ]
        shown = now
