"""The types of Cohere's messages.

Source: the reference of the Chat API (v2), and the types of the cohere package (`ChatMessageV2`,
`ToolCallV2`, `ToolContent`; 5 to 7). A call's function, its name and its arguments are optional
there, but nothing could be called without them. The data of a document may be JSON text.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

__all__ = ["MEMBERS", "MESSAGES"]

_NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Thinking(msgspec.Struct, tag_field="type", tag="thinking"):
    thinking: str


class _Url(msgspec.Struct):
    url: str


class _Image(msgspec.Struct, tag_field="type", tag="image_url"):
    image_url: _Url


class _Data(msgspec.Struct):
    data: str | dict[str, Any]
    id: str | None = None


class _Document(msgspec.Struct, tag_field="type", tag="document"):
    document: _Data


class _Function(msgspec.Struct):
    name: _NonEmpty
    arguments: str


class _Call(msgspec.Struct):
    id: _NonEmpty
    function: _Function
    type: Literal["function"] = "function"


class _Source(msgspec.Struct):
    type: Literal["tool", "document"]
    id: str | None = None


class _Citation(msgspec.Struct):
    start: int | None = None
    end: int | None = None
    text: str | None = None
    sources: list[_Source] | None = None


class _System(msgspec.Struct):
    content: str | Annotated[list[_Text], msgspec.Meta(min_length=1)]


class _User(msgspec.Struct):
    content: str | Annotated[list[_Text | _Image], msgspec.Meta(min_length=1)]


class _Assistant(msgspec.Struct):
    content: str | list[_Text | _Thinking] | None = None
    tool_plan: str | None = None
    tool_calls: list[_Call] | None = None
    citations: list[_Citation] | None = None


class _Result(msgspec.Struct):
    tool_call_id: _NonEmpty
    content: str | Annotated[list[_Text | _Document], msgspec.Meta(min_length=1)]


MESSAGES: Final[dict[str, type[msgspec.Struct]]] = {
    "system": _System,
    "user": _User,
    "assistant": _Assistant,
    "tool": _Result,
}
"""Role to the members of its message, besides the role."""

MEMBERS: Final = {
    role: frozenset(("role", *shape.__struct_fields__)) for role, shape in MESSAGES.items()
}
"""Role to all members that its message may have."""
