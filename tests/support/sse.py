"""Streams of providers as bytes, and SDK clients that receive them without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from importlib import import_module
from typing import Any

from support import more_streams

Events = list[dict[str, Any]]


def chat_chunks(calls: bool = True) -> Events:
    """Return the chunks of a completion: words, and two calls in pieces."""

    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 7, "model": "m"}
        return {**head, "choices": [choice]}

    def begins(index: int, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": ""}
        return {"index": index, "id": f"call_{index}", "type": "function", "function": function}

    def goes_on(index: int, text: str) -> dict[str, Any]:
        return {"index": index, "function": {"arguments": text}}

    said = [chunk(role="assistant", content=""), chunk(content="Let me "), chunk(content="look.")]
    if not calls:
        return [*said, chunk("stop")]
    return [
        *said,
        chunk(tool_calls=[begins(0, "find_order")]),
        chunk(tool_calls=[goes_on(0, '{"number"')]),
        chunk(tool_calls=[goes_on(0, ":7}")]),
        chunk(tool_calls=[begins(1, "refund")]),
        chunk(tool_calls=[goes_on(1, '{"number":')]),
        chunk(tool_calls=[goes_on(1, "7}")]),
        chunk("tool_calls"),
    ]


def anthropic_events() -> Events:
    """Return the events of a message: thinking, words, and two calls in pieces."""

    def block(index: int, begin: dict[str, Any], *deltas: dict[str, Any]) -> Events:
        return [
            {"type": "content_block_start", "index": index, "content_block": begin},
            *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    def call(index: int, name: str) -> Events:
        begin = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
        pieces = ({"type": "input_json_delta", "partial_json": p} for p in ('{"number"', ":7}"))
        return block(index, begin, *pieces)

    message: dict[str, Any] = {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    return [
        {"type": "message_start", "message": message},
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "An order."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *block(
            1,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Let me "},
            {"type": "text_delta", "text": "look."},
        ),
        *call(2, "find_order"),
        *call(3, "refund"),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 20},
        },
        {"type": "message_stop"},
    ]


def responses_events() -> Events:
    """Return the events of a response: words, and two calls in pieces."""
    head = {
        "id": "resp_7",
        "object": "response",
        "created_at": 7,
        "model": "m",
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }
    text = {"type": "output_text", "text": "Let me look.", "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": '{"number":7}',
            "status": "completed",
        }
        for number, name in enumerate(("find_order", "refund"))
    ]
    events: Events = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}}
    ]

    def item(kind: str, index: int, what: dict[str, Any]) -> dict[str, Any]:
        return {"type": f"response.output_item.{kind}", "output_index": index, "item": what}

    begun = {**said, "status": "in_progress", "content": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "response.content_part.added", **place, "part": {**text, "text": ""}}
    events += [item("added", 0, begun), part]
    delta = {"type": "response.output_text.delta", **place, "logprobs": []}
    events += [{**delta, "delta": "Let me "}, {**delta, "delta": "look."}]
    events.append(item("done", 0, {**said, "status": "completed"}))
    for number, call in enumerate(calls, 1):
        events.append(item("added", number, {**call, "arguments": "", "status": "in_progress"}))
        events += [
            {
                "type": "response.function_call_arguments.delta",
                "item_id": call["id"],
                "output_index": number,
                "delta": piece,
            }
            for piece in ('{"number"', ":7}")
        ]
        events.append(item("done", number, call))
    whole = {**head, "status": "completed", "output": [{**said, "status": "completed"}, *calls]}
    events.append({"type": "response.completed", "response": whole})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


HELPERS = ("anthropic", "openai", "openai-responses")
"""Providers whose SDK has a helper that joins a stream."""

EVENTS = {
    "openai": chat_chunks,
    "anthropic": anthropic_events,
    "openai-responses": responses_events,
    **more_streams.EVENTS,
}


def encoded(events: Iterable[dict[str, Any]]) -> list[bytes]:
    """Return events as server-sent events, one piece of bytes each."""
    return [
        f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n".encode()
        for event in events
    ]


class Lost(ConnectionError):
    """The connection of a stream was lost."""


def _body(pieces: list[bytes], lost: bool) -> Iterator[bytes]:
    """Yield the body of a streamed answer, which may break off."""
    yield from pieces
    if lost:
        raise Lost("reset by peer")


async def _async_body(pieces: list[bytes], lost: bool) -> AsyncIterator[bytes]:
    for piece in _body(pieces, lost):
        yield piece


def open_stream(provider: str, events: Events, *, lost: bool = False) -> Any:
    """Return what the provider's SDK gives for `stream=True`, when it receives these events."""
    if provider in more_streams.EVENTS:
        pieces = more_streams.encoded(provider, events)
        return more_streams.open_stream(provider, lambda: _body(pieces, lost))
    return _create(_client(provider, events, lost, asynchronous=False), provider)


async def open_async_stream(provider: str, events: Events, *, lost: bool = False) -> Any:
    """Return what the provider's asynchronous SDK gives for `stream=True`."""
    if provider in more_streams.EVENTS:
        pieces = more_streams.encoded(provider, events)
        return await more_streams.open_async_stream(provider, lambda: _async_body(pieces, lost))
    return await _create(_client(provider, events, lost, asynchronous=True), provider)


def stream_manager(provider: str, events: Events, *, lost: bool = False) -> Any:
    """Return what the SDK's own helper gives: a context manager that opens the stream."""
    client = _client(provider, events, lost, asynchronous=False)
    if provider == "anthropic":
        return client.messages.stream(model="m", max_tokens=9, messages=[_ASK])
    if provider == "openai":
        return client.chat.completions.stream(model="m", messages=[_ASK])
    return client.responses.stream(model="m", input="hi")


_ASK = {"role": "user", "content": "hi"}


def _create(client: Any, provider: str) -> Any:
    if provider == "anthropic":
        return client.messages.create(model="m", max_tokens=9, messages=[_ASK], stream=True)
    if provider == "openai":
        return client.chat.completions.create(model="m", messages=[_ASK], stream=True)
    return client.responses.create(model="m", input="hi", stream=True)


def _client(provider: str, events: Events, lost: bool, *, asynchronous: bool) -> Any:
    sdk = import_module("anthropic" if provider == "anthropic" else "openai")
    # The HTTP library that this version of the SDK is built on: httpx, or its successor.
    http = import_module(sdk.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

    def answer(_: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        body = (_async_body if asynchronous else _body)(encoded(events), lost)
        return http.Response(200, headers=headers, content=body)

    transport = http.MockTransport(answer)
    if asynchronous:
        client = http.AsyncClient(transport=transport)
        made = sdk.AsyncAnthropic if provider == "anthropic" else sdk.AsyncOpenAI
    else:
        client = http.Client(transport=transport)
        made = sdk.Anthropic if provider == "anthropic" else sdk.OpenAI
    return made(api_key="x", http_client=client, max_retries=0)
