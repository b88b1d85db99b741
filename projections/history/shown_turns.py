"""`ShownTurns`: the turns of a view, which the next view takes up where nothing was added to them.

1. An entry counts its changes (`revision`). Its turn is made anew where the count is another one.
2. All turns are made anew where calls are collapsed otherwise, or other options ask for it.
3. Views share turns, so none is changed: a window hides a copy, and callers get copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from eventstore import Opaque, Part
from eventstore.providers import Answer, Call, Turn, copy
from projections.history.collapse import Notes
from projections.history.entries import Entry, Repair
from projections.history.options import HistoryOptions
from projections.history.turns import turn_of


class ShownTurn(msgspec.Struct, frozen=True, gc=False):
    """The turn of an entry at one of its revisions, and the repairs that it took."""

    revision: int
    turn: Turn
    repairs: Sequence[Repair]


class ShownTurns:
    """The turns of one growing list of entries. Threads may share it."""

    def __init__(self) -> None:
        self._last: tuple[object, list[ShownTurn]] = None, []  # replaced as one

    def of(
        self, entries: Sequence[Entry], options: HistoryOptions, notes: Notes
    ) -> list[ShownTurn]:
        """Return the turn of each entry; `notes` are those of `collapsed_calls`.

        Raises:
            NonResolvedToolError: a call is open and `open_calls` is "raise".
        """
        limits = options.limits
        by_tool = dict(limits) if isinstance(limits, Mapping) else limits  # may be changed later
        asked = (options.open_calls, by_tool, options.needs_approval, notes)
        last_asked, last = self._last
        known = last if asked == last_asked else []
        shown = [
            turn if turn.revision == entry.revision else _shown(entry, options, notes)
            for turn, entry in zip(known, entries, strict=False)  # entries that were added since
        ]
        shown += [_shown(entry, options, notes) for entry in entries[len(known) :]]
        self._last = asked, shown
        return shown


def _shown(entry: Entry, options: HistoryOptions, notes: Notes) -> ShownTurn:
    repairs: list[Repair] = []
    turn = turn_of(entry, options, notes, repairs)
    return ShownTurn(entry.revision, turn, repairs)


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
