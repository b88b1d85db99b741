"""What an appender must know of a conversation: which calls it has and which are still open.

Settled calls (completed, rejected) keep only their id here, so that a long conversation costs
little memory; whoever asks for one of them again looks it up in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, get_args

import msgspec
from msgspec import to_builtins

from eventstore import codec
from eventstore.errors import IllegalTransition, UnencodableEvent, UnhashableArguments
from eventstore.events import (
    Event,
    MessageAdded,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolPending,
    ToolRunning,
    UnknownEvent,
)
from eventstore.fingerprint import content_id, render
from eventstore.message import result_parts
from eventstore.readable import nests_deeply, readable
from eventstore.storage import Draft
from eventstore.tool import (
    STEPS,
    Approved,
    Completed,
    FunctionCall,
    FunctionResponse,
    Rejected,
    Running,
    Tool,
    evolve,
)

Mint = Callable[[int, int, AbstractSet[str]], str]
"""Makes a call id for a turn and index that is none of those taken."""


def mint(conversation_id: str, turn: int, index: int, taken: AbstractSet[str]) -> str:
    """A call id for a call that came without: the same for the same place, unique elsewhere."""
    made = f"call_{_mark(conversation_id)}{turn:04x}{index:04x}"
    salt = 0
    while made in taken:
        salt += 1
        made = f"call_{_mark(f'{conversation_id}.{turn}.{index}.{salt}')}{turn:04x}{index:04x}"
    return made


@lru_cache(1024)
def _mark(text: str) -> str:
    """16 hex digits for a text."""
    return content_id(text.encode()).hex()[:16]


Entry = tuple[Tool, bytes]  # a call and the digest of its arguments in force


class Identified(list[Event]):
    """Events that bring the ids they are to be stored under."""

    def __init__(self, events: Sequence[Event], ids: Sequence[bytes]) -> None:
        super().__init__(events)
        self.ids = ids


_SETTLED = (Completed, Rejected)  # the state keeps none of these
_KEPT = (ToolPending, ToolApproved, ToolRunning)  # whose arguments the state holds on to


def apart(tool: Tool) -> Tool:
    """The call for a caller, who may do what he likes with it: no value is the state's own."""
    status: Any = tool.status
    kind = type(status)
    if kind in _SETTLED:
        return tool
    edit = _apart_call(tool.edit) if tool.edit else None
    if kind is Running:
        status = Running(status.attempt, to_builtins(status.arguments))
    elif kind is Approved:
        status = Approved(edit, status.by, status.reason)
    return Tool(
        tool.id, _apart_call(tool.call), status, tool.attempts, edit, tool.provider_call_id,
        tool.turn, tool.index, tool.fingerprint, tool.requested_at, tool.decided_at,
        tool.started_at, tool.ended_at,
    )  # fmt: skip


def _apart_call(call: FunctionCall) -> FunctionCall:
    return FunctionCall(call.name, to_builtins(call.arguments), call.id, call.raw)


def apart_event(event: Any, draft: Draft, tools: Mapping[str, Entry]) -> Event:
    """The event for a caller, likewise; `tools` as they stand after it."""
    if type(event) in _KEPT and type(tools[event.call_id][0].status) not in _SETTLED:
        return codec.decode(draft.tag, draft.schema, draft.payload)
    return event  # type: ignore[no-any-return]


class Staged(msgspec.Struct):
    """Events that fit the state, ready to be stored, and what the state becomes with them."""

    events: list[Event]
    drafts: list[Draft]
    tools: dict[str, Entry]


