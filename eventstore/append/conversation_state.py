"""`ConversationState`: what an append must know of a conversation: its calls, and where it ends.

1. The state at a version is the fold of the events up to there, whichever process appended them.
2. A call that is settled (completed, rejected) keeps only its id here, so that a long conversation
   costs little memory. A decision that needs it again looks it up in the log.
3. An event that cannot be read, or that breaks a rule, may be a step of any call. From then on
   nothing is started.
4. What the caller gets is a copy, because the state keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from operator import methodcaller
from typing import Any

import msgspec
from msgspec import to_builtins
from msgspec.structs import force_setattr

from eventstore.append.door import Door
from eventstore.append.last_turn import LastTurn
from eventstore.append.redactions import Redactions
from eventstore.append.tool_fold import LookUp
from eventstore.domain import codec
from eventstore.domain.calls import FunctionCall
from eventstore.domain.equal_calls import SameEffect, stands_in_the_way
from eventstore.domain.events import (
    TOOL_EVENTS,
    Event,
    Recorded,
    RunStarted,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolPending,
    ToolRejected,
    ToolRunning,
    UnknownEvent,
)
from eventstore.domain.fingerprint import parse
from eventstore.domain.lifecycle import evolve
from eventstore.domain.redaction import PayloadsRedacted
from eventstore.domain.statuses import Approved, Completed, Rejected, Running, ToolStatus
from eventstore.domain.tool import Tool
from eventstore.domain.usage import UsageLimitBreach
from eventstore.errors import (
    EventStoreError,
    IllegalTransition,
    SchemaTooNew,
    StoreCorrupt,
    UnknownCall,
)
from eventstore.storage.interface import Draft


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A call, and the digest of its arguments in force."""

    tool: Tool
    digest: bytes


_SETTLED = (Completed, Rejected)  # the state does not keep calls of these statuses
_ENDS_TURN = frozenset({ToolApproved, ToolRunning, ToolCompleted, ToolRejected})
"""Events that say no more to `_follow` than that the last turn has its calls."""
_FOLLOWED = frozenset({ToolPending, UsageLimitBreach, RunStarted, PayloadsRedacted, UnknownEvent})
"""Events that say something to `_follow` besides turns and responses."""
_WITH_ARGUMENTS = frozenset({ToolPending, ToolRunning, ToolApproved})


class StagedEvents(msgspec.Struct):
    """Events that fit the state, their encoded drafts, and the calls as the events leave them."""

    events: list[Event]
    drafts: list[Draft]
    tools: dict[str, Entry]
    follows: int
    """The version of the conversation that they were decided on."""


