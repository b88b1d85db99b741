"""The types of the parts that a message of Chat Completions holds, by its role.

Source: the API's refusals, and the reference. Compatible servers take the video of a user.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PARTS"]

PARTS: Final = {
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
    "assistant": ("text", "refusal"),
    "user": ("text", "image_url", "input_audio", "file", "video_url"),
}
"""Role to the types of parts that its content may have."""
