"""`Conversation`: one stream of the log, and the verbs of a tool call's life."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from eventstore.codec import decode
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    SilentAttempt,
    UnknownCall,
    UnparsedArguments,
)
from eventstore.events import (
    Event,
    MessageAdded,
    Recorded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
)
from eventstore.failure import ErrorKind, Failure
from eventstore.message import ROLES, Part, as_parts
from eventstore.numbers import check_version, is_number
from eventstore.recovery import unknown_outcome
from eventstore.state import mint
from eventstore.tool import FunctionCall, FunctionResponse, Running, Tool, evolve

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy import Connection

    from eventstore.appending import Appender
    from eventstore.following import Follow, Stop
    from eventstore.importing import Imported
    from eventstore.state import ConversationState
    from eventstore.store import EventStore
    from eventstore.task import Task

Decide = Callable[["ConversationState"], Sequence[Event]]

_EVENTS = frozenset(get_args(Event))

NO_RESULT = Failure(ErrorKind.INTERNAL, "the attempt ended without a result", code="no_result")
"""What is recorded of an attempt whose block ended without `complete()` or `fail()`."""


class Conversation:
    """One conversation: append to it, read it. Handles are cheap and may be shared.

    Every verb is one durable, atomic append, checked against the state it really follows, and
    returns the call as it then stands. On an error nothing is written.
    """

    durable = True
    """Whether what was appended is on disk: inside a host's transaction it is when that commits."""

    def __init__(
        self, store: EventStore, conversation_id: str, appender: Appender | None = None
    ) -> None:
        self._store = store
        self.id = conversation_id
        self._appender = appender = appender or store.appender
        # Append one call's event, and give the call as it then stands.
        self._one = partial(appender.tool, conversation_id)

    def __repr__(self) -> str:
        return f"<Conversation {self.id!r}>"

    # reading

    def events(self, after: int = 0) -> Iterator[Recorded]:
        """The events after a version, in order, in bounded memory.

        Raises:
            ValueError: `after` is no version.
        """
        check_version("after", after)
        return self._appender.events(self.id, after)

    @property
    def version(self) -> int:
        """The version of the last event; 0 before the first."""
        return self._appender.version(self.id)

    @property
    def tools(self) -> dict[str, Tool]:
        """Every call by its id, as it stands in the log now."""
        tools: dict[str, Tool] = {}
        for recorded in self.events():
            event = recorded.event
            if isinstance(event, ToolEvent):
                try:
                    tool = evolve(
                        tools.get(event.call_id), event, recorded.recorded_at, recorded.fingerprint
                    )
                except IllegalTransition:
                    continue  # a damaged or foreign log; `verify` names the event
                tools[event.call_id] = tool
        return tools

    def follow(
        self,
        after: int = 0,
        *,
        stop: Stop | None = None,
        timeout: float | None = None,
        poll: float = 0.05,
    ) -> Follow[int]:
        """The events after a version, and then those to come; see `EventStore.follow`."""
        from eventstore.following import ConversationSource, Follow, Following  # noqa: PLC0415

        source = ConversationSource(self._store, self.id, after)
        return Follow(Following(self._store, source, stop, timeout, poll))

    def decision(self, call_id: str, timeout: float | None = None, *, poll: float = 0.25) -> Tool:
        """Wait until a call is approved or rejected, in whatever process; the call, then.

        A call that runs already, or has ended, waits for nobody and is given at once. Decisions
        of this process come at once, those of others within `poll` seconds.

        Raises:
            TimeoutError: nobody has decided within `timeout` seconds.
            UnknownCall: the conversation has no such call.
        """
        from eventstore.following import Decision, wait  # noqa: PLC0415

        decision = Decision(self._store, self.id, call_id, timeout, poll)
        wait(decision)
        return decision.made

    # appending

    def append(
        self,
        *events: Event,
        expected_version: int | None = None,
        event_ids: Sequence[UUID | str | bytes] | None = None,
        connection: Connection | None = None,
    ) -> list[Recorded]:
        """Append events, all or none; those that repeat what is so already are left out.

        Calls and assistant messages that name no turn are given the next one, and calls
        without an id an id.

        With `event_ids` (a UUID each) the append may be repeated: what is stored under an id
        already is not stored again, and is returned as it was stored first.

        With `connection`, inside the host's own transaction; see `EventStore.conversation`.

        Raises:
            VersionConflict: the conversation is not at `expected_version`.
            ValueError: that is no version, or an event id no UUID.
            IllegalTransition, UnhashableArguments, UnencodableEvent: nothing was written.
        """
        if connection is not None:
            hosted = self._store.conversation(self.id, connection=connection)
            return hosted.append(*events, expected_version=expected_version, event_ids=event_ids)
        if expected_version is not None:
            check_version("expected_version", expected_version)
        events = tuple(map(_checked, events))
        ids = _event_ids(event_ids, len(events))
        unplaced = any(map(_is_unplaced, events))

        def decide(state: ConversationState) -> Sequence[Event]:
            return state.placed(events, self._mint) if unplaced else events

        def then(done: Task) -> list[Recorded]:
            if ids and len(done.recorded) < len(ids):
                wanted = {event_id.hex() for event_id in ids}
                return [recorded for recorded in self.events() if recorded.event_id in wanted]
            return done.recorded

        return self._appender.do(self.id, decide, then, expected_version, ids)

    def add_message(self, role: str, content: str | Part | Sequence[Part]) -> Recorded:
        """Add a message: text, or parts (`Text`, `Image`, `Document`, `Opaque`).

        Raises:
            ValueError: the role is not system, developer, user or assistant, or an image or a
                document has not one content of its kind.
            TypeError: the content is none.
        """
        if role not in ROLES or role == "tool":
            raise ValueError(
                f"role is {role!r}: pass system, developer, user or assistant "
                "(a tool's answer is complete() or fail())"
            )
        parts = as_parts(content)  # type: ignore[arg-type]

        def decide(state: ConversationState) -> Sequence[Event]:
            turn = state.turn + 1 if role == "assistant" else None
            return (MessageAdded(role, parts, turn),)

        return self._appender.do(self.id, decide, lambda done: done.recorded[0])

    def request(self, name: str, arguments: Any = None, call_id: str | None = None) -> Tool:
        """Record that the model asks for a call: pending. Calls in a row share a turn.

        `arguments` is a JSON object or its text. Without `call_id` one is minted; asking again
        with the same id and arguments changes nothing.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"a tool's name is text and not empty, got {name!r}")
        if call_id is not None and (not isinstance(call_id, str) or not call_id):
            raise ValueError(f"call_id is {call_id!r}: pass text, or None to have one minted")

        def decide(state: ConversationState) -> Sequence[Event]:
            turn, index = state.next_turn()
            minted = call_id or self._mint(turn, index, state.known)
            return (ToolPending(FunctionCall.of(name, arguments, minted), call_id, turn, index),)

        return self._one(decide)

    def approve(
        self,
        call_id: str,
        edited_arguments: dict[str, Any] | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Tool:
        """Allow a call, with edited arguments in force from now on where they are given."""

        def decide(state: ConversationState) -> Sequence[Event]:
            tool = self._known(state, call_id)
            edit = None
            if edited_arguments is not None:
                edit = FunctionCall.of(tool.call.name, edited_arguments, call_id)
            return (ToolApproved(call_id, edit, by, reason),)

        return self._one(decide)

    def reject(
        self,
        call_id: str,
        reason: str | None = None,
        source: str = "human",
        by: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Tool:
        """Refuse a call, for good. `source`: human, gate, hook, rule, limit or sibling."""
        return self._one(
            lambda state: (
                ToolRejected(self._known(state, call_id).id, reason, source, by, details),
            )
        )

    def start(self, call_id: str, attempt: int | None = None) -> Tool:
        """Record that an attempt begins, before it does; the arguments are in `status`.

        Of two workers that start one call, one gets it and the other `IllegalTransition`. A call
        whose former attempt has no recorded end is only started with that `attempt`'s successor
        named: its outcome is unknown, and it may have taken effect.
        """

        def decide(state: ConversationState) -> Sequence[Event]:
            tool = self._known(state, call_id)
            if attempt is None and type(tool.status) is Running:
                raise IllegalTransition(
                    "Running", "running", call_id,
                    f"attempt {tool.attempts} has no recorded end, it may have taken effect; "
                    f"to run it all the same pass attempt={tool.attempts + 1}",
                )  # fmt: skip
            call = tool.effective_call
            number = tool.attempts + 1 if attempt is None else attempt
            return (ToolRunning(call_id, number, call.arguments),)

        return self._one(decide)

    def complete(self, call_id: str, result: Any, *, synthetic: bool = False) -> Tool:
        """Record a call's result: any value. `synthetic`: no tool ran, somebody answered for it.

        A `Text`, `Image` or `Document`, or a list of them, is shown to the model as what it is.
        """
        return self._complete(call_id, result, synthetic=synthetic)

    def fail(
        self,
        call_id: str,
        error: BaseException | Failure | str,
        *,
        delay: float | None = None,
    ) -> Tool:
        """Record that an attempt failed; `delay` is the wait in seconds before the next one."""
        return self._fail(call_id, error, delay)

    @contextmanager
    def running(self, call_id: str, attempt: int | None = None) -> Iterator[Attempt]:
        """Run a call: started durably on entry, and its end recorded on exit.

        An exception is recorded as the failure and raised again; so are Ctrl-C, cancellation
        and timeouts, after which nobody knows whether the call took effect. After `complete()`
        nothing is: the tool did its work, and where that could not be recorded, the attempt
        stays open.

        Raises:
            SilentAttempt: the block ended without `complete()` or `fail()`.
        """
        run = Attempt(self, self.start(call_id, attempt))
        try:
            yield run
        except BaseException as error:
            if not run.ended:
                try:
                    run.fail(error)
                except EventStoreError as unrecorded:
                    error.add_note(
                        f"the failure of call {call_id!r} was not recorded: {unrecorded}"
                    )
            raise
        if not run.ended:
            run.fail(NO_RESULT)
            raise SilentAttempt(call_id)

    def record(self, message: Any, provider: str = "openai") -> list[Tool]:
        """Record a provider's message: a dict, or the SDK's own object.

        Of a whole response, the message in it; of a whole request, its list. Returns the calls
        that it makes (pending) or answers. See `record_messages`.
        """
        given = message if isinstance(message, dict) else [message]
        return self._record(given, provider, None, None, imported=False)

    def record_messages(
        self,
        messages: Sequence[Any] | dict[str, Any],
        provider: str = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool] | None = None,
    ) -> list[Tool]:
        """Record messages in a provider's form, as one append.

        Ids that the provider repeats, leaves out or leaves empty are qualified or minted, the
        same on both halves. A result that answers no call is kept as text. `is_error` tells of
        a result, as its provider wrote it, whether it is a failure, `is_rejection` whether a
        person refused the call. Of a whole request, its list is recorded.

        Returns the calls that they make or answer, in order.

        Raises:
            ValueError: the calls, or results, are in another provider's form.
        """
        return self._record(messages, provider, is_error, is_rejection, imported=True)

    def import_messages(
        self,
        messages: Iterable[Any] | dict[str, Any],
        provider: str = "openai",
        *,
        is_error: Callable[[Any], bool] | None = None,
        is_rejection: Callable[[Any], bool] | None = None,
        started: RunStarted | None = None,
    ) -> Imported:
        """Record a whole history, from its first message: what is there already is passed over.

        The same messages again add nothing, a longer list adds its tail, and what was broken off
        goes on. Long histories are appended in batches, each whole. `started` becomes the first
        event of a conversation that is new. All else is as in `record_messages`.

        Raises:
            ImportConflict: the conversation holds other messages; none were added.
            ValueError: the calls, or results, are in another provider's form.
        """
        from eventstore.importing import Import  # noqa: PLC0415 - loads the wires

        tests = (is_error, is_rejection)
        return Import(self._store, self.id, provider, *tests, started).extend(messages)

    # drivers

    def _record(
        self,
        messages: Sequence[Any] | dict[str, Any],
        provider: str,
        is_error: Callable[[Any], bool] | None,
        is_rejection: Callable[[Any], bool] | None,
        *,
        imported: bool,
    ) -> list[Tool]:
        from eventstore.wire import (  # noqa: PLC0415 - likewise
            MESSAGES,
            compact,
            parse_own,
            transcribe,
        )

        place = MESSAGES if imported else "the message"
        given = parse_own(messages, provider, is_error, is_rejection, place)
        items = [compact(item, provider) for item in given]

        def decide(state: ConversationState) -> Sequence[Event]:
            return transcribe(
                items, state, self._mint, lambda: self.tools, provider, imported=imported
            ).events

        return self._appender.tools(self.id, decide)

    def _mint(self, turn: int, index: int, taken: AbstractSet[str]) -> str:
        return mint(self.id, turn, index, taken)

    def _known(self, state: ConversationState, call_id: str) -> Tool:
        entry = state.open.get(call_id)
        if entry is not None:
            return entry[0]
        if call_id not in state.known:
            raise UnknownCall(call_id, self.id)
        if call_id in state.settling:
            return state.settling[call_id]
        return self._appender.settled(self.id, {call_id})[call_id]

    def _complete(
        self,
        call_id: str,
        result: Any,
        *,
        attempt: int | None = None,
        duration: int | None = None,
        synthetic: bool = False,
    ) -> Tool:
        def decide(state: ConversationState) -> Sequence[Event]:
            tool = self._known(state, call_id)
            number = tool.attempts if attempt is None else attempt
            response = FunctionResponse(tool.call.name, result, call_id)
            return (ToolCompleted(call_id, response, number, duration, synthetic),)

        return self._one(decide)

    def _fail(
        self,
        call_id: str,
        error: BaseException | Failure | str,
        delay: float | None,
        *,
        attempt: int | None = None,
        duration: int | None = None,
    ) -> Tool:
        failure, wait = failure_of(error), _microseconds(delay)

        def decide(state: ConversationState) -> Sequence[Event]:
            tool = self._known(state, call_id)
            if attempt not in (None, tool.attempts):  # the next one may well be under way
                raise IllegalTransition(
                    tool.status.name, "failed", call_id,
                    f"attempt {attempt} is not the last, which is {tool.attempts}",
                )  # fmt: skip
            return (ToolFailed(call_id, failure, tool.attempts, duration, wait),)

        return self._one(decide)


class Begun:
    """An attempt that has begun: what is known of it."""

    def __init__(self, tool: Tool) -> None:
        self._began = time.monotonic_ns()
        self.number = tool.attempts
        """Which attempt this is, from 1."""
        self.tool = tool
        self.ended = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments in force, the caller's own copy.

        Raises:
            UnparsedArguments: what the model wrote is no JSON object.
        """
        call = self.tool.effective_call
        if call.raw is not None:
            raise UnparsedArguments(self.tool.id, call.raw)
        return msgspec.to_builtins(call.arguments)  # type: ignore[no-any-return]

    def _took(self) -> int:
        return (time.monotonic_ns() - self._began) // 1000


