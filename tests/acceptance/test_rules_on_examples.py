"""The rules applied to hand-made histories, and to real requests and sessions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.transcripts import HISTORIES, REPEATS, REQUESTS, find

from eventstore.providers import PROVIDERS
from eventstore.providers.validation import validate

PREFILL = ("AN18", "BE05")
"""The rule that a request ends with what the model is to answer."""


def cases() -> list[Any]:
    """Return the examples of the formats that have rules."""
    every = json.loads(HISTORIES.read_text(encoding="utf-8"))["cases"]
    ours = [case for case in every if case["provider"] in PROVIDERS]
    return [pytest.param(case, id=f"{case['id']} {case['title']}") for case in ours]


def lines(path: Path) -> list[Any]:
    """Return the objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def transcript(name: str) -> Path:
    """Return the file of a transcript, or skip the test."""
    path = find(name)
    if path is None:
        pytest.skip(f"{name} is not here")
    return path


def accepted_requests() -> list[Any]:
    """Return requests that a provider answered with 200, of the formats that have rules."""
    formats = {"openai": "openai", "openai_compatible": "openai", "anthropic": "anthropic"}
    return [
        pytest.param(formats[request["provider"]], request, id=request["source"])
        for request in lines(REQUESTS)
        if request["provider"] in formats and request["status"] == 200
    ]


def unanswered(messages: list[Any]) -> list[str]:
    """Return the ids of calls that no tool message of the whole session answers."""
    answers = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return [call for call in calls if call not in answers]


@pytest.mark.parametrize("case", cases())
def test_each_example_breaks_the_rules_that_it_is_listed_with(case: dict[str, Any]) -> None:
    """A hand-made history breaks exactly its listed rules; hard ones only when it is invalid.

    That it ends with the assistant's words, which newer models refuse, is not listed.
    """
    every = validate(case["input"], case["provider"])
    violations = [each for each in every if each.code not in PREFILL]
    assert {violation.code for violation in violations} == set(case["breaks"])
    assert any(violation.level == "hard" for violation in violations) is not case["input_valid"]


@pytest.mark.parametrize(("provider", "request_sent"), accepted_requests())
def test_a_request_that_a_provider_accepted_breaks_no_hard_rule(
    provider: str, request_sent: dict[str, Any]
) -> None:
    """A request that was answered with 200 is valid."""
    violations = validate(request_sent["messages"], provider)
    assert [violation for violation in violations if violation.level == "hard"] == []


def test_there_are_accepted_requests_of_both_formats() -> None:
    """The recorded requests hold enough of each format to mean something."""
    counts = Counter(case.values[0] for case in accepted_requests())
    assert counts == {"openai": 30, "anthropic": 27}


@pytest.mark.parametrize("name", ["tau-bench/airline.jsonl", "livemcpbench/sonnet-4.jsonl"])
def test_finished_runs_break_no_rule(name: str) -> None:
    """Runs that ended normally with a real provider are valid, even if they repeat ids."""
    runs = lines(transcript(name))
    assert runs
    assert [run for run in runs if validate(run["messages"], "openai")] == []


def test_a_loop_of_identical_calls_breaks_no_rule() -> None:
    """41 equal calls are a waste, but valid."""
    assert validate(json.loads(REPEATS.read_text(encoding="utf-8")), "openai") == []


@pytest.mark.parametrize(
    ("name", "places", "count"),
    [
        ("before-compaction", [362, 374, 611, 658], 6),
        ("large-session", [29, 215, 724], 18),
    ],
)
def test_aborted_turns_are_found_and_nothing_else(name: str, places: list[int], count: int) -> None:
    """The calls that a person interrupted are named where they were made; the rest is valid."""
    path = transcript(f"pi-sessions/{name}.messages.json")
    messages = json.loads(path.read_text(encoding="utf-8"))
    violations = validate(messages, "openai")
    assert [(each.code, each.place) for each in violations] == [
        ("OA01", f"messages[{index}]") for index in places
    ]
    named = ", ".join(each.message.rpartition(": ")[2] for each in violations).split(", ")
    assert named == unanswered(messages)
    assert len(named) == count
