"""The suspects: what in a log may be the cause of a failed run, the heaviest first.

1. Each rule of the table names what it finds, with a weight.
2. What ended the run, or was under way when the log stops, weighs most: nothing came of it.
3. What the run went on from weighs less the earlier it was.
4. A failure after which the same call succeeded is recovered and is no suspect.
5. Of one call the heaviest suspect remains. An error that belongs to a suspect of another rule,
   such as one of a server that died, weighs less than that.
6. The order is by weight, and then the latest first.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from projections.debugging.rules.evidence import Cause, Evidence
from projections.debugging.rules.table import RULES, CauseRule

_BELOW = 3
_NAMED_BY_OTHERS = ("place", "removed", "server", "quota", "flaky", "refused", "empty", "mismatch")
"""Kinds of causes to which errors of later calls belong."""


def suspects(evidence: Evidence, rules: Iterable[CauseRule] = RULES) -> list[Cause]:
    """Return the causes that the rules find, the heaviest first, one for each call."""
    rules = tuple(rules)
    found = [c for rule in rules if not rule.hint for c in rule.find(evidence, rule.weight)]
    if found or not _is_sound(evidence):
        found += [c for rule in rules if rule.hint for c in rule.find(evidence, rule.weight)]
    kept: list[Cause] = []
    seen: set[str] = set()
    for cause in _in_order(_below_their_cause(found)):
        if cause.call_id is None or cause.kind == "loop":
            kept.append(cause)
        elif cause.call_id not in seen:
            seen.add(cause.call_id)
            kept.append(cause)
    return kept


def _is_sound(evidence: Evidence) -> bool:
    end = evidence.facts.end
    return end.ends_well or end.is_under_way


def _below_their_cause(found: list[Cause]) -> list[Cause]:
    """Return the causes; an error of which another rule tells where it comes from weighs less."""
    wider = [c for c in found if c.kind in _NAMED_BY_OTHERS and len(c.versions) > 1]
    kept: list[Cause] = []
    for cause in found:
        over = [
            each.weight
            for each in wider
            if each is not cause
            and each.version <= cause.version
            and len(cause.versions) < len(each.versions)
            and {*each.versions}.issuperset(cause.versions)
        ]
        below = max(over, default=100) - _BELOW
        kept.append(
            msgspec.structs.replace(cause, weight=below) if 0 < below < cause.weight else cause
        )
    return kept


def _in_order(found: Iterable[Cause]) -> list[Cause]:
    return sorted(found, key=lambda cause: (-cause.weight, -cause.version))
