"""What the page of one conversation shows, as data: nothing of it is HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from eventstore import ModelResponded, Recorded
from eventstore.providers import AnyProvider
from projections.debugging.call_facts import LogFacts
from projections.debugging.loops import loop_text
from projections.debugging.scan import RULES, ScanFinding, loops, scan
from projections.debugging.why import Diagnosis, why
from projections.history.projection import model_history
from projections.repeats.projection import Finding
from projections.report.prompts import MAX_TURNS, ProviderPrompts, own_provider, prompts_of
from projections.report.timeline import Row, Timeline
from projections.statistics.projection import error_statistics
from projections.statistics.results import Statistics

MAX_LISTED = 200
"""Loops and findings that the page lists."""

FINDING_RULES = tuple(rule for rule in RULES if rule is not loops)
"""The rules of the scanners; the page has a list of its own for loops."""


class Loop(msgspec.Struct, frozen=True):
    """A repeat or a cycle, in words, from one version to another."""

    first: int
    last: int
    text: str


class Report(msgspec.Struct, frozen=True):
    """One conversation's report.

    `opens_at` is the version that the page shows first: the first error, otherwise the likely
    cause, otherwise the end. `tokens` are version, input, cached and output tokens of responses.
    """

    diagnosis: Diagnosis
    opens_at: int
    first_error: int | None
    first_at: int
    last_at: int
    rows: list[Row]
    prompts: list[ProviderPrompts]
    statistics: Statistics
    loops: tuple[Loop, ...]
    findings: tuple[ScanFinding, ...]
    tokens: tuple[tuple[int, int, int, int], ...]
    events: Sequence[Recorded]


def report_data(
    events: Iterable[Recorded],
    *,
    provider: AnyProvider | None = None,
    max_turns: int = MAX_TURNS,
) -> Report:
    """Return what the page of one conversation shows.

    The log's own provider, or the one that is given, is shown first. `max_turns` bounds the work
    for prompts: see `prompts_of`.

    Raises:
        ValueError: there are no events, or they are of several conversations, or the provider is
            unknown.
    """
    events = list(events)
    if not events:
        raise ValueError("there are no events: pass those of one conversation, as chat.events()")
    diagnosis, facts = why(events), LogFacts().extend(events)
    rows = Timeline()
    for recorded in events:
        rows.add(recorded)
    rows.finish(facts, diagnosis.loops, _left_out(events))
    first_error = min((error.version for error in facts.errors), default=None)
    last = events[-1].version
    opens_at = first_error or diagnosis.look_at or last
    times = [recorded.time for recorded in events]
    wanted = [opens_at, last] + ([diagnosis.look_at] if diagnosis.look_at else [])
    return Report(
        diagnosis=diagnosis,
        opens_at=opens_at,
        first_error=first_error,
        first_at=min(times),
        last_at=max(times),
        rows=rows.rows,
        prompts=prompts_of(events, provider or own_provider(events), wanted, max_turns),
        statistics=error_statistics(events, copies=True),
        loops=tuple(_loop(each) for each in diagnosis.loops[:MAX_LISTED]),
        findings=tuple(scan(events, FINDING_RULES)[:MAX_LISTED]),
        tokens=tuple(_tokens(events)),
        events=events,
    )


def _left_out(events: Sequence[Recorded]) -> set[str]:
    """Return the calls that the next prompt leaves out."""
    repairs = model_history(events).repairs
    return {
        repair.call_id
        for repair in repairs
        if repair.call_id is not None and repair.what in ("collapsed", "dropped")
    }


def _loop(finding: Finding) -> Loop:
    return Loop(finding.run_first.version, finding.run_last.version, loop_text(finding))


def _tokens(events: Iterable[Recorded]) -> Iterable[tuple[int, int, int, int]]:
    for recorded in events:
        event = recorded.event
        if not isinstance(event, ModelResponded) or event.usage is None:
            continue
        if event.usage.total_tokens or event.completes is None:
            usage = event.usage
            yield recorded.version, usage.input_tokens, usage.cached_tokens, usage.output_tokens
