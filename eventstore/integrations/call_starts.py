"""Starts calls that a framework is about to run, and records how they ended.

1. A call that is pending or approved is started, and then runs. One that was started and has no
   recorded end may have taken effect, and does not run.
2. The start is decided on the log as it is then, whatever was read of the call before. It is
   refused for a call that has changed, which is then to be read.
3. An attempt has a lease, which is renewed while it runs.
4. A call that asks for the same as one in doubt (its name and arguments are equal) is rejected in
   place of its start. Tools that only read (`read_only`) may be asked again. A call that the same
   run is executing is not in doubt: its end will come.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from eventstore.aio.attempt import AsyncAttempt, begin_attempt, recording_end
from eventstore.append.commands import attempts
from eventstore.attempt import Attempt, claim_of
from eventstore.attempt import recording_end as recording_end_now
from eventstore.domain.equal_calls import Equality, SameEffect
from eventstore.domain.leases import DEFAULT_LEASE_SECONDS
from eventstore.domain.statuses import Approved, Pending, Running
from eventstore.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Generator

    from eventstore.aio.session import AsyncSession
    from eventstore.append.command import Command
    from eventstore.attempt import Pauses
    from eventstore.conversation import Conversation
    from eventstore.domain.tool import Tool
    from eventstore.leases.claim import Claim

A = TypeVar("A", Attempt, AsyncAttempt)


class CallStarts:
    """The calls of a conversation that a run starts.

    Several objects may share the set of the calls that have `begun`.
    """

    def __init__(
        self, chat: Conversation, read_only: Collection[str] = (), begun: set[str] | None = None
    ) -> None:
        self.begun: set[str] = set() if begun is None else begun
        """The calls that the run starts or is executing."""
        self.ended: set[str] = set()
        """The calls whose end was recorded here: nothing of them has to be read again."""
        self._read_only = frozenset(read_only)
        self._chat = chat

    @contextmanager
    def running(self, tool: Tool, pauses: Pauses = ()) -> Generator[Attempt | None, None, None]:
        """Run a call as `Conversation.running` does, unless it is rejected, or has changed.

        Then there is no attempt, and the call is to be found again.
        """
        session = self._chat.session
        self.begun.add(tool.id)  # so that equal calls which start now see that it is ours
        try:
            attempt = self._begin(tool)
            if attempt is None:
                yield None
                return
            with recording_end_now(session, attempt, pauses):
                yield attempt
        finally:
            self.begun.discard(tool.id)
        self._note_end(attempt.tool)

    @asynccontextmanager
    async def running_async(
        self, session: AsyncSession, tool: Tool, pauses: Pauses = ()
    ) -> AsyncGenerator[AsyncAttempt | None, None]:
        """Run a call for asyncio; see `running`."""
        try:
            attempt = await self.begin_async(session, tool)
            if attempt is None:
                yield None
                return
            async with recording_end(session, attempt, pauses):
                yield attempt
        finally:
            self.begun.discard(tool.id)
        self._note_end(attempt.tool)

    def _begin(self, tool: Tool) -> Attempt | None:
        session, claim = self._chat.session, self._claim(tool)
        try:
            with claim:
                started = session.run(self._start(tool, claim))
        except IllegalTransition:
            if not self._has_changed(tool):
                raise
            return None
        return self._unless_rejected(Attempt(session, self._chat.id, started, claim.hold))

    async def begin_async(self, session: AsyncSession, tool: Tool) -> AsyncAttempt | None:
        """Begin a call, unless it is rejected, or has changed since it was read: then None."""
        self.begun.add(tool.id)  # so that equal calls which start now see that it is ours
        claim = self._claim(tool)
        try:
            with claim:
                attempt = await begin_attempt(session, self._start(tool, claim), claim.hold)
        except IllegalTransition:
            if not await session.call(lambda: self._has_changed(tool)):
                raise
            return None
        return self._unless_rejected(attempt)

    def _claim(self, tool: Tool) -> Claim:
        session = self._chat.session
        return claim_of(session, self._chat.id, tool.id, DEFAULT_LEASE_SECONDS, take_over=False)

    def _start(self, tool: Tool, claim: Claim) -> Command[Tool]:
        """Return the start of a call as it was read, which rejects it in place of that: rule 4."""
        effect = None if self.only_reads(tool) else SameEffect(Equality(), self._is_ours)
        return attempts.start(self._chat.id, tool.id, checked=tool, effect=effect, claim=claim)

    def _unless_rejected(self, attempt: A) -> A | None:
        if type(attempt.tool.status) is not Running:
            attempt.release()
            return None
        attempt.has_effect = not self.only_reads(attempt.tool)
        return attempt

    def _note_end(self, tool: Tool) -> None:
        if tool.is_resolved:
            self.ended.add(tool.id)

    def only_reads(self, tool: Tool) -> bool:
        """Return whether a call changes nothing, so that no end of it leaves a doubt."""
        return tool.call.name in self._read_only

    def _is_ours(self, other: Tool) -> bool:
        """Return whether this run executes a call, so that its end will come."""
        if other.id not in self.begun:
            return False
        leases = self._chat.session.outside_transaction(self._chat.id).leases
        return leases.is_held(self._chat.id, other.id, other.attempts)

    def _has_changed(self, tool: Tool) -> bool:
        """Return whether a call that cannot be started is another than it was."""
        _, now = self._chat.session.outside_transaction(self._chat.id).tool_now(
            self._chat.id, tool.id
        )
        return (now.status, now.attempts) != (tool.status, tool.attempts)


def awaits_attempt(tool: Tool) -> bool:
    """Return whether an attempt of a call is still to come: it is pending, or approved."""
    return isinstance(tool.status, Pending | Approved)


def may_run(tool: Tool) -> bool:
    """Return whether a call may be started: it is pending, and waits for no person; or approved.

    One that is in doubt may not: an earlier attempt may have taken effect.
    """
    status = tool.status
    if tool.in_doubt:
        return False
    if isinstance(status, Pending):
        return not status.needs_decision
    return isinstance(status, Approved)
