"""A page of the feed in columns: many events of a kind in one row, read by a few calls of C.

Most of what a read by rows takes goes into an object for each cell, and into a call for each
payload. So the server joins the cells of a column to one text: the numbers and the payloads of the
events of one tag and schema are a JSON array each. In which order they are joined does not matter,
as long as it is one order for all columns.

What is not so (an unknown tag, another schema, damage) is for the rows to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from eventstore.codec import DECODERS, EVENT_CLASSES, SCHEMAS, Decoders
from eventstore.events import Recorded
from eventstore.fingerprint import PREFIX
from eventstore.outline import LISTS, OUTLINES
from eventstore.storage.rows import recorded

Row = Sequence[Any]
Names = Mapping[int, Any]

_HEX = 32
"""Digits of an event id, and of a fingerprint's digest."""

_numbers = msgspec.json.Decoder(list[int]).decode
_position = attrgetter("position")


class Form(NamedTuple):
    """What payloads are read as: one, and all of a tag and schema."""

    one: Decoders
    many: Mapping[tuple[str, int], Callable[[str], list[Any]]]


WHOLE = Form(DECODERS, {
    (cls.tag, SCHEMAS[cls.tag]): msgspec.json.Decoder(list[cls]).decode  # type: ignore[valid-type]
    for cls in EVENT_CLASSES
})  # fmt: skip
OUTLINE = Form(OUTLINES, LISTS)


class Rows:
    """A page as it is stored: a row for each event, in order."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self.positions = [row[1] for row in rows]
        self.keys = {row[2] for row in rows}
        """Of the conversations."""

    def recorded(self, names: Names, form: Form) -> list[Recorded]:
        """The events of the conversations that have a name."""
        rows = self._rows
        ours = rows if all(names.values()) else [row for row in rows if names[row[2]]]
        return recorded(ours, names, form.one)


class Columns:
    """A page in columns: a row for all events of a tag and schema, with fingerprints or without.

    `again` reads so many rows of it, one for each event.
    """

    def __init__(
        self, lane: int, rows: Sequence[Row], again: Callable[[int], Sequence[Row]]
    ) -> None:
        self._lane = lane
        self._again = again
        self._kinds = [_Kind(*row) for row in rows]
        self.positions = sorted(chain.from_iterable(kind.positions for kind in self._kinds))
        self.keys = set(chain.from_iterable(kind.keys for kind in self._kinds))

    def recorded(self, names: Names, form: Form) -> list[Recorded]:
        """The events of the conversations that have a name."""
        found: list[Recorded] = []
        try:
            for kind in self._kinds:
                found += kind.recorded(self._lane, names, form)
        except Exception:  # noqa: BLE001 - an older schema, another's tag, damage: one by one
            return Rows(self._again(len(self.positions))).recorded(names, form)
        found.sort(key=_position)
        if all(names.values()):
            return found
        return [one for one in found if one.conversation_id]


class _Kind:
    """The events of a page that have a tag and schema in common."""

    def __init__(  # noqa: PLR0913, PLR0917 - the columns
        self, tag: str, schema: int, positions: str, keys: str, versions: str, times: str,
        ids: str, marks: str | None, payloads: str,
    ) -> None:  # fmt: skip
        self._kind = tag, schema
        self.positions, self.keys, self._versions, self._times = (
            _numbers(column) for column in (positions, keys, versions, times)
        )
        self._ids, self._marks, self._payloads = ids, marks, payloads

    def recorded(self, lane: int, names: Names, form: Form) -> Iterator[Recorded]:
        """The events, in the order of the columns."""
        events = form.many[self._kind](self._payloads)
        size = len(events)
        columns = (
            self.positions, [names[key] for key in self.keys], self._versions, _cut(self._ids),
            self._times, [getattr(event, "call_id", None) for event in events],
            [None] * size if self._marks is None else [PREFIX + mark for mark in _cut(self._marks)],
            events,
        )  # fmt: skip
        if any(len(column) != size for column in columns):
            raise ValueError("the columns differ in length")
        return map(Recorded, repeat(lane), *columns)


def _cut(digits: str) -> list[str]:
    """Each of some hashes that stand one behind the other."""
    if len(digits) % _HEX:
        raise ValueError("a hash is of another length")
    return [digits[at : at + _HEX] for at in range(0, len(digits), _HEX)]
