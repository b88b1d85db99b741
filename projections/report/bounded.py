"""Bounded text: what is too long for a page is cut in its middle, and says how much is missing."""

from __future__ import annotations

from typing import Any

import msgspec

from eventstore import Recorded
from eventstore.domain.json_types import with_leaves

MAX_CHARACTERS = 100_000
"""Characters of one text that the page holds."""

_encode = msgspec.json.encode


def bounded_text(text: str, most: int = MAX_CHARACTERS) -> str:
    """Return a text, or its beginning and its end with a mark between them."""
    if len(text) <= most:
        return text
    start, end = most * 2 // 3, most // 3
    return (
        f"{text[:start]}\n[... {len(text) - start - end:,} characters left out ...]\n{text[-end:]}"
    )


def event_text(recorded: Recorded) -> bytes:
    """Return an event as one line of JSON: its version, tag, time and members, long texts cut."""
    line = _encode(_line(recorded, msgspec.to_builtins(recorded.event)))
    if len(line) <= MAX_CHARACTERS:
        return line
    return _encode(_line(recorded, _bounded(msgspec.to_builtins(recorded.event))))


def _line(recorded: Recorded, members: Any) -> dict[str, Any]:
    place = {"version": recorded.version, "tag": recorded.event.tag, "at": recorded.time}
    return {**place, "event": members}


def _bounded(value: object) -> Any:
    return with_leaves(value, lambda each: bounded_text(each) if isinstance(each, str) else each)
