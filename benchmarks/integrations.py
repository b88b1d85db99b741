"""A run with an integration, against the same run by hand with `running`.

Integration: the tool loops of the openai SDK and of Anthropic's, over a transport that answers from
memory, and each framework that is installed (`framework_runs.py`): one response with ten calls,
then the last words.

By hand: what someone writes who has the library and the SDK alone: the prompt from `model_history`,
`chat.record`, and `with chat.running(id) as attempt` around each call; for openai in a loop around
the SDK's `create`, which checks no arguments, for Anthropic inside the SDK's own runner.

Both work in turn, round for round, each round in a conversation of its own. A ratio is the
integration's time divided by the other's, the median over the rounds, by the clock of the wall: on
disk, as it is used.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from anthropic import Anthropic, beta_tool
from framework_runs import FRAMEWORKS
from measure import Figure, arguments, clock, folder, in_turn, median, report
from openai import OpenAI

from eventstore import AsyncEventStore, Conversation, EventStore, Tool, Toolbox
from eventstore.integrations import anthropic, openai
from projections import model_history

Side = Callable[[Conversation], None]

PROMPT = "Where are my orders?"
MODEL = "a-model"
ANTHROPIC: Any = {"model": MODEL, "max_tokens": 1000}


def find_order(number: int) -> str:
    """Find an order at once."""
    return f"order {number} is lost"


class FakeAPI:
    """Answers the requests of both SDKs: with calls, and after their results with words."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self.http = httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        form = _message if request.url.path.endswith("/messages") else _response
        return httpx2.Response(200, json=form(self._calls if _begins(body) else 0))


def _begins(body: dict[str, Any]) -> bool:
    """Return whether a request has nothing but a prompt."""
    thread = body.get("thread") or {}
    return len(body.get("messages") or body["input"]) == 1 and thread.get("type") != "continue"


def _response(calls: int) -> dict[str, Any]:
    words = {"type": "output_text", "text": "All are lost.", "annotations": []}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "content": [words]}
    item = {"type": "function_call", "name": "find_order"}
    asked = [
        {**item, "call_id": f"call_{n}", "arguments": json.dumps({"number": n})}
        for n in range(calls)
    ]
    return {
        "id": f"resp_{calls}",
        "object": "response",
        "model": MODEL,
        "status": "completed",
        "output": asked or [said],
    }


def _message(calls: int) -> dict[str, Any]:
    asked = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "find_order", "input": {"number": n}}
        for n in range(calls)
    ]
    return {
        "id": f"msg_{calls}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": asked or [{"type": "text", "text": "All are lost."}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 9},
    }


def openai_by_hand(chat: Conversation, client: OpenAI, tools: Any) -> None:
    """Run the loop without the integration."""
    chat.add_message("user", PROMPT)
    calls = None
    while calls is None or calls:
        prompt = model_history(chat.events()).render("openai-responses")
        response = client.responses.create(model=MODEL, tools=tools, **prompt)
        calls = chat.record(response, "openai-responses")
        for tool in calls:
            with chat.running(tool.id) as attempt:
                attempt.complete(find_order(**attempt.arguments))


def openai_integrated(chat: Conversation, client: OpenAI) -> None:
    """Run the loop of the integration."""
    openai.Ledger(chat, [find_order]).responses(client, PROMPT, model=MODEL).until_done()


def anthropic_by_hand(chat: Conversation, client: Anthropic) -> None:
    """Run the SDK's own runner with a function that takes the calls in their order."""
    calls: list[Tool] = []

    @beta_tool
    def find_order(number: int) -> str:
        """Find an order at once."""
        with chat.running(calls.pop(0).id) as attempt:
            result = f"order {number} is lost"
            attempt.complete(result)
        return result

    chat.add_message("user", PROMPT)
    prompt: Any = model_history(chat.events()).render("anthropic")
    for message in client.beta.messages.tool_runner(tools=[find_order], **prompt, **ANTHROPIC):
        calls += chat.record(message, "anthropic")


