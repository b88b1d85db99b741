"""The nearest readable form of values that JSON cannot express.

The side effect of a tool has happened, whatever the tool returned. Its result is therefore always
stored, if necessary as text, and marked lossy. Nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from eventstore.domain.json_types import JsonObject
from eventstore.domain.nesting import MAX_LEVELS, json_text

NameOf: TypeAlias = Callable[[object], str | None]
"""Returns the text that stands for what is kept elsewhere; None for what is read here."""

_SCALARS = (NoneType, bool, int, float)


def readable(
    value: object, levels: int = MAX_LEVELS, name_of: NameOf | None = None
) -> tuple[Any, bool]:
    """Return `value` as plain JSON values, and whether anything was lost.

    Tuples become lists, and subclasses of text become text, without loss. Bytes become their UTF-8
    text or hex digits, non-finite numbers their names, keys become text, models and dataclasses
    become their fields, and everything else becomes its `repr`. A value that contains itself is
    replaced by a note, and what is below so many levels by its text. What `name_of` has a name for
    is replaced by that, without loss; it is asked in the order of the values.
    """
    reader = _Reader(levels, name_of)
    return reader.read(value), reader.lossy


class _Unread(NamedTuple):
    """A value to be read, and where it goes."""

    into: Any
    at: Any
    value: object


class _Read(NamedTuple):
    """The end of what is inside a value."""

    identity: int


class _Reader:
    """The reading of one value, without recursion."""

    def __init__(self, levels: float, name_of: NameOf | None = None) -> None:
        self.lossy = False
        self._name_of = name_of
        self._levels = levels
        self._unread: list[_Unread | _Read] = []
        self._around: set[int] = set()  # the identities of the values around the one that is read
        self._made: list[object] = []  # so that none of them takes the identity of another

    def read(self, value: object) -> Any:
        plain: list[Any] = [None]
        self._unread.append(_Unread(plain, 0, value))
        while self._unread:
            item = self._unread.pop()
            if isinstance(item, _Read):
                self._around.discard(item.identity)
            else:
                item.into[item.at] = self._plain(item.value)
        return plain[0]

    def _plain(self, value: object) -> Any:
        if type(value) in _SCALARS or isinstance(value, str):
            plain, lossy = _scalar(value)
            self.lossy = self.lossy or lossy
            return plain
        if self._name_of is not None and (name := self._name_of(value)) is not None:
            return name
        if id(value) in self._around:
            self.lossy = True
            return f"<this is inside the same {type(value).__name__}>"
        if len(self._around) >= self._levels:
            self.lossy = True
            return json_text(_Reader(math.inf, self._name_of).read(value))
        return self._opened(value)

    def _opened(self, value: object) -> Any:
        self._around.add(id(value))
        self._unread.append(_Read(id(value)))
        if type(value) in (list, tuple):
            return self._items(cast("Sequence[object]", value))
        if type(value) is dict:
            return self._mapping(cast("dict[object, object]", value))
        self.lossy = True
        return self._foreign(value)

    def _items(self, items: Sequence[object]) -> list[object]:
        plain: list[object] = [None] * len(items)
        unread = [_Unread(plain, at, item) for at, item in enumerate(items)]
        self._unread += reversed(unread)
        return plain

    def _mapping(self, mapping: dict[object, object]) -> JsonObject:
        plain: JsonObject = {}
        unread: list[_Unread] = []
        for key, item in mapping.items():
            is_text = isinstance(key, str)
            name, renamed = _text(str.__str__(key)) if is_text else (safe_repr(key), True)
            while name in plain:
                name, renamed = f"{name}'", True
            plain[name] = None
            self.lossy = self.lossy or renamed
            unread.append(_Unread(plain, name, item))
        self._unread += reversed(unread)
        return plain

    def _foreign(self, value: object) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            raw = bytes(cast("bytes", value))
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return raw.hex()
        for read in (_number, _container, _model, _model_with_bytes, _fields):
            try:
                found = read(value)
            except Exception:  # noqa: BLE001, S112 - foreign code may raise anything; try the next
                continue
            self._made.append(found)
            return self._plain(found)
        return safe_repr(value)


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


def _number(value: Any) -> int | float:
    if isinstance(value, float):
        return float.__float__(value)
    return int.__int__(value)  # raises TypeError for a value that is not an integer


def _model(value: Any) -> object:
    dumped: object = value.model_dump(mode="json", by_alias=True)
    if not isinstance(dumped, dict | list | str | int | float | None):
        raise TypeError  # a mock that answers to any name
    return cast("object", dumped)


def _model_with_bytes(value: Any) -> object:
    """Return the members of a model that holds bytes which are no text, as they are."""
    dumped: object = value.model_dump(by_alias=True)
    if not isinstance(dumped, dict):
        raise TypeError
    return cast("object", dumped)


def _fields(value: object) -> object:
    return msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview))


def _container(value: object) -> object:
    if isinstance(value, dict):
        return dict(cast("dict[object, object]", value))
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[object]", value))
    raise TypeError


def safe_repr(value: object) -> str:
    """Return the `repr` of a value, or the name of its type where that raises."""
    try:
        return _text(repr(value))[0]
    except Exception:  # noqa: BLE001 - a foreign repr may raise anything
        return f"<{type(value).__name__}>"
