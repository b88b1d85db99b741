"""A call of one turn with two results, one of them a failure: both are told, on every wire."""

from __future__ import annotations

from typing import Any

import pytest
from support.provider_histories import FORMS

from eventstore import Conversation, EventStore, validate
from eventstore.providers import PROVIDERS, list_key
from projections import model_history, repair_messages

WIRES = sorted(set(PROVIDERS) - {"ollama"})
"""Ollama has no ids that two results could share."""


def failing(provider: str, results: list[Any]) -> list[Any]:
    """Return results as failures that say BAD."""
    if provider in ("anthropic", "bedrock", "gemini"):
        blocks = results[0]["parts" if provider == "gemini" else "content"]
        if provider == "anthropic":
            blocks[0].update(content="BAD", is_error=True)
        elif provider == "bedrock":
            blocks[0]["toolResult"].update(content=[{"text": "BAD"}], status="error")
        else:
            blocks[0]["functionResponse"]["response"] = {"error": "BAD"}
        return results
    member = "output" if provider == "openai-responses" else "content"
    return [{**results[0], member: '{"error":"BAD"}'}]


def count(messages: list[Any], word: str) -> int:
    """Return how often a word stands in messages."""
    return repr(messages).count(word)


@pytest.mark.parametrize("order", ["failure first", "failure last"])
@pytest.mark.parametrize("provider", WIRES)
def test_a_failure_and_a_success_of_one_call_are_both_shown(
    store: EventStore, provider: Any, order: str
) -> None:
    """The first result but a failure stays the result, the other is text, and that is named."""
    form = FORMS[provider]
    asked, good = form.exchange(["call_1aaa"])
    bad = failing(provider, form.exchange(["call_1aaa"])[1])
    results = [*bad, *good] if order == "failure first" else [*good, *bad]
    given = [*form.opening, *asked, *results]
    repaired = repair_messages(given, provider)
    assert validate(repaired.messages, provider) == []
    assert count(repaired.messages, "BAD") == 1
    assert "two-results" in {repair.rule for repair in repaired.repairs}
    once_more = repair_messages(repaired.messages, provider)
    assert (once_more.messages, once_more.repairs) == (repaired.messages, [])

    at_once, one_by_one = store.conversation("at once"), store.conversation("one by one")
    at_once.record_messages(given, provider)
    for message in given:
        one_by_one.record_messages([message], provider)
    for chat in (at_once, one_by_one):
        shown, repairs = model_history(chat.events()).rendered(provider)
        assert shown[list_key(provider)] == repaired.messages
        assert ("wrapped", "orphan") in {(repair.what, repair.rule) for repair in repairs}


def test_an_attempt_that_failed_here_is_replaced(chat: Conversation) -> None:
    """The log knows of the attempt, and the model reads its result alone."""
    call = chat.request("f", {})
    attempt = chat.start(call.id)
    assert attempt is not None
    chat.fail(call.id, ValueError("BAD"))
    chat.record_messages([{"role": "tool", "tool_call_id": call.id, "content": "GOOD"}], "openai")
    shown = model_history(chat.events()).render("openai")["messages"]
    assert (count(shown, "GOOD"), count(shown, "BAD")) == (1, 0)
