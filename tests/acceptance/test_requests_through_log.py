"""Real requests go into a log and come out of it unchanged."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from support.tiers import sampled
from support.transcripts import REQUESTS

from eventstore import EventStore, validate
from eventstore.providers import PROVIDERS, list_key
from projections import History, model_history

SPOKEN = {
    "openai_compatible": "openai",
    "openai_responses": "openai-responses",
    "openai_responses_compatible": "openai-responses",
}
"""Whose form a request has, where that is not the provider's own name."""

QUICK_REQUESTS = 20
"""Requests of the quick tier, of all forms."""


def accepted() -> list[Any]:
    """Return the recorded requests that were answered."""
    lines = REQUESTS.read_text("utf-8").splitlines()
    found = []
    for request in map(json.loads, lines):
        provider = SPOKEN.get(request["provider"], request["provider"])
        if provider in PROVIDERS and request["status"] == 200:
            short = request["source"].removeprefix("tests__cassettes__test_")
            found.append(pytest.param(provider, request[list_key(provider)], id=short))
    return found


@pytest.mark.parametrize(("provider", "given"), sampled(accepted(), QUICK_REQUESTS))
def test_a_recorded_request_is_rendered_as_it_was_sent(provider: str, given: list[Any]) -> None:
    """Signatures, reasoning, ids, spelling and the order of members are the same."""
    with EventStore.open("sqlite://") as store:
        for message in given:
            store.conversation("record").record(message, provider)
        for way in ("record_messages", "import_messages"):
            getattr(store.conversation(way), way)(given, provider)
        for way in ("record", "record_messages", "import_messages"):
            history = model_history(store.conversation(way).events(), collapse="none")
            shown, repairs = history.rendered(provider)
            assert json.dumps(shown[list_key(provider)]) == json.dumps(given), way
            assert repairs == [], way


@pytest.mark.parametrize(("provider", "given"), sampled(accepted(), QUICK_REQUESTS))
def test_a_recorded_request_is_valid_for_every_provider_at_each_step(
    provider: str, given: list[Any]
) -> None:
    """Every prefix of its log gives every other provider a history that breaks no rule."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(given, provider)
        events = list(chat.events())
    history = History()
    for recorded in events:
        history.apply(recorded)
        view = history.view(collapse="none")
        for target in PROVIDERS:
            shown = view.render(target)[list_key(target)]
            broken = validate(shown, target)
            assert not [found for found in broken if target != provider or found.level == "hard"]


def test_there_are_enough_recorded_requests() -> None:
    """There are requests of each form."""
    assert Counter(case.values[0] for case in accepted()) == {
        "anthropic": 27,
        "gemini": 48,
        "mistral": 6,
        "openai": 30,
        "openai-responses": 20,
    }
