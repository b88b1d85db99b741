"""`Command`: one append as a value; `PendingAppend`: a command on its way to its outcome.

A command says what to append, decided on the state that the append really follows, and what its
caller gets. It does nothing by itself: a session runs it, blocking or awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from eventstore.append.conversation_state import (
    ConversationState,
    StagedEvents,
    detached_copy,
    detached_event,
)
from eventstore.append.door import Door
from eventstore.append.encryption import encrypted, marked
from eventstore.append.event_ids import event_ids
from eventstore.append.salts import salts
from eventstore.append.staging import stage_events
from eventstore.append.tool_fold import LookUp, fold_tools
from eventstore.domain.copies import copy_id
from eventstore.domain.events import (
    Event,
    Recorded,
    ToolCompleted,
    ToolEndedLate,
    ToolEvent,
    ToolFailed,
    ToolRejected,
)
from eventstore.domain.fingerprint import render
from eventstore.domain.hook_answers import HookAnswer
from eventstore.domain.tool import Tool
from eventstore.domain.wording import Wording, with_wording
from eventstore.errors import VersionConflict
from eventstore.storage.interface import Appended, Draft, Rewrite
from eventstore.subjects.tags import Tag
from eventstore.subjects.vault import Vault

_ENDS = frozenset({ToolCompleted, ToolFailed, ToolRejected})

T_co = TypeVar("T_co", covariant=True)

Decide = Callable[[ConversationState, LookUp], Sequence[Event]]
"""Returns what is to be appended to a conversation in this state.

It is called again when other processes have appended meanwhile, so it must be pure. Calls that
are settled are not in the state: the second argument looks them up in the log.
"""

ReadLog = Callable[[str], Iterator[Recorded]]
"""Reads the events of a conversation, as the append would see them."""


class IdentifiedEvents(list[Event]):
    """Events with the ids that they are to be stored under, and their times at their source.

    Without `event_ids` they get those of the command, or new ones; `are_copies` says which of them
    are new ones of copies. `times` are in microseconds.
    """

    def __init__(
        self,
        events: Sequence[Event],
        event_ids: Sequence[bytes] = (),
        times: Sequence[int | None] = (),
        are_copies: Sequence[bool] = (),
    ) -> None:
        super().__init__(events)
        self.event_ids = event_ids
        self.times = times
        self.are_copies = are_copies

    def marked(self, ids: list[bytes]) -> list[bytes]:
        """Return new ids for the events, those of copies as such."""
        if not self.are_copies:
            return ids
        pairs = zip(ids, self.are_copies, strict=True)
        return [copy_id(each) if is_copy else each for each, is_copy in pairs]


class Command(msgspec.Struct, Generic[T_co], frozen=True, eq=False):
    """One append to a conversation, and the selector of its result."""

    conversation_id: str
    decide: Decide
    result: Callable[[PendingAppend], T_co]
    """Selects the caller's result from the finished append."""
    expected_version: int | None = None
    event_ids: Sequence[bytes] = ()
    exclusive: bool = False
    """Its decision looks things up in the log, so that it shares no transaction with others."""
    rewrites: Sequence[Rewrite] = ()
    """What is redacted with it; see `Append`."""
    tags: Sequence[Tag] = ()
    """The persons that its events are about."""
    vault: Vault | None = None
    """What encrypts the events that have a tag."""

    def about(self, tags: Sequence[Tag], vault: Vault | None) -> Command[T_co]:
        """Return the command whose events have these tags, too, and are encrypted with a vault."""
        return replace(self, tags=(*self.tags, *tags), vault=vault)

    def worded(self, wording: Wording | None) -> Command[T_co]:
        """Return the command whose event, the end of a call, says what the model was told of it."""
        if wording is None:
            return self

        def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
            events = self.decide(state, look_up)
            return [with_wording(e, wording) if type(e) in _ENDS else e for e in events]

        return replace(self, decide=decide)

    def with_hooks(self, hooks: tuple[HookAnswer, ...]) -> Command[T_co]:
        """Return the command whose first event says what hooks answered before it."""

        def decide(state: ConversationState, look_up: LookUp) -> Sequence[Event]:
            first, *others = self.decide(state, look_up)
            return (replace(first, hooks=hooks), *others)

        return replace(self, decide=decide)


class Wakeup(Protocol):
    """A `threading.Lock`."""

    def release(self) -> None:
        """Let the thread that waits for the lock continue."""


_UNREAD = ConversationState("", 0)


