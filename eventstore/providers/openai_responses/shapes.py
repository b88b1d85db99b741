"""The types of the members of the parts of a message or an output.

Source: the reference of the Responses API, and the types of the openai package.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["PARTS", "STATUSES"]


class _Text(msgspec.Struct):
    text: str


class _Refusal(msgspec.Struct):
    refusal: str


class _Image(msgspec.Struct):
    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class _File(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None


PARTS: Final = {
    "input_text": _Text,
    "output_text": _Text,
    "refusal": _Refusal,
    "input_image": _Image,
    "input_file": _File,
}
"""The members of each type of part."""

STATUSES: Final = ("in_progress", "completed", "incomplete", None)
"""What a message may say of itself."""
