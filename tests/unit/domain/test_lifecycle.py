"""The lifecycle of a call: the table of transitions, and the call after each event."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.events import ToolRenewed
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.fingerprint import fingerprint, render
from eventstore.domain.lifecycle import TRANSITIONS, evolve
from eventstore.domain.statuses import Approved, Completed, Failed, Pending, Rejected, Running
from eventstore.domain.tool import Tool
from eventstore.errors import IllegalTransition, NonResolvedToolError, UnhashableArguments
from eventstore.testing import approved, completed, failed, paused, pending, rejected, running

LIVES: dict[str, tuple[Any, ...]] = {
    "Pending": (pending(q="x"),),
    "Approved": (pending(q="x"), approved()),
    "Running": (pending(q="x"), running()),
    "Failed": (pending(q="x"), running(), failed()),
    "Completed": (pending(q="x"), running(), completed()),
    "Rejected": (pending(q="x"), rejected()),
}
NEXT = {
    "approved": approved(),
    "rejected": rejected(),
    "completed": completed(),
    "failed": failed(),
    "paused": paused(),
}


def live(*events: Any) -> Tool:
    """Return the call after the events, one per microsecond."""
    tool: Tool | None = None
    for at, event in enumerate(events, 1):
        tool = evolve(tool, event, at)
    assert tool is not None
    return tool


@pytest.mark.parametrize("status", LIVES)
@pytest.mark.parametrize("tag", TRANSITIONS)
def test_each_event_follows_only_the_statuses_of_the_table(status: str, tag: str) -> None:
    """Anything else is refused with the status, the event and the call; repeats are no-ops."""
    tool = live(*LIVES[status])
    event = NEXT.get(tag) or running(attempt=tool.attempts + 1)
    if tag == "renewed":
        event = ToolRenewed("call_1", tool.attempts, 30)
    if tag == "paused" and status in ("Pending", "Approved"):
        event = paused(attempt=0)
    if status == "Failed" and tag in ("failed", "paused"):  # no doubt to settle, no approval
        with pytest.raises(IllegalTransition):
            evolve(tool, event)
    elif status in TRANSITIONS[tag]:
        assert evolve(tool, event) is not tool
    elif (status, tag) in {("Approved", "approved"), ("Completed", "completed")}:
        assert evolve(tool, event) is tool
    else:
        with pytest.raises(IllegalTransition) as caught:
            evolve(tool, event)
        assert (caught.value.state, caught.value.event) == (status, tag)
        assert caught.value.call_id == "call_1"


@pytest.mark.parametrize("event", [*NEXT.values(), running()])
def test_an_event_of_a_call_that_was_never_requested_is_refused(event: Any) -> None:
    """The first event of a call is its request."""
    with pytest.raises(IllegalTransition, match="no such call: request"):
        evolve(None, event)


def test_a_request_makes_a_pending_call() -> None:
    """The call has its place, its time and its fingerprint."""
    event = msgspec.structs.replace(pending("1", q="x"), turn=3, index=2)
    mark = fingerprint("search", {"q": "x"})
    assert evolve(None, event, 5, mark) == Tool(
        "1",
        FunctionCall("search", {"q": "x"}, "1"),
        Pending(),
        provider_call_id="1",
        turn=3,
        index=2,
        fingerprint=mark,
        requested_at=5,
    )


def test_an_approved_edit_stays_in_force() -> None:
    """The edit is in force from then on, with its own fingerprint."""
    tool = live(pending(q="x"), approved(q="y"))
    assert tool.status == Approved(FunctionCall("search", {"q": "y"}, "call_1"), "ada")
    after = evolve(evolve(tool, running(q="y"), 3), completed(), 4)
    assert after.call.arguments == {"q": "x"}
    assert after.effective_call.arguments == {"q": "y"}
    assert evolve(tool, running(), 3, "x1:new").fingerprint == "x1:new"


def test_the_same_decision_is_a_no_op_and_another_is_refused() -> None:
    """Decisions are compared by their content; key order and author do not count."""
    tool = live(pending(), approved(a=1, b=[2]))
    same = msgspec.structs.replace(approved(b=[2], a=1), by="bob")
    assert evolve(tool, same) is tool
    for other in (approved(), approved(a=1.0, b=[2]), approved(a=1)):
        with pytest.raises(IllegalTransition, match="the first decision stands"):
            evolve(tool, other)


def test_the_same_request_is_a_no_op_and_another_is_refused() -> None:
    """Calls are the same when name, arguments and raw text are, whatever their status."""
    for life in LIVES.values():
        tool = live(*life)
        assert evolve(tool, msgspec.structs.replace(pending(q="x"), turn=9)) is tool
        for other in (pending(q="y"), pending("call_1", "find", q="x")):
            with pytest.raises(IllegalTransition, match="use a new id"):
                evolve(tool, other)
    raw = pending()
    raw = msgspec.structs.replace(raw, call=FunctionCall("search", None, "call_1", "{not"))
    other = msgspec.structs.replace(raw, call=FunctionCall("search", None, "call_1", "{nor"))
    with pytest.raises(IllegalTransition):
        evolve(live(raw), other)


def test_attempts_are_counted_without_gaps() -> None:
    """The next attempt is the last plus one, even if the last has no recorded end."""
    tool = live(pending(), running(), running(attempt=2), failed(attempt=2), running(attempt=3))
    assert (tool.attempts, tool.status) == (3, Running(3, {}))
    for wrong in (1, 3, 5):
        with pytest.raises(IllegalTransition, match="pass the next attempt, 4"):
            evolve(tool, running(attempt=wrong))


def test_the_first_completion_stands() -> None:
    """An equal completion is a no-op, another is refused; 1 and 1.0 are different JSON."""
    tool = live(pending(), completed(result={"n": 1}))
    assert evolve(tool, completed(result={"n": 1})) is tool
    for other in (completed(result={"n": 1.0}), completed(result=None)):
        with pytest.raises(IllegalTransition, match="the first completion stands"):
            evolve(tool, other)


def test_times_are_of_the_request_the_decision_the_last_start_and_the_last_end() -> None:
    """A retry has a new start and no end yet."""
    tool = live(pending(), approved(), running(), failed(), running(attempt=2))
    assert (tool.requested_at, tool.decided_at, tool.started_at, tool.ended_at) == (1, 2, 5, None)
    assert evolve(tool, completed(), 9).ended_at == 9
    turned_down = live(pending(), rejected())
    assert (turned_down.decided_at, turned_down.ended_at) == (2, 2)


@pytest.mark.parametrize(
    ("status", "waits", "runs", "over"),
    [
        ("Pending", True, False, False),
        ("Approved", False, True, False),
        ("Running", False, True, False),
        ("Failed", False, False, True),
        ("Completed", False, False, True),
        ("Rejected", False, False, True),
    ],
)
def test_a_call_is_pending_executing_or_resolved(
    status: str, waits: bool, runs: bool, over: bool
) -> None:
    """Exactly one of the three is true in every status."""
    tool = live(*LIVES[status])
    assert tool.status.name == status
    assert (tool.is_pending, tool.is_executing, tool.is_resolved) == (waits, runs, over)


def test_a_resolved_call_is_a_pair_of_call_and_answer() -> None:
    """The answer is the real response, or one made from the failure or rejection."""
    call = FunctionCall("search", {"q": "x"}, "call_1")

    def answer(*events: Any) -> Any:
        pair = live(*events).try_to_tuple()
        assert pair[0] == call
        return pair[1].result

    assert answer(*LIVES["Completed"]) == "found"
    assert answer(*LIVES["Failed"]) == {"error": "no answer"}
    assert answer(*LIVES["Rejected"]) == {"error": "User ada rejected this tool call: too risky"}
    no_reason = msgspec.structs.replace(rejected(), reason=None)
    assert answer(pending(q="x"), no_reason) == {"error": "User ada rejected this tool call"}
    reported = Failure(ErrorKind.AUTH, "key 123 refused", model_message="not allowed")
    assert answer(pending(q="x"), msgspec.structs.replace(failed(), failure=reported)) == {
        "error": "not allowed"
    }
    assert live(*LIVES["Completed"]).response == FunctionResponse("search", "found", "call_1")
    assert live(*LIVES["Failed"]).response is None


@pytest.mark.parametrize("status", ["Pending", "Approved", "Running"])
def test_an_open_call_has_no_answer(status: str) -> None:
    """`to_tuple` gives None for it, `try_to_tuple` says which call and why."""
    tool = live(*LIVES[status])
    assert tool.to_tuple() == (tool.call, None)
    with pytest.raises(NonResolvedToolError) as caught:
        tool.try_to_tuple()
    assert (caught.value.id, caught.value.state) == ("call_1", status)


def test_the_pair_has_the_call_in_force() -> None:
    """An edited call is answered as it ran."""
    call, _ = live(pending(q="x"), approved(q="y"), completed()).to_tuple()
    assert call.arguments == {"q": "y"}


def test_a_failed_status_has_the_text_of_its_failure() -> None:
    """The text is the one for operators."""
    assert Failed(Failure(ErrorKind.INTERNAL, "boom", model_message="try later")).error == "boom"


def test_statuses_are_values() -> None:
    """Statuses have a name, and compare by their members."""
    statuses = (Pending(), Approved(), Running(1), Completed(FunctionResponse("f", 1)), Rejected())
    names = [status.name for status in statuses]
    assert names == ["Pending", "Approved", "Running", "Completed", "Rejected"]
    assert all(a != b for a, b in itertools.combinations(statuses, 2))
    assert Running(1, {"a": 1}) == Running(1, {"a": 1})


@dataclass
class Query:
    """Arguments in a class of the caller."""

    q: str


@pytest.mark.parametrize(
    ("given", "arguments", "raw"),
    [
        ({"q": 1}, {"q": 1}, None),
        ('{"q": 1}', {"q": 1}, None),
        (OrderedDict(q=1), {"q": 1}, None),
        (Query("x"), {"q": "x"}, None),
        (None, {}, None),
        ("", {}, None),
        (" \n", {}, None),
        ("null", {}, None),
        ('{"q": 1', None, '{"q": 1'),
        ("[1, 2]", [1, 2], "[1, 2]"),
        ([1, 2], [1, 2], "[1,2]"),
        (7, 7, "7"),
        ('"text"', "text", '"text"'),
        ("plain words", None, "plain words"),
        ('{"q": "\ud800"}', None, '{"q": "\\ud800"}'),
        ("[" * 5000, None, "[" * 5000),
    ],
)
def test_arguments_are_accepted_in_any_form(given: Any, arguments: Any, raw: Any) -> None:
    """An object, its JSON text or nothing; anything else is kept as raw text."""
    call = FunctionCall.of("search", given, "call_1")
    assert (call.name, call.arguments, call.id, call.raw) == ("search", arguments, "call_1", raw)
    assert call.is_object == (raw is None)
    assert len(call.digest()) == 16


@pytest.mark.parametrize("given", [[float("nan")], object(), {1, object()}])
def test_arguments_that_are_not_json_are_refused(given: Any) -> None:
    """Arguments are never silently changed."""
    with pytest.raises(UnhashableArguments, match="pass plain JSON values"):
        FunctionCall.of("search", given)


def test_raw_text_and_an_object_never_share_a_fingerprint() -> None:
    """This holds even if the text is the JSON of the object."""
    text = FunctionCall("search", None, raw='{"q":1}')
    assert text.digest() != FunctionCall("search", {"q": 1}).digest()
    assert render(FunctionCall("search", {"q": 1}).digest()) == fingerprint("search", {"q": 1})
