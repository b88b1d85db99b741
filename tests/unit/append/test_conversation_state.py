"""What an appender knows of a conversation, and what it makes of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from eventstore.errors import IllegalTransition, UnencodableEvent, UnhashableArguments
from eventstore.event_id import event_ids
from eventstore.events import Event, MessageAdded, ToolCompleted, ToolPending, UnknownEvent
from eventstore.fingerprint import digest
from eventstore.state import ConversationState, Staged, settle
from eventstore.testing import (
    NOON,
    approved,
    completed,
    failed,
    log,
    message,
    pending,
    rejected,
    running,
)
from eventstore.tool import FunctionCall, FunctionResponse, Rejected, Tool

LIFE = (
    pending("1", q="x"), approved("1", q="y"), running("1"), failed("1"), running("1", 2),
    pending("2"), rejected("2"), pending("3"), running("3"), completed("3"),
)  # fmt: skip


def state_of(*events: Event) -> ConversationState:
    """The state behind the events."""
    state = ConversationState(0)
    state.extend(log(*events))
    return state


def nothing(_: set[str]) -> Mapping[str, Tool]:
    """No settled call is needed."""
    raise AssertionError


def stage(state: ConversationState, *events: Event) -> Staged:
    """The events, staged on the state."""
    return state.stage(events, event_ids(len(events), NOON), NOON, nothing)


def view(state: ConversationState) -> Any:
    """All that a state knows."""
    return state.version, state.known, state.open, state.next_turn()


def test_settled_calls_keep_only_their_ids() -> None:
    """A long conversation costs little memory."""
    state = state_of(*LIFE)
    assert state.known == {"1", "2", "3"}
    assert set(state.open) == {"1"}
    tool, mark = state.open["1"]
    assert (tool.status.name, tool.attempts) == ("Running", 2)
    assert mark == digest("search", {"q": "y"})


def test_a_tail_taken_in_twice_counts_once() -> None:
    """What is behind the state's version is passed over."""
    recorded = log(*LIFE)
    state = ConversationState(0)
    state.extend(recorded[:7])
    state.extend(recorded[3:])
    state.extend(recorded)
    assert view(state) == view(state_of(*LIFE))


def test_what_was_stored_and_what_was_read_make_the_same_state() -> None:
    """Whether an append was one's own or another's."""
    own = ConversationState(0)
    for version, event in enumerate(LIFE, 1):
        own.commit(stage(own, event), version, version)
    read = state_of(*LIFE)
    assert own.as_of == len(LIFE)
    assert (own.version, own.known, own.next_turn()) == (read.version, read.known, read.next_turn())
    assert own.open["1"][1] == read.open["1"][1]


def test_a_damaged_log_is_read_without_an_error() -> None:
    """Events that break the rules are passed over, as are results of nobody's calls."""
    state = state_of(
        running("0"), completed("0"), pending("1"), completed("1"), running("1"),
        pending("2"), running("2", 5), rejected("2"), approved("2"),
        MessageAdded("tool", (), call_id="9"), UnknownEvent("future", 1, "{}"),
    )  # fmt: skip
    assert state.known == {"1", "2"}
    assert state.open == {}
    assert state.version == 11


def test_staging_changes_nothing() -> None:
    """Until it is stored, what is decided is only a plan."""
    state = state_of(pending("1"))
    before = view(state)
    staged = stage(state, running("1"), completed("1"), message(), pending("2"))
    assert len(staged.drafts) == 4
    assert view(state) == before


def test_events_of_one_append_build_on_each_other() -> None:
    """A call can be asked for, run and completed at once; the digest is of the call in force."""
    staged = stage(state_of(), pending("1", q="x"), approved("1", q="y"), running("1"))
    x, y = digest("search", {"q": "x"}), digest("search", {"q": "y"})
    assert [(d.tag, d.fingerprint, d.begins) for d in staged.drafts] == [
        ("pending", x, True), ("approved", y, True), ("running", y, False)
    ]  # fmt: skip
    assert staged.tools["1"][0].attempts == 1


def test_repeats_are_left_out_of_an_append() -> None:
    """Within it, and of what the state knows."""
    state = state_of(pending("1", q="x"))
    staged = stage(state, pending("1", q="x"), pending("2"), pending("2"), message())
    assert [draft.tag for draft in staged.drafts] == ["pending", "message"]


def test_settled_calls_are_looked_up_once_and_only_when_named() -> None:
    """However many events name them."""
    asked: list[set[str]] = []

    def settled(names: set[str]) -> Mapping[str, Tool]:
        asked.append(names)
        return {"3": Tool("3", FunctionCall("search", {}, "3"), Rejected())}

    state = state_of(*LIFE)
    events: Sequence[Event] = [pending("9"), pending("3"), pending("3")]
    state.stage(events, event_ids(3, NOON), NOON, settled)
    assert asked == [{"3"}]


