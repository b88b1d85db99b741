"""Replay: a log event by event, with what each event changed and what the model then sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Unpack

from msgspec.structs import replace

from eventstore import (
    Audio,
    Document,
    Event,
    EventsArchived,
    EventsRestored,
    HistoryCompacted,
    HookRaised,
    Image,
    MessageAdded,
    ModelResponded,
    Part,
    PayloadsRedacted,
    Recorded,
    RunEnded,
    RunStarted,
    Text,
    Tool,
    ToolApproved,
    ToolCompleted,
    ToolEndedLate,
    ToolFailed,
    ToolPaused,
    ToolPending,
    ToolRejected,
    ToolRenewed,
    ToolRunning,
    ToolsOffered,
    UnknownEvent,
    UsageLimitBreach,
)
from eventstore.domain.covered import covered_event
from eventstore.domain.json_types import JsonObject
from eventstore.domain.one_line import one_line
from eventstore.domain.redaction import REDACTED
from eventstore.providers import AnyProvider
from projections.current_tools import CurrentTools
from projections.formatting import (
    NotebookText,
    arguments_text,
    hooks_text,
    offer_text,
    plural,
    response_text,
    utc_text,
)
from projections.history.model_history import ModelHistory
from projections.history.options import HistoryKeywords
from projections.history.projection import History
from projections.history.turns import result_text
from projections.projection import Anomaly
from projections.redactions import ReadMarkers

SHOWN_CHARACTERS = 100
"""Characters of a message, a result or a reason that a line shows."""

_ALL_CHARACTERS = 10**9
_MAX_ESCAPE_CHARACTERS = 10  # of one character that a terminal cannot show


@dataclass(frozen=True, slots=True)
class Frame(NotebookText):
    """One event, with the call that it names before and after it, and what does not fit.

    `before` and `after` are None if the event is not about a call, or about an unknown one.
    """

    recorded: Recorded
    before: Tool | None
    after: Tool | None
    anomalies: tuple[Anomaly, ...]
    _past: _PastEvents = field(repr=False, compare=False)
    _length: int = field(repr=False, compare=False)

    def history(self, **options: Unpack[HistoryKeywords]) -> ModelHistory:
        """Return what the model would have seen right after the event.

        The `options` are those of `model_history`. The history is made on demand; frames that
        are asked in their order share the work.

        Raises:
            NonResolvedToolError: a call is open and `open_calls` is "raise".
            ValueError: an option makes no sense.
        """
        return self._past.at(self._length).view(**options)

    def prompt(self, provider: AnyProvider, **options: Unpack[HistoryKeywords]) -> JsonObject:
        """Return `history` as the keyword arguments of the provider's SDK call.

        Raises:
            NonResolvedToolError: a call is open and `open_calls` is "raise".
            ValueError: the provider is unknown, or an option makes no sense.
        """
        return self.history(**options).render(provider)

    @property
    def change(self) -> str:
        """The status before and after, if the event changed it: `Pending → Running`."""
        if self.after is None or self.after is self.before:
            return ""
        before = self.before.status.name if self.before else ""
        after = self.after.status.name
        if before == after:
            return f"{after}, attempt {self.after.attempts}" if self.after.attempts > 1 else ""
        return f"{before} → {after}" if before else after

    def line(self, width: int | None = SHOWN_CHARACTERS) -> str:
        """Return the frame on one line, and one more line for its hooks and for each anomaly."""
        recorded = self.recorded
        line = f"{recorded.version:>6}  {recorded.event.tag:<13}  {describe(recorded, width)}"
        if change := self.change:
            line += f"  [{change}]"
        if hooks := getattr(recorded.event, "hooks", ()):
            line += f"\n        asked: {_shown(hooks_text(hooks), width)}"
        return line + "".join(f"\n        ! {anomaly.problem}" for anomaly in self.anomalies)

    def __str__(self) -> str:
        return self.line()


class Replay:
    """A replay that can be continued: the frames of a prefix, then those of the rest."""

    def __init__(self) -> None:
        self._tools = CurrentTools()
        self._pasts: dict[str, _PastEvents] = {}
        self._markers = ReadMarkers()

    def frame(self, recorded: Recorded) -> Frame:
        """Return the frame of the next event."""
        tools, conversation_id = self._tools, recorded.conversation_id
        call_id = _call_id(recorded)
        before = tools.get(conversation_id, call_id) if call_id else None
        anomalies_before = len(tools.anomalies)
        tools.apply(recorded)
        after = tools.get(conversation_id, call_id) if call_id else None
        past = self._pasts.get(conversation_id)
        if past is None:
            past = self._pasts[conversation_id] = _PastEvents()
        self._markers.take(recorded)
        for payload in self._markers.gone(recorded):
            past.cover(payload.version, payload.marker)
        past.events.append(recorded)
        anomalies = tuple(tools.anomalies[anomalies_before:])
        return Frame(recorded, before, after, anomalies, past, len(past.events))

    def frames(self, events: Iterable[Recorded], until: int | None = None) -> Iterator[Frame]:
        """Return the frames of the next events; see `replay`.

        Raises:
            ValueError: `until` is not a version.
        """
        if until is not None and (type(until) is not int or until < 0):
            raise ValueError(f"until is {until!r}: pass a version, 0 or more")
        return (
            self.frame(recorded)
            for recorded in events
            if until is None or recorded.version <= until
        )


class _PastEvents:
    """The events of one conversation so far, and their history up to the last frame asked."""

    __slots__ = ("_history", "_length", "events")

    def __init__(self) -> None:
        self.events: list[Recorded] = []
        self._history = History()
        self._length = 0

    def at(self, length: int) -> History:
        """Return the history of the first `length` events."""
        if length < self._length:
            self._history, self._length = History(), 0
        self._history.extend(self.events[self._length : length])
        self._length = length
        return self._history

    def cover(self, version: int, marker: str) -> None:
        """Give up the content of an event; see `redactions`."""
        self._history, self._length = History(), 0
        for place, each in enumerate(self.events):
            if each.version == version:
                event = covered_event(each.event)
                self.events[place] = replace(each, event=event, fingerprint=None, redacted=marker)


def replay(events: Iterable[Recorded], until: int | None = None) -> Iterator[Frame]:
    """Return each event of a log with what it changed, up to version `until` inclusive.

    What the model would have seen after an event is made on demand, so that a replay takes time
    in proportion to the log. A damaged log never raises. Called `DispatchTrace` in rig-compose.

    Raises:
        ValueError: `until` is not a version.
    """
    return Replay().frames(events, until)


def describe(recorded: Recorded, width: int | None = SHOWN_CHARACTERS) -> str:
    """Return what an event says on one line, of at most `width` characters; None for all."""
    event = recorded.event
    try:
        text = _DESCRIPTIONS[type(event)](event)
    except Exception:  # noqa: BLE001 - an event made by hand may hold anything
        text = f"<{type(event).__name__}>"
    if recorded.redacted is not None and REDACTED not in text:
        text = f"{text} {REDACTED}"
    return _shown(text, width)


def _shown(text: str, width: int | None) -> str:
    return one_line(text, len(text) * _MAX_ESCAPE_CHARACTERS if width is None else width)


def _call_id(recorded: Recorded) -> str | None:
    event = recorded.event
    if isinstance(event, MessageAdded):  # a result that answers no known call
        return None
    call_id = getattr(event, "call_id", None)
    return call_id if isinstance(call_id, str) else None


def _describe_message(event: MessageAdded) -> str:
    said = " ".join(map(_part, event.parts))
    if event.calls:
        said = f"{said} ({plural(event.calls, 'call')})".lstrip()
    return f"{event.role}: {said}"


def _part(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Image | Document | Audio):
        return f"<{type(part).__name__.lower()}>"
    return _describe_opaque(part.data)


def _describe_opaque(data: JsonObject | None) -> str:
    if not isinstance(data, dict):
        return "<part>"
    text = data.get("text")
    return text if isinstance(text, str) else f"<{data.get('type', 'part')}>"


def _describe_pending(event: ToolPending) -> str:
    return f"{event.call_id}: {event.call.name} {arguments_text(event.call, _ALL_CHARACTERS)}"


def _describe_approved(event: ToolApproved) -> str:
    edit = f" as {arguments_text(event.edited_call, _ALL_CHARACTERS)}" if event.edited_call else ""
    until = "" if event.expires_at is None else f" until {utc_text(event.expires_at)} UTC"
    return f"{event.call_id}{edit}{_actor(event.by)}{until}{_reason(event.reason)}"


def _describe_running(event: ToolRunning) -> str:
    return f"{event.call_id}: attempt {event.attempt}"


def _describe_paused(event: ToolPaused) -> str:
    what = f"attempt {event.attempt} " if event.attempt else ""
    until = "for a decision" if event.until is None else f"until {utc_text(event.until)} UTC"
    return f"{event.call_id}: {what}waits {until}{_reason(event.reason)}"


def _describe_completed(event: ToolCompleted) -> str:
    said = f"{event.call_id}: {result_text(event.response.result)}"
    if event.synthetic:
        return f"{said} (not run{_actor(event.by)}{_reason(event.reason)})"
    return f"{said} (changed{_actor(event.by)}{_reason(event.reason)})" if event.by else said


def _describe_failed(event: ToolFailed) -> str:
    said = f"{event.call_id}: {event.failure.kind}: {event.failure.message}"
    return f"{said} (settled{_actor(event.by)}{_reason(event.reason)})" if event.by else said


def _describe_renewed(event: ToolRenewed) -> str:
    return f"{event.call_id}: attempt {event.attempt} continues"


def _describe_late(event: ToolEndedLate) -> str:
    return f"{event.call_id}: attempt {event.attempt}, after others had taken over: {_end(event)}"


def _end(event: ToolEndedLate) -> str:
    if event.response is not None:
        return result_text(event.response.result)
    if event.failure is not None:
        return f"{event.failure.kind}: {event.failure.message}"
    return f"it paused{_reason(event.reason)}"


def _describe_rejected(event: ToolRejected) -> str:
    return f"{event.call_id} by {event.by or event.source}{_reason(event.reason)}"


def _describe_offered(event: ToolsOffered) -> str:
    return f"iteration {event.iteration}: {offer_text(event)}"


def _describe_raised(event: HookRaised) -> str:
    return f"{event.call_id}: {event}" if event.call_id else str(event)


def _describe_compacted(event: HistoryCompacted) -> str:
    after = f"from version {event.after + 1} " if event.after else ""
    tokens = event.tokens_before
    facts = [event.trigger, None if tokens is None else f"{tokens:,} tokens before"]
    why = ", ".join(filter(None, facts))
    said = " / ".join(map(_describe_message, event.messages)) or "nothing in its place"
    return f"what was said {after}up to version {event.until}{f' ({why})' if why else ''}: {said}"


def _describe_breach(event: UsageLimitBreach) -> str:
    return str(event)


def _describe_started(event: RunStarted) -> str:
    parent = event.parent_conversation_id
    if event.forked_at is not None:
        return f"a copy of {parent} up to version {event.forked_at}"
    call = f", call {event.parent_call_id}" if event.parent_call_id else ""
    return (event.agent or "a run") + (f" for {parent}{call}" if parent else "")


def _describe_ended(event: RunEnded) -> str:
    return event.reason + (f": {event.failure.message}" if event.failure else "")


def _describe_redaction(event: PayloadsRedacted) -> str:
    what = f"{', '.join(event.paths)} of " if event.paths else ""
    versions = ", ".join(str(each.version) for each in event.payloads)
    rule = f", rule {event.rule}" if event.rule else ""
    of = f" of {event.origin}" if event.origin else ""
    return f"{what}version {versions}{of} redacted{_actor(event.by)}{rule}{_reason(event.reason)}"


def _describe_archived(event: EventsArchived) -> str:
    rule = f" ({event.rule})" if event.rule else ""
    return f"up to version {event.version} in {event.place}{_actor(event.by)}{rule}"


def _describe_restored(event: EventsRestored) -> str:
    return f"up to version {event.version}{_actor(event.by)}"


def _describe_unknown(event: UnknownEvent) -> str:
    if event.is_redacted:
        return f"schema {event.schema}: {REDACTED}"
    return f"schema {event.schema}: {event.payload}"


def _actor(name: str | None) -> str:
    return f" by {name}" if name else ""


def _reason(reason: str | None) -> str:
    return f": {reason}" if reason else ""


_DESCRIPTIONS: dict[type[Event], Callable[[Any], str]] = {
    EventsArchived: _describe_archived,
    EventsRestored: _describe_restored,
    HistoryCompacted: _describe_compacted,
    HookRaised: _describe_raised,
    MessageAdded: _describe_message,
    ModelResponded: response_text,
    PayloadsRedacted: _describe_redaction,
    RunEnded: _describe_ended,
    RunStarted: _describe_started,
    ToolApproved: _describe_approved,
    ToolCompleted: _describe_completed,
    ToolEndedLate: _describe_late,
    ToolFailed: _describe_failed,
    ToolPaused: _describe_paused,
    ToolPending: _describe_pending,
    ToolRejected: _describe_rejected,
    ToolRenewed: _describe_renewed,
    ToolRunning: _describe_running,
    ToolsOffered: _describe_offered,
    UnknownEvent: _describe_unknown,
    UsageLimitBreach: _describe_breach,
}
