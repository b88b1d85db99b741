"""Call ids and tool names that a provider accepts: stable, never colliding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from eventstore.domain.fingerprint import content_id
from eventstore.providers.model import Call, Change, Turn

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_NINE = re.compile(r"[a-zA-Z0-9]{9}")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

Sanitizer = Callable[[str, int], str]  # a text and its greatest length to a legal text


def sanitized(text: str, most: int) -> str:
    """Return `text` in `[a-zA-Z0-9_-]`, at most `most` long; a changed text ends in a hash."""
    if 0 < len(text) <= most and _ILLEGAL.search(text) is None:
        return text
    clean = _ILLEGAL.sub("_", text)
    mark = content_id(text.encode("utf-8", "surrogatepass")).hex()[:8]
    return f"{clean[: most - 9]}_{mark}"


def of_any_length(text: str, most: int) -> str:
    """Return `text` in `[a-zA-Z0-9_-]`, whatever its length; a changed text is at most `most`."""
    return text if text and _ILLEGAL.search(text) is None else sanitized(text, most)


def shortened(text: str, most: int) -> str:
    """Return `text` if it is not too long, whatever its characters; otherwise a legal text."""
    return text if 0 < len(text) <= most else sanitized(text, most)


def nine_characters(text: str, most: int = 9) -> str:
    """Return `text` if it is 9 letters and digits; otherwise 9 that are derived from it."""
    if _NINE.fullmatch(text):
        return text
    number = int.from_bytes(content_id(text.encode("utf-8", "surrogatepass")), "big")
    made = ""
    for _ in range(most):
        number, digit = divmod(number, len(_DIGITS))
        made += _DIGITS[digit]
    return made


def tool_name(call: Call, most: int, changes: list[Change]) -> str:
    """Return a name that the provider accepts for the call's tool."""
    name = sanitized(call.name, most) if call.name else "unnamed_tool"
    if name != call.name:
        changes.append(Change("re-keyed", "name", f"tool {call.name!r} is {name!r} here", call.id))
    return name


def call_ids(
    turns: Sequence[Turn],
    most: int,
    changes: list[Change],
    *,
    per_turn: bool,
    sanitizer: Sanitizer = sanitized,
    before: Iterable[list[str]] = (),
) -> list[list[str]]:
    """Return the ids of each turn's calls for one provider, the same on both halves.

    The provider's own id stays where it is legal and not in use; the first call keeps it.
    `per_turn`: ids need to differ within a turn only. `sanitizer` makes an id legal. `before` are
    the ids of the turns before these.
    """
    taken: set[str] = set() if per_turn else set(chain.from_iterable(before))
    ids: list[list[str]] = []
    for turn in turns:
        if not turn.calls:
            ids.append([])
            continue
        if per_turn:
            taken = set()
        ids.append([_claim(call, most, taken, changes, sanitizer) for call in turn.calls])
    return ids


def _claim(
    call: Call, most: int, taken: set[str], changes: list[Change], sanitizer: Sanitizer
) -> str:
    known = call.provider_id or call.id
    chosen = sanitizer(known, most)
    if chosen in taken:
        chosen = next(name for name in _candidates(call, most, sanitizer) if name not in taken)
    taken.add(chosen)
    if chosen != known and not call.hidden:
        changes.append(Change("re-keyed", "id", f"id {known!r} is {chosen!r} here", call.id))
    return chosen


def _candidates(call: Call, most: int, sanitizer: Sanitizer) -> Iterator[str]:
    if call.provider_id:
        yield sanitizer(call.provider_id, most)
    yield sanitizer(call.id, most)
    count = 2
    while True:
        yield sanitizer(f"{call.id}_{count}", most)
        count += 1
