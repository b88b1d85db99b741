"""Waiting for the decision on one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventstore.domain.statuses import Pending
from eventstore.errors import NoDecision
from eventstore.subscriptions.waiting import check_waiting

if TYPE_CHECKING:
    from eventstore.domain.tool import Tool
    from eventstore.session import LogSession


class PendingDecision:
    """The decision on a call, as a condition to wait for; see `waiting.WaitCondition`."""

    stopped = False

    def __init__(
        self,
        session: LogSession,
        conversation_id: str,
        call_id: str,
        timeout: float | None,
        poll: float,
    ) -> None:
        check_waiting(timeout, poll)
        self.session = session
        self.conversation_id: str | None = conversation_id
        self.timeout = timeout
        self.poll = poll
        self.seen = 0
        self._call = conversation_id, call_id
        self._tool: Tool | None = None

    def is_met(self) -> bool:
        """Return whether the call waits no longer for a decision."""
        self.seen, self._tool = self.session.tool_now(*self._call)
        return not _waits(self._tool)

    def result(self) -> Tool:
        """Return the call with its decision.

        Raises:
            TimeoutError: it still waits.
            NoDecision: it started or ended without one.
        """
        if self._tool is None or _waits(self._tool):
            _, call_id = self._call
            raise TimeoutError(
                f"call {call_id!r} was neither approved nor rejected within "
                f"{self.timeout:g} s: the call still waits; wait again, or reject() it"
            )
        if self._tool.decided_at is None:
            raise NoDecision(self._tool.id, self._tool.status.name)
        return self._tool


def _waits(tool: Tool) -> bool:
    """Return whether a decision may still come; a call may be approved and then deferred."""
    return type(tool.status) is Pending and tool.decided_at is None
