"""Replay: what each event changed, what the model would have seen, and nothing that raises."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore import (
    Event,
    EventStore,
    Failure,
    FunctionCall,
    Image,
    MessageAdded,
    Opaque,
    Recorded,
    RunEnded,
    RunStarted,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolPending,
    ToolRejected,
    ToolsOffered,
    UnknownEvent,
    validate,
)
from eventstore.testing import (
    approved,
    completed,
    failed,
    log,
    message,
    pending,
    rejected,
    running,
)
from projections.current_tools import current_tools
from projections.history.projection import model_history
from projections.replay import Replay, describe, replay

STORY: tuple[Event, ...] = (
    message("where is it?"),
    pending(),
    running(),
    failed(),
    running(attempt=2),
    completed(attempt=2),
    pending("call_2"),
    approved("call_2", page=2),
    pending("call_3"),
    rejected("call_3"),
)
events_of_any_log = st.lists(
    st.sampled_from(
        [
            *STORY,
            completed("unknown"),
            completed(result="another"),
            running(attempt=7),
            UnknownEvent("pending", 9, "{"),
            UnknownEvent("of tomorrow", 1, "{}"),
            ToolPending(FunctionCall("f", {}, None)),
            ToolCompleted("", completed().response),
            ToolApproved("call_1", FunctionCall("f", None, "call_1", "{")),
            ToolsOffered(0, ("f",)),
            RunStarted("agent"),
            RunEnded("error"),
        ]
    ),
    max_size=30,
)


def test_each_frame_shows_the_call_before_and_after() -> None:
    """The first frame of a call has no state before.

    Every other begins where the last one ended.
    """
    frames = list(replay(log(*STORY)))
    states = [(f.before and f.before.status.name, f.after and f.after.status.name) for f in frames]
    assert states == [
        (None, None),
        (None, "Pending"),
        ("Pending", "Running"),
        ("Running", "Failed"),
        ("Failed", "Running"),
        ("Running", "Completed"),
        (None, "Pending"),
        ("Pending", "Approved"),
        (None, "Pending"),
        ("Pending", "Rejected"),
    ]
    assert [frame.recorded.version for frame in frames] == list(range(1, 11))


def test_the_last_frames_equal_the_current_tools() -> None:
    """Replaying to the end and folding give the same calls."""
    last = {f.after.id: f.after for f in replay(log(*STORY)) if f.after is not None}
    assert last == current_tools(log(*STORY))


@pytest.mark.parametrize("until", range(11))
def test_a_replay_stops_at_a_version(until: int) -> None:
    """`until` is included, and later events change nothing in the frames."""
    events = log(*STORY)
    assert (
        list(replay(events, until)) == list(replay(events))[:until] == list(replay(events[:until]))
    )


def test_a_negative_version_is_refused() -> None:
    """No event has such a version."""
    with pytest.raises(ValueError, match="until is -1"):
        replay([], -1)


@given(events_of_any_log, st.integers(0, 30))
def test_a_prefix_and_the_rest_are_the_whole(events: list[Event], cut: int) -> None:
    """A replay can be continued, on any log."""
    recorded = log(*events)
    parts = Replay()
    frames = [*parts.frames(recorded[:cut]), *parts.frames(recorded[cut:])]
    assert frames == list(replay(recorded))


@given(events_of_any_log, st.randoms(use_true_random=False))
def test_a_replay_never_raises_on_a_damaged_log(events: list[Event], chance: random.Random) -> None:
    """Each missing, repeated or shuffled event has a frame, a line and a valid prompt."""
    recorded = [event for event in log(*events) if chance.random() < 0.9]
    recorded += [event for event in recorded if chance.random() < 0.2]
    chance.shuffle(recorded)
    frames = list(replay(recorded))
    assert [frame.recorded for frame in frames] == recorded
    for frame in frames:
        assert "\n" not in str(frame).partition("\n        ! ")[0]
        for provider in ("openai", "anthropic"):
            assert validate(frame.prompt(provider)["messages"], provider) == []


def test_an_anomaly_is_reported_in_the_frame_of_its_event() -> None:
    """An illegal transition changes nothing, and a gap is reported at the event after it."""
    events = log(pending(), completed("unknown"), completed(attempt=0))
    frames = list(replay([events[0], events[1], msgspec.structs.replace(events[2], version=9)]))
    assert [len(frame.anomalies) for frame in frames] == [0, 1, 1]
    assert "no such call" in frames[1].anomalies[0].problem
    assert "missing" in frames[2].anomalies[0].problem
    assert frames[1].before is frames[1].after is None
    assert "! " in str(frames[1])


@pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled"])
def test_a_frames_prompt_equals_the_prompt_at_that_time(order: str) -> None:
    """Frames may be asked in any order, and repeatedly."""
    events = log(*STORY)
    frames = list(replay(events))
    expected = [model_history(events[: n + 1]).render("openai") for n in range(len(events))]
    places = list(range(len(events)))
    if order == "backwards":
        places.reverse()
    elif order == "shuffled":
        random.Random(7).shuffle(places)
    for place in [*places, *places]:
        assert frames[place].prompt("openai") == expected[place]


def test_the_options_of_the_history_are_passed_on() -> None:
    """A frame shows the model's view with any window or collapse."""
    last = list(replay(log(*STORY), 7))[-1]
    calls = [
        call.id
        for turn in last.history(open_calls="drop").turns
        for call in turn.calls
        if not call.hidden
    ]
    assert calls == ["call_1"]
    assert len(last.history(last_turns=1).turns) == 2


