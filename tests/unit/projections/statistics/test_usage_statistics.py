"""Usage by conversation, model and tool."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from eventstore import (
    Conversation,
    Event,
    FunctionCall,
    MessageAdded,
    ModelResponded,
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
