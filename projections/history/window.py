"""Windows: which older turns the model no longer sees, and the summary that stands for them.

1. A window cuts between turns, never inside one, so that a call keeps its result and a message
   its reasoning.
2. System messages stay, and so do the messages that are pinned.
3. Several limits hold all at once.
4. The last turn stays, even where it alone exceeds `max_tokens`.
5. A limit with two marks cuts when the upper one is passed, down to the lower one. Where it cuts
   follows from the turns before alone, so that the requests until the next cut begin alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eventstore import Text
from eventstore.providers import Turn
from projections.formatting import plural
from projections.history.options import HistoryOptions, Marks, marks_of
from projections.history.token_counter import TokenCounter, estimate_tokens

_SYSTEM_ROLES = ("system", "developer")

_encode = msgspec.json.Encoder().encode


class Cut(msgspec.Struct, frozen=True):
    """The versions of the turns that one limit cut off, and the limit in words."""

    versions: tuple[int, ...]
    window: str


class CountedTurns:
    """The tokens of turns, which the next window of the same turns takes up. Threads may share it.

    A turn is never changed, so it is known again by its identity.
    """

    def __init__(self) -> None:
        self._last: tuple[TokenCounter | None, dict[int, tuple[Turn, int]]] = None, {}

    def of(self, count: TokenCounter) -> dict[int, tuple[Turn, int]]:
        """Return the turns that were counted by `count`, by their identities."""
        counter, known = self._last
        return known if counter is count else {}

    def keep(self, count: TokenCounter, counted: dict[int, tuple[Turn, int]]) -> None:
        """Keep the turns that a window has counted."""
        self._last = count, counted


def apply_window(
    turns: list[Turn],
    last_versions: Sequence[int],
    options: HistoryOptions,
    counted: CountedTurns,
) -> list[Cut]:
    """Hide the turns outside of the window, and insert the summary where the others begin.

    `last_versions` has, for each turn, the version of the last event that concerns it.
    """
    start = 0
    stay = [t.role in _SYSTEM_ROLES or t.version in options.pinned for t in turns]
    cuts: list[Cut] = []
    if options.since is not None:
        start = _start_since(last_versions, options.since)
        _cut_before(start, turns, stay, f"what happened since version {options.since}", cuts)
    if options.last_turns is not None:
        place = _start_of_last(turns, options.last_turns)
        low, _ = marks_of(options.last_turns)
        _cut_before(place, turns, stay, f"the last {plural(low, 'turn')}", cuts)
        start = max(start, place)
    if options.max_tokens is not None:
        budget = _Budget(turns, stay, options, counted, is_cut=bool(cuts))
        place = budget.start()
        low, _ = marks_of(options.max_tokens)
        _cut_before(place, turns, stay, f"{low:,} tokens", cuts)
        start = max(start, place)
    if cuts and options.summary is not None:
        turns.insert(start, Turn("user", (Text(options.summary),)))
    return cuts


def _cut_before(
    start: int, turns: list[Turn], stay: Sequence[bool], window: str, cuts: list[Cut]
) -> None:
    outside = _outside(turns, stay, start)
    for place in outside:
        turns[place] = msgspec.structs.replace(turns[place], hidden=True)
    if outside:
        cuts.append(Cut(tuple(turns[place].version or 0 for place in outside), window))


def _outside(turns: Sequence[Turn], stay: Sequence[bool], start: int) -> list[int]:
    """Return the places of the turns before `start` that are shown, without those that stay."""
    return [
        place for place, turn in enumerate(turns[:start]) if not turn.hidden and not stay[place]
    ]


def _start_since(last_versions: Sequence[int], version: int) -> int:
    """Return the first turn with an event from `version` on: a late result keeps its call."""
    return next(
        (place for place, last in enumerate(last_versions) if last >= version), len(last_versions)
    )


def _start_of_last(turns: Sequence[Turn], limit: Marks) -> int:
    """Return where the last assistant turns start, with the user's words before them."""
    low, high = marks_of(limit)
    said = [p for p, turn in enumerate(turns) if turn.role == "assistant" and not turn.hidden]
    beyond = len(said) - high
    if beyond <= 0:
        return 0
    step = high - low + 1  # turns from one cut to the next
    cuts = (beyond - 1) // step + 1
    return said[cuts * step - 1] + 1


class _Budget:
    """The tokens of a window, among which the summary counts where it is shown."""

    def __init__(
        self,
        turns: Sequence[Turn],
        stay: Sequence[bool],
        options: HistoryOptions,
        counted: CountedTurns,
        *,
        is_cut: bool,
    ) -> None:
        self._turns = turns
        self._stay = stay
        self._count = options.count_tokens or estimate_tokens
        self._low, self._high = marks_of(options.max_tokens or 0)
        self._summary = 0 if options.summary is None else self._count(options.summary)
        self._is_cut = is_cut
        self._counted = counted
        self._known = counted.of(self._count)
        self._costs: dict[int, tuple[Turn, int]] = {}

    def start(self) -> int:
        """Return where the turns of the window start."""
        end = len(self._turns)
        if self._low == self._high:
            start = self._latest(end, sum(self._cost(p) for p in range(end) if self._stay[p]))
        else:
            start = self._start_after_cuts()
        self._counted.keep(self._count, self._costs)
        return start

    def _start_after_cuts(self) -> int:
        """Return the start after the last cut; each is made by the first turn that is too much."""
        start = total = staying = 0
        for place, stays in enumerate(self._stay):
            total += self._cost(place)
            staying += self._cost(place) if stays else 0
            if total + (self._summary if start or self._is_cut else 0) > self._high:
                begun, start = start, max(start, self._latest(place + 1, staying))
                total -= sum(self._cost(p) for p in range(begun, start) if not self._stay[p])
        return start

    def _latest(self, end: int, staying: int) -> int:
        """Return where the longest run of turns before `end` starts that fits the lower mark."""
        start = self._latest_within(end, self._low - staying)
        if self._summary and (self._is_cut or _outside(self._turns, self._stay, start)):
            return self._latest_within(end, self._low - staying - self._summary)
        return start

    def _latest_within(self, end: int, left: int) -> int:
        """Return where the longest run before `end` starts that fits; the last turn stays."""
        start = end
        for place in range(end - 1, -1, -1):
            if self._turns[place].hidden or self._stay[place]:
                continue
            left -= self._cost(place)
            if left < 0 and start < end:
                break
            start = place
        return start

    def _cost(self, place: int) -> int:
        """Return the tokens of a turn; none of one that is hidden."""
        turn = self._turns[place]
        if turn.hidden:
            return 0
        found = self._costs.get(id(turn)) or self._known.get(id(turn))
        if found is None:
            found = turn, self._count(_all_text(turn))
        self._costs[id(turn)] = found
        return found[1]


def _all_text(turn: Turn) -> str:
    """Return everything of a turn that costs tokens, as text."""
    texts = [part.text if isinstance(part, Text) else _encode(part).decode() for part in turn.parts]
    for call in turn.calls:
        if not call.hidden:
            texts += [call.name, _encode(call.arguments).decode(), call.answer.text]
            texts += [call.answer.note] if call.answer.note else []
    return "\n".join(texts)
