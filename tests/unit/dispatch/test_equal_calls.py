"""A call that asks for the same as one in doubt does not simply run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from support.dispatchers import answers, make

from eventstore import AsyncEventStore, Conversation, FunctionTool, IllegalTransition, RetryPolicy
from eventstore.domain.tool import Tool


class Bank:
    """The outside system."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def refund(self, order: int, note: str = "") -> str:
        """Refund an order."""
        self.paid.append(order)
        return f"refunded {order}{note}"


def in_doubt(chat: Conversation, order: int = 8) -> Tool:
    """Return a call that was started and has no end."""
    return chat.start(chat.request("refund", {"order": order}).id)


def to_run_again(chat: Conversation, again: str) -> tuple[Bank, FunctionTool[..., str], Tool]:
    """Return a bank, its tool, and a call whose next attempt was announced, or asked for."""
    bank, first = Bank(), in_doubt(chat)
    if again == "announced":
        chat.fail(first.id, "busy", delay=0)
    else:
        chat.settle(first.id, seen=first, run_again=True)
    retry = RetryPolicy(max_attempts=3, initial_backoff=0)
    return bank, FunctionTool(bank.refund, retry=retry), first


def ran(kind: str, chat: Conversation, arguments: dict[str, Any], **options: Any) -> int:
    """Return how often the tool ran for a new call."""
    bank, dispatcher_options = Bank(), {}
    if "for_all" in options:
        dispatcher_options["equal_calls"] = options.pop("for_all")
    tool = FunctionTool(bank.refund, **options)
    call = chat.request("refund", arguments)
    make(kind, chat, [tool], **dispatcher_options).dispatch([call])
    return len(bank.paid)


@pytest.mark.parametrize(
    ("arguments", "options", "runs"),
    [
        ({"order": 8}, {}, 0),
        ({"order": 8}, {"effect": "mutating"}, 0),
        ({"order": 8}, {"for_all": "answer"}, 0),
        ({"order": 8}, {"for_all": "run"}, 1),
        ({"order": 8}, {"equal_calls": "run"}, 1),
        ({"order": 8}, {"effect": "read_only"}, 1),
        ({"order": 8}, {"idempotent": True}, 1),
        ({"order": 8}, {"idempotent": True, "equal_calls": "refuse"}, 0),
        ({"order": 9}, {}, 1),
        ({"order": 8, "note": "!"}, {}, 1),
        ({"order": 8, "note": "!"}, {"equal_by": lambda arguments: arguments["order"]}, 0),
        ({"order": 9}, {"equal_by": lambda arguments: arguments["order"]}, 1),
        ({"order": 9}, {"equal_by": lambda _: None}, 1),
    ],
)
def test_an_equal_call_waits_for_the_first(
    kind: str, chat: Conversation, arguments: dict[str, Any], options: dict[str, Any], runs: int
) -> None:
    """The call is refused, the model learns of the first, and the tool says what is equal."""
    first = in_doubt(chat)
    assert ran(kind, chat, arguments, **options) == runs
    if not runs:
        *_, second = chat.tools.values()
        assert (second.status.name, second.attempts) == ("Rejected", 0)
        assert f"{first.id!r}, which may have taken effect" in answers(chat)[second.id]


@pytest.mark.parametrize(
    ("how", "runs", "text"), [("refuse", 1, "refunded 8"), ("answer", 0, "as before")]
)
def test_after_a_known_end_it_runs_or_is_answered(
    kind: str, chat: Conversation, how: str, runs: int, text: str
) -> None:
    """The recorded result is given as what it is: no tool ran."""
    chat.complete(in_doubt(chat).id, "as before")
    assert ran(kind, chat, {"order": 8}, for_all=how) == runs
    *_, second = chat.tools.values()
    assert answers(chat)[second.id] == text
    assert second.status.synthetic is (not runs)  # type: ignore[union-attr]


