"""The prompts of a report: each is exactly what would be sent, and none is of another version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.played_logs import STEPS, Step, played
from support.tiers import examples

from eventstore import Conversation, ModelResponded, Recorded
from eventstore.providers import PROVIDERS
from projections import model_history
from projections.report.prompts import ProviderPrompts, own_provider, prompts_of


def rebuilt(prompts: ProviderPrompts) -> dict[int, tuple[dict[str, Any], list[Any]]]:
    """Return the prompt and the repairs at each version that `prompts` tell of."""
    found: dict[int, tuple[dict[str, Any], list[Any]]] = {}
    places: list[int] = []
    for prompt in prompts.prompts:
        places = places[: prompt.kept] + prompt.added
        arguments = json.loads(prompt.others or "{}")
        arguments[prompts.list_key] = [json.loads(prompts.messages[p]) for p in places]
        for version in range(prompt.version, prompt.until + 1):
            assert version not in found
            found[version] = arguments, prompt.repairs
    return found


def exact(events: list[Recorded], version: int, provider: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the prompt and the repairs of the events up to a version."""
    history = model_history(events[:version])
    return json.loads(json.dumps(history.render(provider))), history.repairs_for(provider)


@settings(max_examples=examples(30))
@given(steps=STEPS, wanted=st.lists(st.integers(1, 10), min_size=1, max_size=3))
def test_a_short_log_has_every_prompt_of_every_provider(
    steps: list[Step], wanted: list[int]
) -> None:
    """Each is the one that a fresh fold gives."""
    events = played(steps)
    books = prompts_of(events, "anthropic", wanted)
    assert books[0].provider == "anthropic"
    assert {book.provider for book in books} == set(PROVIDERS)
    for book in books:
        found = rebuilt(book)
        assert found.keys() == set(range(1, len(events) + 1))
        for version, reported in found.items():
            assert reported == exact(events, version, book.provider)


@settings(max_examples=examples(30))
@given(steps=STEPS, holes=st.sets(st.integers(1, 20), max_size=5))
def test_a_log_with_holes_has_its_prompts(steps: list[Step], holes: set[int]) -> None:
    """Events that are missing do not shift the prompts of others."""
    whole = played(steps)
    events = [recorded for recorded in whole if recorded.version not in holes] or whole[:1]
    (book, *_) = prompts_of(events, "openai", [1])
    reported = rebuilt(book)
    for recorded in events:
        known = [each for each in events if each.version <= recorded.version]
        assert reported[recorded.version][0] == json.loads(
            json.dumps(model_history(known).render("openai"))
        )


def test_the_wanted_versions_come_first(chat: Conversation) -> None:
    """With little time there are the wanted versions, for every provider before other versions."""
    for number in range(20):
        chat.add_message("user", f"question {number}")
        chat.add_message("assistant", f"answer {number}")
    events = list(chat.events())
    books = prompts_of(events, "gemini", [30, 40], max_turns=70 * len(PROVIDERS))
    assert [[prompt.version for prompt in book.prompts] for book in books] == [
        [30, 40] for _ in PROVIDERS
    ]
    (first, *others) = prompts_of(events, "gemini", [30], max_turns=1)
    assert [prompt.version for prompt in first.prompts] == [30]
    assert [book.prompts for book in others] == [[] for _ in others]
    (more, *_) = prompts_of(events, "gemini", [30], max_turns=30 * len(PROVIDERS) + 90)
    assert [prompt.version for prompt in more.prompts] == [27, 29, 30, 31]


def test_events_that_no_prompt_shows_begin_none(chat: Conversation) -> None:
    """The usage of a response leaves the prompt as it is, and says so."""
    chat.add_message("user", "hello")
    chat.append(ModelResponded("openai"), ModelResponded("openai"))
    chat.add_message("assistant", "hi")
    (book, *_) = prompts_of(list(chat.events()), "openai", [1])
    assert [(prompt.version, prompt.until) for prompt in book.prompts] == [(1, 3), (4, 4)]


def test_messages_are_stored_once(chat: Conversation) -> None:
    """A prompt that goes on adds its new messages alone."""
    for number in range(10):
        chat.add_message("user", f"question {number}")
    (book, *_) = prompts_of(list(chat.events()), "openai", [10])
    assert len(book.messages) == 10
    assert [prompt.kept for prompt in book.prompts] == list(range(10))


@pytest.mark.parametrize(
    ("providers", "own"), [([], "openai"), (["mistral", "gemini", "gemini"], "gemini")]
)
def test_the_own_provider_is_that_of_most_messages(
    chat: Conversation, providers: list[str], own: str
) -> None:
    """Without a word of it the first prompts are OpenAI's."""
    chat.add_message("user", "hello")
    chat.append(*map(ModelResponded, providers))
    assert own_provider(list(chat.events())) == own
