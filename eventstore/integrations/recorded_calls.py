"""The calls of one conversation, by the ids that a framework has for them.

`RecordedCalls` is for blocking hooks, `AsyncRecordedCalls` for those that are awaited.

The rule for a call that a framework is about to run:

1. A call that is pending or approved is started, and then runs.
2. A call that has completed, failed or been rejected gives its recorded answer.
3. A call that was started and has no recorded end may have taken effect. It gives the answer
   "outcome unknown" and does not run. `chat.complete` or `chat.fail` settle it.
4. A call of the response that was just recorded is not read before it starts, unless it needs a
   decision: the start is decided on the log as it is then, and refused for a call that has changed.
   That one is read.
5. A host's answer that comes through a framework is bound to the call as it was when the framework
   asked. It is refused for a call that has changed since, as one that comes too late.
6. A text of the library that a framework hands back is no answer, and no words of a user: a call
   stays as it is until something happens to it.
7. An attempt has a lease, which is renewed while it runs. While a worker is at a call, `resume`
   does nothing, and raises `CallUnderWay`.
8. A call that asks for the same as one in doubt (its name and arguments are equal) is rejected in
   place of its start. Tools that only read (`read_only`) may be asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from eventstore.aio.attempt import begin_attempt, recording_end
from eventstore.append.command import Command, IdentifiedEvents
from eventstore.append.commands import attempts
from eventstore.append.stored_once import event_id_of, stem_of_step
from eventstore.attempt import Attempt, claim_of
from eventstore.attempt import recording_end as recording_end_now
from eventstore.conversation import Conversation
from eventstore.domain.calls import FunctionCall
from eventstore.domain.equal_calls import Equality, SameEffect
from eventstore.domain.events import Event, MessageAdded
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.leases import DEFAULT_LEASE_SECONDS
from eventstore.domain.messages import Text
from eventstore.domain.own_texts import is_own_text
from eventstore.domain.revision import Revision
from eventstore.domain.statuses import Approved, Completed, Failed, Pending, Running
from eventstore.errors import IllegalTransition
from eventstore.leases.under_way import check_not_under_way
from eventstore.policies.prices import priced
from eventstore.provider_messages.record import record_turn
from eventstore.providers.registry import list_key
from projections import model_history

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.aio.conversation import AsyncConversation
    from eventstore.aio.session import AsyncSession
    from eventstore.append.conversation_state import ConversationState
    from eventstore.append.tool_fold import LookUp
    from eventstore.attempt import Pauses
    from eventstore.domain.events import ModelResponded
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.messages import Part
    from eventstore.domain.tool import Tool
    from eventstore.leases.claim import Claim
    from eventstore.providers.model import Answer, NativeMessage, ParsedCall, Turn
    from eventstore.providers.registry import AnyProvider


NeedsApproval: TypeAlias = "Collection[str] | Callable[[Tool], bool]"
"""The names of tools, or what says of a call whether a person has to decide on it."""

SelectNew: TypeAlias = Callable[[Sequence[MessageAdded]], Sequence[MessageAdded]]
"""Selects the words to append, of those that are stored since the last response."""


class RecordedCalls:
    """The calls of a conversation: recorded turn by turn, found by the framework's ids.

    `needs_approval` names the tools whose calls the model is told to wait for a person, or tells it
    of a call. `read_only` names those that may run again while an equal call is in doubt.
    """

    def __init__(
        self,
        chat: Conversation,
        framework: str,
        needs_approval: NeedsApproval = (),
        read_only: Collection[str] = (),
        begun: set[str] | None = None,
    ) -> None:
        self.conversation_id = chat.id
        self.begun: set[str] = set() if begun is None else begun
        """The calls that this run starts and is at, or those that share it."""
        self._read_only = frozenset(read_only)
        self._needs_approval = _of_call(needs_approval)
        self._chat = chat
        self._framework = framework
        self._ids: dict[str, str] = {}  # of the framework -> of the log, the latest
        self._new: dict[str, Tool] = {}  # of the last response, as recorded, by the framework's ids
        self._ended: set[str] = set()  # the framework's ids of calls that have ended here
        self._answered_at = 0  # the version of the last response, as far as that was looked for

    def record(
        self,
        response_id: str,
        parts: Sequence[Part],
        calls: Sequence[ParsedCall],
        native: NativeMessage | None,
        responded: ModelResponded | None = None,
    ) -> list[Tool]:
        """Record a model's response and its calls as one append; once for each `response_id`."""
        command = self.recording(response_id, parts, calls, native, responded)
        tools = self._chat.session.run(command)
        self.know(tools)
        return tools

    def recording(
        self,
        response_id: str,
        parts: Sequence[Part],
        calls: Sequence[ParsedCall],
        native: NativeMessage | None,
        responded: ModelResponded | None = None,
        step: str | None = None,
    ) -> Command[list[Tool]]:
        """Return the append of a model's response and its calls; see `record_turn`."""
        if responded is not None:
            responded = priced(responded, self._chat.session.prices)
        return record_turn(
            self._chat.id,
            parts,
            calls,
            self._framework,
            native,
            response_id.encode(),
            responded,
            step,
        )

    def recording_words(self, select: SelectNew, step: str | None = None) -> Command[None]:
        """Return the append of what people said since the last response.

        `select` gets the words since then that are stored, and returns those to append. Words that
        the same `step` of a run appended before are left out.
        """

        def decide(_: ConversationState, __: LookUp) -> Sequence[Event]:
            new = select(self._words_since_response())
            events = [event for event in new if not _is_own(event)]
            return events if step is None else self._not_said(events, step)

        return Command(self._chat.id, decide, lambda _: None, exclusive=True)

    def _words_since_response(self) -> list[MessageAdded]:
        stored: list[MessageAdded] = []
        for recorded in self._chat.session.events(self._chat.id, self._answered_at):
            event = recorded.event
            if isinstance(event, MessageAdded) and event.role == "assistant":
                self._answered_at = recorded.version
                stored = []
            elif isinstance(event, MessageAdded):
                stored.append(event)
        return stored

    def _not_said(self, events: Sequence[MessageAdded], step: str) -> IdentifiedEvents:
        """Return those of the words that the step has not said before."""
        times: Counter[bytes] = Counter()
        ids: list[bytes] = []
        for event in events:
            place = stem_of_step(step, (event.role, event.parts))
            ids.append(event_id_of(place, times[place]))
            times[place] += 1
        known = self._chat.session.known_ids(self._chat.id, ids)
        new = [place for place, event_id in enumerate(ids) if event_id not in known]
        return IdentifiedEvents([events[n] for n in new], [ids[n] for n in new])

    def know(self, tools: Iterable[Tool]) -> None:
        """Take in the calls of a response that was just recorded.

        The framework's ids mean these from now on.
        """
        self._new = {_id_in_framework(tool): tool for tool in tools}
        self._ids.update((call_id, tool.id) for call_id, tool in self._new.items())
        self._ended.difference_update(self._new)

    def take_new(self, call_id: str) -> Tool | None:
        """Return a call of the last response as it was recorded; None from the second time on."""
        return self._new.pop(call_id, None)

    def note_end(self, tool: Tool) -> None:
        """Take in that a call has ended here."""
        self._ended.add(_id_in_framework(tool))

    def not_ended(self, call_ids: Sequence[str]) -> list[str]:
        """Return the framework's ids of calls that have not ended here."""
        return [call_id for call_id in call_ids if call_id not in self._ended]

    def find(self, call_id: str) -> Tool | None:
        """Return the latest call to which the framework gave this id, or None."""
        known = self._ids.get(call_id)
        if known is not None:
            return self.now(known)
        for tool in reversed(self._chat.tools.values()):
            if call_id in (tool.provider_call_id, tool.id):
                self._ids[call_id] = tool.id
                return tool
        return None

    def find_made(self, call_id: str, name: str, arguments: object) -> Tool | None:
        """Return the latest call with this id of the framework's, and this name and arguments.

        Runs of a graph that share a conversation may give one id to several calls.
        """
        for tool in reversed(self._chat.tools.values()):
            is_named = call_id in (tool.provider_call_id, tool.id) and tool.call.name == name
            if is_named and arguments in (tool.call.arguments, tool.effective_call.arguments):
                return tool
        return None

    def unanswered(self, answers: Mapping[str, str]) -> dict[str, Tool]:
        """Return the calls that have neither begun nor ended, and get an answer by the framework.

        `answers` are its texts by its ids. The library's own text in the place of a result is none:
        the framework was shown it. Nothing is read of the calls that are known, however many have
        ended.
        """
        call_ids = self.not_ended([i for i, text in answers.items() if not is_own_text(text)])
        if not call_ids:
            return {}
        if not self._ids.keys() >= set(call_ids):
            self._ids.update(
                (_id_in_framework(tool), tool.id) for tool in self._chat.tools.values()
            )
        known = {call_id: self._ids[call_id] for call_id in call_ids if call_id in self._ids}
        session = self._chat.session.outside_transaction(self._chat.id)
        tools = session.open_tools(self._chat.id, known.values())
        return {
            call_id: tool
            for call_id, own_id in known.items()
            if (tool := tools.get(own_id))
            and isinstance(tool.status, Pending | Approved)
            and not self._is_of_another(tool, call_id, answers[call_id])
        }

    def _is_of_another(self, tool: Tool, call_id: str, text: str) -> bool:
        """Return whether an answer is that of an earlier call with the same id."""
        others = [
            other
            for other in self._chat.tools.values()
            if call_id in (other.provider_call_id, other.id) and other.id != tool.id
        ]
        return any(other.is_resolved and shown_text(self.answer(other)) == text for other in others)

    def now(self, call_id: str) -> Tool:
        """Return a call as it stands now, by the log's id; while it is open, nothing is read."""
        session = self._chat.session.outside_transaction(self._chat.id)
        _, tool = session.tool_now(self._chat.id, call_id)
        return tool

    def check_no_other_worker(self) -> None:
        """Raise an error while a worker, here or elsewhere, is at a call of the conversation.

        Raises:
            CallUnderWay: one is.
        """
        now = self._chat.session.outside_transaction(self._chat.id).now()
        for tool in self._chat.tools.values():
            check_not_under_way(self._chat.id, tool, now)

    def turns(self) -> list[Turn]:
        """Return the turns to show the model next; each call has its answer."""
        return list(model_history(self._chat, needs_approval=self._needs_approval).turns)

    def items(self, provider: AnyProvider, before: int | None = None) -> list[JsonObject]:
        """Return the messages, or items, to show the model next, of events before a version."""
        items: list[JsonObject] = self.request(provider, before)[list_key(provider)]
        return items

    def request(self, provider: AnyProvider, before: int | None = None) -> JsonObject:
        """Return the part of a request that the log has: the messages, and the system's words."""
        if before is None:
            history = model_history(self._chat, needs_approval=self._needs_approval)
            return history.render(provider)
        events = (e for e in self._chat.events() if e.version < before)
        return model_history(events, needs_approval=self._needs_approval).render(provider)

    def starting(self, tool: Tool, claim: Claim) -> Command[Tool]:
        """Return the start of a call as it was read, which rejects it in place of that: rule 8."""
        effect = None if self.only_reads(tool) else SameEffect(Equality(), self._is_ours)
        return attempts.start(
            self.conversation_id, tool.id, checked=tool, effect=effect, claim=claim
        )

    def only_reads(self, tool: Tool) -> bool:
        """Return whether a call has no effect."""
        return tool.call.name in self._read_only

    def _is_ours(self, other: Tool) -> bool:
        """Return whether the run of this object is at a call, so that its end will come."""
        if other.id not in self.begun:
            return False
        leases = self._chat.session.outside_transaction(self.conversation_id).leases
        return leases.is_held(self.conversation_id, other.id, other.attempts)

    def has_changed(self, tool: Tool) -> bool:
        """Return whether a call that cannot be started is another than it was."""
        now = self.now(tool.id)
        return (now.status, now.attempts) != (tool.status, tool.attempts)

    @contextmanager
    def running(self, tool: Tool, pauses: Pauses = ()) -> Generator[Attempt | None, None, None]:
        """Run a call as `Conversation.running` does, unless it is rejected, or has changed.

        Then there is no attempt, and the call is to be found again.
        """
        self.begun.add(tool.id)  # so that equal calls which start now see that it is ours
        try:
            attempt = self._begin(tool)
            if attempt is None:
                yield None
                return
            with recording_end_now(self._chat.session, attempt, pauses):
                yield attempt
        finally:
            self.begun.discard(tool.id)

    def _begin(self, tool: Tool) -> Attempt | None:
        session = self._chat.session
        claim = claim_of(
            session, self.conversation_id, tool.id, DEFAULT_LEASE_SECONDS, take_over=False
        )
        try:
            with claim:
                started = session.run(self.starting(tool, claim))
        except IllegalTransition:
            if not self.has_changed(tool):
                raise
            return None
        if type(started.status) is not Running:
            claim.release()
            return None
        attempt = Attempt(session, self.conversation_id, started, claim.hold)
        attempt.has_effect = not self.only_reads(tool)
        return attempt

    def answer(self, tool: Tool) -> Answer:
        """Return what the model reads as the result of a call."""
        for turn in reversed(self.turns()):
            for call in turn.calls:
                if call.id == tool.id:
                    return call.answer
        raise LookupError(f"the history does not show call {tool.id!r}")


