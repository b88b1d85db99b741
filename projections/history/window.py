"""Windows: which older turns the model no longer sees, and the summary that stands for them.

1. A window cuts between turns, never inside one, so that a call keeps its result and a message
   its reasoning.
2. System messages stay, and so do the messages that are pinned.
3. Several limits hold all at once.
4. The last turn stays, even where it alone exceeds `max_tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eventstore import Text
from eventstore.providers import Turn
from projections.formatting import plural
from projections.history.options import HistoryOptions
from projections.history.token_counter import TokenCounter, token_counter

_SYSTEM_ROLES = ("system", "developer")

_encode = msgspec.json.Encoder().encode


class Cut(msgspec.Struct, frozen=True):
    """The places of the turns that one limit cut off, and the limit in words."""

    turns: list[int]
    window: str


def apply_window(
    turns: list[Turn], last_versions: Sequence[int], options: HistoryOptions
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
        _cut_before(place, turns, stay, f"the last {plural(options.last_turns, 'turn')}", cuts)
        start = max(start, place)
    if options.max_tokens is not None:
        place = _start_within_budget(turns, stay, options.max_tokens, options, is_cut=bool(cuts))
        _cut_before(place, turns, stay, f"{options.max_tokens:,} tokens", cuts)
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
        cuts.append(Cut(outside, window))


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


def _start_of_last(turns: Sequence[Turn], count: int) -> int:
    """Return where the last `count` assistant turns start, with the user's words before them."""
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


def _start_within_budget(
    turns: Sequence[Turn],
    stay: Sequence[bool],
    max_tokens: int,
    options: HistoryOptions,
    *,
    is_cut: bool,
) -> int:
    """Return the start of the turns that fit the budget; the summary, where shown, costs too."""
    count = options.count_tokens or token_counter()
    start = _start_within(turns, stay, max_tokens, count)
    if options.summary is None or not (is_cut or _outside(turns, stay, start)):
        return start
    return _start_within(turns, stay, max_tokens - count(options.summary), count)


def _start_within(
    turns: Sequence[Turn], stay: Sequence[bool], max_tokens: int, count: TokenCounter
) -> int:
    """Return where the longest run of last turns starts that fits; the last turn always stays."""
    staying = [turn for turn, stays in zip(turns, stay, strict=True) if stays and not turn.hidden]
    left = max_tokens - sum(count(_all_text(turn)) for turn in staying)
    start = len(turns)
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        if turn.hidden or stay[place]:
            continue
        left -= count(_all_text(turn))
        if left < 0 and start < len(turns):
            break
        start = place
    return start


def _all_text(turn: Turn) -> str:
    """Return everything of a turn that costs tokens, as text."""
    texts = [part.text if isinstance(part, Text) else _encode(part).decode() for part in turn.parts]
    for call in turn.calls:
        if not call.hidden:
            texts += [call.name, _encode(call.arguments).decode(), call.answer.text]
            texts += [call.answer.note] if call.answer.note else []
    return "\n".join(texts)
