"""Bounded results: how much of each result the model reads, as the host's limits say.

The log keeps the whole result. A result that is cut is no longer the provider's own message; its
images and documents stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from eventstore import Part, ResultLimits, Text, ToolCompleted
from eventstore.providers import PROVIDERS, Answer, adapter_of, plain_text
from projections.formatting import quoted_name
from projections.history.entries import LoggedCall, Repair

ResultLimitsByTool: TypeAlias = ResultLimits | Mapping[str, ResultLimits]
"""The limits of every result, or of the results of some tools, by name."""

MAX_PLACES = 3
"""Places of a result that the reason of a repair names."""


def limits_of(limits: ResultLimitsByTool | None, name: str | None) -> ResultLimits | None:
    """Return the limits for the results of a tool, or for one whose tool is not known."""
    if isinstance(limits, Mapping):
        return None if name is None else limits.get(name)
    return limits


def bound_answer(answer: Answer, logged: LoggedCall, limits: ResultLimits) -> Repair | None:
    """Cut the answer to a call where it exceeds the limits; return the repair that says so."""
    event = logged.answer
    shown: tuple[Part, ...]
    parts = answer.stored_parts
    if answer.native is not None and answer.provider in PROVIDERS:
        parts = adapter_of(str(answer.provider)).result_parts(answer.native) or (Text(answer.text),)
    if isinstance(event, ToolCompleted) and not parts:
        bounded = limits.bound(event.response.result)
        shown, left_out = (Text(bounded.text),), bounded.left_out
    else:
        shown, left_out = bound_parts(parts or (Text(answer.text),), limits)
    if not left_out:
        return None
    answer.text = plain_text(shown, [])
    answer.provider = answer.native = answer.data = None
    is_text = all(isinstance(part, Text) for part in shown)
    answer.stored_parts = () if is_text else shown
    return shortened(left_out, logged.tool.id, tuple(logged.versions))


def bound_parts(
    parts: tuple[Part, ...], limits: ResultLimits
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Return the parts of a result with their texts bounded, and what was left out."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    bounded, left_out = limits.bound_texts(texts)
    if not left_out:
        return parts, ()
    if len(bounded) == len(texts):
        replaced = iter(bounded)
        return tuple(
            Text(next(replaced)) if isinstance(part, Text) else part for part in parts
        ), left_out
    others = (part for part in parts if not isinstance(part, Text))
    return (*map(Text, bounded), *others), left_out


def shortened(left_out: tuple[str, ...], call_id: str | None, versions: tuple[int, ...]) -> Repair:
    """Return the repair that says what was left out of a result."""
    more = len(left_out) - MAX_PLACES
    places = "; ".join(left_out[:MAX_PLACES]) + (f"; and {more:,} more" if more > 0 else "")
    why = f"left out: {places}"
    if call_id:
        why += f"; see it whole: toolledger show ID --call {quoted_name(call_id)} --json"
    return Repair("shortened", "result-limits", why, call_id, versions)