def test_a_settled_call_that_the_log_lost_is_unknown() -> None:
    """A damaged log refuses rather than guess."""
    state = state_of(*LIFE)
    with pytest.raises(IllegalTransition, match="never pending"):
        state.stage([running("3")], event_ids(1, NOON), NOON, lambda _: {})


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([], (1, 0)),
        ([message()], (1, 0)),
        ([pending("1")], (1, 1)),
        ([pending("1"), message()], (2, 0)),
        ([MessageAdded("assistant", turn=1)], (1, 0)),
        ([MessageAdded("assistant", turn=4), pending("1")], (4, 0)),
        ([pending("1"), running("1")], (2, 0)),
        ([MessageAdded("assistant", turn=2), MessageAdded("assistant", turn=1)], (2, 0)),
    ],
)
def test_calls_in_a_row_share_a_turn(events: list[Event], place: tuple[int, int]) -> None:
    """A message, a start or a result ends it; an assistant's message begins one."""
    assert state_of(*events).next_turn() == place


def test_events_without_a_place_are_given_one() -> None:
    """Calls without an id get one, unique in the conversation; what has a place keeps it."""
    minted: list[tuple[int, int]] = []

    def mint(turn: int, index: int, taken: Any) -> str:
        minted.append((turn, index))
        return f"{turn}.{index}"

    given = [
        message("hm", "assistant"),
        ToolPending(FunctionCall("f", {})),
        ToolPending(FunctionCall("g", {}, "")),
        message(),
        ToolPending(FunctionCall("h", {}, "own")),
        ToolPending(FunctionCall("i", {}, "placed"), turn=7, index=3),
        MessageAdded("assistant", turn=9),
    ]
    placed = state_of(pending("1")).placed(given, mint)
    calls = [e for e in placed if isinstance(e, ToolPending)]
    assert [(c.call.id, c.turn, c.index) for c in calls] == [
        ("2.0", 2, 0), ("2.1", 2, 1), ("own", 3, 0), ("placed", 7, 3)
    ]  # fmt: skip
    assert minted == [(2, 0), (2, 1)]
    assert [e.turn for e in placed if isinstance(e, MessageAdded)] == [2, None, 9]
    assert placed[5] is given[5]


def test_arguments_that_json_cannot_say_are_named() -> None:
    """Of a call and of an edit, with the path to the value."""
    deep_down = [{"n": float("nan")}]
    for event in (pending("1", deep=deep_down), approved("1", deep=deep_down)):
        with pytest.raises(UnhashableArguments) as caught:
            settle(event)
        assert str(caught.value) == (
            "nan is no JSON number - at `$.deep[0].n`: pass plain JSON values"
        )
    with pytest.raises(UnhashableArguments, match="pass plain JSON values"):
        settle(pending("1", what=object()))


@pytest.mark.parametrize(
    "event",
    [
        ToolPending(FunctionCall(5, {}, "1")),  # type: ignore[arg-type]
        ToolPending(FunctionCall("f", {}, 1)),  # type: ignore[arg-type]
        ToolPending(FunctionCall("f", {}, "1"), turn="x"),  # type: ignore[arg-type]
        ToolCompleted("1", "just text"),  # type: ignore[arg-type]
        ToolCompleted(1, FunctionResponse("f", "x")),  # type: ignore[arg-type]
        ToolCompleted(1, FunctionResponse("f", object())),  # type: ignore[arg-type]
    ],
)
def test_a_member_of_the_wrong_type_is_refused(event: Any) -> None:
    """It could not be read back."""
    with pytest.raises((UnencodableEvent, UnhashableArguments), match="pass "):
        settle(event)


def deep(depth: int) -> Any:
    """Lists in lists."""
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


LOOP: dict[str, Any] = {}
LOOP["me"] = LOOP


@pytest.mark.parametrize(
    ("result", "stored", "lossy"),
    [
        ({"a": [1, 2.5, None]}, {"a": [1, 2.5, None]}, False),
        ((1, 2), [1, 2], False),
        (None, None, False),
        (float("nan"), "nan", True),
        ([float("inf")], ["inf"], True),
        (b"\xff", "ff", True),
        ({1: 2}, {"1": 2}, True),
        (LOOP, {"me": "<this is inside the same dict>"}, True),
        (10**30, 10**30, False),
        (10**5000, hex(10**5000), True),
        ("\ud800", "\\ud800", True),
        ("x" * 3_000_000, "x" * 3_000_000, False),
        (deep(90), deep(90), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_result_is_kept_whatever_it_is(result: Any, stored: Any, lossy: bool) -> None:
    """In the nearest form that JSON has, marked where something was lost."""
    event, payload, mark = settle(completed("1", result))
    assert (event.response.result, event.lossy, mark) == (stored, lossy, None)
    assert msgspec.json.decode(payload, type=ToolCompleted) == event


def test_a_result_too_deep_for_its_readers_is_cut() -> None:
    """Although it could be written."""
    event, _, _ = settle(completed("1", deep(300)))
    assert event.lossy
    assert isinstance(event.response.result, list)


def test_the_providers_form_goes_where_it_cannot_be_kept() -> None:
    """The result counts more, and a lossy one no longer equals what the provider wrote."""
    native = msgspec.structs.replace(completed("1", "fine"), provider="p", native={"raw": object()})
    event, _, _ = settle(native)
    assert (event.response.result, event.native, event.lossy) == ("fine", None, True)
    lossy = msgspec.structs.replace(completed("1", b"\xff"), provider="p", native={"raw": 1})
    assert settle(lossy)[0].native is None
    kept = msgspec.structs.replace(completed("1", (1,)), provider="p", native={"raw": 1})
    assert settle(kept)[0].native == {"raw": 1}
    assert not settle(kept)[0].lossy
