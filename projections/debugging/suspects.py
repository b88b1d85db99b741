"""The suspects: what in a log may be the cause of a failed run, each with a weight.

1. What ended the run, or was under way when the log stops, weighs most: nothing came of it.
2. An error that the model cannot mend (expired credentials, a full context) weighs more than one
   that it can mend.
3. A failure after which the same call succeeded is recovered and is no suspect.
4. What the run went on from weighs less the earlier it was.
5. Of one call the heaviest suspect remains. The order is by weight, and then the latest first.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import msgspec

from eventstore import RunEnded
from eventstore.domain.finish_reasons import Ending, ending_of
from eventstore.domain.one_line import one_line
from eventstore.domain.redaction import REDACTED
from projections.debugging.call_facts import CallError, CallFacts, LogFacts
from projections.debugging.error_groups import ErrorGroup, error_kind
from projections.debugging.error_line import error_line, same_error_key
from projections.debugging.loops import loop_span, loop_text, loop_weight
from projections.debugging.result_faults import mismatch, truncation_weight
from projections.formatting import NotebookText, arguments_text, plural
from projections.projection import Anomaly
from projections.repeats.projection import Finding, Repeat


class Cause(NotebookText, msgspec.Struct, frozen=True, gc=False):
    """A place in the log that may be the cause.

    `version` is the event to look at, `versions` every event that belongs to it, in order. `kind`
    is one of: auth, context, crash, doubled, error, interrupted, json, limit, loop, misplaced,
    mismatch, open, quota, refused, silence, size, truncated, unreadable. `weight` (0 to 100) orders
    causes of one log; it is no probability.
    """

    kind: str
    version: int
    versions: tuple[int, ...]
    text: str
    weight: int
    call_id: str | None = None
    tool: str | None = None

    def __str__(self) -> str:
        return f"version {self.version}: {self.text}"


_SAYS_NOTHING = re.compile(
    r"(?:command |process )?(?:failed with |exited with )?exit(?:ed)?(?: with)?[ -]?"
    r"(?:code|status)?:? ?-?\d+\W*$|error\W*$",
    re.IGNORECASE,
)

_WEIGHTS = {"context": 92, "auth": 80, "quota": 79, "json": 74, "interrupted": 66, "error": 56}
_MIN_LARGE_CHARACTERS = 200_000
_MIN_TWIN_CHARACTERS, _TWINS = 120, 2
"""Only data is compared: a constant answer, such as "saved", is that of many calls."""
_ENDINGS: dict[Ending, tuple[str, str]] = {
    "truncated": ("truncated", "cut off"),
    "withheld": ("refused", "withheld"),
    "malformed": ("truncated", "malformed"),
    "broken": ("truncated", "ended by an error"),
}
"""The kind of cause, and its words, of a response that is not whole."""


def _later_successes(facts: LogFacts) -> dict[str, int]:
    """Return for each tool the version of its last result that says no error."""
    found: dict[str, int] = {}
    for call in facts.calls.values():
        if call.status == "completed" and not call.is_error:
            found[call.name] = max(found.get(call.name, 0), call.ended)
    return found


class Suspects:
    """The causes that the facts of one conversation suggest."""

    def __init__(
        self, facts: LogFacts, groups: list[ErrorGroup], loops: list[Finding], damage: list[Anomaly]
    ) -> None:
        self._facts = facts
        self._groups = groups
        self._loops = loops
        self._damage = damage
        self._successes = _later_successes(facts)
        self._requests = sorted(call.version for call in facts.calls.values())
        self._last = facts.last.version if facts.last is not None else 0
        self._last_assistant = facts.assistant_messages[-1] if facts.assistant_messages else 0

    def ranked(self) -> list[Cause]:
        """Return the causes, the heaviest first, one for each call."""
        found = sorted(self._all(), key=lambda cause: (-cause.weight, -cause.version))
        seen: set[str] = set()
        kept: list[Cause] = []
        for cause in found:
            if cause.call_id is not None and cause.kind != "loop":
                if cause.call_id in seen:
                    continue
                seen.add(cause.call_id)
            kept.append(cause)
        return kept

    def _all(self) -> Iterator[Cause]:
        yield from self._end()
        yield from self._limits()
        yield from self._cut_off()
        yield from self._open_calls()
        yield from self._errors()
        yield from self._refusals()
        yield from self._loop_causes()
        yield from self._strays()
        yield from self._arguments()
        yield from self._results()
        yield from self._unreadable()
        yield from self._silence()

    def _recency(self, version: int) -> int:
        return 8 * version // max(self._last, 1)

    def _calls_after(self, version: int) -> int:
        return len(self._requests) - bisect_right(self._requests, version)

    # how it ended

    def _end(self) -> Iterator[Cause]:
        ended = self._facts.ended
        event = ended.event if ended is not None else None
        if ended is None or type(event) is not RunEnded or event.reason == "completed":
            return
        failure = event.failure
        if failure is None:
            yield _cause("error", ended.version, f"the run ended: {event.reason}", 58)
            return
        line = error_line(failure.message)
        if any(same_error_key(g.line) == same_error_key(line) for g in self._groups):
            return  # a call's failure ended the run: it is heavier than this
        kind = error_kind(CallError(ended.version, failure.message, str(failure.kind)), line)
        if kind == "context":
            yield self._context(ended.version, line, (ended.version,), 98)
            return
        text = f"the run ended ({event.reason}, {failure.kind}): {line}"
        yield _cause(kind, ended.version, text, 95)

    def _context(self, version: int, line: str, versions: tuple[int, ...], weight: int) -> Cause:
        """Return the cause of a context that was full: the largest result, where one stands out."""
        size, at = self._facts.largest
        total = max(self._facts.characters, 1)
        text = f"the context is full: {line}"
        if size:
            share = 100 * size // total
            text += f"; the largest result is version {at}, {size:,} characters, {share}% of all"
            versions = tuple(sorted({*versions, at}))
        return _cause("context", version, text, weight, versions=versions)

    # what the model's responses have used, and how they ended

    def _limits(self) -> Iterator[Cause]:
        """Yield the usage limits that were reached; the last one, if nothing was done after it."""
        for version, breach in self._facts.breaches:
            has_gone_on = bool(self._calls_after(version)) or self._last_assistant > version
            weight = 34 + self._recency(version) if has_gone_on else 96
            yield _cause("limit", version, f"the usage limit was reached: {breach}", weight)

    def _cut_off(self) -> Iterator[Cause]:
        """Yield the responses that are not whole."""
        last = self._facts.responses[-1][0] if self._facts.responses else 0
        for version, response in self._facts.responses:
            ending = _ENDINGS.get(ending_of(response.provider, response.finish_reason))
            if ending is None:
                continue
            kind, what = ending
            tokens = f" after {response.usage.output_tokens:,} tokens" if response.usage else ""
            text = f"the model's response was {what}{tokens} ({response.finish_reason})"
            weight = 76 if version == last else 38 + self._recency(version)
            yield _cause(kind, version, text, weight)

    # calls without an end

    def _open_calls(self) -> Iterator[Cause]:
        groups: dict[tuple[str, int], list[CallFacts]] = {}
        for call in self._facts.calls.values():
            if call.is_open:
                groups.setdefault(self._open_group(call), []).append(call)
        for (what, weight), calls in groups.items():
            last = calls[-1]
            version = last.started or last.version
            text = f"{_name(last)} {what} (asked for at version {last.version})"
            if len(calls) > 1:
                text += f"; {len(calls):,} such calls since version {calls[0].version}"
            versions = tuple(sorted({v for c in calls for v in (c.version, c.started) if v}))
            kind = "crash" if last.status == "running" else "open"
            yield _cause(kind, version, text, weight, versions=versions, call=last)

    def _open_group(self, call: CallFacts) -> tuple[str, int]:
        is_last_turn = call.version > self._last_assistant
        role = self._role_after(call.version)
        if call.status == "running":
            return "started, and its end is not recorded", 91 if is_last_turn else 78
        waits = {"approved": "was approved and never started", "paused": "paused, and waits"}
        what = waits.get(call.status, "was never answered")
        if call.call.raw is not None:
            return f"{what}, and its arguments are not a JSON object", 92 if is_last_turn else 79
        if is_last_turn:
            return (what if call.imported else f"{what}: it waits for a decision"), 88
        if role == "user":
            return f"{what}: the user went on", 45 if call.imported else 62
        return f"{what}: the model went on without it", 80

    def _role_after(self, version: int) -> str | None:
        messages = self._facts.messages
        at = bisect_right(messages, (version, "~"))
        return messages[at][1] if at < len(messages) else None

    # errors

    def _errors(self) -> Iterator[Cause]:
        ended = self._facts.ended
        failure = getattr(ended.event, "failure", None) if ended is not None else None
        end_key = same_error_key(error_line(failure.message)) if failure is not None else None
        latest = next((g for g in reversed(self._groups) if not g.recovered), None)
        for group in self._groups:
            if group.last in group.recovered:
                continue
            weight = self._error_weight(group, is_latest=group is latest)
            if end_key == same_error_key(group.line):
                weight = 99
            yield self._error(group, weight)

    def _error_weight(self, group: ErrorGroup, *, is_latest: bool) -> int:
        last = group.last
        weight = _WEIGHTS[group.kind]
        if not last.is_marked:
            weight -= 4
        if _SAYS_NOTHING.match(group.line):
            weight -= 26
        if last.version > self._facts.last_progress:
            return min(weight + max(26 - 4 * self._calls_after(last.version), 8), 97)
        if last.call is not None and self._successes.get(last.call.name, 0) > last.version:
            weight -= 18 if group.kind == "error" else 8
        return weight + self._recency(last.version) + 6 * is_latest

    def _error(self, group: ErrorGroup, weight: int) -> Cause:
        first, last = group.first, group.last
        shown = first if group.kind in ("auth", "quota", "context") else last
        versions = tuple(error.version for error in group.errors)
        if group.kind == "context":
            return self._context(shown.version, group.line, versions, weight)
        call = shown.call
        if call is None:
            text = group.line
        else:
            verb = "failed" if shown.is_marked else "answered with an error"
            text = f"{_name(call)} {verb}: {group.line} (asked for at version {call.version})"
            versions = tuple(sorted({*versions, call.version}))
        if len(group.errors) > 1:
            other = (
                f"again at version {last.version}"
                if shown is first
                else (f"first at version {first.version}")
            )
            text += f"; {len(group.errors):,} times, {other}"
        return _cause(group.kind, shown.version, text, weight, versions=versions, call=call)

    def _refusals(self) -> Iterator[Cause]:
        groups: dict[tuple[str, str | None], list[CallFacts]] = {}
        for call in self._facts.calls.values():
            if call.rejection is not None:
                key = call.rejection.source, call.rejection.by
                groups.setdefault(key, []).append(call)
        for (source, by), calls in groups.items():
            last = calls[-1]
            reason = last.rejection.reason if last.rejection is not None else None
            text = f"{_name(last)} was refused by {by or source}"
            text += f": {error_line(reason, 80)}" if reason else ""
            text += f" (asked for at version {last.version})"
            if len(calls) > 1:
                text += f"; {len(calls):,} calls since version {calls[0].ended}"
            weight = 50 if source in ("human", "hook") else 46
            if last.ended > self._facts.last_progress:
                weight = max(90 - 4 * self._calls_after(last.ended), weight)
            versions = tuple(sorted(v for c in calls for v in (c.version, c.ended)))
            yield _cause("refused", last.ended, text, weight, versions=versions, call=last)

    # loops

    def _loop_causes(self) -> Iterator[Cause]:
        for loop in self._loops:
            first, last = loop_span(loop)
            name = loop.call.name if isinstance(loop, Repeat) else loop.calls[0].name
            text = f"a loop: {loop_text(loop)}"
            yield Cause("loop", first, (first, last), text, loop_weight(loop), None, name)

    # results in the wrong place

    def _strays(self) -> Iterator[Cause]:
        for stray in self._facts.strays:
            call = stray.call
            named = _name(call) if call is not None else repr(stray.call_id)
            text = f"{stray.problem} {named}"
            versions = [stray.version]
            if call is not None:
                text += f" (asked for at version {call.version}"
                text += f", answered at {call.ended})" if call.ended else ")"
                versions = sorted({stray.version, call.version, call.ended or stray.version})
            weight = 78 + self._recency(stray.version)
            is_double = "second" in stray.problem or "late result" in stray.problem
            kind = "doubled" if is_double else "misplaced"
            yield _cause(kind, stray.version, text, weight, versions=tuple(versions), call=call)

    def _arguments(self) -> Iterator[Cause]:
        for call in self._facts.calls.values():
            raw = call.call.raw
            if raw in (None, REDACTED) or call.edit is not None or call.is_open:
                continue
            weight = 90 if call.version > self._last_assistant else 77
            if self._successes.get(call.name, 0) > call.ended:
                weight -= 6
            text = f"the arguments of {call.name} are not a JSON object: they end in {raw[-40:]!r}"
            versions = (call.version, call.ended) if call.ended else (call.version,)
            yield _cause("json", call.version, text, weight, versions=versions, call=call)

    def _results(self) -> Iterator[Cause]:
        twins: dict[tuple[str, str], list[CallFacts]] = {}
        for call in self._facts.calls.values():
            result = call.result
            if type(result) is str:
                if (weight := truncation_weight(result)) is not None:
                    text = f"the result of {call.name} is JSON that breaks off: {result[-40:]!r}"
                    yield self._result("truncated", call, text, weight)
                if len(result) > _MIN_TWIN_CHARACTERS and result[0] in "{[":
                    twins.setdefault((call.name, result), []).append(call)
            if (problem := mismatch(call)) is not None:
                yield self._result("mismatch", call, f"{_name(call)} {problem}", 70)
        yield from self._twins(twins.values())
        size, at = self._facts.largest
        stands_out = 2 * size > self._facts.characters or size > 4 * self._facts.second_largest
        if size >= _MIN_LARGE_CHARACTERS and stands_out:
            share = 100 * size // self._facts.characters
            text = f"one result of {size:,} characters is {share}% of all that the model reads"
            weight = 84 if at >= self._facts.last_progress else 71
            yield _cause("size", at, text, weight)

    def _twins(self, same_results: Iterable[list[CallFacts]]) -> Iterator[Cause]:
        """Yield the data that two calls got which asked for different things."""
        for calls in same_results:
            first, last = calls[0], calls[-1]
            if len({call.fingerprint for call in calls}) == len(calls) == _TWINS:
                text = f"{_name(last)} got the very result of other arguments, at {first.ended}"
                yield self._result("mismatch", last, text, 12)

    def _result(self, kind: str, call: CallFacts, text: str, weight: int) -> Cause:
        text += f" (asked for at version {call.version})"
        weight += self._recency(call.ended)
        versions = call.version, call.ended
        return _cause(kind, call.ended, text, weight, versions=versions, call=call)

    # the log itself

    def _unreadable(self) -> Iterator[Cause]:
        strays = {stray.version for stray in self._facts.strays}
        damage = [anomaly for anomaly in self._damage if anomaly.version not in strays]
        if damage:
            first = damage[0]
            text = f"the event does not fit the log: {one_line(first.problem, 160)}"
            if len(damage) > 1:
                text += f"; {plural(len(damage), 'such event')}, the last at {damage[-1].version}"
            versions = tuple(anomaly.version for anomaly in damage)
            yield _cause("unreadable", first.version, text, 72, versions=versions)

    def _silence(self) -> Iterator[Cause]:
        facts = self._facts
        if facts.last is None or not facts.messages or facts.ended is not None:
            return
        version, role = facts.messages[-1]
        if role == "user" and version > self._last_assistant:
            yield _cause("silence", version, "the user's message has no answer", 40)
        elif role == "assistant" and facts.last_progress > version:
            text = "the model never answered the last result"
            yield _cause("silence", facts.last_progress, text, 41)


def _cause(
    kind: str,
    version: int,
    text: str,
    weight: int,
    *,
    versions: Iterable[int] = (),
    call: CallFacts | None = None,
) -> Cause:
    places = tuple(versions) or (version,)
    call_id, tool = (call.id, call.name) if call is not None else (None, None)
    return Cause(kind, version, places, text, min(max(weight, 1), 100), call_id, tool)


def _name(call: CallFacts) -> str:
    return f"{call.name} {arguments_text(call.edit or call.call, 48)}"
