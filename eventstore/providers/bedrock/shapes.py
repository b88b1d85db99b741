"""The types of the members of Bedrock's blocks.

Source: the reference of the Converse API, and the service model that botocore ships.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from eventstore.providers.shapes import require_data, require_one_of

__all__ = ["BLOCKS", "GEMINI_MEMBERS"]


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
