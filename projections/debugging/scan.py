"""Scanners: rules that look for what often goes wrong, over the whole log of a conversation.

A rule is a function of a `ScannedLog` that yields findings. The built-in ones depend on the log
alone, as `why` does. Unlike `why` they rank nothing, and do not care how the run ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import msgspec

from eventstore import FunctionCall, MessageAdded, Recorded, Text, ToolPending
from eventstore.domain.credentials import without_credentials
from eventstore.domain.one_line import one_line
from projections.debugging.call_facts import CallFacts, LogFacts
from projections.debugging.error_groups import group_errors
from projections.debugging.loops import loop_text
from projections.formatting import NotebookText, arguments_text, duration, plural
from projections.repeats.projection import repeats

REPEATED = 3
"""How often the same error comes before it is a finding."""

LARGE_CHARACTERS, LARGE_SHARE = 20_000, 0.25
"""A result is large from that many characters and that share of the whole log on."""

LONG_WAIT = 3_600_000_000
"""Microseconds that a decision may take."""

_MIN_WORDS = 5
_MAX_CHARACTERS = 200_000  # of one text that is read for words
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@-]{5,}")


class ScanFinding(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """What a rule found: in words, with the versions that it concerns, and its call if it has one.

    `rule` is the name of the rule.
    """

    rule: str
    text: str
    versions: tuple[int, ...]
    call_id: str | None = None

    def __str__(self) -> str:
        return f"{self.rule}: version {self.versions[0] if self.versions else 0}: {self.text}"


class ScannedLog:
    """The events of one conversation, and what several rules ask of them, made once."""

    def __init__(self, events: Iterable[Recorded]) -> None:
        self.events: Sequence[Recorded] = tuple(events)

    @cached_property
    def facts(self) -> LogFacts:
        """What the log says of each call."""
        return LogFacts().extend(self.events)


Rule: TypeAlias = Callable[[ScannedLog], Iterable[ScanFinding]]


def loops(log: ScannedLog) -> Iterator[ScanFinding]:
    """Yield the calls that repeat, and the cycles."""
    for found in repeats(log.events):
        versions = (found.run_first.version, found.run_last.version)
        yield ScanFinding("loops", loop_text(found), versions)


def open_calls(log: ScannedLog) -> Iterator[ScanFinding]:
    """Yield the calls without an end."""
    for call in log.facts.calls.values():
        if call.is_open:
            yield _of_call("open_calls", call, f"is {call.status} and has no end")


def repeated_errors(log: ScannedLog) -> Iterator[ScanFinding]:
    """Yield the errors that came `REPEATED` times or more, numbers in them left out."""
    for group in group_errors(log.facts):
        if len(group.errors) >= REPEATED:
            versions = tuple(error.version for error in group.errors)
            text = f"{plural(len(versions), 'time')}: {group.line_of(group.first)}"
            yield ScanFinding("repeated_errors", text, versions)


def unused_results(log: ScannedLog) -> Iterator[ScanFinding]:
    """Yield the results of which no distinctive word comes again in what the model said later."""
    said: set[str] = set()
    results = {call.ended: call for call in log.facts.calls.values() if _has_result(call)}
    found: list[ScanFinding] = []
    for recorded in reversed(log.events):
        call = results.get(recorded.version)
        if call is not None and said:
            words = _words(_text(call.result)) - _words(_arguments(call.call))
            if len(words) >= _MIN_WORDS and words.isdisjoint(said):
                found.append(_of_call("unused_results", call, "has a result that nothing uses"))
        said |= _said(recorded)
    yield from reversed(found)


def large_results(log: ScannedLog) -> Iterator[ScanFinding]:
    """Yield the results that take a great share of all that the model reads."""
    whole = max(log.facts.characters, 1)
    for call in log.facts.calls.values():
        size = len(_text(call.result)) if _has_result(call) else 0
        if size >= LARGE_CHARACTERS and size >= LARGE_SHARE * whole:
            text = f"has a result of {size:,} characters, {size / whole:.0%} of the log"
            yield _of_call("large_results", call, text)


def long_waits(log: ScannedLog) -> Iterator[ScanFinding]:
    """Yield the calls that waited longer than `LONG_WAIT` for a decision, or wait still."""
    asked: dict[str, Recorded] = {}
    for recorded in log.events:
        tag, call_id = recorded.event.tag, recorded.call_id
        if tag in ("pending", "paused") and call_id is not None:
            asked[call_id] = recorded
        elif call_id in asked:
            before = asked.pop(call_id)
            waited = recorded.time - before.time
            call = log.facts.calls.get(call_id)
            if tag in ("approved", "rejected") and waited > LONG_WAIT and call is not None:
                yield _of_call("long_waits", call, f"waited {duration(waited)} to be {tag}")
    for call_id, before in asked.items():
        waited = log.events[-1].time - before.time
        if waited > LONG_WAIT and call_id in log.facts.calls:
            text = f"had waited {duration(waited)} when the log ends"
            yield _of_call("long_waits", log.facts.calls[call_id], text)


def secrets_in_arguments(log: ScannedLog) -> Iterator[ScanFinding]:
    """Yield the calls whose arguments hold what has the form of a key, a token or a password."""
    for call in log.facts.calls.values():
        text = _arguments(call.call)
        if without_credentials(text) != text:
            yield _of_call(
                "secrets_in_arguments", call, "has a credential in its arguments", shown=False
            )


RULES: tuple[Rule, ...] = (
    loops,
    open_calls,
    repeated_errors,
    unused_results,
    large_results,
    long_waits,
    secrets_in_arguments,
)
"""The built-in rules."""


def scan(events: Iterable[Recorded], rules: Iterable[Rule] = RULES) -> list[ScanFinding]:
    """Return what the rules find in the events of one conversation, in the order of their versions.

    A rule of your own is a function that takes a `ScannedLog` and yields `ScanFinding`s:
    `scan(chat.events(), [*RULES, mine])`.
    """
    log = ScannedLog(events)
    found = [finding for rule in rules for finding in rule(log)]
    return sorted(found, key=lambda finding: finding.versions[:1])


def _of_call(rule: str, call: CallFacts, text: str, *, shown: bool = True) -> ScanFinding:
    name = one_line(call.name, 64)
    asked = f"{name} {arguments_text(call.call, 60)}" if shown else name
    return ScanFinding(rule, f"{asked} {text}", (call.version,), call.id)


def _has_result(call: CallFacts) -> bool:
    return call.status == "completed" and not call.is_error


def _said(recorded: Recorded) -> set[str]:
    """Return the words that the model said in an event."""
    event = recorded.event
    if isinstance(event, ToolPending):
        return _words(_arguments(event.call))
    if isinstance(event, MessageAdded) and event.role == "assistant":
        return _words(" ".join(part.text for part in event.parts if isinstance(part, Text)))
    return set()


def _words(text: str) -> set[str]:
    return {word.strip(".:/").lower() for word in _WORD.findall(text[:_MAX_CHARACTERS])}


def _arguments(call: FunctionCall) -> str:
    return call.raw if call.raw is not None else _text(call.arguments)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except Exception:  # noqa: BLE001 - a log made by hand may hold anything
        return ""
