"""A transport that answers like Anthropic's API, by the script of a scene."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import httpx2
from anthropic import Anthropic, AsyncAnthropic

if TYPE_CHECKING:
    from integrations.scenes import Said


class ScriptedAPI:
    """Says next what the script says after the messages of the model in a request."""

    def __init__(
        self,
        script: Sequence[Said],
        stop_reason: str = "tool_use",
        asked: Callable[[object], None] = lambda _: None,
    ) -> None:
        self._script = script
        self._asked = asked
        self._stop_reason = stop_reason  # of a message with calls
        self.requests: list[dict[str, Any]] = []

    def client(self) -> Anthropic:
        """Return a client of the API."""
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        return Anthropic(api_key="x", base_url="http://x", max_retries=0, http_client=http)

    def async_client(self) -> AsyncAnthropic:
        """Return a client of the API for asyncio."""
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        return AsyncAnthropic(api_key="x", base_url="http://x", max_retries=0, http_client=http)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        self._asked(body["messages"])
        number = _responses_before(body)
        message = _message(number, self._script[number], self._stop_reason)
        if not body.get("stream"):
            return httpx2.Response(200, json=message)
        text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in _events(message))
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=text.encode()
        )


def _responses_before(body: dict[str, Any]) -> int:
    """Return how many messages the model has written; the API keeps those of a thread."""
    messages = body["messages"]
    made, answered = _ids(messages, "tool_use", "id"), _ids(messages, "tool_result", "tool_use_id")
    thread = body.get("thread") or {}
    if thread.get("type") == "continue":
        return int(thread["previous_message_id"].removeprefix("msg_")) + 1
    assert made == answered, "each call has its result"
    return sum(message["role"] == "assistant" for message in messages)


def _ids(messages: list[Any], kind: str, member: str) -> set[str]:
    contents = [m["content"] for m in messages if isinstance(m["content"], list)]
    return {block[member] for content in contents for block in content if block["type"] == kind}


def _message(number: int, said: Said, stop_reason: str) -> dict[str, Any]:
    words = [{"type": "text", "text": said.text}] if said.text else []
    calls = [
        {"type": "tool_use", "id": i, "name": n, "input": json.loads(a)} for n, a, i in said.calls
    ]
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": [*words, *calls],
        "stop_reason": "max_tokens" if said.cut_off else stop_reason if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}
