"""What the client of OpenAI Responses runs, in any order and with any damage."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from eventstore import EventStore, validate
from eventstore.providers.validation import is_valid
from projections import model_history, repair_messages

Item = dict[str, Any]
OURS: Any = "openai-responses"
PROGRAM = {"type": "program", "caller_id": "prog_1"}
DONE = {"type": "exit", "exit_code": 0}
PAIRS: list[tuple[Item, Item]] = [
    (
        {"type": "shell_call", "action": {"commands": ["make"]}, "caller": PROGRAM},
        {
            "type": "shell_call_output",
            "output": [{"stdout": "R", "stderr": "", "outcome": DONE}],
            "caller": PROGRAM,
        },
    ),
    (
        {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "local_shell_call_output", "output": "R"},
    ),
    (
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "status": "completed", "output": "R"},
    ),
    (
        {"type": "computer_call", "action": {"type": "wait"}, "pending_safety_checks": []},
        {
            "type": "computer_call_output",
            "output": {"type": "computer_screenshot", "image_url": "https://example.com/a.png"},
        },
    ),
    (
        {"type": "tool_search_call", "execution": "client", "arguments": {"q": "x"}},
        {"type": "tool_search_output", "execution": "client", "tools": []},
    ),
    (
        {
            "type": "mcp_approval_request",
            "name": "f",
            "server_label": "s",
            "arguments": "{}",
        },
        {"type": "mcp_approval_response", "approve": True},
    ),
    (
        {"type": "function_call", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "output": "R"},
    ),
]
JUNK: list[Any] = [None, 7, "x", [], {}, [{"a": 1}], "y" * 80, {"type": "exec"}]


def says(role: str = "user") -> Item:
    """Return a message."""
    return {"role": role, "content": "hello"}


def pair(rng: random.Random, number: int) -> tuple[Item, Item]:
    """Return a call with an id of its own, and its output."""
    called, answered = copy.deepcopy(rng.choice(PAIRS))
    call_id = f"call_{number}"
    if called["type"] == "mcp_approval_request":
        return called | {"id": call_id}, answered | {"approval_request_id": call_id}
    if called["type"] != "function_call":
        called["id"] = f"x_{number}"
    key = "id" if called["type"] == "local_shell_call" else "call_id"
    return called | {"call_id": call_id}, answered | {key: call_id}


def damage(rng: random.Random, items: list[Item]) -> None:
    """Take something out, twice, elsewhere or into another form."""
    place = rng.randrange(len(items))
    key = rng.choice(list(items[place]))
    match rng.randrange(6):
        case 0:
            del items[place]
        case 1:
            items.insert(place, copy.deepcopy(items[place]))
        case 2:
            rng.shuffle(items)
        case 3:
            items.insert(place, says(rng.choice(["user", "assistant"])))
        case 4:
            items[place][key] = rng.choice(JUNK)
        case _:
            items[place].pop(key)


def history(rng: random.Random) -> list[Item]:
    """Return a damaged history."""
    items = [says()]
    for turn in range(rng.randint(1, 3)):
        if rng.random() < 0.4:
            items.append({"type": "reasoning", "id": f"rs_{turn}", "summary": []})
        pairs = [pair(rng, 10 * turn + number) for number in range(rng.randint(1, 3))]
        said = [called for called, _ in pairs] + [answered for _, answered in pairs]
        for _ in range(rng.randint(0, 3)):
            if said:
                damage(rng, said)
        items += said
    return [*items, says()]


@pytest.mark.parametrize("seed", range(80))
def test_any_history_is_mended_once_and_valid_everywhere(seed: int) -> None:
    """A valid one stays; the log renders a valid input, too."""
    items = history(random.Random(seed))
    given = json.dumps(items)
    repaired = repair_messages(items, OURS)
    assert json.dumps(items) == given
    assert is_valid(repaired.messages, OURS)
    again = repair_messages(repaired.messages, OURS)
    assert (again.messages, again.repairs) == (repaired.messages, [])
    assert (repaired.messages == items) == is_valid(items, OURS)
    assert bool(repaired.repairs) == (repaired.messages != items)
    for other in ("anthropic", "gemini", "openai"):
        assert validate(repair_messages(items, OURS, other).messages, other) == []
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(items, OURS)
        assert validate(model_history(chat.events()).render(OURS)["input"], OURS) == []
