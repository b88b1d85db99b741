"""The parts of a message, in a form that is independent of the providers."""

from __future__ import annotations

import re
import reprlib
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec
from msgspec.structs import force_setattr, replace

from eventstore.domain.media_types import (
    LONGEST_BEGINNING,
    PDF,
    likely_media_type,
    media_type_of,
)
from eventstore.domain.nesting import MAX_LEVELS, too_deep

ROLES = ("system", "developer", "user", "assistant", "tool")
"""The roles that a message may have."""


class Text(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """Plain text."""

    text: str


class Image(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="image", tag_field="type"
):
    """An image: either a `url`, or `data` (bytes, or base64 text) with its `media_type`.

    Bytes become base64, and say of which type they are. `detail` is how closely the model looks at
    it (low, high), if its provider has such a setting.
    """

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    detail: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            url: str | None = None,
            data: str | bytes | None = None,
            media_type: str | None = None,
            detail: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Take bytes as base64."""
        _take_bytes(self)


class Document(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="document", tag_field="type"
):
    """A PDF document: either a `url`, or `data` (bytes, or base64 text).

    `name` is its title or file name.
    """

    url: str | None = None
    data: str | None = None
    name: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            url: str | None = None,
            data: str | bytes | None = None,
            name: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Take bytes as base64."""
        _take_bytes(self)


class Audio(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="audio", tag_field="type"
):
    """A sound: `data` (bytes, or base64 text) with its `media_type`.

    The type may be left out where the data begin as a WAV, MP3, FLAC or Ogg file does.
    """

    data: str
    media_type: str = ""

    if TYPE_CHECKING:

        def __init__(self, data: str | bytes, media_type: str = "") -> None: ...

    def __post_init__(self) -> None:
        """Take bytes as base64."""
        _take_bytes(self)


class Opaque(msgspec.Struct, frozen=True, gc=False, tag="opaque", tag_field="type"):
    """A part that only its provider understands (thinking, a search result), kept unchanged.

    `data` is the provider's own JSON. It is written back only to that provider.
    """

    provider: str
    data: Any


Part = Text | Image | Document | Audio | Opaque
"""A part of a message."""

Media = Image | Document | Audio
"""A part that is shown, or played."""


def as_parts(content: Any) -> tuple[Part, ...]:
    """Return the parts of `content`: text, one part, or several.

    The bytes of an image, a PDF or a sound are one. What an image, a document or a sound has as a
    `data:` address becomes its data.

    Raises:
        TypeError: the content, or a member of it, is neither text nor a part.
        ValueError: an image, a document or a sound has no content, or two contents, or one of
            another type; or another part is nested too deeply.
    """
    if isinstance(content, str | bytes | Part):
        return (_checked_part(content),)
    if not _are_several(content):
        raise _not_a_part(content)
    return tuple(map(_checked_part, content))


def _are_several(content: object) -> TypeGuard[Iterable[object]]:
    return isinstance(content, Iterable) and not isinstance(content, Mapping | bytes)


def media_of(content: bytes) -> Media | None:
    """Return the image, the PDF or the sound that bytes are, by how they begin."""
    media_type = media_type_of(content)
    if media_type is None:
        return None
    data = _as_base64(content)
    if media_type == PDF:
        return Document(None, data)
    if media_type.startswith("audio/"):
        return Audio(data, media_type)
    return Image(None, data, media_type)


def checked_media(media: Media) -> Media:
    """Return an image, a document or a sound with one source, and with the type that it is of.

    Raises:
        TypeError, ValueError: it has no content, two contents, or one of another type.
    """
    source = _source(media)
    if isinstance(media, Image | Document) and media.url and source[:5].lower() != "data:":
        return replace(media, data=None)
    declared, data, beginning = _data_of(media, source)
    given = declared or getattr(media, "media_type", None)
    kind = type(media)
    media_type = likely_media_type(beginning, _TYPES[kind]) or given
    if not (media_type in _UNNAMED[kind] or str(media_type).startswith(_TYPES[kind])):
        raise ValueError(f"{kind.__name__} is {reprlib.repr(media_type)}: pass {_REMEDIES[kind]}")
    if isinstance(media, Audio):
        return replace(media, data=data, media_type=media_type)
    if isinstance(media, Document):
        return replace(media, url=None, data=data)
    return replace(media, url=None, data=data, media_type=media_type)


def content_of(media: Media) -> bytes | None:
    """Return the bytes that an image, a document or a sound holds as base64."""
    return (_bytes_of(media.data) or None) if isinstance(media.data, str) else None


def is_base64(text: str) -> bool:
    """Return whether the text is base64 and not empty."""
    return _bytes_of(text) != b""


def _take_bytes(media: Media) -> None:
    data: object = media.data
    if not isinstance(data, bytes | bytearray | memoryview):
        return
    content = bytes(data)
    force_setattr(media, "data", _as_base64(content))
    if not isinstance(media, Document):
        known = likely_media_type(content, _TYPES[type(media)])
        force_setattr(media, "media_type", known or media.media_type)


def _bytes_of(text: str) -> bytes:
    """Return what a text is the base64 of; nothing of another text."""
    try:
        return a2b_base64(text, strict_mode=True)
    except ValueError:
        return b""


def _as_base64(content: bytes) -> str:
    return b2a_base64(content, newline=False).decode()


def _checked_part(value: object) -> Part:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, bytes):
        value = media_of(value) or value
    if isinstance(value, Media):
        return checked_media(value)
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
        "Document, Audio or Opaque, or several in a list "
        "(record_messages() takes a provider's messages)"
    )


