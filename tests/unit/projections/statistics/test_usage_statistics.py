"""Usage by conversation, model and tool."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from eventstore import (
    Conversation,
    Event,
    FunctionCall,
    MessageAdded,
    ModelResponded,
    Price,
    PriceTable,
    Recorded,
    ToolPending,
    Usage,
    UsageLimitBreach,
)
from eventstore.testing import log
from projections import UsageStatistics, model_history, replay, usage_statistics

ONE = Usage(100, 20, 80, 5, Decimal("0.01"))


def asked(call_id: str, name: str, turn: int, *, imported: bool = False) -> ToolPending:
    """Return a request of a tool."""
    return ToolPending(FunctionCall(name, {}, call_id), turn=turn, imported=imported)


def responded(number: int, *, usage: Usage | None = ONE, model: str = "gpt-5") -> ModelResponded:
    """Return a response of a model."""
    return ModelResponded("openai", model, f"r{number}", "stop", usage, 1_000 * number)


def completing(version: int, number: int, **reported: Any) -> ModelResponded:
    """Return what was told later of a response at a version."""
    return ModelResponded("openai", "gpt-5", f"r{number}", completes=version, **reported)


def by_tool(*events: Event) -> dict[str, int]:
    """Return the responses by tool."""
    return {name: n.responses for name, n in usage_statistics(log(*events)).by_tool.items()}


def test_responses_are_summed_up_by_conversation_and_model() -> None:
    """The most tokens come first; a response of unknown usage is counted."""
    events: list[Recorded] = [
        *log(responded(1), responded(2), conversation_id="a"),
        *log(
            responded(1, model="small", usage=Usage(3, 1)),
            responded(2, model="small", usage=None),
            UsageLimitBreach("requests", Decimal(1), Decimal(2)),
            conversation_id="b",
        ),
    ]
    report = usage_statistics(events)
    assert (report.overall.responses, report.overall.unknown) == (4, 1)
    assert report.overall.usage == Usage(203, 41, 160, 10, Decimal("0.02"))
    assert list(report.by_conversation) == ["a", "b"]
    assert list(report.by_model) == ["gpt-5", "small"]
    assert report.by_model["small"].usage == Usage(3, 1)
    assert report.by_model["gpt-5"].latency.max == 2_000
    assert report.overall.finish_reasons == {"stop": 4}
    assert report.breaches == {"requests": 1}
    text = str(report)
    assert "4 responses of models, 1 of unknown usage: 244 tokens" in text
    assert "203 in, 160 cached; 41 out, 10 reasoning" in text
    assert "usage limits reached: requests 1" in text
    assert msgspec.json.decode(msgspec.json.encode(report))["overall"]["responses"] == 4


def test_a_response_is_counted_once() -> None:
    """Its provider and id say which it is; without an id each one counts."""
    events = (responded(1), responded(1), ModelResponded("openai"), ModelResponded("openai"))
    assert usage_statistics(log(*events)).overall.responses == 3


def test_an_event_that_comes_again_changes_nothing() -> None:
    """As every projection, it may be continued from an older place."""
    events = log(ModelResponded("openai", usage=ONE))
    fold = UsageStatistics().extend(events).extend(events)
    assert fold.result() == usage_statistics(events)


@pytest.mark.parametrize("first", [True, False])
def test_a_response_counts_for_the_tools_of_its_turn(first: bool) -> None:
    """The response may be recorded before its turn, or after it."""

    def turn(number: int, *names: str) -> list[Event]:
        message = MessageAdded("assistant", (), number)
        calls = [asked(f"{number}{i}", name, number) for i, name in enumerate(names)]
        response = [responded(number)]
        return [*response, message, *calls] if first else [message, *calls, *response]

    events = [*turn(1, "look", "pay"), *turn(2, "look", "look"), *turn(3)]
    assert by_tool(*events) == {"look": 2, "pay": 1}


def test_a_response_after_a_user_s_message_belongs_to_the_next_turn() -> None:
    """Imported turns, and those that were recorded without a response, have none."""
    old = (MessageAdded("assistant", (), 1), asked("1", "old", 1), MessageAdded("user"))
    assert by_tool(*old, responded(1), asked("2", "new", 2)) == {"new": 1}
    imported = asked("1", "old", 1, imported=True)
    assert by_tool(imported, responded(1), asked("2", "new", 2)) == {"new": 1}


def test_a_completed_response_is_counted_once() -> None:
    """The response is counted once, with its cost and its latency, under its model and its tool."""
    stated = ModelResponded("openai", "gpt-5", "r1", usage=Usage(100, 20))
    later = completing(2, 1, usage=Usage(cost=Decimal(7)), latency=5, finish_reason="stop")
    report = usage_statistics(log(asked("1", "a", 1), stated, later))
    for counts in (report.overall, report.by_model["gpt-5"], report.by_tool["a"]):
        assert (counts.responses, counts.unknown) == (1, 0)
        assert counts.usage == Usage(100, 20, cost=Decimal(7))
        assert (counts.latency.max, counts.finish_reasons) == (5, {"stop": 1})


def test_a_response_is_completed_under_the_tools_of_its_turn() -> None:
    """A cost that is told after the next turn stands under no tool."""
    first = ModelResponded("openai", "gpt-5", "r1", usage=Usage(1))
    cost = Usage(cost=Decimal(7))
    waiting = log(first, completing(1, 1, usage=cost), asked("1", "a", 1))
    assert usage_statistics(waiting).by_tool["a"].usage == Usage(1, cost=Decimal(7))
    late = log(asked("1", "a", 1), first, asked("2", "b", 2), completing(2, 1, usage=cost))
    report = usage_statistics(late)
    assert report.overall.usage == Usage(1, cost=Decimal(7))
    assert {name: n.usage for name, n in report.by_tool.items()} == {"a": Usage(1)}


def test_a_usage_that_is_reported_later_is_unknown_no_more() -> None:
    """A response of unknown usage may be completed by its tokens."""
    events = log(ModelResponded("openai", "gpt-5", "r1"), completing(1, 1, usage=ONE))
    assert usage_statistics(events[:1]).overall.unknown == 1
    assert usage_statistics(events).overall.unknown == 0
    assert usage_statistics(events).overall.usage == ONE


def test_a_cost_that_is_reported_later_replaces_the_one_of_the_price_table() -> None:
    """The table's price is an estimate; the tokens are priced once."""
    table = PriceTable({"gpt-5": Price(input=Decimal(1), output=Decimal(1))})
    stated = ModelResponded("openai", "gpt-5", "r1", usage=Usage(1_000_000))
    unknown = ModelResponded("openai", "gpt-5", "r2")
    reported = completing(2, 1, usage=Usage(cost=Decimal(7)))
    events = log(asked("1", "a", 1), stated, reported, unknown)
    events = log(*[r.event for r in events], completing(4, 2, usage=Usage(2_000_000)))
    report = usage_statistics(events, table)
    assert report.by_tool["a"].usage.cost == Decimal(7)
    assert report.overall.usage.cost == Decimal(9)
    latency = [*[r.event for r in events[:2]], completing(2, 1, latency=5)]
    assert usage_statistics(log(*latency), table).overall.usage.cost == Decimal(1)


