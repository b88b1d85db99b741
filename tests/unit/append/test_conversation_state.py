"""The state of a conversation that an append is checked against, and how it stages events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from eventstore.append.conversation_state import ConversationState, StagedEvents
from eventstore.append.event_ids import event_ids
from eventstore.append.last_turn import mint_call_id
from eventstore.append.salts import salts
from eventstore.append.staging import encode_event, stage_events
from eventstore.append.tool_fold import equal_result, fold_tools
from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.equal_calls import Equality
from eventstore.domain.events import (
    Event,
    MessageAdded,
    ModelResponded,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    UnknownEvent,
)
from eventstore.domain.fingerprint import digest
from eventstore.domain.finish_reasons import is_of_cut_off_response
from eventstore.domain.statuses import Rejected
from eventstore.domain.tool import Tool
from eventstore.errors import (
    IllegalTransition,
    StoreCorrupt,
    UnencodableEvent,
    UnhashableArguments,
)
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

LIFE = (
    pending("1", q="x"),
    approved("1", q="y"),
    running("1"),
    failed("1"),
    running("1", 2),
    pending("2"),
    rejected("2"),
    pending("3"),
    running("3"),
    completed("3"),
)


RESPONDED = ModelResponded("openai", "gpt-5")
CUT_OFF = ModelResponded("openai", finish_reason="length")


def in_turn(turn: int, index: int = 0) -> ToolPending:
    """Return a call in a turn."""
    return ToolPending(FunctionCall("search", {}, f"{turn}.{index}"), turn=turn, index=index)


def state_of(*events: Event) -> ConversationState:
    """Return the state after the events."""
    state = ConversationState("chat", 0)
    state.extend(log(*events))
    return state


def nothing(_: object = None) -> dict[str, Tool]:
    """Return no settled call: none is needed."""
    raise AssertionError


def stage(state: ConversationState, *events: Event) -> StagedEvents:
    """Stage the events on the state and return them."""
    return stage_events(
        state,
        events,
        event_ids(len(events), NOON),
        NOON,
        nothing,
        ids_given=False,
        salts=salts(len(events)),
    )


def view(state: ConversationState) -> Any:
    """Return everything that a state holds, in a form that can be compared."""
    return state.version, state.known, state.open, state.last_turn


def test_settled_calls_keep_only_their_ids() -> None:
    """A long conversation costs little memory."""
    state = state_of(*LIFE)
    assert state.known == {"1", "2", "3"}
    assert set(state.open) == {"1"}
    entry = state.open["1"]
    assert (entry.tool.status.name, entry.tool.attempts) == ("Running", 2)
    assert entry.digest == digest("search", {"q": "y"})


def test_a_tail_taken_in_twice_counts_once() -> None:
    """Events up to the state's version are skipped."""
    recorded = log(*LIFE)
    state = ConversationState("chat", 0)
    state.extend(recorded[:7])
    state.extend(recorded[3:])
    state.extend(recorded)
    assert view(state) == view(state_of(*LIFE))


def test_stored_events_and_read_events_make_the_same_state() -> None:
    """The state does not depend on which process appended the events."""
    own = ConversationState("chat", 0)
    for version, event in enumerate(LIFE, 1):
        own.apply_committed(stage(own, event), version, version)
        read = state_of(*LIFE[:version])
        assert (own.version, own.as_of, own.known) == (version, version, read.known)
        assert own.last_turn.next_call() == read.last_turn.next_call()
        digests = {call_id: entry.digest for call_id, entry in own.open.items()}
        assert digests == {call_id: entry.digest for call_id, entry in read.open.items()}


def test_a_copy_is_the_same_state_and_goes_its_own_way() -> None:
    """A decision on a copy changes nothing of the state."""
    state = state_of(*LIFE, UnknownEvent("pending", 1, "{"))
    state.settled_uncommitted["3"] = state.open["1"].tool
    everything = [name for name in ConversationState.__slots__ if name != "as_of"]
    before = [getattr(state.copy(), name) for name in everything]
    assert before == [getattr(state, name) for name in everything]
    changed = state.copy()
    changed.settled_uncommitted.clear()
    changed.extend(log(*LIFE, UnknownEvent("pending", 1, "{"), pending("4"), completed("1")))
    assert changed.known == {"1", "2", "3", "4"}
    assert before == [getattr(state, name) for name in everything]


