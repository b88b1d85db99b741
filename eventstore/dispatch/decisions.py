"""What a hook or an approver decides on a call, and what `verify` finds out about one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Literal

import msgspec

from eventstore.conversation import failure_of
from eventstore.failure import ErrorKind, Failure
from eventstore.tool import Tool


class Approve(msgspec.Struct, frozen=True):
    """The call may run, with `edited_arguments` in force where they are given."""

    edited_arguments: dict[str, Any] | None = None
    by: str | None = None
    reason: str | None = None


class Reject(msgspec.Struct, frozen=True):
    """The call will not run: `reason` for the model, `details` for the host.

    `source` is human for an approver and hook for a hook, where it is not given.
    """

    reason: str | None = None
    by: str | None = None
    details: dict[str, Any] | None = None
    source: str | None = None


class Skip(msgspec.Struct, frozen=True):
    """The call is answered with `output`, and no tool runs; the log marks it synthetic."""

    output: Any = None


class Terminate(msgspec.Struct, frozen=True):
    """The run ends: this call and those after it are rejected, `ToolErrorTerminal` is raised."""

    reason: str


Decision = Approve | Reject | Skip | Terminate


def decision_of(given: Any, who: str) -> Decision | None:
    """A decision as hooks and approvers give it: True, False and None are decisions, too.

    Raises:
        TypeError: it is none.
    """
    if given is None or isinstance(given, Approve | Reject | Skip | Terminate):
        return given
    if isinstance(given, bool):
        return Approve() if given else Reject()
    raise TypeError(
        f"{who} decided {given!r}: give Approve(), Reject(), Skip(), Terminate(), True, False, "
        "or None to leave it open"
    )


_NO_FAILURE = Failure(ErrorKind.INTERNAL, "")


class Outcome(msgspec.Struct, frozen=True):
    """What became of a call whose outcome was unknown, as the outside system knows it."""

    found: Literal["done", "not_done", "failed", "unknown"]
    result: Any = None
    failure: Failure = _NO_FAILURE

    @classmethod
    def done(cls, result: Any) -> Outcome:
        """It took effect: this is its result."""
        return cls("done", result)

    @classmethod
    def not_done(cls) -> Outcome:
        """It took no effect, and will not any more: it may be run again."""
        return cls("not_done")

    @classmethod
    def failed(cls, error: BaseException | Failure | str) -> Outcome:
        """It was refused, and took no effect."""
        return cls("failed", failure=failure_of(error))

    @classmethod
    def unknown(cls) -> Outcome:
        """Nobody knows yet: it stays open."""
        return cls("unknown")


def outcome_of(given: Any, name: str) -> Outcome:
    """What a tool's `verify` gave.

    Raises:
        TypeError: it is no outcome.
    """
    if given is None:
        return Outcome.unknown()
    if not isinstance(given, Outcome):
        raise TypeError(
            f"verify of tool {name!r} gave {given!r}: give Outcome.done(result), "
            "Outcome.not_done(), Outcome.failed(error), or None where nobody knows"
        )
    return given


class StuckLoopGuard:
    """A hook that ends the run when the model makes one call, the same arguments, too often.

    It counts for as long as it lives, whatever came of the calls; each call once.
    """

    name = "stuck_loop"

    def __init__(self, most: int) -> None:
        if type(most) is not int or most < 0:
            raise ValueError(f"most is {most!r}: pass how often a call may be made, 0 or more")
        self._most = most
        self._seen: defaultdict[str, set[str]] = defaultdict(set)

    def __call__(self, tool: Tool) -> Terminate | None:
        """Let the call through, or end the run."""
        call = tool.effective_call
        seen = self._seen[tool.fingerprint or call.fingerprint]
        seen.add(tool.id)
        if len(seen) <= self._most:
            return None
        return Terminate(f"stuck loop detected: `{call.name}` has been called {len(seen)} times")
