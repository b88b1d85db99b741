"""Broken histories by the thousand: a generator that is independent of the repair.

It first writes a history as a loop would, then damages it: messages are dropped, doubled, moved and
changed.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

Message = Any
NAMES = ["get_weather", "read", "lookup.v2", "", "x" * 80, "naïve tool", "write-file"]
IDS = ["call_1", "call_2", "call_3", "toolu_1", "", "functions.get:0", "a" * 70, "id|fc", "é", None]
TEXTS = ["12C", "", " ", "\n", "ERROR timeout", "höh", "𝄞", "null", "{}", '{"error": "x"}', "\x00"]
JUNK: list[Any] = [
    None,
    0,
    1.5,
    True,
    [],
    {},
    "",
    "text",
    [None],
    [1],
    {"a": 1},
    [[]],
    float("nan"),
    "\ud800",
    10**30,
    {"role": "user"},
    {"type": "text"},
    [{"type": "text"}],
    {"content": "x"},
    object(),
    {1: 2},
    b"bytes",
    [{"type": "text", "text": ""}],
    {"type": "tool_use"},
]


def arguments(rng: random.Random) -> Any:
    """Return the arguments of a call, mostly an object."""
    return rng.choice([{"city": "Oslo"}, {"city": "Rome"}, {}, {"n": 1.0, "deep": {"b": [1]}}])


def openai(rng: random.Random) -> list[Message]:
    """Return a damaged history in OpenAI's form."""
    messages: list[Message] = []
    if rng.random() < 0.3:
        messages.append({"role": rng.choice(["system", "developer"]), "content": "be brief"})
    for turn in range(rng.randint(0, 5)):
        messages.append({"role": "user", "content": f"question {turn}"})
        for step in range(rng.randint(0, 3)):
            ids = [f"call_{rng.choice([turn, step, 'x'])}_{n}" for n in range(rng.randint(1, 3))]
            calls = [
                {
                    "id": i,
                    "type": "function",
                    "function": {"name": rng.choice(NAMES[:2]), "arguments": _text(rng)},
                }
                for i in ids
            ]
            content = rng.choice([None, "", "looking"])
            messages.append({"role": "assistant", "content": content, "tool_calls": calls})
            messages += [
                {"role": "tool", "tool_call_id": i, "content": rng.choice(TEXTS)} for i in ids
            ]
        messages.append({"role": "assistant", "content": f"answer {turn}"})
    return damage(rng, messages, _mangle_openai)


def _text(rng: random.Random) -> Any:
    return rng.choice(
        [
            '{"city": "Oslo"}',
            "{}",
            "",
            "not json",
            "[1]",
            "null",
            '{"a": NaN}',
            '{"a": 1',
            '{"city":"Rome"}',
            '"text"',
        ]
    )


def _mangle_openai(rng: random.Random, message: Message) -> Message:
    if not isinstance(message, dict):
        return rng.choice(JUNK)
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls and rng.random() < 0.7:
        call = rng.choice(calls)
        if isinstance(call, dict):
            kind = rng.randrange(8)
            function = call.get("function")
            if kind == 0:
                call["id"] = rng.choice(IDS)
            elif kind == 1:
                call.pop("id", None)
            elif kind == 2 and isinstance(function, dict):
                function["name"] = rng.choice([*NAMES, *JUNK])
            elif kind == 3 and isinstance(function, dict):
                function["arguments"] = rng.choice([*JUNK, arguments(rng)])
            elif kind == 4:
                message["tool_calls"] = rng.choice([[], None, *JUNK])
            elif kind == 5:
                call["function"] = rng.choice(JUNK)
            elif kind == 6:
                calls.append(copy.copy(call))
            else:
                calls[0] = rng.choice(JUNK)
        return message
    field = rng.choice(["role", "content", "tool_call_id", "name", "extra", "function_call"])
    if field == "tool_call_id":
        message[field] = rng.choice([*IDS, *JUNK])
    elif field == "role":
        message[field] = rng.choice(["tool", "user", "assistant", "system", "function", *JUNK])
    elif rng.random() < 0.3:
        message.pop(field, None)
    else:
        message[field] = rng.choice([*JUNK, *TEXTS])
    return message


