"""Rules about how the run ended: its own end, limits, cut-off answers, and calls without an end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from eventstore import RunEnded
from eventstore.domain.closing_codes import FORKED
from eventstore.domain.finish_reasons import ending_of
from projections.debugging.call_facts import CallError, CallFacts
from projections.debugging.error_groups import error_kind
from projections.debugging.error_line import error_line, same_error_key
from projections.debugging.rules.errors import full_context
from projections.debugging.rules.evidence import Cause, Evidence, cause, shown
from projections.debugging.run_end import NOT_WHOLE, finishes

_DENIAL = re.compile(
    r"(?:\w+: )?(?:the )?(?:user|operator|human|approver|reviewer)(?: has| was)? (?:"
    r"rejected|denied|declined|refused|blocked|doesn't want|does not want|"
    r"did not approve|didn't approve|cancell?ed)|"
    r"[^\n]{0,80}\b(?:rejected|denied|declined|refused|blocked|not approved|cancell?ed)"
    r" by (?:the )?(?:user|operator|human|approver|reviewer|"
    r"policy|hook|sandbox|permission|rule|administrator)|"
    r"[^\n]{0,80}\b(?:haven't granted|has not granted|not been granted|"
    r"permission prompt was aborted|"
    r"permission to use \S{1,80} (?:has been|was) denied|approval (?:was )?(?:denied|rejected))",
    re.IGNORECASE,
)
"""How a result says that a person or a rule refused the call, where no event says so."""
_HINTS = re.compile(r"reject|den(?:y|ied)|declin|refus|block|approv|grant|abort|cancel|want")
_HEAD_CHARACTERS = 2_000


def run_ended(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the end of a run that did not complete, unless a call's failure ended it."""
    ended = e.facts.ended
    event = ended.event if ended is not None else None
    if ended is None or type(event) is not RunEnded or event.reason == "completed":
        return
    failure = event.failure
    if failure is None:
        yield cause("error", ended.version, f"the run ended: {event.reason}", 58)
        return
    line = error_line(failure.message)
    if any(same_error_key(group.line) == same_error_key(line) for group in e.groups):
        return  # the call is heavier than this
    kind = error_kind(CallError(ended.version, failure.message, str(failure.kind)), line)
    if kind == "context":
        yield full_context(e, ended.version, line, (ended.version,), weight + 3)
        return
    text = f"the run ended ({event.reason}, {failure.kind}): {line}"
    yield cause(kind, ended.version, text, weight)


def limit_reached(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the usage limits that were reached; the last one, if nothing was done after it."""
    for version, breach in e.facts.breaches:
        has_gone_on = bool(e.calls_after(version)) or e.last_assistant > version
        heavy = 34 + e.recency(version) if has_gone_on else weight
        yield cause("limit", version, f"the usage limit was reached: {breach}", heavy)


def not_whole(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the responses that were cut off, withheld, malformed or ended by an error."""
    last = e.facts.responses[-1][0] if e.facts.responses else 0
    for version, response in e.facts.responses:
        words = NOT_WHOLE.get(ending_of(response.provider, response.finish_reason))
        if words is not None:
            kind, what = words
            tokens = f" after {response.usage.output_tokens:,} tokens" if response.usage else ""
            text = f"the model's response was {what}{tokens} ({response.finish_reason})"
            heavy = weight if version == last else 38 + e.recency(version)
            yield cause(kind, version, text, heavy)
    for version, (provider, reason) in e.facts.reasons.items():
        kind, what = NOT_WHOLE[ending_of(provider, reason)]
        heavy = weight if version == e.last_assistant else 38 + e.recency(version)
        yield cause(kind, version, f"the model's answer was {what} ({reason})", heavy)


def unanswered(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the calls without an end, those that wait for the same together."""
    groups: dict[tuple[str, int], list[CallFacts]] = {}
    for call in e.calls:
        if call.is_open and not (call.imported and finishes(call.call)):
            groups.setdefault(_how_it_waits(e, call, weight), []).append(call)
    for (what, heavy), calls in groups.items():
        last = calls[-1]
        text = f"{shown(last)} {what} (asked for at version {last.version})"
        if len(calls) > 1:
            text += f"; {len(calls):,} such calls since version {calls[0].version}"
        versions = {version for each in calls for version in (each.version, each.started)}
        kind = "crash" if last.status == "running" else "open"
        at = last.started or last.version
        yield cause(kind, at, text, heavy, versions=versions - {0}, call=last)


def _how_it_waits(e: Evidence, call: CallFacts, weight: int) -> tuple[str, int]:
    is_last_turn = call.version > e.last_assistant
    if call.status == "running":
        return "started, and its end is not recorded", weight if is_last_turn else 78
    waits = {"approved": "was approved and never started", "paused": "paused, and waits"}
    what = waits.get(call.status, "was never answered")
    if call.call.raw is not None:
        return f"{what}, and its arguments are not a JSON object", 92 if is_last_turn else 79
    if is_last_turn:
        return (what if call.imported else f"{what}: it waits for a decision"), 88
    if e.role_after(call.version) == "user":
        return f"{what}: the user went on", 45 if call.imported else 62
    return f"{what}: the model went on without it", 80


def refused(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the refusals, those of one person or rule together; passed over, they weigh more."""
    yield from _refused(e, weight, settled=False)


def refused_then_settled(e: Evidence, weight: int) -> Iterator[Cause]:
    """Yield the refusals after which the user said what to do, and it was done."""
    yield from _refused(e, weight, settled=True)


def _is_settled(e: Evidence, call: CallFacts) -> bool:
    said = e.next_user(call.ended)
    return not e.asked_between(call.ended, said) and said < e.facts.last_progress


def _refused(e: Evidence, weight: int, *, settled: bool) -> Iterator[Cause]:
    groups: dict[str, list[CallFacts]] = {}
    for call in e.calls:
        if (who := _refused_by(call)) is not None and _is_settled(e, call) is settled:
            groups.setdefault(who, []).append(call)
    for who, calls in groups.items():
        last = max(calls, key=lambda call: len(e.followers(call)))
        after = len(e.followers(last))
        reason = last.rejection.reason if last.rejection is not None else last.errors[-1].text
        text = f"{shown(last)} was refused by {who}"
        text += f", and the model went on with {after:,} more calls" if after > 1 else ""
        text += f": {error_line(reason, 80)}" if reason else ""
        text += f" (asked for at version {last.version})"
        if len(calls) > 1:
            text += f"; {len(calls):,} calls since version {calls[0].ended}"
        heavy = weight if after else (50 if _is_of_people(last) else 46)
        if any(last.ended < error.version < e.next_user(last.ended) for error in e.standing_errors):
            heavy = e.of_last_turn(last.ended, weight + 14)
        if last.ended > e.facts.last_progress:
            heavy = max(90 - 4 * e.calls_after(last.ended), heavy)
        versions = {version for each in calls for version in (each.version, each.ended)}
        yield cause("refused", last.ended, text, heavy, versions=versions, call=last)


def _refused_by(call: CallFacts) -> str | None:
    if call.rejection is not None:
        if call.rejection.by == FORKED:
            return None  # the call is the origin's, where it was refused by none
        return call.rejection.by or call.rejection.source
    text = call.errors[-1].text if call.is_error else ""
    if _HINTS.search(text, 0, _HEAD_CHARACTERS) and _DENIAL.match(error_line(text)):
        return "the user or a rule"
    return None


def _is_of_people(call: CallFacts) -> bool:
    return call.rejection is not None and call.rejection.source in ("human", "hook")
