"""The hand-made histories of `tests/data`, repaired for every provider."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from support.transcripts import HISTORIES, HISTORIES_OF_REPORTS

from eventstore import EventStore, validate
from eventstore.providers import PROVIDERS, is_valid, list_key
from projections import ModelHistory, model_history, repair_messages


def cases() -> list[Any]:
    """Return the examples of the providers that the library supports."""
    found = json.loads(HISTORIES.read_text("utf-8"))["cases"]
    return [pytest.param(c, id=c["id"]) for c in found if c["provider"] in PROVIDERS]


def whole(messages: list[Any], system: Any) -> str:
    """Return everything that the model reads, as text."""
    return json.dumps([messages, system], ensure_ascii=False)


@pytest.mark.parametrize("case", cases())
def test_an_example_is_repaired(case: dict[str, Any]) -> None:
    """No rule is broken, what must stay stays, valid input is unchanged, repair is idempotent."""
    given = copy.deepcopy(case["input"])
    repaired = repair_messages(given, case["provider"])
    assert given == case["input"]
    assert is_valid(repaired.messages, case["provider"])
    text = whole(repaired.messages, repaired.system)
    assert [kept for kept in case["must_keep"] if kept not in text] == []
    if case["input_valid"] and not case["breaks"]:
        assert repaired.messages == given
        assert repaired.repairs == []
    elif repaired.messages != given:
        assert repaired.repairs or case["input_valid"]
    again = repair_messages(repaired.messages, case["provider"])
    assert again.messages == repaired.messages


@cache
def recorded_history(case_id: str) -> ModelHistory:
    """Return the history that was recorded from a vector and read back."""
    (case,) = (case.values[0] for case in cases() if case.id == case_id)
    with EventStore.open("sqlite://") as store:
        chat = store.conversation(case_id)
        chat.record_messages(case["input"], case["provider"])
        return model_history(chat.events(), collapse="none")


@pytest.mark.parametrize("case", cases())
def test_an_example_goes_through_the_log_to_any_provider(case: dict[str, Any]) -> None:
    """An example is recorded, read back and rendered.

    The result is valid and what must stay stays.
    """
    for target in PROVIDERS:
        prompt = recorded_history(case["id"]).render(target)
        messages = prompt[list_key(target)]
        assert validate(messages, target) == [], target
        text = whole(messages, prompt.get("system", prompt.get("system_instruction")))
        reasoning = () if target == case["provider"] else ("sig-abc",)  # stays with its provider
        missing = [kept for kept in case["must_keep"] if kept not in text]
        assert [kept for kept in missing if kept not in reasoning] == [], target


@pytest.mark.parametrize("case", [c for c in cases() if "collapse_to_calls" in c.values[0]])
def test_a_retried_call_collapses_on_request(case: dict[str, Any]) -> None:
    """With `collapse="failed"` one call is left, with the real result."""
    repaired = repair_messages(case["input"], case["provider"], collapse="failed")
    calls = json.dumps(repaired.messages).count('"tool_use"')
    assert calls == case["collapse_to_calls"]
    assert all(kept in whole(repaired.messages, None) for kept in case["must_keep"])
    assert validate(repaired.messages, case["provider"]) == []


def reported() -> list[Any]:
    """Return the histories that users reported as refused, each with what must become of it."""
    return [
        pytest.param(case, id=case["id"])
        for case in json.loads(HISTORIES_OF_REPORTS.read_text("utf-8"))["cases"]
    ]


@pytest.mark.parametrize("case", reported())
def test_a_reported_history_is_repaired(case: dict[str, Any]) -> None:
    """The history breaks no rule, keeps what must stay, says nothing wrong, and stays as it is."""
    given, model = copy.deepcopy(case["input"]), case.get("model")
    found = validate(given, case["provider"], model=model)
    assert bool(found) is not case["input_valid"]
    repaired = repair_messages(given, case["provider"], model=model)
    assert given == case["input"]
    assert validate(repaired.messages, case["provider"], model=model) == []
    text = whole(repaired.messages, repaired.system)
    assert [kept for kept in case["must_keep"] if kept not in text] == []
    assert [wrong for wrong in case["must_not"] if re.search(wrong, text)] == []
    again = repair_messages(repaired.messages, case["provider"], model=model)
    assert again.messages == repaired.messages
    for condition in case["also"]:
        assert CONDITIONS[condition](case["input"], repaired.messages), condition


CONDITIONS: dict[str, Callable[[list[Any], list[Any]], bool]] = {
    "same": lambda given, repaired: repaired == given,
    "item_id_64": lambda _, repaired: all(len(item.get("id") or "") <= 64 for item in repaired),
    "args_object": lambda _, repaired: all(
        isinstance(json.loads(call["function"]["arguments"]), dict)
        for message in repaired
        for call in message.get("tool_calls") or ()
    ),
    "ends_with_user": lambda _, repaired: repaired[-1]["role"] == "user",
    "marks_4": lambda _, repaired: json.dumps(repaired).count("cache_control") <= 4,
    "no_assistant_query": lambda _, repaired: (
        "QUERY" not in json.dumps([each for each in repaired if each["role"] == "assistant"])
    ),
    "reasoning_said": lambda _, repaired: all(
        message.get("reasoning_content") for message in repaired if message["role"] == "assistant"
    ),
    "no_user_after_tool": lambda _, repaired: (
        ("tool", "user") not in set(pairwise(message["role"] for message in repaired))
    ),
    "first_signed": lambda _, repaired: all(
        next(part for part in content["parts"] if "functionCall" in part)["thoughtSignature"]
        for content in repaired
        if any("functionCall" in part for part in content["parts"])
    ),
}
"""What else must hold of a repaired history, by the name that the file gives it."""