class AsyncRecordedCalls:
    """`RecordedCalls` for asyncio, of a conversation of an `AsyncEventStore`."""

    def __init__(
        self,
        chat: AsyncConversation,
        framework: str,
        needs_approval: NeedsApproval = (),
        read_only: Collection[str] = (),
        begun: set[str] | None = None,
    ) -> None:
        self._session = chat.session
        self._calls = RecordedCalls(chat.blocking, framework, needs_approval, read_only, begun)
        self.know = self._calls.know

    async def record(
        self,
        response_id: str,
        parts: Sequence[Part],
        calls: Sequence[ParsedCall],
        native: NativeMessage | None,
        responded: ModelResponded | None = None,
        step: str | None = None,
    ) -> list[Tool]:
        """Record a model's response and its calls as one append; once for each `response_id`."""
        command = self._calls.recording(response_id, parts, calls, native, responded, step)
        tools = await self._session.run(command)
        self.know(tools)
        return tools

    async def record_words(self, select: SelectNew, step: str | None = None) -> None:
        """Record what people said since the last response; see `RecordedCalls.recording_words`."""
        await self._session.run(self._calls.recording_words(select, step))

    async def find(self, call_id: str, *, as_recorded: bool = False) -> Tool | None:
        """Return the latest call to which the framework gave this id, or None.

        With `as_recorded`, a call of the last response is not read, and is returned as it was
        recorded. That is for calls that start at once, not for those that need a decision.
        """
        if as_recorded and (new := self._calls.take_new(call_id)) is not None:
            return new
        return await self._session.call(lambda: self._calls.find(call_id))

    async def now(self, tool: Tool) -> Tool:
        """Return a call as it stands now."""
        return await self._session.call(lambda: self._calls.now(tool.id))

    def running(
        self, tool: Tool, pauses: Pauses = ()
    ) -> AbstractAsyncContextManager[AsyncAttempt | None]:
        """Run a call, unless it is rejected, or has changed; see `running_unchanged`."""
        return running_unchanged(self._session, self._calls, tool, pauses)

    async def begin(self, tool: Tool) -> AsyncAttempt | None:
        """Begin a call, unless it is rejected, or has changed; see `begin_unchanged`."""
        return await begin_unchanged(self._session, self._calls, tool)

    async def unanswered(self, answers: Mapping[str, str]) -> dict[str, Tool]:
        """Return the calls that get an answer by the framework; see `RecordedCalls.unanswered`."""
        if not self._calls.not_ended([*answers]):
            return {}
        return await self._session.call(lambda: self._calls.unanswered(answers))

    async def check_no_other_worker(self) -> None:
        """Raise an error while a worker is at a call; see `RecordedCalls`."""
        await self._session.call(self._calls.check_no_other_worker)

    async def turns(self) -> list[Turn]:
        """Return the turns to show the model next; each call has its answer."""
        return await self._session.call(self._calls.turns)

    async def items(self, provider: AnyProvider, before: int | None = None) -> list[JsonObject]:
        """Return the messages, or items, to show the model next, of events before a version."""
        return await self._session.call(lambda: self._calls.items(provider, before))

    async def answer(self, tool: Tool) -> Answer:
        """Return what the model reads as the result of a call."""
        return await self._session.call(lambda: self._calls.answer(tool))


