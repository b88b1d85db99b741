"""The calls of one conversation, by the ids that a framework has for them, and the next prompt.

`RecordedCalls` is for blocking hooks, `AsyncRecordedCalls` for those that are awaited.

1. A call that has completed, failed or been rejected gives its recorded answer. One that was
   started and has no recorded end gives the answer "outcome unknown". `chat.complete` or
   `chat.fail` settle it.
2. A call of the response that was just recorded is not read before it starts, unless it needs a
   decision. `call_starts` says when a call runs.
3. A text of the library that a framework hands back is not an answer: a call stays as it is until
   something happens to it.
4. While another worker executes a call, a resume does nothing, and raises `CallUnderWay`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias, TypeVar

from eventstore.agent_errors.response_failed import ResponseFailed
from eventstore.aio.conversation import AsyncConversation
from eventstore.append.command import Command
from eventstore.append.commands import attempts, decisions
from eventstore.conversation import Conversation
from eventstore.domain.failure import ErrorKind, Failure
from eventstore.domain.own_texts import is_own_text
from eventstore.domain.recovery import has_expired
from eventstore.domain.statuses import Approved
from eventstore.domain.wording import later_words
from eventstore.integrations.call_starts import CallStarts, awaits_attempt
from eventstore.integrations.host_answers import EDITED, first_seen
from eventstore.integrations.words_said import WordsSaid
from eventstore.leases.under_way import check_not_under_way
from eventstore.policies.prices import priced
from eventstore.provider_messages.record import record_turn
from eventstore.providers.registry import list_key
from projections import model_history

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractAsyncContextManager

    from eventstore.aio.attempt import AsyncAttempt
    from eventstore.append.commands.decisions import Seen
    from eventstore.attempt import Pauses
    from eventstore.domain.events import ModelResponded
    from eventstore.domain.json_types import JsonObject
    from eventstore.domain.messages import Part
    from eventstore.domain.tool import Tool
    from eventstore.domain.wording import Wording
    from eventstore.integrations.words_said import SelectNew
    from eventstore.providers.model import Answer, NativeMessage, ParsedCall, Turn
    from eventstore.providers.registry import AnyProvider


P = ParamSpec("P")
T = TypeVar("T")

NeedsApproval: TypeAlias = "Collection[str] | Callable[[Tool], bool]"
"""The names of tools, or what says of a call whether a person has to decide on it."""


async def record_response(
    chat: AsyncConversation, response: object, provider: AnyProvider, latency: float | None
) -> list[Tool]:
    """Record a response that a framework tells of, and return its calls.

    What the host is told of one that failed is up to the framework.
    """
    try:
        return await chat.record(response, provider, latency=latency)
    except ResponseFailed:
        return []


class RecordedCalls:
    """The calls of a conversation: recorded turn by turn, found by the framework's ids.

    `needs_approval` names the tools whose calls the model is told to wait for a person, or tells it
    of a call. `CallStarts` has `read_only` and `begun`.
    """

    def __init__(
        self,
        chat: Conversation | AsyncConversation,
        framework: str,
        needs_approval: NeedsApproval = (),
        read_only: Collection[str] = (),
        begun: set[str] | None = None,
    ) -> None:
        self._chat = blocking_chat(chat)
        self.starts = CallStarts(self._chat, read_only, begun)
        self._needs_approval = _of_call(needs_approval)
        self._framework = framework
        self._ids: dict[str, str] = {}  # of the framework -> of the log, the latest
        self.unworded: dict[str, tuple[str, str | None]] = {}
        """Calls of which others may still say what the model is told, by the framework's ids.

        Each with its id in the log, and what that tells of it.
        """
        self._new: dict[str, Tool] = {}  # of the last response, as recorded, by the framework's ids

    # what the framework's ids mean

    def recording(
        self,
        response_id: str,
        parts: Sequence[Part],
        calls: Sequence[ParsedCall],
        native: NativeMessage | None,
        responded: ModelResponded | None = None,
        step: str | None = None,
    ) -> Command[list[Tool]]:
        """Return the append of a model's response and its calls, once for each `response_id`.

        Its calls are to be taken in by `know`.
        """
        if responded is not None:
            responded = priced(responded, self._chat.session.prices)
        name = response_id.encode()
        return record_turn(
            self._chat.id, parts, calls, self._framework, native, name, responded, step
        )

    def know(self, tools: Iterable[Tool]) -> None:
        """Take in the calls of a response that was just recorded.

        The framework's ids mean these from now on.
        """
        self._new = {id_in_framework(tool): tool for tool in tools}
        self._ids.update((call_id, tool.id) for call_id, tool in self._new.items())

    def take_new(self, call_id: str) -> Tool | None:
        """Return a call of the last response as it was recorded; None from the second time on."""
        return self._new.pop(call_id, None)

    def find(self, call_id: str) -> Tool | None:
        """Return the latest call to which the framework gave this id, or None."""
        known = self._ids.get(call_id)
        if known is not None:
            return self.now(known)
        tool = next(self._with_id(call_id), None)
        if tool is not None:
            self._ids[call_id] = tool.id
        return tool

    def find_made(self, call_id: str, name: str, arguments: object) -> Tool | None:
        """Return the latest call with this id of the framework's, and this name and arguments.

        Runs of a graph that share a conversation may give one id to several calls.
        """
        arguments = self._chat.session.covered(arguments)
        for tool in self._with_id(call_id):
            known = (tool.call.arguments, tool.effective_call.arguments)
            if tool.call.name == name and arguments in known:
                return tool
        return None

    def _with_id(self, call_id: str) -> Iterator[Tool]:
        """Yield the calls with this id of the framework's, the latest first."""
        for tool in reversed(self._chat.tools.values()):
            if call_id in (tool.provider_call_id, tool.id):
                yield tool

    def worded(self, answers: Mapping[str, str]) -> Command[None] | None:
        """Return the append of what the model is told of calls that have ended, if it is other.

        `answers` are the texts of a request, by the framework's ids.
        """
        if not self.unworded:
            return None
        asked = [call_id for call_id in answers if call_id in self.unworded]
        known = [(*self.unworded.pop(call_id), answers[call_id]) for call_id in asked]
        events = [later_words(own_id, said) for own_id, text, said in known if text != said]
        if not events:
            return None
        return Command(self._chat.id, lambda _, __: events, lambda _: None)

    def not_ended(self, call_ids: Iterable[str]) -> list[str]:
        """Return the framework's ids of calls whose end was not recorded here."""
        ended = self.starts.ended
        return [call_id for call_id in call_ids if self._ids.get(call_id) not in ended]

    def unanswered(self, answers: Mapping[str, str]) -> dict[str, Tool]:
        """Return the calls that have neither begun nor ended, and get an answer by the framework.

        `answers` are its texts by its ids. Nothing is read of the calls that are known, however
        many have ended.
        """
        call_ids = self.not_ended(i for i, text in answers.items() if not is_own_text(text))
        if not call_ids:
            return {}
        if not self._ids.keys() >= set(call_ids):
            self._ids.update((id_in_framework(tool), tool.id) for tool in self._chat.tools.values())
        known = {call_id: self._ids[call_id] for call_id in call_ids if call_id in self._ids}
        session = self._chat.session.outside_transaction(self._chat.id)
        tools = session.open_tools(self._chat.id, known.values())
        return {
            call_id: tool
            for call_id, own_id in known.items()
            if (tool := tools.get(own_id))
            and awaits_attempt(tool)
            and not self._is_of_another(tool, call_id, answers[call_id])
        }

    def _is_of_another(self, tool: Tool, call_id: str, text: str) -> bool:
        """Return whether an answer belongs to an earlier call with the same id."""
        return any(
            other.is_resolved and shown_text(self.answer(other)) == text
            for other in self._with_id(call_id)
            if other.id != tool.id
        )

    def now(self, call_id: str) -> Tool:
        """Return a call as it stands now, by the log's id; while it is open, nothing is read."""
        session = self._chat.session.outside_transaction(self._chat.id)
        _, tool = session.tool_now(self._chat.id, call_id)
        return tool

    # the next prompt

    def turns(self) -> list[Turn]:
        """Return the turns to show the model next; each call has its answer."""
        return list(model_history(self._chat, needs_approval=self._needs_approval).turns)

    def turns_to_resume(self) -> list[Turn]:
        """Return the turns to continue from; none if the model has had the last word.

        Raises:
            CallUnderWay: see `check_no_other_worker`.
        """
        self.check_no_other_worker()
        turns = self.turns()
        return [] if is_done(turns) else turns

    def check_no_other_worker(self) -> None:
        """Check that no worker, here or elsewhere, executes a call of the conversation.

        Raises:
            CallUnderWay: one does.
        """
        now = self._chat.session.outside_transaction(self._chat.id).now()
        for tool in self._chat.tools.values():
            check_not_under_way(self._chat.id, tool, now)

    def is_approved(self, tool: Tool) -> bool:
        """Return whether a call may start on its approval, which has not expired by now."""
        now = self._chat.session.outside_transaction(self._chat.id).now()
        return isinstance(tool.status, Approved) and not has_expired(tool, now)

    def last_calls(self, turns: Sequence[Turn]) -> list[Tool]:
        """Return the calls of the last turn, as they stand now."""
        tools = self._chat.tools
        return [tools[call.id] for call in turns[-1].calls] if turns else []

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

    def answer(self, tool: Tool) -> Answer:
        """Return what the model reads as the result of a call."""
        for turn in reversed(self.turns()):
            for call in turn.calls:
                if call.id == tool.id:
                    return call.answer
        raise LookupError(f"the history does not show call {tool.id!r}")


