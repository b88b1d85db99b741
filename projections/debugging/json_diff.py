"""The difference of two JSON values: each place where they differ, as a path and two values.

1. Objects are compared member by member, whatever the order. Lists are compared item by item.
2. `1` and `1.0` differ, and so do `true` and `1`, as they do for a fingerprint.
3. A path is written as msgspec writes it in errors: `$.orders[0].id`. A member whose name is no
   identifier is written as `$["a b"]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from eventstore.domain.json_types import JsonObject, is_json_list, is_json_object
from eventstore.domain.one_line import one_line

_SHOWN_CHARACTERS = 60


class JsonChange(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One place where two JSON values differ.

    `kind` is added, removed or changed; an added value has no `before`, a removed one no `after`.
    """

    path: str
    kind: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        if self.kind == "added":
            return f"{self.path}: added {_text(self.after)}"
        if self.kind == "removed":
            return f"{self.path}: removed {_text(self.before)}"
        return f"{self.path}: {_text(self.before)} became {_text(self.after)}"


def json_diff(before: object, after: object) -> list[JsonChange]:
    """Return where two JSON values differ, in the order of the first; empty for equal ones."""
    return list(_changes("$", before, after))


class _Pair(NamedTuple):
    path: str
    before: object
    after: object


def _changes(path: str, before: object, after: object) -> Iterator[JsonChange]:
    pending: list[_Pair | JsonChange] = [_Pair(path, before, after)]
    while pending:
        pair = pending.pop()
        if isinstance(pair, JsonChange):
            yield pair
        elif is_json_object(pair.before) and is_json_object(pair.after):
            pending += reversed([*_members(pair.path, pair.before, pair.after)])
        elif is_json_list(pair.before) and is_json_list(pair.after):
            pending += reversed([*_items(pair.path, pair.before, pair.after)])
        elif type(pair.before) is not type(pair.after) or pair.before != pair.after:
            yield JsonChange(pair.path, "changed", pair.before, pair.after)


def _members(path: str, before: JsonObject, after: JsonObject) -> Iterator[_Pair | JsonChange]:
    for key in [*before, *(key for key in after if key not in before)]:
        place = f"{path}{_step(key)}"
        if key not in before:
            yield JsonChange(place, "added", None, after[key])
        elif key not in after:
            yield JsonChange(place, "removed", before[key])
        else:
            yield _Pair(place, before[key], after[key])


def _items(path: str, before: list[Any], after: list[Any]) -> Iterator[_Pair | JsonChange]:
    for n in range(min(len(before), len(after))):
        yield _Pair(f"{path}[{n}]", before[n], after[n])
    for n in range(len(after), len(before)):
        yield JsonChange(f"{path}[{n}]", "removed", before[n])
    for n in range(len(before), len(after)):
        yield JsonChange(f"{path}[{n}]", "added", None, after[n])


def _step(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{_text(key)}]"


def _text(value: object) -> str:
    return one_line(msgspec.json.encode(value).decode(), _SHOWN_CHARACTERS)
