"""The types of Ollama's messages, which are the same for every role.

Source: the types of the server (`api.Message`, `api.ToolCall`), and those of the ollama package.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

__all__ = ["Message", "Result"]


class _Function(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: dict[Any, Any]


class _Call(msgspec.Struct):
    function: _Function


class Message(msgspec.Struct):
    """A message of any role."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[Any] | None = None
    """Base64 text; the client also takes bytes."""
    tool_calls: list[_Call] | None = None
    tool_name: str | None = None


class Result(msgspec.Struct):
    """The message of a result that says no more than a result does."""

    content: str
    tool_name: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    thinking: None = None
    images: None = None
    tool_calls: None = None
    tool_call_id: None = None
