"""Gates: how their answers compose, and the reason that a denied call gets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from eventstore import (
    AsyncToolGate,
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
        """Return the one answer."""
        self.seen.append(context)
        return self.allow

    def suppresses_advisory_gates(self, context: ToolGateContext, /) -> bool:
        """Return the given value."""
        return self.suppresses

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str | None:
        """Return the one reason."""
        self.seen.append(context)
        return self.reason


class Bare:
    """A gate with nothing but an allowlist."""

    def allowlist(self, context: ToolGateContext) -> set[str] | None:
        """Return the planning tool alone."""
        return {"plan"}


def test_a_gate_needs_no_more_than_an_allowlist() -> None:
    """The rest has defaults, and the gate is named after its class."""
    decision = compose_gates([Bare()], CONTEXT)  # type: ignore[list-item]
    assert decision.allowed == {"plan"}
    assert decision.answers == (GateAnswer("Bare", ("plan",)),)
    denial = decision.denial("shell", [Bare()])  # type: ignore[list-item]
    assert denial is not None
    assert denial.gate == "tool_gate"


def test_a_derived_gate_has_the_defaults() -> None:
    """The gate is required, has priority 0, suppresses no gate and gives no reason."""
    gate = OpeningGate(["plan"])
    assert (gate.priority, gate.gate_class) == (0, GateClass.REQUIRED)
    assert not gate.suppresses_advisory_gates(CONTEXT)
    assert gate.denial_reason("shell", CONTEXT) is None


def test_no_gate_and_no_opinion_narrow_nothing() -> None:
    """Every available tool may be seen; gates without an opinion are recorded all the same."""
    assert compose_gates([], CONTEXT).allowed is None
    decision = compose_gates([Fixed("silent", None, suppresses=True)], CONTEXT)
    assert decision.allowed is None
    assert decision.visible == CONTEXT.available_tool_names
    assert decision.answers == (GateAnswer("silent", None),)
    assert decision.denial("shell", []) is None


def test_visible_tools_are_in_the_order_of_the_registry() -> None:
    """A name that is not registered is allowed, and not shown."""
    decision = compose_gates([Fixed("a", ["odd", "deliver", "plan"])], CONTEXT)
    assert decision.allowed == {"odd", "plan", "deliver"}
    assert decision.visible == ("plan", "deliver")
    assert decision.allows("odd")
    assert not decision.allows("shell")


def test_the_event_records_every_answer_and_the_resolved_conflict() -> None:
    """Names are sorted; gates stand in the order in which they were asked."""
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
            GateAnswer("first", ("ask", "plan")),
            GateAnswer("second", ("shell",)),
            GateAnswer("advice", ("deliver",)),
            GateAnswer("silent"),
            GateAnswer("nothing", ()),
        ),
        conflict={
            "gates": ["first", "second", "nothing"],
            "empty": ["nothing"],
            "chosen": "first",
            "allow": ["ask", "plan"],
            "reason": "empty intersection repaired by highest-priority owner `first` (priority 10)",
            "suppressed": ["advice"],
        },
    )


def test_a_decision_without_conflict_has_none_on_record() -> None:
    """Every tool is allowed if no gate objects."""
    offered = compose_gates([Fixed("silent", None)], CONTEXT).offered
    assert (offered.allowed, offered.conflict) == (None, None)


def test_on_all_empty_decides_when_all_gates_allow_nothing() -> None:
    """Every tool is visible by default, none on request; any other value is refused."""
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


def test_text_is_not_a_set_of_tool_names() -> None:
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
        (len, "len> is not a gate: give it allowlist"),
    ],
)
def test_an_invalid_gate_is_refused(gate: Any, message: str) -> None:
    """The error names the gate and the remedy."""
    with pytest.raises((TypeError, ValueError), match=message):
        compose_gates([gate], CONTEXT)


class Ruleless(ToolGate):
    """A gate with a reason, and without a rule."""

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str | None:
        """Return the reason."""
        return "no"


class MisnamedAsync(AsyncToolGate):
    """An async gate whose rule has another name."""

    async def allow_list(self, context: ToolGateContext) -> set[str]:
        """Return the planning tool alone."""
        return {"plan"}


class MisnamedAlone:
    """A gate that derives from nothing, and whose rule has another name."""

    def allowed_list(self, context: ToolGateContext) -> set[str]:
        """Return the planning tool alone."""
        return {"plan"}


@pytest.mark.parametrize("cls", [Ruleless, MisnamedAsync])
def test_a_gate_without_a_rule_cannot_be_made(cls: type) -> None:
    """The rule is an abstract method, so Python itself names the class and the method."""
    with pytest.raises(TypeError, match=rf"abstract class {cls.__name__} .*'?allowlist"):
        cls()


def test_a_base_of_gates_may_leave_the_rule_to_derived_classes() -> None:
    """The derived class is a gate, also if it takes arguments."""

    class Named(ToolGate):
        def __init__(self, *names: str) -> None:
            self.names = frozenset(names)

    class Only(Named):
        def allowlist(self, context: ToolGateContext, /) -> frozenset[str]:
            return self.names

    assert compose_gates([Only("plan")], CONTEXT).allowed == {"plan"}
    with pytest.raises(TypeError, match="abstract class Named"):
        Named("plan")  # type: ignore[abstract]


def test_a_gate_without_a_rule_is_refused_where_it_is_composed() -> None:
    """The check does not depend on how the object was made."""
    for gate, message in (
        (MisnamedAlone(), r"MisnamedAlone object .* is not a gate: give it allowlist\(context\)"),
        (OpeningGate, "gate OpeningGate is a class: pass an object of it"),
        (SimpleNamespace(), "is not a gate: give it allowlist"),
    ):
        given: Any = gate
        with pytest.raises(TypeError, match=message):
            compose_gates([given], CONTEXT)


class AsyncOnly(AsyncToolGate):
    """A gate that awaits its rule."""

    async def allowlist(self, context: ToolGateContext, /) -> set[str]:
        """Return the planning tool alone."""
        return {"plan"}


class AsyncReason(Fixed):
    """A gate that awaits its reason."""

    async def denial_reason(  # type: ignore[override]
        self, name: str, context: ToolGateContext, /
    ) -> str | None:
        """Return the reason."""
        return "later"


def test_compose_gates_refuses_an_async_gate() -> None:
    """The function awaits nothing; the error names the gate and the remedy."""
    given: Any = AsyncOnly()
    message = r"allowlist\(\) of gate 'AsyncOnly' is async: pass the gate to an AsyncDispatcher"
    with pytest.raises(TypeError, match=message):
        compose_gates([given], CONTEXT)
    gate = AsyncReason("late", {"plan"})
    with pytest.raises(TypeError, match=r"denial_reason\(\) of gate 'late' is async"):
        compose_gates([gate], CONTEXT).denial("shell", [gate])


def test_a_reason_that_is_not_text_is_refused() -> None:
    """The reason is the answer to the model."""
    gate = Fixed("odd", {"plan"}, reason=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"denial_reason\(\) of gate 'odd' gave 5: give text"):
        compose_gates([gate], CONTEXT).denial("shell", [gate])


def test_isinstance_recognises_gates() -> None:
    """An object is a gate by its class, or by having all the members of a gate."""
    assert isinstance(OpeningGate(["plan"]), ToolGate)
    assert not isinstance(len, ToolGate)


def test_the_context_of_a_decision_does_not_change() -> None:
    """The context keeps copies, and every gate gets the same one, also at a denial."""
    messages = [{"role": "user"}]
    context = ToolGateContext(3, messages, None, ["plan"])
    messages.clear()
    assert context.messages == ({"role": "user"},)
    gate = Fixed("a", {"plan"}, reason="later")
    decision = compose_gates([gate], context)
    decision.denial("shell", [gate])
    assert [seen is context for seen in gate.seen] == [True, True]


CLARK_NAMES = {
    "next_turn_tool_allowlist": "allowlist",
    "conflict_priority": "priority",
    "tool_gate_class": "gate_class",
}


@pytest.mark.parametrize("base", [OpeningGate, AsyncToolGate])
@pytest.mark.parametrize("name", CLARK_NAMES)
def test_a_member_under_a_name_that_has_no_effect_is_refused(base: type, name: str) -> None:
    """The class cannot even be defined; the names are those of clark-agent."""
    message = f"{name} of gate Ported would have no effect: rename it to {CLARK_NAMES[name]}"
    with pytest.raises(TypeError, match=message):
        type("Ported", (base,), {name: lambda *_: None})


def test_a_class_that_derives_from_nothing_is_checked_where_it_is_composed() -> None:
    """Nothing of ours sees it earlier."""
    members = {"conflict_priority": lambda *_: 1, "allowlist": lambda *_: {"look"}}
    with pytest.raises(TypeError, match=r"conflict_priority of gate Ported .* to priority"):
        compose_gates([type("Ported", (), members)()], ToolGateContext())


@pytest.mark.parametrize("name", ["allow_tools", "denials", "denial_reasons", "names"])
def test_a_gate_may_have_methods_of_its_own(name: str) -> None:
    """No name is guessed at: however near it is to that of a gate's member, it is the gate's."""
    members = {name: lambda *_: None, "allowlist": lambda *_: {"look"}}
    context = ToolGateContext(available_tool_names=("look", "pay"))
    assert compose_gates([type("Own", (ToolGate,), members)()], context).allowed == {"look"}


def test_a_gate_may_serve_another_library_too() -> None:
    """A name of clark-agent stands beside the one that is asked for."""
    members = {"next_turn_tool_allowlist": lambda *_: None, "allowlist": lambda *_: {"look"}}
    context = ToolGateContext(available_tool_names=("look", "pay"))
    assert compose_gates([type("Both", (), members)()], context).allowed == {"look"}
