"""The nearest readable form of what JSON cannot say.

A tool's side effect has happened whatever it returned: its result is stored, if need be as
text, and marked lossy. Nothing here raises.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

_DEPTH = 100  # deeper values become text: readers of every kind must be able to parse them


def readable(value: Any) -> tuple[Any, bool]:
    """`value` as plain JSON values, and whether anything was lost on the way.

    Tuples become lists and text subclasses text without loss. Bytes become their UTF-8 text or
    hex, non-finite numbers their names, mappings with other keys get text keys, models and
    dataclasses their fields, and everything else its `repr`.
    """
    return _plain(value, 0)


def _plain(value: Any, depth: int) -> tuple[Any, bool]:  # noqa: PLR0911 - a table
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value, False
    if kind is float:
        return (value, False) if math.isfinite(value) else (repr(value), True)
    if isinstance(value, str):
        return _text(str(value))
    if depth >= _DEPTH:
        return _shown(value), True
    if kind is list or kind is tuple:
        return _items(value, depth)
    if kind is dict:
        return _mapping(value, depth)
    return _foreign(value, depth), True


def _text(value: str) -> tuple[str, bool]:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode(), True
    return value, False


def _items(value: Any, depth: int) -> tuple[list[Any], bool]:
    pairs = [_plain(item, depth + 1) for item in value]
    return [item for item, _ in pairs], any(lossy for _, lossy in pairs)


def _mapping(value: dict[Any, Any], depth: int) -> tuple[dict[str, Any], bool]:
    plain: dict[str, Any] = {}
    lossy = False
    for key, item in value.items():
        name, renamed = _text(key) if isinstance(key, str) else (_shown(key), True)
        while name in plain:
            name, renamed = f"{name}'", True
        plain[name], changed = _plain(item, depth + 1)
        lossy = lossy or renamed or changed
    return plain, lossy


def _foreign(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.hex()
    for read in (_model, msgspec.to_builtins):
        try:
            return _plain(read(value), depth + 1)[0]
        except Exception:  # noqa: BLE001, S112 - foreign code; the next form is tried
            continue
    if isinstance(value, list | tuple | set | frozenset):
        return _items(value, depth)[0]
    if isinstance(value, dict):
        return _mapping(value, depth)[0]
    return _shown(value)


def _model(value: Any) -> Any:
    return value.model_dump(mode="json")


def _shown(value: Any) -> str:
    try:
        return _text(repr(value))[0]
    except Exception:  # noqa: BLE001 - a repr of foreign code may do anything
        return f"<{type(value).__name__}>"