def test_a_damaged_log_is_read_without_an_error() -> None:
    """Events that break the rules are skipped, and so are results without a call."""
    state = state_of(
        running("0"),
        completed("0"),
        pending("1"),
        completed("1"),
        running("1"),
        pending("2"),
        running("2", 5),
        rejected("2"),
        approved("2"),
        MessageAdded("tool", (), call_id="9"),
        UnknownEvent("future", 1, "{}"),
    )
    assert state.known == {"1", "2"}
    assert state.open == {}
    assert state.version == 11


def test_the_first_event_that_cannot_be_read_is_kept() -> None:
    """Errors name that one; an event of another program is passed over."""
    other, first, second = (UnknownEvent(tag, 1, "{") for tag in ("own", "pending", "running"))
    assert state_of(other).unreadable is None
    assert state_of(other, first, second).unreadable == (2, first)


def test_nothing_starts_beside_an_event_that_cannot_be_read() -> None:
    """Each open call is in doubt, because the event may be its start; one that has ended is not."""
    state = state_of(pending("1"), pending("2"), completed("2"), UnknownEvent("running", 1, "{"))
    with pytest.raises(StoreCorrupt):
        stage(state, running("1"))
    assert len(stage(state, rejected("1")).drafts) == 1
    calls = fold_tools(log(pending("1"), pending("2"), completed("2")))
    assert [state.leaves_doubt(calls[name]) for name in "12"] == [True, False]
    assert not state_of(pending("1")).leaves_doubt(calls["1"])


def test_staging_changes_nothing() -> None:
    """A staged event does not change the state before it is stored."""
    state = state_of(pending("1"))
    before = view(state)
    staged = stage(state, running("1"), completed("1"), message(), pending("2"))
    assert len(staged.drafts) == 4
    assert view(state) == before


def test_events_of_one_append_build_on_each_other() -> None:
    """A call can be requested, edited, started and completed in one append."""
    staged = stage(state_of(), pending("1", q="x"), approved("1", q="y"), running("1"))
    x, y = digest("search", {"q": "x"}), digest("search", {"q": "y"})
    assert [(d.tag, d.fingerprint, d.begins) for d in staged.drafts] == [
        ("pending", x, True),
        ("approved", y, True),
        ("running", y, False),
    ]
    assert staged.tools["1"].tool.attempts == 1


def test_repeats_are_left_out_of_an_append() -> None:
    """An event that repeats one of the same append, or one of the log, is not stored again."""
    state = state_of(pending("1", q="x"))
    staged = stage(state, pending("1", q="x"), pending("2"), pending("2"), message())
    assert [draft.tag for draft in staged.drafts] == ["pending", "message"]


def test_settled_calls_are_looked_up_once_and_only_when_named() -> None:
    """One append looks a settled call up once, however many of its events name the call."""
    asked: list[set[str]] = []

    def settled(names: set[str]) -> Mapping[str, Tool]:
        asked.append(names)
        return {"3": Tool("3", FunctionCall("search", {}, "3"), Rejected())}

    state = state_of(*LIFE)
    events: Sequence[Event] = [pending("9"), pending("3"), pending("3")]
    ids = event_ids(3, NOON)
    stage_events(state, events, ids, NOON, settled, ids_given=False, salts=salts(3))
    assert asked == [{"3"}]


def test_a_settled_call_that_the_log_lost_is_unknown() -> None:
    """An append to such a call is refused as an unknown call."""
    state = state_of(*LIFE)
    with pytest.raises(IllegalTransition, match="no such call"):
        stage_events(
            state,
            [running("3")],
            event_ids(1, NOON),
            NOON,
            lambda _: {},
            ids_given=False,
            salts=salts(1),
        )


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
        ([pending("1"), RESPONDED], (2, 0)),
        ([MessageAdded("assistant", turn=2), MessageAdded("assistant", turn=1)], (2, 0)),
    ],
)
def test_calls_in_a_row_share_a_turn(events: list[Event], place: tuple[int, int]) -> None:
    """A message, a response, a start or a result ends a turn; an assistant's message begins one."""
    assert state_of(*events).last_turn.next_call() == place


