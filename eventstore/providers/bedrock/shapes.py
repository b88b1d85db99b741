"""The types of the members of Bedrock's blocks.

Source: the reference of the Converse API, and the service model that botocore ships.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from eventstore.providers.shapes import require_data, require_one_of

__all__ = ["BLOCKS", "FORMATS", "GEMINI_MEMBERS", "MAX_DOCUMENTS", "UNREAD"]


class _Source(msgspec.Struct):
    bytes: Any = None
    s3Location: dict[str, Any] | None = None  # noqa: N815 - the API's name
    text: str | None = None
    content: list[Any] | None = None

    def __post_init__(self) -> None:
        require_one_of(
            bytes=self.bytes, s3Location=self.s3Location, text=self.text, content=self.content
        )
        if self.bytes is not None:
            require_data(self.bytes, "bytes")


class _Media(msgspec.Struct):
    format: str
    source: _Source


class _Document(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    source: _Source
    format: str = ""


class _ReasoningText(msgspec.Struct):
    text: str
    signature: str = ""


class _Reasoning(msgspec.Struct, rename="camel"):
    reasoning_text: _ReasoningText | None = None
    redacted_content: Any = None

    def __post_init__(self) -> None:
        require_one_of(reasoningText=self.reasoning_text, redactedContent=self.redacted_content)
        if self.redacted_content is not None:
            require_data(self.redacted_content, "redactedContent")


class _CachePoint(msgspec.Struct):
    type: str


BLOCKS: Final = {
    "image": _Media,
    "video": _Media,
    "audio": _Media,
    "document": _Document,
    "reasoningContent": _Reasoning,
    "cachePoint": _CachePoint,
}
"""What a block holds under each of its names; the others hold any object."""

FORMATS: Final = {
    "image": frozenset({"png", "jpeg", "gif", "webp"}),
    "document": frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}),
    "video": frozenset({"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"}),
    "audio": frozenset(
        {
            *("mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a"),
            *("mpeg", "mpga", "pcm", "webm"),
        }
    ),
}
"""The formats of what a block shows or plays."""

MAX_DOCUMENTS: Final = 5
"""How many documents a request may hold."""

UNREAD: Final = "SDK_UNKNOWN_MEMBER"
"""What botocore makes of a block that is newer than its service model: it has only the name."""

GEMINI_MEMBERS: Final = frozenset(
    {
        *("codeExecutionResult", "code_execution_result", "executableCode", "executable_code"),
        *("fileData", "file_data", "functionCall", "function_call"),
        *("functionResponse", "function_response", "inlineData", "inline_data"),
        *("thoughtSignature", "thought_signature", "toolCall", "tool_call"),
        *("toolResponse", "tool_response"),
    }
)
"""Members of Gemini's parts, which may be the only one as in a block, and which no block has."""
