"""One attempt to run a call, for asyncio; `eventstore.attempt` has the rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from eventstore.append.commands import attempts
from eventstore.attempt import NO_RESULT, Pauses, StartedAttempt, as_current, is_pause
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.errors import EventStoreError, SilentAttempt

if TYPE_CHECKING:
    from eventstore.aio.session import AsyncSession
    from eventstore.append.command import Command
    from eventstore.domain.times import Moment
    from eventstore.domain.tool import Tool
    from eventstore.domain.wording import Wording
    from eventstore.leases.keeper import Hold

NOT_RUN = Failure(
    ErrorKind.INTERNAL, "cancelled before it ran: nothing has happened", code="not_run"
)
"""The failure of an attempt that was cancelled while its start was being recorded."""


class AsyncAttempt(StartedAttempt):
    """One attempt under way: `arguments` to run the tool with, then `complete` or `fail`."""

    def __init__(
        self,
        session: AsyncSession,
        conversation_id: str,
        tool: Tool,
        hold: Hold | None = None,
    ) -> None:
        super().__init__(conversation_id, tool, hold)
        self._session = session

    async def complete(self, result: object, *, wording: Wording | None = None) -> Tool:
        """Record the result: any value; see `Attempt.complete`."""
        # The tool has done its work: if that cannot be recorded now, it has still not failed.
        self.ended = True
        return self._note_recorded(await self._session.run(self.completion(result).worded(wording)))

    async def pause(self, until: Moment | None = None, reason: str | None = None) -> Tool:
        """Record that it pauses: the call waits again; see `Attempt.pause`."""
        return self._note_recorded(await self._session.run(self.suspension(until, reason)))

    async def fail(
        self,
        error: BaseException | Failure | str,
        *,
        delay: float | None = None,
        wording: Wording | None = None,
    ) -> Tool:
        """Record the failure; see `Attempt.fail`."""
        failure = self.failure(error, delay).worded(wording)
        return self._note_recorded(await self._session.run(failure))


async def begin_attempt(
    session: AsyncSession, start: Command[Tool], hold: Hold | None = None
) -> AsyncAttempt:
    """Record the start of a call, and return the attempt, whose lease the hold renews.

    If the task is cancelled meanwhile, it is recorded that nothing has run.
    """

    async def record_not_run(tool: Tool, cancelled: asyncio.CancelledError) -> None:
        failure = attempts.fail(start.conversation_id, tool.id, NOT_RUN, attempt=tool.attempts)
        try:
            await session.run(failure)
        except EventStoreError as unrecorded:
            cancelled.add_note(
                f"call {tool.id!r} did not run, which was not recorded: {unrecorded}"
            )

    tool = await session.run(start, record_not_run)
    return AsyncAttempt(session, start.conversation_id, tool, hold)


@asynccontextmanager
async def recording_end(
    session: AsyncSession, attempt: AsyncAttempt, pauses: Pauses
) -> AsyncGenerator[None, None]:
    """Record the end of an attempt on exit, if the block has not recorded it.

    Raises:
        SilentAttempt: the block has no exception, and recorded no end.
    """
    try:
        with as_current(attempt.current):
            yield
    except BaseException as error:
        if not attempt.ended:
            try:
                await session.run(attempt.end(error, pauses))
            except EventStoreError as unrecorded:
                end, call_id = "pause" if is_pause(error, pauses) else "failure", attempt.tool.id
                error.add_note(f"the {end} of call {call_id!r} was not recorded: {unrecorded}")
        raise
    finally:
        attempt.release()
    if not attempt.ended:
        await attempt.fail(NO_RESULT)
        raise SilentAttempt(attempt.tool.id)
