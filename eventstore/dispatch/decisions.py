"""Decisions of hooks and approvers on a call, and outcomes that `verify` finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from eventstore.append.inputs import failure_of
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.json_types import JsonObject
from eventstore.domain.times import Expiry, Moment, microseconds_of
from eventstore.domain.tool import Tool


class Approve(msgspec.Struct, frozen=True):
    """The call may run, with `edited_arguments` in force if they are given.

    `expires` is as in `Conversation.approve`. Called `Action::Execute` in chat-rs.
    """

    edited_arguments: JsonObject | None = None
    by: str | None = None
    reason: str | None = None
    expires: Expiry | None = None


class Reject(msgspec.Struct, frozen=True):
    """The call will not run: `reason` is for the model, `details` are for the host.

    The default of `source` is human for an approver and hook for a hook. Called `Action::Reject` in
    chat-rs, and `PermissionDenied` in katu-core.
    """

    reason: str | None = None
    by: str | None = None
    details: JsonObject | None = None
    source: str | None = None


class Ask(msgspec.Struct, frozen=True):
    """A person has to decide on the call, once more if one has approved it already.

    It waits, and the inbox shows the `reason`. An approver is asked at once where a hook answers
    this. A hook sees in `tool.status` which approval there is: one that answers this whatever the
    approval says does so for ever. Called `Action::RequireApproval` in chat-rs.
    """

    reason: str | None = None


class Defer(msgspec.Struct, frozen=True):
    """The call waits until a time, and is decided on again when it is dispatched after that.

    `until` is a `datetime` with a time zone, or microseconds since 1970 UTC; `reason` is for
    people. Called `Action::Defer` in chat-rs.
    """

    until: Moment
    reason: str | None = None

    def __post_init__(self) -> None:
        """Keep the time in microseconds.

        Raises:
            TypeError, ValueError: `until` is not a time.
        """
        force_setattr(self, "until", microseconds_of("until", self.until))


class Skip(msgspec.Struct, frozen=True):
    """The call is answered with `output`, and no tool runs; the log marks it synthetic.

    `by` is recorded with the `reason`; its default is the name of the hook. Called `Skip` of a
    `DispatchHook` in rig-compose.
    """

    output: Any = None
    reason: str | None = None
    by: str | None = None


class Terminate(msgspec.Struct, frozen=True):
    """The run ends: this call and those after it are rejected, `ToolErrorTerminal` is raised.

    Called `Terminate` of a `DispatchHook` in rig-compose.
    """

    reason: str


class Replace(msgspec.Struct, frozen=True):
    """The answer of an after-hook: `result` is recorded in place of the one that it saw.

    `by` is recorded with the `reason`; its default is the name of the hook.
    """

    result: Any
    reason: str | None = None
    by: str | None = None


Decision: TypeAlias = Approve | Reject | Ask | Defer | Skip | Terminate


def decision_of(answer: object, author: str) -> Decision | None:
    """Return the decision in the answer of a hook or approver.

    True means `Approve()`, False means `Reject()`, None means no decision.

    Raises:
        TypeError: the answer is not a decision.
    """
    if answer is None or isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool):
        return Approve() if answer else Reject()
    raise TypeError(
        f"{author} decided {answer!r}: give Approve(), Reject(), Ask(), Defer(), Skip(), "
        "Terminate(), True, False, or None to leave it open"
    )


@contextmanager
def unchanged(tool: Tool, author: str) -> Generator[None, None, None]:
    """Let `author` look at a call to decide on it, and refuse what was done to its arguments.

    A decision on arguments that are not in the log would be refused, and asked for again for ever.

    Raises:
        TypeError: the arguments were changed in place.
    """
    before = tool.revision
    yield
    try:
        is_same = tool.revision == before
    except Exception:  # noqa: BLE001 - something was put in that JSON cannot express
        is_same = False
    if not is_same:
        raise TypeError(
            f"{author} changed the arguments of call {tool.id!r} in place, so nothing was decided: "
            "leave them as they are, and give Approve(edited_arguments) with a changed copy"
        )


def replacement_of(answer: object, hook: str) -> Replace | None:
    """Return the replacement in the answer of an after-hook; None if the result stays.

    Raises:
        TypeError: the answer is something else.
    """
    if answer is None or isinstance(answer, Replace):
        return answer
    raise TypeError(
        f"after-hook {hook!r} gave a value of type {type(answer).__name__}: give Replace(result), "
        "or None to keep the result"
    )


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a hook or an approver in the log."""
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    return str(name or type(function).__name__)


_NO_FAILURE = Failure(ErrorKind.INTERNAL, "")


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a call that the log does not know, as the outside system knows it."""

    found: Literal["done", "not_done", "failed", "unknown"]
    result: Any = None
    failure: Failure = _NO_FAILURE

    @classmethod
    def done(cls, result: Any) -> Outcome:
        """Return the outcome of a call that took effect, with its result."""
        return cls("done", result)

    @classmethod
    def not_done(cls) -> Outcome:
        """Return the outcome of a call that took no effect and never will: it may run again."""
        return cls("not_done")

    @classmethod
    def failed(cls, error: BaseException | Failure | str) -> Outcome:
        """Return the outcome of a call that was refused and took no effect."""
        return cls("failed", failure=failure_of(error))

    @classmethod
    def unknown(cls) -> Outcome:
        """Return the outcome of a call that is still unknown: it stays open."""
        return cls("unknown")


def outcome_of(answer: object, name: str) -> Outcome:
    """Return the outcome in the answer of the `verify` function of tool `name`.

    Raises:
        TypeError: the answer is not an outcome.
    """
    if answer is None:
        return Outcome.unknown()
    if not isinstance(answer, Outcome):
        raise TypeError(
            f"verify of tool {name!r} gave {answer!r}: give Outcome.done(result), "
            "Outcome.not_done(), Outcome.failed(error), or None if it is not known"
        )
    return answer


class StuckLoopGuard:
    """A hook that ends the run when the model makes a call with the same arguments too often.

    Each call counts once, whatever its result, for as long as the guard lives. Called
    `StuckLoopHook` in rig-compose.
    """

    name = "stuck_loop"

    def __init__(self, most: int) -> None:
        if type(most) is not int or most < 0:
            raise ValueError(f"most is {most!r}: pass how often a call may be made, 0 or more")
        self._most = most
        self._ids_by_fingerprint: defaultdict[str, set[str]] = defaultdict(set)

    def __call__(self, tool: Tool) -> Terminate | None:
        """Let the call through, or end the run."""
        call = tool.effective_call
        ids = self._ids_by_fingerprint[tool.fingerprint or call.fingerprint]
        ids.add(tool.id)
        if len(ids) <= self._most:
            return None
        return Terminate(f"stuck loop detected: `{call.name}` has been called {len(ids)} times")