async def begin_unchanged(
    session: AsyncSession, calls: RecordedCalls, tool: Tool
) -> AsyncAttempt | None:
    """Begin a call, unless it is rejected, or has changed since it was read: then return None."""
    calls.begun.add(tool.id)  # so that equal calls which start now see that it is ours
    claim = claim_of(
        session.blocking, calls.conversation_id, tool.id, DEFAULT_LEASE_SECONDS, take_over=False
    )
    try:
        with claim:
            attempt = await begin_attempt(session, calls.starting(tool, claim), claim.hold)
    except IllegalTransition:
        if not await session.call(lambda: calls.has_changed(tool)):
            raise
        return None
    if type(attempt.tool.status) is not Running:
        attempt.release()
        return None
    attempt.has_effect = not calls.only_reads(tool)
    return attempt


@asynccontextmanager
async def running_unchanged(
    session: AsyncSession, calls: RecordedCalls, tool: Tool, pauses: Pauses = ()
) -> AsyncGenerator[AsyncAttempt | None, None]:
    """Run a call as `AsyncConversation.running` does, unless it is rejected, or has changed.

    Then there is no attempt, and the call is to be found again.
    """
    try:
        attempt = await begin_unchanged(session, calls, tool)
        if attempt is None:
            yield None
            return
        async with recording_end(session, attempt, pauses):
            yield attempt
    finally:
        calls.begun.discard(tool.id)
    if isinstance(attempt.tool.status, Completed | Failed):
        calls.note_end(attempt.tool)


