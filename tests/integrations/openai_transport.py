"""A transport that answers like OpenAI's API, by the script of a scene: both of its APIs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import httpx2
from openai import AsyncOpenAI, OpenAI

if TYPE_CHECKING:
    from integrations.scenes import Said


class ScriptedAPI:
    """Says next what the script says after the messages of the model in a request."""

    def __init__(
        self,
        script: Sequence[Said],
        *,
        cut_off: bool = False,
        asked: Callable[[object], None] = lambda _: None,
    ) -> None:
        self._script = script
        self._asked = asked
        self._cut_off = cut_off  # a message with calls ends at its limit
        self.requests: list[dict[str, Any]] = []

    def client(self) -> OpenAI:
        """Return a client of the API."""
        http = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        return OpenAI(api_key="x", base_url="http://x", max_retries=0, http_client=http)

    def async_client(self) -> AsyncOpenAI:
        """Return a client of the API for asyncio."""
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        return AsyncOpenAI(api_key="x", base_url="http://x", max_retries=0, http_client=http)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        self._asked(body.get("input") or body["messages"])
        if request.url.path.endswith("/responses"):
            whole, events = self._response(body)
        else:
            whole, events = self._completion(body)
        if not body.get("stream"):
            return httpx2.Response(200, json=whole)
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=text.encode()
        )

    def _response(self, body: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        items = body["input"]
        made = {item["call_id"] for item in items if item.get("type") == "function_call"}
        answered = {i["call_id"] for i in items if i.get("type") == "function_call_output"}
        assert made == answered, "each call has its result"
        number = _runs(["model" if _is_output(item) else "other" for item in items])
        said = self._script[number]
        response = _response(number, said, cut_off=self._cut_off or said.cut_off)
        return response, _response_events(response)

    def _completion(self, body: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        messages = body["messages"]
        made = {call["id"] for m in messages for call in m.get("tool_calls") or ()}
        answered = {m["tool_call_id"] for m in messages if m["role"] == "tool"}
        assert made == answered, "each call has its result"
        number = sum(message["role"] == "assistant" for message in messages)
        said = self._script[number]
        completion = _completion(number, said, cut_off=self._cut_off or said.cut_off)
        return completion, _chunks(completion)


def _is_output(item: dict[str, Any]) -> bool:
    """Return whether an input item is one of the model's."""
    return item.get("type") == "function_call" or item.get("role") == "assistant"


def _runs(kinds: list[str]) -> int:
    """Return how many stretches of the model's items there are."""
    previous = ["other", *kinds]
    return sum(a != b == "model" for a, b in zip(previous, kinds, strict=False))


def _response(number: int, said: Said, *, cut_off: bool) -> dict[str, Any]:
    words = {"type": "output_text", "text": said.text, "annotations": []}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
    calls = [
        {
            "id": f"fc_{call_id}",
            "type": "function_call",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
        for name, arguments, call_id in said.calls
    ]
    ended = bool(calls) and cut_off
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5",
        "status": "incomplete" if ended else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if ended else None,
        "output": [*([{**message, "content": [words]}] if said.text else []), *calls],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }


def _response_events(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "output": [], "status": "in_progress", "usage": None}
    yield {"type": "response.created", "sequence_number": 0, "response": begun}
    for index, item in enumerate(response["output"]):
        place = {"sequence_number": index + 1, "output_index": index, "item": item}
        yield {"type": "response.output_item.done", **place}
    last = {"sequence_number": 99, "response": response}
    yield {"type": f"response.{response['status']}", **last}


def _completion(number: int, said: Said, *, cut_off: bool) -> dict[str, Any]:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments, call_id in said.calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    reason = "stop"
    if calls:
        message["tool_calls"] = calls
        reason = "length" if cut_off else "tool_calls"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _chunks(completion: dict[str, Any]) -> Iterator[dict[str, Any]]:
    head = {key: completion[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    (choice,) = completion["choices"]
    message = choice["message"]
    deltas = [{"role": "assistant", "content": message["content"]}]
    for index, call in enumerate(message.get("tool_calls", ())):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        begun = {**call, "index": index, "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        rest = {"index": index, "function": {"arguments": arguments}}
        deltas.append({"tool_calls": [rest]})
    for delta in deltas:
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = choice["finish_reason"]
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield {**head, "choices": [], "usage": completion["usage"]}
