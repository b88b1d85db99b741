"""Rules about calls that come again: in a loop, with other answers, or after a compaction."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from projections.debugging.call_facts import CallFacts
from projections.debugging.error_line import error_line
from projections.debugging.loops import loop_span, loop_text, loop_weight
from projections.debugging.rules.commands import changes_nothing, directory_of, runs_tests
from projections.debugging.rules.evidence import Cause, Evidence, cause, shown
from projections.formatting import plural
from projections.repeats.projection import Finding, Repeat

_LONG = 5
_ORDINARY = 50
"""What repeats weigh from which on they are a cause by themselves."""


def loop(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the calls repeated so often, or to no end, that nothing else need be wrong."""
    for found, heavy in _loops(e):
        if heavy >= _ORDINARY:
            yield _loop(found, min(heavy, weight))


def called_again(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the other repeats: a state that was asked for until it changed, say."""
    for found, heavy in _loops(e):
        if heavy < _ORDINARY:
            yield _loop(found, min(heavy, weight))


def _loops(e: Evidence) -> Iterator[tuple[Finding, int]]:
    """Yield the loops, each with its weight."""
    for found in e.loops:
        heavy = loop_weight(found)
        has_changed = (
            isinstance(found, Repeat)
            and not found.same_answer
            and (found.run < _LONG or _became_another(e, found))
        )
        if has_changed and e.facts.end.ends_well:
            heavy = min(heavy, _ORDINARY - 2)  # the answer changed, and the run went on
        yield found, heavy


def _became_another(e: Evidence, found: Repeat) -> bool:
    """Return whether a call that only looks waited for an answer, and got it at last."""
    first, last = loop_span(found)
    calls = [
        call
        for call in e.asked_between(first - 1, last)
        if call.name == found.call.name and changes_nothing(call)
    ]
    return len(calls) > 1 and not calls[-1].is_error and calls[-1].result != calls[-2].result


def _loop(found: Finding, weight: int) -> Cause:
    first, last = loop_span(found)
    name = found.call.name if isinstance(found, Repeat) else found.calls[0].name
    return Cause("loop", first, (first, last), f"a loop: {loop_text(found)}", weight, None, name)


def flaky(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the calls that pass and fail by turns, with nothing changed between."""
    for calls in _made_again(e):
        turns = [
            (before, after)
            for before, after in pairwise(calls)
            if before.is_error != after.is_error
        ]
        idle = [turn for turn in turns if _nothing_changed(e, *turn)]
        fell = any(turn[1].is_error for turn in idle)
        if not idle or not (fell or len(turns) > 1):
            continue
        before, after = idle[0]
        bad = next(call for call in calls if call.is_error)
        failures = sum(call.is_error for call in calls)
        was, became = ("failed" if call.is_error else "passed" for call in (before, after))
        text = f"{shown(before)} is flaky: it {was} at version {before.ended} and {became} at "
        text += (
            f"{after.ended}, with nothing changed between; {failures:,} of {len(calls):,} failed: "
        )
        text += error_line(bad.errors[-1].text, 80)
        text += f" (asked for at version {before.version})"
        versions = {v for call in calls for v in (call.version, call.ended)}
        heavy = e.of_last_turn(before.ended, weight)
        yield cause("flaky", before.ended, text, heavy, versions=versions, call=before)


def passed_by_chance(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the tests that failed, and passed when they ran again with nothing changed."""
    for calls in _made_again(e):
        for before, after in pairwise(calls):
            fell = before.is_error and not after.is_error and runs_tests(before)
            if fell and _nothing_changed(e, before, after):
                text = f"{shown(before)} failed at version {before.ended} and passed at "
                text += f"{after.ended}, with nothing changed between (asked for at version "
                text += f"{before.version})"
                versions = {before.version, before.ended, after.version, after.ended}
                yield cause("flaky", before.ended, text, weight, versions=versions, call=before)
                break


def done_again(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the compactions after which the model changed again what it had changed before."""
    for at, again in _after_compactions(e):
        if any(not changes_nothing(call) for call, _ in again):
            yield _again(at, again, weight + e.recency(at))


def looked_again(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the compactions after which the model only looked again."""
    for at, again in _after_compactions(e):
        if all(changes_nothing(call) for call, _ in again):
            yield _again(at, again, weight + e.recency(at))


def _after_compactions(e: Evidence) -> Iterator[tuple[int, list[tuple[CallFacts, CallFacts]]]]:
    """Yield the version of each compaction, and the calls made again, each with the old one."""
    ends = [*(version for version, _ in e.facts.compactions[1:]), e.end_of_log]
    for (at, compaction), until in zip(e.facts.compactions, ends, strict=False):
        made = {
            call.fingerprint: call
            for call in e.asked_between(compaction.after, compaction.until)
            if call.fingerprint is not None
        }
        later = e.asked_between(at, until)
        again = [(call, made[call.fingerprint]) for call in later if call.fingerprint in made]
        if again:
            yield at, again


def _again(at: int, again: list[tuple[CallFacts, CallFacts]], weight: int) -> Cause:
    first, before = next((pair for pair in again if not changes_nothing(pair[0])), again[0])
    text = f"after the compaction at version {at} the model made {plural(len(again), 'call')} again"
    text += f": {shown(first)}, asked for at version {before.version}, and at {first.version} again"
    versions = {at, *(call.version for pair in again for call in pair)}
    return cause("compaction", at, text, weight, versions=versions)


def _made_again(e: Evidence) -> Iterator[list[CallFacts]]:
    """Yield the calls of one fingerprint that both failed and passed, in their order."""
    failing = {error.call.fingerprint for error in e.facts.errors if error.call} - {None}
    if not failing:
        return
    groups: dict[str, list[CallFacts]] = {}
    for call in e.calls:
        if call.fingerprint in failing and call.status in ("completed", "failed"):
            groups.setdefault(call.fingerprint or "", []).append(call)
    for calls in groups.values():
        if len(calls) > 1 and not all(call.is_error for call in calls):
            yield calls


def _nothing_changed(e: Evidence, before: CallFacts, after: CallFacts) -> bool:
    """Return whether every call between two others only looked."""
    between = e.asked_between(before.version, after.version)
    return all(
        call is after or (changes_nothing(call) and directory_of(call) is None) for call in between
    )
