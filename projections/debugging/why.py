"""Why: how a conversation ended, what is most likely the cause, and where to look.

Ten lines, the same for the same log: no clock, no model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

import msgspec

from eventstore import MessageAdded, Recorded, RunStarted, ToolPending
from eventstore.domain.one_line import one_line
from projections.current_tools import CurrentTools
from projections.debugging.call_facts import CallFacts, LogFacts
from projections.debugging.error_groups import ErrorGroup, group_errors
from projections.debugging.loops import loop_text
from projections.debugging.rules.evidence import Cause, Evidence
from projections.debugging.run_end import finishes
from projections.debugging.suspects import suspects
from projections.formatting import NotebookText, plural, usage_text, utc_text
from projections.repeats.projection import Finding, Repeats

MAX_LISTED = 4
"""Calls, loops or causes that one line names."""

_LOOP_CALLS = 3
_MAX_OTHERS = 3
_OTHER_CHARACTERS = 150
_LABEL_CHARACTERS = 10


class ErrorPlace(msgspec.Struct, frozen=True, gc=False):
    """The last error: its version, its call, its error line, and where the same came before.

    `is_marked` is false where a result says the error, and the log does not call it a failure.
    """

    version: int
    call_id: str | None
    tool: str | None
    line: str
    first_version: int
    count: int
    is_marked: bool = True


class CallPlace(msgspec.Struct, frozen=True, gc=False):
    """A call that a line names: its request's version, its state, and the version of its end."""

    call_id: str
    tool: str
    version: int
    status: str
    ended: int | None = None
    reason: str | None = None


