"""Compactions: the turns before a boundary are not shown, and the log keeps them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.played_logs import STEPS, Step, played

from eventstore import (
    Conversation,
    EventStore,
    HistoryCompacted,
    MessageAdded,
    Recorded,
    Text,
    ToolCompleted,
    validate,
)
from eventstore.providers import PROVIDERS, known_provider, list_key
from projections import History, cache_breaks, current_tools, model_history, replay, resume_plan


def summary(text: str = "SUMMARY", role: str = "user") -> MessageAdded:
    """Return a message that stands in the place of others."""
    return MessageAdded(role, (Text(text),))


def compact(chat: Conversation, until: int | None = None, **members: Any) -> int:
    """Append a compaction of what is before, or up to a version; return its version."""
    members = {"messages": (summary(),), **members}
    (recorded,) = chat.append(HistoryCompacted(until=until or chat.version, **members))
    return recorded.version


def ran(chat: Conversation, name: str = "ls", result: str = "a file", **arguments: Any) -> str:
    """Record a call that has run."""
    tool = chat.request(name, arguments)
    chat.start(tool.id)
    chat.complete(tool.id, result)
    return tool.id


def shown(history: Any) -> list[str]:
    """Return what a history shows, turn by turn: its words, and the results of its calls."""
    return [
        " ".join(
            [
                *(part.text for part in turn.parts),
                *(f"{c.name}={c.answer.text}" for c in turn.calls),
            ]
        )
        for turn in history.turns
    ]


def test_turns_before_the_boundary_are_not_shown(chat: Conversation) -> None:
    """The summary stands in its place, the log keeps it, and every provider takes the rest."""
    chat.add_message("user", "first question")
    ran(chat)
    chat.add_message("assistant", "first answer")
    compact(chat)
    chat.add_message("user", "second question")
    ran(chat, "cat", "words")
    history = model_history(chat)
    assert shown(history) == ["SUMMARY", "second question", "cat=words"]
    assert [r.event for r in chat.events() if isinstance(r.event, ToolCompleted)] != []
    for provider in map(known_provider, PROVIDERS):
        rendered = history.render(provider)
        assert validate(rendered[list_key(provider)], provider) == []
        assert "first" not in str(rendered)


def test_each_time_has_its_own_prompt(chat: Conversation) -> None:
    """A replay shows before the boundary what the model saw then."""
    chat.add_message("user", "first question")
    compact(chat)
    chat.add_message("user", "second question")
    frames = [shown(frame.history()) for frame in replay(chat.events())]
    assert frames == [["first question"], ["SUMMARY"], ["SUMMARY", "second question"]]


def test_the_system_stays_unless_it_is_hidden_as_well(chat: Conversation) -> None:
    """A program that writes its instructions again says so."""
    chat.add_message("system", "be brief")
    chat.add_message("user", "hi")
    compact(chat)
    assert shown(model_history(chat)) == ["be brief", "SUMMARY"]
    compact(chat, hides_system=True)
    assert shown(model_history(chat)) == ["SUMMARY"]


def test_a_turn_with_an_open_call_stays_with_its_late_result(chat: Conversation) -> None:
    """Its result would answer no call otherwise; the call is as open as before."""
    chat.add_message("user", "hi")
    ran(chat, "cat")
    waiting = chat.request("pay", {"sum": 9})
    plan = resume_plan(chat.events()).steps
    compact(chat)
    assert resume_plan(chat.events()).steps == plan
    assert shown(model_history(chat))[0] == "SUMMARY"
    assert [call.name for turn in model_history(chat).turns for call in turn.calls] == ["pay"]
    chat.start(waiting.id)
    chat.complete(waiting.id, "paid")
    assert shown(model_history(chat)) == ["SUMMARY", "pay=paid"]
    compact(chat)
    assert shown(model_history(chat)) == ["SUMMARY"]


@pytest.mark.parametrize("until", [2, 3, 4])
def test_a_boundary_inside_of_a_turn_keeps_the_whole_turn(chat: Conversation, until: int) -> None:
    """A call never loses its result: request, start and end are versions 2 to 4."""
    chat.add_message("user", "hi")
    ran(chat)
    compact(chat, until)
    assert shown(model_history(chat)) == (["SUMMARY"] if until == 4 else ["SUMMARY", "ls=a file"])


def test_a_further_piece_of_a_message_keeps_it(chat: Conversation) -> None:
    """Pieces of one message are one turn."""
    chat.append(MessageAdded("assistant", (Text("one"),), turn=1))
    chat.append(MessageAdded("assistant", (Text("two"),), turn=1))
    compact(chat, 1)
    assert shown(model_history(chat)) == ["SUMMARY", "one two"]


def test_kept_turns_follow_the_summary(chat: Conversation) -> None:
    """A range in the middle leaves the beginning and the end."""
    for number in range(1, 7):
        chat.add_message("user", f"question {number}")
    compact(chat, 4, after=1)
    chat.add_message("user", "question 8")
    wanted = ["question 1", "SUMMARY", "question 5", "question 6", "question 8"]
    assert shown(model_history(chat)) == wanted
    assert shown(model_history(chat, pinned=[3])) == [
        "question 1",
        "SUMMARY",
        "question 3",
        *wanted[2:],
    ]


def test_a_later_compaction_takes_the_place_of_an_earlier_one(chat: Conversation) -> None:
    """Where both kept what was said last, too; one of what came later leaves the first."""
    for number in range(1, 5):
        chat.add_message("user", f"question {number}")
    compact(chat, 3, messages=(summary("ONE"),))
    assert shown(model_history(chat)) == ["ONE", "question 4"]
    chat.add_message("user", "question 6")
    compact(chat, 4, messages=(summary("TWO"),))
    assert shown(model_history(chat)) == ["TWO", "question 6"]
    compact(chat, 6, after=5, messages=(summary("THREE"),))
    assert shown(model_history(chat)) == ["TWO", "THREE"]


def test_a_session_that_was_compacted_five_times(chat: Conversation) -> None:
    """The last summary is all that is left of it."""
    for number in range(5):
        chat.add_message("user", f"question {number}")
        ran(chat, "read", "x" * 1000, number=number)
        compact(chat, messages=(summary(f"summary {number}"), summary("kept", "assistant")))
    assert shown(model_history(chat)) == ["summary 4", "kept"]
    assert len(current_tools(chat.events())) == 5


def test_no_call_is_left_out_for_one_that_is_hidden(chat: Conversation) -> None:
    """The model would miss what it has not been shown."""
    first = ran(chat, "read", "one", path="a")
    compact(chat)
    second = ran(chat, "read", "one", path="a")
    history = model_history(chat, collapse="all")
    assert [call.id for turn in history.turns for call in turn.calls] == [second] != [first]


def test_windows_cut_what_is_left(chat: Conversation) -> None:
    """The summary is a turn as others are: a window may cut it off, and a pin keeps it."""
    chat.add_message("user", "one")
    at = compact(chat)
    for number in range(3):
        chat.add_message("assistant", f"answer {number}")
    assert shown(model_history(chat, last_turns=1)) == ["answer 2"]
    assert shown(model_history(chat, last_turns=1, pinned=[at])) == ["SUMMARY", "answer 2"]
    assert shown(model_history(chat, since=at)) == [
        "SUMMARY",
        "answer 0",
        "answer 1",
        "answer 2",
    ]


def test_repairs_and_cache_breaks_name_the_boundary(chat: Conversation) -> None:
    """People see why the prompt begins otherwise."""
    chat.add_message("user", "one")
    chat.add_message("assistant", "answer")
    at = compact(chat, trigger="auto", tokens_before=150_000)
    chat.add_message("user", "two")
    chat.add_message("assistant", "answer two")
    (repair,) = model_history(chat).repairs
    assert str(repair) == (
        "collapsed [compaction]: the auto compaction at version 3 has 1 message in the place of "
        "2 turns; 150,000 tokens before (events 3)"
    )
    assert repair.versions == (at,)
    (found,) = cache_breaks(chat.events(), "anthropic")
    assert (found.version, found.repairs) == (4, (repair,))
    (line,) = [frame.line() for frame in replay(chat.events()) if frame.recorded.version == at]
    said = "what was said up to version 2 (auto, 150,000 tokens before): user: SUMMARY"
    assert said in line


def test_a_redacted_summary_is_covered(store: EventStore, chat: Conversation) -> None:
    """In a fold that goes on, and in one that reads the marker; the boundary stays."""
    chat.add_message("user", "my card is 4711")
    growing = History().extend(chat.events())
    at = compact(chat, messages=(summary("the card is 4711"),), trigger="auto")
    chat.add_message("user", "go on")
    growing.extend(chat.events(1))
    store.redact("c", by="ann", versions=[at])
    growing.extend(chat.events(3))
    assert shown(growing.view()) == shown(model_history(chat)) == ["[redacted]", "go on"]
    assert "4711" not in str(growing.view().repairs)


@given(STEPS)
def test_a_fold_that_goes_on_shows_what_a_new_one_shows(steps: list[Step]) -> None:
    """After every event of any log, with any mix of compactions."""
    events: list[Recorded] = played(steps)
    growing = History()
    for count, recorded in enumerate(events, 1):
        growing.apply(recorded)
        new = History().extend(events[:count])
        one, other = growing.view(), new.view()
        assert (one.turns, one.repairs) == (other.turns, other.repairs)


@given(STEPS)
def test_every_prompt_is_valid_and_no_open_call_is_hidden(steps: list[Step]) -> None:
    """Whatever is hidden; every call that is shown has one answer."""
    events = played(steps)
    history = model_history(events, collapse="none")
    asked = {call.id for turn in history.turns for call in turn.calls}
    tools = current_tools(events)
    assert {tool.id for tool in tools.values() if not tool.is_resolved} <= asked
    for provider in map(known_provider, ("openai", "anthropic")):
        assert validate(history.render(provider)["messages"], provider) == []
