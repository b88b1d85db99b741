"""Which tools may the model see next? Gates narrow the choice; how they compose is pure.

A gate is asked before each model call, and its answer holds for that call alone. A call to a
tool that it hid is refused with the words of a gate, and the run goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec.structs import force_setattr

from eventstore.events import (
    GateAnswer,
    MessageAdded,
    Recorded,
    RunStarted,
    ToolPending,
    ToolsOffered,
)

OnAllEmpty = Literal["open", "deny"]

NAMES_SHOWN = 12
"""How many tool names the text of a denial lists."""


class GateClass(StrEnum):
    """Whether another gate may set a gate's answer aside."""

    REQUIRED = "required"
    """Its answer always counts."""

    ADVISORY = "advisory"
    """A suppressing gate of higher priority sets its answer aside."""


class ToolGateContext(msgspec.Struct, frozen=True):
    """What a gate decides on; see `projections.gate_context`.

    `iteration` is 0 at the first model call of a run, `messages` are those about to be sent,
    `available_tool_names` the registered tools in their order.
    """

    iteration: int = 0
    messages: Sequence[Any] = ()
    conversation_id: str | None = None
    available_tool_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Keep copies: what a decision was made on stays as it was."""
        if isinstance(self.available_tool_names, str):
            raise TypeError(
                f"available_tool_names is {self.available_tool_names!r}: pass a list of names"
            )
        force_setattr(self, "messages", tuple(self.messages))
        force_setattr(self, "available_tool_names", tuple(self.available_tool_names))

    @classmethod
    def after(
        cls,
        events: Iterable[Recorded],
        available: Iterable[str],
        messages: Sequence[Any] = (),
    ) -> ToolGateContext:
        """What gates decide on before the model call that follows events of one conversation.

        The iteration counts the assistant turns since the run started; where no run is in the
        log, since the last user message.
        """
        turns: set[int] = set()
        in_run = False
        conversation_id = None
        for recorded in events:
            conversation_id = recorded.conversation_id
            event = recorded.event
            if isinstance(event, RunStarted):
                in_run = True
                turns.clear()
            elif isinstance(event, MessageAdded) and event.role == "user" and not in_run:
                turns.clear()
            elif isinstance(event, MessageAdded | ToolPending) and event.turn is not None:
                turns.add(event.turn)
        return cls(len(turns), messages, conversation_id, tuple(available))


@runtime_checkable
class ToolGate(Protocol):
    """Anything that answers which tools the model may see next: derive from it, or resemble it.

    Only `allowlist` has no default. A gate keeps no state: what should happen once follows from
    the context.
    """

    name: str = ""
    """The name that decisions are attributed to; the class's where it is empty."""

    priority: int = 0
    """Whose answer stands when no tool satisfies all gates: the highest."""

    gate_class: GateClass = GateClass.REQUIRED
    """Whether the answer may be set aside."""

    def allowlist(self, context: ToolGateContext, /) -> AbstractSet[str] | None:
        """The tools that the next model call may see; None for no opinion."""

    def denial_reason(self, name: str, context: ToolGateContext, /) -> str | None:  # noqa: ARG002
        """What the model is told when it calls a hidden tool; None to leave it to others."""
        return None

    def suppresses_advisory_gates(self, context: ToolGateContext, /) -> bool:  # noqa: ARG002
        """Whether advisory gates of lower priority are set aside now."""
        return False


