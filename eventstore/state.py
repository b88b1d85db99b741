"""What an appender must know of a conversation: which calls it has and which are still open.

Settled calls (completed, rejected) keep only their id here, so that a long conversation costs
little memory; whoever asks for one of them again looks it up in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from eventstore import codec
from eventstore.errors import IllegalTransition, UnhashableArguments
from eventstore.events import (
    Event,
    MessageAdded,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolPending,
)
from eventstore.fingerprint import render
from eventstore.readable import readable
from eventstore.storage import Draft
from eventstore.tool import Completed, FunctionCall, FunctionResponse, Rejected, Tool, evolve

Entry = tuple[Tool, bytes]  # a call and the digest of its arguments in force


class Staged(msgspec.Struct):
    """Events that fit the state, ready to be stored, and what the state becomes with them."""

    events: list[Event]
    drafts: list[Draft]
    tools: dict[str, Entry]


class ConversationState:
    """The state of one conversation at `version`; `as_of` is a lane position it is current for."""

    __slots__ = ("as_of", "index", "joinable", "known", "open", "turn", "version")

    def __init__(self, as_of: int) -> None:
        self.version = 0
        self.as_of = as_of
        self.known: set[str] = set()
        self.open: dict[str, Entry] = {}
        self.turn = 0  # the last turn's number
        self.index = 0  # the next call's place in it
        self.joinable = False  # nothing but calls came since the turn began

    def extend(self, tail: Iterable[Recorded]) -> None:
        """Take in what the log says; what breaks the rules of a lifecycle is passed over."""
        for recorded in tail:
            self.version = recorded.version
            event = recorded.event
            if recorded.call_id and not isinstance(event, MessageAdded):
                self._evolve(recorded)
            self._place(event)

    def _evolve(self, recorded: Recorded) -> None:
        event: Any = recorded.event
        entry = self.open.get(recorded.call_id or "")
        if entry is None and not isinstance(event, ToolPending):
            return
        try:
            tool = evolve(entry[0] if entry else None, event, recorded.recorded_at,
                          recorded.fingerprint)  # fmt: skip
        except IllegalTransition:
            return
        self._keep(tool, tool.effective_call.digest())

    def commit(self, staged: Staged, version: int, as_of: int) -> None:
        """Take in what was just stored."""
        for entry in staged.tools.values():
            self._keep(*entry)
        for event in staged.events:
            self._place(event)
        self.version = version
        self.as_of = as_of

    def _keep(self, tool: Tool, mark: bytes) -> None:
        self.known.add(tool.id)
        if type(tool.status) in (Completed, Rejected):
            self.open.pop(tool.id, None)
        else:
            self.open[tool.id] = (tool, mark)

    def _place(self, event: Event) -> None:
        if type(event) is ToolPending:
            if event.turn >= self.turn:
                self.index = event.index + 1 if event.turn == self.turn else 1
                self.turn = event.turn
            self.joinable = True
        elif type(event) is MessageAdded and event.turn is not None:
            self.turn, self.index, self.joinable = max(self.turn, event.turn), 0, True
        else:
            self.joinable = False

    def next_turn(self) -> tuple[int, int]:
        """Turn and index for a call that names none: the turn being made, else a new one."""
        return (self.turn, self.index) if self.joinable else (self.turn + 1, 0)

    def stage(
        self,
        events: Sequence[Event],
        ids: Sequence[bytes],
        at: int,
        settled: Mapping[str, Tool],
    ) -> Staged:
        """Check `events` one after the other and encode them; repeats of what is so are left out.

        `settled` are the settled calls that the events name.

        Raises:
            IllegalTransition, UnhashableArguments, UnencodableEvent: nothing is changed.
        """
        staged = Staged([], [], {})
        tools = staged.tools
        for event, event_id in zip(events, ids, strict=True):
            if isinstance(event, ToolEvent):
                event, payload = settle(event)  # noqa: PLW2901 - as the log will hold it
                entry = tools.get(event.call_id) or self.open.get(event.call_id)
                before = entry[0] if entry else settled.get(event.call_id)
                mark, begins = _fingerprint(event, entry, before)
                after = evolve(before, event, at, render(mark) if begins else None)
                if after is before:
                    continue
                tools[event.call_id] = (after, mark)
                draft = Draft(event_id, at, event.tag, codec.SCHEMAS[event.tag], payload, mark,
                              begins)  # fmt: skip
            else:
                draft = _draft(event, event_id, at)
            staged.events.append(event)
            staged.drafts.append(draft)
        return staged

    def names_settled(self, events: Sequence[Event]) -> set[str]:
        """Which of the calls that `events` name are settled, so that the log must be asked."""
        return {
            event.call_id
            for event in events
            if isinstance(event, ToolEvent)
            and event.call_id in self.known
            and event.call_id not in self.open
        }


def _draft(event: Any, event_id: bytes, at: int) -> Draft:
    schema = getattr(event, "schema", None) or codec.SCHEMAS[event.tag]
    return Draft(event_id, at, event.tag, schema, codec.encode(event))


def _fingerprint(
    event: ToolEvent, entry: Entry | None, before: Tool | None
) -> tuple[bytes, bool]:
    """The digest of the arguments in force with `event`, and whether the event brought them."""
    if type(event) is ToolPending:
        return event.call.digest(), True
    if type(event) is ToolApproved and event.edited_call is not None:
        return event.edited_call.digest(), True
    if entry is not None:
        return entry[1], False
    return (before.effective_call.digest(), False) if before else (b"", False)


def settle(event: ToolEvent) -> tuple[ToolEvent, bytes]:
    """The event exactly as the log will hold it, and its stored payload.

    It shares nothing with what the caller passed. A result that JSON cannot say takes its
    nearest readable form and is marked lossy.

    Raises:
        UnhashableArguments: arguments that JSON cannot say.
        UnencodableEvent: another member that JSON cannot say.
    """
    kind = type(event)
    if kind is ToolCompleted:
        return _settle_result(event)
    if kind is ToolPending:
        _require_json(event.call)
    elif kind is ToolApproved and event.edited_call is not None:
        _require_json(event.edited_call)
    payload = codec.encode(event)
    if kind is ToolPending or kind is ToolApproved:
        return codec.decode(event.tag, codec.SCHEMAS[event.tag], payload), payload  # type: ignore[return-value]
    return event, payload


def _require_json(call: FunctionCall) -> None:
    if type(call.name) is not str:
        raise UnhashableArguments("$.name", f"a tool's name is text, not {call.name!r}")
    call.digest()


def _settle_result(event: Any) -> tuple[ToolCompleted, bytes]:
    given = event.response.result
    try:
        payload = codec.encode(event)
        stored: Any = codec.decode(event.tag, codec.SCHEMAS[event.tag], payload)
        if type(stored) is ToolCompleted and stored.response.result == given:
            return stored, payload
    except Exception:  # noqa: BLE001, S110 - foreign objects may raise anything
        pass
    result, lossy = readable(given)
    native = event.native if not lossy else None
    response = FunctionResponse(event.response.name, result, event.response.id)
    event = msgspec.structs.replace(
        event, response=response, lossy=event.lossy or lossy, native=native
    )
    payload = codec.encode(event)
    return codec.decode(event.tag, codec.SCHEMAS[event.tag], payload), payload  # type: ignore[return-value]
