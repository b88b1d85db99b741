"""Both dispatchers under one hood, so that each test holds for threads and for asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

from eventstore import (
    AsyncConversation,
    AsyncDispatcher,
    AsyncEventStore,
    Conversation,
    Dispatcher,
    GateDecision,
    Tool,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolGateContext,
    ToolRejected,
    validate,
)
from projections import model_history


class Driven:
    """A dispatcher whose verbs are called without `await`, whichever it is."""

    def __init__(self, dispatcher: Dispatcher | AsyncDispatcher) -> None:
        self.inner: Any = dispatcher

    def _done(self, verb: str, *args: Any) -> Any:
        if isinstance(self.inner, Dispatcher):
            return getattr(self.inner, verb)(*args)

        async def run() -> Any:
            return await getattr(self.inner, verb)(*args)

        return asyncio.run(run())

    def offer(self, context: ToolGateContext | None = None) -> GateDecision:
        """Which tools the model may see."""
        return self._done("offer", context)  # type: ignore[no-any-return]

    def dispatch(self, tools: Iterable[Tool | str]) -> list[Tool]:
        """Run a turn."""
        return self._done("dispatch", tools)  # type: ignore[no-any-return]

    def resume(self) -> list[Tool]:
        """Go on after a crash."""
        return self._done("resume")  # type: ignore[no-any-return]


class Waits:
    """Waiting that takes no time: how long each wait would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        """Wait."""
        self.seconds.append(seconds)


def awaited(chat: Conversation) -> AsyncConversation:
    """The same conversation for asyncio: what is patched in its reading is patched in both."""
    return AsyncConversation(AsyncEventStore(chat._store), chat)


def make(kind: str, chat: Conversation, tools: Any, **options: Any) -> Driven:
    """A dispatcher of a kind that waits for nothing and takes no chances."""
    options = {"sleep": Waits(), "chance": lambda: 1.0, "clock": lambda: 0} | options
    if kind == "threads":
        return Driven(Dispatcher(chat, tools, **options))
    return Driven(AsyncDispatcher(awaited(chat), tools, **options))


def tags(chat: Conversation, call_id: str | None = None) -> list[str]:
    """What happened, of one call or of all."""
    return [
        recorded.event.tag
        for recorded in chat.events()
        if isinstance(recorded.event, ToolEvent) and call_id in (None, recorded.call_id)
    ]


def last(chat: Conversation, of: type) -> Any:
    """The last event of a kind."""
    return [r.event for r in chat.events() if isinstance(r.event, of)][-1]


def answers(chat: Conversation) -> dict[str, str]:
    """What the model reads as the answer to each call, by id."""
    messages = model_history(chat.events(), collapse="none").render("openai")["messages"]
    return {m["tool_call_id"]: _told(m["content"]) for m in messages if m["role"] == "tool"}


def _told(content: str) -> str:
    """An answer without the mark that it is an error."""
    return str(json.loads(content)["error"]) if content.startswith('{"error":') else content


def check_log(chat: Conversation) -> None:
    """The log is sound, and each provider takes what it says."""
    endings: dict[str | None, list[type]] = {}
    for recorded in chat.events():
        if isinstance(recorded.event, ToolCompleted | ToolFailed | ToolRejected):
            endings.setdefault(recorded.call_id, []).append(type(recorded.event))
    for seen in endings.values():
        assert seen.count(ToolCompleted) + seen.count(ToolRejected) <= 1
    for provider in ("openai", "anthropic"):
        messages = model_history(chat.events()).render(provider)["messages"]
        assert validate(messages, provider) == []


def raising(error: BaseException) -> Callable[..., Any]:
    """A tool that raises."""

    def tool() -> None:
        raise error

    return tool
