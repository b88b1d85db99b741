"""The types of the members of Cohere's citations.

Source: the reference of the Chat API (v2), and the types of the cohere package.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Citations"]


class _Source(msgspec.Struct):
    type: Literal["tool", "document"]
    id: str | None = None


class _Citation(msgspec.Struct):
    start: int | None = None
    end: int | None = None
    text: str | None = None
    sources: list[_Source] | None = None


Citations = list[_Citation] | None
"""What an assistant's message says of where its words come from."""
