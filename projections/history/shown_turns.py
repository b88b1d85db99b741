"""`ShownTurns`: the turns of a view, which the next view takes up where nothing was added to them.

1. The entries say which of them were changed. Their turns are made anew, and those of new entries.
2. All turns are made anew where calls are collapsed otherwise, or other options ask for it.
3. Views share turns, so none is changed: a window hides a copy, and callers get copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from eventstore import Opaque, Part
from eventstore.providers import Answer, Call, Turn, copy
from projections.history.collapse import Notes
from projections.history.entries import Entries, Repair
from projections.history.options import HistoryOptions
from projections.history.turns import turn_of


class _View(msgspec.Struct, frozen=True):
    """The turns of a view, and the repairs that some of them took, by their places."""

    asked: object = None
    changes: int = 0
    """How many changes of the entries it has seen."""
    turns: Sequence[Turn] = ()
    repairs: Mapping[int, Sequence[Repair]] = {}


class ShownTurns:
    """The turns of one growing list of entries. Threads may share it."""

    def __init__(self) -> None:
        self._last = _View()  # replaced as one

    def of(
        self, entries: Entries, options: HistoryOptions, notes: Notes
    ) -> tuple[list[Turn], Iterable[Sequence[Repair]]]:
        """Return the turn of each entry, and the repairs of those that took some, in their order.

        `notes` are those of `CollapsedCalls`.

        Raises:
            NonResolvedToolError: a call is open and `open_calls` is "raise".
        """
        limits = options.limits
        by_tool = dict(limits) if isinstance(limits, Mapping) else limits  # may be changed later
        asked = (options.open_calls, by_tool, options.needs_approval, notes)
        last = self._last if asked == self._last.asked else _View()
        changes, end = len(entries.changes), len(entries)
        turns, repairs = [*last.turns], {**last.repairs}
        changed = {place for place in entries.changes[last.changes :] if place < len(turns)}
        turns += [_NOT_MADE] * (end - len(turns))
        for place in (*changed, *range(len(last.turns), end)):
            made: list[Repair] = []
            turns[place] = turn_of(entries[place], options, notes, made)
            repairs.pop(place, None)
            if made:
                repairs[place] = made
        self._last = _View(asked, changes, turns, repairs)
        return [*turns], (repairs[place] for place in sorted(repairs))


_NOT_MADE = Turn("user")


def copied(turn: Turn) -> Turn:
    """Return a turn that shares nothing which can be changed."""
    message = turn.results_message
    if message is not None:
        message = msgspec.structs.replace(message, native=copy(message.native))
    return msgspec.structs.replace(
        turn,
        parts=_copied_parts(turn.parts),
        calls=[_copied_call(call) for call in turn.calls],
        native=copy(turn.native),
        results_message=message,
        server_call=None if turn.server_call is None else _copied_call(turn.server_call),
    )


def _copied_call(call: Call) -> Call:
    return msgspec.structs.replace(
        call, arguments=copy(call.arguments), answer=_copied_answer(call.answer)
    )


def _copied_answer(answer: Answer) -> Answer:
    parts = _copied_parts(answer.stored_parts)
    return msgspec.structs.replace(
        answer, native=copy(answer.native), stored_parts=parts, data=copy(answer.data)
    )


def _copied_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(
        Opaque(part.provider, copy(part.data)) if isinstance(part, Opaque) else part
        for part in parts
    )
