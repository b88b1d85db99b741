"""The history that the model sees next: every call answered once, nothing real lost.

`History` is the fold over a log; what it shows the model is made in `view`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import msgspec

from eventstore import (
    IllegalTransition,
    MessageAdded,
    Recorded,
    ToolApproved,
    ToolCompleted,
    ToolEvent,
    ToolFailed,
    ToolPending,
    ToolRejected,
    evolve,
)
from projections.fold import NAMELESS
from projections.view import (
    Collapse,
    Entry,
    MadeCall,
    ModelHistory,
    OpenCalls,
    Repair,
    orphan_text,
    result_text,
    show,
)


class History:
    """The fold: what was said and called in one conversation, from any prefix of any log."""

    def __init__(self) -> None:
        self.conversation_id: str | None = None
        self.repairs: list[Repair] = []
        self._entries: list[Entry] = []
        self._turns: dict[int, Entry] = {}
        self._calls: dict[str, MadeCall] = {}

    def extend(self, events: Iterable[Recorded]) -> Self:
        """Take in events."""
        for recorded in events:
            self.apply(recorded)
        return self

    def apply(self, recorded: Recorded) -> None:
        """Take in one event; what breaks the rules becomes text or a repair, never an error."""
        if recorded.conversation_id != self.conversation_id:
            if self.conversation_id is not None:
                self._repaired(recorded, "dropped", "conversation", "of another conversation")
                return
            self.conversation_id = recorded.conversation_id
        event = recorded.event
        if type(event) is MessageAdded:
            self._message(recorded, event)
        elif type(event) is ToolPending:
            self._pending(recorded, event)
        elif isinstance(event, ToolEvent):
            self._step(recorded, event)

    def _message(self, recorded: Recorded, event: MessageAdded) -> None:
        if event.role == "assistant" and event.turn is not None and event.turn in self._turns:
            # Its calls came first (a log out of order), or it is a further piece of the message.
            entry = self._turns[event.turn]
            entry.message = event if entry.message is None else _joined(entry.message, event)
            return
        entry = Entry(event.role, event, recorded.version)
        self._entries.append(entry)
        if event.role == "assistant" and event.turn is not None:
            self._turns.setdefault(event.turn, entry)

    def _pending(self, recorded: Recorded, event: ToolPending) -> None:
        if not event.call_id:
            self._repaired(recorded, "dropped", "no-id", NAMELESS)
            return
        call = self._calls.get(event.call_id)
        try:
            tool = evolve(
                call.tool if call else None, event, recorded.recorded_at, recorded.fingerprint
            )
        except IllegalTransition as error:
            self._repaired(recorded, "dropped", "transition", str(error))
            return
        if call is not None:
            return
        call = self._calls[event.call_id] = MadeCall(
            tool, recorded.version, imported=event.imported
        )
        entry = None if event.turn is None else self._turns.get(event.turn)
        if entry is None:
            entry = Entry("assistant", None, recorded.version)
            self._entries.append(entry)
            if event.turn is not None:
                self._turns[event.turn] = entry
        entry.calls.append(call)
        if len(entry.calls) > 1 and entry.calls[-2].tool.index > tool.index:
            entry.calls.sort(key=lambda made: made.tool.index)

    def _step(self, recorded: Recorded, event: Any) -> None:
        call = self._calls.get(event.call_id)
        try:
            tool = evolve(
                call.tool if call else None, event, recorded.recorded_at, recorded.fingerprint
            )
        except IllegalTransition as error:
            self._misplaced(recorded, event, error)
            return
        assert call is not None  # noqa: S101 - evolve refuses a step of no call
        call.versions.append(recorded.version)
        if tool is call.tool:
            return
        call.tool = tool
        if not isinstance(event, ToolApproved):
            answered = isinstance(event, ToolCompleted | ToolFailed | ToolRejected)
            call.answer = event if answered else None

    def _misplaced(self, recorded: Recorded, event: Any, error: IllegalTransition) -> None:
        """A result that the lifecycle has no place for: what it says is kept as text."""
        text = None
        if isinstance(event, ToolCompleted):
            text = result_text(event.response.result)
        elif isinstance(event, ToolFailed):
            text = event.failure.model_text
        if not text:
            self._repaired(recorded, "dropped", "transition", str(error))
            return
        entry = Entry("user", None, recorded.version)
        entry.text = orphan_text(event.call_id, text)
        self._entries.append(entry)
        self._repaired(recorded, "wrapped", "transition", str(error))

    def _repaired(self, recorded: Recorded, what: str, rule: str, why: str) -> None:
        self.repairs.append(Repair(what, rule, why, recorded.call_id, (recorded.version,)))

    def view(
        self,
        *,
        open_calls: OpenCalls = "answer",
        collapse: Collapse = "failed",
        last_turns: int | None = None,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
    ) -> ModelHistory:
        """What the model sees; see `model_history`."""
        return show(
            self._entries,
            self.repairs,
            open_calls=open_calls,
            collapse=collapse,
            last_turns=last_turns,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
        )


def _joined(message: MessageAdded, piece: MessageAdded) -> MessageAdded:
    return msgspec.structs.replace(
        message,
        parts=message.parts + piece.parts,
        calls=message.calls + piece.calls,
        native=None,
        exact=False,
    )


def model_history(
    events: Iterable[Recorded],
    *,
    open_calls: OpenCalls = "answer",
    collapse: Collapse = "failed",
    last_turns: int | None = None,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> ModelHistory:
    """The history to show the model next, valid for any provider, from any prefix of any log.

    A call without a result is answered with what the log knows; `open_calls="raise"` refuses
    instead, `"drop"` leaves it out. `collapse="failed"` leaves out failed calls that a later one
    with the same arguments repeats before the user speaks again; `"all"` keeps one call of each
    fingerprint, as `repair_history` does; `"none"` keeps everything. `last_turns`, or
    `max_tokens` with `count_tokens`, cut older turns off, whole.

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
        )
    )
