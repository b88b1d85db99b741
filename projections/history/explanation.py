"""What the model sees, and the reason of each change, as text for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from eventstore import FunctionCall, Text
from eventstore.domain.one_line import one_line
from eventstore.providers import Call, Turn
from projections.formatting import arguments_text, hooks_text, offer_text, plural, response_text
from projections.history.entries import Repair
from projections.history.trace import Trace

LINE_CHARACTERS = 100
"""Characters of a text that a line shows."""

MAX_VERSIONS = 5
"""Versions of events that a line names."""


def explanation(
    turns: Sequence[Turn], repairs: Sequence[Repair], trace: Trace, width: int = LINE_CHARACTERS
) -> str:
    """Return the turns with their calls and answers, each repair under what it concerns.

    Under its turn is what the gates said of the offer and the response of itself, under its call
    what the hooks said.
    """
    repairs_of: dict[str | int | None, list[Repair]] = defaultdict(list)
    for repair in repairs:
        repairs_of[repair.call_id or _turn_of(repair)].append(repair)
    shown = [turn for turn in turns if not turn.hidden]
    calls = sum(not call.hidden for turn in shown for call in turn.calls)
    changes = plural(len(repairs), "change") if repairs else "nothing had to be changed"
    lines = [f"{plural(len(shown), 'turn')}, {plural(calls, 'call')}: {changes}"]
    for number, turn in enumerate(shown, 1):
        lines += _turn_lines(number, turn, repairs_of, trace, width)
    others = [repair for left in repairs_of.values() for repair in left]
    if others:
        lines.append("about the history as a whole, or about what is not shown:")
        lines += [_repair_line(repair, "  ", width) for repair in others]
    return "\n".join(lines)


def _turn_of(repair: Repair) -> int | None:
    """Return the version of the one turn that a repair may concern."""
    return repair.versions[0] if len(repair.versions) == 1 else None


def _turn_lines(
    number: int,
    turn: Turn,
    repairs_of: dict[str | int | None, list[Repair]],
    trace: Trace,
    width: int,
) -> Iterator[str]:
    text = "\n".join(part.text for part in turn.parts if isinstance(part, Text))
    line = one_line(text, width) or ("" if turn.calls else "(no text)")
    yield f"{number:>4}  {turn.role:<9}  {line}".rstrip()
    if turn.version is not None:
        if (offer := trace.offers.get(turn.version)) is not None:
            yield f"      offered: {one_line(offer_text(offer), width)}"
        if (response := trace.responses.get(turn.version)) is not None:
            yield f"      answered by {one_line(response_text(response), width)}"
        for repair in repairs_of.pop(turn.version, ()):
            yield _repair_line(repair, "      - ", width)
    for call in turn.calls:
        if call.hidden:
            continue
        yield f"      {one_line(call.id, 64)}: {_request(call, width)}"
        for answers in trace.answers.get(call.id, ()):
            yield f"        asked: {one_line(hooks_text(answers), width)}"
        mark = "failed: " if call.answer.is_error else ""
        answer = one_line(call.answer.text, width) or "(no text)"
        yield f"        {mark}{answer}"
        if call.answer.note:
            yield f"        {one_line(call.answer.note, width)}"
        for repair in repairs_of.pop(call.id, ()):
            yield _repair_line(repair, "        - ", width)


def _request(call: Call, width: int) -> str:
    asked = FunctionCall(call.name, call.arguments, raw=call.raw)
    return f"{one_line(call.name, 64)}({arguments_text(asked, width)})"


def _repair_line(repair: Repair, indent: str, width: int) -> str:
    events = ""
    if repair.versions:
        some = ", ".join(map(str, repair.versions[:MAX_VERSIONS]))
        more = ", ..." if len(repair.versions) > MAX_VERSIONS else ""
        events = f" (events {some}{more})"
    of = f" {one_line(repair.call_id, 64)}" if repair.call_id and indent == "  " else ""
    return f"{indent}{repair.what}{of} [{repair.rule}]: {one_line(repair.why, width)}{events}"
