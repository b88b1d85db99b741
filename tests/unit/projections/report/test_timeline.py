"""The timeline: rows, times, marks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from msgspec.structs import replace
from support.played_logs import STEPS, Step, played
from support.tiers import examples

from eventstore import Conversation, EventStore, RunStarted, ToolCompleted
from eventstore.domain.calls import FunctionResponse
from eventstore.testing import FrozenClock
from projections import current_tools, why
from projections.debugging.call_facts import LogFacts
from projections.report.timeline import Row, Timeline


def rows_of(events: list[Any], left_out: Any = ()) -> list[Row]:
    """Return the rows of a log."""
    timeline = Timeline()
    for recorded in events:
        timeline.add(recorded)
    timeline.finish(LogFacts().extend(events), why(events).loops, left_out)
    return timeline.rows


@settings(max_examples=examples(30))
@given(steps=STEPS)
def test_every_event_has_one_row_and_every_call_its_state(steps: list[Step]) -> None:
    """The last step of a row is the state that the fold of the tools gives."""
    events = played(steps)
    rows = rows_of(events)
    assert sorted(version for row in rows for version in row.versions) == [
        recorded.version for recorded in events
    ]
    assert [row.versions[0] for row in rows] == sorted(row.versions[0] for row in rows)
    tools = current_tools(events)
    calls = {row.call_id: row for row in rows if row.kind == "call"}
    assert {call_id: row.status for call_id, row in calls.items()} == {
        call_id: tool.status.name for call_id, tool in tools.items()
    }
    for row in calls.values():
        assert row.steps[-1][1] == row.status
        assert {version for version, _ in row.steps} <= set(row.versions)


def test_a_call_waits_and_runs(store: EventStore, clock: FrozenClock) -> None:
    """The wait for a person, the one between attempts, and both attempts are told apart."""
    chat = store.conversation("c")
    call = chat.request("refund", {"amount": 490})
    clock.advance(60)
    chat.approve(call.id, {"amount": 49}, by="ann")
    clock.advance(1)
    chat.start(call.id)
    clock.advance(2)
    chat.fail(call.id, TimeoutError("no answer"))
    clock.advance(5)
    chat.start(call.id, 2)
    clock.advance(3)
    chat.complete(call.id, "done")
    (row,) = rows_of(list(chat.events()))
    assert (row.label, row.status, row.attempts) == ("refund", "Completed", 2)
    assert (row.waited, row.ran) == (66_000_000, 5_000_000)
    assert row.text == '{"amount":490} as {"amount":49}'
    assert row.outcome == "done"
    assert row.marks == ["error", "recovered"]
    assert row.errors == [4]


def test_marks_say_what_is_special(chat: Conversation) -> None:
    """Errors, open calls, loops and calls that the prompt leaves out."""
    for _ in range(3):
        call = chat.request("find", {"q": "x"})
        chat.start(call.id)
        chat.fail(call.id, ValueError("not found"))
    rest = chat.request("find", {"q": "y"})
    rows = rows_of(list(chat.events()), [rest.id])
    assert [row.marks for row in rows] == [
        ["error", "repeat"],
        ["error", "repeat"],
        ["error", "repeat"],
        ["open", "left out"],
    ]


def test_an_event_that_does_not_fit_has_a_row_of_its_own(chat: Conversation) -> None:
    """The result of a call that nobody asked for is shown and marked."""
    chat.append(RunStarted("demo"))
    events = list(chat.events())
    stray = ToolCompleted("nobody", FunctionResponse("find", "x", "nobody"))
    events.append(replace(events[0], version=2, call_id="nobody", event=stray))
    rows = rows_of(events)
    assert [(row.kind, row.label) for row in rows] == [
        ("event", "run_started"),
        ("event", "completed"),
    ]
    assert "does not fit" in rows[1].marks
