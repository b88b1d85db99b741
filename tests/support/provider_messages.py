"""One story in the form of each provider, and back: written and read without the library.

A story is what happened, in words that no provider owns. `write` expresses it as the provider's own
documentation would, `read` reads it; neither uses the library's parsing or rendering.
"""

from __future__ import annotations

import copy
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]


@dataclass
class Call:
    """A call with its result."""

    name: str
    arguments: dict[str, Any]
    result: str
    failed: bool = False
    id: str | None = None


@dataclass
class Said:
    """A message with text, an image, and the calls made with it."""

    role: str
    text: str
    calls: tuple[Call, ...] = ()
    image: str | None = None


Story = list[Said]


def reported(text: str) -> tuple[str, bool]:
    """Return the text of a result without an error flag, and whether the result is an error."""
    try:
        value = json.loads(text)
    except ValueError:
        return text, False
    if isinstance(value, dict) and value.keys() == {"error"}:
        return str(value["error"]), True
    return text, False


def _data_url(image: str) -> str:
    return f"data:image/png;base64,{image}"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# OpenAI Chat Completions, and Mistral, which looks the same from here


def _write_chat(story: Story) -> list[Message]:
    messages: list[Message] = []
    for said in story:
        content: Any = said.text
        if said.image is not None:
            url = {"url": _data_url(said.image)}
            content = [{"type": "text", "text": said.text}, {"type": "image_url", "image_url": url}]
        message: Message = {"role": said.role, "content": content}
        if said.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _dumped(call.arguments)},
                }
                for call in said.calls
            ]
        messages.append(message)
        messages += [
            {
                "role": "tool",
                "tool_call_id": call.id,
                "content": _dumped({"error": call.result}) if call.failed else call.result,
            }
            for call in said.calls
        ]
    return messages


def _read_chat(messages: list[Message]) -> Story:
    answers = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    story = []
    for message in messages:
        if message["role"] == "tool":
            continue
        content, image = message["content"] or "", None
        if isinstance(content, list):
            urls = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
            image = urls[0].removeprefix("data:image/png;base64,") if urls else None
            content = "\n".join(part["text"] for part in content if part["type"] == "text")
        calls = tuple(
            Call(
                made["function"]["name"],
                json.loads(made["function"]["arguments"]),
                *reported(answers[made["id"]]),
                made["id"],
            )
            for made in message.get("tool_calls") or ()
        )
        story.append(Said(message["role"], content, calls, image))
    return story


# Cohere's Chat, version 2


def _write_cohere(story: Story) -> list[Message]:
    messages = _write_chat(story)
    for message in messages:
        if message["role"] == "tool":
            document = {"type": "document", "document": {"data": message["content"]}}
            message["content"] = [document] if message["content"] else ""
        elif message.get("tool_calls"):
            plan = message.pop("content")
            message.update({"tool_plan": plan} if plan else {})
    return messages


def _read_cohere(messages: list[Message]) -> Story:
    heard = copy.deepcopy(messages)
    for message in heard:
        content = message.get("content")
        if message["role"] == "tool" and isinstance(content, list):
            message["content"] = "\n".join(part["document"]["data"] for part in content)
        elif message.get("tool_calls"):
            assert not content
            message["content"] = message.get("tool_plan", "")
    return _read_chat(heard)


# Anthropic Messages


def _write_anthropic(story: Story) -> list[Message]:
    messages: list[Message] = []
    for said in story:
        blocks: list[Any] = [{"type": "text", "text": said.text}] if said.text else []
        if said.image is not None:
            source = {"type": "base64", "media_type": "image/png", "data": said.image}
            blocks.append({"type": "image", "source": source})
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in said.calls
        ]
        messages.append({"role": said.role, "content": blocks})
        results: list[Any] = []
        for call in said.calls:
            result: Message = {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": call.result,
            }
            results.append({**result, "is_error": True} if call.failed else result)
        if results:
            messages.append({"role": "user", "content": results})
    return messages


