"""Decisions on the page: bound to what was shown, and made once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from eventstore import EventStore
from projections import pending_approvals
from projections.web.decisions import Decision, decide
from projections.web.settlements import Settlement, settle


@pytest.fixture
def asked(store: EventStore) -> Decision:
    """Return ann's approval of a call that waits."""
    chat = store.conversation("shop")
    call = chat.request("refund", {"amount": 49, "order": "A-17"})
    (approval,) = pending_approvals(store)
    return Decision("shop", call.id, approval.revision, "approve", " ann ", "")


def call_of(store: EventStore, decision: Decision) -> Any:
    """Return the call as it is now."""
    return store.conversation(decision.conversation).tools[decision.call]


def test_an_approval_and_a_rejection_are_recorded(store: EventStore, asked: Decision) -> None:
    """The log has the name and the reason."""
    assert decide(store, asked) == "refund is approved by ann"
    assert (call_of(store, asked).status.name, call_of(store, asked).status.by) == (
        "Approved",
        "ann",
    )
    other = store.conversation("shop").request("refund", {"amount": 50})
    (approval,) = pending_approvals(store)
    refusal = Decision("shop", other.id, approval.revision, "reject", "bob", "too much")
    assert decide(store, refusal) == "refund is rejected by bob"
    status = call_of(store, refusal).status
    assert (status.name, status.by, status.reason) == ("Rejected", "bob", "too much")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"by": "  "}, "enter your name"),
        ({"decision": "run"}, "press Approve or Reject"),
        ({"decision": ""}, "press Approve or Reject"),
        ({"call": "nobody"}, "there is no such call"),
        ({"conversation": "nobody"}, "there is no such call"),
        ({"shown": "0.0." + "0" * 32}, "not as it was shown"),
        ({"shown": ""}, "not as it was shown"),
    ],
)
def test_a_wrong_form_decides_nothing(
    store: EventStore, asked: Decision, changes: dict[str, str], complaint: str
) -> None:
    """The call still waits."""
    said = decide(store, replace(asked, **changes))
    assert said.startswith("nothing was decided: ")
    assert complaint in said
    assert call_of(store, asked).is_pending
    assert store.conversation("nobody").version == 0


def test_the_second_decision_names_the_first(store: EventStore, asked: Decision) -> None:
    """A second approval changes nothing; a refusal before the start is heard, and is final."""
    decide(store, asked)
    before = store.conversation("shop").version
    said = decide(store, replace(asked, by="bob"))
    assert said == "nothing was decided: refund is approved by ann already"
    assert store.conversation("shop").version == before
    assert decide(store, replace(asked, by="bob", decision="reject")) == "refund is rejected by bob"
    for decision in ("approve", "reject"):
        said = decide(store, replace(asked, by="cy", decision=decision))
        assert said == "nothing was decided: refund is rejected by bob already"
    assert store.conversation("shop").version == before + 1


def test_a_call_that_may_have_taken_effect_is_settled_and_not_rejected(
    store: EventStore, asked: Decision
) -> None:
    """The page says so; a result that is JSON is kept as what it says, as by the command."""
    chat = store.conversation("shop")
    for number, (said, result) in enumerate([('{"paid": true}', {"paid": True}), ("paid", "paid")]):
        call = chat.request("refund", {"order": number})
        chat.begin(call.id).fail(TimeoutError("late"))
        chat.begin(call.id, attempt=2).pause(reason="asks a person")
        shown = str(chat.tool(call.id).revision)
        refusal = replace(asked, call=call.id, shown=shown, decision="reject")
        assert "and a rejection would hide that: settle it" in decide(store, refusal)
        form = Settlement("shop", call.id, shown, "completed", said, "ann", "")
        assert settle(store, form) == "refund is completed"
        response = chat.tool(call.id).response
        assert response is not None
        assert response.result == result


def test_arguments_that_are_no_object_are_not_approved(store: EventStore) -> None:
    """The call could not run; a rejection is recorded."""
    call = store.conversation("shop").request("refund", '{"amount": 4')
    (approval,) = pending_approvals(store)
    wanted = Decision("shop", call.id, approval.revision, "approve", "ann", "")
    assert "are not a JSON object" in decide(store, wanted)
    assert decide(store, replace(wanted, decision="reject")) == "refund is rejected by ann"


def test_a_call_that_asks_again_is_not_decided_by_an_old_page(
    store: EventStore, asked: Decision
) -> None:
    """Its arguments are the same, and the question is another one."""
    chat = store.conversation("shop")
    decide(store, asked)
    chat.begin(asked.call).pause(reason="the price has changed")
    assert "not as it was shown" in decide(store, asked)
    (approval,) = pending_approvals(store)
    assert decide(store, replace(asked, shown=approval.revision)) == "refund is approved by ann"
