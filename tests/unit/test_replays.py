"""A run that is replayed: what its steps said is known again, and no call runs twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest

from eventstore import (
    Conversation,
    Dispatcher,
    FunctionCall,
    FunctionTool,
    Image,
    MessageAdded,
    ModelResponded,
    Text,
    Tool,
)
from eventstore.responses.streams import recording
from projections import model_history

Record: TypeAlias = Callable[[Conversation, str], list[Tool]]

NAMES = ("refund", "mail", "ship")


def response(prefix: str = "c") -> dict[str, Any]:
    """Return a whole response of OpenAI that calls each tool."""
    calls = [
        {"id": f"{prefix}{name}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in NAMES
    ]
    message = {"role": "assistant", "content": "\ud83d", "tool_calls": calls}
    return {
        "id": f"chatcmpl-{prefix}",
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
    }


def by_stream(chat: Conversation, step: str) -> list[Tool]:
    """Record the response as a stream of one chunk."""
    whole = response()
    (choice,) = whole["choices"]
    message = choice["message"]
    calls = [{**call, "index": n} for n, call in enumerate(message["tool_calls"])]
    delta = {"role": "assistant", "content": "Ok.", "tool_calls": calls}
    chunk = {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
    with recording([chunk], chat, step=step) as stream:
        list(stream)
    return stream.tools


WAYS: dict[str, Record] = {
    "a response": lambda chat, step: chat.record(response(), step=step),
    "a message": lambda chat, step: chat.record(response()["choices"][0]["message"], step=step),
    "a stream": by_stream,
    "a turn": lambda chat, step: chat.turn(
        "Ok.", [FunctionCall.of(name, {}) for name in NAMES], step=step
    ),
}


@pytest.mark.parametrize("record", WAYS.values(), ids=WAYS)
def test_a_replay_finds_what_its_steps_said(record: Record, chat: Conversation) -> None:
    """A completed call is given from the log, one that ran is in doubt, and a new one runs."""
    ran: list[str] = []

    def run() -> list[Tool]:
        chat.add_message("user", "Refund order 7.", step="order-7 0")
        return record(chat, "order-7 1")

    def noted(name: str) -> str:
        ran.append(name)
        return "done"

    refund, mail, _ = run()
    chat.start(refund.id)
    chat.complete(refund.id, "paid")
    chat.start(mail.id)
    before = chat.version

    tools = [FunctionTool(partial(noted, name), name) for name in NAMES]
    again = run()
    assert chat.version == before
    assert [tool.status.name for tool in again] == ["Completed", "Running", "Pending"]

    ended = Dispatcher(chat, tools).dispatch(again)
    assert ran == ["ship"]
    assert [tool.status.name for tool in ended] == ["Completed", "Running", "Completed"]
    assert [tool.in_doubt for tool in ended] == [False, True, False]


def test_another_step_or_another_answer_is_recorded(chat: Conversation) -> None:
    """The same words of another step were said again; other ones of the step by a model anew."""
    for step, prefix in (("w 0", "a"), ("w 0", "a"), ("w 0", "b"), ("w 1", "a")):
        chat.record(response(prefix=prefix), step=step)
        first = chat.add_message("user", "Go on.", step=step)
    events = [recorded.event for recorded in chat.events()]
    assert len([event for event in events if isinstance(event, ModelResponded)]) == 3
    said = [e.parts for e in events if isinstance(e, MessageAdded) and e.role == "user"]
    assert said == [(Text("Go on."),)] * 2
    assert len(chat.tools) == 9
    assert chat.add_message("user", "Go on.", step="w 1") == first


def test_a_model_that_is_asked_anew_repeats_no_effect(chat: Conversation) -> None:
    """The new answer takes the place of the first, whose effects and results are kept."""
    refund, mail, ship = chat.record(response(), step="w 1")
    chat.start(refund.id)
    chat.complete(refund.id, [Text("paid"), Image(url="https://shop.example/receipt.png")])
    chat.start(mail.id)
    chat.approve(ship.id, seen=ship)

    again = chat.record(response("d"), step="w 1")
    assert [tool.id for tool in again] == ["drefund", "dmail", "dship"]
    assert [tool.status.name for tool in again] == ["Completed", "Rejected", "Pending"]
    assert chat.record(response("d"), step="w 1") == again
    assert [chat.tool(tool.id).status.name for tool in (mail, ship)] == ["Running", "Rejected"]
    messages = model_history(chat).render("openai")["messages"]
    read = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert read["drefund"] == read["crefund"] == "paid\n[image https://shop.example/receipt.png]"
    assert "may have taken effect" in read["dmail"]

    third = chat.record({"role": "assistant", "content": "No."}, step="w 1")
    assert third == []
    assert chat.tool("dship").status.name == "Rejected"


def asking(arguments: str, call_id: str, *others: str) -> dict[str, Any]:
    """Return a message that asks for equal refunds."""
    calls = [
        {"id": i, "type": "function", "function": {"name": "refund", "arguments": arguments}}
        for i in (call_id, *others)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def edited(chat: Conversation) -> None:
    """Run the first call with other arguments."""
    chat.approve("first", {"order": 8}, seen=None)
    chat.start("first")
    chat.complete("first", "paid")


ENDS: dict[str, Callable[[Conversation], object]] = {
    "edited": edited,
    "rejected": lambda chat: chat.reject("first", "no", by="grace", seen=None),
    "rejected by a rule": lambda chat: chat.reject("first", source="rule", seen=None),
    "failed": lambda chat: chat.fail("first", "no such order"),
}


@pytest.mark.parametrize(
    ("end", "order", "statuses"),
    [
        ("edited", 7, ["Completed", "Pending"]),
        ("edited", 8, ["Completed", "Pending"]),
        ("edited", 9, ["Pending", "Pending"]),
        ("rejected", 7, ["Rejected", "Pending"]),
        ("rejected by a rule", 7, ["Pending", "Pending"]),
        ("failed", 7, ["Pending", "Pending"]),
    ],
)
def test_a_first_call_stands_for_one_new_one(
    chat: Conversation, end: str, order: int, statuses: list[str]
) -> None:
    """A person's decision on it holds, and no second call is taken for it, however often asked."""
    chat.record(asking('{"order": 7}', "first"), step="w 1")
    ENDS[end](chat)
    for time in range(2):
        ids = (f"a{time}", f"b{time}")
        new = chat.record(asking(f'{{"order": {order}}}', *ids), step="w 1")
        assert [tool.status.name for tool in new] == statuses


def test_the_answer_of_a_step_is_recorded_once(chat: Conversation) -> None:
    """A tool's message that is told again changes nothing, and gives its call."""
    (call, *_) = chat.record(response(), step="w 0")
    answer = {"role": "tool", "tool_call_id": "crefund", "content": "paid"}
    first = chat.record(answer, step="w 1")
    before = chat.version
    assert chat.record(answer, step="w 1") == first == [chat.tool(call.id)]
    assert chat.version == before


@pytest.mark.parametrize(
    ("step", "event_ids", "error"),
    [("", None, ValueError), (1, None, TypeError), ("w", ["0" * 32], ValueError)],
)
def test_a_step_that_names_nothing_is_refused(
    chat: Conversation, step: Any, event_ids: Any, error: Any
) -> None:
    """The step is text, and the only name of its events."""
    with pytest.raises(error, match=r"^step is "):
        chat.record(response(), step=step, event_ids=event_ids)
    assert chat.version == 0