class ConversationState:
    """The state of one conversation at `version`; `as_of` is a lane position it is current for.

    `newest` is the latest time at which an event was recorded, `now` the time of the append that is
    being decided, by the clock of the store; both are in microseconds since 1970 UTC. `door` has
    the rules of the store for what is stored, if there are any.
    """

    __slots__ = (
        "as_of",
        "breached",
        "conversation_id",
        "door",
        "doubtful",
        "known",
        "last_turn",
        "newest",
        "now",
        "open",
        "redactions",
        "settled_uncommitted",
        "steps",
        "unreadable",
        "version",
    )

    def __init__(self, conversation_id: str, as_of: int) -> None:
        self.conversation_id = conversation_id
        self.version = 0
        self.as_of = as_of
        self.newest = 0
        self.now = 0
        self.door: Door | None = None
        self.known: set[str] = set()
        """The ids of all calls."""
        self.open: dict[str, Entry] = {}
        """The calls that are not settled."""
        self.doubtful: set[str] = set()
        """The ids of those that stand in the way of an equal one; see `equal_calls`."""
        self.last_turn = LastTurn()
        self.breached: set[str] = set()
        """The axes of the usage limits that are breached in this run."""
        self.redactions = Redactions()
        self.steps: dict[str, tuple[str, ...]] = {}
        """The ids of the calls that each step of a run made; see `asked_anew`."""
        self.settled_uncommitted: dict[str, Tool] = {}
        """Calls settled by the transaction that is under way: the log does not show them yet."""
        self.unreadable: tuple[int, UnknownEvent] | None = None
        """The first event that is damaged, or of a newer schema: what it did is not known."""

    def copy(self) -> ConversationState:
        """Return the same state, to be changed independently."""
        other = ConversationState(self.conversation_id, self.as_of)
        for name in self.__slots__:
            setattr(other, name, copy(getattr(self, name)))
        return other

    # taking in what the log says, and what is being appended

    def extend(self, tail: Iterable[Recorded]) -> None:
        """Take in events of the log.

        An event that breaks the rules of a call's lifecycle is passed over, and noted as damaged,
        as one is before which others are missing: appends have kept the rules.
        """
        for recorded in tail:
            if recorded.version <= self.version:
                continue  # taken in before
            if recorded.version != self.version + 1:
                self._note_damaged(recorded, f"it follows version {self.version}")
            self.version = recorded.version
            self.newest = max(self.newest, recorded.recorded_at)
            event = recorded.event
            if recorded.redacted is not None:
                self.redactions.take_marker(recorded, recorded.redacted)
            elif recorded.locked is not None:
                self.redactions.take_locked(recorded)
            if recorded.call_id and type(event) in TOOL_EVENTS:
                self._evolve(recorded)
            self._follow(event, recorded.version, recorded.event_id)

    def _evolve(self, recorded: Recorded) -> None:
        event: Any = recorded.event
        entry = self.open.get(recorded.call_id or "")
        if entry is None and recorded.call_id in self.known:
            return  # it is settled
        try:
            tool = evolve(entry.tool if entry else None, event, recorded.time, recorded.fingerprint)
        except IllegalTransition as error:
            self._note_damaged(recorded, str(error))
            return
        if entry is None or _call_brought_by(event) is not None:
            mark = recorded.fingerprint
            digest = parse(mark) if mark else tool.effective_call.digest()
            self._keep(tool.id, Entry(tool, digest))
        else:
            self._keep(tool.id, Entry(tool, entry.digest))

    def apply_uncommitted(self, staged: StagedEvents) -> None:
        """Take in events that are stored in a transaction that is not committed yet."""
        self.apply_committed(staged, self.version + len(staged.drafts), self.as_of)
        for call_id, entry in staged.tools.items():
            if type(entry.tool.status) in _SETTLED:
                self.settled_uncommitted[call_id] = entry.tool

    def apply_committed(self, staged: StagedEvents, version: int, as_of: int) -> None:
        """Take in events that were just stored."""
        for call_id, entry in staged.tools.items():
            self._keep(call_id, entry)
        number = version - len(staged.events)
        for event, draft in zip(staged.events, staged.drafts, strict=True):
            number += 1
            if type(event) in _ENDS_TURN:
                self.last_turn.is_open = False
            else:
                self._follow(event, number, draft.event_id)
        if staged.drafts and staged.drafts[0].recorded_at > self.newest:  # they have one time
            self.newest = staged.drafts[0].recorded_at
        self.version = version
        self.as_of = as_of

    def _keep(self, call_id: str, entry: Entry) -> None:
        self.known.add(call_id)
        status = type(entry.tool.status)
        if status in _SETTLED:
            self.open.pop(call_id, None)
        else:
            self.open[call_id] = entry
            if stands_in_the_way(entry.tool):
                self.doubtful.add(call_id)
                return
        self.doubtful.discard(call_id)

    def _note_damaged(self, recorded: Recorded, why: str) -> None:
        event = recorded.event
        damaged = UnknownEvent(event.tag, event.schema, "", damage=why)
        self._note_unreadable(recorded.version, damaged)

    def _note_unreadable(self, version: int, event: UnknownEvent) -> None:
        if self.unreadable is None and event.problem is not None:
            self.unreadable = version, event

    def _follow(self, event: Event, version: int, event_id: str | bytes) -> None:
        """Take in what an event says of turns, responses, steps and limits."""
        self.last_turn.follow(event, version, event_id)
        if type(event) not in _FOLLOWED:
            return
        if type(event) is ToolPending:
            if event.step is not None:
                self.steps[event.step] = (*self.steps.get(event.step, ()), event.call_id)
        elif type(event) is UsageLimitBreach:
            self.breached.add(event.axis)
        elif type(event) is RunStarted:
            self.breached.clear()
        elif type(event) is PayloadsRedacted:
            self.redactions.take_record(event)
        elif type(event) is UnknownEvent:
            self._note_unreadable(version, event)

    # deciding

    def open_tools(self) -> Iterator[Tool]:
        """Yield the calls that are not settled."""
        return (entry.tool for entry in self.open.values())

    def tool(self, call_id: str, look_up: LookUp) -> Tool:
        """Return a call as it stands; a settled one is looked up in the log.

        Raises:
            UnknownCall: the conversation has no such call.
            StoreCorrupt, SchemaTooNew: it has none that can be read, and an event that cannot.
        """
        entry = self.open.get(call_id)
        if entry is not None:
            return entry.tool
        if call_id not in self.known:
            self.check_readable()
            raise UnknownCall(call_id, self.conversation_id)
        if call_id in self.settled_uncommitted:
            return self.settled_uncommitted[call_id]
        return look_up({call_id})[call_id]

    def leaves_doubt(self, tool: Tool) -> bool:
        """Return whether a call may have taken effect, also by a step that cannot be read."""
        is_open = type(tool.status) not in _SETTLED
        return tool.in_doubt or (is_open and self.unreadable is not None)

    def check_start(self, call_id: str) -> None:
        """Raise an error if a call must not start, for what cannot be read of the conversation.

        Raises:
            IllegalTransition, StoreCorrupt, SchemaTooNew: see `check_readable` and `Redactions`.
        """
        self.check_readable()
        entry = self.open.get(call_id)
        status = "Pending" if entry is None else entry.tool.status.name
        self.redactions.check_start(self.conversation_id, call_id, status)

    def check_readable(self) -> None:
        """Raise an error if the conversation has an event that cannot be read: nothing may start.

        Raises:
            StoreCorrupt, SchemaTooNew: it has one.
        """
        if self.unreadable is not None:
            raise _refused_start(self.conversation_id, *self.unreadable)

    def arguments_in_force(self, call_id: str) -> Any:
        """Return the arguments that an open call would run with; None for any other call."""
        entry = self.open.get(call_id)
        return None if entry is None else entry.tool.effective_call.arguments

    def tools_of_step(self, step: str, look_up: LookUp) -> list[Tool]:
        """Return the calls that a step of a run made, as they stand."""
        call_ids = self.steps.get(step, ())
        here = {i: entry.tool for i in call_ids if (entry := self.open.get(i))}
        here |= {i: tool for i in call_ids if (tool := self.settled_uncommitted.get(i))}
        if settled := set(call_ids) - here.keys():
            here |= look_up(settled)
        return [here[call_id] for call_id in call_ids if call_id in here]

    def in_the_way(self, tool: Tool, effect: SameEffect) -> Tool | None:
        """Return the call that stands in the way of `tool`, because it asks for the same."""
        others = (self.open[call_id].tool for call_id in sorted(self.doubtful))
        return effect.in_the_way(tool, others)


