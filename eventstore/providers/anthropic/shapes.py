"""The types of blocks that Anthropic's API does not know, and that other providers' messages hold.

Source: the blocks of Chat Completions and of OpenAI Responses; the API names those it knows in its
refusal (`Input tag 'image_url' found using 'type' does not match any of the expected tags`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["FOREIGN_KINDS"]

FOREIGN_KINDS: Final = frozenset(
    {
        *("file", "image_url", "input_audio", "refusal"),
        *("input_file", "input_image", "input_text", "output_text", "summary_text"),
        *("function_call", "function_call_output", "reasoning", "tool-call", "tool-result"),
    }
)