def blocking_chat(chat: Conversation | AsyncConversation) -> Conversation:
    """Return the conversation for blocking functions."""
    return chat if isinstance(chat, Conversation) else chat.blocking


def awaited_chat(chat: Conversation | AsyncConversation) -> AsyncConversation:
    """Return the conversation for asyncio.

    Raises:
        TypeError: the conversation is one of an `EventStore`.
    """
    if isinstance(chat, Conversation):
        raise TypeError(f"chat is {chat!r}: for asyncio open the log with AsyncEventStore")
    return chat


def _of_call(needs_approval: NeedsApproval) -> Callable[[Tool], bool]:
    if callable(needs_approval):
        return needs_approval
    names = frozenset(needs_approval)
    return lambda tool: tool.call.name in names


def _is_own(event: MessageAdded) -> bool:
    """Return whether words are a text that the library put into a prompt."""
    return bool(event.parts) and all(
        isinstance(part, Text) and is_own_text(part.text) for part in event.parts
    )


def _id_in_framework(tool: Tool) -> str:
    return tool.provider_call_id or tool.id


def is_done(turns: Sequence[Turn]) -> bool:
    """Return whether there is nothing to go on with: the model has had the last word."""
    shown = [turn for turn in turns if not turn.hidden]
    if not shown:
        return True
    last = shown[-1]
    return last.role == "assistant" and all(call.hidden for call in last.calls)


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


