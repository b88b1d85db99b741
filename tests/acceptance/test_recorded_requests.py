"""Real requests with the provider's answer: an accepted one stays unchanged and can be moved."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from support.tiers import sampled
from support.transcripts import REQUESTS

from eventstore import validate
from eventstore.providers import PROVIDERS
from projections import repair_messages

SPOKEN = {
    "openai_compatible": "openai",
    "openai_responses": "openai-responses",
    "openai_responses_compatible": "openai-responses",
}
"""Whose form a request has, where that is not the provider's own name."""

QUICK_REQUESTS = 20
"""Accepted requests that the quick tier renders for every other provider."""

LISTS = ("messages", "contents", "input")
OUR_FAULT = re.compile(
    r"tool_use|tool_result|tool_call|toolUse|toolResult|function call|function response"
    r"|thought_signature|reasoning|Duplicate|Tool call|tool output|call_id",
    re.IGNORECASE,
)
"""What a refusal speaks of when the history is its reason: not a link, a model or a key."""


def requests(*, accepted: bool) -> list[Any]:
    """Return the recorded requests that a provider accepted, or refused for their history."""
    lines = REQUESTS.read_text("utf-8").splitlines()
    found = []
    for line in map(json.loads, lines):
        name = SPOKEN.get(line["provider"], line["provider"])
        refused = line["status"] != 200 and OUR_FAULT.search(json.dumps(line["error"]))
        if name in PROVIDERS and (line["status"] == 200 if accepted else refused):
            key = next(key for key in LISTS if key in line)
            short = line["source"].removeprefix("tests__cassettes__test_")
            found.append(pytest.param(name, line[key], id=short))
    return found


@pytest.mark.parametrize(("provider", "messages"), requests(accepted=True))
def test_an_accepted_request_is_valid_and_comes_back_equal(
    provider: str, messages: list[Any]
) -> None:
    """No hard rule refuses what the provider took, and nothing about it is repaired."""
    given = copy.deepcopy(messages)
    assert [found for found in validate(given, provider) if found.level == "hard"] == []
    repaired = repair_messages(given, provider)
    assert (repaired.messages, repaired.repairs) == (messages, [])
    assert given == messages


@pytest.mark.parametrize(("provider", "messages"), sampled(requests(accepted=True), QUICK_REQUESTS))
def test_an_accepted_request_is_valid_for_every_other_provider(
    provider: str, messages: list[Any]
) -> None:
    """Rendered for any provider it breaks no rule, hard or strict, and repairing is idempotent."""
    given = copy.deepcopy(messages)
    for target in PROVIDERS:
        repaired = repair_messages(given, provider, target)
        if target != provider:
            assert validate(repaired.messages, target) == [], target
        again = repair_messages(repaired.messages, target)
        assert again.messages == repaired.messages, target
    assert given == messages


NONE = pytest.param("", [], marks=pytest.mark.skip(reason="no history was refused in that file"))


@pytest.mark.parametrize(("provider", "messages"), requests(accepted=False) or [NONE])
def test_a_history_that_was_refused_is_flagged(provider: str, messages: list[Any]) -> None:
    """The linter reports what the provider then refused."""
    assert [found for found in validate(messages, provider) if found.level == "hard"]
