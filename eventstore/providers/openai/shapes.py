"""What a message of Chat Completions holds: its parts, by its role, and what its client adds.

Source: the API's refusals, and the reference. Compatible servers take the video of a user.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLIENT_CALL_MEMBERS", "CLIENT_MEMBERS", "PARTS"]

CLIENT_MEMBERS: Final = frozenset({"parsed", "parsed_arguments"})
"""What the client parses of a text, or of the arguments of a call."""
CLIENT_CALL_MEMBERS: Final = frozenset({"index"})
"""What the client has in a call that was streamed: its place."""

PARTS: Final = {
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
    "assistant": ("text", "refusal"),
    "user": ("text", "image_url", "input_audio", "file", "video_url"),
}
"""Role to the types of parts that its content may have."""
