"""The types of blocks that Anthropic's API knows, those of others, and what its client adds.

Sources: the types of the anthropic package, with its beta, and those of the blocks of others, Chat
Completions and OpenAI Responses. The API names those it knows in its refusal (`Input tag
'image_url' found using 'type' does not match any of the expected tags`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLIENT_MEMBERS", "FOREIGN_KINDS", "KINDS", "RENAMED"]

CLIENT_MEMBERS: Final = frozenset({"parsed_output"})
"""What the client parses of a text."""
RENAMED: Final = {"fallback": "from_"}
"""Type of a block to the member of it that the client names otherwise."""

KINDS: Final = frozenset(
    {
        *("text", "image", "document", "search_result", "container_upload"),
        *("thinking", "redacted_thinking", "compaction", "fallback"),
        *("tool_use", "tool_result", "tool_reference", "browser_state"),
        *("tool_addition", "tool_removal", "mcp_tool_listing"),
        *("server_tool_use", "mcp_tool_use", "mcp_tool_result"),
        *("advisor_tool_result", "bash_code_execution_tool_result", "code_execution_tool_result"),
        *("text_editor_code_execution_tool_result", "tool_search_tool_result"),
        *("web_fetch_tool_result", "web_search_tool_result"),
    }
)
"""Types of the blocks of a message, and of those in a result."""
FOREIGN_KINDS: Final = frozenset(
    {
        *("file", "image_url", "input_audio", "refusal"),
        *("input_file", "input_image", "input_text", "output_text", "summary_text"),
        *("function_call", "function_call_output", "reasoning", "tool-call", "tool-result"),
    }
)
