"""Streams of Bedrock, Cohere, Gemini, Mistral and Ollama, as their SDKs give them.

Each SDK's own client reads bytes that no network brought.
"""

from __future__ import annotations

import json
import struct
from binascii import crc32
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

Events = list[dict[str, Any]]

ARGUMENTS = {"number": 7}
NAMES = ("find_order", "refund")


def mistral_chunks() -> Events:
    """Return the chunks of a completion: a thought, words, and two calls that come whole."""

    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": "7", "object": "chat.completion.chunk", "created": 7, "model": "m"}
        return {**head, "choices": [choice]}

    def call(number: int, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(ARGUMENTS)}
        return {"id": f"call0000{number}", "function": function}

    def thought(text: str) -> Events:
        return [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]

    return [
        chunk(role="assistant", content=""),
        chunk(content=thought("An ")),
        chunk(content=thought("order.")),
        chunk(content="Let me "),
        chunk(content="look."),
        chunk(tool_calls=[call(1, NAMES[0])]),
        chunk(tool_calls=[call(2, NAMES[1])]),
        chunk("tool_calls", content=""),
    ]


def gemini_chunks() -> Events:
    """Return the chunks of a response: a thought, words, and two calls, the first one signed."""

    def chunk(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
        if finish is not None:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "modelVersion": "m", "responseId": "r"}

    first, second = ({"functionCall": {"name": name, "args": ARGUMENTS}} for name in NAMES)
    return [
        chunk({"text": "An ", "thought": True}),
        chunk({"text": "order.", "thought": True}),
        chunk({"text": "Let me "}),
        chunk({"text": "look."}),
        chunk({**first, "thoughtSignature": "c2ln"}),
        chunk(second),
        chunk({"text": ""}, finish="STOP"),
    ]


def ollama_chunks() -> Events:
    """Return the chunks of a response: a thought, words, and two calls."""

    def chunk(done: bool = False, **message: Any) -> dict[str, Any]:
        head = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": done}
        end = {"done_reason": "stop", "eval_count": 3} if done else {}
        return {**head, "message": {"role": "assistant", "content": "", **message}, **end}

    first, second = ({"function": {"name": name, "arguments": ARGUMENTS}} for name in NAMES)
    return [
        chunk(thinking="An "),
        chunk(thinking="order."),
        chunk(content="Let me "),
        chunk(content="look."),
        chunk(tool_calls=[first]),
        chunk(tool_calls=[second]),
        chunk(done=True),
    ]


def cohere_events() -> Events:
    """Return the events of a response: words, and two calls in pieces."""

    def event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
        place = {} if index is None else {"index": index}
        return {"type": kind, **place, "delta": {"message": message}}

    def call(index: int, name: str) -> Events:
        function = {"name": name, "arguments": ""}
        begin = {"id": f"{name}_1", "type": "function", "function": function}
        pieces = ({"function": {"arguments": piece}} for piece in ('{"number"', ":7}"))
        return [
            event("tool-call-start", index, tool_calls=begin),
            *(event("tool-call-delta", index, tool_calls=piece) for piece in pieces),
            {"type": "tool-call-end", "index": index},
        ]

    begin = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    usage = {"tokens": {"input_tokens": 3, "output_tokens": 2}}
    return [
        {"type": "message-start", "id": "r", "delta": {"message": begin}},
        event("content-start", 0, content={"type": "text", "text": ""}),
        event("content-delta", 0, content={"text": "Let me "}),
        event("content-delta", 0, content={"text": "look."}),
        {"type": "content-end", "index": 0},
        *call(0, NAMES[0]),
        *call(1, NAMES[1]),
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": usage}},
    ]


def bedrock_events() -> Events:
    """Return the events of a response: reasoning, words, and two calls in pieces."""

    def delta(index: int, **what: Any) -> dict[str, Any]:
        return {"contentBlockDelta": {"contentBlockIndex": index, "delta": what}}

    def stop(index: int) -> dict[str, Any]:
        return {"contentBlockStop": {"contentBlockIndex": index}}

    def call(index: int, name: str) -> Events:
        start = {"toolUse": {"toolUseId": f"tool_{index}", "name": name}}
        return [
            {"contentBlockStart": {"contentBlockIndex": index, "start": start}},
            delta(index, toolUse={"input": '{"number"'}),
            delta(index, toolUse={"input": ":7}"}),
            stop(index),
        ]

    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    return [
        {"messageStart": {"role": "assistant"}},
        delta(0, reasoningContent={"text": "An order."}),
        delta(0, reasoningContent={"signature": "c2ln"}),
        stop(0),
        delta(1, text="Let me "),
        delta(1, text="look."),
        stop(1),
        *call(2, NAMES[0]),
        *call(3, NAMES[1]),
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": usage, "metrics": {"latencyMs": 3}}},
    ]


