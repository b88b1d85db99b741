"""`Conversation`: one stream of the log, and the methods for a tool call's lifecycle."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from eventstore.append.commands import attempts, decisions, messages
from eventstore.append.tool_fold import fold_tools
from eventstore.attempt import (
    Attempt,
    Pauses,
    checked_pauses,
    claim_of,
    recording_end,
)
from eventstore.domain.arguments import check_version
from eventstore.domain.equal_calls import Equality, calls_equal_to
from eventstore.domain.fork import forked_events, name_taken
from eventstore.domain.leases import lease_in_microseconds
from eventstore.domain.times import microseconds_of
from eventstore.errors import VersionConflict
from eventstore.leases.claim import Claim
from eventstore.provider_messages.conversation_messages import ConversationMessages

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy import Connection

    from eventstore.append.command import Command
    from eventstore.append.commands.decisions import Seen
    from eventstore.domain.calls import FunctionCall
    from eventstore.domain.events import Event, Recorded
    from eventstore.domain.failure import Failure
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.leases import Lease
    from eventstore.domain.messages import Part
    from eventstore.domain.times import Expiry, Moment
    from eventstore.domain.tool import Tool
    from eventstore.subscriptions.conversation_cursor import ConversationCursor
    from eventstore.subscriptions.subscription import Follow
    from eventstore.subscriptions.waiting import StopSignal


class Conversation(ConversationMessages):
    """One conversation: append to it, read it. Handles are cheap and may be shared.

    Every method that records makes one durable, atomic append, checked against the state that it
    really follows, and returns the call after it. On an error nothing is written.
    """

    def __repr__(self) -> str:
        return f"<Conversation {self.id!r}>"

    @property
    def durable(self) -> bool:
        """Whether an append that returned is on disk; inside a host's transaction it is not."""
        return self.session.durable

    # reading

    def events(self, after: int = 0) -> Iterator[Recorded]:
        """Return the events after a version, in order, in bounded memory.

        Raises:
            ValueError: `after` is not a version.
        """
        check_version("after", after)
        return self.session.events(self.id, after)

    @property
    def version(self) -> int:
        """The version of the last event; 0 before the first."""
        return self.session.version(self.id)

    @property
    def tools(self) -> dict[str, Tool]:
        """Every call by its id, as it stands in the log now."""
        return fold_tools(self.events())

    def tool(self, call_id: str) -> Tool:
        """Return one call, as it stands in the log now; while it is open, nothing is read.

        Raises:
            UnknownCall: the conversation has no such call.
        """
        return self.session.tool(self.id, call_id)

    def equal_calls(
        self, call: Tool | FunctionCall, *, by: Callable[[Any], object] | None = None
    ) -> list[Tool]:
        """Return the other calls that ask for the same: the same tool with equal arguments.

        What counts are the arguments in force, numbers by their value; `by` returns of them what
        the effect is known by (an order's number). In a loop of your own, do not start a call while
        one of these is `in_doubt`: `reject` it, so that the model learns of the first. A dispatcher
        does that.
        """
        return calls_equal_to(call, self.tools, Equality(by))

    def follow(
        self,
        after: int | str = 0,
        *,
        stop: StopSignal | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> Follow[ConversationCursor]:
        """Return the events after a version, and then those to come; see `EventStore.follow`.

        The cursor is a version, an `int`. `str(follow.cursor)` keeps the id of the event there as
        well: `after` takes both.

        Raises:
            EventStoreError: the conversation is inside a host's transaction.
        """
        from eventstore.subscriptions.sources import ConversationSource
        from eventstore.subscriptions.subscription import Follow, Subscription

        session = self.session.outside_transaction(self.id)
        source = ConversationSource(session, self.id, after)
        return Follow(Subscription(session, source, stop, timeout, poll))

    def decision(self, call_id: str, timeout: float | None = None, *, poll: float = 0.25) -> Tool:
        """Wait until a call is approved or rejected, in any process; return the call then.

        A call that was decided on is returned at once, whatever became of it since. Decisions of
        this process are seen at once, decisions of others within `poll` seconds.

        Raises:
            NoDecision: the call runs or has ended without a decision.
            TimeoutError: there was no decision within `timeout` seconds.
            UnknownCall: the conversation has no such call.
            EventStoreError: the conversation is inside a host's transaction.
        """
        from eventstore.subscriptions.decision import PendingDecision
        from eventstore.subscriptions.waiting import wait

        session = self.session.outside_transaction(self.id)
        decision = PendingDecision(session, self.id, call_id, timeout, poll)
        wait(decision)
        return decision.result()

    # appending

    def about(self, *subjects: str) -> Conversation:
        """Return a handle on the conversation by which all that is appended is about a person.

        A subject is any text by which you know a person: `chat.about("customer-17")`. The store is
        opened with the secret of its index; see `EventStore.open`. Such a handle
        goes wherever a handle goes: into a dispatcher, an integration, an import.

        Raises:
            ValueError: one is no text, or the store was opened without a secret.
        """
        return Conversation(self.session.about(subjects), self.id)

    def append(
        self,
        *events: Event,
        expected_version: int | None = None,
        event_ids: Sequence[UUID | str | bytes] | None = None,
        occurred_at: Sequence[Moment | None] | None = None,
        connection: Connection | None = None,
    ) -> list[Recorded]:
        """Append events, all or none; exact repeats of what is stored are left out.

        Calls and assistant messages without a turn are given the next one, and calls without an
        id are given one.

        With `event_ids` (one UUID for each event) the append may be repeated: an event whose id
        is stored already is not stored again, and is returned as it was stored first.

        `occurred_at` has the time of each event at its source, where other software recorded it;
        `recorded_at` is the time of this append all the same.

        With `connection` it appends inside the host's own transaction; see
        `EventStore.conversation`.

        Raises:
            VersionConflict: the conversation is not at `expected_version`.
            ValueError: that is not a version, an event id is not a UUID, a time has no zone, or an
                event records what was done to others, which `store.redact` and the like append.
            IllegalTransition, UnhashableArguments, UnencodableEvent: nothing was written.
        """
        command = messages.append(self.id, events, expected_version, event_ids, occurred_at)
        if connection is not None:
            return self.session.in_transaction(connection).run(command)
        return self.session.run(command)

    def fork(self, at: int, to: str) -> Conversation:
        """Copy the events up to version `at` to the new conversation `to`, in one append.

        The copy names its origin, which is not changed. Calls that were open there are closed in
        the copy and never run again; see `eventstore.domain.fork`.

        Raises:
            ValueError: `at` is not a version of the conversation, or `to` is not an id.
            VersionConflict: the conversation `to` has events.
            IllegalTransition, UnhashableArguments, UnencodableEvent: nothing was written.
        """
        try:
            self.session.run(fork_of(self, at, to))
        except VersionConflict as conflict:
            raise name_taken(to, conflict.actual) from conflict
        return Conversation(self.session, to)

    def add_message(
        self, role: str, content: str | Part | Sequence[Part], *, step: str | None = None
    ) -> Recorded:
        """Add a message: text, or parts (`Text`, `Image`, `Document`, `Opaque`).

        A message that the same `step` of a run adds again is stored once, and returned as it was
        stored first; see `record`.

        Raises:
            ValueError: the role is not system, developer, user or assistant, or an image or a
                document has not one content of its kind; or `step` is empty.
            TypeError: the content is neither text nor parts.
        """
        return self.session.run(messages.add_message(self.id, role, content, step))

    def request(self, name: str, arguments: object = None, call_id: str | None = None) -> Tool:
        """Record that the model asks for a call: pending. Calls in a row share a turn.

        `arguments` is a JSON object or its text. Without `call_id` one is minted; asking again
        with the same id and arguments changes nothing.
        """
        return self.session.run(messages.request(self.id, name, arguments, call_id))

    def turn(
        self,
        content: str | Part | Sequence[Part],
        calls: Sequence[FunctionCall] = (),
        *,
        step: str | None = None,
    ) -> list[Tool]:
        """Record what the model said and the calls that it made, as one append; return the calls.

        `content` is text, which may be empty, or parts. `FunctionCall.of` makes a call of a name
        and arguments; one without an id gets one. It is for what has no provider's form; a
        provider's message is for `record`, which stores a response once. So does this with `step`.

        Raises:
            TypeError: the content is neither text nor parts, or a call is not a `FunctionCall`.
            EventStoreError: a call has an id that another one has.
        """
        return self.session.run(messages.turn(self.id, content, calls, step))

    def approve(
        self,
        call_id: str,
        edited_arguments: JsonObject | None = None,
        by: str | None = None,
        reason: str | None = None,
        *,
        seen: Seen | None = None,
        expires: Expiry | None = None,
    ) -> Tool:
        """Allow a call; `edited_arguments`, if given, are in force from now on.

        An edit never changes the tool: to have another one run, `reject` the call and `request`
        the other.

        `seen` is the `Tool` that was shown to the person, or its `revision`: a call that has
        other arguments by then, was started or has paused, is not approved. The approval is used
        by the attempt that starts on it, and by those announced after that one failed.

        From `expires` on nothing starts on it: a `datetime` with a time zone, microseconds since
        1970 UTC, or a `timedelta` from now. The clock is that of the store. The start is then
        refused, and the call waits for a decision again.

        Raises:
            CallChanged: the call is not as it was `seen`; nothing was decided.
            ApprovalExpired: so is one that was approved before; it waits for a decision again.
            UnparsedArguments: the arguments are not a JSON object, and no edit is given.
            TypeError: the edit is a `FunctionCall`; `seen` or `expires` is of another type.
            ValueError: `seen` is another call or no revision, or `expires` is not in the future.
        """
        return self.session.run(
            decisions.approve(
                self.id, call_id, edited_arguments, by, reason, seen=seen, expires=expires
            )
        )

    def reject(
        self,
        call_id: str,
        reason: str | None = None,
        source: str = "human",
        by: str | None = None,
        details: JsonObject | None = None,
        *,
        seen: Seen | None = None,
    ) -> Tool:
        """Refuse a call for good.

        `source` is what refused it: human, gate, hook, rule, limit, sibling, or a word of yours.
        `seen` is what was shown to the person; see `approve`.

        Raises:
            CallChanged: the call is not as it was `seen`; nothing was decided.
            TypeError, ValueError: `seen` is neither this call nor a revision.
        """
        return self.session.run(
            decisions.reject(self.id, call_id, reason, source, by, details, seen=seen)
        )

    def settle(
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
        """Record what became of a call in doubt, as the outside system was found to have it.

        - `completed` is its result: it took effect.
        - `failed` says why it took none, and never will; only its number starts another attempt.
        - `run_again`: it took none, and the next attempt may begin, as one that was announced.

        `seen` is the `Tool` in doubt, or its `revision`: a call that was started again since is not
        settled. The model reads the result, or what `failed` says. The log keeps `by` and `reason`.
        A worker that has the call under way all the same ends it late. What it did stands: a result
        completes a call that was settled as failed. Every other late end is kept, and changes
        nothing.

        Raises:
            CallChanged: the call is not as it was `seen`; nothing was settled.
            IllegalTransition: nothing about the call is in doubt.
            TypeError, ValueError: not one of the three is given, `failed` is blank, or `seen` is
                no call and no revision.
        """
        return self.session.run(
            decisions.settle(
                self.id, call_id, seen, completed, failed, by, reason, run_again=run_again
            )
        )

    def defer(self, call_id: str, until: Moment, reason: str | None = None) -> Tool:
        """Let a call that has not started wait until a time; an approval stays in force.

        `until` is a `datetime` with a time zone, or microseconds since 1970 UTC. `reason` is for
        people. `resume_plan(events, now=...)` names the calls whose time has come. An approval
        lets the call start before.

        Raises:
            TypeError, ValueError: `until` is not a time.
        """
        moment = microseconds_of("until", until)
        return self.session.run(attempts.pause(self.id, call_id, moment, reason))

    def start(
        self,
        call_id: str,
        attempt: int | None = None,
        *,
        lease: Lease = None,
        take_over: bool = False,
    ) -> Tool:
        """Record that an attempt begins, before it does; the arguments are in `status`.

        If two workers start one call, one succeeds and the other gets `IllegalTransition`. If the
        last attempt has no recorded end, its outcome is unknown and it may have taken effect; if it
        paused until a person decides, there is no decision; if it failed and no other one was
        announced, its approval is used up; if it was settled as failed, or belongs to the origin of
        a fork, it is closed. In these cases the next one is only started with its number passed as
        `attempt`.

        With a `lease` (a `timedelta`, or seconds) the attempt counts as under way for so long, and
        no other one starts: not even with its number, unless with `take_over`. See
        `docs/several-workers.md`. `running` and `begin` renew it; this does not.

        Raises:
            ApprovalExpired: the approval has ended, and the call waits for a decision again.
            IllegalTransition: the call may not start; nothing was written.
            TypeError, ValueError: `lease` is not a duration.
        """
        claim = Claim(lease_in_microseconds(lease), takes_over=take_over)
        return self.session.run(attempts.start(self.id, call_id, attempt, claim=claim))

    def complete(self, call_id: str, result: object, *, synthetic: bool = False) -> Tool:
        """Record a call's result: any value. `synthetic`: no tool ran, the result was supplied.

        A `Text`, `Image` or `Document`, the bytes of an image or a PDF, or a list of these, is
        shown to the model as what it is.
        """
        return self.session.run(attempts.complete(self.id, call_id, result, synthetic=synthetic))

    def fail(
        self,
        call_id: str,
        error: BaseException | Failure | str,
        *,
        delay: float | None = None,
    ) -> Tool:
        """Record that an attempt failed; `delay` is the wait in seconds before the next one."""
        return self.session.run(attempts.fail(self.id, call_id, error, delay))

    def begin(
        self,
        call_id: str,
        attempt: int | None = None,
        *,
        lease: Lease = None,
        take_over: bool = False,
    ) -> Attempt:
        """Start a call as `start` does, and return the attempt, for another hook to end.

        `complete`, `fail` and `pause` of the attempt record its end with its number and duration.
        Without one of them it is unknown whether the call took effect: take `running` where one
        block can hold both. A `lease` is renewed until then.
        """
        claim = claim_of(self.session, self.id, call_id, lease, take_over=take_over)
        with claim:
            tool = self.session.run(attempts.start(self.id, call_id, attempt, claim=claim))
        return Attempt(self.session, self.id, tool, claim.hold)

    @contextmanager
    def running(
        self,
        call_id: str,
        attempt: int | None = None,
        *,
        pauses: Pauses = (),
        lease: Lease = None,
        take_over: bool = False,
    ) -> Generator[Attempt, None, None]:
        """Run a call: started durably on entry, and its end recorded on exit.

        An exception is recorded as the failure and raised again; so are Ctrl-C, cancellation
        and timeouts, after which it is unknown whether the call took effect. After `complete()`
        no failure is recorded: the tool did its work. If that could not be recorded, the attempt
        stays open.

        `pauses` are the exceptions by which a framework pauses a tool (LangGraph's
        `GraphBubbleUp`, pydantic-ai's `ApprovalRequired`): the attempt pauses until a person
        decides, and the exception is raised again. See `Attempt.pause`. A `lease` is renewed until
        the block ends; where others have taken over by then, the log keeps the end as a late one.

        Raises:
            TypeError: `pauses` are not exception classes, or one is a timeout, a cancel or an exit,
                after which the call may have taken effect; nothing was started.
            SilentAttempt: the block ended without `complete()` or `fail()`.
        """
        checked_pauses(pauses)
        run = self.begin(call_id, attempt, lease=lease, take_over=take_over)
        with recording_end(self.session, run, pauses):
            yield run


def fork_of(origin: Conversation, at: int, to: str) -> Command[list[Recorded]]:
    """Return the append that makes the fork of a conversation; see `Conversation.fork`.

    The copies of events keep their versions, and are about the same persons. All is marked as
    copied but the `RunStarted` of the fork itself, which stands right after them.
    """
    events = forked_events(origin.id, origin.events(), at)
    tags = [tag for tag in origin.session.tags_of(origin.id) if (tag.version or 0) <= at]
    return origin.session.tagged(messages.append_copies(to, events, own=at), tags)
