"""What the model sees and why, as text for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from eventstore import FunctionCall, Text
from eventstore.wire import Call, Turn
from projections.repair import Repair
from projections.text import arguments_text, one_line, plural

WIDTH = 100


def explanation(turns: Sequence[Turn], repairs: Sequence[Repair], width: int = WIDTH) -> str:
    """The turns with their calls and answers, each repair under the call or turn it concerns."""
    of: dict[str | int | None, list[Repair]] = defaultdict(list)
    for repair in repairs:
        of[repair.call_id or _turn_of(repair)].append(repair)
    shown = [turn for turn in turns if not turn.hidden]
    calls = sum(not call.hidden for turn in shown for call in turn.calls)
    changes = plural(len(repairs), "change") if repairs else "nothing had to be changed"
    lines = [f"{plural(len(shown), 'turn')}, {plural(calls, 'call')}: {changes}"]
    for number, turn in enumerate(shown, 1):
        lines += _turn_lines(number, turn, of, width)
    others = [repair for left in of.values() for repair in left]
    if others:
        lines.append("about the history as a whole, or about what is not shown:")
        lines += [_repair_line(repair, "  ", width) for repair in others]
    return "\n".join(lines)


def _turn_of(repair: Repair) -> int | None:
    """The version of the one turn that a repair may concern."""
    return repair.versions[0] if len(repair.versions) == 1 else None


def _turn_lines(
    number: int, turn: Turn, of: dict[str | int | None, list[Repair]], width: int
) -> Iterator[str]:
    text = "\n".join(part.text for part in turn.parts if isinstance(part, Text))
    said = one_line(text, width) or ("" if turn.calls else "(no text)")
    yield f"{number:>4}  {turn.role:<9}  {said}".rstrip()
    if turn.version is not None:
        for repair in of.pop(turn.version, ()):
            yield _repair_line(repair, "      - ", width)
    for call in turn.calls:
        if call.hidden:
            continue
        yield f"      {one_line(call.id, 64)}: {_asked(call, width)}"
        mark = "failed: " if call.answer.is_error else ""
        answered = one_line(call.answer.text, width) or "(no text)"
        yield f"        {mark}{answered}"
        if call.answer.note:
            yield f"        {one_line(call.answer.note, width)}"
        for repair in of.pop(call.id, ()):
            yield _repair_line(repair, "        - ", width)


def _asked(call: Call, width: int) -> str:
    asked = FunctionCall(call.name, call.arguments, raw=call.raw)
    return f"{one_line(call.name, 64)}({arguments_text(asked, width)})"


def _repair_line(repair: Repair, indent: str, width: int) -> str:
    events = ""
    if repair.versions:
        some = ", ".join(map(str, repair.versions[:5]))
        more = ", ..." if len(repair.versions) > 5 else ""  # noqa: PLR2004
        events = f" (events {some}{more})"
    of = f" {one_line(repair.call_id, 64)}" if repair.call_id and indent == "  " else ""
    return f"{indent}{repair.what}{of} [{repair.rule}]: {one_line(repair.why, width)}{events}"
