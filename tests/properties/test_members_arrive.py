"""Every member of every format arrives at every other provider, or a repair names it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from eventstore import EventStore, validate
from eventstore.providers import PROVIDERS, list_key
from projections import model_history, repair_messages

STRUCTURE = frozenset(
    {
        "action",
        "call_id",
        "callId",
        "detail",
        "environment",
        "format",
        "id",
        "language",
        "mime_type",
        "media_type",
        "mimeType",
        "outcome",
        "role",
        "status",
        "tool_call_id",
        "tool_use_id",
        "toolUseId",
        "type",
        "reference_ids",
        "approval_request_id",
        "server_label",
        "execution",
    }
)
"""Members that say how something is held: ids, roles and kinds are each wire's own."""

CONTAINERS = frozenset({"content", "parts", "messages", "input", "output", "text"})
"""Members that hold what is said, so that a repair does not name it by naming them."""

PIXEL = base64.b64encode(b"\x89PNG of some words").decode()


def openai() -> list[Any]:
    """Generate everything that a request of Chat Completions may hold."""
    image = {"url": "https://a.b/detailed.png", "detail": "low"}
    citation = {"url": "https://cited.example", "title": "cited title", "start_index": 0}
    return [
        {"role": "system", "content": "system words", "name": "system_name"},
        {"role": "developer", "content": [{"type": "text", "text": "developer words"}]},
        {
            "role": "user",
            "name": "user_name",
            "content": [
                {"type": "text", "text": "user words"},
                {"type": "image_url", "image_url": image},
                {"type": "image_url", "image_url": {"url": "https://a.b/plain.png"}},
                {"type": "input_audio", "input_audio": {"data": "audio data", "format": "wav"}},
                {"type": "file", "file": {"filename": "named.pdf", "file_data": "data of a file"}},
                {"type": "file", "file": {"file_id": "file-identified"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "said words"},
                {"type": "refusal", "refusal": "refused part"},
            ],
            "name": "assistant_name",
            "refusal": "refused beside",
            "audio": {"id": "audio_identified"},
            "annotations": [{"type": "url_citation", "url_citation": citation}],
            "reasoning_content": "thought content",
            "reasoning": "thought text",
            "reasoning_details": [{"type": "reasoning.text", "text": "thought details"}],
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "extra_content": {"google": "extra words"},
                    "function": {"name": "f", "arguments": '{"asked": "asked words"}'},
                },
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "custom words"}},
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "name": "f",
            "content": "result words",
            "note": "noted words",
        },
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "more words"}]},
        {"role": "user", "content": ""},
    ]


def anthropic() -> list[Any]:
    """Generate everything that a request of Messages may hold."""
    cached = {"cache_control": {"type": "ephemeral", "ttl": "cached words"}}
    encoded = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    result = {
        "type": "web_search_result",
        "url": "https://found.example",
        "title": "found title",
        "encrypted_content": "encrypted words",
        "page_age": "aged words",
    }
    citation = {"type": "char_location", "cited_text": "cited words", "document_index": 0}
    return [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "user words", **cached},
                {"type": "image", "source": encoded},
                {
                    "type": "image",
                    "source": {"type": "url", "url": "https://a.b/plain.png"},
                    **cached,
                },
                {"type": "image", "source": {"type": "file", "file_id": "file_identified"}},
                {
                    "type": "document",
                    "source": {
                        "type": "text",
                        "media_type": "text/plain",
                        "data": "document words",
                    },
                    "title": "document title",
                    "context": "document context",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "url", "url": "https://a.b/c.pdf"}},
                {
                    "type": "search_result",
                    "source": "https://search.example",
                    "title": "search title",
                    "content": [{"type": "text", "text": "search words"}],
                },
                {"type": "container_upload", "file_id": "file_uploaded"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "thought words", "signature": "signed thought"},
                {"type": "redacted_thinking", "data": "redacted words"},
                {"type": "text", "text": "said words", "citations": [citation]},
                {
                    "type": "server_tool_use",
                    "id": "srvtoolu_1",
                    "name": "web_search",
                    "input": {"query": "searched words"},
                },
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [result],
                },
                {
                    "type": "mcp_tool_use",
                    "id": "mcptoolu_1",
                    "name": "echo",
                    "server_name": "server",
                    "input": {"given": "mcp words"},
                },
                {
                    "type": "mcp_tool_result",
                    "tool_use_id": "mcptoolu_1",
                    "is_error": False,
                    "content": [{"type": "text", "text": "mcp result"}],
                },
                {
                    "type": "tool_use",
                    "id": "t1",
                    "name": "f",
                    "input": {"asked": "asked words"},
                    "caller": {"type": "direct", "by": "caller words"},
                    **cached,
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    **cached,
                    "content": [
                        {"type": "text", "text": "result words"},
                        {"type": "image", "source": encoded},
                        {
                            "type": "search_result",
                            "source": "https://inner.example",
                            "title": "inner title",
                            "content": [{"type": "text", "text": "inner words"}],
                        },
                    ],
                },
                {"type": "text", "text": "and now?"},
            ],
        },
    ]


