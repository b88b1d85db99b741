"""Marks for a provider's cache: where they stand, and that nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from eventstore import Conversation, Toolbox, validate
from eventstore.providers import PROVIDERS
from projections import model_history

MARKING = ("anthropic", "bedrock")
NEW = {"anthropic": {"type": "ephemeral"}, "bedrock": {"type": "default"}}


def talk(chat: Conversation, rounds: int) -> Iterator[None]:
    """Add rounds of a question, a call, its result and an answer; yield before each request."""
    chat.add_message("system", "Be brief.")
    for number in range(rounds):
        chat.add_message("user", f"Question {number}?")
        yield
        call = chat.request("search", {"q": number})
        chat.start(call.id)
        chat.complete(call.id, {"hits": number})
        yield
        chat.add_message("assistant", f"Answer {number}.")


def marked(message: dict[str, Any]) -> bool:
    """Return whether a message carries a mark."""
    return "cache_control" in json.dumps(message) or "cachePoint" in json.dumps(message)


def bare(value: Any) -> Any:
    """Return a value without marks; a list of one text is the text."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if key != "cache_control"}
    if not isinstance(value, list):
        return value
    found = [bare(item) for item in value if "cachePoint" not in item]
    plain = len(found) == 1 and isinstance(found[0], dict) and found[0].keys() == {"type", "text"}
    return found[0]["text"] if plain and found[0]["type"] == "text" else found


@pytest.mark.parametrize("provider", MARKING)
def test_each_request_is_marked_where_the_next_one_goes_on(
    chat: Conversation, provider: Any
) -> None:
    """Each request is marked at its end, and where the one before it ended; tools have a place."""
    before = None
    for _ in talk(chat, 4):
        history = model_history(chat.events())
        shown = history.render(provider, cache=True)
        plain = history.render(provider)
        assert validate(shown["messages"], provider) == []
        assert bare(shown) == bare(plain)
        places = [n for n, message in enumerate(shown["messages"]) if marked(message)]
        last = len(shown["messages"]) - 1
        assert places == ([last] if before is None else [before, last])
        assert json.dumps(shown).count(f": {json.dumps(NEW[provider])}") == len(places) + 1
        assert marked(shown["system"])
        assert not marked(plain)
        before = last


@pytest.mark.parametrize("provider", MARKING)
def test_marks_of_messages_give_way(chat: Conversation, provider: Any) -> None:
    """Marks of the messages would take the places of those that the next request needs."""
    old: dict[str, Any] = {"cachePoint": {"type": "default"}}
    if provider == "anthropic":
        old = {"type": "text", "text": "Now.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    text = {"type": "text", "text": "Hello."} if provider == "anthropic" else {"text": "Hello."}
    answer = {"role": "assistant", "content": [text]}
    for _ in range(5):
        chat.record_messages([{"role": "user", "content": [text, old]}, answer], provider=provider)
    chat.add_message("user", "Go on.")
    history = model_history(chat.events())
    kept = sum(map(marked, history.render(provider)["messages"]))
    shown = history.render(provider, cache=True)["messages"]
    assert (kept, [n for n, message in enumerate(shown) if marked(message)]) == (4, [8, 10])
    assert "1h" not in json.dumps(shown)
    assert history.render(provider)["messages"][8]["content"][-1] == old


@pytest.mark.parametrize("provider", sorted(set(PROVIDERS) - set(MARKING)))
def test_other_providers_need_no_marks(chat: Conversation, provider: Any) -> None:
    """The request is the same."""
    for _ in talk(chat, 2):
        history = model_history(chat.events())
        assert history.render(provider, cache=True) == history.render(provider)


def find_order(number: int) -> int:
    """Find an order."""
    return number


def refund(number: int) -> int:
    """Refund an order."""
    return number


def test_tools_are_marked_at_their_end() -> None:
    """The mark covers all of them; without tools there is nothing to mark."""
    toolbox = Toolbox([find_order, refund])
    first, second = toolbox.schemas("anthropic", cache=True)
    assert (marked(first), second["cache_control"]) == (False, NEW["anthropic"])
    assert toolbox.schemas("bedrock", cache=True)[2:] == [{"cachePoint": NEW["bedrock"]}]
    assert toolbox.schemas("openai", cache=True) == toolbox.schemas("openai")
    for provider in PROVIDERS:
        assert not marked({"tools": toolbox.schemas(provider)})
        assert Toolbox([]).schemas(provider, cache=True) == Toolbox([]).schemas(provider)
