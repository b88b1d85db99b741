"""The limit of nesting: how deep the values of the log may go.

1. A list or an object that stands in another is a level: `[[1]]` has two. A value has 200 at most.
2. The limit is the library's own, and far from that of any interpreter: what one thread of one
   version of Python has written, every other can read, show and check.
3. Nothing here recurses, so that a value of any depth is measured at any depth of the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, TypeAlias, cast

import msgspec

MAX_LEVELS = 200
SHALLOW_SIZE = 2 * MAX_LEVELS
"""Characters of the longest JSON text that has no room for more levels."""

# The path from a value down to one inside it: (the path to its container, key or index).
Path: TypeAlias = tuple["Path", str | int] | None

_encode = msgspec.json.Encoder().encode
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
_BACKSLASH = ord("\\")
_FEW_TEXTS = 32
_FEW_HOLDERS = 32
_SHOWN_STEPS = 12
"""Steps of a path that an error shows: one to a value that is too deep has hundreds."""
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]')


def nests_too_deeply(json: bytes | str, levels: int = MAX_LEVELS) -> bool:
    """Return whether JSON text has more levels; text that is not JSON has any number of them."""
    if len(json) <= 2 * levels:
        return False
    if isinstance(json, str):
        json = json.encode("utf-8", "surrogatepass")
    return _has_brackets(json, levels) and _depth_exceeds(json, levels)


def value_nests_too_deeply(value: object, json: bytes, levels: int = MAX_LEVELS) -> bool:
    """Return whether a value has more levels; `json` is its JSON text.

    A long text with many brackets, such as a file that a tool has read, is not looked through.
    """
    if len(json) <= 2 * levels or not _has_brackets(json, levels):
        return False
    return not _holds_few(value, levels) and _depth_exceeds(json, levels)


def _has_brackets(json: bytes, levels: int) -> bool:
    """Return whether JSON text has more than that many opening brackets."""
    # To delete some is how they are counted: `count` looks at each byte by itself.
    most = levels + 1
    left = len(json.replace(b"[", b"", most)) + len(json.replace(b"{", b"", most))
    return 2 * len(json) - left > levels


def _holds_few(value: object, levels: int) -> bool:
    """Return whether a value has no more lists and objects than levels, nor many at all."""
    most = min(levels, _FEW_HOLDERS)
    holders = [value] if _holds(value) else []
    for holder in holders:
        if len(holders) > most:
            break
        holders += [m for _, m in _members(holder) if type(m) is not str and _holds(m)]
    return len(holders) <= most


def _depth_exceeds(json: bytes, levels: int) -> bool:
    outside = _outside_of_few_texts(json)
    if outside is None:
        if b"\\" in json:
            json = json.replace(rb"\\", b"").replace(rb"\"", b"")
        outside = json.translate(None, _NO_MARKS).replace(b'""', b"")
        if b'"' in outside:  # a text with brackets
            outside = b"".join(outside.split(b'"')[::2])
    brackets = outside.translate(_AS_LISTS, _NO_BRACKETS)
    while len(brackets) > 2 * levels:
        if not levels:
            return True
        brackets, levels = brackets.replace(b"[]", b""), levels - 1  # the innermost level goes
    return False


def _outside_of_few_texts(json: bytes) -> bytes | None:
    """Return what stands outside of texts; None if there are many texts. Long ones cost little."""
    outside: list[bytes] = []
    end = 0
    for _ in range(_FEW_TEXTS):
        begin = json.find(b'"', end)
        if begin < 0:
            return b"".join([*outside, json[end:]])
        outside.append(json[end:begin])
        end = json.find(b'"', begin + 1)
        while end > 0 and _is_escaped(json, end):
            end = json.find(b'"', end + 1)
        if end < 0:
            return b"".join(outside)
        end += 1
    return None


def _is_escaped(json: bytes, index: int) -> bool:
    backslashes = 0
    while json[index - 1 - backslashes] == _BACKSLASH:
        backslashes += 1
    return backslashes % 2 == 1


def too_deep(value: object, levels: int = MAX_LEVELS) -> str | None:
    """Return the path to the first list or object below that many levels, or None.

    A value that contains itself has one.
    """
    found: dict[int, tuple[Path, object]] = {id(value): (None, value)} if _holds(value) else {}
    for _ in range(levels):
        # By identity: what stands in many places of a level is looked at once.
        found = {
            id(member): ((path, key), member)
            for path, outer in found.values()
            for key, member in _members(outer)
            if _holds(member)
        }
        if not found:
            return None
    return next((shown_path(path) for path, _ in found.values()), None)


def _holds(value: object) -> bool:
    kinds = (dict, list, tuple, set, frozenset, msgspec.Struct)
    return isinstance(value, kinds) or is_dataclass(value)


def _members(value: object) -> Iterable[tuple[str | int, object]]:
    if isinstance(value, dict):
        return cast("dict[str | int, object]", value).items()
    if isinstance(value, msgspec.Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    if is_dataclass(value):
        return [(each.name, getattr(value, each.name, None)) for each in fields(value)]
    return enumerate(cast("Iterable[object]", value))


def shown_path(path: Path) -> str:
    """Return a path as text, `$.rows[0]`; of one of hundreds of steps only the first."""
    steps: list[str] = []
    while path is not None:
        path, key = path
        steps.append(_step(key))
    steps.reverse()
    more = len(steps) - _SHOWN_STEPS
    return f"${''.join(steps[:_SHOWN_STEPS])}{f'… and {more} steps more' if more > 0 else ''}"


def _step(key: object) -> str:
    if isinstance(key, str):
        if key.isidentifier():
            return f".{key}"
        shown = key.encode("utf-8", "backslashreplace").decode()
        return f"[{_encode(shown).decode()}]"
    return f"[{key}]"


def json_text(value: object) -> str:
    """Return the JSON text of plain JSON values, however deep they go.

    Raises:
        TypeError, ValueError: a value is not a plain JSON value, or contains itself.
    """
    written: list[bytes] = []
    pending: list[Any] = [value]
    open_containers: set[int] = set()
    while pending:
        item = pending.pop()
        if type(item) is _Written:
            written.append(item.text)
            open_containers.discard(item.closes)
        elif type(item) in (dict, list, tuple):
            if id(item) in open_containers:
                raise ValueError("the value contains itself")
            open_containers.add(id(item))
            pending += reversed(_pieces(item))
        elif item is not None and type(item) not in (str, bool, int, float):
            raise TypeError(f"{type(item).__name__} is not a JSON value")
        elif type(item) is float and not isfinite(item):
            raise ValueError(f"{item} is not a JSON number")
        else:
            written.append(_encode(item))
    return b"".join(written).decode()


class _Written(msgspec.Struct, frozen=True):
    text: bytes
    closes: int = 0
    """The identity of the container that ends here."""


def _pieces(container: dict[str, Any] | list[Any] | tuple[Any, ...]) -> list[Any]:
    pieces: list[Any] = []
    if isinstance(container, dict):
        for key, item in container.items():
            if type(key) is not str:
                raise TypeError(f"the key {key!r} is not text")
            pieces += [_Written(b"," if pieces else b"{"), _Written(_encode(key) + b":"), item]
        return [*(pieces or [_Written(b"{")]), _Written(b"}", id(container))]
    for item in container:
        pieces += [_Written(b"," if pieces else b"["), item]
    return [*(pieces or [_Written(b"[")]), _Written(b"]", id(container))]


def with_texts(json: bytes, level: int, levels: int) -> bytes:
    """Return JSON in which each value at `level` that has more than `levels` levels is its text.

    The outermost list or object is at level 1.
    """
    made: list[bytes] = []
    depth = kept = begun = deepest = 0
    for token in _TOKEN.finditer(json):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if depth == level:
                begun, deepest = token.start(), depth
        elif first in b"]}":
            if depth == level and deepest - level >= levels:
                text = json[begun : token.end()].decode()
                made += [json[kept:begun], _encode(text)]
                kept = token.end()
            depth -= 1
    return b"".join([*made, json[kept:]])
