"""Filters: the events to look at in a long log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventstore import (
    ErrorKind,
    Failure,
    FunctionCall,
    FunctionResponse,
    MessageAdded,
    RunEnded,
    Text,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRunning,
)
from eventstore.testing.builders import NOON, log
from projections import EventFilter
from projections.debugging.conversation_summary import conversation_summary


def asked(call_id: str, name: str, turn: int) -> ToolPending:
    """Return a request."""
    return ToolPending(FunctionCall(name, {"of": call_id}, call_id), turn=turn)


EVENTS = log(
    MessageAdded("user", (Text("Find it, then pay."),)),  # 1
    MessageAdded("assistant", (Text("I look."),), turn=1, calls=2),
    asked("find_1", "find", 1),
    asked("find_2", "find", 1),
    ToolRunning("find_1", 1, {}),  # 5
    ToolFailed("find_1", Failure(ErrorKind.TRANSIENT, "No Answer"), 1),
    ToolRunning("find_1", 2, {}),
    ToolCompleted("find_1", FunctionResponse("find", "here", "find_1"), 2),
    ToolCompleted("find_2", FunctionResponse("find", "Error: not there", "find_2")),
    MessageAdded("assistant", (Text("I pay."),), turn=2, calls=1),  # 10
    asked("pay_1", "pay", 2),
    ToolRunning("pay_1", 1, {}),
    RunEnded("error", Failure(ErrorKind.AUTH, "expired")),
)


@pytest.mark.parametrize(
    ("conditions", "versions"),
    [
        ({}, [*range(1, 14)]),
        ({"failed": True}, [3, 4, 5, 6, 7, 8, 9, 13]),
        ({"open": True}, [11, 12]),
        ({"failed": True, "open": True}, []),
        ({"tool": "pay"}, [11, 12]),
        ({"tool": "f*"}, [3, 4, 5, 6, 7, 8, 9]),
        ({"call": "find_2"}, [4, 9]),
        ({"call": "p"}, [11, 12]),
        ({"grep": "no answer"}, [6]),
        ({"grep": "^assistant: i (look|pay)"}, [2, 10]),
        ({"since": 12}, [12, 13]),
        ({"until": 2}, [1, 2]),
        ({"until": 0}, []),
        ({"since": 3, "until": 4}, [3, 4]),
        ({"since": datetime.fromtimestamp(NOON / 1e6, UTC) + timedelta(seconds=11)}, [12, 13]),
        ({"until": datetime.fromtimestamp(NOON / 1e6, UTC)}, [1]),
        ({"around": 6}, [3, 4, 5, 6, 7, 8, 9]),
        ({"around": (6, 1)}, [5, 6, 7]),
        ({"around": (13, 0)}, [13]),
        ({"turn": 2}, [10, 11, 12]),
        ({"turn": 1, "tool": "find", "since": 8}, [8, 9]),
    ],
)
def test_events_that_meet_all_conditions_are_chosen(
    conditions: dict[str, Any], versions: list[int]
) -> None:
    """Conditions on calls and on events are combined."""
    chosen = EventFilter(**conditions)
    assert [recorded.version for recorded in chosen.select(iter(EVENTS))] == versions
    assert bool(chosen) is bool(conditions)


def test_whole_calls_are_given_to_folds() -> None:
    """A call that has one chosen event is given from its start to its end."""
    chosen = EventFilter(grep="no answer").whole_calls(EVENTS)
    assert [recorded.version for recorded in chosen] == [3, 5, 6, 7, 8]


def test_calls_of_another_conversation_with_the_same_id_are_distinguished() -> None:
    """A call is known by its conversation and its id."""
    others = log(asked("pay_1", "pay", 1), MessageAdded("user"), conversation_id="other")
    done = log(
        asked("pay_1", "pay", 1),
        ToolCompleted("pay_1", FunctionResponse("pay", "paid", "pay_1")),
        conversation_id="third",
    )
    chosen = EventFilter(open=True, tool="pay").select([*done, *others])
    assert [(each.conversation_id, each.version) for each in chosen] == [("other", 1)]


@pytest.mark.parametrize(
    ("conditions", "complaint"),
    [
        ({"tool": "pai"}, "there is no call of a tool 'pai', did you mean 'pay'?"),
        ({"call": "pay_2"}, "there is no call 'pay_2', did you mean 'pay_1'?"),
        ({"call": "find"}, "2 calls begin with 'find', among them 'find_1' and 'find_2': pass"),
    ],
)
def test_a_name_that_is_not_there_is_refused(conditions: dict[str, Any], complaint: str) -> None:
    """The error says which name may be meant, or that more of it is needed."""
    with pytest.raises(ValueError, match="call") as refused:
        EventFilter(**conditions).select(EVENTS)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    "conditions",
    [
        {"grep": "("},
        {"since": -1},
        {"until": True},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is refused
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(conditions: dict[str, Any]) -> None:
    """The error names the value and the remedy."""
    with pytest.raises(ValueError, match=r"pass |regular expression"):
        EventFilter(**conditions)


def test_a_summary_counts_calls_failures_and_open_calls() -> None:
    """A call that failed and then completed is not counted as failed; a result apart from that."""
    summary = conversation_summary("chat", EVENTS)
    assert (summary.version, summary.calls, summary.failed, summary.open) == (13, 3, 0, 1)
    assert summary.error_results == 1
    assert (summary.last, summary.last_at) == ("run error", EVENTS[-1].recorded_at)
    assert conversation_summary("chat", EVENTS[:1]).last == "under way"
    assert conversation_summary("chat", EVENTS[:3]).last == "waiting"
    assert conversation_summary("none", []).version == 0