def first_seen(tool: Tool) -> Revision:
    """Return what a framework shows of a call that has not started: what the model asked for."""
    return Revision.of(tool.call, 0, 0)


def seen_unedited(tool: Tool) -> Revision:
    """Return what a framework shows of a call when it gives no sign of when it asked."""
    return Revision.of(tool.call, tool.attempts, tool.pauses)


def host_edit(tool: Tool, given: Any) -> JsonObject | None:
    """Return the arguments that the host's code has for a call, where the log has others.

    They are no edit of a call that has been edited, started or paused meanwhile: the host's code
    has not seen it as it is.
    """
    if given == tool.call.arguments or tool.revision != first_seen(tool):
        return None
    edited: JsonObject = given
    return edited


def shown_revision(tool: Tool, edited: JsonObject | None) -> Revision:
    """Return what is seen of a call that is shown with its arguments in force, or `edited` ones."""
    if edited is None:
        return tool.revision
    call = FunctionCall.of(tool.call.name, edited, tool.id)
    return Revision.of(call, tool.attempts, tool.pauses)


def seen_at_pause(tool: Tool) -> Revision:
    """Return what is to be seen of a running call when its attempt pauses now."""
    return Revision.of(tool.effective_call, tool.attempts, tool.pauses + 1)


def shown_text(answer: Answer) -> str:
    """Return an answer as text, with the line that the library adds."""
    return answer.text if answer.note is None else f"{answer.text}\n{answer.note}"


def validation_failure(error: BaseException) -> Failure:
    """Return the failure of a call whose arguments were refused."""
    return Failure.from_exception(error, classifier=lambda _: ErrorKind.VALIDATION)