def test_the_arguments_that_run_are_compared(kind: str, chat: Conversation) -> None:
    """An edit of a person makes a call equal to another one."""
    in_doubt(chat)
    bank = Bank()
    call = chat.request("refund", {"order": 7})
    chat.approve(call.id, {"order": 8})
    (done,) = make(kind, chat, [bank.refund]).dispatch([call.id])
    assert (bank.paid, done.status.name) == ([], "Rejected")


@dataclass
class Item:
    """An argument with members of its own."""

    number: float
    count: int = 1


@pytest.mark.parametrize(
    ("first", "second", "runs"),
    [
        ({"order": 8}, {"order": 8.0}, 0),
        ({"order": [{"id": 8}]}, {"order": [{"id": 8.0}]}, 0),
        ({"order": 1}, {"order": True}, 1),
        ({"order": 9007199254740993}, {"order": 9007199254740992.0}, 1),
        ({"order": 8}, {"order": "8"}, 1),
        ({"order": 8}, {"order": 8, "note": "", "item": None}, 0),
        ({"order": 8, "note": "", "rest": 0.0}, {"order": 8, "rest": 0}, 0),
        ({"order": 8}, {"order": 8, "note": "!"}, 1),
        ({"order": 8, "item": {"number": 2}}, {"order": 8, "item": {"number": 2, "count": 1}}, 0),
        ({"order": 8, "item": {"number": 2}}, {"order": 8, "item": {"number": 2, "count": 2}}, 1),
        ({"order": 8, "old": 1}, {"order": 8}, 1),
    ],
)
def test_arguments_are_compared_as_the_function_gets_them(
    chat: Conversation, first: dict[str, Any], second: dict[str, Any], runs: int
) -> None:
    """Numbers count by their value, and what is left out is the default."""
    paid: list[object] = []

    def refund(
        order: Any, note: str = "", item: Item | None = None, rest: Any = _NO_JSON, fee: float = 1
    ) -> None:
        paid.append((order, note, item, rest, fee))

    chat.start(chat.request("refund", first).id)
    make("threads", chat, [refund]).dispatch([chat.request("refund", second)])
    assert len(paid) == runs


_NO_JSON = object()


@pytest.mark.parametrize("key", [lambda _: float("nan"), lambda _: object()])
def test_a_key_that_equals_nothing_is_refused(kind: str, chat: Conversation, key: Any) -> None:
    """Such a key finds no call. So nothing runs, and the error names the key."""
    in_doubt(chat)
    bank = Bank()
    tool = FunctionTool(bank.refund, equal_by=key)
    call = chat.request("refund", {"order": 8, "note": "!"})
    with pytest.raises(ValueError, match=r"'refund' is (nan|<object.*>), which does not equal"):
        make(kind, chat, [tool]).dispatch([call])
    assert (bank.paid, chat.tool(call.id).is_pending) == ([], True)


def test_a_fork_does_not_forget_what_its_origin_began(kind: str, chat: Conversation) -> None:
    """Only the origin knows the outcome, and the copy does not try again."""
    first = in_doubt(chat)
    copy = chat.fork(chat.version, "copy")
    assert ran(kind, copy, {"order": 8}) == 0
    with pytest.raises(IllegalTransition, match=r"origin of this copy.*pass attempt=2"):
        copy.start(first.id)


@pytest.mark.parametrize("again", ["announced", "settled"])
def test_a_call_is_refused_while_an_equal_one_is_to_run_again(
    kind: str, chat: Conversation, again: str
) -> None:
    """One decision, one effect: also in a copy, where the origin runs it."""
    bank, tool, first = to_run_again(chat, again)
    copy = chat.fork(chat.version, "copy")
    assert ran(kind, copy, {"order": 8}) == 0
    with pytest.raises(IllegalTransition, match=r"origin of this copy.*pass attempt=2"):
        copy.start(first.id)
    second = chat.request("refund", {"order": 8})
    (refused,) = make(kind, chat, [tool]).dispatch([second])
    assert (bank.paid, refused.status.name) == ([], "Rejected")
    assert "which has failed and will be tried again" in answers(chat)[second.id]
    make(kind, chat, [tool]).resume()
    assert bank.paid == [8]


