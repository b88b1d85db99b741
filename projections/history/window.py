"""Windows: which older turns the model no longer sees, and the summary that stands for them.

A window cuts between turns, never inside one, so that a call keeps its result and a message its
reasoning. What the system says stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from eventstore import Text
from eventstore.wire import Turn
from projections.text import plural
from projections.tokens import token_counter

Counter = Callable[[str], int]  # text to its number of tokens

_encode = msgspec.json.Encoder().encode


class Cut(msgspec.Struct, frozen=True):
    """The turns that are left out, and what the window holds."""

    turns: list[int]
    window: str


class Window(msgspec.Struct, frozen=True):
    """What is asked for; see `model_history`. Several limits hold all at once.

    Raises:
        ValueError: a limit makes no sense.
    """

    last_turns: int | None = None
    max_tokens: int | None = None
    count_tokens: Counter | None = None
    since: int | None = None
    summary: str | None = None

    def __post_init__(self) -> None:
        _whole("last_turns", self.last_turns, "1 or more")
        _whole("since", self.since, "a version (1 or more)")
        _whole("max_tokens", self.max_tokens, "1 or more")
        if self.count_tokens is not None and not callable(self.count_tokens):
            raise ValueError(
                f"count_tokens is {self.count_tokens!r}: pass a function from text to a number"
            )
        if self.max_tokens is None and self.count_tokens is not None:
            raise ValueError("count_tokens counts for nothing without max_tokens: pass both")
        if self.summary is not None and not isinstance(self.summary, str):
            raise ValueError(f"summary is {self.summary!r}: pass text, or None")
        if self.summary is not None and not self.summary.strip():
            raise ValueError("summary is blank: pass what it should say, or None")

    def apply(self, turns: list[Turn], latest: Sequence[int]) -> list[Cut]:
        """Hide what is outside; the summary goes in where the turns begin that are left.

        `latest` is, for each turn, the version of the last event that concerns it.
        """
        start = 0
        cuts: list[Cut] = []

        def cut(place: int, window: str) -> None:
            nonlocal start
            hidden = _hide(turns, place)
            if hidden:
                cuts.append(Cut(hidden, window))
            start = max(start, place)

        if self.since is not None:
            cut(_start_since(latest, self.since), f"what happened since version {self.since}")
        if self.last_turns is not None:
            cut(
                _start_of_last(turns, self.last_turns),
                f"the last {plural(self.last_turns, 'turn')}",
            )
        if self.max_tokens is not None:
            place = self._start_within(turns, self.max_tokens, is_cut=bool(cuts))
            cut(place, f"{self.max_tokens:,} tokens")
        if cuts and self.summary is not None:
            turns.insert(start, Turn("user", (Text(self.summary),)))
        return cuts

    def _start_within(self, turns: Sequence[Turn], most: int, *, is_cut: bool) -> int:
        count = self.count_tokens or token_counter()
        start = _start_within(turns, most, count)
        if self.summary is None or not (is_cut or _outside(turns, start)):
            return start
        return _start_within(turns, most - count(self.summary), count)


def _whole(name: str, value: object, wanted: str) -> None:
    if value is not None and (type(value) is not int or value < 1):
        raise ValueError(f"{name} is {value!r}: pass {wanted}, or None for all")


def _outside(turns: Sequence[Turn], start: int) -> list[int]:
    """The turns before `start` that are shown, but for the system's."""
    return [
        place
        for place, turn in enumerate(turns[:start])
        if not turn.hidden and turn.role not in ("system", "developer")
    ]


def _hide(turns: Sequence[Turn], start: int) -> list[int]:
    hidden = _outside(turns, start)
    for place in hidden:
        turns[place].hidden = True
    return hidden


def _start_since(latest: Sequence[int], version: int) -> int:
    """The first turn that anything happened to since `version`: a late result keeps its call."""
    return next((place for place, last in enumerate(latest) if last >= version), len(latest))


def _start_of_last(turns: Sequence[Turn], count: int) -> int:
    """Where the last `count` assistant turns start, with the user's words before them."""
    start = len(turns)
    for place in range(len(turns) - 1, -1, -1):
        if turns[place].hidden:
            continue
        if turns[place].role == "assistant":
            if not count:
                return start
            count -= 1
        start = place
    return start


def _start_within(turns: Sequence[Turn], most: int, count: Counter) -> int:
    """Where the longest run of last turns starts that fits `most`; the last turn always stays."""
    fixed = [turn for turn in turns if turn.role in ("system", "developer")]
    left = most - sum(count(_all_text(turn)) for turn in fixed)
    start = len(turns)
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        if turn.hidden or turn.role in ("system", "developer"):
            continue
        left -= count(_all_text(turn))
        if left < 0 and start < len(turns):
            break
        start = place
    return start


def _all_text(turn: Turn) -> str:
    """Everything of a turn that costs tokens, as text."""
    said = [part.text if isinstance(part, Text) else _encode(part).decode() for part in turn.parts]
    for call in turn.calls:
        if not call.hidden:
            said += [call.name, _encode(call.arguments).decode(), call.answer.text]
            said += [call.answer.note] if call.answer.note else []
    return "\n".join(said)
