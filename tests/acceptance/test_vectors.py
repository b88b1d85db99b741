"""The hand-made histories of the shared specification, repaired for every provider."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from eventstore import EventStore, validate
from eventstore.wire import PROVIDERS, list_key
from projections import model_history, repair_messages

VECTORS = Path(__file__).resolve().parents[2].parent / "shared" / "spec" / "histories.json"

pytestmark = pytest.mark.skipif(not VECTORS.exists(), reason=f"{VECTORS.name} is not there")


def cases() -> list[Any]:
    """The vectors of the providers that we speak."""
    if not VECTORS.exists():
        return []
    found = json.loads(VECTORS.read_text())["cases"]
    return [pytest.param(c, id=c["id"]) for c in found if c["provider"] in PROVIDERS]


def whole(messages: list[Any], system: Any) -> str:
    """Everything that the model reads, as text."""
    return json.dumps([messages, system], ensure_ascii=False)


@pytest.mark.parametrize("case", cases())
def test_a_vector_is_repaired(case: dict[str, Any]) -> None:
    """No rule broken, hard or strict; what must stay stays; valid input equal; idempotent."""
    given = copy.deepcopy(case["input"])
    repaired = repair_messages(given, case["provider"])
    assert given == case["input"]
    assert validate(repaired.messages, case["provider"]) == []
    text = whole(repaired.messages, repaired.system)
    assert [kept for kept in case["must_keep"] if kept not in text] == []
    if case["input_valid"] and not case["breaks"]:
        assert repaired.messages == given
        assert repaired.repairs == []
    elif repaired.messages != given:
        assert repaired.repairs or case["input_valid"]
    again = repair_messages(repaired.messages, case["provider"])
    assert again.messages == repaired.messages


@pytest.mark.parametrize("target", sorted(PROVIDERS))
@pytest.mark.parametrize("case", cases())
def test_a_vector_goes_through_the_log_to_any_provider(case: dict[str, Any], target: str) -> None:
    """Recorded, read back and rendered for any provider: valid, and what must stay stays."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation(case["id"])
        chat.record_messages(case["input"], case["provider"])
        prompt = model_history(chat.events(), collapse="none").render(target)
    messages = prompt[list_key(target)]
    assert validate(messages, target) == []
    text = whole(messages, prompt.get("system", prompt.get("system_instruction")))
    reasoning = () if target == case["provider"] else ("sig-abc",)  # stays with its provider
    missing = [kept for kept in case["must_keep"] if kept not in text]
    assert [kept for kept in missing if kept not in reasoning] == []


@pytest.mark.parametrize("case", [c for c in cases() if "collapse_to_calls" in c.values[0]])
def test_a_retried_call_collapses_on_request(case: dict[str, Any]) -> None:
    """With `collapse="failed"` one call is left, and the real result with it."""
    repaired = repair_messages(case["input"], case["provider"], collapse="failed")
    calls = json.dumps(repaired.messages).count('"tool_use"')
    assert calls == case["collapse_to_calls"]
    assert all(kept in whole(repaired.messages, None) for kept in case["must_keep"])
    assert validate(repaired.messages, case["provider"]) == []
