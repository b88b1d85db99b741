"""The types of Mistral's messages; ids and names have rules of their own.

Source: the reference of the Chat API, and the types of the mistralai package. Chunks of types that
are not known are taken, but not from the system.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Calls", "Message", "System"]


class _Chunk(msgspec.Struct, frozen=True):
    type: str
    text: str | None = None

    def __post_init__(self) -> None:
        if self.type == "text" and self.text is None:
            raise ValueError("Object missing required field `text`")


class _SystemChunk(_Chunk, frozen=True):
    type: Literal["text", "thinking"]


class _Function(msgspec.Struct):
    arguments: str | dict[Any, Any]


class _Call(msgspec.Struct):
    function: _Function
    type: str | None = None


class Calls(msgspec.Struct):
    """What an assistant calls."""

    tool_calls: list[_Call] | None = None


class System(msgspec.Struct):
    """What the system says."""

    content: str | list[_SystemChunk] | None = None


class Message(msgspec.Struct):
    """What all others say."""

    content: str | list[_Chunk] | None = None