class PendingAppend(msgspec.Struct, eq=False):
    """One append: decided on a state, and again on a newer one; then its outcome."""

    clock: Callable[[], int]
    read_log: ReadLog
    command: Command[Any]
    enqueued_at: float = inf
    """When it was asked for, by the monotonic clock, in seconds."""
    state: ConversationState = _UNREAD
    stored_ids: AbstractSet[bytes] = frozenset()
    """Which of the ids that its command gives the log holds already."""
    events: Sequence[Event] = ()
    staged: StagedEvents | None = None
    appended: Appended | None = None
    finished: bool = False
    error: BaseException | None = None
    wakeup: Wakeup | None = None
    """Lock that blocks the calling thread until its append is done, or its turn to lead comes."""
    leads: bool = False
    """Leadership was handed to it."""
    door: Door | None = None
    """The rules of the store for what is stored."""

    def __repr__(self) -> str:
        # `deque.remove` formats what it does not find: never a caller's values, whose `__repr__`
        # may raise, or nest too deeply.
        return f"<{type(self).__name__} to {self.command.conversation_id!r}>"

    def wake(self) -> None:
        """Let the calling thread continue."""
        if self.wakeup is not None:
            with suppress(RuntimeError):  # it was woken before
                self.wakeup.release()

    def finish(self, outcome: Appended | BaseException) -> None:
        """Note the outcome, and let the calling thread continue."""
        if isinstance(outcome, Appended):
            self.appended = outcome
            self.state.as_of = max(self.state.as_of, outcome.position)
        else:
            self.error = outcome
        self.finished = True
        self.wake()

    @property
    def stores_events(self) -> bool:
        """Whether it was decided to store any; otherwise the log has them already."""
        return self.staged is not None and bool(self.staged.drafts)

    # the result

    def recorded(self) -> list[Recorded]:
        """Return what was written, with its position in the log."""
        if self.appended is None or self.staged is None:
            return []
        return _recorded(self.command.conversation_id, self.staged, self.appended)

    def tool(self) -> Tool:
        """Return the one call that it was about, as it then stands."""
        if self.staged is not None:
            for entry in self.staged.tools.values():
                return detached_copy(entry.tool)
        return self.tools()[0]

    def tools(self) -> list[Tool]:
        """Return each call that its events name, as it then stands."""
        of_calls = (e for e in self.events if isinstance(e, ToolEvent | ToolEndedLate))
        names = dict.fromkeys(event.call_id for event in of_calls)
        changed = self.staged.tools if self.staged else {}
        tools = {name: entry.tool for name, entry in changed.items()}
        # A call that its event did not change is as the state has it.
        tools.update((n, e.tool) for n in names if n not in tools and (e := self.state.open.get(n)))
        if missing := set(names) - set(tools):
            tools |= self.look_up(missing)
        return [detached_copy(tools[name]) for name in names]

    # deciding

    def stage(self) -> Sequence[Draft]:
        """Decide on the state as it is, and return the drafts to store.

        Raises:
            VersionConflict: the conversation is not at the expected version.
            EventStoreError: the decision is refused; see `staging`.
        """
        state, command = self.state, self.command
        vault = command.vault
        ids, expected = command.event_ids, command.expected_version
        if ids and self.stored_ids >= set(ids):
            self.events, self.staged = (), None
            return ()
        if expected is not None and expected != state.version:
            raise VersionConflict(expected, state.version)
        at = state.now = self.clock()
        state.door = self.door
        events = self.events = command.decide(state, self.look_up)
        given = True
        times: Sequence[int | None] = ()
        if isinstance(events, IdentifiedEvents):
            ids, times = events.event_ids or ids, events.times
        if not events:
            ids = ()
        if not ids:
            ids, given = event_ids(len(events), at), False
            if isinstance(events, IdentifiedEvents):
                ids = events.marked(ids)
        elif self.stored_ids and ids is command.event_ids:
            new = [n for n, event_id in enumerate(ids) if event_id not in self.stored_ids]
            events, ids = [events[n] for n in new], [ids[n] for n in new]
            times = [times[n] for n in new] if times else ()
        staged = self.staged = stage_events(
            state,
            events,
            ids,
            at,
            self.look_up,
            ids_given=given,
            times=times,
            salts=salts(len(events)),
            mark=None if vault is None else partial(marked, vault, command.tags),
        )
        if vault is None:
            return staged.drafts
        return encrypted(vault, command.conversation_id, command.tags, staged)

    def rebase(self, tail: Sequence[Recorded]) -> Sequence[Draft]:
        """Decide again after events that others have appended."""
        self.take_in(tail)
        return self.stage()

    def join(self, tail: Sequence[Recorded]) -> Sequence[Draft]:
        """Decide after other appends of the same transaction, as if they were committed."""
        drafts = self.rebase(tail)
        if self.staged is not None:
            self.state.apply_uncommitted(self.staged)
        return drafts

    def take_in(self, tail: Iterable[Recorded]) -> bool:
        """Bring the state up to date; return whether there was anything new."""
        before, stored = self.state.version, set(self.stored_ids)
        for recorded in tail:
            self.state.extend((recorded,))
            if self.command.event_ids:
                stored.add(bytes.fromhex(recorded.event_id))
        self.stored_ids = stored
        return self.state.version != before

    def log(self) -> Iterator[Recorded]:
        """Return the events of the conversation, as the append sees them."""
        return self.read_log(self.command.conversation_id)

    def look_up(self, call_ids: AbstractSet[str] | None = None) -> dict[str, Tool]:
        """Return calls of the conversation from the log: settled ones are not in the state."""
        return fold_tools(self.log(), call_ids)


def _recorded(conversation_id: str, staged: StagedEvents, appended: Appended) -> list[Recorded]:
    recorded: list[Recorded] = []
    drafts = staged.drafts
    position, version = appended.position - len(drafts), appended.version - len(drafts)
    digest: bytes | None = None
    fingerprint: str | None = None
    for staged_event, draft in zip(staged.events, drafts, strict=True):
        position += 1
        version += 1
        event: Any = staged_event
        if draft.fingerprint is not digest:  # events of a call share it
            digest = draft.fingerprint
            fingerprint = None if digest is None else render(digest)
        if digest is not None:
            event = detached_event(event, draft, staged.tools)
        recorded.append(
            Recorded(
                appended.lane,
                position,
                conversation_id,
                version,
                draft.event_id.hex(),
                draft.recorded_at,
                getattr(event, "call_id", None),
                fingerprint,
                event,
                draft.occurred_at,
            )
        )
    return recorded
