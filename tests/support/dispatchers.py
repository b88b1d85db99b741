"""Both dispatchers behind one interface, so that each test runs with threads and asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore import (
    AsyncConversation,
    AsyncDispatcher,
    Conversation,
    Dispatcher,
    GateDecision,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolGateContext,
    ToolRejected,
    validate,
)
from eventstore.aio.host_transaction import bind_to_connection
from eventstore.aio.session import AsyncLogSession
from eventstore.append.commands import attempts, decisions, messages
from eventstore.storage.interface import Append
from eventstore.testing import draft
from projections import model_history

if TYPE_CHECKING:
    import pytest


class Driven:
    """Either dispatcher, with methods that are called without `await`."""

    def __init__(self, dispatcher: Dispatcher | AsyncDispatcher) -> None:
        self.inner: Any = dispatcher

    def _done(self, verb: str, *args: Any) -> Any:
        if isinstance(self.inner, Dispatcher):
            return getattr(self.inner, verb)(*args)

        async def run() -> Any:
            return await getattr(self.inner, verb)(*args)

        return asyncio.run(run())

    def offer(self, context: ToolGateContext | None = None) -> GateDecision:
        """Call `offer`."""
        return self._done("offer", context)  # type: ignore[no-any-return]

    def dispatch(self, tools: Iterable[Tool | str]) -> list[Tool]:
        """Call `dispatch`."""
        return self._done("dispatch", tools)  # type: ignore[no-any-return]

    def resume(self) -> list[Tool]:
        """Call `resume`."""
        return self._done("resume")  # type: ignore[no-any-return]


class Waits:
    """A `sleep` that does not wait, and records the waits."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        """Wait."""
        self.seconds.append(seconds)


def awaited(chat: Conversation) -> AsyncConversation:
    """Return the same conversation for asyncio; patches of its reading apply to both."""
    session = chat.session.outside_transaction(chat.id)
    awaited = AsyncConversation(AsyncLogSession(session, bind_to_connection), chat.id)
    awaited._blocking = chat
    return awaited


def store_unchecked(chat: Conversation, event: ToolApproved) -> None:
    """Store an approval as another process would, whose version has fewer checks."""
    assert event.edited_call is not None
    digest = event.edited_call.digest()
    drafts = [msgspec.structs.replace(draft(event), fingerprint=digest, begins=True)]
    request = Append(chat.id, chat.version, 0, drafts, lambda _: drafts)
    (outcome,) = chat.session.outside_transaction(chat.id).storage.append([request])
    assert not isinstance(outcome, Exception), outcome


def refuse_commands(
    monkeypatch: pytest.MonkeyPatch, verb: str, error: BaseException, *, stored: bool = False
) -> None:
    """Let the commands of a method raise; with `stored`, after they are stored."""
    room = next(each for each in (messages, decisions, attempts) if hasattr(each, verb))
    command_of = getattr(room, verb)

    def refuse(*_: Any) -> Any:
        raise error

    def refused(*args: Any, **options: Any) -> Any:
        member = {"result" if stored else "decide": refuse}
        return msgspec.structs.replace(command_of(*args, **options), **member)

    monkeypatch.setattr(room, verb, refused)


def make(kind: str, chat: Conversation, tools: Any, **options: Any) -> Driven:
    """Return a dispatcher of a kind, without waits and randomness."""
    defaults: dict[str, Any] = {"sleep": Waits(), "chance": lambda: 1.0, "clock": lambda: 0}
    if kind == "threads":
        return Driven(Dispatcher(chat, tools, **defaults | options))
    return Driven(AsyncDispatcher(awaited(chat), tools, **defaults | options))


def tags(chat: Conversation, call_id: str | None = None) -> list[str]:
    """Return the tags of the tool events, of one call or of all."""
    return [
        recorded.event.tag
        for recorded in chat.events()
        if isinstance(recorded.event, ToolEvent) and call_id in (None, recorded.call_id)
    ]


def last(chat: Conversation, of: type) -> Any:
    """Return the last event of a class."""
    return [r.event for r in chat.events() if isinstance(r.event, of)][-1]


def answers(chat: Conversation) -> dict[str, str]:
    """Return the model's view of the answer to each call, by id."""
    messages = model_history(chat.events(), collapse="none").render("openai")["messages"]
    return {
        m["tool_call_id"]: _without_error_mark(m["content"])
        for m in messages
        if m["role"] == "tool"
    }


def _without_error_mark(content: str) -> str:
    """Return an answer without its error mark."""
    return str(json.loads(content)["error"]) if content.startswith('{"error":') else content


def check_log(chat: Conversation) -> None:
    """Check that the log is sound, and that its renderings are valid."""
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
    """Return a tool that raises the error."""

    def tool() -> None:
        raise error

    return tool
