"""Broken histories in the forms of Mistral, Cohere, Bedrock and Ollama: see `broken_histories`."""

from __future__ import annotations

import copy
import random
from typing import Any

from support.broken_histories import IDS, JUNK, NAMES, TEXTS, arguments, damage

Message = Any
NINE = ["abcDEF123", "000000000", "zzzzzzzz9", "null", "call_1", "abcdefgh", *IDS]
ARGUMENTS = ['{"city": "Oslo"}', "{}", "", "not json", "[1]"]
PIXEL = b"\x89PNG"


def mistral(rng: random.Random) -> list[Message]:
    """Return a damaged history in Mistral's form."""
    return damage(rng, whole_mistral(rng), _mangle_chat)


def whole_mistral(rng: random.Random) -> list[Message]:
    """Return a history as a loop would write it."""
    messages: list[Message] = []
    if rng.random() < 0.3:
        messages.append({"role": "system", "content": "be brief"})
    for turn in range(rng.randint(0, 5)):
        content: Any = rng.choice(
            [
                f"question {turn}",
                [{"type": "text", "text": f"question {turn}"}],
                [
                    {"type": "image_url", "image_url": "https://a.b/c.png"},
                    {"type": "text", "text": "this?"},
                ],
            ]
        )
        messages.append({"role": "user", "content": content})
        for step in range(rng.randint(0, 3)):
            ids = [f"{rng.choice([turn, step, 'x'])}abcdefg{n}" for n in range(rng.randint(1, 3))]
            made = [
                {"id": i, "function": {"name": "read", "arguments": _arguments(rng)}} for i in ids
            ]
            said: Any = rng.choice(["", None, [], "looking", _thoughts("so")])
            messages.append({"role": "assistant", "content": said, "tool_calls": made})
            for i in ids:
                text: Any = rng.choice(TEXTS)
                if rng.random() < 0.2:
                    text = [{"type": "text", "text": text}]
                messages.append({"role": "tool", "tool_call_id": i, "content": text})
        if rng.random() < 0.8:
            said = rng.choice([f"answer {turn}", _thoughts("well")])
            messages.append({"role": "assistant", "content": said, "prefix": rng.random() < 0.1})
    return messages


def _thoughts(text: str) -> list[Any]:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    return [thinking, {"type": "text", "text": text}]


def _arguments(rng: random.Random) -> Any:
    return rng.choice(['{"city": "Oslo"}', "{}", "", "not json", "[1]", arguments(rng)])


def cohere(rng: random.Random) -> list[Message]:
    """Return a damaged history in Cohere's form."""
    return damage(rng, whole_cohere(rng), _mangle_chat)


def whole_cohere(rng: random.Random) -> list[Message]:
    """Return a history as a loop would write it."""
    messages: list[Message] = []
    if rng.random() < 0.3:
        messages.append({"role": "system", "content": "be brief"})
    for turn in range(rng.randint(0, 5)):
        content: Any = rng.choice(
            [
                f"question {turn}",
                [{"type": "text", "text": f"question {turn}"}],
                [
                    {
                        "type": "image_url",
                        "image_url": {"url": "https://a.b/c.png", "detail": "low"},
                    },
                    {"type": "text", "text": "this?"},
                ],
            ]
        )
        messages.append({"role": "user", "content": content})
        for step in range(rng.randint(0, 3)):
            ids = [f"read_{rng.choice([turn, step, 'x'])}{n}" for n in range(rng.randint(1, 3))]
            made = [
                {
                    "id": i,
                    "type": "function",
                    "function": {"name": "read", "arguments": rng.choice(ARGUMENTS)},
                }
                for i in ids
            ]
            said: Message = rng.choice(
                [
                    {},
                    {"tool_plan": "I will look."},
                    {"content": "looking"},
                    {"content": [{"type": "thinking", "thinking": "hm"}]},
                ]
            )
            messages.append({"role": "assistant", **said, "tool_calls": made})
            for i in ids:
                text = rng.choice(TEXTS)
                document = {"data": {"found": text}, "id": f"doc {i}"}
                result = rng.choice(
                    [
                        text,
                        [{"type": "text", "text": text}],
                        [{"type": "document", "document": document}],
                    ]
                )
                messages.append({"role": "tool", "tool_call_id": i, "content": result})
        if rng.random() < 0.8:
            citation = {"start": 0, "end": 3, "text": "ans", "sources": []}
            cited = {"citations": [citation]} if rng.random() < 0.2 else {}
            messages.append({"role": "assistant", "content": f"answer {turn}", **cited})
    return messages


def ollama(rng: random.Random) -> list[Message]:
    """Return a damaged history in Ollama's form."""
    return damage(rng, whole_ollama(rng), _mangle_chat)


def whole_ollama(rng: random.Random) -> list[Message]:
    """Return a history as a loop would write it."""
    messages: list[Message] = []
    if rng.random() < 0.3:
        messages.append({"role": "system", "content": "be brief"})
    for turn in range(rng.randint(0, 5)):
        question: Message = {"role": "user", "content": f"question {turn}"}
        if rng.random() < 0.3:
            question["images"] = rng.choice([["AAE="], [PIXEL], ["no/such.png"]])
        messages.append(question)
        for _ in range(rng.randint(0, 3)):
            names = [rng.choice(["read", "write", "get weather"]) for _ in range(rng.randint(1, 3))]
            made = [{"function": {"name": name, "arguments": arguments(rng)}} for name in names]
            asked = {"role": "assistant", "content": rng.choice(["", None, "looking"])}
            if rng.random() < 0.3:
                asked["thinking"] = "hm"
            messages.append({**asked, "tool_calls": made})
            messages += [
                {"role": "tool", "content": rng.choice(TEXTS), "tool_name": name} for name in names
            ]
        messages.append({"role": "assistant", "content": f"answer {turn}"})
    return messages