class Diagnosis(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """Why a conversation failed, as data; `print` it for its lines.

    - `causes`: what may be the cause, the most likely first; see `Cause`.
    - `ended`: how the log ends. `last_version` is its last version, 0 for an empty log.
    - `failure`: the last error, or None. `open`, `refused` and `recovered` are calls: without an
      end, refused or hidden, and failed before they (or an equal call) completed.
    - `loops`: repeats and cycles.
    - `settled`: the calls of which a person ended the doubt, and how; a line of its own, if any.
    - `look_at`: the version to look at, `command` the command that shows it; None without a cause.
    """

    conversation_id: str
    last_version: int
    ended: str
    causes: tuple[Cause, ...]
    failure: ErrorPlace | None
    open: tuple[CallPlace, ...]
    loops: tuple[Finding, ...]
    refused: tuple[CallPlace, ...]
    recovered: tuple[CallPlace, ...]
    look_at: int | None
    command: str | None
    settled: tuple[CallPlace, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, each with its label: ten, and one more where a doubt was settled."""
        return tuple(f"{label:<{_LABEL_CHARACTERS}} {text}" for label, text in self.labelled)

    @property
    def labelled(self) -> tuple[tuple[str, str], ...]:
        """The label and the text of each line."""
        return tuple(self._labelled())

    def _labelled(self) -> Iterator[tuple[str, str]]:
        first, *others = self.causes or (None,)
        yield "ended", self.ended
        yield "cause", str(first) if first else "nothing in the log says that it failed"
        yield "or else", _joined([_short(cause) for cause in others[:_MAX_OTHERS] if cause])
        yield "failure", self._failure()
        yield "first", self._first()
        yield "open", _listed(self.open, "call")
        yield "loops", _joined([loop_text(loop) for loop in self.loops])
        yield "refused", _listed(self.refused, "call")
        yield "recovered", _listed(self.recovered, "call", "failed and then succeeded")
        if self.settled:
            yield "settled", _listed(self.settled, "call", "in doubt")
        yield "look at", f"version {self.look_at}: {self.command}" if self.look_at else "nothing"

    def _failure(self) -> str:
        failure = self.failure
        if failure is None:
            return "no call failed"
        tool = failure.tool or "no tool"
        answered = "" if failure.is_marked else ", answered with an error"
        return f"version {failure.version}, {tool}{answered}: {failure.line}"

    def _first(self) -> str:
        failure = self.failure
        if failure is None:
            return "-"
        if failure.count == 1:
            return "that error came once"
        return f"that error came first at version {failure.first_version}, {failure.count:,} times"

    def markdown(self) -> str:
        """Return the lines as a Markdown list under a heading, for an issue or a chat."""
        items = "\n".join(f"- **{label}**: {escaped(text)}" for label, text in self.labelled)
        name = escaped(self.conversation_id)
        heading = f"Why {name} failed" if self.causes or self.failure else f"How {name} ended"
        return f"### {heading}\n\n{items}\n"

    def __str__(self) -> str:
        return "\n".join(self.lines)


def why(events: Iterable[Recorded]) -> Diagnosis:
    """Return why a conversation failed: how it ended, the likely causes, and where to look.

    The events are those of one conversation, from its start: `why(chat.events())`. The answer
    depends on them alone. A damaged log never raises.

    Raises:
        ValueError: the events are of several conversations.
    """
    events = list(events)
    if len({recorded.conversation_id for recorded in events}) > 1:
        raise ValueError(
            "the events are of several conversations: pass those of one, as why(chat.events()) does"
        )
    facts = LogFacts().extend(events)
    damage = CurrentTools().extend(events).anomalies
    loops = _loops(events, facts)
    groups = group_errors(facts)
    causes = tuple(suspects(Evidence(facts, groups, loops, damage)))
    conversation_id = events[0].conversation_id if events else ""
    look_at = causes[0].version if causes else None
    return Diagnosis(
        conversation_id=conversation_id,
        last_version=events[-1].version if events else 0,
        ended=_ended(facts, len(damage)),
        causes=causes,
        failure=_failure_of(groups),
        open=tuple(_place(call) for call in facts.calls.values() if call.is_open),
        loops=tuple(loops),
        refused=tuple(_place(call) for call in facts.calls.values() if call.rejection),
        recovered=tuple(_recovered(groups)),
        look_at=look_at,
        command=None if look_at is None else _command(conversation_id, look_at),
        settled=tuple(_settled(facts)),
    )


def _command(conversation_id: str, version: int) -> str:
    return f"toolledger show {quote(conversation_id)} --around {version}"


def _loops(events: Sequence[Recorded], facts: LogFacts) -> list[Finding]:
    """Return the repeats; the answers are compared only where a call is made often enough."""
    counts = Counter(call.fingerprint for call in facts.calls.values())
    often = {key for key, count in counts.items() if key is not None and count >= _LOOP_CALLS}
    if not often:
        return []
    repeats = Repeats()
    calls = facts.calls
    for recorded in events:
        event = recorded.event
        if type(event) is ToolPending or (type(event) is MessageAdded and event.role == "user"):
            repeats.apply(recorded)
        elif recorded.call_id is not None:
            call = calls.get(recorded.call_id)
            if call is not None and call.fingerprint in often:
                repeats.apply(recorded)
    return repeats.findings


def _ended(facts: LogFacts, damaged: int) -> str:
    if facts.last_said is None:
        return "the log is empty"
    opened = [
        call
        for call in facts.calls.values()
        if call.is_open and not (call.imported and finishes(call.call))
    ]
    text = facts.end.text + _copied_from(facts)
    if opened:
        first, latest = opened[0], opened[-1]
        since = f"since version {first.version}"
        if not first.imported:
            since += f" ({utc_text(first.at)} UTC)"
        text += f", with {plural(len(opened), 'call')} open {since}"
        if latest is not first:
            text += f", the last from version {latest.version}"
    if facts.compactions:
        text += f"; compacted at version {facts.compactions[-1][0]}"
    if facts.responses:
        text += f"; {plural(len(facts.responses), 'response')}: {usage_text(facts.usage)}"
    if facts.redactions:
        count = len({each.version for event in facts.redactions for each in event.payloads})
        people = ", ".join(dict.fromkeys(event.by for event in facts.redactions))
        text += f"; {plural(count, 'event')} redacted by {people}"
    if damaged:
        text += f"; {plural(damaged, 'event')} {'do' if damaged > 1 else 'does'} not fit the log"
    return text


def _copied_from(facts: LogFacts) -> str:
    started = facts.started[-1].event if facts.started else None
    if not isinstance(started, RunStarted) or not started.parent_conversation_id:
        return ""
    if started.forked_at is not None:
        return f"; a copy of {started.parent_conversation_id} from version {started.forked_at} on"
    call = f", call {started.parent_call_id}" if started.parent_call_id else ""
    return f"; a sub-agent of {started.parent_conversation_id}{call}"


def _failure_of(groups: list[ErrorGroup]) -> ErrorPlace | None:
    if not groups:
        return None
    group = groups[-1]
    call = group.last.call
    return ErrorPlace(
        group.last.version,
        call.id if call else None,
        call.name if call else None,
        group.line,
        group.first.version,
        len(group.errors),
        group.last.is_marked,
    )


def _recovered(groups: list[ErrorGroup]) -> Iterator[CallPlace]:
    """Yield each call that failed and completed after all, or whose equal did; with the failure."""
    found = {
        error.call.id: CallPlace(
            error.call.id, error.call.name, error.call.version, "recovered", error.version
        )
        for group in groups
        for error in group.recovered
        if error.call is not None
    }
    yield from sorted(found.values(), key=lambda place: place.version)


def _settled(facts: LogFacts) -> Iterator[CallPlace]:
    """Yield each call of which a person ended the doubt, with the version of that word."""
    for call in facts.calls.values():
        if call.settlement is not None:
            yield CallPlace(call.id, call.name, call.version, call.settlement, call.settled)


def _place(call: CallFacts) -> CallPlace:
    reason = None
    status = call.status
    if call.rejection is not None:
        status = f"refused by {call.rejection.by or call.rejection.source}"
        reason = call.rejection.reason
    return CallPlace(call.id, call.name, call.version, status, call.ended or None, reason)


def _listed(places: Sequence[CallPlace], noun: str, what: str = "") -> str:
    if not places:
        return "none"
    shown = [_place_text(place) for place in places[-MAX_LISTED:]]
    more = f", and {len(places) - MAX_LISTED:,} before" if len(places) > MAX_LISTED else ""
    return f"{plural(len(places), noun)}{' ' + what if what else ''}: {'; '.join(shown)}{more}"


def _place_text(place: CallPlace) -> str:
    text = f"{place.tool} at version {place.version}"
    if place.status == "recovered":
        return f"{text}, failed at {place.ended}"
    text += f", {one_line(place.status, 120)}"
    return f"{text}: {one_line(place.reason, 60)}" if place.reason else text


def _short(cause: Cause) -> str:
    return one_line(str(cause), _OTHER_CHARACTERS)


def _joined(texts: Sequence[str]) -> str:
    if not texts:
        return "none"
    more = f"; and {len(texts) - MAX_LISTED:,} more" if len(texts) > MAX_LISTED else ""
    return "; ".join(texts[:MAX_LISTED]) + more


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|" else char for char in text)