def test_a_fork_keeps_the_doubt_of_a_call_that_paused(kind: str, chat: Conversation) -> None:
    """The first attempt may have taken effect, and the second asks a person."""
    first = in_doubt(chat)
    with chat.running(first.id, attempt=2) as attempt:
        attempt.pause()
    assert ran(kind, chat.fork(chat.version, "copy"), {"order": 8}) == 0


def test_a_dispatch_leaves_calls_in_doubt_alone(kind: str, chat: Conversation) -> None:
    """An imported call without a result may have run; a tool that may run twice runs."""
    function = {"name": "refund", "arguments": '{"order": 8}'}
    call = {"id": "c1", "type": "function", "function": function}
    imported = chat.record_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])
    bank = Bank()
    for tools in ([], [bank.refund], [FunctionTool(bank.refund, idempotent=True)]):
        (left,) = make(kind, chat, tools).dispatch(imported)
        assert left.in_doubt is not bool(bank.paid)
    assert bank.paid == [8]


@pytest.mark.parametrize("again", ["announced", "settled"])
def test_a_next_attempt_does_not_begin_beside_a_doubt(
    kind: str, chat: Conversation, again: str
) -> None:
    """The attempt begins once it is known that the equal call took no effect."""
    bank, tool, _ = to_run_again(chat, again)
    second = in_doubt(chat)
    (left,) = make(kind, chat, [tool]).resume()[:1]
    assert (bank.paid, left.status.name, left.attempts) == ([], "Failed", 1)
    chat.settle(second.id, seen=second, failed="the bank has no such refund")
    make(kind, chat, [tool]).resume()
    assert bank.paid == [8]


def test_equal_calls_of_one_turn_run_after_one_another(kind: str, chat: Conversation) -> None:
    """The first has its end before the second begins; beside each other both are under way here."""
    bank = Bank()
    for parallel in (False, True):
        calls = [chat.request("refund", {"order": 8}) for _ in range(3)]
        tool = FunctionTool(bank.refund, parallel=parallel)
        done = make(kind, chat, [tool]).dispatch(calls)
        assert [tool.status.name for tool in done] == ["Completed"] * 3
    assert len(bank.paid) == 6


def test_after_a_timeout_the_second_of_one_turn_is_refused(kind: str, chat: Conversation) -> None:
    """The first ended in doubt a moment ago."""

    def refund(order: int) -> None:
        raise TimeoutError("no answer")

    calls = [chat.request("refund", {"order": 8}) for _ in range(2)]
    done = make(kind, chat, [refund]).dispatch(calls)
    assert [tool.status.name for tool in done] == ["Failed", "Rejected"]


def test_a_loop_by_hand_asks(chat: Conversation) -> None:
    """The calls that ask for the same are returned, with whether they are in doubt."""
    first = in_doubt(chat)
    second = chat.request("refund", {"order": 8})
    third = chat.request("refund", {"order": 9})
    assert [(each.id, each.in_doubt) for each in chat.equal_calls(second)] == [(first.id, True)]
    assert chat.equal_calls(third) == []
    same_tool = chat.equal_calls(third, by=lambda _: "any")
    assert [each.id for each in same_tool] == [first.id, second.id]

    async def awaited() -> list[Tool]:
        async with AsyncEventStore.open("sqlite://") as store:
            chat = store.conversation("c")
            await chat.request("refund", {"order": 8})
            return await chat.equal_calls(await chat.request("refund", {"order": 8}))

    assert len(asyncio.run(awaited())) == 1


def test_a_word_that_is_none_is_refused(chat: Conversation) -> None:
    """The error names the value and the remedy."""
    with pytest.raises(TypeError, match="equal_calls is 'skip': pass 'refuse', 'answer' or 'run'"):
        make("threads", chat, [], equal_calls="skip")
    with pytest.raises(TypeError, match="equal_calls of tool 'refund' is 'skip'"):
        FunctionTool(Bank().refund, equal_calls="skip")  # type: ignore[arg-type]
