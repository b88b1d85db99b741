"""A chat loop: the prompt comes from the log, and every step goes into it.

    python chat_loop.py

`ask_model` stands for a request to a provider; what it returns has the form of OpenAI's messages.
"""

from __future__ import annotations

import json
from typing import Any

from eventstore import Dispatcher, EventStore
from projections import model_history


def find_order(number: int) -> dict[str, Any]:
    """Find an order by its number."""
    return {"order": number, "status": "shipped"}


def ask_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a model might answer: first a call, then a sentence."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"It is {json.loads(last['content'])['status']}."}
    function = {"name": "find_order", "arguments": '{"number": 7}'}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def main() -> None:
    """Ask one question, and print the answer."""
    with EventStore.open("sqlite:///chat_loop.db") as store:
        chat = store.conversation("support-42")
        dispatcher = Dispatcher(chat, [find_order])
        chat.add_message("user", "Where is my order 7?")
        while True:
            prompt = model_history(chat.events()).render("openai")
            message = ask_model(prompt["messages"])
            calls = chat.record(message, provider="openai")
            if not calls:
                break
            dispatcher.dispatch(calls)
        print(message["content"])


if __name__ == "__main__":
    main()
