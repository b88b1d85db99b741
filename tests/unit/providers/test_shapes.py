"""Parts whose members are of wrong types: the rules name the member, and repair leaves none."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import validate
from eventstore.providers import AnyProvider
from projections import repair_messages

PNG = "iVBORw0KGgo="
PICTURE = {"format": "png", "source": {"bytes": b"x"}}


def content_of(*parts: Any) -> dict[str, Any]:
    """Return what a user of Gemini says."""
    return {"role": "user", "parts": [{"text": "look"}, *parts]}


def blocks_of(*blocks: Any) -> dict[str, Any]:
    """Return what a user of Bedrock says."""
    return {"role": "user", "content": [{"text": "look"}, *blocks]}


def item_of(**members: Any) -> dict[str, Any]:
    """Return a message of the Responses API."""
    return {"role": "user", "content": "look", **members}


def reasoned(reasoning: Any) -> list[dict[str, Any]]:
    """Return a history of Bedrock in which the assistant reasons."""
    said = {"role": "assistant", "content": [{"reasoningContent": reasoning}, {"text": "so"}]}
    return [blocks_of(), said, blocks_of()]


def shown(**members: Any) -> list[dict[str, Any]]:
    """Return a history of Bedrock in which a result shows an image."""
    call = {"toolUseId": "t1", "name": "look", "input": {}}
    image = {"image": {**PICTURE, **members}}
    return [
        blocks_of(),
        {"role": "assistant", "content": [{"toolUse": call}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [image]}}]},
    ]


def cited(citations: Any) -> list[dict[str, Any]]:
    """Return a history of Cohere in which the assistant cites."""
    return [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "so", "citations": citations},
    ]


FAULTS: list[tuple[AnyProvider, list[dict[str, Any]], str]] = [
    ("gemini", [content_of({"inlineData": {"mimeType": [], "data": PNG}})], ".mimeType"),
    ("gemini", [content_of({"inline_data": {"mime_type": "image/png"}})], "`data`"),
    ("gemini", [content_of({"inlineData": {"data": PNG}})], "mimeType"),
    ("gemini", [content_of({"fileData": {"mimeType": "a/b"}})], "fileUri"),
    ("gemini", [content_of({"text": "t", "thought": {}})], ".thought"),
    ("gemini", [content_of({"text": "t", "thoughtSignature": -1})], "thoughtSignature"),
    ("bedrock", [blocks_of({"image": {"source": {"bytes": b"x"}}})], "format"),
    ("bedrock", [blocks_of({"image": {"format": "png"}})], "source"),
    ("bedrock", [blocks_of({"image": {"format": "png", "source": {}}})], "exactly one of"),
    ("bedrock", [blocks_of({"video": {"format": None, "source": {"bytes": b"x"}}})], ".format"),
    ("bedrock", [blocks_of({"document": {"source": {"bytes": b"x"}}})], "name"),
    ("bedrock", [blocks_of({"cachePoint": {}})], "type"),
    ("bedrock", [blocks_of({"inlineData": {"mimeType": "image/png"}})], "inlineData"),
    ("bedrock", shown(source={"bytes": {"type": "text"}}), "bytes"),
    ("bedrock", reasoned({}), "exactly one of"),
    ("bedrock", reasoned({"reasoningText": {"text": "hm", "signature": []}}), ".signature"),
    ("openai-responses", [item_of(), item_of(content=[{"type": "input_text"}])], "text"),
    (
        "openai-responses",
        [item_of(), item_of(content=[{"type": "input_image", "detail": 1}])],
        ".detail",
    ),
    ("openai-responses", [item_of(role="assistant", status="compl")], ".status"),
    ("openai-responses", [item_of(), {"type": "reasoning", "summary": [], "id": 3}], ".id"),
    ("cohere", cited([{"text": []}]), ".text"),
    ("cohere", cited([{"text": "so", "sources": [{"type": "thinking"}]}]), ".type"),
]


@pytest.mark.parametrize(("provider", "messages", "named"), FAULTS)
def test_a_member_of_a_wrong_type_is_named_and_mended(
    provider: AnyProvider, messages: list[dict[str, Any]], named: str
) -> None:
    """The request would be refused before any model sees it."""
    faults = validate(messages, provider)
    assert any(named in fault.place + fault.message for fault in faults if fault.level == "hard")
    repaired = repair_messages(messages, provider)
    assert validate(repaired.messages, provider) == []
    assert repaired.repairs
    assert "look" in str(repaired.messages)


def test_an_image_stays_an_image_when_a_member_beside_it_is_wrong() -> None:
    """The Responses API gets the image without the detail that is not text."""
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": True}
    (message,) = repair_messages([item_of(content=[image])], "openai-responses").messages
    assert message["content"] == [{**image, "detail": "auto"}]


def test_two_items_in_one_say_what_both_said() -> None:
    """A message's content and a call's result are kept when another item took them in."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    merged = {**call, "content": "be brief", "role": "user", "output": "42"}
    given = [item_of(), merged]
    assert {each.code for each in validate(given, "openai-responses")} == {"OR01", "OR05"}
    said, *made = repair_messages(given, "openai-responses").messages[1:]
    assert said == {"role": "user", "content": "be brief"}
    assert made == [call, {"type": "function_call_output", "call_id": "c", "output": "42"}]


def test_blocks_that_no_result_holds_become_text() -> None:
    """A result of Anthropic's holds no calls and no results, one of Bedrock's no cache mark."""
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{**call, "id": "t2"}]}
    given = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    assert [each.code for each in validate(given, "anthropic")] == ["AN13"]
    repaired = repair_messages(given, "anthropic").messages
    assert validate(repaired, "anthropic") == []
    assert "t2" in str(repaired[2]["content"][0]["content"])
    history = shown()
    history[2]["content"][0]["toolResult"]["content"].append({"cachePoint": {"type": "default"}})
    assert [each.code for each in validate(history, "bedrock")] == ["BE02"]
    assert validate(repair_messages(history, "bedrock").messages, "bedrock") == []


def test_json_of_a_result_is_not_read_as_bytes() -> None:
    """A result's JSON may look like the bytes that a log keeps; it stays as it is."""
    history = shown()
    held = {"bytes": {"$bytes": "eA=="}}
    history[2]["content"][0]["toolResult"]["content"] = [{"json": held}]
    assert repair_messages(history, "bedrock").messages == history


@pytest.mark.parametrize(
    ("provider", "message", "said"),
    [
        ("openai", {"role": "model", "parts": [{"text": "from Gemini"}]}, "assistant"),
        ("bedrock", {"role": "user", "parts": [{"text": "from Gemini"}]}, "user"),
        ("gemini", {"type": "function_call_output", "call_id": "c", "output": "from"}, "user"),
    ],
)
def test_a_message_of_another_provider_is_kept_as_text(
    provider: AnyProvider, message: dict[str, Any], said: str
) -> None:
    """A list of a provider's messages may hold one that only another provider can read."""
    key = "parts" if provider == "gemini" else "content"
    own: Any = [{"text": "look"}] if provider in ("gemini", "bedrock") else "look"
    given = [{"role": "user", key: own}, message, {"role": "user", key: own}]
    repaired = repair_messages(given, provider).messages
    assert validate(repaired, provider) == []
    kept = next(each for each in repaired if "from" in str(each[key]))
    assert kept["role"] == said
