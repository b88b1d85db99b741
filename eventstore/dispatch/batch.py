"""A batch: the calls that are dispatched together, and the reason to stop it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from eventstore.dispatch.decisions import Reject
from eventstore.domain.closing_codes import NOT_EXECUTED
from eventstore.domain.hook_answers import HookAnswer
from eventstore.domain.statuses import Approved, Pending, Running
from eventstore.domain.tool import Tool

if TYPE_CHECKING:
    from eventstore.dispatch.function_tool import AnyFunctionTool
    from eventstore.domain.json_types import JsonObject


class DispatchedCall:
    """One call, as the dispatcher last saw it.

    `waits`: a person or another worker has to decide on it, or its time has not come. `attempt`:
    the number of the attempt that this dispatcher starts, None before. `is_changed`: others have
    edited, started or paused it since it was decided on here, so that it is to be prepared again.
    `pause`: the exception by which its tool paused.
    `hook_answers`: what hooks said that the log does not hold yet.
    """

    __slots__ = ("attempt", "definition", "hook_answers", "is_changed", "pause", "tool", "waits")

    def __init__(self, tool: Tool, definition: AnyFunctionTool | None) -> None:
        self.tool = tool
        self.definition = definition
        self.waits = False
        self.is_changed = False
        self.attempt: int | None = None
        self.pause: BaseException | None = None
        self.hook_answers: tuple[HookAnswer, ...] = ()

    @property
    def has_not_started(self) -> bool:
        """Whether the call can still be rejected."""
        return type(self.tool.status) in (Pending, Approved)

    @property
    def may_have_run(self) -> bool:
        """Whether an attempt may have taken effect, of a tool that must not take effect twice."""
        return self.tool.in_doubt and not (self.definition and self.definition.idempotent)

    @property
    def known_definition(self) -> AnyFunctionTool:
        """Definition of the call's tool; calls of unknown tools fail before they are prepared."""
        if self.definition is None:
            raise LookupError(f"tool {self.tool.call.name!r} is not registered")
        return self.definition


class StopReason(msgspec.Struct, frozen=True):
    """The reason why nothing more of a batch starts.

    Calls that have not started get `refusal`; `error` is raised at the end. `aborts_siblings`: also
    calls in progress are cancelled, where that is possible.
    """

    refusal: Reject
    error: BaseException | None = None
    aborts_siblings: bool = False

    @classmethod
    def cancelled(cls) -> StopReason:
        """Return the reason of a run that was cancelled from outside."""
        reason = "not executed: the run was cancelled before it started"
        return cls(Reject(reason, "cancelled", not_executed_details("cancelled"), "rule"))

    @classmethod
    def failed(cls, call: DispatchedCall, error: BaseException | None = None) -> StopReason:
        """Return the reason of a failed sibling, which ends the batch, or the run with `error`."""
        name = call.tool.call.name
        reason = f"not executed: `{name}` failed before it"
        details = not_executed_details("sibling_tool_error", failed_tool=name)
        refusal = Reject(reason, None, details, "sibling")
        return cls(refusal, error, aborts_siblings=error is None)

    @classmethod
    def terminated(cls, reason: str, hook: str, error: BaseException) -> StopReason:
        """Return the reason of a hook that ended the run."""
        details = not_executed_details("terminated")
        return cls(Reject(f"not executed: {reason}", hook, details, "hook"), error)


class StopSignal(Protocol):
    """The driver's event that ends its waits."""

    def set(self) -> None:
        """End the waits."""


class Batch:
    """The calls of one `dispatch` or `resume`, in their order, and whether it continues.

    `requested` is what the host passed; `calls` are those calls as the log has them.
    """

    def __init__(self, requested: Sequence[Tool | str], stop_signal: StopSignal) -> None:
        self.requested = requested
        self.calls: Sequence[DispatchedCall] = ()
        self.stop_reason: StopReason | None = None
        self.stop_signal = stop_signal
        self.verification_errors: list[Exception] = []

    def stop(self, reason: StopReason) -> None:
        """Let nothing more start. The first reason stands, unless a later one is to be raised."""
        first = self.stop_reason
        if first is None or (first.error is None and reason.error is not None):
            self.stop_reason = reason
        self.stop_signal.set()

    def is_running(self, tool: Tool) -> bool:
        """Return whether the batch is at this call, as the log has it, or waits to try it again."""
        is_going_on = type(tool.status) is Running or (tool.retry_announced and not tool.in_doubt)
        return is_going_on and any(
            call.tool.id == tool.id and call.attempt == tool.attempts for call in self.calls
        )

    @property
    def pause(self) -> BaseException | None:
        """Exception by which the first call that paused did so; None if none paused."""
        return next((call.pause for call in self.calls if call.pause is not None), None)

    def groups(self) -> Iterator[list[DispatchedCall]]:
        """Return the calls in groups that run concurrently.

        Neighbours whose tools are `parallel` form a group. Every other call is alone in its group.
        """
        group: list[DispatchedCall] = []
        for call in self.calls:
            if call.definition is not None and call.definition.parallel:
                group.append(call)
                continue
            if group:
                yield group
                group = []
            yield [call]
        if group:
            yield group


def not_executed_details(reason: str, **members: object) -> JsonObject:
    """Return the details of a rejection for the host."""
    return {"kind": NOT_EXECUTED, "reason": reason, **members}
