"""The errors of a decision, or of a start, that came too late or too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.errors import IllegalTransition

if TYPE_CHECKING:
    from eventstore.domain.revision import Revision
    from eventstore.domain.tool import Tool


class CallChanged(IllegalTransition):
    """A decision was made on a call that is no longer as it was seen; nothing was decided.

    `seen` is the revision that the decision was made on; `now` is the call as the log has it. Show
    `now` to the person who decides.
    """

    def __init__(self, event: str, seen: Revision, now: Tool) -> None:
        change = seen.difference(now.revision)
        super().__init__(
            now.status.name,
            event,
            now.id,
            f"since it was seen, {change}; look at it again, and decide on what it is now",
        )
        self.seen = seen
        self.now = now


class ApprovalExpired(IllegalTransition):
    """The approval of a call ended before it was used; nothing was started or decided.

    `now` is the call as the log has it: it waits for a decision again, also where the attempt that
    could not start was announced when the one before it failed. One that failed without that stays
    failed.
    """

    def __init__(self, event: str, now: Tool) -> None:
        remedy = (
            "approve() or reject() it as it is now"
            if now.is_pending
            else "request() it once more, and ask again"
        )
        super().__init__(now.status.name, event, now.id, f"its approval has expired: {remedy}")
        self.now = now


class CallUnderWay(IllegalTransition):
    """A worker has a lease on the call, and may still be at it; nothing was started.

    `now` is the call as the log has it, `until` the end of the lease as it stands, in microseconds
    since 1970 UTC. A worker that lives renews it.
    """

    def __init__(self, now: Tool, until: int, shown: str) -> None:
        super().__init__(
            now.status.name,
            "running",
            now.id,
            f"attempt {now.attempts} is under way until {shown}: wait for its end; where its "
            "worker has ended for sure, settle the call, or start() it with take_over=True",
        )
        self.now = now
        self.until = until
