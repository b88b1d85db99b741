"""Gates: which tools the model may see next, and how gates compose. Pure.

1. A gate is asked before each model call, and its answer is valid only for that model call.
2. A call to a hidden tool does not run. It is rejected with the reason that a gate gives, and the
   run continues.
3. `compose_gates` states how the answers of several gates are combined.
4. A gate without a rule is refused where it is made, composed or passed to a dispatcher.
5. The decisions are generators of questions to gates (`composing`, `denying`). A driver asks each
   question: `compose_gates` at once, an `AsyncDispatcher` by awaiting it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import msgspec
from msgspec.structs import force_setattr

from eventstore.domain.events import (
    MessageAdded,
    Recorded,
    RunStarted,
    ToolPending,
)
from eventstore.domain.json_types import JsonObject
from eventstore.domain.tools_offered import GateAnswer, ToolsOffered
from eventstore.policies.gate_checks import check_gate, check_gate_class, gate_name, sync_answer

T = TypeVar("T")

OnAllEmpty = Literal["open", "deny"]

NAMES_SHOWN = 12
"""The most tool names that a text for the model lists."""


class GateClass(StrEnum):
    """Whether another gate may suppress the answer of a gate."""

    REQUIRED = "required"
    """Its answer always counts."""

    ADVISORY = "advisory"
    """A suppressing gate of higher priority suppresses its answer."""


class ToolGateContext(msgspec.Struct, frozen=True):
    """The input of a gate, called `ToolGateContext` in clark-agent, too.

    See `projections.gate_context`.

    `iteration` is 0 at the first model call of a run, `messages` are those about to be sent,
    `available_tool_names` the registered tools in their order.
    """

    iteration: int = 0
    messages: Sequence[Any] = ()
    conversation_id: str | None = None
    available_tool_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Keep copies, so that the input of a decision does not change."""
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
        """Make the context of the model call that follows the events of one conversation.

        The iteration counts the assistant turns since the run started, or since the last user
        message if the log has no run.
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


class _NamedGate(Protocol):
    """What gates have in common."""

    name: str = ""
    """The name in recorded decisions; empty means the name of the class."""

    priority: int = 0
    """When no tool satisfies all gates, the answer of the highest priority is used."""

    gate_class: GateClass = GateClass.REQUIRED
    """Whether the answer may be suppressed."""

    def __init_subclass__(cls) -> None:
        """Refuse a class with a member whose name has no effect here."""
        super().__init_subclass__()
        check_gate_class(cls)


@runtime_checkable
class ToolGate(_NamedGate, Protocol):
    """An object that says which tools the model may see next. Deriving from this class is optional.

    Only `allowlist` has no default. A gate keeps no state: everything follows from the context.
    Called `ToolGate` in clark-agent, too, with `next_turn_tool_allowlist`, and a `ScopedRegistry`
    in rig-compose.

    Raises:
        TypeError: a derived class has a member under the name that it has in clark-agent, or an
            object is made of a class that defines no `allowlist`.
    """

    @abstractmethod
    def allowlist(self, context: ToolGateContext, /) -> AbstractSet[str] | None:
        """Return the tools that the next model call may see; None for no opinion."""

    def denial_reason(self, _name: str, _context: ToolGateContext, /) -> str | None:
        """Return the text for a model that calls a hidden tool; None leaves it to other gates."""
        return None

    def suppresses_advisory_gates(self, _context: ToolGateContext, /) -> bool:
        """Return whether advisory gates of lower priority are suppressed now."""
        return False


@runtime_checkable
class AsyncToolGate(_NamedGate, Protocol):
    """A gate for an `AsyncDispatcher`: a `ToolGate` whose methods may be async.

    A `Dispatcher` and `compose_gates` await nothing, and refuse it.

    Raises:
        TypeError: a derived class has a member under the name that it has in clark-agent, or an
            object is made of a class that defines no `allowlist`.
    """

    @abstractmethod
    def allowlist(
        self, context: ToolGateContext, /
    ) -> AbstractSet[str] | Awaitable[AbstractSet[str] | None] | None:
        """Return the tools that the next model call may see; None for no opinion."""

    def denial_reason(
        self, _name: str, _context: ToolGateContext, /
    ) -> str | Awaitable[str | None] | None:
        """Return the text for a model that calls a hidden tool; None leaves it to other gates."""
        return None

    def suppresses_advisory_gates(self, _context: ToolGateContext, /) -> bool | Awaitable[bool]:
        """Return whether advisory gates of lower priority are suppressed now."""
        return False


class OpeningGate(ToolGate):
    """A gate that allows only these tools in the first model call of a run; later, no opinion.

    Called `OpeningGate` in clark-agent, too.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = _names("OpeningGate", names)

    def allowlist(self, context: ToolGateContext, /) -> AbstractSet[str] | None:
        """Return the available names among its own in iteration 0, afterwards None."""
        if context.iteration:
            return None
        return self.names.intersection(context.available_tool_names)


