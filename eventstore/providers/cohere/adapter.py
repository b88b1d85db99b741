"""Cohere's Chat, version 2: message lists in, `{"messages": [...]}` out.

Like OpenAI Chat Completions, but for three things. What the assistant says with its calls is their
`tool_plan`. A result is text or a list of documents, each with `data` and perhaps an `id` that
citations name. A message has the members of the API alone: one that is unknown is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Document, Image, Part, Text
from eventstore.providers import chat_completions as chat
from eventstore.providers.adapter_protocol import FormatSignature, ResponseMembers
from eventstore.providers.cohere.shapes import MEMBERS, MESSAGES
from eventstore.providers.identifiers import call_ids, sanitized, shortened
from eventstore.providers.json_values import as_text, copy, members_of, other_members
from eventstore.providers.media import image_of
from eventstore.providers.media_of_results import without_media
from eventstore.providers.model import Change, NativeMessage, Turn
from eventstore.providers.shapes import misshapen_message

_MAX_ID: Final = 64
_MAX_NAME: Final = 64


class CohereAdapter(chat.ChatCompletionsAdapter):
    """Reads and writes the messages of Cohere's Chat."""

    name = "cohere"
    image_details = frozenset({"auto", "low", "high"})
    signature = FormatSignature(
        calls=("tool_calls",), result_roles=("tool",), served_types=frozenset({"document"})
    )
    portable_members = frozenset(
        {"role", "content", "tool_plan", "tool_calls", "tool_call_id", "name", "is_error"}
    )

    response_members = ResponseMembers(
        finish_reason=(("finish_reason",),),
        said=(("message",),),
        input=(("usage", "tokens", "input_tokens"),),
        output=(("usage", "tokens", "output_tokens"),),
        cached=(("usage", "cached_tokens"),),
    )

    def result_text(self, content: JsonValue) -> str:
        """Return a result as text, of a document its data."""
        if not isinstance(content, list):
            return as_text(content)
        return "\n".join(map(_item_text, content))

    def parts_beside_text(self, message: JsonObject) -> tuple[Part, ...]:
        """Return nothing: a result's documents are part of its text."""
        del message
        return ()

    def parse_parts(self, message: JsonObject) -> Iterator[Part]:
        """Yield the plan for the calls, and the parts of the content."""
        if plan := as_text(message.get("tool_plan")):
            yield Text(plan)
        yield from super().parse_parts(message)

    def is_well_formed(self, message: JsonObject, role: str) -> bool:
        """Return whether a message may go back as it is."""
        calls: list[JsonValue] = message.get("tool_calls") or []
        says_something = bool(calls) or any(super().parse_parts(message))
        return (
            (says_something or role != "assistant")
            and _is_own_form(message, role)
            and all(map(_is_callable, calls))
        )

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether it has a plan for its calls, or is a result made of documents."""
        return "tool_plan" in message or bool([*_documents(message)])

    def provider_only_members(self, native: NativeMessage) -> Iterator[str]:
        """Yield the members of a message that no other provider has a place for."""
        yield from super().provider_only_members(native)
        for document in _documents(members_of(native)):
            yield from other_members(document, {"data"})

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image that a part shows."""
        shown: JsonValue = part.get("image_url") if part.get("type") == "image_url" else None
        return image_of(shown.get("url"), shown.get("detail")) if isinstance(shown, dict) else None

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed result shows: text."""
        return (Text(self.result_text(native.get("content"))),)

    def request_ids(self, turns: Sequence[Turn], changes: list[Change]) -> list[list[str]]:
        """Return ids that differ within a turn."""
        return call_ids(turns, _MAX_ID, changes, per_turn=True, sanitizer=shortened)

    def render_turn(
        self,
        turn: Turn,
        shown: chat.VisibleCalls,
        before: Sequence[JsonObject],
        changes: list[Change],
    ) -> JsonObject | None:
        """Return the message for a turn, None where it says nothing."""
        del before
        if turn.role == "assistant":
            return self._assistant(turn, shown, changes)
        native = turn.own_message(self.name)
        if native is not None:
            return copy(native)
        role = "system" if turn.role == "developer" else turn.role
        parts = turn.parts if role == "user" else without_media(turn.parts, changes)
        content = self.content(parts, role, changes)
        return None if content is None else {"role": role, "content": content}

    def takes_part(self, part: JsonObject, role: str) -> bool:
        """Return whether a message of `role` may hold such a part."""
        return _is_own_form({"content": [part]}, role)

    def _assistant(
        self, turn: Turn, shown: chat.VisibleCalls, changes: list[Change]
    ) -> JsonObject | None:
        whole = len(shown) == len(turn.calls)
        native = turn.own_message(self.name)
        if whole and native is not None:
            return chat.with_call_ids(native, shown)
        parts = turn.parts if whole else chat.without_thinking(turn.parts, self.name, changes)
        parts = without_media(parts, changes)
        if not shown:
            content = self.content(parts, "assistant", changes)
            return None if content is None else {"role": "assistant", "content": content}
        rendered = self.render_parts(parts, "assistant", changes)
        texts = [part["text"] for part in rendered if part["type"] == "text"]
        others = [part for part in rendered if part["type"] != "text"]
        if len(texts) > 1:
            changes.append(Change("merged", "text", "several texts of a message became one plan"))
        message: JsonObject = {"role": "assistant"}
        if others:
            message["content"] = others
        if texts:
            message["tool_plan"] = "\n".join(texts)
        calls = [chat.function_tool_call(call, name, _MAX_NAME, changes) for call, name in shown]
        return {**message, "tool_calls": calls}


ADAPTER: Final = CohereAdapter()


# reading


def _item_text(item: JsonValue) -> str:
    document: JsonValue = members_of(item).get("document")
    return as_text(document.get("data", document) if isinstance(document, dict) else [item])


def _documents(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the documents in the content of a message."""
    content: JsonValue = message.get("content")
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict) and item.get("type") == "document":
            document: JsonValue = item.get("document")
            if isinstance(document, dict):
                yield document


def _is_own_form(message: JsonObject, role: str) -> bool:
    """Return whether a message and its parts have the API's members alone, in their types."""
    if misshapen_message(message, MESSAGES[role]) or not message.keys() <= MEMBERS[role]:
        return False
    content: JsonValue = message.get("content")
    parts = content if isinstance(content, list) else ()
    return all(part.keys() == {"type", part.get("type")} for part in map(members_of, parts))


def _is_callable(call: JsonValue) -> bool:
    """Return whether a call whose types are right has a legal name and arguments."""
    function = members_of(members_of(call).get("function"))
    name = function.get("name", "")
    return sanitized(name, _MAX_NAME) == name and chat.is_json_object(function["arguments"])
