"""Cohere's Chat, version 2: message lists in, `{"messages": [...]}` out.

Like OpenAI Chat Completions, but for three things. What the assistant says with its calls is their
`tool_plan`. A result is text or a list of documents, each with `data` and perhaps an `id` that
citations name. A message has the members of the API alone: one that is unknown is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.providers import chat_completions as chat
from eventstore.providers.adapter_protocol import FormatSignature, ResponseMembers, ResultTest
from eventstore.providers.cohere.shapes import Citations
from eventstore.providers.identifiers import call_ids, sanitized, shortened
from eventstore.providers.media import image_of, plain_image
from eventstore.providers.model import Change, NativeMessage, ParsedResult, Turn
from eventstore.providers.parts import (
    as_text,
    copy,
    described,
    foreign_text,
    members_of,
    native_part,
    other_members,
    without_media,
)
from eventstore.providers.shapes import misshapen

NAME: Final = "cohere"
_MAX_ID: Final = 64
_MAX_NAME: Final = 64

_SAID_BY: Final = {
    "system": ("text",),
    "user": ("text", "image_url"),
    "assistant": ("text", "thinking"),
}
"""Role to the types of parts that its content may have."""

_MEMBERS: Final = {
    "system": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_plan", "tool_calls", "citations"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
"""Role to the members that its message may have."""


class CohereAdapter(chat.ChatCompletionsAdapter):
    """Reads and writes the messages of Cohere's Chat."""

    name = NAME
    image_details = frozenset({"auto", "low", "high"})
    signature = FormatSignature(calls=("tool_calls",), result_roles=("tool",))
    portable_members = frozenset(
        {"role", "content", "tool_plan", "tool_calls", "tool_call_id", "name", "is_error"}
    )

    response_members = ResponseMembers(
        finish_reason=(("finish_reason",),),
        input=(("usage", "tokens", "input_tokens"),),
        output=(("usage", "tokens", "output_tokens"),),
        cached=(("usage", "cached_tokens"),),
    )

    def parse_result(
        self, message: JsonObject, is_error: ResultTest, is_rejection: ResultTest
    ) -> ParsedResult:
        """Return the result that a message of role `tool` is."""
        content, name = message.get("content"), message.get("name")
        call_id = self.call_id(message.get("tool_call_id"))
        well_formed = (
            message.get("role") == "tool"
            and call_id is not None
            and message.keys() <= _MEMBERS["tool"]
            and _is_result(content)
        )
        return ParsedResult(
            call_id,
            name if isinstance(name, str) and name else None,
            _result_text(content),
            bool(is_error(message)),
            message if well_formed else None,
            bool(is_rejection(message)),
            well_formed,
        )

    def parse_parts(self, message: JsonObject) -> tuple[Part, ...]:
        """Return the plan for the calls, and the parts of the content."""
        plan = as_text(message.get("tool_plan"))
        content = chat.content_parts(message.get("content"), _part)
        return (Text(plan), *content) if plan else content

    def is_well_formed(self, message: JsonObject, role: str) -> bool:
        """Return whether a message may go back as it is."""
        content = message.get("content")
        if not message.keys() <= _MEMBERS[role]:
            return False
        if role != "assistant":
            return content is not None and _is_content(content, role)
        if content is not None and not _is_content(content, role):
            return False
        if not isinstance(message.get("tool_plan"), str | None) or misshapen(
            message.get("citations"), Citations
        ):
            return False
        calls: JsonValue = message.get("tool_calls")
        if not calls:
            return calls in (None, []) and bool(chat.content_parts(content, _part))
        return isinstance(calls, list) and all(map(_is_well_formed_call, calls))

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
        return _image(part)

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed result shows: text."""
        return (Text(_result_text(native.get("content"))),)

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
            return _assistant(turn, shown, changes)
        native = turn.own_message(NAME)
        if native is not None:
            return copy(native)
        role = "system" if turn.role == "developer" else turn.role
        parts = turn.parts if role == "user" else without_media(turn.parts, changes)
        content = _content(parts, role, changes)
        return None if content is None else {"role": role, "content": content}


ADAPTER: Final = CohereAdapter()


# reading


def _part(item: JsonValue) -> Iterator[Part]:
    if not isinstance(item, dict):
        if said := as_text(item):
            yield Text(said)
        return
    kind, text = item.get("type"), item.get("text")
    if kind == "text" and (not isinstance(text, str) or item.keys() == {"type", "text"}):
        if said := as_text(text):
            yield Text(said)
    elif kind == "image_url" and (image := plain_image(_image(item), item)):
        yield image
    elif isinstance(kind, str):
        yield Opaque(NAME, item)
    elif item:
        yield Text(as_text(item))


def _image(part: JsonObject) -> Image | None:
    shown: JsonValue = part.get("image_url") if part.get("type") == "image_url" else None
    return image_of(shown.get("url"), shown.get("detail")) if isinstance(shown, dict) else None


def _result_text(content: JsonValue) -> str:
    """Return a result as text, of a document its data."""
    if not isinstance(content, list):
        return as_text(content)
    return "\n".join(map(_item_text, content))


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


def _is_content(content: JsonValue, role: str) -> bool:
    if not isinstance(content, list):
        return isinstance(content, str)
    return bool(content) and all(_is_well_formed_part(item, role) for item in content)


def _is_well_formed_part(item: JsonValue, role: str) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    if not isinstance(kind, str) or kind not in _SAID_BY[role] or item.keys() != {"type", kind}:
        return False
    body: JsonValue = item[kind]
    if kind == "image_url":
        return isinstance(body, dict) and isinstance(body.get("url"), str)
    return isinstance(body, str)


def _is_result(content: JsonValue) -> bool:
    if not isinstance(content, list):
        return isinstance(content, str)
    return bool(content) and all(map(_is_result_part, content))


def _is_result_part(item: JsonValue) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    if kind not in ("text", "document") or item.keys() != {"type", kind}:
        return False
    body: JsonValue = item[kind]
    if kind == "text":
        return isinstance(body, str)
    return (
        isinstance(body, dict)
        and isinstance(body.get("data"), str | dict)
        and isinstance(body.get("id"), str | None)
    )


def _is_well_formed_call(call: JsonValue) -> bool:
    if not isinstance(call, dict):
        return False
    function: JsonValue = call.get("function")
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        return False
    name, call_id = function.get("name"), call.get("id")
    return (
        isinstance(call_id, str)
        and bool(call_id)
        and isinstance(name, str)
        and sanitized(name, _MAX_NAME) == name
        and isinstance(function.get("arguments"), str)
        and chat.is_json_object(function["arguments"])
    )


# writing


def _assistant(turn: Turn, shown: chat.VisibleCalls, changes: list[Change]) -> JsonObject | None:
    whole = len(shown) == len(turn.calls)
    native = turn.own_message(NAME)
    if whole and native is not None:
        return chat.with_call_ids(native, shown)
    parts = turn.parts if whole else chat.without_thinking(turn.parts, NAME, changes)
    parts = without_media(parts, changes)
    if not shown:
        content = _content(parts, "assistant", changes)
        return None if content is None else {"role": "assistant", "content": content}
    rendered = [made for part in parts if (made := _rendered(part, "assistant", changes))]
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


def _content(
    parts: tuple[Part, ...], role: str, changes: list[Change]
) -> str | list[JsonObject] | None:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text or None
    return [made for part in parts if (made := _rendered(part, role, changes))] or None


def _rendered(part: Part, role: str, changes: list[Change]) -> JsonObject | None:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, Image):
        return chat.image_part(part)
    if isinstance(part, Document):
        changes.append(Change("wrapped", "document", "a message shows no document here"))
        return {"type": "text", "text": described(part)}
    if part.provider == NAME and _is_well_formed_part(part.data, role):
        return native_part(part)
    text = foreign_text(part, changes)
    return {"type": "text", "text": text} if text else None
