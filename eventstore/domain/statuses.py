"""The statuses of a tool call: pending, approved, running, completed, failed, rejected."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from eventstore.domain.calls import FunctionCall, FunctionResponse
from eventstore.domain.failure import Failure


class Pending(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,  # the form of `Tool.encode` would lose the time it is deferred to
    tag_field="state",
    tag="Pending",
):
    """Waiting: requested, deferred or paused.

    `until` is the time to which it was deferred, in microseconds since 1970 UTC. `needs_decision`:
    it was paused until a person decides. `reason` says why, for people. All are at their defaults
    for a call that was only requested.
    """

    name: ClassVar[Literal["Pending"]] = "Pending"
    until: int | None = None
    needs_decision: bool = False
    reason: str | None = None


class Approved(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,  # the form of `Tool.encode` would lose its edit without a word
    tag_field="state",
    tag="Approved",
):
    """Allowed, not started; where the call was edited, `edited_call` is in force."""

    name: ClassVar[Literal["Approved"]] = "Approved"
    edited_call: FunctionCall | None = None
    by: str | None = None
    reason: str | None = None


class Running(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="Running"
):
    """Started, and no end is recorded: under way, or the outcome is unknown.

    With a lease it is under way until `leased_until`, in microseconds since 1970 UTC by the clock
    of the store, if its `worker` does not end before; see `leases`.
    """

    name: ClassVar[Literal["Running"]] = "Running"
    attempt: int
    arguments: Any = None
    leased_until: int | None = None
    worker: str | None = None


class Completed(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="Completed"
):
    """Answered. This is final. If `synthetic`, no tool ran: `by` answered it, for a `reason`.

    Otherwise `by` names the hooks that changed the result.
    """

    name: ClassVar[Literal["Completed"]] = "Completed"
    response: FunctionResponse
    synthetic: bool = False
    by: str | None = None
    reason: str | None = None


class Failed(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="state", tag="Failed"
):
    """The last attempt failed; another may follow.

    A call of a tool that does not exist fails, too: the text `ToolNotFound` in katu-core.
    """

    name: ClassVar[Literal["Failed"]] = "Failed"
    failure: Failure

    @property
    def error(self) -> str:
        """The text of the failure, for operators."""
        return self.failure.message

    @property
    def model_text(self) -> str:
        """The text that the model reads, in a prompt and in the answer of `Tool.to_tuple`."""
        return self.failure.model_text


class Rejected(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,  # the form of `Tool.encode` would lose its reason
    tag_field="state",
    tag="Rejected",
):
    """Refused by `source`: human, gate, hook, rule, limit or sibling. This is final."""

    name: ClassVar[Literal["Rejected"]] = "Rejected"
    reason: str | None = None
    source: str = "human"
    by: str | None = None

    @property
    def model_text(self) -> str:
        """The text that the model reads, in a prompt and in the answer of `Tool.to_tuple`.

        The model is told that a person rejected its call, by name where that is known. Everything
        else gives its reason for the model, which reads it as given; an empty one is no reason.
        """
        if self.source != "human":
            by = f" ({self.by})" if self.by else ""
            return self.reason or f"A {self.source}{by} rejected this tool call"
        person = f"User {self.by}" if self.by else "User"
        text = f"{person} rejected this tool call"
        return text if self.reason is None else f"{text}: {self.reason}"


ToolStatus = Pending | Approved | Running | Completed | Failed | Rejected
"""Where a call is."""

PENDING = Pending()
