"""The parts of a message, in words that no provider owns."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

ROLES = ("system", "developer", "user", "assistant", "tool")

PDF = "application/pdf"
"""The media type of a document."""


class Text(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """Plain text."""

    text: str


class Image(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="image", tag_field="type"
):
    """An image: either a `url` or base64 `data` with its `media_type`.

    `detail` is how closely the model looks at it (low, high), where its provider can be told.
    """

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    detail: str | None = None


class Document(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="document", tag_field="type"
):
    """A PDF document: either a `url` or base64 `data`; `name` is what it is called."""

    url: str | None = None
    data: str | None = None
    name: str | None = None


class Opaque(msgspec.Struct, frozen=True, gc=False, tag="opaque", tag_field="type"):
    """A part that only its provider understands (thinking, a search result), kept whole.

    `data` is the provider's own JSON. It is written back to that provider alone.
    """

    provider: str
    data: Any


Part = Text | Image | Document | Opaque
_SHOWN = (Text, Image, Document)


def as_parts(content: str | Part | list[Part] | tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of `content`: text, one part, or several.

    An image or document whose address holds it (`data:`) becomes what is held.

    Raises:
        TypeError: the content, or a member of it, is neither text nor a part.
        ValueError: an image or document has no content, or two, or one that is none of its kind.
    """
    if isinstance(content, str | Part):
        return (_part(content),)
    if isinstance(content, Mapping | bytes) or not isinstance(content, Iterable):
        raise _no_part(content)
    return tuple(map(_part, content))


def result_parts(result: Any) -> tuple[Part, ...]:
    """What a tool's result shows, where that is text, images and documents; else nothing."""
    given = result if type(result) in (list, tuple) else (result,)
    kinds = {*map(type, given)}
    if kinds.isdisjoint(_SHOWN) or not kinds <= {str, *_SHOWN}:
        return ()
    try:
        return as_parts(given)
    except (TypeError, ValueError):  # it is kept all the same, as data
        return ()


def _part(value: Any) -> Part:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, Image | Document):
        return _placed(value)
    if not isinstance(value, Part):
        raise _no_part(value)
    return value


def _no_part(value: Any) -> TypeError:
    return TypeError(
        f"a message part is {type(value).__name__} {reprlib.repr(value)}: pass text, Text, Image, "
        "Document or Opaque, or several in a list (record_messages() takes a provider's messages)"
    )


def _placed(shown: Image | Document) -> Image | Document:
    """An image or document with its one source: an address elsewhere, or base64."""
    source = _source(shown)
    if shown.url and source[:5].lower() != "data:":
        return msgspec.structs.replace(shown, data=None)
    told, data = _held(shown, source)
    if isinstance(shown, Document):
        if told not in ("", PDF):
            raise ValueError(
                f"Document is {reprlib.repr(told)}: pass a PDF ({PDF}), "
                "an image as Image, or words as Text"
            )
        return msgspec.structs.replace(shown, url=None, data=data)
    media_type = told or shown.media_type
    if not (media_type is None or str(media_type).startswith("image/")):
        raise ValueError(
            f"Image is {reprlib.repr(media_type)}: pass media_type='image/png' or the like, "
            "or a PDF as Document"
        )
    return msgspec.structs.replace(shown, url=None, data=data, media_type=media_type)


def _source(shown: Image | Document) -> str:
    """Its `url` or its `data`, whichever it has."""
    kind = type(shown).__name__
    given = [value for value in (shown.url, shown.data) if value]
    if len(given) != 1:
        raise ValueError(
            f"{kind} has url {reprlib.repr(shown.url)} and data {reprlib.repr(shown.data)}: "
            "pass one of them, an address or base64"
        )
    if not isinstance(given[0], str):
        raise TypeError(f"{kind} has {reprlib.repr(given[0])}, which is no text: pass {_ENCODED}")
    return given[0]


def _held(shown: Image | Document, source: str) -> tuple[str, str]:
    """The media type, where it is told, and the base64 of a `data:` address or of base64 alone."""
    address = re.fullmatch(_DATA, source, re.IGNORECASE | re.DOTALL)
    told, data = address.groups() if address else ("", source)
    if not is_base64(data):
        raise ValueError(
            f"{type(shown).__name__} has {reprlib.repr(source)}, which is no base64: "
            f"pass {_ENCODED}"
        )
    return told.lower(), data


def is_base64(text: str) -> bool:
    """Whether the text is base64, and of something."""
    from base64 import b64decode  # noqa: PLC0415 - of who has images

    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False


_DATA = "data:([^,;]*)(?:;[^,]*)?;base64,(.*)"
_ENCODED = "data=base64.b64encode(content).decode()"
