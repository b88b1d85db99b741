"""`repair_messages`: a valid history for those who have only a list of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from eventstore import Event, Recorded, ToolPending, validate
from eventstore.fingerprint import render as render_fingerprint
from eventstore.transcript import Finding, transcribe_alone
from eventstore.wire import copy, parse, render
from projections.history import History
from projections.view import Collapse, Repair


class RepairedMessages(msgspec.Struct):
    """A valid message list; `system` is the text that the provider keeps outside of it."""

    messages: list[Any]
    system: str | None
    repairs: list[Repair]


def repair_messages(
    messages: Sequence[Any],
    provider: str,
    to: str | None = None,
    *,
    is_error: Callable[[Any], bool] | None = None,
    collapse: Collapse = "none",
) -> RepairedMessages:
    """`messages` of one provider as a valid list for the same, or for another.

    Never raises on a bad history, leaves its input alone, gives valid input back equal, and
    changes nothing when run on its own output. A call without a result is answered, a result
    moves behind its call, and one that answers no call becomes text. `is_error` tells of a
    result, as its provider wrote it, whether it is a failure; `collapse` is as in
    `model_history`.

    Raises:
        ValueError: the provider, or an option, is unknown.
    """
    target = to or provider
    given = list(messages) if isinstance(messages, list | tuple) else [messages]
    if target == provider and collapse == "none" and not validate(given, provider):
        return RepairedMessages(copy(given), None, [])
    transcript = transcribe_alone(parse(given, provider, is_error), provider)
    history = History()
    for version, event in enumerate(transcript.events, 1):
        history.apply(_recorded(version, event))
    view = history.view(collapse=collapse)
    arguments = view.render(target)
    repairs = [*map(_repair, transcript.findings), *view.repairs_for(target)]
    return RepairedMessages(arguments["messages"], arguments.get("system"), repairs)


def _recorded(version: int, event: Event) -> Recorded:
    mark = None
    if isinstance(event, ToolPending):
        mark = render_fingerprint(event.call.digest())
    call_id = getattr(event, "call_id", None)
    return Recorded(0, version, "", version, "", 0, call_id, mark, event)


def _repair(finding: Finding) -> Repair:
    return Repair(finding.what, finding.rule, finding.problem, finding.call_id)