def anthropic_integrated(chat: Conversation, client: Anthropic) -> None:
    """Run the same with the integration."""
    tools = [beta_tool(find_order)]
    ledger = anthropic.Ledger(chat)
    ledger.tool_runner(client, PROMPT, tools=tools, **ANTHROPIC).until_done()


def sides(framework: str, http: httpx2.Client) -> tuple[Side, Side]:
    """Return the run with a framework's integration, and the run by hand."""
    if framework == "openai":
        client = OpenAI(api_key="x", http_client=http)
        tools = Toolbox([find_order]).schemas("openai-responses")
        by_hand = partial(openai_by_hand, client=client, tools=tools)
        return partial(openai_integrated, client=client), by_hand
    other = Anthropic(api_key="x", http_client=http)
    return partial(anthropic_integrated, client=other), partial(anthropic_by_hand, client=other)


def measure(framework: str, *, rounds: int, calls: int) -> list[tuple[float, float]]:
    """Return the seconds that each round took with an integration and by hand."""
    integrated, by_hand = sides(framework, FakeAPI(calls).http)
    times = []
    now = clock(memory=False)
    with folder() as place, EventStore.open(f"sqlite:///{Path(place) / 'agent.db'}") as store:
        for number in range(-1, rounds):  # the first warms up
            ours = store.conversation(f"{framework}-{number}")
            theirs = store.conversation(f"by-hand-{number}")
            took = in_turn(
                now,
                partial(integrated, ours),
                partial(by_hand, theirs),
                first=max(0, number),
            )
            assert len(ours.tools) == len(theirs.tools) == calls
            assert all(tool.response for tool in ours.tools.values())
            if number >= 0:
                times.append(took)
    return times


def measure_framework(name: str, *, rounds: int, calls: int) -> list[tuple[float, float]]:
    """Return the same of an agent framework, whose runs are awaited."""
    runs = FRAMEWORKS[name](calls)
    now = clock(memory=False)
    times = []
    with folder() as place, asyncio.Runner() as loop:

        async def opened() -> AsyncEventStore:
            return await AsyncEventStore.open(f"sqlite:///{Path(place) / 'agent.db'}")

        store = loop.run(opened())
        for number in range(-1, rounds):  # the first warms up
            chats = [store.conversation(f"{side}-{number}") for side in ("ours", "by-hand")]
            ours, theirs = (
                partial(loop.run, run(chat)) for run, chat in zip(runs, chats, strict=True)
            )
            took = in_turn(now, ours, theirs, first=max(0, number))
            for chat in chats:
                tools = loop.run(chat.tools())
                assert len(tools) == calls
                assert all(tool.response for tool in tools.values())
            if number >= 0:
                times.append(took)
        loop.run(store.close())
    return times


def main() -> None:
    """Measure and print."""
    options = arguments(__doc__, calls=10, rounds=101)
    calls = options.calls or 10
    rounds = options.rounds or (21 if options.quick else 101)
    logging.disable(logging.WARNING)  # of frameworks, and of each store that is made
    figures = []
    for framework in ("openai", "anthropic", *FRAMEWORKS):
        measured = measure_framework if framework in FRAMEWORKS else measure
        try:
            times = measured(framework, rounds=rounds, calls=calls)
        except ImportError as missing:
            print(f"{framework} is not measured: {missing}", file=sys.stderr)
            continue
        ratio = median(a / b for a, b in times)
        us = 1e6 / calls
        figures += [
            Figure(f"{framework}: integration / by hand", ratio, "", 1.15),
            Figure(f"{framework}: integration", median(a for a, _ in times) * us, "µs/call"),
            Figure(f"{framework}: by hand", median(b for _, b in times) * us, "µs/call"),
        ]
    report(__file__, options, figures)


if __name__ == "__main__":
    main()