def test_prompts_are_made_only_when_asked_for() -> None:
    """A replay without prompts does not fold any history: that would not be linear."""
    frames = list(replay(log(*STORY)))
    assert frames[-1]._past._length == 0
    frames[3].history()
    assert frames[-1]._past._length == 4


def test_each_conversation_has_its_own_history() -> None:
    """A replay of the whole store shows each model its own conversation."""
    one = log(message("one"), conversation_id="one")
    two = log(message("two"), conversation_id="two")
    frames = list(replay([*one, *two]))
    assert frames[1].prompt("openai") == {"messages": [{"role": "user", "content": "two"}]}


def test_a_frame_cannot_be_changed() -> None:
    """Frames are immutable."""
    (frame,) = replay(log(message()))
    with pytest.raises(AttributeError):
        frame.after = None  # type: ignore[misc]


def test_a_stored_log_is_replayed() -> None:
    """`replay` takes the return value of `Conversation.events`."""
    with EventStore.open("sqlite://") as store:
        chat = store.conversation("chat")
        chat.add_message("user", "hello")
        call = chat.request("f", {"n": 1})
        chat.complete(call.id, "done")
        *_, last = replay(chat.events())
        assert last.after == chat.tools[call.id]
        assert last.change == "Pending → Completed"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (message("two\nlines"), "user: two\\nlines"),
        (
            MessageAdded(
                "user",
                (
                    Text("see"),
                    Image("http://x"),
                    Opaque("anthropic", {"type": "text", "text": "t"}),
                    Opaque("anthropic", {"type": "document"}),
                    Opaque("x", 7),
                ),
            ),
            "user: see <image> t <document> <part>",
        ),
        (pending(q="x"), 'call_1: search {"q":"x"}'),
        (approved(q="y"), 'call_1 as {"q":"y"} by ada'),
        (ToolApproved("c", None, "ann", "fine"), "c by ann: fine"),
        (running(attempt=3), "call_1: attempt 3"),
        (completed(result={"n": 1}), 'call_1: {"n":1}'),
        (completed(result="\x1b[31mred"), "call_1: \\x1b[31mred"),
        (failed(error="no"), "call_1: transient: no"),
        (ToolRejected("c"), "c by human"),
        (ToolsOffered(2, ("a", "b"), ("a",)), "iteration 2: 1 of 2 tools"),
        (RunStarted("bot"), "bot"),
        (RunStarted(None, "main", "c"), "a run for main, call c"),
        (RunEnded("completed"), "completed"),
        (RunEnded("error", Failure("auth", "denied")), "error: denied"),  # type: ignore[arg-type]
        (UnknownEvent("new", 2, '{"a":1}'), 'schema 2: {"a":1}'),
        (ToolCompleted("c", None), "<ToolCompleted>"),  # type: ignore[arg-type]
    ],
)
def test_an_event_is_described_on_one_line(event: Any, line: str) -> None:
    """Each event says what it holds, without any control code."""
    recorded = Recorded(0, 1, "chat", 1, "0" * 32, 0, None, None, event)
    assert describe(recorded) == line


def test_a_long_line_is_shortened_to_the_width() -> None:
    """Only a terminal gets the shortened line; a file or a pipe gets it whole."""
    (recorded,) = log(message("x" * 10_000))
    assert len(describe(recorded)) <= 100
    assert describe(recorded, None) == "user: " + "x" * 10_000