def _read_anthropic(messages: list[Message]) -> Story:
    answers: dict[str, tuple[str, bool]] = {}
    story: Story = []
    for message in messages:
        content = message["content"]
        plain = [{"type": "text", "text": content}]
        blocks: list[Any] = plain if isinstance(content, str) else content
        results = [block for block in blocks if block["type"] == "tool_result"]
        for block in results:
            text, failed = reported(block.get("content") or "")
            answers[block["tool_use_id"]] = (text, failed or block.get("is_error", False))
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        images = [block["source"]["data"] for block in blocks if block["type"] == "image"]
        calls = tuple(
            Call(block["name"], block["input"], "", id=block["id"])
            for block in blocks
            if block["type"] == "tool_use"
        )
        if texts or images or calls:
            image = images[0] if images else None
            story.append(Said(message["role"], "\n".join(texts), calls, image))
    return _answered(story, answers)


def _answered(story: Story, answers: dict[str, tuple[str, bool]]) -> Story:
    for said in story:
        for call in said.calls:
            call.result, call.failed = answers[call.id or ""]
    return story


# Amazon Bedrock's Converse


def _write_bedrock(story: Story) -> list[Message]:
    messages: list[Message] = []
    for said in story:
        blocks: list[Any] = [{"text": said.text}] if said.text else []
        if said.image is not None:
            source = {"bytes": b64decode(said.image)}
            blocks.append({"image": {"format": "png", "source": source}})
        blocks += [
            {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}
            for call in said.calls
        ]
        messages.append({"role": said.role, "content": blocks})
        if said.calls:
            messages.append(
                {
                    "role": "user",
                    "content": [
                        {
                            "toolResult": {
                                "toolUseId": call.id,
                                "content": [{"text": call.result}],
                                "status": "error" if call.failed else "success",
                            }
                        }
                        for call in said.calls
                    ],
                }
            )
    return messages


def _read_bedrock(messages: list[Message]) -> Story:
    answers: dict[str, tuple[str, bool]] = {}
    story: Story = []
    for message in messages:
        blocks = message["content"]
        for block in blocks:
            if "toolResult" in block:
                result = block["toolResult"]
                text, failed = reported("\n".join(each["text"] for each in result["content"]))
                answers[result["toolUseId"]] = (text, failed or result.get("status") == "error")
        texts = [block["text"] for block in blocks if "text" in block]
        images = [block["image"]["source"]["bytes"] for block in blocks if "image" in block]
        calls = tuple(
            Call(
                block["toolUse"]["name"],
                block["toolUse"]["input"],
                "",
                id=block["toolUse"]["toolUseId"],
            )
            for block in blocks
            if "toolUse" in block
        )
        if texts or images or calls:
            image = b64encode(images[0]).decode() if images else None
            story.append(Said(message["role"], "\n".join(texts), calls, image))
    return _answered(story, answers)


# Google Gemini


def _write_gemini(story: Story) -> list[Message]:
    contents: list[Message] = []
    for said in story:
        parts: list[Any] = [{"text": said.text}] if said.text else []
        if said.image is not None:
            parts.append({"inlineData": {"mimeType": "image/png", "data": said.image}})
        parts += [
            {"functionCall": {"name": call.name, "args": call.arguments}} for call in said.calls
        ]
        role = "model" if said.role == "assistant" else said.role
        contents.append({"role": role, "parts": parts})
        if said.calls:
            contents.append(
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "name": call.name,
                                "response": {"error" if call.failed else "output": call.result},
                            }
                        }
                        for call in said.calls
                    ],
                }
            )
    return contents


def _read_gemini(contents: list[Message]) -> Story:
    story: Story = []
    waiting: list[Call] = []
    for content in contents:
        parts = content["parts"]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        for call, response in zip(waiting, responses, strict=True):
            assert call.name == response["name"]
            assert call.id == response.get("id")
            ((key, text),) = response["response"].items()
            said, failed = reported(text)
            call.result, call.failed = said, failed or key == "error"
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        waiting = [Call(call["name"], call["args"], "", id=call.get("id")) for call in made]
        texts = [part["text"] for part in parts if "text" in part]
        images = [part["inlineData"]["data"] for part in parts if "inlineData" in part]
        if texts or images or waiting:
            role = "assistant" if content["role"] == "model" else content["role"]
            image = images[0] if images else None
            story.append(Said(role, "\n".join(texts), tuple(waiting), image))
    return story