class GateConflict(msgspec.Struct, frozen=True):
    """No tool satisfied all `gates`; the set of the `chosen` one is used, None if all were empty.

    `empty` are the gates that allowed nothing.
    """

    gates: tuple[str, ...]
    empty: tuple[str, ...]
    chosen: str | None
    allow: tuple[str, ...]
    reason: str

    def as_json(self) -> JsonObject:
        """Return the form in which the log keeps it."""
        members: dict[str, str | tuple[str, ...] | None] = msgspec.structs.asdict(self)
        return {key: list(v) if isinstance(v, tuple) else v for key, v in members.items()}


class Denial(msgspec.Struct, frozen=True):
    """The reason why a call does not run: `text` is for the model, `details` for the host."""

    gate: str
    text: str
    details: JsonObject


class GateDecision(msgspec.Struct, frozen=True):
    """The decision of the gates in one context; `allowed` is None if every tool may be seen.

    `answers` are those of all gates, in their order; `suppressed` are the gates whose answers were
    suppressed.
    """

    context: ToolGateContext
    allowed: frozenset[str] | None = None
    answers: tuple[GateAnswer, ...] = ()
    suppressed: tuple[str, ...] = ()
    conflict: GateConflict | None = None

    def allows(self, name: str) -> bool:
        """Return whether the gates let a call to the tool run."""
        return self.allowed is None or name in self.allowed

    @property
    def visible(self) -> tuple[str, ...]:
        """Names to show the model: the available ones that are allowed, in their order."""
        return tuple(filter(self.allows, self.context.available_tool_names))

    @property
    def offered(self) -> ToolsOffered:
        """Event that records the decision."""
        conflict: JsonObject = self.conflict.as_json() if self.conflict else {}
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
        """Return why a call to the tool `name` may not run; None if it may.

        The first of the `gates` (those that were asked) that gives a reason decides, in the context
        of its answer; then `policy`; then the text of the library.

        Raises:
            TypeError: a gate is async, or gives a value other than text.
        """
        return _answered(self.denying(name, gates, policy))

    def denying(
        self,
        name: str,
        gates: Iterable[AsyncToolGate],
        policy: DenialPolicy | None = None,
    ) -> Questions[Denial | None]:
        """Ask the gates for `denial`."""
        if self.allows(name):
            return None
        details = denial_details(name, self)
        for gate in gates:
            if not getattr(gate, "denial_reason", None):
                continue
            reason = yield Question(gate, "denial_reason", (name, self.context))
            if reason is not None:
                by = gate_name(gate)
                return Denial(by, _text(by, reason), details | {"gate": by})
        if policy and (answer := policy(name, self)) is not None:
            return Denial("tool_gate", *answer)
        return Denial("tool_gate", _generic_text(name, self.visible), details)


def denial_details(name: str, decision: GateDecision) -> JsonObject:
    """Return the details for the host of a call to a hidden tool."""
    return {
        "runtime_block": True,
        "requested_tool": name,
        "allowed_tools": sorted(decision.allowed or ()),
        "gate": "tool_gate",
    }


DenialPolicy = Callable[[str, GateDecision], tuple[str, JsonObject] | None]
"""Gives the text and details for a hidden tool, or None to leave it to the library."""


class Question(msgspec.Struct, frozen=True):
    """A question to a gate: the method to call, and its arguments. The answer may be awaitable."""

    gate: object
    method: str
    arguments: tuple[object, ...]

    def ask(self) -> object:
        """Return the answer, or what it has to be awaited from."""
        return getattr(self.gate, self.method)(*self.arguments)

    def answer(self) -> object:
        """Return the answer, which must be there at once.

        Raises:
            TypeError: the gate is async.
        """
        return sync_answer(self.gate, self.method, self.ask())


Questions: TypeAlias = Generator[Question, object, T]
"""A decision that asks gates, and is sent their answers."""


class _Vote(msgspec.Struct, frozen=True):
    """The opinion of one gate."""

    gate: object
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
    """Return what the gates allow together. The result depends only on the arguments.

    1. Every gate is asked, in order; gates without an opinion do not count further.
    2. A suppressing gate suppresses the advisory gates of lower priority than its own.
    3. The tools that all remaining gates allow are allowed. If no gate remains, every tool is.
    4. If that leaves no tool, one gate with a non-empty set decides alone: the one of the highest
       priority, then of the smaller set, then of the first name in the alphabet.
    5. If all sets are empty, every tool is allowed, or none with `on_all_empty="deny"`.

    Raises:
        TypeError: a gate has no `allowlist`, is async, or gives values other than tool names.
        ValueError: an option or the `gate_class` of a gate is unknown.
    """
    return _answered(composing(gates, context, on_all_empty))


