"""What bytes are, by how they begin."""

from __future__ import annotations

import re
from typing import Final

PDF: Final = "application/pdf"
"""The media type of a document."""

_BEGINNINGS: Final = {
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    rb"GIF8[79]a": "image/gif",
    rb"RIFF....WEBP": "image/webp",
    rb"%PDF-": PDF,
    rb"RIFF....WAVE": "audio/wav",
    rb"ID3[\x02-\x04]": "audio/mpeg",
    rb"fLaC\x00": "audio/flac",
    rb"OggS\x00": "audio/ogg",
}
"""How the files begin that models take, with their types."""

_OTHER_BEGINNINGS: Final = {
    rb"....ftyp(?:heic|heix|mif1)": "image/heic",
    rb"....ftypavif": "image/avif",
    rb"II\*\x00|MM\x00\*": "image/tiff",
    rb"BM....\x00\x00\x00\x00": "image/bmp",
    rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb]": "audio/mpeg",
}
"""How others begin, which few models take, or which other bytes may begin with, too."""

LONGEST_BEGINNING: Final = 16
"""Bytes that tell the type."""


def media_type_of(content: bytes) -> str | None:
    """Return the media type of a file that models take; None of any other bytes."""
    return _found(content, _BEGINNINGS)


def likely_media_type(content: bytes, family: str) -> str | None:
    """Return the media type of what is said to be of a family, such as `image/`; None otherwise.

    It may be of another family all the same.
    """
    likely = media_type_of(content)
    if likely is None:
        likely = _found(content, _OTHER_BEGINNINGS)
        return likely if likely is not None and likely.startswith(family) else None
    return likely


def _found(content: bytes, beginnings: dict[bytes, str]) -> str | None:
    for pattern, media_type in beginnings.items():
        if re.match(pattern, content, re.DOTALL):
            return media_type
    return None