# OpenAI Responses


def _write_responses(story: Story) -> list[Message]:
    items: list[Message] = []
    for said in story:
        content: Any = said.text
        if said.image is not None:
            content = [
                {"type": "input_text", "text": said.text},
                {"type": "input_image", "image_url": _data_url(said.image), "detail": "auto"},
            ]
        if content:
            items.append({"role": said.role, "content": content})
        items += [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": _dumped(call.arguments),
            }
            for call in said.calls
        ]
        items += [
            {
                "type": "function_call_output",
                "call_id": call.id,
                "output": _dumped({"error": call.result}) if call.failed else call.result,
            }
            for call in said.calls
        ]
    return items


def _read_responses(items: list[Message]) -> Story:
    answers = {
        item["call_id"]: reported(item["output"])
        for item in items
        if item.get("type") == "function_call_output"
    }
    story: Story = []
    settled = True  # a result stands between the last call and this item
    for item in items:
        if item.get("type") == "function_call_output":
            settled = True
        elif item.get("type") == "function_call":
            if settled and not (story and story[-1].role == "assistant" and not story[-1].calls):
                story.append(Said("assistant", ""))
            call = Call(item["name"], json.loads(item["arguments"]), "", id=item["call_id"])
            story[-1].calls += (call,)
            settled = False
        else:
            content, image = item["content"], None
            if isinstance(content, list):
                urls = [part["image_url"] for part in content if part["type"] == "input_image"]
                image = urls[0].removeprefix("data:image/png;base64,") if urls else None
                content = "\n".join(part["text"] for part in content if "text" in part)
            story.append(Said(item["role"], content, (), image))
            settled = True
    return _answered(story, answers)


# Ollama


def _write_ollama(story: Story) -> list[Message]:
    messages: list[Message] = []
    for said in story:
        message: Message = {"role": said.role, "content": said.text}
        if said.image is not None:
            message["images"] = [said.image]
        if said.calls:
            message["tool_calls"] = [
                {"function": {"name": call.name, "arguments": call.arguments}}
                for call in said.calls
            ]
        messages.append(message)
        messages += [
            {
                "role": "tool",
                "tool_name": call.name,
                "content": _dumped({"error": call.result}) if call.failed else call.result,
            }
            for call in said.calls
        ]
    return messages


def _read_ollama(messages: list[Message]) -> Story:
    story: Story = []
    answers = 0
    for message in messages:
        if message["role"] == "tool":
            call = story[-1].calls[answers]
            assert call.name == message["tool_name"]
            call.result, call.failed = reported(message["content"])
            answers += 1
            continue
        answers = 0
        calls = tuple(
            Call(made["function"]["name"], made["function"]["arguments"], "")
            for made in message.get("tool_calls") or ()
        )
        images = message.get("images") or [None]
        story.append(Said(message["role"], message["content"], calls, images[0]))
    return story


WRITE: dict[str, Callable[[Story], list[Message]]] = {
    "anthropic": _write_anthropic,
    "bedrock": _write_bedrock,
    "cohere": _write_cohere,
    "gemini": _write_gemini,
    "litellm": _write_chat,
    "mistral": _write_chat,
    "ollama": _write_ollama,
    "openai": _write_chat,
    "openai-responses": _write_responses,
}
READ: dict[str, Callable[[list[Message]], Story]] = {
    "anthropic": _read_anthropic,
    "bedrock": _read_bedrock,
    "cohere": _read_cohere,
    "gemini": _read_gemini,
    "litellm": _read_chat,
    "mistral": _read_chat,
    "ollama": _read_ollama,
    "openai": _read_chat,
    "openai-responses": _read_responses,
}
