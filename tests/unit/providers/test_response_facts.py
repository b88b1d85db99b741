"""What a whole response says of itself, for every provider: id, model, finish reason, usage."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from eventstore import ModelResponded, Usage
from eventstore.providers import PROVIDERS
from eventstore.providers.response_facts import model_responded, stated_facts

OPENAI: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "finish_reason": "length",
            "message": {"role": "assistant", "content": "hi"},
        }
    ],
    "usage": {
        "prompt_tokens": 1200,
        "completion_tokens": 80,
        "total_tokens": 1280,
        "prompt_tokens_details": {"cached_tokens": 1024},
        "completion_tokens_details": {"reasoning_tokens": 64},
    },
}
RESPONSES: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-5",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "output": [
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "f",
            "arguments": "{}",
            "status": "incomplete",
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 1200,
        "output_tokens": 80,
        "total_tokens": 1280,
        "input_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 64},
    },
}
ANTHROPIC: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [],
    "stop_reason": "tool_use",
    "usage": {
        "input_tokens": 76,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1024,
        "output_tokens": 80,
    },
}
GEMINI: dict[str, Any] = {
    "responseId": "g_1",
    "modelVersion": "gemini-2.5-flash",
    "candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 1200,
        "candidatesTokenCount": 16,
        "thoughtsTokenCount": 64,
        "cachedContentTokenCount": 1024,
    },
}
BEDROCK: dict[str, Any] = {
    "ResponseMetadata": {"RequestId": "aws_1", "HTTPStatusCode": 200},
    "output": {"message": {"role": "assistant", "content": []}},
    "stopReason": "end_turn",
    "usage": {
        "inputTokens": 76,
        "cacheReadInputTokens": 1024,
        "cacheWriteInputTokens": 100,
        "outputTokens": 80,
    },
}
COHERE: dict[str, Any] = {
    "id": "co_1",
    "finish_reason": "COMPLETE",
    "message": {"role": "assistant", "content": []},
    "usage": {"tokens": {"input_tokens": 1200.0, "output_tokens": 80.0}, "cached_tokens": 1024.0},
}
OLLAMA: dict[str, Any] = {
    "model": "qwen3",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 1200,
    "eval_count": 80,
}

CASES = {
    "openai": (OPENAI, "chatcmpl-1", "gpt-5", "length", 1024, 64),
    "litellm": (OPENAI, "chatcmpl-1", "gpt-5", "length", 1024, 64),
    "mistral": (OPENAI, "chatcmpl-1", "gpt-5", "length", 1024, 64),
    "openai-responses": (RESPONSES, "resp_1", "gpt-5", "max_output_tokens", 1024, 64),
    "anthropic": (ANTHROPIC, "msg_1", "claude-x", "tool_use", 1024, 0),
    "gemini": (GEMINI, "g_1", "gemini-2.5-flash", "STOP", 1024, 64),
    "bedrock": (BEDROCK, "aws_1", None, "end_turn", 1024, 0),
    "cohere": (COHERE, "co_1", None, "COMPLETE", 1024, 0),
    "ollama": (OLLAMA, None, "qwen3", "stop", 0, 0),
}


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_response_says_its_id_its_model_and_its_usage(provider: Any) -> None:
    """The prompt is counted with its cached tokens, the answer with its reasoning."""
    response, response_id, model, finish_reason, cached, reasoning = CASES[provider]
    assert model_responded(response, provider, latency=1.5) == ModelResponded(
        provider=provider,
        model=model,
        response_id=response_id,
        finish_reason=finish_reason,
        usage=Usage(1200, 80, cached, reasoning),
        latency=1_500_000,
    )


def test_the_objects_of_the_sdks_say_the_same() -> None:
    """Attributes are read as members are; an enum by its value."""
    chat: Any = pytest.importorskip("openai.types.chat")
    responses: Any = pytest.importorskip("openai.types.responses")
    anthropic: Any = pytest.importorskip("anthropic.types")
    genai: Any = pytest.importorskip("google.genai.types")
    for provider, value in (
        ("openai", chat.ChatCompletion.model_validate({**OPENAI})),
        ("openai-responses", responses.Response.model_validate(RESPONSES)),
        ("anthropic", anthropic.Message.model_validate(ANTHROPIC)),
        ("gemini", genai.GenerateContentResponse.model_validate(GEMINI)),
    ):
        assert model_responded(value, provider) == model_responded(CASES[provider][0], provider)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_whole_response_is_recognised_by_what_is_in_it(provider: Any) -> None:
    """A message, an item, a choice and a request have facts that are not those of a response."""
    assert stated_facts(CASES[provider][0], provider) is not None
    others: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [], "id": "m1"},
        {"model": "m", "messages": [{"role": "user", "content": "hi"}], "id": "q", "usage": {}},
        {"model": "m", "input": [{"role": "user", "content": "hi"}]},
        {"type": "function_call", "id": "fc_1", "status": "completed", "name": "f"},
        {"type": "mcp_call", "id": "mcp_1", "output": "7", "status": "completed"},
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}},
    ]
    assert [stated_facts(other, provider) for other in others] == [None] * len(others)


def test_a_response_that_says_nothing_has_no_usage() -> None:
    """A price that the caller knows is kept all the same."""
    assert model_responded({}, "openai") == ModelResponded("openai")
    assert model_responded({}, "openai", cost=Decimal(1)).usage == Usage(cost=Decimal(1))
    with pytest.raises(ValueError, match="latency is -1"):
        model_responded({}, "openai", latency=-1)