EVENTS: dict[str, Callable[[], Events]] = {
    "bedrock": bedrock_events,
    "cohere": cohere_events,
    "gemini": gemini_chunks,
    "mistral": mistral_chunks,
    "ollama": ollama_chunks,
}

ASYNCHRONOUS = ("cohere", "gemini", "mistral", "ollama")
"""Providers whose SDK reads streams with asyncio."""

_ASK = [{"role": "user", "content": "hi"}]

Body = Callable[[], Any]


def open_stream(provider: str, body: Body) -> Any:
    """Return what the provider's SDK gives for a stream whose bytes are `body`."""
    if provider == "bedrock":
        return _bedrock(body)
    http = import_module("httpx")
    client = http.Client(transport=_transport(body))
    if provider == "gemini":
        return _gemini(httpx_client=client).models.generate_content_stream(**_GEMINI)
    if provider == "mistral":
        return _mistral(client=client).chat.stream(model="m", messages=_ASK)
    if provider == "cohere":
        made = import_module("cohere").ClientV2(api_key="x", httpx_client=client)
        return made.chat_stream(model="m", messages=_ASK)
    made = import_module("ollama").Client(transport=_transport(body))
    return made.chat(model="m", messages=_ASK, stream=True)


async def open_async_stream(provider: str, body: Body) -> Any:
    """Return what the provider's asynchronous SDK gives."""
    client = import_module("httpx").AsyncClient(transport=_transport(body))
    if provider == "gemini":
        models = _gemini(httpx_async_client=client).aio.models
        return await models.generate_content_stream(**_GEMINI)
    if provider == "mistral":
        made = _mistral(async_client=client).chat
        return await made.stream_async(model="m", messages=_ASK)
    if provider == "cohere":
        made = import_module("cohere").AsyncClientV2(api_key="x", httpx_client=client)
        return made.chat_stream(model="m", messages=_ASK)
    made = import_module("ollama").AsyncClient(transport=_transport(body))
    return await made.chat(model="m", messages=_ASK, stream=True)


_GEMINI = {"model": "m", "contents": "hi"}


def _gemini(**client: Any) -> Any:
    types = import_module("google.genai.types")
    options = types.HttpOptions(**client)
    return import_module("google.genai").Client(api_key="x", http_options=options)


def _mistral(**client: Any) -> Any:
    return import_module("mistralai.client").Mistral(api_key="x", **client)


def _transport(body: Body) -> Any:
    http = import_module("httpx")
    headers = {"content-type": "text/event-stream"}
    return http.MockTransport(lambda _: http.Response(200, headers=headers, content=body()))


def encoded(provider: str, events: Events) -> list[bytes]:
    """Return events as the bytes of the provider's stream, one piece each."""
    if provider == "bedrock":
        return [_frame(kind, given) for event in events for kind, given in event.items()]
    if provider == "ollama":
        return [json.dumps(event).encode() + b"\n" for event in events]
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events]


def _frame(kind: str, payload: dict[str, Any]) -> bytes:
    """Return an event in AWS's binary form: lengths, headers, payload, each with a checksum."""
    named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack("!B", len(name))
        + name.encode()
        + struct.pack("!BH", 7, len(value))
        + value.encode()
        for name, value in named.items()
    )
    body = json.dumps(payload).encode()
    lengths = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    frame = lengths + struct.pack("!I", crc32(lengths)) + headers + body
    return frame + struct.pack("!I", crc32(frame))


class _RawBody:
    """What urllib3 gives botocore."""

    def __init__(self, body: Body) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        """Yield the bytes."""
        yield from self._body()

    def close(self) -> None:
        """Do nothing: no network is behind it."""


def _bedrock(body: Body) -> Any:
    session = import_module("botocore.session").Session()
    session.set_credentials("x", "y")
    client = session.create_client("bedrock-runtime", region_name="us-east-1")
    made = import_module("botocore.awsrequest").AWSResponse

    def answer(request: Any, **_: Any) -> Any:
        headers = {"content-type": "application/vnd.amazon.eventstream"}
        return made(request.url, 200, headers, _RawBody(body))

    client.meta.events.register("before-send.bedrock-runtime.ConverseStream", answer)
    ask = [{"role": "user", "content": [{"text": "hi"}]}]
    return client.converse_stream(modelId="m", messages=ask)["stream"]
