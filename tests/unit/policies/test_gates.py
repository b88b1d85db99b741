"""Gates: who is asked what, whose answer stands, and what a denied call is told."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore import (
    GateAnswer,
    GateClass,
    OpeningGate,
    ToolGate,
    ToolGateContext,
    ToolsOffered,
    compose_gates,
)

CONTEXT = ToolGateContext(0, [], "support-42", ["plan", "shell", "ask", "deliver"])


class Fixed(ToolGate):
    """A gate with one answer."""

    def __init__(
        self,
        name: str,
        allow: Any,
        priority: int = 0,
        gate_class: GateClass = GateClass.REQUIRED,
        *,
        suppresses: bool = False,
        reason: str | None = None,
    ) -> None:
        self.name = name
        self.allow = allow
        self.priority = priority
        self.gate_class = gate_class
        self.suppresses = suppresses
        self.reason = reason
        self.seen: list[ToolGateContext] = []

    def allowlist(self, context: ToolGateContext, /) -> Any:
        """The one answer."""
        self.seen.append(context)
        return self.allow

    def suppresses_advisory_gates(self, context: ToolGateContext, /) -> bool:
        """Whether it was built so."""
        return self.suppresses

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str | None:
        """The one reason."""
        self.seen.append(context)
        return self.reason


class Bare:
    """The least that a gate is."""

    def allowlist(self, context: ToolGateContext) -> set[str] | None:
        """Planning alone."""
        return {"plan"}


def test_a_gate_needs_no_more_than_an_allowlist() -> None:
    """The rest has defaults, and it is named for its class."""
    decision = compose_gates([Bare()], CONTEXT)  # type: ignore[list-item]
    assert decision.allowed == {"plan"}
    assert decision.answers == (GateAnswer("Bare", ("plan",)),)
    denial = decision.denial("shell", [Bare()])  # type: ignore[list-item]
    assert denial is not None
    assert denial.gate == "tool_gate"


def test_a_derived_gate_has_the_defaults() -> None:
    """Required, of no priority, suppressing nothing and giving no reason."""
    gate = OpeningGate(["plan"])
    assert (gate.priority, gate.gate_class) == (0, GateClass.REQUIRED)
    assert not gate.suppresses_advisory_gates(CONTEXT)
    assert gate.denial_reason("shell", CONTEXT) is None


def test_no_gate_and_no_opinion_narrow_nothing() -> None:
    """Everything available may be seen; those without an opinion are on record all the same."""
    assert compose_gates([], CONTEXT).allowed is None
    decision = compose_gates([Fixed("silent", None, suppresses=True)], CONTEXT)
    assert decision.allowed is None
    assert decision.visible == CONTEXT.available_tool_names
    assert decision.answers == (GateAnswer("silent", None),)
    assert decision.denial("shell", []) is None


def test_what_is_visible_is_in_the_order_of_the_registry() -> None:
    """A name that nobody registered is allowed, and not shown."""
    decision = compose_gates([Fixed("a", ["odd", "deliver", "plan"])], CONTEXT)
    assert decision.allowed == {"odd", "plan", "deliver"}
    assert decision.visible == ("plan", "deliver")
    assert decision.allows("odd")
    assert not decision.allows("shell")


def test_the_event_says_who_answered_what_and_how_it_was_resolved() -> None:
    """Sorted names, in the order of the gates."""
    gates = [
        Fixed("first", {"plan", "ask"}, 10, suppresses=True),
        Fixed("second", {"shell"}),
        Fixed("advice", {"deliver"}, 5, GateClass.ADVISORY),
        Fixed("silent", None),
        Fixed("nothing", set()),
    ]
    assert compose_gates(gates, CONTEXT).offered == ToolsOffered(
        iteration=0,
        available=("plan", "shell", "ask", "deliver"),
        allowed=("ask", "plan"),
        gates=(
            GateAnswer("first", ("ask", "plan")), GateAnswer("second", ("shell",)),
            GateAnswer("advice", ("deliver",)), GateAnswer("silent"), GateAnswer("nothing", ()),
        ),
        conflict={
            "gates": ["first", "second", "nothing"],
            "empty": ["nothing"],
            "chosen": "first",
            "allow": ["ask", "plan"],
            "reason": "empty intersection repaired by highest-priority owner `first` "
            "(priority 10)",
            "suppressed": ["advice"],
        },
    )  # fmt: skip


def test_a_decision_without_conflict_has_none_on_record() -> None:
    """All is open when nobody objects."""
    offered = compose_gates([Fixed("silent", None)], CONTEXT).offered
    assert (offered.allowed, offered.conflict) == (None, None)


def test_when_all_gates_allow_nothing_the_caller_says_what_that_means() -> None:
    """Open by default, as the field has it; closed on request; anything else is refused."""
    gates = [Fixed("a", set()), Fixed("b", set())]
    assert compose_gates(gates, CONTEXT).allowed is None
    closed = compose_gates(gates, CONTEXT, on_all_empty="deny")
    assert closed.allowed == frozenset()
    assert closed.visible == ()
    denial = closed.denial("plan", gates)
    assert denial is not None
    assert denial.text.endswith("Available now: none.")
    with pytest.raises(ValueError, match="on_all_empty is 'maybe': pass 'open' or 'deny'"):
        compose_gates(gates, CONTEXT, on_all_empty="maybe")  # type: ignore[arg-type]


def test_text_is_no_set_of_names() -> None:
    """The error names the gate at fault."""
    with pytest.raises(TypeError, match="gate 'odd' gave the text 'plan': give a set"):
        compose_gates([Fixed("odd", "plan")], CONTEXT)
    with pytest.raises(TypeError, match="gate 'OpeningGate' gave the text 'plan'"):
        OpeningGate("plan")
    with pytest.raises(TypeError, match="available_tool_names is 'plan': pass a list"):
        ToolGateContext(0, (), None, "plan")


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        (Fixed("odd", 5), "gate 'odd' gave 5: give a set"),
        (Fixed("odd", {1}), "gate 'odd' gave .1.: give a set"),
        (
            Fixed("odd", set(), "high"),  # type: ignore[arg-type]
            "priority of gate 'odd' is 'high': give it a number",
        ),
        (
            Fixed("odd", set(), 0, "Advisory"),  # type: ignore[arg-type]
            "gate_class of gate 'odd' is 'Advisory': give it GateClass.REQUIRED or",
        ),
        (len, "len> is no gate: give it allowlist"),
    ],
)  # fmt: skip
def test_a_gate_that_makes_no_sense_is_refused(gate: Any, message: str) -> None:
    """The error names the gate and says what to give."""
    with pytest.raises((TypeError, ValueError), match=message):
        compose_gates([gate], CONTEXT)


def test_gates_are_told_from_other_objects() -> None:
    """By class, or by all that a gate may have."""
    assert isinstance(OpeningGate(["plan"]), ToolGate)
    assert not isinstance(len, ToolGate)


def test_what_a_decision_was_made_on_stays_as_it_was() -> None:
    """The context keeps copies, and every gate sees the same one, at a denial, too."""
    messages = [{"role": "user"}]
    context = ToolGateContext(3, messages, None, ["plan"])
    messages.clear()
    assert context.messages == ({"role": "user"},)
    gate = Fixed("a", {"plan"}, reason="later")
    decision = compose_gates([gate], context)
    decision.denial("shell", [gate])
    assert [seen is context for seen in gate.seen] == [True, True]