def gemini() -> list[Any]:
    """Generate everything that a request to Gemini may hold."""
    return [
        {
            "role": "user",
            "parts": [
                {"text": "user words", "partMetadata": {"held": "metadata words"}},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                {
                    "inlineData": {
                        "mimeType": "image/png",
                        "data": "c2hvd24=",
                        "displayName": "shown name",
                    }
                },
                {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://bucket/file.pdf"}},
                {
                    "fileData": {"mimeType": "video/mp4", "fileUri": "https://a.b/c.mp4"},
                    "videoMetadata": {"startOffset": "offset words"},
                },
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "thought words", "thought": True, "thoughtSignature": "signed-thought"},
                {"text": "said words", "thoughtSignature": "signed-text"},
                {"executableCode": {"language": "PYTHON", "code": "print('code words')"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "printed words"}},
                {
                    "functionCall": {"id": "g1", "name": "f", "args": {"asked": "asked words"}},
                    "thoughtSignature": "signed-call",
                    "partMetadata": {"held": "call metadata"},
                },
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "partMetadata": {"held": "response metadata"},
                    "functionResponse": {
                        "id": "g1",
                        "name": "f",
                        "scheduling": "SILENT",
                        "response": {"output": "result words", "more": "more words"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
                    },
                },
            ],
        },
    ]


def bedrock() -> list[Any]:
    """Generate everything that a request of Converse may hold."""
    document = {
        "format": "txt",
        "name": "document name",
        "context": "document context",
        "source": {"text": "document words"},
    }
    return [
        {
            "role": "user",
            "content": [
                {"text": "user words"},
                {
                    "image": {
                        "format": "png",
                        "source": {"s3Location": {"uri": "s3://bucket/image"}},
                    }
                },
                {"document": document},
                {
                    "video": {
                        "format": "mp4",
                        "source": {"s3Location": {"uri": "s3://bucket/video"}},
                    }
                },
                {"guardContent": {"text": {"text": "guarded words", "qualifiers": ["query"]}}},
                {"cachePoint": {"type": "default"}},
                {
                    "searchResult": {
                        "source": "https://search.example",
                        "title": "search title",
                        "content": [{"text": "search words"}],
                    }
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "thought words", "signature": "signed thought"}
                    }
                },
                {"text": "said words"},
                {
                    "citationsContent": {
                        "content": [{"text": "cited words"}],
                        "citations": [{"title": "citation title", "source": "citation source"}],
                    }
                },
                {"toolUse": {"toolUseId": "b1", "name": "f", "input": {"asked": "asked words"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "b1",
                        "status": "success",
                        "content": [
                            {"text": "result words"},
                            {"json": {"found": "json words"}},
                            {
                                "document": {
                                    "format": "txt",
                                    "name": "inner name",
                                    "source": {"text": "inner words"},
                                }
                            },
                        ],
                    }
                },
            ],
        },
    ]


def cohere() -> list[Any]:
    """Generate everything that a request to Cohere may hold."""
    document = {"data": {"title": "found title", "snippet": "found words"}, "id": "doc:1"}
    source = {"type": "tool", "id": "doc:1", "tool_output": {"title": "source words"}}
    citation = {"start": 0, "end": 4, "text": "cited words", "sources": [source]}
    return [
        {"role": "system", "content": [{"type": "text", "text": "system words"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "user words"},
                {"type": "image_url", "image_url": {"url": "https://a.b/plain.png"}},
                {
                    "type": "image_url",
                    "image_url": {"url": "https://a.b/fine.png", "detail": "low"},
                },
            ],
        },
        {
            "role": "assistant",
            "tool_plan": "plan words",
            "content": [{"type": "thinking", "thinking": "thought words"}],
            "tool_calls": [
                {
                    "id": "f_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"asked": "asked words"}'},
                },
                {
                    "id": "f_2",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"asked": "more words"}'},
                },
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "f_1",
            "content": [
                {"type": "document", "document": document},
                {"type": "text", "text": "result words"},
            ],
        },
        {"role": "tool", "tool_call_id": "f_2", "content": "plain words"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "said words"}],
            "citations": [citation],
        },
        {"role": "user", "content": "and now?"},
    ]


def mistral() -> list[Any]:
    """Generate everything that a request to Mistral may hold."""
    return [
        {"role": "system", "content": "system words"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "user words"},
                {"type": "image_url", "image_url": "https://a.b/plain.png"},
                {
                    "type": "image_url",
                    "image_url": {"url": "https://a.b/fine.png", "detail": "low"},
                },
                {
                    "type": "document_url",
                    "document_url": "https://a.b/c.pdf",
                    "document_name": "document name",
                },
                {"type": "input_audio", "input_audio": "audio data"},
                {"type": "file", "file_id": "file identified"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": [{"type": "text", "text": "thought words"}],
                    "signature": "signed thought",
                },
                {"type": "text", "text": "said words"},
                {"type": "reference", "reference_ids": [1]},
            ],
            "tool_calls": [
                {
                    "id": "abcDEF123",
                    "type": "function",
                    "index": 0,
                    "function": {"name": "f", "arguments": '{"asked": "asked words"}'},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "abcDEF123",
            "name": "f",
            "content": [{"type": "text", "text": "result words"}],
        },
        {"role": "assistant", "content": "begun words", "prefix": True},
    ]


