"""The parts of a message, in a form that is independent of the providers."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from eventstore.domain.nesting import MAX_LEVELS, too_deep

ROLES = ("system", "developer", "user", "assistant", "tool")
"""The roles that a message may have."""

PDF = "application/pdf"
"""The media type of a document."""


class Text(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """Plain text."""

    text: str


class Image(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="image", tag_field="type"
):
    """An image: either a `url` or base64 `data` with its `media_type`.

    `detail` is how closely the model looks at it (low, high), if its provider has such a setting.
    """

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    detail: str | None = None


class Document(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="document", tag_field="type"
):
    """A PDF document: either a `url` or base64 `data`; `name` is its title or file name."""

    url: str | None = None
    data: str | None = None
    name: str | None = None


class Opaque(msgspec.Struct, frozen=True, gc=False, tag="opaque", tag_field="type"):
    """A part that only its provider understands (thinking, a search result), kept unchanged.

    `data` is the provider's own JSON. It is written back only to that provider.
    """

    provider: str
    data: Any


Part = Text | Image | Document | Opaque
"""A part of a message."""

_RESULT_PARTS = (Text, Image, Document)


def as_parts(content: Any) -> tuple[Part, ...]:
    """Return the parts of `content`: text, one part, or several.

    An image or document with a `data:` address is replaced by the data in the address.

    Raises:
        TypeError: the content, or a member of it, is neither text nor a part.
        ValueError: an image or document has no content, or two contents, or one of another type;
            or another part is nested too deeply.
    """
    if isinstance(content, str | Part):
        return (_checked_part(content),)
    if not _are_several(content):
        raise _not_a_part(content)
    return tuple(map(_checked_part, content))


def _are_several(content: object) -> TypeGuard[Iterable[object]]:
    return isinstance(content, Iterable) and not isinstance(content, Mapping | bytes)


def result_parts(result: Any) -> tuple[Part, ...]:
    """Return the parts of a tool's result of text, images and documents; otherwise nothing.

    The bytes of an image or a PDF are one.
    """
    items = [_read_as_media(item) for item in (result if _is_sequence(result) else (result,))]
    kinds = {*map(type, items)}
    if kinds.isdisjoint(_RESULT_PARTS) or not kinds <= {str, *_RESULT_PARTS}:
        return ()
    try:
        return as_parts(items)
    except (TypeError, ValueError):  # the result is kept all the same, as data
        return ()


def _is_sequence(result: object) -> TypeGuard[Sequence[object]]:
    return type(result) in (list, tuple)


def _read_as_media(item: object) -> object:
    """Return the image or the PDF that bytes are, by how they begin; anything else as it is."""
    if type(item) is not bytes:
        return item
    for pattern, media_type in _BEGINNINGS.items():
        if re.match(pattern, item, re.DOTALL):
            data = _as_base64(item)
            return Document(data=data) if media_type == PDF else Image(None, data, media_type)
    return item


def _as_base64(content: bytes) -> str:
    from base64 import b64encode  # only needed for images

    return b64encode(content).decode()


def _checked_part(value: object) -> Part:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, Image | Document):
        return _with_one_source(value)
    if not isinstance(value, Part):
        raise _not_a_part(value)
    if isinstance(value, Opaque) and (path := too_deep(value.data)) is not None:
        raise ValueError(
            f"a part of {value.provider} is nested more than {MAX_LEVELS} levels deep - at "
            f"`$.data{path[1:]}`: pass data of fewer levels, or its text"
        )
    return value


def _not_a_part(value: object) -> TypeError:
    return TypeError(
        f"a message part is {type(value).__name__} {reprlib.repr(value)}: pass text, Text, Image, "
        "Document or Opaque, or several in a list (record_messages() takes a provider's messages)"
    )


def _with_one_source(media: Image | Document) -> Image | Document:
    """Return the image or document with only one source: an address elsewhere, or base64."""
    source = _source(media)
    if media.url and source[:5].lower() != "data:":
        return msgspec.structs.replace(media, data=None)
    media_type, data = _data_of(media, source)
    if isinstance(media, Document):
        if media_type not in ("", PDF):
            raise ValueError(
                f"Document is {reprlib.repr(media_type)}: pass a PDF ({PDF}), "
                "an image as Image, or words as Text"
            )
        return msgspec.structs.replace(media, url=None, data=data)
    image_type = media_type or media.media_type
    if not (image_type is None or str(image_type).startswith("image/")):
        raise ValueError(
            f"Image is {reprlib.repr(image_type)}: pass media_type='image/png' or the like, "
            "or a PDF as Document"
        )
    return msgspec.structs.replace(media, url=None, data=data, media_type=image_type)


def _source(media: Image | Document) -> str:
    """Return the `url` or the `data`, whichever is set."""
    kind = type(media).__name__
    sources: list[object] = [value for value in (media.url, media.data) if value]
    if len(sources) != 1:
        raise ValueError(
            f"{kind} has url {reprlib.repr(media.url)} and data {reprlib.repr(media.data)}: "
            "pass one of them, an address or base64"
        )
    if not isinstance(sources[0], str):
        raise TypeError(
            f"{kind} has {reprlib.repr(sources[0])}, which is not text: pass {_BASE64_REMEDY}"
        )
    return sources[0]


def _data_of(media: Image | Document, source: str) -> tuple[str, str]:
    """Return the media type, if given, and the base64 of a `data:` address or of plain base64."""
    address = re.fullmatch(_DATA_ADDRESS, source, re.IGNORECASE | re.DOTALL)
    media_type, data = address.groups() if address else ("", source)
    if not is_base64(data):
        raise ValueError(
            f"{type(media).__name__} has {reprlib.repr(source)}, which is not base64: "
            f"pass {_BASE64_REMEDY}"
        )
    return media_type.lower(), data


def is_base64(text: str) -> bool:
    """Return whether the text is base64 and not empty."""
    from base64 import b64decode  # only needed for images

    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False


_BEGINNINGS = {
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    rb"GIF8[79]a": "image/gif",
    rb"RIFF....WEBP": "image/webp",
    rb"%PDF-": PDF,
}
"""How the files begin that models take, with their types."""

_DATA_ADDRESS = "data:([^,;]*)(?:;[^,]*)?;base64,(.*)"
_BASE64_REMEDY = "data=base64.b64encode(content).decode()"
