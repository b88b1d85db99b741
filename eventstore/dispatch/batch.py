"""`Turn`: the calls that are dispatched together, and why those left over do not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from eventstore.dispatch.decision import Reject
from eventstore.failure import ErrorKind, Failure
from eventstore.tool import Approved, Pending, Tool

if TYPE_CHECKING:
    from eventstore.dispatch.function_tool import FunctionTool
    from eventstore.gate import DenialPolicy, GateDecision

NOT_EXECUTED = "tool_call_not_executed"
NAMES_SHOWN = 12
"""How many tool names the answer to a call of an unknown tool lists."""


class Call:
    """One call, as the dispatcher last saw it.

    `waits`: it is left for somebody to decide. `began`: the attempt that this dispatcher starts.
    """

    __slots__ = ("began", "spec", "tool", "waits")

    def __init__(self, tool: Tool, spec: FunctionTool | None) -> None:
        self.tool = tool
        self.spec = spec
        self.waits = False
        self.began: int | None = None

    @property
    def has_not_started(self) -> bool:
        """Whether it can still be refused."""
        return type(self.tool.status) in (Pending, Approved)


class Stop(msgspec.Struct, frozen=True):
    """Why nothing more of a turn starts, as those calls are told; `error` is raised at the end."""

    refusal: Reject
    error: BaseException | None = None
    aborts: bool = False

    @classmethod
    def cancelled(cls) -> Stop:
        """The run is over, from outside."""
        reason = "not executed: the run was cancelled before it started"
        return cls(Reject(reason, "cancelled", _details("cancelled"), "rule"))

    @classmethod
    def failed(cls, call: Call, error: BaseException | None = None) -> Stop:
        """A sibling failed in a way that ends the turn, or the run with `error`."""
        name = call.tool.call.name
        reason = f"not executed: `{name}` failed before it"
        details = _details("sibling_tool_error", failed_tool=name)
        return cls(Reject(reason, None, details, "sibling"), error, aborts=error is None)

    @classmethod
    def terminated(cls, reason: str, hook: str, error: BaseException) -> Stop:
        """A hook ended the run."""
        return cls(Reject(f"not executed: {reason}", hook, _details("terminated"), "hook"), error)


class Turn:
    """Calls in their order, and whether the turn goes on.

    `given` is what the host asked for; `calls`, what the log says of it, once it was looked up.
    `stopping` is the driver's event that ends its waits.
    """

    def __init__(self, given: Sequence[Tool | str], stopping: Any) -> None:
        self.given = given
        self.calls: Sequence[Call] = ()
        self.stop: Stop | None = None
        self.stopping = stopping
        self.unverified: list[Exception] = []

    def halt(self, stop: Stop) -> None:
        """Let nothing more start. The first reason stands, unless a later one is to be raised."""
        if self.stop is None or (self.stop.error is None and stop.error is not None):
            self.stop = stop
        self.stopping.set()

    def batches(self) -> Iterator[list[Call]]:
        """What runs at once: neighbours that are safe beside each other, else one by one."""
        batch: list[Call] = []
        for call in self.calls:
            if call.spec is not None and call.spec.parallel:
                batch.append(call)
                continue
            if batch:
                yield batch
                batch = []
            yield [call]
        if batch:
            yield batch


def counts(call: Call) -> bool:
    """Whether the call uses up one of the calls that a turn may make."""
    spec = call.spec
    return spec is not None and spec.counted and not spec.parallel


def over_limit(most: int, calls: Sequence[Call], spent: int = 0) -> dict[str, Reject]:
    """The calls beyond the first `most` that count, by id, with what they are told.

    `spent` calls of the turn have run before.
    """
    counted = [call for call in calls if counts(call)]
    if len(counted) + spent <= most:
        return {}
    reason = (
        f"not executed: only the first {most} call{'s' * (most != 1)} of a turn may run "
        f"({len(counted) + spent} were made); ask for the others again, one at a time"
    )
    details = _details(
        "max_tool_calls_per_turn", total_tool_calls=len(calls) + spent,
        limit_counted_tool_calls=len(counted) + spent, max_executed=most,
    )  # fmt: skip
    refusal = Reject(reason, None, details, "limit")
    return {call.tool.id: refusal for call in counted[max(0, most - spent) :]}


def preflight(
    call: Call,
    seen: GateDecision | None,
    gates: Sequence[Any],
    known: Sequence[str],
    policy: DenialPolicy | None = None,
) -> Failure | Reject | None:
    """Why a call that has not started cannot: an unknown tool, a hidden one, bad arguments."""
    if call.spec is None:
        return not_found(call.tool.call.name, known if seen is None else seen.visible)
    if seen is not None:
        denial = seen.denial(call.tool.call.name, gates, policy)
        if denial is not None:
            return Reject(denial.text, denial.gate, denial.details, "gate")
    return call.spec.invalid(call.tool.effective_call)


def not_found(name: str, known: Sequence[str]) -> Failure:
    """There is no tool of this name."""
    names = sorted(known)
    listed = ", ".join(names[:NAMES_SHOWN]) or "none"
    if len(names) > NAMES_SHOWN:
        listed += f", … ({len(names)} in all)"
    message = f"Tool `{name}` not found"
    return Failure(
        ErrorKind.VALIDATION, message, f"{message}. Available: {listed}.", code="tool_not_found"
    )


def _details(reason: str, **more: Any) -> dict[str, Any]:
    return {"kind": NOT_EXECUTED, "reason": reason, **more}


def name_of(function: Callable[..., Any]) -> str:
    """What a hook or an approver is called in the log."""
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    return str(name or type(function).__name__)
