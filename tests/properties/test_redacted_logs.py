"""A log of any provider is redacted in any way: it stays sound, and gives valid prompts."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties.test_round_trips import stories, written
from support.tiers import rounds

from eventstore import EventStore, validate
from eventstore.providers import PROVIDERS, list_key
from projections import model_history

if TYPE_CHECKING:
    from support.provider_messages import Call, Said, Story

EXAMPLES = rounds(5, 60)
CARD = "4111-1111"


@st.composite
def stories_with_a_card(draw: st.DrawFn) -> Story:
    """Generate stories of which some words, arguments or results have the number of a card."""
    story = copy.deepcopy(draw(stories()))
    for said in story:
        if draw(st.booleans()):
            _tell(said)
        for call in said.calls:
            if draw(st.booleans()):
                _use(call)
    return story


def _tell(said: Said) -> None:
    said.text += f" {CARD}"


def _use(call: Call) -> None:
    call.arguments |= {"card": CARD, f"k {CARD}": 1, "in": [{"it": f"no. {CARD}"}]}
    call.result += f" {CARD}"


CHOICES = ("whole", "text", "calls", "versions", "arguments", "twice")


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
@given(story=stories_with_a_card(), choice=st.sampled_from(CHOICES), number=st.integers(0, 9))
@settings(max_examples=EXAMPLES)
def test_a_redacted_log_is_sound_and_gives_every_provider_a_valid_prompt(
    provider: str, story: Story, choice: str, number: int
) -> None:
    """The chosen events, calls or texts are gone from all of them."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(written(story, provider), provider)
        if choice == "twice":
            store.redact("c", by="mia", text="1111")
        chosen = _chosen(chat, choice, number)
        done = store.redact("c", by="mia", **chosen)
        assert list(store.verify()) == []
        assert not done.guessable
        gone = [r for r in chat.events() if r.version in done.versions]
        if choice in ("calls", "versions"):  # of a message that asks for one, its form goes alone
            named = chosen.get("versions", ())
            gone = [r for r in gone if r.version in named or (r.call_id and not named)]
        if choice != "arguments":
            assert CARD not in str([r.event for r in gone])
        if choice in ("whole", "text", "twice"):
            assert CARD not in str([each.event for each in chat.events()])
        history = model_history(chat.events(), collapse="none")
        for target in PROVIDERS:
            messages = history.render(target)[list_key(target)]
            assert [found for found in validate(messages, target) if found.level == "hard"] == []
            if choice in ("whole", "text", "twice"):
                assert CARD not in str(messages)


def _chosen(chat: Any, choice: str, number: int) -> dict[str, Any]:
    calls = list(chat.tools)
    if choice == "calls" and calls:
        return {"calls": [calls[number % len(calls)]]}
    if choice == "versions":
        texts = [r.version for r in chat.events() if r.event.tag in ("message", "pending")]
        return {"versions": [texts[number % len(texts)]]}
    if choice == "arguments" and calls:
        return {"paths": ["arguments.card", "arguments.in[*].it"]}
    if choice == "text":
        return {"text": CARD}
    return {"whole": True}
