"""The types of the members of the parts of a message or an output.

Source: the reference of the Responses API, and the types of the openai package.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

__all__ = ["ITEMS", "PARTS", "STATUSES"]


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


class _WebAction(msgspec.Struct):
    type: Literal["search", "open_page", "find", "find_in_page"]
    query: str | None = None
    queries: list[str] | None = None
    url: str | None = None
    pattern: str | None = None
    sources: list[dict[str, Any]] | None = None


class _WebSearch(msgspec.Struct):
    action: _WebAction | None = None
    status: Literal["in_progress", "searching", "completed", "failed", "incomplete"] | None = None


class _FileSearch(msgspec.Struct):
    queries: list[str] | None = None
    results: list[dict[str, Any]] | None = None
    status: str | None = None


class _Code(msgspec.Struct):
    code: str | None = None
    container_id: str | None = None
    outputs: list[dict[str, Any]] | None = None
    status: str | None = None


class _Picture(msgspec.Struct):
    result: str | None = None
    status: str | None = None


class _ServerTool(msgspec.Struct):
    arguments: str
    name: str
    server_label: str
    output: str | None = None
    error: Any = None


ITEMS: Final = {
    "code_interpreter_call": _Code,
    "file_search_call": _FileSearch,
    "image_generation_call": _Picture,
    "mcp_call": _ServerTool,
    "web_search_call": _WebSearch,
}
"""The members of the calls that the API runs itself."""

STATUSES: Final = ("in_progress", "completed", "incomplete", None)
"""What a message may say of itself."""
