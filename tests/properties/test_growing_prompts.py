"""A log grows event by event: each request begins with the one before, or a reason is told.

Calls fail and are tried again, answers come late, people approve, edit and reject, and servers run
tools of their own. `TOOLLEDGER_LONG=1` grows many more.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from support.tiers import rounds

from eventstore import Conversation, EventStore
from eventstore.providers import PROVIDERS
from projections import cache_breaks

LOGS = rounds(20, 500)


def anthropic_turn(rng: random.Random, number: int) -> list[Any]:
    """Return a turn that thinks, runs tools of the server, and calls."""
    thought = {"type": "thinking", "thinking": f"t{number}", "signature": f"s{number}"}
    served = {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search"}
    found = {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": []}
    said = [thought, {"type": "text", "text": f"I look {number}"}]
    content = [block for block in said if rng.random() < 0.6]
    content += rng.choice([[], [], [{**served, "input": {"query": "q"}}, found]])
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name, "input": arguments}
        for place, (name, arguments) in enumerate(asked(rng))
    ]
    return [{"role": "assistant", "content": content + calls}]


def openai_turn(rng: random.Random, number: int) -> list[Any]:
    """Return a turn that calls."""
    calls = [
        {
            "id": f"c{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": msgspec.json.encode(arguments).decode()},
        }
        for place, (name, arguments) in enumerate(asked(rng))
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}]


def gemini_turn(rng: random.Random, number: int) -> list[Any]:
    """Return a turn that thinks and calls, the first call signed."""
    calls: list[Any] = [
        {"functionCall": {"name": name, "args": arguments}} for name, arguments in asked(rng)
    ]
    calls[0]["thoughtSignature"] = "c2ln"
    return [{"role": "model", "parts": [{"text": f"hm {number}", "thought": True}, *calls]}]


def responses_turn(rng: random.Random, number: int) -> list[Any]:
    """Return the items of a turn that thinks and calls."""
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "e"}
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{number}_{place}",
            "call_id": f"call_{number}_{place}",
            "name": name,
            "arguments": msgspec.json.encode(arguments).decode(),
        }
        for place, (name, arguments) in enumerate(asked(rng))
    ]
    return [thought, *calls] if rng.random() < 0.6 else calls


TURNS = {
    "anthropic": anthropic_turn,
    "gemini": gemini_turn,
    "openai": openai_turn,
    "openai-responses": responses_turn,
}


def asked(rng: random.Random) -> list[tuple[str, dict[str, int]]]:
    """Return names and arguments of few kinds, so that calls repeat."""
    return [
        (rng.choice(["get", "set"]), {"x": rng.randint(0, 2)}) for _ in range(rng.choice((1, 2)))
    ]


def grow(chat: Conversation, rng: random.Random, provider: Any) -> None:
    """Append what happens in a conversation, in random order."""
    chat.add_message("user", "q")
    waiting: list[str] = []
    for number in range(rng.randint(3, 14)):
        what = rng.random()
        if what < 0.35:
            chat.add_message(rng.choice(["user", "user", "assistant", "system"]), f"m{number}")
        elif what < 0.75:
            for message in TURNS[provider](rng, number):
                tools = chat.record(message, provider)
                waiting += [tool.id for tool in tools if not end(chat, rng, tool.id)]
        elif waiting:
            end_late(chat, rng, waiting.pop(rng.randrange(len(waiting))))


def end(chat: Conversation, rng: random.Random, call_id: str) -> bool:
    """Let a call end at once, after retries; return whether it has."""
    what = rng.random()
    if what < 0.1:
        chat.reject(call_id, "no")
    elif what > 0.75:
        return False
    else:
        chat.start(call_id)
        if what < 0.4:
            chat.fail(call_id, "timeout")
        if what > 0.3:
            if what < 0.4:
                chat.start(call_id)
            chat.complete(call_id, f"done {call_id}")
    return True


def end_late(chat: Conversation, rng: random.Random, call_id: str) -> None:
    """Decide on a call, and let it end, turns later."""
    if rng.random() < 0.3:
        chat.reject(call_id, "late no")
        return
    if rng.random() < 0.5:
        chat.approve(call_id, edited_arguments=rng.choice([None, {"x": 9}]))
    chat.start(call_id)
    if rng.random() < 0.7:
        chat.complete(call_id, "late")
    else:
        chat.fail(call_id, "late timeout")


@pytest.mark.parametrize("options", [{}, {"collapse": "none"}, {"prefill": True}], ids=str)
def test_each_break_of_a_growing_prompt_has_a_reason(options: dict[str, Any]) -> None:
    """Where a request begins otherwise than the one before it, `cache_breaks` says what changed."""
    found = 0
    providers: list[Any] = sorted(PROVIDERS)
    for number in range(LOGS):
        rng = random.Random(number)
        with EventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            grow(chat, rng, rng.choice(sorted(TURNS)))
            events = list(chat.events())
        for provider in providers:
            breaks = cache_breaks(events, provider, **options)
            assert [each for each in breaks if not each.repairs] == [], (number, provider)
            found += len(breaks)
    assert found > 0
