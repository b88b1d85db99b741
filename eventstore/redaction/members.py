"""Taking members, or a text, out of a payload: a JSON value, which is changed in place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from eventstore.domain.events import SCHEMAS
from eventstore.domain.finish_reasons import ending_of
from eventstore.domain.json_types import is_json_list, is_json_object
from eventstore.domain.payload_texts import (
    FOREIGN,
    IDENTIFIERS,
    Cover,
    cover_payload,
    cover_text,
    replace_texts,
)
from eventstore.domain.redaction import REDACTED
from eventstore.redaction.paths import Step, Steps, steps_of

RECORDS = frozenset({"archived", "redacted", "restored"})
"""The tags of events that say what became of others: they are never redacted."""

_STARTS: dict[str, dict[str, Steps]] = {
    "arguments": {
        "pending": ("call", "arguments"),
        "approved": ("edited_call", "arguments"),
        "running": ("arguments",),
    },
    "result": {
        "completed": ("response", "result"),
        "ended_late": ("response", "result"),
    },
}
"""Where a path's first name leads to in the payload of an event, by tag."""

_BESIDE: dict[str, dict[str, Any]] = {
    "model_responded": {"finish_reason": REDACTED},
    "run_started": {"agent": REDACTED},
    "tools_offered": {"conflict": {"reason": REDACTED}},
}
"""The texts of events that else hold identifiers and numbers alone, and what takes their place."""

_NAMING = IDENTIFIERS - {"asked", "axis", "decision", "kind", "role", "source", "type"}
"""Identifiers that are no words of a fixed set."""

_OF_RECORDS = frozenset({"by", "paths", "place", "reason", "rule"})


def is_foreign(tag: str) -> bool:
    """Return whether the events of a tag are those of another program, which wrote all of them."""
    return tag not in SCHEMAS


def steps_in(path: str, tag: str) -> Steps | None:
    """Return the steps of a path in the payload of an event; None where it has no such member."""
    steps = steps_of(path)
    start = _STARTS.get(str(steps[0])) if steps and not is_foreign(tag) else None
    if start is None:
        return steps
    return (*start[tag], *steps[1:]) if tag in start else None


def without_member(value: Any, steps: Steps) -> bool:
    """Put `REDACTED` in the place of what the steps lead to; return whether there was any."""
    *before, last = steps
    found = False
    for holder in list(_reached(value, before)):
        for key in _keys(holder, last):
            if holder[key] != REDACTED:
                holder[key] = REDACTED
                found = True
    return found


def _reached(value: Any, steps: Steps) -> Iterator[Any]:
    if not steps:
        yield value
        return
    for key in _keys(value, steps[0]):
        yield from _reached(value[key], steps[1:])


def _keys(value: Any, step: Step) -> Sequence[Any]:
    if is_json_object(value):
        return (step,) if step in value else ()
    if is_json_list(value):
        if step is None:
            return range(len(value))
        return (step,) if isinstance(step, int) and step < len(value) else ()
    return ()


def without_texts(value: dict[str, Any], tag: str) -> bool:
    """Cover what an event with identifiers and numbers has of other texts; say if there is any.

    A reason that is known stays: by it the calls of a response that was cut off do not start.
    """
    found = False
    for name, covered in _BESIDE.get(tag, {}).items():
        text = value.get(name)
        is_word = name == "finish_reason" and ending_of(value.get("provider"), text) != "unknown"
        if text not in (None, covered) and not is_word:
            value[name], found = covered, True
    return found


def without_text(value: Any, text: re.Pattern[str]) -> bool:
    """Put `REDACTED` wherever a text stands in a payload of ours; return whether it stood anywhere.

    The form of the payload stays: its own members have their names, and identifiers their values.
    See `payload_texts` for what else is looked at.
    """
    return replace_texts(value, covering(text))


def foreign_without_text(payload: str, text: re.Pattern[str]) -> str:
    """Return the payload of an event of another program without a text; it may not be JSON."""
    cover = covering(text)
    covered = cover_payload(payload, cover)
    if covered == payload and cover(payload) != payload:
        alone = msgspec.json.encode(msgspec.json.decode(payload)).decode()
        if cover(alone) == alone:  # it is in a member that another one of the same name hides
            return alone
    return covered


def identifiers_with(value: Any, text: re.Pattern[str], tag: str) -> tuple[str, ...]:
    """Return the names of the members that hold a text, and stay all the same."""
    if is_foreign(tag):
        return ()
    cover = covering(text)
    stay = _OF_RECORDS if tag in RECORDS else _NAMING
    found = {name for name, each in _texts(value) if name in stay and cover(each) != each}
    return tuple(sorted(found))


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts of a payload with their names, but not of what others wrote."""
    holders: list[tuple[str, Any]] = [("", value)]
    while holders:
        name, holder = holders.pop()
        if isinstance(holder, str):
            yield name, holder
        elif is_json_object(holder):
            holders += [(key, inner) for key, inner in holder.items() if key not in FOREIGN]
        elif is_json_list(holder):
            holders += [(name, inner) for inner in holder]


def covering(text: re.Pattern[str]) -> Cover:
    """Return what covers a text in another one, in JSON in it, and behind escapes.

    What stands in the place of a text stays as it is.
    """
    return partial(cover_text, cover=partial(text.sub, _covered))


def _covered(found: re.Match[str]) -> str:
    if not found[0]:
        raise ValueError(
            f"text {found.re.pattern!r} finds places without a text: pass an expression of what is "
            "to go"
        )
    size = len(REDACTED)
    at = found.string.find(REDACTED, max(0, found.end() - size), found.start() + size)
    return REDACTED if at < 0 else found[0]