class OpeningGate(ToolGate):
    """Only these tools in the first model call of a run, and no opinion afterwards."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = _names("OpeningGate", names)

    def allowlist(self, context: ToolGateContext, /) -> AbstractSet[str] | None:
        """Those of its names that are available, in iteration 0."""
        if context.iteration:
            return None
        return self.names.intersection(context.available_tool_names)


class GateConflict(msgspec.Struct, frozen=True):
    """No tool satisfied all `gates`; the set of the `chosen` one stands, None if all were empty.

    `empty` are those of the gates that allowed nothing.
    """

    gates: tuple[str, ...]
    empty: tuple[str, ...]
    chosen: str | None
    allow: tuple[str, ...]
    reason: str

    def as_json(self) -> dict[str, Any]:
        """As a log gives it back."""
        members = msgspec.structs.asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in members.items()}


class Denial(msgspec.Struct, frozen=True):
    """Why a call to a hidden tool does not run: `text` for the model, `details` for the host."""

    gate: str
    text: str
    details: dict[str, Any]


class GateDecision(msgspec.Struct, frozen=True):
    """What the gates decided in one context, and how; `allowed` is None where all may be seen.

    `answers` are those of all gates, in their order; `suppressed` the gates whose answer was set
    aside.
    """

    context: ToolGateContext
    allowed: frozenset[str] | None = None
    answers: tuple[GateAnswer, ...] = ()
    suppressed: tuple[str, ...] = ()
    conflict: GateConflict | None = None

    def allows(self, name: str) -> bool:
        """Whether a call to the tool may run, as far as the gates are concerned."""
        return self.allowed is None or name in self.allowed

    @property
    def visible(self) -> tuple[str, ...]:
        """The names to show the model: those available that are allowed, in their order."""
        return tuple(filter(self.allows, self.context.available_tool_names))

    @property
    def offered(self) -> ToolsOffered:
        """The event that records the decision."""
        conflict: dict[str, Any] = self.conflict.as_json() if self.conflict else {}
        if self.suppressed:
            conflict["suppressed"] = list(self.suppressed)
        return ToolsOffered(
            self.context.iteration,
            tuple(self.context.available_tool_names),
            None if self.allowed is None else tuple(sorted(self.allowed)),
            self.answers,
            conflict or None,
        )

    def denial(
        self, name: str, gates: Iterable[ToolGate], policy: DenialPolicy | None = None
    ) -> Denial | None:
        """Why a call to the tool `name` may not run; None where it may.

        The first of the `gates` (those that were asked) that gives a reason speaks, in the
        context that it decided in; then `policy`; then the library.
        """
        if self.allows(name):
            return None
        details = {
            "runtime_block": True,
            "requested_tool": name,
            "allowed_tools": sorted(self.allowed or ()),
            "gate": "tool_gate",
        }
        for gate in gates:
            give = getattr(gate, "denial_reason", None)
            if give and (reason := give(name, self.context)) is not None:
                attributed = _name(gate)
                return Denial(attributed, reason, details | {"gate": attributed})
        if policy and (said := policy(name, self)) is not None:
            return Denial("tool_gate", *said)
        return Denial("tool_gate", _generic_text(name, self.visible), details)


DenialPolicy = Callable[[str, GateDecision], tuple[str, dict[str, Any]] | None]
"""What a product says of hidden tools: text and details, or None to leave it to the library."""


class _Vote(msgspec.Struct, frozen=True):
    """One gate with an opinion."""

    gate: Any
    name: str
    allow: frozenset[str]
    priority: float
    is_advisory: bool


def compose_gates(
    gates: Sequence[ToolGate],
    context: ToolGateContext,
    *,
    on_all_empty: OnAllEmpty = "open",
) -> GateDecision:
    """What the gates allow together. It depends on nothing but its arguments.

    1. Every gate is asked, in order; gates without an opinion count no further.
    2. A suppressing gate sets aside the advisory gates of lower priority than its own.
    3. What all remaining gates allow is allowed. No gate remains: everything is.
    4. Where that is nothing, the gate with a non-empty set decides alone: of the highest
       priority, then of the smaller set, then of the first name in the alphabet.
    5. Where all sets are empty, everything is allowed, or nothing with `on_all_empty="deny"`.
    """
    if on_all_empty not in ("open", "deny"):
        raise ValueError(f"on_all_empty is {on_all_empty!r}: pass 'open' or 'deny'")
    answers, votes = [], []
    for gate in gates:
        name, allow = _name(gate), _allowlist(gate, context)
        if allow is None:
            answers.append(GateAnswer(name))
            continue
        vote = _Vote(gate, name, _names(name, allow), _priority(gate), _is_advisory(gate))
        answers.append(GateAnswer(name, tuple(sorted(vote.allow))))
        votes.append(vote)
    return _composed(context, tuple(answers), votes, on_all_empty)


def _composed(
    context: ToolGateContext,
    answers: tuple[GateAnswer, ...],
    votes: Sequence[_Vote],
    on_all_empty: OnAllEmpty,
) -> GateDecision:
    least = _suppressing_priority(votes, context)
    counted = [vote for vote in votes if vote.priority >= least or not vote.is_advisory]
    kept = {id(vote) for vote in counted}
    suppressed = tuple(vote.name for vote in votes if id(vote) not in kept)
    if not counted:
        return GateDecision(context, None, answers, suppressed)
    common = frozenset.intersection(*(vote.allow for vote in counted))
    if common:
        return GateDecision(context, common, answers, suppressed)
    allowed, conflict = _repaired(counted, on_all_empty)
    return GateDecision(context, allowed, answers, suppressed, conflict)


def _suppressing_priority(votes: Sequence[_Vote], context: ToolGateContext) -> float:
    """The highest priority of those that set advisory gates aside."""
    suppressors = (vote.priority for vote in votes if _suppresses(vote.gate, context))
    return max(suppressors, default=-math.inf)


def _repaired(
    counted: Sequence[_Vote], on_all_empty: OnAllEmpty
) -> tuple[frozenset[str] | None, GateConflict]:
    names = tuple(vote.name for vote in counted)
    empty = tuple(vote.name for vote in counted if not vote.allow)
    owners = [vote for vote in counted if vote.allow]
    if not owners:
        reason = "all gating plugins returned empty allowlists"
        conflict = GateConflict(names, empty, None, (), reason)
        return (None if on_all_empty == "open" else frozenset()), conflict
    owner = min(owners, key=lambda vote: (-vote.priority, len(vote.allow), vote.name))
    reason = (
        f"empty intersection repaired by highest-priority owner `{owner.name}` "
        f"(priority {owner.priority})"
    )
    conflict = GateConflict(names, empty, owner.name, tuple(sorted(owner.allow)), reason)
    return owner.allow, conflict


def _generic_text(name: str, visible: Collection[str]) -> str:
    names = sorted(visible)
    listed = ", ".join(names[:NAMES_SHOWN]) or "none"
    if len(names) > NAMES_SHOWN:
        listed += f", … ({len(names)} in all)"
    return (
        f"Tool `{name}` is not available this turn: the active gate narrowed the catalogue. "
        f"Available now: {listed}."
    )


def _name(gate: object) -> str:
    return str(getattr(gate, "name", None) or type(gate).__name__)


def _allowlist(gate: Any, context: ToolGateContext) -> Any:
    ask = getattr(gate, "allowlist", None)
    if ask is None:
        raise TypeError(f"{gate!r} is no gate: give it allowlist(context), or derive from ToolGate")
    return ask(context)


def _names(gate: str, names: Any) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"gate {gate!r} gave the text {names!r}: give a set of tool names")
    known = frozenset(names) if isinstance(names, Iterable) else frozenset({names})
    if not all(isinstance(name, str) for name in known):
        raise TypeError(f"gate {gate!r} gave {names!r}: give a set of tool names")
    return known


def _priority(gate: object) -> float:
    priority = getattr(gate, "priority", 0)
    if not isinstance(priority, int | float):
        raise TypeError(f"priority of gate {_name(gate)!r} is {priority!r}: give it a number")
    return priority


def _suppresses(gate: object, context: ToolGateContext) -> bool:
    asked = getattr(gate, "suppresses_advisory_gates", None)
    return bool(asked(context)) if asked else False


def _is_advisory(gate: object) -> bool:
    given = getattr(gate, "gate_class", GateClass.REQUIRED)
    if given not in tuple(GateClass):
        raise ValueError(
            f"gate_class of gate {_name(gate)!r} is {given!r}: give it GateClass.REQUIRED or "
            "GateClass.ADVISORY"
        )
    return bool(given == GateClass.ADVISORY)
