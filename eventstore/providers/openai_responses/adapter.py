"""OpenAI Responses: items in, `{"input": [...]}` out.

Every item of a response is parsed as a message; assistant items in direct succession make one turn.
Within a turn a reasoning item belongs to the item after it: the two go back together under their
ids, or the item goes back without its id and the reasoning is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.domain.messages import Document, Image, Part, Text
from eventstore.providers.adapter_protocol import (
    FormatSignature,
    ProviderAdapter,
    ResponseMembers,
    ResultTest,
)
from eventstore.providers.client_members import ClientMembers
from eventstore.providers.identifiers import call_ids, shortened
from eventstore.providers.json_values import as_text, copy, other_members
from eventstore.providers.model import (
    Answer,
    Call,
    Change,
    NativeMessage,
    ParsedItem,
    ParsedMessage,
    Rendered,
    Turn,
    visible_turns,
)
from eventstore.providers.openai_responses.client_items import Calls, is_output_of, screenshot_of
from eventstore.providers.openai_responses.reading import (
    NAME,
    is_call_item,
    item_kind,
    parsed_items,
    parts_of,
    shown_media,
)
from eventstore.providers.openai_responses.settling import drop_lost_callers, settled
from eventstore.providers.openai_responses.shapes import (
    CALL_OF,
    CLIENT_MEMBERS,
    PARTS,
    RENAMED,
    TEXT_OUTPUTS,
    TYPES,
)
from eventstore.providers.openai_responses.writing import (
    PORTABLE,
    add_turn,
    each_once,
    is_portable,
    kept_output,
    messages_for,
    text_output,
)
from eventstore.providers.server_kept_calls import inline_server_call
from eventstore.providers.tool_definition import ToolDefinition

_MAX_ID: Final = 64


class OpenAIResponsesAdapter(ProviderAdapter):
    """Reads and writes the items of OpenAI Responses."""

    name = NAME
    list_key = "input"
    keeps_server_calls = True
    image_details = frozenset({"auto", "low", "high", "original"})
    signature = FormatSignature(
        call_types=tuple(CALL_OF.values()),
        result_types=tuple(CALL_OF),
        served_types=TYPES.union(PARTS),
    )

    client_members = ClientMembers(added=CLIENT_MEMBERS, renamed=RENAMED)
    response_members = ResponseMembers(
        finish_reason=(("incomplete_details", "reason"), ("status",)),
        said=(("output",),),
        input=(("usage", "input_tokens"),),
        output=(("usage", "output_tokens"),),
        cached=(("usage", "input_tokens_details", "cached_tokens"),),
        reasoning=(("usage", "output_tokens_details", "reasoning_tokens"),),
    )

    def parse(
        self, messages: Iterable[object], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        yield from self._parsed(messages, is_error, is_rejection, Calls())

    def _parsed(
        self,
        messages: Iterable[object],
        is_error: ResultTest,
        is_rejection: ResultTest,
        calls: Calls,
    ) -> Iterator[ParsedItem]:
        for message in messages:
            if isinstance(message, str):
                native = {"role": "user", "content": message}
                if message:
                    yield ParsedMessage("user", (Text(message),), native=native, well_formed=True)
            elif is_json_object(message):
                output: JsonValue = message.get("output")
                if isinstance(output, list) and "call_id" not in message:
                    yield from self._parsed(output, is_error, is_rejection, calls)
                else:
                    calls.note(message)
                    yield from parsed_items(message, is_error, is_rejection, calls)
            elif message is not None:
                yield ParsedMessage("user", (Text(as_text(message)),))

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the input for `turns`, every output after the calls of its turn."""
        changes: list[Change] = []
        items: list[JsonObject] = []
        ids = call_ids(turns, _MAX_ID, changes, per_turn=False, sanitizer=shortened)
        called = {name for names in ids for name in names}
        referred = False  # to what the server keeps
        used: set[str] = set()
        for turn, names in visible_turns(turns, ids, changes):
            own = turn.provider == NAME
            if turn.role == "assistant":
                count = len(items)
                add_turn(items, turn, names, used, changes)
                referred = referred or any(item_kind(i) == "item_reference" for i in items[count:])
            elif (
                own
                and (referred or turn.is_continued)
                and turn.server_call is not None
                and turn.server_call.id not in called
            ):
                items += each_once(
                    self.render_result(turn.server_call, turn.server_call.id), used, changes
                )
            elif (native := turn.own_message(NAME)) is not None:
                items += each_once(copy(native), used, changes)
            else:
                if own and turn.server_call is not None:
                    changes.append(inline_server_call(turn.server_call))
                items += messages_for(turn.role, turn.parts, changes)
        drop_lost_callers(items, turns, changes)
        return Rendered({"input": settled(items, changes)}, changes)

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return one of the request's `tools`.

        Without `strict` the API would hold the schema to the rules of its strict mode.
        """
        return {"type": "function", **tool.with_schema_as("parameters"), "strict": False}

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the item that answers `call`: a function's output where none is known."""
        return kept_output(call, call_id) or text_output(call, call_id)

    def provider_only_members(self, native: JsonObject | list[JsonValue]) -> Iterator[str]:
        """Yield the members of items that no other provider has a place for."""
        for item in native if isinstance(native, list) else [native]:
            if isinstance(item, dict) and is_portable(item):
                yield from other_members(item, PORTABLE[item_kind(item) or ""])

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a part shows."""
        return shown_media(part)

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed output shows."""
        if native.get("type") in TEXT_OUTPUTS:
            return parts_of(native["output"])
        shown = screenshot_of(native)
        return () if shown is None else (shown,)

    def is_made_of(self, native: JsonObject, text: str, *, is_error: bool) -> bool:
        """Return whether an output of the client's is made of a result with this text."""
        return is_output_of(native, Answer(text, is_error))

    def free_texts(self, native: NativeMessage) -> dict[int, str]:
        """Return the inputs of the calls of custom tools, by their places."""
        items = native if isinstance(native, list) else []
        calls = (item for item in items if isinstance(item, dict) and is_call_item(item))
        return {
            place: as_text(call.get("input"))
            for place, call in enumerate(calls)
            if item_kind(call) == "custom_tool_call"
        }

    def takes_document_name(self, document: Document) -> bool:
        """Return whether the document is not at an address: one that is has no name."""
        return document.url is None

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether the item is a call or its output."""
        return "role" not in message and "call_id" in message


ADAPTER: Final = OpenAIResponsesAdapter()
