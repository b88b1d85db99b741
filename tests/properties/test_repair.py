"""Broken histories of every kind become valid, lose nothing, and stay the same a second time."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from support.broken import GENERATORS, histories, lines, lost, parallel, recordable, said
from support.tiers import LONG, rounds

from eventstore import EventStore, Violation, validate
from eventstore.providers import is_valid
from projections import History, model_history, repair_messages

ROUNDS = rounds(200, 20_000)
RECORDED = rounds(50, 5_000)
"""Histories that go through a log."""
CROSSED = rounds(30, 3_000)
"""To each other provider; a sixth of the rounds, or thereabouts."""

PROVIDERS = ("anthropic", "openai")
EVERY = sorted(GENERATORS)


def faults(messages: object, provider: str) -> list[Violation]:
    """Return what the provider refuses, but for a later system message, which newer models take."""
    return [found for found in validate(messages, provider) if found.code != "AN11"]


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("provider", EVERY)
def test_every_repaired_history_is_valid_whole_and_stays_as_it_is(
    provider: str, target: str
) -> None:
    """No rule that the API enforces is broken, and nothing that was said is lost.

    The input does not change, valid input comes back equal, and a second repair changes nothing.
    """
    valid = 0
    for messages in histories(provider, ROUNDS if target == provider else CROSSED, "whole"):
        before = repr(messages)
        once = repair_messages(messages, provider, target)
        assert repr(messages) == before
        if target == provider and is_valid(messages, provider):
            valid += 1
            assert repr(once.messages) == before
            assert once.repairs == []
            continue
        assert faults(once.messages, target) == []
        assert lost(messages, [once.messages, once.system]) == []
        twice = repair_messages(once.messages, target)
        assert repr(twice.messages) == repr(once.messages)
        assert twice.repairs == []
    assert target != provider or valid >= ROUNDS // 20


@pytest.mark.slow
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("provider", EVERY)
def test_repair_is_linear_in_the_length_of_the_history(provider: str, target: str) -> None:
    """Twice the messages, or the calls of one turn, take about twice the lines of Python."""
    scale = 4 if LONG else 1
    some = [each for messages in histories(provider, 4 * scale, "long") for each in messages]

    def steps(messages: list[Any]) -> int:
        return lines(lambda: repair_messages(messages, provider, target))

    steps(some)  # what is made once
    assert steps(some * 6) < 2.3 * steps(some * 3)
    assert steps(parallel(provider, 200 * scale)) < 2.3 * steps(parallel(provider, 100 * scale))


@pytest.mark.slow
@pytest.mark.parametrize("provider", EVERY)
def test_a_turn_of_thousands_of_parallel_calls_keeps_every_result(provider: str) -> None:
    """The calls share one id and are answered in reverse; each result is there once."""
    messages = parallel(provider, 5_000)
    for target in (provider, EVERY[EVERY.index(provider) - 1]):
        shown = repair_messages(messages, provider, target).messages
        assert faults(shown, target) == []
        reported = [text for message in shown for text in said(message)]
        results = [text for text in reported if text.startswith("tool_")]
        assert sorted(results) == sorted(f"tool_{number}" for number in range(5_000))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_prefix_of_a_recorded_log_renders_validly(provider: str) -> None:
    """Both providers accept the rendering of a log that is cut anywhere."""
    for number, messages in enumerate(recordable(provider, RECORDED, "log")):
        with EventStore.open("sqlite://") as store:
            chat = store.conversation(f"c{number}")
            chat.record_messages(messages, provider)
            events = list(chat.events())
        fold = History()
        for recorded in events:
            fold.apply(recorded)
            for target in PROVIDERS:
                shown = fold.view().render(target)["messages"]
                assert faults(shown, target) == []
        for target in PROVIDERS:
            assert model_history(events).render(target) == fold.view().render(target)
            damaged = [e for e in events if random.Random(e.event_id).random() < 0.7]
            shown = model_history(damaged).render(target)["messages"]
            assert faults(shown, target) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_log_shows_what_repairing_the_list_shows(provider: str) -> None:
    """Recording a history and repairing it give the same messages."""
    for number, messages in enumerate(recordable(provider, RECORDED, "same")):
        with EventStore.open("sqlite://") as store:
            chat = store.conversation(f"c{number}")
            chat.record_messages(messages, provider)
            view = model_history(chat.events(), collapse="none")
        other = "openai" if provider == "anthropic" else "anthropic"
        crossed = repair_messages(messages, provider, other).messages
        assert _unminted(view.render(other)["messages"]) == _unminted(crossed)


def _unminted(messages: list[Any]) -> str:
    """Return the history with minted ids made equal, because they differ between conversations."""
    return re.sub(r"call_[0-9a-f]{24}", "call_minted", repr(messages))