def anthropic(rng: random.Random) -> list[Message]:
    """Return a damaged history in Anthropic's form."""
    messages: list[Message] = []
    if rng.random() < 0.2:
        messages.append({"role": "system", "content": "be brief"})
    for turn in range(rng.randint(0, 5)):
        question = f"question {turn}"
        content: Any = question if rng.random() < 0.5 else [{"type": "text", "text": question}]
        messages.append({"role": "user", "content": content})
        for step in range(rng.randint(0, 3)):
            ids = [f"toolu_{rng.choice([turn, step, 'x'])}_{n}" for n in range(rng.randint(1, 3))]
            blocks: list[Any] = []
            if rng.random() < 0.3:
                blocks.append({"type": "thinking", "thinking": "hm", "signature": "sig"})
            if rng.random() < 0.3:
                blocks.append({"type": "text", "text": "looking"})
            if rng.random() < 0.2:
                blocks += _served(rng, f"srvtoolu_{turn}")
            blocks += [
                {"type": "tool_use", "id": i, "name": "get_weather", "input": arguments(rng)}
                for i in ids
            ]
            messages.append({"role": "assistant", "content": blocks})
            results: list[Any] = [_anthropic_result(rng, i) for i in ids]
            if rng.random() < 0.3:
                results.append({"type": "text", "text": "go on"})
            if rng.random() < 0.3:
                messages += [{"role": "user", "content": [block]} for block in results]
            else:
                messages.append({"role": "user", "content": results})
        messages.append({"role": "assistant", "content": f"answer {turn}"})
    return damage(rng, messages, _mangle_anthropic)


def _served(rng: random.Random, call_id: str) -> list[Any]:
    """Return a call that the provider's own servers run, and mostly its result."""
    call = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"q": "x"}}
    result = {
        "type": "web_search_tool_result",
        "tool_use_id": call_id,
        "content": [{"type": "hit"}],
    }
    return [call, result][: rng.randint(1, 3)]


def _anthropic_result(rng: random.Random, call_id: str) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    text = rng.choice(TEXTS)
    form = rng.randrange(4)
    if form == 0:
        block["content"] = [{"type": "text", "text": text}]
    elif form < 3:
        block["content"] = text
    if rng.random() < 0.3:
        block["is_error"] = rng.choice([True, False])
    return block


def _mangle_anthropic(rng: random.Random, message: Message) -> Message:
    if not isinstance(message, dict):
        return rng.choice(JUNK)
    content = message.get("content")
    if isinstance(content, list) and content and rng.random() < 0.8:
        block = rng.choice(content)
        kind = rng.randrange(9)
        if kind == 0:
            rng.shuffle(content)
        elif kind == 1:
            content.append(copy.deepcopy(block) if isinstance(block, dict) else block)
        elif kind == 2:
            content.remove(block)
        elif kind == 3:
            content[0] = rng.choice(JUNK)
        elif isinstance(block, dict):
            field = rng.choice(
                [*block, "id", "tool_use_id", "input", "content", "is_error", "text"]
            )
            if rng.random() < 0.2:
                block.pop(field, None)
            elif field in ("id", "tool_use_id"):
                block[field] = rng.choice([*IDS, *JUNK])
            else:
                block[field] = rng.choice([*JUNK, *TEXTS, *NAMES])
        return message
    field = rng.choice(["role", "content", "extra"])
    if field == "role":
        message[field] = rng.choice(["user", "assistant", "system", "tool", *JUNK])
    else:
        message[field] = rng.choice([*JUNK, *TEXTS])
    return message


def damage(
    rng: random.Random, messages: list[Message], mangle: Callable[[random.Random, Message], Message]
) -> list[Message]:
    """Damage the history in up to six places."""
    for _ in range(rng.randint(0, 6)):
        if not messages:
            messages.append(rng.choice(JUNK))
            continue
        place = rng.randrange(len(messages))
        kind = rng.randrange(7)
        if kind == 0:
            del messages[place]
        elif kind == 1:
            messages.insert(rng.randint(0, len(messages)), copy.copy(messages[place]))
        elif kind == 2:
            messages.insert(rng.randint(0, len(messages)), messages.pop(place))
        elif kind == 3:
            del messages[place:]
        elif kind == 4:
            del messages[: place // 2]
        else:
            messages[place] = mangle(rng, copy.deepcopy(messages[place]))
    return messages
