"""Replay: a log event by event, with what each one changed and what the model would then see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from eventstore import (
    Document,
    Image,
    MessageAdded,
    Part,
    Recorded,
    RunEnded,
    RunStarted,
    Text,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolFailed,
    ToolPending,
    ToolRejected,
    ToolRunning,
    ToolsOffered,
    UnknownEvent,
)
from projections.fold import Anomaly
from projections.history import History
from projections.text import arguments_text, one_line
from projections.tools import CurrentTools
from projections.view import ModelHistory, result_text

WIDTH = 100
"""Characters of a message, a result or a reason that a line shows."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, the call that it names before and after it, and what does not fit.

    `before` and `after` are None where the event concerns no call, or one that is not there.
    """

    recorded: Recorded
    before: Tool | None
    after: Tool | None
    anomalies: tuple[Anomaly, ...]
    _past: _Past = field(repr=False, compare=False)
    _length: int = field(repr=False, compare=False)

    def history(self, **options: Any) -> ModelHistory:
        """What the model would have seen right after the event; `options` as in `model_history`.

        Made when it is asked for. Frames that are asked in their order share the work.
        """
        return self._past.at(self._length).view(**options)

    def prompt(self, provider: str, **options: Any) -> dict[str, Any]:
        """`history` as the keyword arguments of the provider's SDK call."""
        return self.history(**options).render(provider)

    @property
    def change(self) -> str:
        """The call's status before and after, where the event changed it: `Pending → Running`."""
        if self.after is None or self.after is self.before:
            return ""
        before = self.before.status.name if self.before else ""
        after = self.after.status.name
        if before == after:
            return f"{after}, attempt {self.after.attempts}" if self.after.attempts > 1 else ""
        return f"{before} → {after}" if before else after

    def line(self, width: int | None = WIDTH) -> str:
        """The frame on one line, and one for each anomaly."""
        recorded = self.recorded
        line = f"{recorded.version:>6}  {recorded.event.tag:<13}  {describe(recorded, width)}"
        if change := self.change:
            line += f"  [{change}]"
        return line + "".join(f"\n        ! {anomaly.problem}" for anomaly in self.anomalies)

    def __str__(self) -> str:
        return self.line()


class Replay:
    """A replay that can be continued: the frames of a prefix, then those of the rest."""

    def __init__(self) -> None:
        self._tools = CurrentTools()
        self._pasts: dict[str, _Past] = {}

    def frame(self, recorded: Recorded) -> Frame:
        """The frame of the next event."""
        tools, conversation_id = self._tools, recorded.conversation_id
        call_id = _call_id(recorded)
        before = tools.get(conversation_id, call_id) if call_id else None
        known = len(tools.anomalies)
        tools.apply(recorded)
        after = tools.get(conversation_id, call_id) if call_id else None
        past = self._pasts.get(conversation_id)
        if past is None:
            past = self._pasts[conversation_id] = _Past()
        past.events.append(recorded)
        found = tuple(tools.anomalies[known:])
        return Frame(recorded, before, after, found, past, len(past.events))

    def frames(self, events: Iterable[Recorded], until: int | None = None) -> Iterator[Frame]:
        """The frames of the next events; see `replay`."""
        if until is not None and (type(until) is not int or until < 0):
            raise ValueError(f"until is {until!r}: pass a version, 0 or more")
        return (
            self.frame(recorded)
            for recorded in events
            if until is None or recorded.version <= until
        )


class _Past:
    """The events of one conversation so far, and their history up to the frame last asked for."""

    __slots__ = ("_history", "_length", "events")

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self._history = History()
        self._length = 0

    def at(self, length: int) -> History:
        """The history of the first `length` events."""
        if length < self._length:
            self._history, self._length = History(), 0
        self._history.extend(self.events[self._length : length])
        self._length = length
        return self._history


def replay(events: Iterable[Recorded], until: int | None = None) -> Iterator[Frame]:
    """Each event of a log with what it changed, up to and with version `until`.

    What the model would have seen after an event is made when a frame is asked for it, so that
    a replay takes time in proportion to the log. Never raises on a log.

    Raises:
        ValueError: `until` is no version.
    """
    return Replay().frames(events, until)


def describe(recorded: Recorded, width: int | None = WIDTH) -> str:
    """An event on one line: what it says, shortened to `width` where that is given."""
    event: Any = recorded.event
    try:
        text = _TOLD[type(event)](event)
    except Exception:  # noqa: BLE001 - an event made by hand may hold anything
        text = f"<{type(event).__name__}>"
    most = len(text) * 10 if width is None else width  # an escape is at most so much longer
    return one_line(text, most)


def _call_id(recorded: Recorded) -> str | None:
    event: Any = recorded.event
    if isinstance(event, MessageAdded):  # it names a call that is not there
        return None
    call_id = getattr(event, "call_id", None)
    return call_id if isinstance(call_id, str) else None


def _message(event: MessageAdded) -> str:
    return f"{event.role}: {' '.join(map(_part, event.parts))}"


def _part(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Image | Document):
        return f"<{type(part).__name__.lower()}>"
    data = part.data if isinstance(part.data, dict) else {}
    text = data.get("text")
    return text if isinstance(text, str) else f"<{data.get('type', 'part')}>"


def _pending(event: ToolPending) -> str:
    return f"{event.call_id}: {event.call.name} {arguments_text(event.call, 10**9)}"


def _approved(event: ToolApproved) -> str:
    edit = f" as {arguments_text(event.edited_call, 10**9)}" if event.edited_call else ""
    return f"{event.call_id}{edit}{_by(event.by)}{_why(event.reason)}"


def _running(event: ToolRunning) -> str:
    return f"{event.call_id}: attempt {event.attempt}"


def _completed(event: ToolCompleted) -> str:
    return f"{event.call_id}: {result_text(event.response.result)}"


def _failed(event: ToolFailed) -> str:
    return f"{event.call_id}: {event.failure.kind}: {event.failure.message}"


def _rejected(event: ToolRejected) -> str:
    return f"{event.call_id} by {event.by or event.source}{_why(event.reason)}"


def _offered(event: ToolsOffered) -> str:
    allowed = event.available if event.allowed is None else event.allowed
    return f"iteration {event.iteration}: {len(allowed)} of {len(event.available)} tools"


def _started(event: RunStarted) -> str:
    parent = event.parent_conversation_id
    call = f", call {event.parent_call_id}" if event.parent_call_id else ""
    return (event.agent or "a run") + (f" for {parent}{call}" if parent else "")


def _ended(event: RunEnded) -> str:
    return event.reason + (f": {event.failure.message}" if event.failure else "")


def _unknown(event: UnknownEvent) -> str:
    return f"schema {event.schema}: {event.payload}"


def _by(who: str | None) -> str:
    return f" by {who}" if who else ""


def _why(reason: str | None) -> str:
    return f": {reason}" if reason else ""


_TOLD: dict[Any, Any] = {
    MessageAdded: _message,
    RunEnded: _ended,
    RunStarted: _started,
    ToolApproved: _approved,
    ToolCompleted: _completed,
    ToolFailed: _failed,
    ToolPending: _pending,
    ToolRejected: _rejected,
    ToolRunning: _running,
    ToolsOffered: _offered,
    UnknownEvent: _unknown,
}