def _source(media: Media) -> str:
    """Return the `url` or the `data`, whichever is set."""
    kind = type(media).__name__
    url = getattr(media, "url", None)
    sources: list[object] = [value for value in (url, media.data) if value]
    if len(sources) != 1:
        has = f"url {reprlib.repr(url)} and " if isinstance(media, Image | Document) else ""
        remedy = "one of them, an address, " if has else ""
        raise ValueError(
            f"{kind} has {has}data {reprlib.repr(media.data)}: pass {remedy}bytes or base64"
        )
    if not isinstance(sources[0], str):
        raise TypeError(
            f"{kind} has {reprlib.repr(sources[0])}, which is not text: pass {_DATA_REMEDY}"
        )
    return sources[0]


def _data_of(media: Media, source: str) -> tuple[str, str, bytes]:
    """Return the type, if given, of a `data:` address or of base64, the base64, and its beginning.

    Raises:
        ValueError: it is not base64.
    """
    address = re.fullmatch(_DATA_ADDRESS, source, re.IGNORECASE | re.DOTALL)
    media_type, data = address.groups() if address else ("", source)
    content = _bytes_of(data)
    if not content:
        raise ValueError(
            f"{type(media).__name__} has {reprlib.repr(source)}, which is not base64: "
            f"pass {_DATA_REMEDY}"
        )
    return media_type.lower(), data, content[:LONGEST_BEGINNING]


_TYPES: Final[dict[type, str]] = {Image: "image/", Document: PDF, Audio: "audio/"}
_UNNAMED: Final[dict[type, tuple[object, ...]]] = {
    Image: (None,),  # of bytes that begin in no known way, adapters say that it is a PNG
    Document: (None, ""),
    Audio: (),
}
_REMEDIES: Final[dict[type, str]] = {
    Image: "media_type='image/png' or the like, a PDF as Document, or a sound as Audio",
    Document: f"a PDF ({PDF}), an image as Image, a sound as Audio, or words as Text",
    Audio: "media_type='audio/wav' or the like, an image as Image, or a PDF as Document",
}
_DATA_ADDRESS: Final = "data:([^,;]*)(?:;[^,]*)?;base64,(.*)"
_DATA_REMEDY: Final = "data=content, its bytes, or their base64"
