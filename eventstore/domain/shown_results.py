"""Results as they are: images, documents and sounds stay what they are, wherever they stand.

1. A result of text, images, documents and sounds is stored in these parts.
2. Of a value that holds some, the JSON is the first part, with their names (`[image 1]`) in their
   places. They follow it, in the order of the names.
3. Other bytes are shown as text where they are UTF-8. Otherwise a few become hex digits; more are
   kept in a part of their own, and the model reads how many there are.
4. Nothing here raises: the tool has done its work, whatever it returned.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple, cast

import msgspec
from msgspec import to_builtins

from eventstore.domain.jsonable import readable
from eventstore.domain.messages import (
    Document,
    Media,
    Opaque,
    Part,
    Text,
    checked_media,
    content_of,
    media_of,
)

OWN: Final = "toolledger"
"""The provider of parts that no provider takes."""

MOST_HEX_BYTES: Final = 256
"""Bytes that are shown as hex digits at most."""

_encode = msgspec.json.Encoder().encode


class StoredResult(NamedTuple):
    """A result as the log holds it, whether anything was lost, and whether it is in parts."""

    result: Any
    lossy: bool
    in_parts: bool


def result_to_store(result: object) -> StoredResult:
    """Return what is stored of a result that JSON cannot express."""
    if parts := _plain_parts(result):
        return StoredResult(to_builtins(parts), lossy=False, in_parts=True)
    names = _Names()
    read, lossy = readable(result, name_of=names)
    if not names.parts:
        return StoredResult(read, lossy, in_parts=False)
    text = read if isinstance(read, str) else _encode(read).decode()
    return StoredResult(to_builtins([Text(text), *names.parts]), lossy, in_parts=True)


def kept_bytes(content: bytes) -> list[Opaque | Text]:
    """Return the parts that stand for bytes of no known kind; none of few, or of a text."""
    if not _are_hidden(content):
        return []
    return [Text(_note_of(content)), _hidden(content)]


def _plain_parts(result: Any) -> list[Part]:
    """Return the parts of a result of text, images, documents and sounds; nothing of any other."""
    items: Any = result if type(result) in (list, tuple) else (result,)
    parts = [Text(each) if type(each) is str else _part(each) for each in items]
    if all(isinstance(part, Text) for part in parts) and not any(
        isinstance(each, Text) for each in items
    ):
        return []
    return [part for part in parts if part is not None] if None not in parts else []


def _part(value: object) -> Part | None:
    if isinstance(value, Text) or (isinstance(value, Opaque) and value.provider == OWN):
        return value
    return _media(value)


def _media(value: object) -> Media | None:
    """Return the image, the document or the sound that a value is; None of any other value."""
    if isinstance(value, bytes | bytearray | memoryview):
        return media_of(bytes(cast("bytes", value)))
    if not isinstance(value, Media):
        return None
    try:
        return checked_media(value)
    except (TypeError, ValueError):
        content = content_of(value)
        return None if content is None else media_of(content)


class _Names:
    """The names of what is kept beside a JSON text, and what that is."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._count: Counter[str] = Counter()

    def __call__(self, value: object) -> str | None:
        part = _media(value)
        if part is not None:
            kind = type(part).__name__.lower()
            self._count[kind] += 1
            self.parts.append(part)
            title = part.name if isinstance(part, Document) else None
            return f"[{kind} {self._count[kind]}{f': {title}' if title else ''}]"
        content = _bytes_in(value)
        if content is None or not _are_hidden(content):
            return None
        self.parts.append(_hidden(content))
        return _note_of(content)


def _bytes_in(value: object) -> bytes | None:
    if isinstance(value, Media):
        return content_of(value)
    is_raw = isinstance(value, bytes | bytearray | memoryview)
    return bytes(cast("bytes", value)) if is_raw else None


def _are_hidden(content: bytes) -> bool:
    """Return whether bytes are no text, and too many for hex digits."""
    if len(content) <= MOST_HEX_BYTES:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


def _hidden(content: bytes) -> Opaque:
    return Opaque(OWN, {"type": "bytes", "data": to_builtins(content)})


def _note_of(content: bytes) -> str:
    return f"[{len(content):,} bytes, which are not shown here]"