_copied: Callable[[Tool], Tool] = methodcaller("__copy__")
"""Three times as fast as `msgspec.structs.replace`."""


def detached_copy(tool: Tool) -> Tool:
    """Return a copy of the call: the caller may change it without changing the state."""
    status: ToolStatus = tool.status
    if type(status) in _SETTLED:
        return tool
    own = _copied(tool)
    force_setattr(own, "call", _detached_call(tool.call))
    if tool.edit is not None:
        force_setattr(own, "edit", _detached_call(tool.edit))
    if type(status) is Running:
        arguments = to_builtins(status.arguments)
        running = Running(status.attempt, arguments, status.leased_until, status.worker)
        force_setattr(own, "status", running)
    elif type(status) is Approved and status.edited_call is not None:
        edited = _detached_call(status.edited_call)
        force_setattr(own, "status", Approved(edited, status.by, status.reason))
    return own


def _detached_call(call: FunctionCall) -> FunctionCall:
    return FunctionCall(call.name, to_builtins(call.arguments), call.id, call.raw)


def detached_event(event: Any, draft: Draft, tools: Mapping[str, Entry]) -> Any:
    """Return a copy of the event for the caller; `tools` are the calls after it."""
    # The state keeps their arguments until the call is settled.
    if type(event) not in _WITH_ARGUMENTS:
        return event
    settled = type(tools[event.call_id].tool.status) in _SETTLED
    return event if settled else codec.decode(draft.tag, draft.schema, draft.payload)


def _refused_start(conversation_id: str, version: int, event: UnknownEvent) -> EventStoreError:
    """Return the error for a start in a conversation with an event that cannot be read."""
    where = f"version {version} of conversation {conversation_id!r}"
    consequence = "so that it is not known what has been started; nothing was started"
    if event.is_redacted:
        return StoreCorrupt(
            f"{where} ({event.tag!r}) has a marker of a redaction that this version did not write, "
            f"{consequence}: run `toolledger redact` for it, if you know of it"
        )
    if event.is_newer:
        return SchemaTooNew(
            f"{where} ({event.tag!r}, schema {event.schema}) is of a newer version of toolledger, "
            f"{consequence}: upgrade toolledger"
        )
    return StoreCorrupt(
        f"{where} is damaged ({event.damage or 'its payload cannot be read'}), {consequence}: run "
        "`toolledger verify`, and restore the database from a copy"
    )


def _call_brought_by(event: ToolEvent) -> FunctionCall | None:
    """Return the call that the event brings into force, if any."""
    if type(event) is ToolPending:
        return event.call
    return event.edited_call if type(event) is ToolApproved else None
