"""What a log shows otherwise than it came has a name, and what a provider accepts stays."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import Conversation, validate
from eventstore.providers import list_key
from projections import model_history, repair_messages


def use(name: str, call_id: str) -> dict[str, Any]:
    """Return an assistant message with a call."""
    call = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"role": "assistant", "content": [call]}


def found(call_id: str) -> dict[str, Any]:
    """Return the result of a search for tools."""
    content = [{"type": "tool_reference", "tool_name": "look_up"}]
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def result(call_id: str) -> dict[str, Any]:
    """Return a result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": "R"}


def user(*blocks: Any) -> dict[str, Any]:
    """Return a user message."""
    return {"role": "user", "content": list(blocks)}


ASK = {"role": "user", "content": "q"}


def signed(name: str, call_id: str) -> dict[str, Any]:
    """Return a content of Gemini's with a call."""
    call = {"functionCall": {"id": call_id, "name": name, "args": {}}, "thoughtSignature": "c2ln"}
    return {"role": "model", "parts": [call]}


def response(name: str, call_id: str) -> dict[str, Any]:
    """Return the part that answers it."""
    return {"functionResponse": {"id": call_id, "name": name, "response": {"output": "R"}}}


TOGETHER: Any = {
    "anthropic": [ASK, use("f", "a"), use("g", "b"), user(result("a"), result("b"))],
    "gemini": [
        {"role": "user", "parts": [{"text": "q"}]},
        signed("f", "a"),
        signed("g", "b"),
        {"role": "user", "parts": [response("f", "a"), response("g", "b")]},
    ],
}


@pytest.mark.parametrize("provider", sorted(TOGETHER))
def test_calls_of_two_messages_that_are_answered_together_are_parted_by_name(
    chat: Conversation, provider: Any
) -> None:
    """The log shows each result behind its call, and says that it moved."""
    chat.record_messages(TOGETHER[provider], provider)
    history = model_history(chat.events())
    shown, repairs = history.rendered(provider)
    assert validate(shown[list_key(provider)], provider) == []
    assert len(shown[list_key(provider)]) == 5
    assert [(each.what, each.rule, each.call_id) for each in repairs] == [
        ("moved", "late-result", "a")
    ]
    listed = repair_messages(TOGETHER[provider], provider).repairs
    assert [each.rule for each in listed].count("late-result") <= 1


def test_a_result_that_follows_its_call_has_not_moved(chat: Conversation) -> None:
    """Neither has one that the log got from a dispatcher, whatever was said before."""
    chat.record_messages([ASK, use("f", "a"), user(result("a")), use("g", "b")], "anthropic")
    chat.add_message("user", "Hold on.")
    call = chat.request("h", {})
    chat.add_message("user", "And?")
    attempt = chat.start(call.id)
    assert attempt is not None
    chat.complete(call.id, "R")
    assert {each.rule for each in model_history(chat.events()).repairs} == {"open-call"}


def test_a_search_for_tools_may_have_an_id_of_an_earlier_turn(chat: Conversation) -> None:
    """Anthropic answers that: the id stays in the log's prompt, as a list's repair leaves it."""
    given = [ASK, use("load", "x"), user(result("x")), use("search", "x"), user(found("x")), ASK]
    assert validate(given, "anthropic") == []
    chat.record_messages(given, "anthropic")
    shown, repairs = model_history(chat.events()).rendered("anthropic")
    assert (shown["messages"], repairs) == (given, [])
    other = [ASK, use("load", "x"), user(result("x")), use("f", "x"), user(result("x")), ASK]
    assert [each.rule for each in repair_messages(other, "anthropic").repairs] == ["id"]


def test_a_message_that_is_not_in_its_form_is_named(chat: Conversation) -> None:
    """The log keeps it as it came, and its prompt says that it was rewritten."""
    blank = {"role": "user", "content": [{"text": "q"}, {"text": " "}]}
    chat.record_messages([blank], "bedrock")
    shown, repairs = model_history(chat.events()).rendered("bedrock")
    assert shown["messages"] == [{"role": "user", "content": [{"text": "q"}]}]
    assert [(each.what, each.rule) for each in repairs] == [("rewritten", "form")]
    assert [each.rule for each in repair_messages([blank], "bedrock").repairs] == ["form"]