def _awaited(
    function: Callable[Concatenate[RecordedCalls, P], T],
) -> Callable[Concatenate[AsyncRecordedCalls, P], Awaitable[T]]:
    """Return a method of `RecordedCalls` as one that is awaited, and runs in a thread."""

    async def call(self: AsyncRecordedCalls, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.session.call(lambda: function(self.blocking, *args, **kwargs))

    return call


class AsyncRecordedCalls:
    """`RecordedCalls` for asyncio.

    Raises:
        TypeError: `chat` is a conversation of an `EventStore`.
    """

    def __init__(
        self,
        chat: AsyncConversation,
        framework: str,
        needs_approval: NeedsApproval = (),
        read_only: Collection[str] = (),
        begun: set[str] | None = None,
    ) -> None:
        self._chat = awaited_chat(chat)
        self.session = chat.session
        self.blocking = RecordedCalls(chat, framework, needs_approval, read_only, begun)
        self._words = WordsSaid(chat.blocking)
        self.know = self.blocking.know

    now = _awaited(RecordedCalls.now)
    turns = _awaited(RecordedCalls.turns)
    turns_to_resume = _awaited(RecordedCalls.turns_to_resume)
    check_no_other_worker = _awaited(RecordedCalls.check_no_other_worker)
    is_approved = _awaited(RecordedCalls.is_approved)
    last_calls = _awaited(RecordedCalls.last_calls)
    items = _awaited(RecordedCalls.items)
    answer = _awaited(RecordedCalls.answer)

    async def record(
        self,
        response_id: str,
        parts: Sequence[Part],
        calls: Sequence[ParsedCall],
        native: NativeMessage | None,
        responded: ModelResponded | None = None,
        step: str | None = None,
    ) -> list[Tool]:
        """Record a model's response and its calls; see `RecordedCalls.recording`."""
        command = self.blocking.recording(response_id, parts, calls, native, responded, step)
        tools = await self.session.run(command)
        self.know(tools)
        return tools

    async def record_words(self, select: SelectNew, step: str | None = None) -> None:
        """Record what people said since the last response; see `WordsSaid.recording`."""
        await self.session.run(self._words.recording(select, step))

    async def find(self, call_id: str, *, as_recorded: bool = False) -> Tool | None:
        """Return the latest call to which the framework gave this id, or None.

        With `as_recorded`, a call of the last response is not read, and is returned as it was
        recorded. That is for calls that start at once, not for ones that need a decision.
        """
        if as_recorded and (new := self.blocking.take_new(call_id)) is not None:
            return new
        return await self.session.call(lambda: self.blocking.find(call_id))

    async def unanswered(self, answers: Mapping[str, str]) -> dict[str, Tool]:
        """Return the calls that get an answer by the framework; see `RecordedCalls.unanswered`."""
        if not self.blocking.not_ended(answers):
            return {}
        return await self.session.call(lambda: self.blocking.unanswered(answers))

    async def edit(self, tool: Tool, arguments: JsonObject) -> Tool:
        """Record that code of the host has edited a call that has not started.

        Raises:
            CallChanged: the call is no longer as the model asked for it.
        """
        seen = first_seen(tool)
        return await self._chat.approve(tool.id, arguments, reason=EDITED, seen=seen)

    async def fail(self, tool: Tool, failure: Failure, wording: Wording | None = None) -> Tool:
        """Record that a call has failed without an attempt, and what the model is told of it."""
        command = attempts.fail(self._chat.id, tool.id, failure).worded(wording)
        return await self.session.run(command)

    async def complete(self, tool: Tool, result: object, wording: Wording | None = None) -> Tool:
        """Record the answer to a call that no tool gave, and what the model is told of it."""
        command = attempts.complete(self._chat.id, tool.id, result, synthetic=True).worded(wording)
        return await self.session.run(command)

    async def reject(
        self,
        tool: Tool,
        reason: str | None,
        source: str = "human",
        by: str | None = None,
        *,
        seen: Seen | None = None,
        wording: Wording | None = None,
    ) -> Tool:
        """Record that a call is refused, as it was `seen`, and what the model is told of it."""
        command = decisions.reject(self._chat.id, tool.id, reason, source, by, seen=seen)
        return await self.session.run(command.worded(wording))

    def running(
        self, tool: Tool, pauses: Pauses = ()
    ) -> AbstractAsyncContextManager[AsyncAttempt | None]:
        """Run a call, unless it is rejected, or has changed; see `CallStarts.running`."""
        return self.blocking.starts.running_async(self.session, tool, pauses)

    async def begin(self, tool: Tool) -> AsyncAttempt | None:
        """Begin a call, unless it is rejected, or has changed since it was read: then None."""
        return await self.blocking.starts.begin_async(self.session, tool)


def blocking_chat(chat: Conversation | AsyncConversation) -> Conversation:
    """Return the conversation for blocking functions."""
    return chat if isinstance(chat, Conversation) else chat.blocking


def awaited_chat(chat: Conversation | AsyncConversation) -> AsyncConversation:
    """Return the conversation for asyncio.

    Raises:
        TypeError: it is not a conversation of an `AsyncEventStore`.
    """
    if not isinstance(chat, AsyncConversation):
        raise TypeError(
            f"chat is {chat!r}: open the log with AsyncEventStore, which serves blocking runs, too"
        )
    return chat


def _of_call(needs_approval: NeedsApproval) -> Callable[[Tool], bool]:
    if callable(needs_approval):
        return needs_approval
    names = frozenset(needs_approval)
    return lambda tool: tool.call.name in names


def id_in_framework(tool: Tool) -> str:
    """Return the framework's id of a call."""
    return tool.provider_call_id or tool.id


def is_done(turns: Sequence[Turn]) -> bool:
    """Return whether there is nothing to continue: the model has had the last word."""
    shown = [turn for turn in turns if not turn.hidden]
    if not shown:
        return True
    last = shown[-1]
    return last.role == "assistant" and all(call.hidden for call in last.calls)


def shown_text(answer: Answer) -> str:
    """Return an answer as text, with the line that the library adds."""
    return answer.text if answer.note is None else f"{answer.text}\n{answer.note}"


def validation_failure(error: BaseException) -> Failure:
    """Return the failure of a call whose arguments were refused."""
    return Failure.from_exception(error, classifier=lambda _: ErrorKind.VALIDATION)


def unknown_tool(name: str) -> Failure:
    """Return the failure of a call whose tool does not exist."""
    return Failure(ErrorKind.VALIDATION, f"there is no tool {name!r}")
