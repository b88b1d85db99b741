"""The types of the members of Gemini's parts, in both spellings that its API takes.

Source: the REST reference of `Part`, `Blob`, `FileData`, `FunctionCall` and `FunctionResponse`, and
the types of google-genai.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from eventstore.providers.rules_reader import members_of
from eventstore.providers.shapes import require_data

__all__ = ["ALONE", "DATA", "LEGAL_NAME", "MEMBERS", "UNSIGNED", "PartShape"]

LEGAL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
"""The names of functions."""

UNSIGNED: Final = "skip_thought_signature_validator"
"""What Google documents for a call whose thought signature is not known."""


class _Blob(msgspec.Struct, rename="camel"):
    mime_type: str | None = None
    data: Any = None
    spelled: str | None = msgspec.field(default=None, name="mime_type")

    def __post_init__(self) -> None:
        if not (self.mime_type or self.spelled):
            raise ValueError("Object missing required field `mimeType`")
        require_data(self.data, "data")


class _File(msgspec.Struct, rename="camel"):
    file_uri: str | None = None
    mime_type: str | None = None
    spelled: str | None = msgspec.field(default=None, name="file_uri")
    spelled_type: str | None = msgspec.field(default=None, name="mime_type")

    def __post_init__(self) -> None:
        if not (self.file_uri or self.spelled):
            raise ValueError("Object missing required field `fileUri`")


class _ResponsePart(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    inline_data: _Blob | None = None
    file_data: _File | None = None
    audio_metadata: Any = None
    document_metadata: Any = None
    media_processing: Any = None
    media_resolution: Any = None
    spreadsheet_metadata: Any = None
    video_metadata: Any = None
    spelled_data: _Blob | None = msgspec.field(default=None, name="inline_data")
    spelled_file: _File | None = msgspec.field(default=None, name="file_data")
    spelled_audio: Any = msgspec.field(default=None, name="audio_metadata")
    spelled_document: Any = msgspec.field(default=None, name="document_metadata")
    spelled_processing: Any = msgspec.field(default=None, name="media_processing")
    spelled_resolution: Any = msgspec.field(default=None, name="media_resolution")
    spelled_spreadsheet: Any = msgspec.field(default=None, name="spreadsheet_metadata")
    spelled_video: Any = msgspec.field(default=None, name="video_metadata")


class _Response(msgspec.Struct):
    id: str | None = None
    parts: list[_ResponsePart] | None = None


class _Code(msgspec.Struct):
    code: str | None = None
    language: str | None = None
    id: str | None = None


class _Outcome(msgspec.Struct):
    outcome: str | None = None
    output: str | None = None
    id: str | None = None


class _ServerCall(msgspec.Struct, rename="camel"):
    id: str | None = None
    tool_type: str | None = None
    args: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    spelled: str | None = msgspec.field(default=None, name="tool_type")


class PartShape(msgspec.Struct, rename="camel"):
    """A part of a content."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: Any = None
    inline_data: _Blob | None = None
    file_data: _File | None = None
    function_call: Any = None
    function_response: _Response | None = None
    executable_code: _Code | None = None
    code_execution_result: _Outcome | None = None
    tool_call: _ServerCall | None = None
    tool_response: _ServerCall | None = None
    spelled_signature: Any = msgspec.field(default=None, name="thought_signature")
    spelled_data: _Blob | None = msgspec.field(default=None, name="inline_data")
    spelled_file: _File | None = msgspec.field(default=None, name="file_data")
    spelled_call: Any = msgspec.field(default=None, name="function_call")
    spelled_response: _Response | None = msgspec.field(default=None, name="function_response")
    spelled_code: _Code | None = msgspec.field(default=None, name="executable_code")
    spelled_outcome: _Outcome | None = msgspec.field(default=None, name="code_execution_result")
    spelled_tool: _ServerCall | None = msgspec.field(default=None, name="tool_call")
    spelled_answer: _ServerCall | None = msgspec.field(default=None, name="tool_response")

    def __post_init__(self) -> None:
        for signature in (self.thought_signature, self.spelled_signature):
            if signature is not None:
                require_data(signature, "thoughtSignature")
                _require_base64(signature)
        for call in (self.function_call, self.spelled_call):  # GE05 names one that is not an object
            if not isinstance(members_of(call).get("id"), str | None):
                raise TypeError("Expected `str | null` in `functionCall.id`")


def _require_base64(signature: object) -> None:
    """Raise ValueError if a text has characters that base64 of neither alphabet has."""
    if isinstance(signature, str) and not _BASE64.fullmatch(signature):
        raise ValueError("Base64 decoding failed for `thoughtSignature`")


_BASE64: Final = re.compile(r"[a-zA-Z0-9+/_-]*={0,2}")


DATA: Final = (
    ("text", "text"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
    ("toolCall", "tool_call"),
    ("toolResponse", "tool_response"),
)
"""The members of a part of which it has one, in both spellings."""
MEMBERS: Final = frozenset(
    {
        *(key for keys in DATA for key in keys),
        *("thought", "thoughtSignature", "thought_signature"),
        *("audioMetadata", "audio_metadata", "audioTranscription", "audio_transcription"),
        *("documentMetadata", "document_metadata", "mediaProcessing", "media_processing"),
        *("mediaResolution", "media_resolution", "partMetadata", "part_metadata"),
        *("speechMetadata", "speech_metadata", "spreadsheetMetadata", "spreadsheet_metadata"),
        *("videoMetadata", "video_metadata"),
    }
)
"""All members of a part."""
ALONE: Final = frozenset({"videoMetadata", "video_metadata"})
"""Members that were seen to be taken in a part without a datum, behind the video."""