class ConversationState:
    """The state of one conversation at `version`; `as_of` is a lane position it is current for."""

    __slots__ = ("as_of", "index", "joinable", "known", "open", "settling", "turn", "version")

    def __init__(self, as_of: int) -> None:
        self.version = 0
        self.as_of = as_of
        self.known: set[str] = set()
        self.open: dict[str, Entry] = {}
        self.turn = 0  # the last turn's number
        self.index = 0  # the next call's place in it
        self.joinable = False  # nothing but calls came since the turn began
        self.settling: dict[str, Tool] = {}  # settled, and not yet to be found in the log

    def copy(self) -> ConversationState:
        """The same state, that changes by itself."""
        other = ConversationState(self.as_of)
        other.version, other.known, other.open = self.version, self.known.copy(), self.open.copy()
        other.turn, other.index, other.joinable = self.turn, self.index, self.joinable
        other.settling = self.settling.copy()
        return other

    def extend(self, tail: Iterable[Recorded]) -> None:
        """Take in what the log says; what breaks the rules of a lifecycle is passed over."""
        for recorded in tail:
            if recorded.version <= self.version:
                continue  # taken in before
            self.version = recorded.version
            event = recorded.event
            if recorded.call_id and not isinstance(event, MessageAdded):
                self._evolve(recorded)
            self._place(event)

    def _evolve(self, recorded: Recorded) -> None:
        event: Any = recorded.event
        entry = self.open.get(recorded.call_id or "")
        if entry is None and (type(event) is not ToolPending or recorded.call_id in self.known):
            return
        try:
            tool = evolve(entry[0] if entry else None, event, recorded.recorded_at,
                          recorded.fingerprint)  # fmt: skip
        except IllegalTransition:
            return
        mark = entry[1] if entry and _brought(event) is None else tool.effective_call.digest()
        self._keep(tool.id, (tool, mark))

    def foresee(self, staged: Staged) -> None:
        """Take in what is being stored, in a transaction that goes on."""
        self.commit(staged, self.version + len(staged.drafts), self.as_of)
        for call_id, (tool, _) in staged.tools.items():
            if type(tool.status) in _SETTLED:
                self.settling[call_id] = tool

    def commit(self, staged: Staged, version: int, as_of: int) -> None:
        """Take in what was just stored."""
        for call_id, entry in staged.tools.items():
            self._keep(call_id, entry)
        for event in staged.events:
            self._place(event)
        self.version = version
        self.as_of = as_of

    def _keep(self, call_id: str, entry: Entry) -> None:
        self.known.add(call_id)
        if type(entry[0].status) in _SETTLED:
            self.open.pop(call_id, None)
        else:
            self.open[call_id] = entry

    def _place(self, event: Event) -> None:
        kind = type(event)
        if kind is ToolPending:
            turn = event.turn  # type: ignore[union-attr]
            if turn is not None and turn >= self.turn:
                self.index = event.index + 1 if turn == self.turn else 1  # type: ignore[union-attr]
                self.turn = turn
            self.joinable = True
        elif kind is MessageAdded and event.turn is not None:  # type: ignore[union-attr]
            if event.turn > self.turn:  # type: ignore[union-attr]  # else a further piece of it
                self.turn, self.index = event.turn, 0  # type: ignore[union-attr]
            self.joinable = True
        else:
            self.joinable = False

    def next_turn(self) -> tuple[int, int]:
        """Turn and index for a call that names none: the turn being made, else a new one."""
        return (self.turn, self.index) if self.joinable else (self.turn + 1, 0)

    def placed(self, events: Sequence[Event], mint: Mint) -> list[Event]:
        """`events`, where calls and assistant messages without a turn or an id are given one."""
        view = ConversationState(0)
        view.turn, view.index, view.joinable = self.turn, self.index, self.joinable
        placed: list[Event] = []
        for event in events:
            if type(event) is ToolPending:
                event = view._with_place(event, mint, self.known)  # noqa: PLW2901
            elif type(event) is MessageAdded and event.role == "assistant" and event.turn is None:
                event = msgspec.structs.replace(event, turn=view.turn + 1)  # noqa: PLW2901
            view._place(event)
            placed.append(event)
        return placed

    def _with_place(self, event: ToolPending, mint: Mint, known: AbstractSet[str]) -> ToolPending:
        turn, index = event.turn, event.index
        if turn is None:
            turn, index = self.next_turn()
        call = event.call
        if not call.id:
            call = msgspec.structs.replace(call, id=mint(turn, index, known))
        if call is event.call and turn is event.turn:
            return event
        return msgspec.structs.replace(event, call=call, turn=turn, index=index)

    def stage(
        self,
        events: Sequence[Event],
        ids: Sequence[bytes],
        at: int,
        settled: Callable[[set[str]], Mapping[str, Tool]],
    ) -> Staged:
        """Check `events` one after the other and encode them; repeats of what is so are left out.

        `settled` looks up settled calls by their ids; it is asked once, if at all.

        Raises:
            IllegalTransition, UnhashableArguments, UnencodableEvent: nothing is changed.
        """
        kept: list[Event] = []
        drafts: list[Draft] = []
        tools: dict[str, Entry] = {}
        old: Mapping[str, Tool] | None = None
        for event, event_id in zip(events, ids, strict=True):
            step = _STEPS.get(type(event))
            if step is None:
                event, payload = codec.as_stored(event)  # noqa: PLW2901 - as the log will hold it
                drafts.append(Draft(event_id, at, event.tag, _schema(event), payload))
                kept.append(event)
                continue
            settle, evolve, tag = step
            event, payload, mark = settle(event)  # noqa: PLW2901
            call_id = event.call.id if tag == "pending" else event.call_id
            entry = tools.get(call_id) or self.open.get(call_id)
            before = None
            if entry is not None:
                before = entry[0]
            elif call_id in self.known:
                if old is None:
                    old = {**settled(self._settled(events)), **self.settling}
                before = old.get(call_id)
            begins = mark is not None
            after = evolve(before, event, at, None if mark is None else render(mark))
            if after is before:
                continue
            if mark is None:
                mark = entry[1] if entry else after.effective_call.digest()
            tools[call_id] = (after, mark)
            drafts.append(Draft(event_id, at, tag, codec.SCHEMAS[tag], payload, mark, begins))
            kept.append(event)
        return Staged(kept, drafts, tools)

    def _settled(self, events: Sequence[Event]) -> set[str]:
        """Which of the calls that `events` name are settled."""
        names = {event.call_id for event in events if isinstance(event, ToolEvent)}
        return (names & self.known) - self.open.keys()


