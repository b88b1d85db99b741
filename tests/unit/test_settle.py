"""A call in doubt is settled: it took effect, it took none, or it may run again."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.dispatchers import awaited

from eventstore import (
    CallChanged,
    Completed,
    Conversation,
    Dispatcher,
    EventStore,
    Failed,
    FunctionTool,
    IllegalTransition,
    StoreCorrupt,
    Tool,
    ToolCompleted,
    ToolFailed,
    ToolRejected,
    UnparsedArguments,
)
from projections import doubts, error_statistics, model_history, resume_plan, why
from projections.doubts import Doubt, doubts_among
from projections.unsettled_calls import UnsettledCalls


def begun(chat: Conversation) -> Tool:
    """Return a call under way."""
    return chat.start(chat.request("pay", {"euros": 1}).id)


def ended(chat: Conversation) -> Tool:
    """Return a call whose attempt timed out."""
    return chat.fail(begun(chat).id, TimeoutError("late"))


def lost_before(chat: Conversation) -> Tool:
    """Return a call of whose attempts the first has no end."""
    return chat.fail(chat.start(begun(chat).id, attempt=2).id, "declined")


def imported(chat: Conversation) -> Tool:
    """Return a call without a result, which ran elsewhere."""
    function = {"name": "pay", "arguments": "{}"}
    call = {"id": "c1", "type": "function", "function": function}
    (tool,) = chat.record_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])
    return tool


def doubts_of(chat: Conversation) -> list[Doubt]:
    """Return the calls in doubt."""
    return doubts_among(UnsettledCalls().extend(chat.events()), 0)


DOUBTS = [begun, ended, lost_before, imported]


@pytest.mark.parametrize("in_doubt", DOUBTS)
def test_a_call_that_took_effect_has_its_result(chat: Conversation, in_doubt: Any) -> None:
    """The model reads it; who said so, and why, is in the log."""
    tool = in_doubt(chat)
    assert tool.in_doubt
    done = chat.settle(tool.id, seen=tool, completed="paid", by="ann", reason="asked the bank")
    assert isinstance(done.status, Completed)
    assert (done.in_doubt, done.status.synthetic) == (False, True)
    last = list(chat.events())[-1].event
    assert isinstance(last, ToolCompleted)
    assert (last.by, last.reason) == ("ann", "asked the bank")
    assert "paid" in str(model_history(chat.events()).render("openai"))
    assert not resume_plan(chat.events()).unknown


@pytest.mark.parametrize("in_doubt", DOUBTS)
def test_a_call_that_took_no_effect_has_failed(chat: Conversation, in_doubt: Any) -> None:
    """Nobody runs it again, and nothing about it is in doubt."""
    tool = in_doubt(chat)
    done = chat.settle(tool.id, seen=tool, failed="no such payment", by="ann", reason="looked")
    assert isinstance(done.status, Failed)
    assert not done.in_doubt
    last = list(chat.events())[-1].event
    assert isinstance(last, ToolFailed)
    assert (last.by, last.reason, last.failure.message) == ("ann", "looked", "no such payment")
    assert [step.action for step in resume_plan(chat.events()).steps] == ["done"]
    assert "no such payment" in str(model_history(chat.events()).render("openai"))
    assert error_statistics(chat.events()).overall.terminal_failures == 1
    with pytest.raises(IllegalTransition, match="it was settled as failed for good; to run it all"):
        chat.start(tool.id)
    assert chat.start(tool.id, attempt=done.attempts + 1).in_doubt


@pytest.mark.parametrize("in_doubt", DOUBTS)
def test_a_call_may_run_again(chat: Conversation, in_doubt: Any) -> None:
    """A worker that resumes runs it once, as an attempt that was announced."""
    paid: list[int] = []
    tool = in_doubt(chat)
    chat.settle(tool.id, seen=tool, run_again=True, by="ann")
    definition = FunctionTool(lambda **_: paid.append(1), "pay", typed=False, effect="mutating")
    for _ in range(2):
        Dispatcher(chat, [definition]).resume()
    assert paid == [1]
    assert chat.tool(tool.id).response is not None


@pytest.mark.parametrize("in_doubt", DOUBTS)
@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ({"completed": "paid"}, "completed"),
        ({"failed": "no such payment"}, "failed"),
        ({"run_again": True}, "run again"),
    ],
)
def test_a_settlement_is_no_failure_of_the_tool(
    chat: Conversation, in_doubt: Any, words: dict[str, Any], outcome: str
) -> None:
    """Statistics count it apart, and as nothing lost any more; `why` names who said so."""
    tool = in_doubt(chat)
    before = error_statistics(chat.events()).overall
    chat.settle(tool.id, seen=tool, **words, by="ann", reason="asked the bank")
    statistics = error_statistics(chat.events())
    now = statistics.overall
    assert (now.failures, now.failures_by_kind) == (before.failures, before.failures_by_kind)
    assert now.settlements_by_outcome == {outcome.replace(" ", "_"): 1}
    assert (now.outcome_unknown, now.retries) == (0, before.retries)
    ends = {"completed": now.completions, "failed": now.terminal_failures, "run again": now.open}
    assert ends == {end: int(end == outcome) for end in ends}
    assert now.recovered == 0
    assert now.running == before.running, "how long a person took is no duration of the tool"
    assert statistics.anomalies == ()
    assert "1 settled by a person" in str(statistics)
    said = outcome.replace("run again", "to be run again")
    assert f"settled as {said} by ann: asked the bank" in str(why(chat.events()))


@pytest.mark.parametrize("decided", ["pending", "approved"])
def test_a_rejection_does_not_hide_a_doubt(chat: Conversation, decided: str) -> None:
    """The call paused after an attempt in doubt; it is settled, and a failure hides it neither."""
    tool = ended(chat)
    with chat.running(tool.id, attempt=2) as attempt:
        attempt.pause(reason="asks a person")
    if decided == "approved":
        chat.approve(tool.id)
    with pytest.raises(IllegalTransition, match="it may have taken effect, and a rejection would"):
        chat.reject(tool.id, "no")
    with pytest.raises(IllegalTransition, match="settle"):
        chat.append(ToolRejected(tool.id))
    assert chat.fail(tool.id, "its edit is not valid").in_doubt
    seen = chat.tool(tool.id)
    assert [each.call_id for each in doubts_of(chat)] == [tool.id]
    assert not chat.settle(tool.id, seen=seen, failed="no such payment").in_doubt


def test_the_same_word_twice_is_one_and_another_is_refused(chat: Conversation) -> None:
    """A call without a doubt is settled by nobody."""
    tool = begun(chat)
    for words in ({"failed": "no"}, {"run_again": True}):
        again = begun(chat)
        chat.settle(again.id, seen=again, by="ann", **words)  # type: ignore[arg-type]
        version = chat.version
        chat.settle(again.id, seen=again, by="bob", **words)  # type: ignore[arg-type]
        assert chat.version == version
        with pytest.raises(IllegalTransition, match="nothing about it is in doubt"):
            chat.settle(again.id, seen=again, failed="else")
    chat.settle(tool.id, seen=tool, completed=1)
    chat.settle(tool.id, seen=tool, completed=1)
    with pytest.raises(IllegalTransition, match="the first completion stands"):
        chat.settle(tool.id, seen=tool, completed=2)
    chat.complete(chat.start(chat.request("pay", {"euros": 3}, "done").id).id, 1)
    with pytest.raises(IllegalTransition, match="nothing about it is in doubt"):
        chat.settle("done", seen=chat.tool("done"), completed=1)
    waits = chat.request("pay", {"euros": 2})
    with pytest.raises(IllegalTransition, match="nothing about it is in doubt"):
        chat.settle(waits.id, seen=waits, failed="no")


def test_a_call_that_was_started_since_is_not_settled(chat: Conversation) -> None:
    """The word was about an earlier attempt."""
    tool = begun(chat)
    chat.start(tool.id, attempt=2)
    with pytest.raises(CallChanged, match="it was started 2 times, not 1"):
        chat.settle(tool.id, seen=tool, run_again=True)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "pass one of completed=, failed= and run_again=True"),
        ({"completed": None, "failed": "no"}, "pass one of"),
        ({"failed": "no", "run_again": True}, "pass one of"),
        ({"failed": " "}, "failed is ' ': say why the call has not taken effect"),
        ({"failed": "no", "seen": None}, "seen is None: pass the Tool"),
        ({"failed": "no", "seen": "1"}, "no revision of a call"),
    ],
)
def test_a_settlement_without_an_outcome_is_refused(
    chat: Conversation, given: Any, error: str
) -> None:
    """One clear error, and nothing is written."""
    tool = begun(chat)
    version = chat.version
    with pytest.raises((TypeError, ValueError), match=error):
        chat.settle(tool.id, **{"seen": tool, **given})
    assert chat.version == version


def test_a_call_of_which_a_step_cannot_be_read_is_settled(tmp_path: Path) -> None:
    """The inbox lists it. Nothing may run in such a conversation, and so it does not run again."""
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    with EventStore.open(url) as store:
        tool = begun(store.conversation("c"))
    with closing(sqlite3.connect(tmp_path / "agent.db")) as database, database:
        database.execute("UPDATE toolledger_events SET payload = '{' WHERE tag = 'running'")
    with EventStore.open(url) as store:
        chat = store.conversation("c")
        (doubt,) = doubts(store)
        with pytest.raises(StoreCorrupt):
            chat.settle(tool.id, seen=doubt.revision, run_again=True)
        chat.settle(tool.id, seen=doubt.revision, failed="no such payment", by="ann")
        assert doubts(store) == []
        assert not resume_plan(chat.events()).unknown
        assert "settled by ann" in str(why(chat.events()))


def test_arguments_that_are_no_object_do_not_run_again(chat: Conversation) -> None:
    """Nothing can run with them."""
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{oops"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    (tool,) = chat.record_messages([message])
    with pytest.raises(UnparsedArguments):
        chat.settle(tool.id, seen=tool, run_again=True)


def test_asyncio_settles_as_well(chat: Conversation) -> None:
    """The coroutine records the same."""
    tool = begun(chat)
    done = asyncio.run(awaited(chat).settle(tool.id, seen=str(tool.revision), completed=None))
    assert done.response is not None
    assert done.response.result is None


def test_the_inbox_has_every_doubt_of_every_conversation() -> None:
    """The oldest is first. What waits, ended or was imported is not in it."""
    with EventStore.open("sqlite://") as store:
        first = ended(store.conversation("a"))
        second = begun(store.conversation("b"))
        third = lost_before(store.conversation("a"))
        imported(store.conversation("c"))
        store.conversation("c").request("pay")
        store.conversation("c").start(store.conversation("c").request("mail").id, lease=60)
        settled = begun(store.conversation("c"))
        store.conversation("c").settle(settled.id, seen=settled, failed="no")
        found = doubts(store)
        assert [(each.conversation_id, each.call_id) for each in found] == [
            ("a", first.id),
            ("b", second.id),
            ("a", third.id),
        ]
        assert [each.is_open for each in found] == [False, True, False]
        assert "ended in doubt: late" in str(found[0])
        assert "a worker may still be at it" in str(found[1])
        for each in found:
            chat = store.conversation(each.conversation_id)
            chat.settle(each.call_id, seen=each.revision, failed="no")
        assert doubts(store) == []