def test_a_response_that_waits_when_the_user_speaks_has_no_turn() -> None:
    """A model that says nothing has a response, and no turn: the next turn has its own."""
    silent, said = responded(1), responded(2)
    events = (silent, MessageAdded("user"), asked("1", "a", 1), said, asked("2", "b", 2))
    assert by_tool(*events) == {"a": 1}


def test_the_response_stands_under_its_turn_in_an_explanation(chat: Conversation) -> None:
    """`replay` has the same words."""
    chat.add_message("user", "where is it?")
    chat.add_message("assistant", "Let me see.")
    chat.append(ModelResponded("openai", "gpt-5", "r1", "length", ONE, 1_200_000))
    said = "gpt-5: 120 tokens (100 in, 80 cached; 20 out, 5 reasoning), cost 0.01, 1.20 s: length"
    explained = model_history(chat.events()).explain("openai").splitlines()
    place = next(n for n, line in enumerate(explained) if "Let me see." in line)
    assert explained[place + 1].strip() == f"answered by {said}"
    assert any(said in str(frame) for frame in replay(chat.events()))


def test_a_completed_response_stands_in_the_explanation(chat: Conversation) -> None:
    """`replay` names the version that is completed."""
    chat.add_message("assistant", "Let me see.")
    chat.append(ModelResponded("openai", "gpt-5", "r1", usage=Usage(100, 20)))
    chat.append(completing(2, 1, usage=Usage(cost=Decimal("0.01")), latency=1_200_000))
    explained = model_history(chat.events()).explain("openai")
    assert "answered by gpt-5: 120 tokens (100 in; 20 out), cost 0.01, 1.20 s" in explained
    (*_, frame) = replay(chat.events())
    assert "completes version 2: cost 0.01, 1.20 s" in str(frame)
    chat.append(completing(2, 1, finish_reason="stop"))
    (*_, frame) = replay(chat.events())
    assert "completes version 2: stop" in str(frame)
