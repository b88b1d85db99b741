"""The base of formats like OpenAI's Chat Completions: messages with `role` and `tool_calls`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Document, Image, Opaque, Part, Text
from eventstore.domain.nesting import nests_too_deeply
from eventstore.providers.adapter_protocol import FormatSignature, ProviderAdapter, ResultTest
from eventstore.providers.call_arguments import function_call, object_arguments
from eventstore.providers.identifiers import tool_name
from eventstore.providers.json_values import (
    as_text,
    copy_json,
    members_of,
    native_part,
    other_members,
)
from eventstore.providers.kept_messages import KeptMessages
from eventstore.providers.media import plain_image, url_of
from eventstore.providers.media_of_results import media_turns
from eventstore.providers.model import (
    Answer,
    Call,
    Change,
    NativeMessage,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    ParsedResult,
    Rendered,
    Turn,
    parts_beyond_text,
    visible_calls,
    visible_turns,
)
from eventstore.providers.parts_as_text import answer_text, described, foreign_text

ROLES: Final[Mapping[str, str]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}
"""Roles as they are found in messages, to those of the model."""

VisibleCalls = list[tuple[Call, str]]
"""The calls of a turn that are shown, each with its id in the request."""

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(JsonObject).decode


class ChatCompletionsAdapter(ProviderAdapter):
    """Reads and writes lists of messages, each result a message of role `tool`."""

    list_key = "messages"
    signature = FormatSignature(calls=("tool_calls",), result_roles=("tool", "function"))

    # reading

    result_member: str = "tool_call_id"
    """The member that makes a result of a message without a role."""

    def parse(
        self, messages: Iterable[JsonValue], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if isinstance(message, dict):
                item = self.parse_message(message_in_response(message), is_error, is_rejection)
                if item is not None:
                    yield item
            elif message is not None and (text := as_text(message)):
                yield ParsedMessage("user", (Text(text),))

    def parse_message(
        self, message: JsonObject, is_error: ResultTest, is_rejection: ResultTest
    ) -> ParsedItem | None:
        """Return the item that a message is; None if it is empty."""
        given = message.get("role")
        role = ROLES.get(given) if isinstance(given, str) else None
        if role is None:
            role = "assistant" if message.get("tool_calls") else "user"
            role = "tool" if self.result_member in message else role
        if role == "tool":
            return self.parse_result(message, is_error, is_rejection)
        said = message.get("content")
        if message.keys() == _SAYING and given == role and said and type(said) is str:
            return ParsedMessage(role, (Text(said),), (), message, well_formed=True)
        calls = tuple(self.parse_calls(message)) if role == "assistant" else ()
        native = self.native_message(message)
        parts = tuple(self.parse_parts(native))
        well_formed = given == role and self.is_well_formed(native, role)
        if parts or calls or well_formed:
            return ParsedMessage(role, parts, calls, native, well_formed)
        return None

    def parse_calls(self, message: JsonObject) -> Iterator[ParsedCall]:
        """Yield the calls of an assistant's message."""
        calls: JsonValue = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, dict):
                continue
            function: JsonValue = call.get("function")
            made = function if isinstance(function, dict) else call
            yield ParsedCall(
                self.call_id(call.get("id")),
                function_call(made.get("name"), made.get("arguments")),
            )

    def call_id(self, given: object) -> str | None:
        """Return the id of a call, or None."""
        return given if isinstance(given, str) and given else None

    def native_message(self, message: JsonObject) -> JsonObject:
        """Return the message as it is stored: only JSON values."""
        return message

    def parse_result(
        self, message: JsonObject, is_error: ResultTest, is_rejection: ResultTest
    ) -> ParsedResult:
        """Return the result that a message of role `tool` is."""
        content, name = message.get("content"), self.result_name(message)
        well_formed = message.get("role") == "tool" and self.is_well_formed(message, "tool")
        return ParsedResult(
            self.call_id(message.get("tool_call_id")),
            name if isinstance(name, str) and name else None,
            content if type(content) is str else self.result_text(content),
            bool(is_error(message)),
            message if well_formed else None,
            is_rejection(message),
            well_formed,
            () if well_formed else self.parts_beside_text(message),
        )

    def result_name(self, message: JsonObject) -> object:
        """Return what a result gives as the name of its tool."""
        return message.get("name")

    def result_text(self, content: JsonValue) -> str:
        """Return the content of a result as text."""
        return as_text(content)

    def parts_beside_text(self, message: JsonObject) -> tuple[Part, ...]:
        """Return the parts of a malformed result that shows more than text; otherwise nothing."""
        return parts_beyond_text((*self.parse_parts(self.native_message(message)),))

    def parse_parts(self, message: JsonObject) -> Iterable[Part]:
        """Return the parts of a message: of a text, a list of parts, or any other content."""
        content: JsonValue = message.get("content")
        if isinstance(content, str):
            return (Text(content),) if content else ()
        if isinstance(content, list):
            return tuple(part for item in content for part in self.parse_part(item))
        return () if content is None else (Text(as_text(content)),)

    def parse_part(self, item: JsonValue) -> Iterator[Part]:
        """Yield what an item of a content says or shows, if anything."""
        part = members_of(item)
        kind, text = part.get("type"), part.get("text")
        if kind == "text" and (not isinstance(text, str) or part.keys() == _TEXT_MEMBERS):
            item = text
        elif image := plain_image(self.media(part), part):
            yield image
            return
        elif isinstance(kind, str):
            yield Opaque(self.name, part)
            return
        if item:
            yield Text(as_text(item))

    @abstractmethod
    def is_well_formed(self, message: JsonObject, role: str) -> bool:
        """Return whether a message may go back as it is."""

    # writing

    def render(self, turns: Sequence[Turn]) -> Rendered:
        """Return the messages for `turns`, every call answered right after its turn."""
        return self.render_next(turns, KeptMessages())

    def render_next(self, turns: Sequence[Turn], kept: KeptMessages) -> Rendered:
        """Return the messages for `turns`, which begin with those that are `kept`."""
        changes: list[Change] = []
        new: list[JsonObject] = []
        messages = kept.continued(new, turns, changes, self._request_ids, self._add_turns)
        self.finish(turns, messages, changes)
        return Rendered({"messages": messages}, changes)

    def _add_turns(
        self,
        messages: list[JsonObject],
        turns: Sequence[Turn],
        ids: Sequence[list[str]],
        changes: list[Change],
    ) -> None:
        for turn, names in visible_turns(turns, ids, changes):
            shown = visible_calls(turn, names) if names else []
            message = self.render_turn(turn, shown, messages, changes)
            if message is not None:
                messages.append(message)
            if shown:
                messages.extend([self.render_result(call, name) for call, name in shown])
                for media_turn in media_turns(turn, self.name, changes):
                    message = self.render_turn(media_turn, [], messages, changes)
                    if message is not None:
                        messages.append(message)

    def _request_ids(
        self, turns: Sequence[Turn], _: Sequence[list[str]], changes: list[Change]
    ) -> Sequence[list[str]]:
        """Return the ids of turns that follow others: here ids differ within a turn only."""
        return self.request_ids(turns, changes)

    @abstractmethod
    def request_ids(self, turns: Sequence[Turn], changes: list[Change]) -> Sequence[list[str]]:
        """Return the ids that the calls of each turn have in the request."""

    @abstractmethod
    def render_turn(
        self,
        turn: Turn,
        shown: VisibleCalls,
        before: Sequence[JsonObject],
        changes: list[Change],
    ) -> JsonObject | None:
        """Return the message for a turn; None if the turn is empty."""

    def finish(
        self, turns: Sequence[Turn], messages: list[JsonObject], changes: list[Change]
    ) -> None:
        """Change `messages` where a rule is about the whole list."""

    def content(
        self, parts: tuple[Part, ...], role: str, changes: list[Change]
    ) -> str | list[JsonObject] | None:
        """Return what shows the parts in a message; None if nothing does."""
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].text or None
        return self.render_parts(parts, role, changes) or None

    def render_parts(
        self, parts: Iterable[Part], role: str, changes: list[Change]
    ) -> list[JsonObject]:
        """Return the items of a content, one for each part that can be shown."""
        return [made for part in parts if (made := self.render_part(part, role, changes))]

    def render_part(self, part: Part, role: str, changes: list[Change]) -> JsonObject | None:
        """Return the item of a content that shows a part; None if nothing can."""
        if isinstance(part, Image):
            return image_part(part)
        if isinstance(part, Document):
            return self.document_part(part, changes)
        if isinstance(part, Text):
            text: str | None = part.text
        elif (
            isinstance(part, Opaque)
            and part.provider == self.name
            and self.takes_part(part.data, role)
        ):
            return native_part(part)
        else:
            text = foreign_text(part, changes)
        return {"type": "text", "text": text} if text else None

    def document_part(self, document: Document, changes: list[Change]) -> JsonObject:
        """Return the item of a content that shows a document; by default it is described."""
        changes.append(Change("wrapped", "document", "a message shows no document here"))
        return {"type": "text", "text": described(document)}

    def takes_part(self, part: JsonObject, role: str) -> bool:
        """Return whether a message of `role` may hold a part that this provider wrote."""
        del part, role
        return True

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the tool message that answers `call`."""
        return tool_message(call.answer, call_id, self.name)

    portable_members: Collection[str] = frozenset()
    """Members of a message that arrive at other providers."""

    def provider_only_members(self, native: NativeMessage) -> Iterator[str]:
        """Yield the members of a message and its calls that no other provider has a place for."""
        yield from other_members(native, self.portable_members)
        calls: JsonValue = native.get("tool_calls") if isinstance(native, dict) else None
        for call in calls if isinstance(calls, list) else ():
            yield from other_members(call, _CALL)
            yield from other_members(members_of(call).get("function"), _FUNCTION)


_CALL = frozenset({"id", "type", "function", "custom", "index"})
_FUNCTION = frozenset({"name", "arguments", "index"})
_SAYING = {"role", "content"}
_TEXT_MEMBERS = {"type", "text"}


# reading


def message_in_response(message: JsonObject) -> JsonObject:
    """Return the message in a whole response of a chat, or in a choice of it."""
    if "role" in message:
        return message
    choices: JsonValue = message.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else message
    held: JsonValue = members_of(choice).get("message")
    return held if isinstance(held, dict) else message


def unknown_members(message: JsonObject, known: Collection[str]) -> JsonObject:
    """Return the members of a message that are not None and not `known`."""
    return {
        key: value
        for key, value in message.items()
        if key not in known and value is not None and isinstance(key, str)
    }


def is_json_object(text: str) -> bool:
    """Return whether a text is a JSON object."""
    if nests_too_deeply(text):
        return False
    try:
        _decode_object(text)
    except ValueError:
        return False
    return True


# writing


def without_thinking(
    parts: tuple[Part, ...], provider: str, changes: list[Change]
) -> tuple[Part, ...]:
    """Return `parts` without reasoning, which may go back only with its whole turn."""
    kept = tuple(part for part in parts if not _is_thinking(part, provider))
    if len(kept) < len(parts):
        changes.append(Change("dropped", "reasoning", "a part of its turn is not shown"))
    return kept


def _is_thinking(part: Part, provider: str) -> bool:
    if not isinstance(part, Opaque) or part.provider != provider:
        return False
    return members_of(part.data).get("type") == "thinking"


def with_call_ids(native: JsonObject, shown: VisibleCalls) -> JsonObject:
    """Return a copy of a provider's own message whose calls, all of them, have their new ids."""
    message = copy_json(native)
    for made, (_, name) in zip(message.get("tool_calls") or (), shown, strict=True):
        made["id"] = name
    return message


def function_tool_call(
    call: Call, call_id: str, max_name: int, changes: list[Change]
) -> JsonObject:
    """Return a call of a function, its arguments as JSON text."""
    return {
        "id": call_id,
        "type": "function",
        "function": {
            "name": tool_name(call, max_name, changes),
            "arguments": _encode(object_arguments(call, changes)).decode(),
        },
    }


def image_part(image: Image) -> JsonObject:
    """Return the part that shows an image."""
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": url_of(image), **detail}}


def tool_message(answer: Answer, call_id: str, provider: str) -> JsonObject:
    """Return the tool message for an answer: the one that `provider` wrote, where there is one."""
    if answer.provider == provider and answer.native is not None:
        message = copy_json(answer.native)
        message["tool_call_id"] = call_id
        if answer.note:
            message["content"] = f"{answer.text}\n{answer.note}"
        return message
    return {"role": "tool", "tool_call_id": call_id, "content": answer_text(answer)}
