"""The history that the model sees next: every call answered once, nothing real lost.

`History` is the fold over a log; what it shows the model is made in `view`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self, get_args

import msgspec

from eventstore import (
    Event,
    IllegalTransition,
    MessageAdded,
    Part,
    Recorded,
    Text,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPending,
    ToolRejected,
    evolve,
)
from eventstore.wire import refers
from projections.fold import NAMELESS
from projections.repair import Repair
from projections.view import (
    Collapse,
    Entry,
    MadeCall,
    ModelHistory,
    OpenCalls,
    orphan_text,
    show,
    shown,
)
from projections.window import Window

_STEPS = frozenset(get_args(ToolEvent))
_ANSWERS = (ToolCompleted, ToolFailed, ToolRejected)


class History:
    """The fold: what was said and called in one conversation, from any prefix of any log."""

    def __init__(self) -> None:
        self.conversation_id: str | None = None
        self.repairs: list[Repair] = []
        self._entries: list[Entry] = []
        self._turns: dict[int, Entry] = {}
        self._calls: dict[str, MadeCall] = {}
        self._refers = False  # to calls that the provider's server keeps

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events."""
        for recorded in events:
            self.apply(recorded)
        return self

    def apply(self, recorded: Recorded) -> None:
        """Take in one event; what breaks the rules becomes text or a repair, never an error."""
        if recorded.conversation_id != self.conversation_id:
            if self.conversation_id is not None:
                self._repaired(
                    recorded.version, recorded.call_id, "dropped", "conversation",
                    "of another conversation",
                )  # fmt: skip
                return
            self.conversation_id = recorded.conversation_id
        self.take(recorded.event, recorded.version, recorded.recorded_at, recorded.fingerprint)

    def take(
        self, event: Event, version: int, at: int | None = None, fingerprint: str | None = None
    ) -> None:
        """Take in one event of this conversation that has no envelope; see `apply`."""
        kind = type(event)
        if kind is MessageAdded:
            self._message(version, event)
        elif kind is ToolPending:
            self._pending(version, event, at, fingerprint)
        elif kind in _STEPS:
            self._step(version, event, at, fingerprint)

    def _message(self, version: int, event: Any) -> None:
        if event.results:
            self._close(version, event)
            if not event.parts:
                return
        if type(event.native) is list and not self._refers:  # items, one of which may refer
            self._refers = refers(event.parts)
        if event.role == "assistant" and event.turn is not None and event.turn in self._turns:
            # Its calls came first (a log out of order), or it is a further piece of the message.
            entry = self._turns[event.turn]
            entry.message = event if entry.message is None else _joined(entry.message, event)
            return
        entry = Entry(event.role, event, version)
        self._entries.append(entry)
        if event.role == "tool":
            entry.held = self._refers and event.provider is not None and bool(event.call_id)
        if event.role == "assistant" and event.turn is not None:
            self._turns.setdefault(event.turn, entry)

    def _close(self, version: int, event: MessageAdded) -> None:
        """Keep the message in which results came with their turn, if it may go back there."""
        call = self._calls.get(event.results[0])
        entry = self._turns.get(call.tool.turn) if call is not None else None
        if entry is None:
            return
        if entry.closing is not None:
            why = "the results of one turn came in several messages"
            self._repaired(version, None, "merged", "results", why)
        if not event.parts or self._entries[-1] is entry:
            entry.closing = event

    def _pending(self, version: int, event: Any, at: int | None, mark: str | None) -> None:
        call_id = event.call.id
        if not call_id:
            self._repaired(version, call_id, "dropped", "no-id", NAMELESS)
            return
        call = self._calls.get(call_id)
        try:
            tool = evolve(call.tool if call else None, event, at, mark)
        except IllegalTransition as error:
            self._repaired(version, call_id, "dropped", "transition", str(error))
            return
        if call is not None:
            return
        call = self._calls[call_id] = MadeCall(tool, [version], event.imported)
        entry = None if event.turn is None else self._turns.get(event.turn)
        if entry is None:
            entry = Entry("assistant", None, version)
            self._entries.append(entry)
            if event.turn is not None:
                self._turns[event.turn] = entry
        entry.calls.append(call)
        if len(entry.calls) > 1 and entry.calls[-2].tool.index > tool.index:
            entry.calls.sort(key=lambda made: made.tool.index)

    def _step(self, version: int, event: Any, at: int | None, mark: str | None) -> None:
        call = self._calls.get(event.call_id)
        try:
            tool = evolve(call.tool if call else None, event, at, mark)
        except IllegalTransition as error:
            self._misplaced(version, event, error)
            return
        assert call is not None  # noqa: S101 - evolve refuses a step of no call
        call.versions.append(version)
        if tool is call.tool:
            return
        call.tool = tool
        if not isinstance(event, ToolApproved):
            call.answer = event if isinstance(event, _ANSWERS) else None

    def _misplaced(self, version: int, event: Any, error: IllegalTransition) -> None:
        """A result that the lifecycle has no place for: what it says is kept as text."""
        text: str = event.failure.model_text if isinstance(event, ToolFailed) else ""
        parts: tuple[Part, ...] = ()
        if isinstance(event, ToolCompleted):
            text, parts = shown(event)
        if not text:
            self._repaired(version, event.call_id, "dropped", "transition", str(error))
            return
        entry = Entry("user", None, version)
        seen = (part for part in parts if not isinstance(part, Text))
        entry.stray = (Text(orphan_text(event.call_id, text)), *seen)
        self._entries.append(entry)
        self._repaired(version, event.call_id, "wrapped", "transition", str(error))

    def _repaired(self, version: int, call_id: str | None, what: str, rule: str, why: str) -> None:
        self.repairs.append(Repair(what, rule, why, call_id, (version,)))

    def view(
        self,
        *,
        open_calls: OpenCalls = "answer",
        collapse: Collapse = "failed",
        last_turns: int | None = None,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        since: int | None = None,
        summary: str | None = None,
    ) -> ModelHistory:
        """What the model sees; see `model_history`."""
        return show(
            self._entries,
            self.repairs,
            open_calls=open_calls,
            collapse=collapse,
            window=Window(last_turns, max_tokens, count_tokens, since, summary),
        )


