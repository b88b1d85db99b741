"""Amazon Bedrock's Converse: message lists in, `{"system": [...], "messages": [...]}` out.

Results stand in the one user message right after their calls. System text is a parameter of the
request; later in the conversation it becomes a user's text. Bytes, which JSON cannot hold, are
stored as base64 under the member `$bytes`, and go back as bytes. A blank result gets a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Document, Image, Part, Text
from eventstore.domain.own_texts import STOPPED
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.bedrock.documents import settle_media, with_cache_point
from eventstore.providers.bedrock.reading import (
    MAX_ID,
    NAME,
    blocks_of,
    is_client_block,
    items_of,
    legal_id,
    shown_media,
)
from eventstore.providers.bedrock.server_calls import leave_out_open_server_calls
from eventstore.providers.bedrock.writing import (
    PORTABLE,
    RESULTS_KEY,
    add_assistant,
    add_user,
    answer_block,
    cache_point,
    goes_on,
    let_user_begin,
    limit_cache_points,
    results_message,
    shown_parts,
    without_cache_points,
)
from eventstore.providers.cache_ends import ends_of_requests
from eventstore.providers.identifiers import call_ids
from eventstore.providers.json_values import as_text, other_members
from eventstore.providers.model import (
    Call,
    Change,
    ParsedItem,
    ParsedMessage,
    Rendered,
    Turn,
    visible_calls,
    visible_turns,
)
from eventstore.providers.parts_as_text import plain_text
from eventstore.providers.tool_definition import ToolDefinition

DOCUMENT = "[document]"


class BedrockAdapter(ProviderAdapter):
    """Reads and writes the messages of Bedrock's Converse."""

    name = NAME
    list_key = "messages"
    system_key = "system"
    results_key = RESULTS_KEY
    error_flag = True
    signature = FormatSignature(calls=("toolUse",), results=("toolResult",))

    response_members = ResponseMembers(
        response_id=(("ResponseMetadata", "RequestId"),),
        model=(("trace", "promptRouter", "invokedModelId"),),
        finish_reason=(("stopReason",),),
        said=(("output", "message"),),
        input=(
            ("usage", "inputTokens"),
            ("usage", "cacheReadInputTokens"),
            ("usage", "cacheWriteInputTokens"),
        ),
        output=(("usage", "outputTokens"),),
        cached=(("usage", "cacheReadInputTokens"),),
    )

    def parse(
        self, messages: Iterable[object], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if is_json_object(message):
                yield from items_of(message, is_error, is_rejection)
            elif message is not None:
                text = as_text(message)
                if text.strip():
                    yield ParsedMessage("user", (Text(text),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the request for `turns`, every call answered right after its message."""
        changes: list[Change] = []
        system: list[JsonObject] = []
        messages: list[JsonObject] = []
        ids = call_ids(turns, MAX_ID, changes, per_turn=False, sanitizer=legal_id)
        for turn, names in visible_turns(turns, ids, changes):
            shown = visible_calls(turn, names)
            if turn.role == "assistant":
                add_assistant(messages, turn, shown, changes)
            elif turn.role in ("system", "developer") and not messages:
                text = plain_text(turn.parts, changes)
                system += [{"text": text}] if text.strip() else []
                changes.append(Change("moved", "BE03", "system text is a parameter of the request"))
            else:
                add_user(messages, turn, changes)
            if shown:
                messages.append(results_message(turn, shown, changes))
        leave_out_open_server_calls(messages, changes)
        settle_media(messages, changes)
        for message in messages:
            kinds = {kind for block in message["content"] for kind in block}
            if "document" in kinds and "text" not in kinds:
                changes.append(Change("added", "BE02", "a document needs a text beside it"))
                message["content"].append({"text": DOCUMENT})
        let_user_begin(messages, changes)
        arguments: JsonObject = {"messages": messages}
        return Rendered({"system": system, **arguments} if system else arguments, changes)

    def finish_request(self, rendered: Rendered, *, prefill: bool) -> None:
        """Let the user speak last: newer models do not continue from the assistant's words.

        Cache points keep their limits.
        """
        messages: list[JsonObject] = rendered.arguments["messages"]
        rendered.changes += limit_cache_points(messages)
        let_user_begin(messages, rendered.changes)
        if not messages or messages[-1]["role"] != "assistant":
            return
        if not prefill and not goes_on(messages[-1]):
            rendered.changes.append(Change("added", "BE05", "a request ends with the user"))
            messages.append({"role": "user", "content": [{"text": STOPPED}]})
            leave_out_open_server_calls(messages, rendered.changes)  # no answer comes now

    def mark_for_cache(self, rendered: Rendered) -> None:
        """Put a `cachePoint` after the system text, and at the ends of the last two requests."""
        arguments = rendered.arguments
        if "system" in arguments:
            arguments["system"] = [*arguments["system"], cache_point()]
        messages = [without_cache_points(message) for message in arguments["messages"]]
        messages = [message for message in messages if message["content"]]
        for place in ends_of_requests(messages):
            content = with_cache_point(messages[place]["content"], cache_point())
            messages[place] = {**messages[place], "content": content or messages[place]["content"]}
        arguments["messages"] = messages

    def mark_tools_for_cache(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return the tools with a `cachePoint` after them."""
        return [*tools, cache_point()] if tools else []

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return one of the tools of the request's `toolConfig`."""
        spec = tool.with_schema_as("inputSchema")
        spec["inputSchema"] = {"json": spec["inputSchema"]}
        return {"toolSpec": spec}

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the block that answers `call`."""
        return answer_block(call, call_id, [])

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of a message that no other provider has a place for."""
        blocks: list[JsonValue] = [native]
        if isinstance(native, dict) and "role" in native:
            blocks = blocks_of(native)
        for block in blocks:
            for kind, portable in PORTABLE.items():
                if is_client_block(block, kind):
                    yield from other_members(block[kind], portable)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a block shows."""
        return shown_media(part)

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed result shows."""
        return tuple(
            part for block in native["toolResult"]["content"] for part in shown_parts(block)
        )

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether a block of the message names its kind by its only member."""
        content: JsonValue = message.get("content")
        blocks = content if isinstance(content, list) else ()
        return any(isinstance(block, dict) and "type" not in block for block in blocks)

    def system_text(self, arguments: JsonObject) -> str | None:
        """Return the text of the system blocks."""
        blocks: list[JsonObject] | None = arguments.get("system")
        return "\n\n".join(block["text"] for block in blocks) if blocks else None


ADAPTER: Final = BedrockAdapter()
