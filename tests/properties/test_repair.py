"""Broken histories of every kind come out valid, whole, and the same a second time."""

from __future__ import annotations

import copy
import os
import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import broken_histories as broken
import pytest

from eventstore import EventStore, validate
from projections import History, model_history, repair_messages

ROUNDS = 20_000 if os.environ.get("TOOLLEDGER_LONG") else 400
PROVIDERS = ("anthropic", "openai")


def histories(provider: str, count: int, salt: str = "") -> Iterator[list[Any]]:
    """`count` broken histories, the same in every run."""
    for seed in range(count):
        yield getattr(broken, provider)(random.Random(f"{salt}{provider}{seed}"))


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def result_texts(messages: list[Any]) -> Iterator[str]:
    """The texts of the well-formed results; failures may give way to a completion."""
    for message in messages:
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        if message.get("role") == "tool" and isinstance(content, str):
            yield content
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                failed = block.get("is_error") is True
                if isinstance(block.get("content"), str) and not failed:
                    yield block["content"]


@pytest.mark.parametrize("target", PROVIDERS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_repaired_history_is_valid_and_stays_as_it_is(provider: str, target: str) -> None:
    """No rule is broken, hard or strict, and a second repair changes nothing."""
    for messages in histories(provider, ROUNDS):
        once = repair_messages(messages, provider, target)
        assert validate(once.messages, target) == []
        twice = repair_messages(once.messages, target)
        assert repr(twice.messages) == repr(once.messages)
        assert twice.repairs == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_input_is_left_alone_and_valid_input_comes_back_equal(provider: str) -> None:
    """Repair reads; what is valid already is given back equal, in objects of its own."""
    for messages in histories(provider, ROUNDS, "equal"):
        before = repr(messages)
        valid = not validate(messages, provider)
        repaired = repair_messages(messages, provider)
        assert repr(messages) == before
        if valid:
            assert repr(repaired.messages) == before
            assert repaired.repairs == []


@pytest.mark.parametrize("target", PROVIDERS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_real_result_is_lost(provider: str, target: str) -> None:
    """Each result's text is in the repaired history, as a result or as text."""
    for messages in histories(provider, ROUNDS, "whole"):
        repaired = repair_messages(messages, provider, target)
        shown = "\n".join(strings(repaired.messages))
        escaped = shown + repr(shown)
        for text in result_texts(messages):
            if text.strip():
                assert text in shown or text.encode("unicode_escape").decode() in escaped or (
                    text.replace('"', '\\"') in shown
                )  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_prefix_of_a_recorded_log_renders_validly(provider: str) -> None:
    """Wherever a log is cut, both providers accept what is shown."""
    for number, messages in enumerate(histories(provider, max(ROUNDS // 4, 60), "log")):
        with EventStore.open("sqlite://") as store:
            chat = store.conversation(f"c{number}")
            chat.record_messages(messages, provider)
            events = list(chat.events())
        fold = History()
        for recorded in events:
            fold.apply(recorded)
            for target in PROVIDERS:
                shown = fold.view().render(target)["messages"]
                assert validate(shown, target) == []
        for target in PROVIDERS:
            assert model_history(events).render(target) == fold.view().render(target)
            damaged = [e for e in events if random.Random(e.event_id).random() < 0.7]
            shown = model_history(damaged).render(target)["messages"]
            assert validate(shown, target) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_log_shows_what_repairing_the_list_shows(provider: str) -> None:
    """Recording a history and repairing it are one pipeline: the same messages come out."""
    for number, messages in enumerate(histories(provider, max(ROUNDS // 4, 60), "same")):
        with EventStore.open("sqlite://") as store:
            chat = store.conversation(f"c{number}")
            chat.record_messages(messages, provider)
            view = model_history(chat.events(), collapse="none")
        other = "openai" if provider == "anthropic" else "anthropic"
        crossed = repair_messages(messages, provider, other).messages
        assert _unminted(view.render(other)["messages"]) == _unminted(crossed)


def _unminted(messages: list[Any]) -> str:
    """Minted ids tell conversations apart, so they differ between the two."""
    return re.sub(r"call_[0-9a-f]{24}", "call_minted", repr(messages))


def test_a_turn_of_thousands_of_parallel_calls_is_repaired_in_linear_time() -> None:
    """Twice the calls take about twice the steps: the work is counted, not timed."""

    def steps(count: int) -> int:
        calls = [
            {"id": "same", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for _ in range(count)
        ]
        messages = [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": calls}]
        messages += [{"role": "tool", "tool_call_id": "same", "content": str(n)} for n in
                     reversed(range(count))]  # fmt: skip
        seen = 0

        def count_calls(_frame: Any, _event: str, _arg: Any) -> None:
            nonlocal seen
            seen += 1

        sys.setprofile(count_calls)
        try:
            repaired = repair_messages(copy.deepcopy(messages), "openai")
        finally:
            sys.setprofile(None)
        assert len(repaired.messages) == count + 2
        assert repaired.messages[2]["content"] == str(count - 1)
        return seen

    assert steps(2_000) < 2.5 * steps(1_000)
