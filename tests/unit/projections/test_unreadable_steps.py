"""A step that cannot be read leaves its call in doubt, for every reader alike."""

from __future__ import annotations

import pytest

from eventstore import Conversation, EventStore, StoreCorrupt, UnknownEvent
from eventstore.domain.doubt import MAY_HAVE_TAKEN_EFFECT
from projections import current_tools, model_history, pending_approvals, resume_plan


@pytest.fixture
def chat(store: EventStore) -> Conversation:
    """Return a conversation with three calls, one of which has completed."""
    chat = store.conversation("c")
    chat.add_message("user", "Refund order 7.")
    chat.request("refund", {"order": 7}, "c1")
    chat.request("mail", {"to": "ann"}, "c2")
    chat.request("look", {}, "c3")
    chat.complete("c3", "found")
    return chat


@pytest.mark.parametrize(
    ("tag", "payload", "in_doubt"),
    [
        ("running", '{"call_id":"c1","attempt":1,"argu', ["c1"]),
        ("approved", '{"call_id":"c1","by', ["c1"]),
        ("paused", '{"call_id":"c2","att', ["c2"]),
        ("completed", '{"call_id":"c1","response":{', ["c1"]),
        ("failed", '{"call_id":"c1","fail', ["c1"]),
        ("running", '{"call_id":"c3","att', []),
        ("running", "gone", ["c1", "c2"]),
        ("message", '{"role":"us', []),
        ("hologram", '{"call_id":"c1"}', []),
    ],
)
def test_plan_prompt_and_lists_agree(
    store: EventStore, chat: Conversation, tag: str, payload: str, in_doubt: list[str]
) -> None:
    """The call is in doubt in the plan, for the model, in the list of calls and in the inbox."""
    chat.append(UnknownEvent(tag, 1, payload))
    assert [step.id for step in resume_plan(chat.events(), lambda _: False).unknown] == in_doubt
    tools = current_tools(chat.events())
    assert [call_id for call_id, tool in tools.items() if tool.in_doubt] == in_doubt
    approvals = pending_approvals(store)
    assert [each.call_id for each in approvals if each.in_doubt] == in_doubt
    (turn,) = [turn for turn in model_history(chat.events()).turns if turn.calls]
    warned = [call.id for call in turn.calls if "may have taken effect" in call.answer.text]
    assert warned == in_doubt


def test_a_later_end_takes_the_doubt_away(chat: Conversation) -> None:
    """The outcome is known then, whatever the damaged step said."""
    chat.append(UnknownEvent("running", 1, '{"call_id":"c1","att'))
    chat.complete("c1", "refunded")
    assert resume_plan(chat.events()).unknown == []
    assert MAY_HAVE_TAKEN_EFFECT not in str(model_history(chat.events()).render("openai"))


def test_a_start_after_an_unreadable_request_names_the_damage(chat: Conversation) -> None:
    """The error does not ask to request the call again."""
    chat.append(UnknownEvent("pending", 1, '{"call":{"name":"ref'))
    with pytest.raises(StoreCorrupt, match="is damaged"):
        chat.start("c9")