def _joined(message: MessageAdded, piece: MessageAdded) -> MessageAdded:
    lists = isinstance(message.native, list) and isinstance(piece.native, list)
    return msgspec.structs.replace(
        message,
        parts=message.parts + piece.parts,
        calls=message.calls + piece.calls,
        native=[*message.native, *piece.native] if lists else None,
        exact=lists and message.exact and piece.exact,
    )


def model_history(
    events: Iterable[Recorded],
    *,
    open_calls: OpenCalls = "answer",
    collapse: Collapse = "failed",
    last_turns: int | None = None,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
    since: int | None = None,
    summary: str | None = None,
) -> ModelHistory:
    """The history to show the model next, valid for any provider, from any prefix of any log.

    A call without a result is answered with what the log knows; `open_calls="raise"` refuses
    instead, `"drop"` leaves it out. `collapse="failed"` leaves out failed calls that a later one
    with the same arguments repeats before the user speaks again; `"all"` keeps one call of each
    fingerprint, as `repair_history` does; `"none"` keeps everything.

    Windows cut older turns off, whole: `last_turns` keeps the model's last so many, `max_tokens`
    what fits (counted by `count_tokens`, else by `token_counter()`), `since` what something
    happened to from that version on. `summary` is shown in place of what is cut off.

    The same events give the same bytes.

    Raises:
        NonResolvedToolError: a call is open and `open_calls` is "raise".
        ValueError: an option makes no sense.
    """
    return (
        History()
        .extend(events)
        .view(
            open_calls=open_calls,
            collapse=collapse,
            last_turns=last_turns,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            since=since,
            summary=summary,
        )
    )