@pytest.mark.parametrize(
    ("events", "waiting"),
    [
        ([RESPONDED], 1),
        ([RESPONDED, in_turn(1)], None),
        ([in_turn(1), RESPONDED], None),
        ([in_turn(1), RESPONDED, RESPONDED], 3),
        ([in_turn(1), RESPONDED, in_turn(1, 1), RESPONDED], 4),
        ([in_turn(1), RESPONDED, in_turn(2), RESPONDED], None),
        ([RESPONDED, in_turn(1), RESPONDED], 3),
    ],
)
def test_a_response_waits_for_its_turn_if_the_last_one_has_its_own(
    events: list[Event], waiting: int | None
) -> None:
    """A response that says the same completes it until that begins."""
    found = state_of(*events).last_turn.waiting_response(RESPONDED)
    assert found == (None if waiting is None else (waiting, RESPONDED))


def test_the_last_response_is_kept_with_what_completed_it() -> None:
    """A completion of another response, or of none that was seen, changes nothing."""
    of_it, of_another = (ModelResponded(latency=n, completes=n) for n in (1, 7))
    state = state_of(RESPONDED, of_another, of_it, of_another)
    assert state.last_turn.response == (1, RESPONDED.completed_by(of_it))
    assert state_of(of_another).last_turn.response is None


def test_a_further_piece_of_a_turn_begins_no_other_one() -> None:
    """The next call of the turn stands behind those before the piece."""
    piece = MessageAdded("assistant", (), turn=1)
    assert state_of(piece, in_turn(1), piece).last_turn.next_call() == (1, 1)


def test_the_calls_of_a_response_that_was_cut_off_fail_once() -> None:
    """Results may come before its message; a call that fails for another reason has failed."""
    state = state_of(pending("0"), running("0"), message(), CUT_OFF)
    said = [completed("0"), MessageAdded("assistant", turn=2), in_turn(2), in_turn(2, 1)]
    events = [*said, failed("2.1")]
    *stored, not_run = state.last_turn.with_not_run(events)
    assert stored == events
    assert isinstance(not_run, ToolFailed)
    assert (not_run.call_id, is_of_cut_off_response(not_run.failure)) == ("2.0", True)
    assert state.last_turn.with_not_run(events[:1]) == events[:1]


@pytest.mark.parametrize(
    ("events", "fails"),
    [
        ([CUT_OFF, in_turn(1)], True),
        ([CUT_OFF, message(), in_turn(1)], False),
        ([CUT_OFF, in_turn(1), message()], False),
        ([in_turn(1), CUT_OFF], True),
        ([in_turn(1), running("1.0"), CUT_OFF], False),
        ([in_turn(1), RESPONDED, CUT_OFF], False),
    ],
)
def test_a_further_call_fails_if_the_response_is_certainly_that_of_its_turn(
    events: list[Event], fails: bool
) -> None:
    """A message that came between leaves it uncertain, and so does a call that had begun."""
    further = in_turn(1, 1)
    stored = state_of(*events).last_turn.with_not_run([further])
    assert [event.tag for event in stored] == ["pending"] + ["failed"] * fails


def test_a_minted_id_is_the_same_in_every_version() -> None:
    """A replayed run finds its calls by their ids, in the log of an older version, too."""
    assert mint_call_id("chat", 2, 10, set()) == "call_d8d6dc7ecb359bae0002000a"


def test_the_result_of_an_equal_call_is_the_last_one_that_completed() -> None:
    """A call that failed gives none, and neither does one with other arguments."""
    calls = [pending(name, n=name == "4") for name in "12345"]
    ends = [completed("1", "old"), completed("2", "new"), failed("3"), completed("4", "other")]
    events = log(*calls, *ends)
    found = equal_result(events, fold_tools(events)["5"], Equality())
    assert found is not None
    assert found.response.result == "new"