def responses() -> list[Any]:
    """Generate everything that a request of Responses may hold."""
    citation = {"type": "url_citation", "url": "https://cited.example", "title": "cited title"}
    return [
        {"role": "developer", "content": "developer words"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "user words"},
                {"type": "input_image", "image_url": "https://a.b/plain.png", "detail": "auto"},
                {"type": "input_image", "file_id": "file-image", "detail": "low"},
                {"type": "input_file", "filename": "named.pdf", "file_url": "https://a.b/c.pdf"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "encrypted_content": "encrypted words",
            "summary": [{"type": "summary_text", "text": "thought words"}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "said words", "annotations": [citation]},
                {"type": "refusal", "refusal": "refused words"},
            ],
        },
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "searched words"},
        },
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["asked"],
            "results": [{"file_id": "file-1", "filename": "found.txt", "text": "found words"}],
        },
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "print('code words')",
            "container_id": "container words",
            "outputs": [{"type": "logs", "logs": "logged words"}],
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "echo",
            "server_label": "s",
            "arguments": '{"given": "mcp words"}',
            "output": "mcp result",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "r1",
            "name": "f",
            "namespace": "space words",
            "arguments": '{"asked": "asked words"}',
        },
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "r2",
            "name": "g",
            "input": "custom words",
        },
        {
            "type": "function_call_output",
            "call_id": "r1",
            "output": [{"type": "input_text", "text": "result words"}],
        },
        {"type": "custom_tool_call_output", "call_id": "r2", "output": "more words"},
        {"role": "user", "content": "and now?"},
    ]


def ollama() -> list[Any]:
    """Generate everything that a request to Ollama may hold."""
    return [
        {"role": "system", "content": "system words"},
        {"role": "user", "content": "user words", "images": [PIXEL]},
        {
            "role": "assistant",
            "content": "said words",
            "thinking": "thought words",
            "tool_calls": [
                {
                    "function": {
                        "name": "f",
                        "description": "described words",
                        "arguments": {"asked": "asked words"},
                    }
                }
            ],
        },
        {"role": "tool", "tool_name": "f", "content": "result words"},
        {"role": "user", "content": "and now?"},
    ]


FORMATS = {
    "anthropic": anthropic,
    "bedrock": bedrock,
    "cohere": cohere,
    "gemini": gemini,
    "litellm": openai,
    "mistral": mistral,
    "ollama": ollama,
    "openai": openai,
    "openai-responses": responses,
}


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every text, with the members and kinds above it."""
    if isinstance(value, bytes):
        yield base64.b64encode(value).decode(), path
    elif isinstance(value, str):
        yield value, path
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, path)
    elif isinstance(value, dict):
        kind = value.get("type")
        within = (*path, kind) if isinstance(kind, str) else path
        within = (*within, "thought") if "thought" in value else within
        for key, item in value.items():
            if key not in STRUCTURE:
                yield from leaves(item, (*within, key))


def said(value: Any) -> str:
    """Return all texts in a request, also those in JSON in them."""
    found = []
    for text, _ in leaves(value):
        found.append(text)
        try:
            inner = json.loads(text)
        except ValueError:
            continue
        found += [said(inner)] if isinstance(inner, dict | list) else []
    return "\n".join(found)


def missing(messages: list[Any], shown: Any, named: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the texts that are neither shown nor named by a repair."""
    there = said(shown)
    lost = []
    for text, path in leaves(messages):
        reported = said([text]).rpartition("\n")[2]
        known = reported in there or not text
        if not known and not any(
            re.search(rf"\b{step}\b", named) for step in path if step not in CONTAINERS
        ):
            lost.append((text, path))
    return lost


@pytest.mark.parametrize("target", sorted(PROVIDERS))
@pytest.mark.parametrize("provider", FORMATS)
def test_members_that_are_not_rendered_are_listed(provider: str, target: str) -> None:
    """Each member is rendered or listed, from a valid log and from a list."""
    messages = FORMATS[provider]()
    assert [found for found in validate(messages, provider) if found.level == "hard"] == []
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("c")
        chat.record_messages(messages, provider)
        shown, repairs = model_history(chat.events()).rendered(target)
    assert validate(shown[list_key(target)], target) == [] or target == provider
    assert missing(messages, shown, "\n".join(repair.why for repair in repairs)) == []
    listed = repair_messages(messages, provider, target)
    named = "\n".join(repair.why for repair in listed.repairs)
    assert missing(messages, [listed.messages, listed.system], named) == []
    if target == provider:
        assert json.dumps(listed.messages) == json.dumps(messages)
        assert listed.repairs == []
