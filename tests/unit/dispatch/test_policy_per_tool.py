"""Options of a tool that stand above those of its dispatcher."""

from __future__ import annotations

from typing import Any

import pytest
from support.dispatchers import answers, make

from eventstore import (
    Conversation,
    ErrorKind,
    FunctionTool,
    OpeningGate,
    ToolErrorPolicy,
    ToolErrorTerminal,
    ToolRejected,
)


def charge() -> str:
    """Fail because access is refused."""
    raise PermissionError("the key has expired")


LENIENT = ToolErrorPolicy(frozenset())
STRICT = ToolErrorPolicy(frozenset({ErrorKind.AUTH}))


@pytest.mark.parametrize(
    ("own", "of_dispatcher", "ends"),
    [(STRICT, LENIENT, True), (LENIENT, STRICT, False), (None, STRICT, True)],
)
def test_the_policy_of_a_tool_decides_on_its_failures(
    kind: str, chat: Conversation, own: Any, of_dispatcher: Any, ends: Any
) -> None:
    """Without one, that of the dispatcher does; the failure is recorded in any case."""
    driven = make(kind, chat, [FunctionTool(charge, policy=own)], policy=of_dispatcher)
    call = chat.request("charge")
    if ends:
        with pytest.raises(ToolErrorTerminal):
            driven.dispatch([call])
    else:
        driven.dispatch([call])
    assert chat.tools[call.id].status.name == "Failed"


def test_the_policy_of_a_tool_concerns_no_other_tool(kind: str, chat: Conversation) -> None:
    """A failure of the same kind of another tool goes to the model."""
    tools = [FunctionTool(charge, policy=STRICT), FunctionTool(charge, "charge_else")]
    driven = make(kind, chat, tools, policy=LENIENT)
    (failed,) = driven.dispatch([chat.request("charge_else")])
    assert failed.status.name == "Failed"


class Reasons(OpeningGate):
    """A gate that gives a reason for one tool."""

    def denial_reason(self, name: str, _: object, /) -> str | None:
        """Return the reason."""
        return "the gate says no" if name == "first" else None


def test_the_denial_of_a_tool_is_read_when_no_gate_gives_a_reason(
    kind: str, chat: Conversation
) -> None:
    """First the reason of a gate, then the text of the tool, then that of the dispatcher."""

    def nothing() -> None:
        raise AssertionError("a hidden tool has run")

    own = "Ask for the number first."
    tools = [
        FunctionTool(nothing, "first", denial=own),
        FunctionTool(nothing, "second", denial=own),
        FunctionTool(nothing, "third"),
        FunctionTool(nothing, "open"),
    ]
    driven = make(
        kind, chat, tools, gates=[Reasons(["open"])], denial=lambda name, _: (f"{name}: no", {})
    )
    driven.offer()
    calls = [chat.request(name) for name in ("first", "second", "third")]
    driven.dispatch(calls)
    reported = answers(chat)
    texts = ("the gate says no", own, "third: no")
    assert all(text in reported[call.id] for call, text in zip(calls, texts, strict=True))
    (second,) = (
        recorded.event
        for recorded in chat.events()
        if isinstance(recorded.event, ToolRejected) and recorded.call_id == calls[1].id
    )
    assert (second.source, second.by) == ("gate", "tool_gate")
    assert second.details == {
        "runtime_block": True,
        "requested_tool": "second",
        "allowed_tools": ["open"],
        "gate": "tool_gate",
    }


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"policy": "strict"}, TypeError, "policy of tool 'charge' is 'strict': pass a ToolError"),
        ({"denial": " "}, ValueError, "denial of tool 'charge' is ' ': pass text for the model"),
        ({"denial": 7}, ValueError, "denial of tool 'charge' is 7: pass text for the model"),
    ],
)
def test_options_of_a_tool_are_checked(options: Any, error: type[Exception], message: str) -> None:
    """Where the tool is made."""
    with pytest.raises(error, match=message):
        FunctionTool(charge, **options)