def composing(
    gates: Sequence[AsyncToolGate], context: ToolGateContext, on_all_empty: OnAllEmpty
) -> Questions[GateDecision]:
    """Ask the gates for `compose_gates`."""
    if on_all_empty not in ("open", "deny"):
        raise ValueError(f"on_all_empty is {on_all_empty!r}: pass 'open' or 'deny'")
    answers: list[GateAnswer] = []
    votes: list[_Vote] = []
    for gate in gates:
        check_gate(gate)
        name = gate_name(gate)
        allow = yield Question(gate, "allowlist", (context,))
        if allow is None:
            answers.append(GateAnswer(name))
            continue
        vote = _Vote(gate, name, _names(name, allow), _priority(gate), _is_advisory(gate))
        answers.append(GateAnswer(name, tuple(sorted(vote.allow))))
        votes.append(vote)
    min_priority = yield from _suppressing_priority(votes, context)
    return _combine(context, tuple(answers), votes, min_priority, on_all_empty)


def _answered(questions: Questions[T]) -> T:
    """Ask each question at once, and return the decision."""
    answer: object = None
    while True:
        try:
            question = questions.send(answer)
        except StopIteration as end:
            decision: T = end.value
            return decision
        answer = question.answer()


def _suppressing_priority(votes: Sequence[_Vote], context: ToolGateContext) -> Questions[float]:
    """Return the highest priority of the suppressing gates."""
    highest = -math.inf
    for vote in votes:
        if not getattr(vote.gate, "suppresses_advisory_gates", None):
            continue
        if (yield Question(vote.gate, "suppresses_advisory_gates", (context,))):
            highest = max(highest, vote.priority)
    return highest


def _combine(
    context: ToolGateContext,
    answers: tuple[GateAnswer, ...],
    votes: Sequence[_Vote],
    min_priority: float,
    on_all_empty: OnAllEmpty,
) -> GateDecision:
    """Return the decision; advisory gates below `min_priority` are suppressed."""
    counted = [vote for vote in votes if vote.priority >= min_priority or not vote.is_advisory]
    kept = {id(vote) for vote in counted}
    suppressed = tuple(vote.name for vote in votes if id(vote) not in kept)
    if not counted:
        return GateDecision(context, None, answers, suppressed)
    common = counted[0].allow.intersection(*(vote.allow for vote in counted))
    if common:
        return GateDecision(context, common, answers, suppressed)
    allowed, conflict = _resolve_conflict(counted, on_all_empty)
    return GateDecision(context, allowed, answers, suppressed, conflict)


def _resolve_conflict(
    counted: Sequence[_Vote], on_all_empty: OnAllEmpty
) -> tuple[frozenset[str] | None, GateConflict]:
    names = tuple(vote.name for vote in counted)
    empty = tuple(vote.name for vote in counted if not vote.allow)
    candidates = [vote for vote in counted if vote.allow]
    if not candidates:
        reason = "all gating plugins returned empty allowlists"
        conflict = GateConflict(names, empty, None, (), reason)
        return (None if on_all_empty == "open" else frozenset()), conflict
    owner = min(candidates, key=lambda vote: (-vote.priority, len(vote.allow), vote.name))
    reason = (
        f"empty intersection repaired by highest-priority owner `{owner.name}` "
        f"(priority {owner.priority})"
    )
    conflict = GateConflict(names, empty, owner.name, tuple(sorted(owner.allow)), reason)
    return owner.allow, conflict


def listed_names(tool_names: Collection[str]) -> str:
    """Return tool names as the model reads them: sorted, `NAMES_SHOWN` at most, or "none"."""
    names = sorted(tool_names)
    listed = ", ".join(names[:NAMES_SHOWN]) or "none"
    if len(names) > NAMES_SHOWN:
        listed += f", … ({len(names)} in all)"
    return listed


def _generic_text(name: str, visible: Collection[str]) -> str:
    return (
        f"Tool `{name}` is not available this turn: the active gate narrowed the catalogue. "
        f"Available now: {listed_names(visible)}."
    )


def _text(gate: str, reason: object) -> str:
    if isinstance(reason, str):
        return reason
    raise TypeError(f"denial_reason() of gate {gate!r} gave {reason!r}: give text, or None")


def _names(gate: str, names: object) -> frozenset[str]:
    if isinstance(names, str):
        raise TypeError(f"gate {gate!r} gave the text {names!r}: give a set of tool names")
    members = cast("Iterable[object]", names) if isinstance(names, Iterable) else (names,)
    known = frozenset(members)
    texts = frozenset(name for name in known if isinstance(name, str))
    if len(texts) != len(known):
        raise TypeError(f"gate {gate!r} gave {names!r}: give a set of tool names")
    return texts


def _priority(gate: object) -> float:
    priority = getattr(gate, "priority", 0)
    if not isinstance(priority, int | float):
        raise TypeError(f"priority of gate {gate_name(gate)!r} is {priority!r}: give it a number")
    return priority


def _is_advisory(gate: object) -> bool:
    gate_class = getattr(gate, "gate_class", GateClass.REQUIRED)
    if gate_class not in tuple(GateClass):
        raise ValueError(
            f"gate_class of gate {gate_name(gate)!r} is {gate_class!r}: give it "
            "GateClass.REQUIRED or GateClass.ADVISORY"
        )
    return bool(gate_class == GateClass.ADVISORY)
