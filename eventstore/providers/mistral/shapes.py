"""The types of Mistral's messages; ids and names have rules of their own.

Source: the reference of the Chat API, and the types of the mistralai package. Chunks of types that
are not known are taken, but not from the system.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "CALL_MEMBERS",
    "CHUNK_MEMBERS",
    "FOREIGN_ID",
    "FUNCTION_MEMBERS",
    "IMAGE_MEMBERS",
    "MEMBERS",
    "Calls",
    "Message",
    "System",
]

FOREIGN_ID: Final = re.compile(r"(?:call_|toolu_|tooluse_)[a-zA-Z0-9]{8,}")
"""Ids that OpenAI, Anthropic and Bedrock give to calls: Mistral's own service refused them."""

MEMBERS: Final[Mapping[object, frozenset[str]]] = {
    "assistant": frozenset({"role", "content", "tool_calls", "prefix"}),
    "system": frozenset({"role", "content"}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
    "user": frozenset({"role", "content"}),
}
"""The members of a message of each role: the API refuses any other."""
CALL_MEMBERS: Final = frozenset({"id", "type", "function", "index"})
FUNCTION_MEMBERS: Final = frozenset({"name", "arguments"})
CHUNK_MEMBERS: Final[Mapping[object, frozenset[str]]] = {
    "document_url": frozenset({"type", "document_url", "document_name"}),
    "file": frozenset({"type", "file_id"}),
    "image_url": frozenset({"type", "image_url"}),
    "input_audio": frozenset({"type", "input_audio"}),
    "reference": frozenset({"type", "reference_ids"}),
    "resource": frozenset({"type", "uri", "content"}),
    "resource_link": frozenset({"type", "uri", "metadata"}),
    "text": frozenset({"type", "text"}),
    "thinking": frozenset({"type", "thinking", "signature", "closed"}),
}
"""The members of a chunk of each type; of a type that is not known, any."""
IMAGE_MEMBERS: Final = frozenset({"url", "detail"})


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
