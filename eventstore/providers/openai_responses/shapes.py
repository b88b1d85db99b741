"""The types of items and of their parts, and those of their members.

Source: the reference of the Responses API, and the types of the openai package.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

__all__ = [
    "CALLS",
    "CLIENT_MEMBERS",
    "GIVEN",
    "ITEMS",
    "OUTPUTS",
    "PARTS",
    "PREFIXES",
    "RENAMED",
    "SAID",
    "SHOWN",
    "STATUSES",
    "TYPES",
]


CLIENT_MEMBERS: Final = frozenset({"parsed", "parsed_arguments"})
"""What the client parses of a text, or of the arguments of a call."""
RENAMED: Final = {
    "custom": "async_",
    "custom_tool_call": "async_",
    "function": "async_",
    "function_call": "async_",
}
"""Type of an item, or of a tool in it, to the member of it that the client names otherwise."""


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

CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Type of a call to the member that holds what the model wrote."""
OUTPUTS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
"""Type of a call to that of its output."""
TYPES: Final = frozenset(
    {
        *CALLS,
        *OUTPUTS.values(),
        "additional_tools",
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "computer_call",
        "computer_call_output",
        "configuration_update",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "message",
        "program",
        "program_output",
        "reasoning",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
"""The types of items that the API's reference lists, with those of its own clients."""
PREFIXES: Final = {
    "function_call": ("fc_",),
    "reasoning": ("rs_", "rs-"),  # DeepSeek writes the second
    "message": ("msg_",),
}
"""Type of an item to what its id begins with."""
SAID: Final = ("output_text", "refusal")
"""Types of the parts of an assistant's message."""
SHOWN: Final = ("input_text", "input_image", "input_file", "scoped_content")
"""Types of the parts of an output."""
GIVEN: Final = (
    "input_text",
    "input_image",
    "input_audio",
    "output_text",
    "refusal",
    "input_file",
    "computer_screenshot",
    "summary_text",
    "encrypted_content",
)
"""Types of the parts of every other message."""
