"""The difference of two JSON values: each place where they differ, as a path and two values.

1. Objects are compared member by member, whatever the order. Lists are compared item by item.
2. `1` and `1.0` differ, and so do `true` and `1`, as they do for a fingerprint.
3. A path is written as msgspec writes it in errors: `$.orders[0].id`. A member whose name is no
   identifier is written as `$["a b"]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


def _changes(path: str, before: object, after: object) -> Iterator[JsonChange]:
    if is_json_object(before) and is_json_object(after):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _member_changes(f"{path}{_step(key)}", key, before, after)
    elif is_json_list(before) and is_json_list(after):
        for n in range(min(len(before), len(after))):
            yield from _changes(f"{path}[{n}]", before[n], after[n])
        for n in range(len(after), len(before)):
            yield JsonChange(f"{path}[{n}]", "removed", before[n])
        for n in range(len(before), len(after)):
            yield JsonChange(f"{path}[{n}]", "added", None, after[n])
    elif type(before) is not type(after) or before != after:
        yield JsonChange(path, "changed", before, after)


def _member_changes(
    path: str, key: str, before: JsonObject, after: JsonObject
) -> Iterator[JsonChange]:
    if key not in before:
        yield JsonChange(path, "added", None, after[key])
    elif key not in after:
        yield JsonChange(path, "removed", before[key])
    else:
        yield from _changes(path, before[key], after[key])


def _step(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{_text(key)}]"


def _text(value: object) -> str:
    return one_line(msgspec.json.encode(value).decode(), _SHOWN_CHARACTERS)
