"""`ToolEffect`: what a tool does decides whether a person is asked, and what may run again."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatchers import make, raising

from eventstore import (
    Conversation,
    FunctionTool,
    Outcome,
    RetryPolicy,
    Toolbox,
    ToolEffect,
)
from projections import resume_plan


def done() -> str:
    """Do the work."""
    return "done"


@pytest.mark.parametrize(
    ("options", "needs_approval", "idempotent"),
    [
        ({}, False, False),
        ({"effect": None}, False, False),
        ({"effect": "read_only"}, False, True),
        ({"effect": ToolEffect.READ_ONLY}, False, True),
        ({"effect": "mutating"}, False, False),
        ({"effect": "destructive"}, True, False),
        ({"effect": "destructive", "needs_approval": False}, False, False),
        ({"effect": "destructive", "idempotent": True}, True, True),
        ({"effect": "read_only", "idempotent": False}, False, False),
        ({"effect": "read_only", "needs_approval": True}, True, True),
    ],
)
def test_an_effect_sets_defaults_that_an_option_overrules(
    options: dict[str, Any], needs_approval: bool, idempotent: bool
) -> None:
    """Without an effect nothing is assumed."""
    tool: FunctionTool = FunctionTool(done, **options)
    assert (tool.needs_approval, tool.idempotent) == (needs_approval, idempotent)
    assert tool.named("other").effect == tool.effect == options.get("effect")


def test_effects_have_the_names_of_entelix() -> None:
    """The names are stable."""
    assert [str(effect) for effect in ToolEffect] == ["read_only", "mutating", "destructive"]


@pytest.mark.parametrize("effect", [None, "read_only", "mutating", "destructive"])
def test_only_a_destructive_tool_waits_for_a_person(
    kind: str, chat: Conversation, effect: Any
) -> None:
    """After the approval it runs."""
    dispatcher = make(kind, chat, [FunctionTool(done, effect=effect)])
    (tool,) = dispatcher.dispatch([chat.request("done")])
    if effect == "destructive":
        assert tool.is_pending
        chat.approve(tool.id, by="grace")
        (tool,) = dispatcher.dispatch([tool.id])
    assert tool.status.name == "Completed"


def test_an_approver_is_asked_about_destructive_tools_alone(kind: str, chat: Conversation) -> None:
    """An approver decides as for any tool that needs approval."""
    asked: list[str] = []

    def approver(tool: Any) -> bool:
        asked.append(tool.call.name)
        return False

    tools = {
        "read": FunctionTool(done, effect="read_only"),
        "erase": FunctionTool(done, effect="destructive"),
    }
    dispatcher = make(kind, chat, tools, approver=approver)
    ended = dispatcher.dispatch([chat.request("read"), chat.request("erase")])
    assert [tool.status.name for tool in ended] == ["Completed", "Rejected"]
    assert asked == ["erase"]


@pytest.mark.parametrize(
    ("effect", "found", "runs", "status"),
    [
        ("read_only", None, 1, "Completed"),
        ("mutating", None, 0, "Running"),
        ("destructive", None, 0, "Running"),
        ("mutating", Outcome.done("was done"), 0, "Completed"),
        ("destructive", Outcome.not_done(), 1, "Completed"),
        ("destructive", Outcome.unknown(), 0, "Running"),
    ],
)
def test_after_a_crash_only_a_read_is_repeated_without_a_question(
    kind: str, chat: Conversation, effect: Any, found: Outcome | None, runs: int, status: str
) -> None:
    """A tool that changes something is verified, or left as it is."""
    ran: list[int] = []

    def work() -> str:
        ran.append(1)
        return "done"

    call = chat.request("work")
    chat.approve(call.id)
    chat.start(call.id)
    verify = None if found is None else lambda _: found
    make(kind, chat, [FunctionTool(work, effect=effect, verify=verify)]).resume()
    assert (len(ran), chat.tools[call.id].status.name) == (runs, status)


@pytest.mark.parametrize(("effect", "attempts"), [("read_only", 3), ("mutating", 1)])
def test_a_timeout_is_retried_only_where_nothing_can_have_changed(
    kind: str, chat: Conversation, effect: Any, attempts: int
) -> None:
    """A timeout leaves the outcome unknown."""
    tool = FunctionTool(raising(TimeoutError()), "t", effect=effect, retry=RetryPolicy(3))
    (ended,) = make(kind, chat, [tool]).dispatch([chat.request("t")])
    assert ended.attempts == attempts


def test_a_toolbox_answers_the_questions_of_a_resume_plan(chat: Conversation) -> None:
    """Nothing is assumed of a tool that the toolbox does not have."""
    toolbox = Toolbox(
        {
            "read": FunctionTool(done, effect="read_only"),
            "write": FunctionTool(done, effect="mutating"),
            "erase": FunctionTool(done, effect="destructive"),
        }
    )
    for name in ("read", "write", "erase", "gone"):
        chat.request(name, call_id=f"new {name}")
        chat.start(chat.request(name, call_id=f"begun {name}").id)
    plan = resume_plan(
        chat.events(), toolbox.needs_approval_for, is_idempotent=toolbox.is_idempotent
    )
    assert [step.id for step in plan.safe] == ["new read", "begun read", "new write"]
    assert [step.id for step in plan.waiting] == ["new erase", "new gone"]
    assert [step.id for step in plan.unknown] == ["begun write", "begun erase", "begun gone"]
