"""Anthropic Messages: message lists in, `{"system": ..., "messages": [...]}` out.

Results stand in the one user message right after their calls, before anything else. System
text is a parameter of the request; later in the conversation it becomes text of the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Document, Image, Part, Text
from eventstore.domain.own_texts import OPENING, STOPPED
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.anthropic.cache_marks import (
    limit_cache_marks,
    place_cache_marks,
    with_marked_end,
)
from eventstore.providers.anthropic.programs import settle_programs
from eventstore.providers.anthropic.reading import (
    CLIENT,
    NAME,
    REASONING,
    as_on_wire,
    is_of_kind,
    items_of,
    part_of,
    shown_media,
)
from eventstore.providers.anthropic.server_calls import (
    is_server_call,
    pair_server_calls,
)
from eventstore.providers.anthropic.shapes import KINDS
from eventstore.providers.anthropic.writing import (
    PORTABLE,
    RESULTS_KEY,
    add_assistant,
    add_user,
    answer_block,
    goes_on,
    is_compacted,
    native_blocks,
    place_system_messages,
    request_ids,
    results_message,
    strip_end,
    without_final_reasoning,
)
from eventstore.providers.json_values import as_text, other_members
from eventstore.providers.kept_messages import KeptMessages
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


class AnthropicAdapter(ProviderAdapter):
    """Reads and writes the messages of Anthropic's Messages."""

    name = NAME
    list_key = "messages"
    system_key = "system"
    results_key = RESULTS_KEY
    error_flag = True
    signature = FormatSignature(
        call_types=("tool_use",),
        result_types=("tool_result",),
        part_types=("thinking", "redacted_thinking", "image", "document", "server_tool_use"),
        served_types=KINDS,
    )

    client_members = CLIENT
    response_members = ResponseMembers(
        finish_reason=(("stop_reason",),),
        said=(("content",),),
        input=(
            ("usage", "input_tokens"),
            ("usage", "cache_creation_input_tokens"),
            ("usage", "cache_read_input_tokens"),
        ),
        output=(("usage", "output_tokens"),),
        cached=(("usage", "cache_read_input_tokens"),),
    )

    def is_on_wire(self, json: bytes) -> bool:
        """Return False: types are looked at, too."""
        del json
        return False

    def as_on_wire(self, message: JsonValue, changes: list[Change]) -> JsonValue:
        """Return a message with the members and the types of the wire."""
        return as_on_wire(message, changes)

    def parse(
        self, messages: Iterable[JsonValue], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if isinstance(message, dict):
                yield from items_of(message, is_error, is_rejection)
            elif isinstance(message, str):
                native = {"role": "user", "content": message}
                yield from items_of(native, is_error, is_rejection)
            elif message is not None:
                yield ParsedMessage("user", (Text(as_text(message)),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the request for `turns`, every call answered right after its message."""
        return self.render_next(turns, KeptMessages())

    def render_next(self, turns: Sequence[Turn], kept: KeptMessages) -> Rendered:
        """Return the request for `turns`, which begins with the messages that are `kept`."""
        changes: list[Change] = []
        new: tuple[list[str], list[JsonObject]] = [], []
        system, messages = kept.continued(new, turns, changes, request_ids, self._add_turns)
        pair_server_calls(messages, changes)
        settle_programs(messages, changes)
        if messages and messages[0]["role"] != "user" and not is_compacted(messages[0]):
            changes.append(Change("added", "AN12", "a conversation starts with the user"))
            messages.insert(0, {"role": "user", "content": OPENING})
        arguments: JsonObject = {"messages": messages}
        if any(system):
            arguments = {"system": "\n\n".join(text for text in system if text), **arguments}
        return Rendered(arguments, changes)

    def _add_turns(
        self,
        made: tuple[list[str], list[JsonObject]],
        turns: Sequence[Turn],
        ids: Sequence[list[str]],
        changes: list[Change],
    ) -> None:
        system, messages = made
        for turn, names in visible_turns(turns, ids, changes):
            shown = visible_calls(turn, names) if names else []
            if turn.role == "assistant":
                add_assistant(messages, turn, shown, changes)
            elif turn.role in ("system", "developer") and not messages:
                system.append(plain_text(turn.parts, changes))
                changes.append(Change("moved", "AN10", "system text is a parameter of the request"))
            else:
                add_user(messages, turn, changes)
            if shown:
                messages.append(results_message(turn, shown, messages[-1], changes))

    def finish_request(self, rendered: Rendered, *, prefill: bool) -> None:
        """Let the user speak last: newer models do not continue from the assistant's words.

        No turn ends with reasoning, and cache marks keep their limits.
        """
        messages = without_final_reasoning(rendered.arguments["messages"], rendered.changes)
        rendered.arguments["messages"] = messages
        place_system_messages(messages, rendered.changes)
        rendered.changes += limit_cache_marks(messages, REASONING)
        if not messages or messages[-1]["role"] != "assistant":
            return
        if prefill or goes_on(messages[-1]):
            strip_end(messages[-1], rendered.changes)
        else:
            rendered.changes.append(Change("added", "AN18", "a request ends with the user"))
            last = native_blocks(messages[-1])
            messages.append({"role": "user", "content": STOPPED})
            if any(map(is_server_call, last)):  # its result cannot come any more
                pair_server_calls(messages, rendered.changes)
                settle_programs(messages, rendered.changes)
                messages = without_final_reasoning(messages, rendered.changes)
                rendered.arguments["messages"] = messages

    def mark_for_cache(self, rendered: Rendered) -> None:
        """Mark the system text and the messages with `cache_control`."""
        place_cache_marks(rendered.arguments)

    def mark_tools_for_cache(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return the tools, the last one marked with `cache_control`."""
        return with_marked_end(tools)

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return one of the request's `tools`."""
        return tool.with_schema_as("input_schema")

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the block that answers `call`."""
        return answer_block(call.answer, call_id)

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of a message that no other provider has a place for."""
        given = native if isinstance(native, dict) else {}
        for block in native_blocks(given) if "role" in given else [given]:
            for kind, portable in PORTABLE.items():
                if is_of_kind(block, kind):
                    yield from other_members(block, portable)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a block shows."""
        return shown_media(part)

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed result shows."""
        content: JsonValue = native.get("content")
        if not isinstance(content, list):
            return ()
        return tuple(part for part in map(part_of, content) if part is not None)


ADAPTER: Final = AnthropicAdapter()