class Attempt(Begun):
    """One attempt under way: `arguments` to run the tool with, then `complete` or `fail`."""

    def __init__(self, conversation: Conversation, tool: Tool) -> None:
        super().__init__(tool)
        self._conversation = conversation

    def complete(self, result: Any) -> Tool:
        """Record the result."""
        # The tool has done its work: if that cannot be recorded now, it has still not failed.
        self.ended = True
        self.tool = self._conversation._complete(  # noqa: SLF001
            self.tool.id, result, attempt=self.number, duration=self._took()
        )
        return self.tool

    def fail(self, error: BaseException | Failure | str, *, delay: float | None = None) -> Tool:
        """Record the failure; `delay` is the wait in seconds before the next attempt."""
        self.tool = self._conversation._fail(  # noqa: SLF001
            self.tool.id, error, delay, attempt=self.number, duration=self._took()
        )
        self.ended = True
        return self.tool


def failure_of(error: BaseException | Failure | str) -> Failure:
    """The failure that is recorded for an error; its code says where the outcome is unknown."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, BaseException):
        if isinstance(error, UnparsedArguments):
            return Failure(ErrorKind.VALIDATION, str(error))
        failure = Failure.from_exception(error)
        code = unknown_outcome(error)
        return msgspec.structs.replace(failure, code=code) if code else failure
    return Failure(ErrorKind.INTERNAL, str(error))


def _microseconds(delay: float | None) -> int | None:
    if delay is None:
        return None
    if not is_number(delay) or not 0 <= delay < math.inf:
        raise ValueError(f"delay is {delay!r}: pass seconds, 0 or more")
    return round(delay * 1_000_000)


def _checked(event: Any) -> Any:
    """An event; one kept as unknown is what it is, where this version can read it."""
    kind = type(event)
    if kind is UnknownEvent:
        event = decode(event.tag, event.schema, event.payload)
    elif kind not in _EVENTS:
        raise TypeError(f"append() takes events, got {event!r}: pass for example ToolFailed")
    if kind is ToolPending and type(event.call) is not FunctionCall:
        raise TypeError(f"ToolPending takes a FunctionCall, got {event.call!r}")
    return event


def _is_unplaced(event: Event) -> bool:
    if type(event) is ToolPending:
        return event.turn is None or not event.call.id
    return type(event) is MessageAdded and event.role == "assistant" and event.turn is None


def _event_ids(given: Sequence[UUID | str | bytes] | None, count: int) -> list[bytes]:
    if given is None:
        return []
    ids = [_event_id(event_id) for event_id in given]
    if len(ids) != count or len(set(ids)) != count:
        raise ValueError(f"{len(set(ids))} distinct event_ids for {count} events: pass one each")
    return ids


def _event_id(given: UUID | str | bytes) -> bytes:
    from uuid import UUID  # noqa: PLC0415 - seldom needed, and slow to load

    try:
        raw = (
            given
            if isinstance(given, bytes)
            else (given.bytes if isinstance(given, UUID) else UUID(given).bytes)
        )
    except (ValueError, AttributeError, TypeError):
        raw = b""
    if len(raw) != 16:  # noqa: PLR2004 - a UUID
        raise ValueError(f"event id {given!r} is no UUID: pass for example uuid.uuid4()")
    return raw
