"""Google Gemini: contents in, `{"system_instruction": ..., "contents": [...]}` out.

Parsing takes the keys of the REST interface (`functionCall`) and those of the SDK's dumps
(`function_call`); rendering writes the former, which both accept. Calls need no ids: a response
answers by name and place. A signature goes back with the part that it came on. A call of another
provider, and where models sign an unsigned one of the current turn, gets the placeholder that
Google documents for this. In google-genai
the system instruction is a member of `config`: take it out of the arguments, and pass
`config=GenerateContentConfig(system_instruction=...)` with the rest.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Audio, Document, Image, Part, Text
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.gemini.reading import (
    CALL,
    INLINE,
    MIME,
    NAME,
    RESPONSE,
    content_of,
    items_of,
    member,
    object_member,
    parts_of,
    result_text,
    shown_media,
)
from eventstore.providers.gemini.writing import (
    BLOCKS,
    PORTABLE,
    PORTABLE_OF_BODIES,
    Made,
    add_model,
    response_for,
    sign_current_turn,
    user_content,
)
from eventstore.providers.identifiers import call_ids, shortened
from eventstore.providers.json_values import as_text, other_members
from eventstore.providers.model import (
    Call,
    Change,
    ParsedItem,
    ParsedMessage,
    Rendered,
    Turn,
    visible_turns,
)
from eventstore.providers.parts_as_text import plain_text
from eventstore.providers.tool_definition import ToolDefinition

_MAX_ID: Final = 64


class GeminiAdapter(ProviderAdapter):
    """Reads and writes the contents of Gemini."""

    name = NAME
    list_key = "contents"
    system_key = "system_instruction"
    results_key = BLOCKS
    call_ids = "optional"
    error_flag = True
    signature = FormatSignature(
        calls=("functionCall",),
        results=("functionResponse", "function_response"),
        part_calls=("function_call",),
        served_members=frozenset({"toolCall", "tool_call", "toolResponse", "tool_response"}),
    )

    response_members = ResponseMembers(  # as the SDK names them, and as the API does
        response_id=(("response_id",), ("responseId",)),
        model=(("model_version",), ("modelVersion",)),
        finish_reason=(
            ("candidates", "finish_reason"),
            ("candidates", "finishReason"),
            ("prompt_feedback", "block_reason"),
            ("promptFeedback", "blockReason"),
        ),
        said=(("candidates", "content"),),
        input=(
            ("usage_metadata", "prompt_token_count"),
            ("usage_metadata", "tool_use_prompt_token_count"),
            ("usageMetadata", "promptTokenCount"),
            ("usageMetadata", "toolUsePromptTokenCount"),
        ),
        output=(
            ("usage_metadata", "candidates_token_count"),
            ("usage_metadata", "thoughts_token_count"),
            ("usageMetadata", "candidatesTokenCount"),
            ("usageMetadata", "thoughtsTokenCount"),
        ),
        cached=(
            ("usage_metadata", "cached_content_token_count"),
            ("usageMetadata", "cachedContentTokenCount"),
        ),
        reasoning=(
            ("usage_metadata", "thoughts_token_count"),
            ("usageMetadata", "thoughtsTokenCount"),
        ),
    )

    def parse(
        self, messages: Iterable[object], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if is_json_object(message):
                yield from items_of(content_of(message), is_error, is_rejection)
            elif isinstance(message, str) and message:
                content = {"role": "user", "parts": [{"text": message}]}
                yield from items_of(content, is_error, is_rejection)
            elif message not in (None, ""):
                yield ParsedMessage("user", (Text(as_text(message)),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the request for `turns`, responses in the content after their calls."""
        changes: list[Change] = []
        system: list[str] = []
        contents: list[JsonObject] = []
        current: Made = []  # the first call of each content since the user spoke
        ids = call_ids(turns, _MAX_ID, changes, per_turn=True, sanitizer=shortened)
        for turn, given in visible_turns(turns, ids, changes):
            if turn.role in ("system", "developer") and not contents:
                system.append(plain_text(turn.parts, changes))
                changes.append(Change("moved", "GE07", "system text is a parameter of the request"))
            elif turn.role == "assistant":
                current += add_model(contents, turn, given, changes)[:1]
            else:
                content = user_content(turn, changes)
                if content["parts"]:
                    contents.append(content)
                    current.clear()
        sign_current_turn(contents, current, changes)
        arguments: JsonObject = {"contents": contents}
        if any(system):
            arguments = {"system_instruction": "\n\n".join(filter(None, system)), **arguments}
        return Rendered(arguments, changes)

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return a function declaration, one of those in a tool of the request's `config`."""
        return tool.with_schema_as("parameters_json_schema")

    def tool_list(self, definitions: list[JsonObject]) -> list[JsonObject]:
        """Return the `tools` of the request's `config`: one, with all declarations."""
        return [{"function_declarations": definitions}] if definitions else []

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the part that answers `call`."""
        return response_for(call, call.name, call_id or None)

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of a content, or a part, that no other provider has a place for."""
        parts: JsonValue = [native]
        if isinstance(native, dict) and "role" in native:
            parts = native.get("parts")
            yield from other_members(native, {"role", "parts", "" if parts else "content"})
        for part in parts if isinstance(parts, list) else ():
            body = member(part, CALL) or member(part, RESPONSE)
            if body is not None or (isinstance(part, dict) and part.get("text") is not None):
                yield from other_members(part, PORTABLE)
                yield from other_members(body, PORTABLE_OF_BODIES)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a part shows."""
        return shown_media(part)

    def audio(self, part: JsonObject) -> Audio | None:
        """Return the sound that a part holds."""
        body = object_member(part, INLINE)
        media_type = member(body, MIME)
        data: JsonValue | bytes = body.get("data")
        if not isinstance(media_type, str) or not media_type.startswith("audio/"):
            return None
        if isinstance(data, bytes):
            data = b64encode(data).decode()
        if not isinstance(data, str) or part.get("thought"):
            return None
        return Audio(data.replace("-", "+").replace("_", "/"), media_type)

    def audio_part(self, audio: Audio) -> JsonObject | None:
        """Return the part that plays a sound."""
        return {"inlineData": {"mimeType": audio.media_type, "data": audio.data}}

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed response shows."""
        body = object_member(native, RESPONSE)
        shown: JsonValue = body.get("parts")
        text = Text(result_text(body.get("response"), None))
        parts = (
            [part for item in shown for part in parts_of(item)] if isinstance(shown, list) else []
        )
        return (text, *parts)

    def takes_document_name(self, document: Document) -> bool:
        """Return False: only Vertex takes the name of a document."""
        del document
        return False

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether the message is a list of parts."""
        return isinstance(message.get("parts"), list)


ADAPTER: Final = GeminiAdapter()