def test_a_call_joins_behind_the_place_that_the_last_one_was_given() -> None:
    """No two calls of a turn have one place."""
    given = ToolPending(FunctionCall("f", {}, "1"), turn=4, index=2)
    (joining,) = state_of(given).last_turn.numbered(
        [ToolPending(FunctionCall("g", {}, "2"))], "chat", {"1"}
    )
    assert isinstance(joining, ToolPending)
    assert (joining.turn, joining.index) == (4, 3)


def test_events_without_a_place_are_given_one() -> None:
    """A call without an id gets a unique one; an id and a turn that are given stay."""
    given = [
        message("hm", "assistant"),
        ToolPending(FunctionCall("f", {})),
        ToolPending(FunctionCall("g", {}, "")),
        message(),
        ToolPending(FunctionCall("h", {}, "own")),
        ToolPending(FunctionCall("i", {}, "placed"), turn=7, index=3),
        MessageAdded("assistant", turn=9),
    ]
    state = state_of(pending("1"))
    placed = state.last_turn.numbered(given, "chat", state.known)
    calls = [e for e in placed if isinstance(e, ToolPending)]
    assert [(c.call.id, c.turn, c.index) for c in calls] == [
        (mint_call_id("chat", 2, 0, state.known), 2, 0),
        (mint_call_id("chat", 2, 1, state.known), 2, 1),
        ("own", 3, 0),
        ("placed", 7, 3),
    ]
    assert [e.turn for e in placed if isinstance(e, MessageAdded)] == [2, None, 9]
    assert placed[5] is given[5]


def test_arguments_that_json_cannot_say_are_named() -> None:
    """The error for a call or an edit gives the path to the value."""
    deep_down = [{"n": float("nan")}]
    for event in (pending("1", deep=deep_down), approved("1", deep=deep_down)):
        with pytest.raises(UnhashableArguments) as caught:
            encode_event(event)
        assert str(caught.value) == (
            "nan is not a JSON number - at `$.deep[0].n`: pass plain JSON values"
        )
    with pytest.raises(UnhashableArguments, match="pass plain JSON values"):
        encode_event(pending("1", what=object()))


def test_arguments_that_cannot_be_compared_are_stored() -> None:
    """JSON can say them, whatever their own comparison raises; what it cannot say is named."""

    class Touchy(dict[str, object]):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparison")

        __hash__ = None  # type: ignore[assignment]

    stored, _, _ = encode_event(pending("1", deep=Touchy(a=1)))
    assert stored.call.arguments == {"deep": {"a": 1}}
    with pytest.raises(UnhashableArguments, match=r"nan is not a JSON number - at `\$.deep.a`"):
        encode_event(pending("1", deep=Touchy(a=float("nan"))))


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
    """An event is refused if it could not be read back."""
    with pytest.raises((UnencodableEvent, UnhashableArguments), match="pass "):
        encode_event(event)


def deep(depth: int) -> Any:
    """Return lists nested to this depth."""
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
    """A result is stored in its nearest JSON form, and marked if something was lost."""
    event, payload, mark = encode_event(completed("1", result))
    assert (event.response.result, event.lossy, mark) == (stored, lossy, None)
    assert msgspec.json.decode(payload, type=ToolCompleted) == event


def test_a_result_too_deep_for_its_readers_is_cut() -> None:
    """A result is cut if it could be written but not parsed again."""
    event, _, _ = encode_event(completed("1", deep(300)))
    assert event.lossy
    assert isinstance(event.response.result, list)


def test_the_providers_form_is_dropped_where_it_cannot_be_kept() -> None:
    """The result is stored without the form if that cannot be stored.

    It stays beside a result that is stored in its nearest form: the model was shown it.
    """
    native = msgspec.structs.replace(completed("1", "fine"), provider="p", native={"raw": object()})
    event, _, _ = encode_event(native)
    assert (event.response.result, event.native, event.lossy) == ("fine", None, True)
    lossy = msgspec.structs.replace(completed("1", b"\xff"), provider="p", native={"raw": 1})
    assert encode_event(lossy)[0].native == {"raw": 1}
    kept = msgspec.structs.replace(completed("1", (1,)), provider="p", native={"raw": 1})
    assert encode_event(kept)[0].native == {"raw": 1}
    assert not encode_event(kept)[0].lossy
