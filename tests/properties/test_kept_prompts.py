"""A prompt that takes up what was made for the one before is the prompt that is made anew."""

from __future__ import annotations

import copy
import random
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.broken import GENERATORS, recordable
from support.played_logs import STEPS, Step, play
from support.tiers import rounds

from eventstore import (
    Conversation,
    EventStore,
    NonResolvedToolError,
    Opaque,
    Recorded,
    ResultLimits,
)
from eventstore.providers import AnyProvider, ProviderName
from projections import History, ModelHistory, model_history
from projections.history.options import HistoryOptions

PROVIDERS: tuple[ProviderName, ...] = get_args(ProviderName)
GROWN = rounds(15, 400)
"""Histories of each provider that grow event by event."""
OPTIONS: list[dict[str, Any]] = [
    {},
    {"collapse": "all"},
    {"collapse": "failed", "later_system": "user"},
    {"open_calls": "drop", "last_turns": 2},
    {"open_calls": "raise"},
    {"since": 4, "summary": "Before.", "pinned": [1]},
    {"max_tokens": 40, "count_tokens": len, "results": "shorten"},
    {"result_limits": {"find": ResultLimits(characters=100, items=4)}, "reasoning": "note"},
]

asked = st.tuples(st.sampled_from(OPTIONS), st.sampled_from(PROVIDERS), st.booleans())
"""The options of a prompt, its provider, and whether it is marked for a cache."""


def reported(history: ModelHistory, provider: AnyProvider, *, cache: bool) -> str:
    """Return all that a history says, letter for letter, and ruin what it returned."""
    rendered = history.render(provider, cache=cache)
    turns = history.turns
    said = repr((rendered, turns, history.repairs_for(provider), history.explain(provider)))
    ruin(rendered)
    for turn in turns:
        ruin(turn.native)
        for part in turn.parts:
            if isinstance(part, Opaque):
                ruin(part.data)
        for call in turn.calls:
            ruin(call.arguments)
            ruin(call.answer.native)
        turn.calls.clear()
        turn.hidden = True
    history.repairs.clear()
    return said


def ruin(value: Any) -> None:
    """Empty every list and object in a JSON value."""
    if isinstance(value, dict | list):
        for each in list(value.values() if isinstance(value, dict) else value):
            ruin(each)
        value.clear()


def of_handle(
    chat: Conversation, options: dict[str, Any], provider: AnyProvider, *, cache: bool, cached: bool
) -> str:
    """Return what the next prompt says, or the refusal of an open call."""
    try:
        history = model_history(chat, cached=cached, **options)
    except NonResolvedToolError as error:
        return str(error)
    return reported(history, provider, cache=cache)


@given(st.lists(st.tuples(STEPS, asked), max_size=8))
def test_the_prompt_of_a_handle_is_that_of_all_events(
    rounds: list[tuple[list[Step], tuple[dict[str, Any], AnyProvider, bool]]],
) -> None:
    """However a conversation grows, whoever appends, and whatever is asked of it in between."""
    with EventStore.open("sqlite://") as store:
        asking, appending = store.conversation("c"), store.conversation("c")
        asking.add_message("user", "begin")
        for steps, (options, provider, cache) in rounds:
            play(appending, steps)
            kept = of_handle(asking, options, provider, cache=cache, cached=True)
            assert kept == of_handle(asking, options, provider, cache=cache, cached=False)
        fork = asking.fork(asking.version, "fork")
        assert model_history(fork).turns == model_history(fork.events()).turns


def recorded(messages: list[Any], provider: AnyProvider) -> list[Recorded]:
    """Return the log of a provider's messages."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(messages, provider)
        return list(chat.events())


@pytest.mark.parametrize("provider", sorted(GENERATORS))
def test_a_growing_history_shows_the_same_as_a_new_one(provider: AnyProvider) -> None:
    """Messages of each provider, damaged logs, and requests to any provider are tried."""
    for number, messages in enumerate(recordable(provider, GROWN, "grown")):
        rng = random.Random(number)
        events = [each for each in recorded(messages, provider) if rng.random() < 0.95]
        if number % 3 == 0:
            rng.shuffle(events)
        target, options = rng.choice([provider, *PROVIDERS]), HistoryOptions(**rng.choice(OPTIONS))
        growing = History()
        for count, each in enumerate(events, 1):
            growing.apply(each)
            if rng.random() < 0.3:
                target = rng.choice(PROVIDERS)
            try:
                view = growing.view_with(options)
            except NonResolvedToolError:
                continue
            new = History().extend(copy.deepcopy(events[:count])).view_with(options)
            assert reported(view, target, cache=False) == reported(new, target, cache=False)