def _mangle_chat(rng: random.Random, message: Message) -> Message:
    if not isinstance(message, dict):
        return rng.choice(JUNK)
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls and rng.random() < 0.7:
        call = rng.choice(calls)
        function = call.get("function") if isinstance(call, dict) else None
        kind = rng.randrange(7)
        if not isinstance(call, dict) or kind == 0:
            calls[0] = rng.choice(JUNK)
        elif kind == 1:
            calls.append(copy.copy(call))
        elif kind == 2:
            message["tool_calls"] = rng.choice([[], None, *JUNK])
        elif kind == 3:
            call["id"] = rng.choice([*NINE, *JUNK])
        elif kind == 4:
            call["function"] = rng.choice(JUNK)
        elif isinstance(function, dict):
            function[rng.choice(["name", "arguments"])] = rng.choice([*NAMES, *JUNK])
        return message
    field = rng.choice(
        [
            "role",
            "content",
            "tool_call_id",
            "tool_name",
            "name",
            "prefix",
            "images",
            "thinking",
            "tool_calls",
        ]
    )
    if field == "role":
        message[field] = rng.choice(["tool", "user", "assistant", "system", "function", *JUNK])
    elif rng.random() < 0.3:
        message.pop(field, None)
    else:
        message[field] = rng.choice([*JUNK, *TEXTS, *NINE, [{"type": "text", "text": " "}]])
    return message


def bedrock(rng: random.Random) -> list[Message]:
    """Return a damaged history in Bedrock's form."""
    return damage(rng, whole_bedrock(rng), _mangle_bedrock)


def whole_bedrock(rng: random.Random) -> list[Message]:
    """Return a history as a loop would write it."""
    messages: list[Message] = []
    if rng.random() < 0.1:
        messages.append({"role": "system", "content": [{"text": "be brief"}]})
    for turn in range(rng.randint(0, 5)):
        asked: list[Any] = [{"text": f"question {turn}"}]
        if rng.random() < 0.3:
            asked.append(
                rng.choice(
                    [
                        {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                        {"document": {"format": "txt", "name": "a", "source": {"bytes": b"text"}}},
                        {"cachePoint": {"type": "default"}},
                    ]
                )
            )
        messages.append({"role": "user", "content": asked})
        for step in range(rng.randint(0, 3)):
            ids = [f"tooluse_{rng.choice([turn, step, 'x'])}_{n}" for n in range(rng.randint(1, 3))]
            blocks: list[Any] = []
            if rng.random() < 0.3:
                blocks.append(
                    rng.choice(
                        [
                            {
                                "reasoningContent": {
                                    "reasoningText": {"text": "hm", "signature": "s"}
                                }
                            },
                            {"reasoningContent": {"redactedContent": b"\xff"}},
                        ]
                    )
                )
            if rng.random() < 0.3:
                blocks.append({"text": "looking"})
            blocks += [
                {"toolUse": {"toolUseId": i, "name": "read", "input": arguments(rng)}} for i in ids
            ]
            messages.append({"role": "assistant", "content": blocks})
            results: list[Any] = [_bedrock_result(rng, i) for i in ids]
            if rng.random() < 0.3:
                results.append({"text": "go on"})
            if rng.random() < 0.2:
                messages += [{"role": "user", "content": [block]} for block in results]
            else:
                messages.append({"role": "user", "content": results})
        messages.append({"role": "assistant", "content": [{"text": f"answer {turn}"}]})
    return messages


def _bedrock_result(rng: random.Random, call_id: str) -> dict[str, Any]:
    content = rng.choice(
        [
            [{"text": rng.choice(TEXTS)}],
            [{"json": {"n": 1}}, {"text": "and"}],
            [{"image": {"format": "png", "source": {"bytes": PIXEL}}}],
            [],
        ]
    )
    result: dict[str, Any] = {"toolUseId": call_id, "content": content}
    if rng.random() < 0.3:
        result["status"] = rng.choice(["error", "success"])
    return {"toolResult": result}


def _mangle_bedrock(rng: random.Random, message: Message) -> Message:
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
            content[0] = rng.choice([*JUNK, {"toolUse": {}}, {"toolResult": {}}, {"text": " "}])
        elif isinstance(block, dict) and block:
            name = rng.choice(list(block))
            inner = block[name]
            if kind < 5 or not isinstance(inner, dict):
                block[rng.choice([name, "text", "toolUse"])] = rng.choice(JUNK)
            else:
                field = rng.choice([*inner, "toolUseId", "input", "content", "status", "name"])
                if rng.random() < 0.2:
                    inner.pop(field, None)
                elif field == "toolUseId":
                    inner[field] = rng.choice([*IDS, *JUNK])
                else:
                    inner[field] = rng.choice([*JUNK, *TEXTS, *NAMES])
        return message
    field = rng.choice(["role", "content", "extra"])
    if field == "role":
        message[field] = rng.choice(["user", "assistant", "system", "tool", *JUNK])
    else:
        message[field] = rng.choice([*JUNK, *TEXTS])
    return message


WHOLE = {
    "bedrock": whole_bedrock,
    "cohere": whole_cohere,
    "mistral": whole_mistral,
    "ollama": whole_ollama,
}
"""Generators of whole histories, by provider."""
