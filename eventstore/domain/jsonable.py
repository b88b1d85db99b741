"""The nearest readable form of values that JSON cannot express.

The side effect of a tool has happened, whatever the tool returned. Its result is therefore always
stored, if necessary as text, and marked lossy. Nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import NoneType
from typing import Any, cast

import msgspec

from eventstore.domain.json_types import JsonObject

_MAX_DEPTH = 100  # deeper values become text, so that every kind of reader can parse them

_SCALARS = (NoneType, bool, int, float)


def readable(value: object) -> tuple[Any, bool]:
    """Return `value` as plain JSON values, and whether anything was lost.

    Tuples become lists, and subclasses of text become text, without loss. Bytes become their UTF-8
    text or hex digits, non-finite numbers their names, keys become text, models and dataclasses
    become their fields, and everything else becomes its `repr`. A value that contains itself is
    replaced by a note.
    """
    return _plain(value, ())


def nests_deeply(value: object, payload: bytes) -> bool:
    """Return whether `value`, which is encoded in `payload`, is nested too deeply for readers."""
    if payload.count(b"[") + payload.count(b"{") <= _MAX_DEPTH:
        return False
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [item for outer in level for item in _members(outer)]
        if not level:
            return False
    return True


def _members(value: object) -> Iterable[object]:
    if type(value) is dict:
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if type(value) is list else ()


def _plain(value: object, outer: tuple[int, ...]) -> tuple[Any, bool]:
    if type(value) in _SCALARS or isinstance(value, str):
        return _scalar(value)
    if id(value) in outer:
        return f"<this is inside the same {type(value).__name__}>", True
    if len(outer) >= _MAX_DEPTH:
        return _safe_repr(value), True
    outer = (*outer, id(value))
    if type(value) in (list, tuple):
        return _items(cast("Iterable[object]", value), outer)
    if type(value) is dict:
        return _mapping(cast("dict[object, object]", value), outer)
    return _foreign(value, outer), True


def _scalar(value: object) -> tuple[Any, bool]:
    if isinstance(value, str):
        return _text(str.__str__(value))
    if type(value) is int:
        return _integer(value)
    if type(value) is float and not math.isfinite(value):
        return repr(value), True
    return value, False


def _integer(value: int) -> tuple[int | str, bool]:
    try:
        str(value)
    except ValueError:  # Python limits the number of digits
        return hex(value), True
    return value, False


def _text(value: str) -> tuple[str, bool]:
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode(), True
    return value, False


def _items(items: Iterable[object], outer: tuple[int, ...]) -> tuple[list[object], bool]:
    pairs = [_plain(item, outer) for item in items]
    return [item for item, _ in pairs], any(lossy for _, lossy in pairs)


def _mapping(mapping: dict[object, object], outer: tuple[int, ...]) -> tuple[JsonObject, bool]:
    plain: JsonObject = {}
    lossy = False
    for key, item in mapping.items():
        name, renamed = _text(str.__str__(key)) if isinstance(key, str) else (_safe_repr(key), True)
        while name in plain:
            name, renamed = f"{name}'", True
        plain[name], changed = _plain(item, outer)
        lossy = lossy or renamed or changed
    return plain, lossy


def _foreign(value: object, outer: tuple[int, ...]) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(cast("bytes", value))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.hex()
    for read in (_number, _container, _model, _fields):
        try:
            return _plain(read(value), outer)[0]
        except Exception:  # noqa: BLE001, S112 - foreign code may raise anything; try the next form
            continue
    return _safe_repr(value)


def _number(value: Any) -> int | float:
    if isinstance(value, float):
        return float.__float__(value)
    return int.__int__(value)  # raises TypeError for a value that is not an integer


def _model(value: Any) -> object:
    dumped: object = value.model_dump(mode="json")
    if not isinstance(dumped, dict | list | str | int | float | None):
        raise TypeError  # a mock that answers to any name
    return cast("object", dumped)


def _fields(value: object) -> object:
    return msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview))


def _container(value: object) -> object:
    if isinstance(value, dict):
        return dict(cast("dict[object, object]", value))
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[object]", value))
    raise TypeError


def _safe_repr(value: object) -> str:
    try:
        return _text(repr(value))[0]
    except Exception:  # noqa: BLE001 - a foreign repr may raise anything
        return f"<{type(value).__name__}>"
