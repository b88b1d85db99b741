"""The nearest readable form of what JSON cannot say.

A tool's side effect has happened whatever it returned: its result is stored, if need be as
text, and marked lossy. Nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

_DEPTH = 100  # deeper values become text: readers of every kind must be able to parse them


def readable(value: Any) -> tuple[Any, bool]:
    """`value` as plain JSON values, and whether anything was lost on the way.

    Tuples become lists and text subclasses text without loss. Bytes become their UTF-8 text or
    hex, non-finite numbers their names, mappings with other keys get text keys, models and
    dataclasses their fields, and everything else its `repr`. What contains itself says so.
    """
    return _plain(value, ())


def nests_deeply(value: Any, payload: bytes) -> bool:
    """Whether plain `value`, as it stands in `payload`, is nested deeper than readers go."""
    if payload.count(b"[") + payload.count(b"{") <= _DEPTH:
        return False
    level = [value]
    for _ in range(_DEPTH):
        level = [item for outer in level for item in _members(outer)]
        if not level:
            return False
    return True


def _members(value: Any) -> Iterable[Any]:
    if type(value) is dict:
        return value.values()
    return value if type(value) is list else ()


def _plain(value: Any, outer: tuple[int, ...]) -> tuple[Any, bool]:  # noqa: PLR0911 - a table
    kind = type(value)
    if value is None or kind is bool:
        return value, False
    if kind is int:
        return _integer(value)
    if kind is float:
        return (value, False) if math.isfinite(value) else (repr(value), True)
    if isinstance(value, str):
        return _text(str.__str__(value))
    if id(value) in outer:
        return f"<this is inside the same {kind.__name__}>", True
    if len(outer) >= _DEPTH:
        return _shown(value), True
    outer = (*outer, id(value))
    if kind is list or kind is tuple:
        return _items(value, outer)
    if kind is dict:
        return _mapping(value, outer)
    return _foreign(value, outer), True


def _integer(value: int) -> tuple[Any, bool]:
    try:
        str(value)
    except ValueError:  # Python writes no more than some thousand digits
        return hex(value), True
    return value, False


def _text(value: str) -> tuple[str, bool]:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode(), True
    return value, False


def _items(value: Any, outer: tuple[int, ...]) -> tuple[list[Any], bool]:
    pairs = [_plain(item, outer) for item in value]
    return [item for item, _ in pairs], any(lossy for _, lossy in pairs)


def _mapping(value: dict[Any, Any], outer: tuple[int, ...]) -> tuple[dict[str, Any], bool]:
    plain: dict[str, Any] = {}
    lossy = False
    for key, item in value.items():
        name, renamed = _text(str.__str__(key)) if isinstance(key, str) else (_shown(key), True)
        while name in plain:
            name, renamed = f"{name}'", True
        plain[name], changed = _plain(item, outer)
        lossy = lossy or renamed or changed
    return plain, lossy


def _foreign(value: Any, outer: tuple[int, ...]) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.hex()
    for read in (_number, _container, _model, _fields):
        try:
            return _plain(read(value), outer)[0]
        except Exception:  # noqa: BLE001, S112 - foreign code; the next form is tried
            continue
    return _shown(value)


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return float.__float__(value)
    return int.__int__(value)  # raises TypeError for what is no integer


def _model(value: Any) -> Any:
    dumped = value.model_dump(mode="json")
    if not isinstance(dumped, dict | list | str | int | float | None):
        raise TypeError  # a stand-in that answers to any name
    return dumped


def _fields(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview))


def _container(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    raise TypeError


def _shown(value: Any) -> str:
    try:
        return _text(repr(value))[0]
    except Exception:  # noqa: BLE001 - a repr of foreign code may do anything
        return f"<{type(value).__name__}>"
