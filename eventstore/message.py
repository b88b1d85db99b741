"""The parts of a message, in words that no provider owns."""

from __future__ import annotations

from typing import Any

import msgspec

ROLES = ("system", "developer", "user", "assistant", "tool")


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


def as_parts(content: str | Part | list[Part] | tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of `content`: text, one part, or several.

    Raises:
        TypeError: a member is neither text nor a part.
    """
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, Part):
        return (content,)
    parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
    for part in parts:
        if not isinstance(part, Part):
            raise TypeError(
                f"a message part is {type(part).__name__}: "
                "pass text, Text, Image, Document or Opaque"
            )
    return parts