def _schema(event: Event) -> int:
    return event.schema if type(event) is UnknownEvent else codec.SCHEMAS[event.tag]


def _brought(event: Any) -> Any:
    """The call that the event brings into force, if any."""
    kind = type(event)
    if kind is ToolPending:
        return event.call
    return event.edited_call if kind is ToolApproved else None


def settle(event: Any) -> tuple[Any, bytes, bytes | None]:
    """The event exactly as the log will hold it, its stored payload, and the digest it brings.

    It shares nothing with what the caller passed. A result of text, images and documents is
    stored in parts; another that JSON cannot say takes its nearest readable form and is marked
    lossy. A digest is of the arguments that the event brings into force, where it brings any.

    Raises:
        UnhashableArguments: arguments that JSON cannot say.
        UnencodableEvent: another member that JSON cannot say.
    """
    return _STEPS[type(event)][0](event)


def _settle_call(event: Any) -> tuple[Any, bytes, bytes | None]:
    call = event.call if type(event) is ToolPending else event.edited_call
    if call is None:
        return *codec.as_stored(event), None
    try:
        stored, payload = codec.as_stored(event)
        kept = stored.call if type(event) is ToolPending else stored.edited_call
        if kept != call:
            _require_json(call)
    except (UnencodableEvent, RecursionError):
        _require_json(call)  # names the place
        raise
    return stored, payload, kept.digest()


def _settle_other(event: Any) -> tuple[Any, bytes, None]:
    stored, payload = codec.as_stored(event)
    return stored, payload, None


def _require_json(call: FunctionCall) -> None:
    if type(call.name) is not str:
        raise UnhashableArguments("$.name", f"a tool's name is text, not {call.name!r}")
    call.digest()


def _settle_result(event: Any) -> tuple[Any, bytes, None]:
    response = event.response
    if type(response) is not FunctionResponse:
        return _settle_other(event)  # which says what is wrong
    try:
        stored, payload = codec.as_stored(event)
        result = stored.response.result
        if result == response.result and not nests_deeply(result, payload):
            return stored, payload, None
    except Exception:  # noqa: BLE001, S110 - foreign objects may raise anything
        pass
    if parts := result_parts(response.result):
        shown = FunctionResponse(response.name, to_builtins(parts), response.id)
        return _settle_other(msgspec.structs.replace(event, response=shown, in_parts=True))
    result, lossy = readable(response.result)
    event = msgspec.structs.replace(
        event,
        response=FunctionResponse(response.name, result, response.id),
        lossy=event.lossy or lossy,
        native=None if lossy else event.native,
    )
    try:
        return _settle_other(event)
    except UnencodableEvent:
        if event.native is None:
            raise
        return _settle_other(msgspec.structs.replace(event, native=None, lossy=True))


# event class -> how it is settled, its step, its tag
_STEPS: dict[type, tuple[Callable[[Any], tuple[Any, bytes, bytes | None]], Any, str]] = {
    kind: (
        _settle_result if kind is ToolCompleted
        else _settle_call if kind in (ToolPending, ToolApproved)
        else _settle_other,
        STEPS[kind.tag], kind.tag,
    )
    for kind in get_args(ToolEvent)
}  # fmt: skip
