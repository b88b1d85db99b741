"""A conversation for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from eventstore.aio.attempt import AsyncAttempt, begin_attempt, recording_end
from eventstore.aio.reader import AsyncFollow, Reading, wait
from eventstore.append.commands import attempts, decisions, messages
from eventstore.attempt import Pauses, checked_pauses, claim_of
from eventstore.conversation import Conversation, fork_of
from eventstore.domain.events import Event, Recorded, RunStarted
from eventstore.domain.failure import Failure
from eventstore.domain.fork import name_taken
from eventstore.domain.leases import Lease, lease_in_microseconds
from eventstore.domain.messages import Part
from eventstore.domain.times import Expiry, Moment, microseconds_of
from eventstore.domain.tool import Tool
from eventstore.errors import VersionConflict
from eventstore.leases.claim import Claim
from eventstore.subscriptions.conversation_cursor import ConversationCursor
from eventstore.subscriptions.decision import PendingDecision
from eventstore.subscriptions.sources import ConversationSource
from eventstore.subscriptions.subscription import Subscription
from eventstore.subscriptions.waiting import StopSignal

if TYPE_CHECKING:
    import re
    from uuid import UUID

    from sqlalchemy.ext.asyncio import AsyncConnection

    from eventstore.aio.session import AsyncSession
    from eventstore.append.commands.decisions import Seen
    from eventstore.domain.calls import FunctionCall
    from eventstore.domain.json_types import JsonObject
    from eventstore.provider_messages.history_import import Imported
    from eventstore.providers.registry import AnyProvider


class AsyncConversation:
    """One conversation: append to it, read it. `Conversation` has the same names, and says more."""

    def __init__(self, session: AsyncSession, conversation_id: str) -> None:
        self.session = session
        """What it reads and appends through; for the package's own use."""
        self.id = conversation_id
        self._blocking = Conversation(session.blocking, conversation_id)

    def __repr__(self) -> str:
        return f"<AsyncConversation {self.id!r}>"

    @property
    def blocking(self) -> Conversation:
        """The synchronous handle on the same conversation.

        Raises:
            EventStoreError: the conversation is inside a host's transaction.
        """
        self.session.outside_transaction(self.id)  # otherwise only its task may use it
        return self._blocking

    # reading

    def events(self, after: int = 0) -> AsyncIterator[Recorded]:
        """Return the events after a version, in order, in bounded memory."""
        return Reading(self.session, self._blocking.events(after))

    @property
    def version(self) -> Coroutine[Any, Any, int]:
        """The version of the last event; 0 before the first. To be awaited."""
        return self.session.call(lambda: self._blocking.version)

    async def tools(self) -> dict[str, Tool]:
        """Return every call by its id, as it stands in the log now."""
        return await self.session.call(lambda: self._blocking.tools)

    async def tool(self, call_id: str) -> Tool:
        """Return one call, as it stands in the log now; see `Conversation.tool`."""
        return await self.session.call(lambda: self._blocking.tool(call_id))

    async def equal_calls(
        self, call: Tool | FunctionCall, *, by: Callable[[Any], object] | None = None
    ) -> list[Tool]:
        """Return the other calls that ask for the same; see `Conversation.equal_calls`."""
        return await self.session.call(lambda: self._blocking.equal_calls(call, by=by))

    def follow(
        self,
        after: int | str = 0,
        *,
        stop: StopSignal | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> AsyncFollow[ConversationCursor]:
        """Return the events after a version, and then those to come; see `EventStore.follow`."""
        session = self.session.outside_transaction(self.id)
        source = ConversationSource(session.blocking, self.id, after)
        return AsyncFollow(
            session.executor, Subscription(session.blocking, source, stop, timeout, poll)
        )

    async def decision(
        self,
        call_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the same parameters as `Conversation`
        *,
        poll: float = 0.25,
    ) -> Tool:
        """Wait until a call is approved or rejected; see `Conversation.decision`."""
        session = self.session.outside_transaction(self.id)
        decision = PendingDecision(session.blocking, self.id, call_id, timeout, poll)
        await wait(decision, session.executor)
        return decision.result()

    # appending

    def about(self, *subjects: str) -> AsyncConversation:
        """Return a handle by which all that is appended is about a person.

        See `Conversation.about`.
        """
        return AsyncConversation(self.session.about(subjects), self.id)

    async def append(
        self,
        *events: Event,
        expected_version: int | None = None,
        event_ids: Sequence[UUID | str | bytes] | None = None,
        occurred_at: Sequence[Moment | None] | None = None,
        connection: AsyncConnection | None = None,
    ) -> list[Recorded]:
        """Append events, all or none; see `Conversation.append`."""
        command = messages.append(self.id, events, expected_version, event_ids, occurred_at)
        if connection is not None:
            return await self.session.in_transaction(connection).run(command)
        return await self.session.run(command)

    async def fork(self, at: int, to: str) -> AsyncConversation:
        """Copy the events up to version `at` to the new conversation `to`, in one append."""
        command = await self.session.call(lambda: fork_of(self._blocking, at, to))
        try:
            await self.session.run(command)
        except VersionConflict as conflict:
            raise name_taken(to, conflict.actual) from conflict
        return AsyncConversation(self.session, to)

    async def add_message(
        self, role: str, content: str | Part | Sequence[Part], *, step: str | None = None
    ) -> Recorded:
        """Add a message: text, or parts."""
        return await self.session.run(messages.add_message(self.id, role, content, step))

    async def request(
        self, name: str, arguments: object = None, call_id: str | None = None
    ) -> Tool:
        """Record that the model asks for a call: pending."""
        return await self.session.run(messages.request(self.id, name, arguments, call_id))

    async def turn(
        self,
        content: str | Part | Sequence[Part],
        calls: Sequence[FunctionCall] = (),
        *,
        step: str | None = None,
    ) -> list[Tool]:
        """Record what the model said and the calls that it made; see `Conversation.turn`."""
        return await self.session.run(messages.turn(self.id, content, calls, step))

    async def approve(
        self,
        call_id: str,
        edited_arguments: JsonObject | None = None,
        by: str | None = None,
        reason: str | None = None,
        *,
        seen: Seen | None = None,
        expires: Expiry | None = None,
    ) -> Tool:
        """Allow a call as it was `seen`, until it `expires`; see `Conversation.approve`."""
        return await self.session.run(
            decisions.approve(
                self.id, call_id, edited_arguments, by, reason, seen=seen, expires=expires
            )
        )

    async def settle(
        self,
        call_id: str,
        *,
        seen: Seen,
        completed: object = UNSET,
        failed: str | None = None,
        run_again: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> Tool:
        """Say what became of a call that is in doubt; see `Conversation.settle`."""
        return await self.session.run(
            decisions.settle(
                self.id, call_id, seen, completed, failed, by, reason, run_again=run_again
            )
        )

    async def reject(
        self,
        call_id: str,
        reason: str | None = None,
        source: str = "human",
        by: str | None = None,
        details: JsonObject | None = None,
        *,
        seen: Seen | None = None,
    ) -> Tool:
        """Refuse a call for good, as it was `seen`; see `Conversation.reject`."""
        return await self.session.run(
            decisions.reject(self.id, call_id, reason, source, by, details, seen=seen)
        )

    async def defer(self, call_id: str, until: Moment, reason: str | None = None) -> Tool:
        """Let a call that has not started wait until a time; see `Conversation.defer`."""
        moment = microseconds_of("until", until)
        return await self.session.run(attempts.pause(self.id, call_id, moment, reason))

    async def start(
        self,
        call_id: str,
        attempt: int | None = None,
        *,
        lease: Lease = None,
        take_over: bool = False,
    ) -> Tool:
        """Record that an attempt begins, before it does; see `Conversation.start`."""
        claim = Claim(lease_in_microseconds(lease), takes_over=take_over)
        return await self.session.run(attempts.start(self.id, call_id, attempt, claim=claim))

    async def complete(self, call_id: str, result: object, *, synthetic: bool = False) -> Tool:
        """Record a call's result: any value."""
        return await self.session.run(
            attempts.complete(self.id, call_id, result, synthetic=synthetic)
        )

    async def fail(
        self,
        call_id: str,
        error: BaseException | Failure | str,
        *,
        delay: float | None = None,
    ) -> Tool:
        """Record that an attempt failed; `delay` is the wait in seconds before the next one."""
        return await self.session.run(attempts.fail(self.id, call_id, error, delay))

    async def begin(
        self,
        call_id: str,
        attempt: int | None = None,
        *,
        lease: Lease = None,
        take_over: bool = False,
    ) -> AsyncAttempt:
        """Start a call, and return the attempt, for another hook to end; see `Conversation.begin`.

        If the task is cancelled while the start is being recorded, it is recorded that nothing has
        run.
        """
        session = self.session
        claim = claim_of(session.blocking, self.id, call_id, lease, take_over=take_over)
        start = attempts.start(self.id, call_id, attempt, claim=claim)
        with claim:
            return await begin_attempt(session, start, claim.hold)

    @asynccontextmanager
    async def running(
        self,
        call_id: str,
        attempt: int | None = None,
        *,
        pauses: Pauses = (),
        lease: Lease = None,
        take_over: bool = False,
    ) -> AsyncGenerator[AsyncAttempt, None]:
        """Run a call: started durably on entry, and its end recorded on exit.

        All is as in `Conversation.running`. A task that is cancelled while the start is being
        recorded does not enter the block, and it is recorded that nothing has run.
        """
        checked_pauses(pauses)
        begun = await self.begin(call_id, attempt, lease=lease, take_over=take_over)
        async with recording_end(self.session, begun, pauses):
            yield begun

    async def record(
        self,
        message: object,
        provider: AnyProvider = "openai",
        *,
        event_ids: Sequence[UUID | str | bytes] | None = None,
        expected_version: int | None = None,
        step: str | None = None,
        usage: bool = True,
        latency: float | None = None,
    ) -> list[Tool]:
        """Record a provider's message; see `Conversation.record`."""
        from eventstore.provider_messages.record import record  # loads the providers

        prices = self.session.blocking.prices
        return await self.session.run(
            record(
                self.id,
                message,
                provider,
                event_ids,
                expected_version,
                step=step,
                usage=usage,
                latency=latency,
                prices=prices,
            )
        )

    async def record_messages(
        self,
        messages: Sequence[Any] | dict[str, Any],
        provider: AnyProvider = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool | str] | None = None,
        imported: bool = True,
    ) -> list[Tool]:
        """Record messages, as one append; see `Conversation.record_messages`."""
        from eventstore.provider_messages.record import record_messages  # loads the providers

        return await self.session.run(
            record_messages(
                self.session.blocking,
                self.id,
                messages,
                provider,
                is_error,
                is_rejection,
                imported=imported,
            )
        )

    async def import_messages(
        self,
        messages: Iterable[Any],
        provider: AnyProvider = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool | str] | None = None,
        started: RunStarted | None = None,
        occurred_at: Sequence[int | None] = (),
        error_pattern: str | re.Pattern[str] | None = None,
    ) -> Imported:
        """Record a whole history, in a thread of its own; see `Conversation.import_messages`.

        A task that is cancelled waits for its end.
        """
        return await self.session.call(
            lambda: self._blocking.import_messages(
                messages,
                provider,
                is_error=is_error,
                is_rejection=is_rejection,
                started=started,
                occurred_at=occurred_at,
                error_pattern=error_pattern,
            )
        )
