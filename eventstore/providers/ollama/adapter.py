"""Ollama: message lists in, `{"messages": [...]}` out.

There are no ids: results follow their calls, in order, with the tool's name. Arguments are objects.
Content is one text; images and thinking are members beside it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.domain.messages import Document, Image, Opaque, Part, Text, is_base64
from eventstore.providers import chat_completions as chat
from eventstore.providers.adapter_protocol import ResponseMembers
from eventstore.providers.call_arguments import object_arguments
from eventstore.providers.json_values import as_text, copy, members_of, native_part
from eventstore.providers.media import image_of
from eventstore.providers.model import Call, Change, Turn
from eventstore.providers.ollama.shapes import Message, Result
from eventstore.providers.parts_as_text import answer_text, described, foreign_text, part_label
from eventstore.providers.shapes import misshapen_message
from eventstore.providers.tool_definition import ToolDefinition, inlined

_UNNAMED: Final = "unnamed_tool"


_SAYING = frozenset({"content", "thinking", "images", "tool_calls"})
"""Members of which a message has at least one."""


class OllamaAdapter(chat.ChatCompletionsAdapter):
    """Reads and writes the messages of Ollama's chat."""

    name = "ollama"
    call_ids = "optional"
    result_member = "tool_name"
    portable_members = frozenset(
        {"role", "content", "thinking", "images", "tool_calls", "tool_name", "is_error"}
    )

    response_members = ResponseMembers(
        finish_reason=(("done_reason",),),
        said=(("message",),),
        input=(("prompt_eval_count",),),
        output=(("eval_count",),),
    )

    def result_name(self, message: JsonObject) -> object:
        """Return what a result gives as the name of its tool."""
        return message.get("tool_name") or message.get("name")

    def native_message(self, message: JsonObject) -> JsonObject:
        """Return the message with its images as base64, which the client takes as well as bytes."""
        images: list[object] | tuple[object, ...] | str | None = message.get("images")
        if not isinstance(images, list | tuple):
            return message
        return {**message, "images": [_as_base64(image) for image in images]}

    def parse_parts(self, message: JsonObject) -> Iterator[Part]:
        """Yield the thinking, the content and the images."""
        thinking = message.get("thinking")
        if isinstance(thinking, str) and thinking:
            yield Opaque(self.name, {"type": "thinking", "thinking": thinking})
        content: JsonValue = message.get("content")
        shown: list[Image] = []
        if isinstance(content, list):  # the form of Chat Completions
            shown = [found for part in content if (found := _shown(part)) is not None]
            content = [part for part in content if _shown(part) is None]
        text = as_text(content) if content else ""
        if text:
            yield Text(text)
        yield from shown
        images: JsonValue = message.get("images")
        for image in images if isinstance(images, list) else ():
            if isinstance(image, str) and is_base64(image):
                yield Image(None, image)
            elif isinstance(image, str):  # a path on the machine that made the request
                yield Opaque(self.name, {"type": "image", "image": image})

    def is_well_formed(self, message: JsonObject, role: str) -> bool:
        """Return whether a message may go back as it is."""
        images: list[JsonValue] = message.get("images") or []
        calls: list[JsonObject] = message.get("tool_calls") or []
        if role == "tool":
            return misshapen_message(message, Result) is None
        return (
            misshapen_message(message, Message) is None
            and not message.keys().isdisjoint(_SAYING)
            and all(isinstance(image, str) for image in images)
            and all(call.get("id") is None for call in calls)
            and (role == "assistant" or not calls)
        )

    def is_own_message(self, message: JsonObject) -> bool:
        """Return whether it is a result that names its tool."""
        return "tool_name" in message

    def request_ids(self, turns: Sequence[Turn], changes: list[Change]) -> list[list[str]]:
        """Return no id: results are matched by their order."""
        del changes
        return [[""] * len(turn.calls) for turn in turns]

    def render_turn(
        self,
        turn: Turn,
        shown: chat.VisibleCalls,
        before: Sequence[JsonObject],
        changes: list[Change],
    ) -> JsonObject | None:
        """Return the message for a turn; None if the turn is empty."""
        del before
        native = turn.own_message(self.name)
        if native is not None and len(shown) == len(turn.calls):
            return copy(native)
        thoughts: list[str] = []
        texts: list[str] = []
        images: list[str] = []
        for part in turn.parts:
            self._sort(part, thoughts, texts, images, changes)
        if len(texts) > 1:
            changes.append(Change("merged", "text", "several texts of a message became one"))
        if thoughts and len(shown) < len(turn.calls):
            changes.append(Change("dropped", "reasoning", "a part of its turn is not shown"))
            thoughts = []
        if not (texts or images or shown or thoughts):
            return None
        role = "system" if turn.role == "developer" else turn.role
        message: JsonObject = {"role": role, "content": "\n".join(texts)}
        if thoughts:
            message["thinking"] = "\n".join(thoughts)
        if images:
            message["images"] = images
        if shown:
            message["tool_calls"] = [
                {
                    "function": {
                        "name": _name(call, changes),
                        "arguments": object_arguments(call, changes),
                    }
                }
                for call, _ in shown
            ]
        return message

    def _sort(
        self,
        part: Part,
        thoughts: list[str],
        texts: list[str],
        images: list[str],
        changes: list[Change],
    ) -> None:
        """Put a part where it belongs in a message."""
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, Image) and part.data is not None:
            images.append(part.data)
        elif isinstance(part, Image | Document):
            kind = "an address of an image" if isinstance(part, Image) else "a document"
            changes.append(Change("wrapped", part_label(part), f"{kind} became text"))
            texts.append(described(part))
        elif isinstance(part, Opaque) and part.provider == self.name and members_of(part.data):
            own = native_part(part)
            if own.get("type") == "thinking":
                thoughts.append(as_text(own.get("thinking")))
            else:
                images.append(as_text(own.get("image")))
        else:
            text = foreign_text(part, changes)
            texts += [text] if text else []

    def finish(
        self, turns: Sequence[Turn], messages: list[JsonObject], changes: list[Change]
    ) -> None:
        """Note that ids were left out; let results name their tools where only some do."""
        _name_results(messages, changes)
        shown = (call for turn in turns if not turn.hidden for call in turn.calls)
        if any(call.provider_id and not call.hidden for call in shown):
            changes.append(Change("dropped", "OL01", "ids have no place here: results go by order"))

    def tool_definition(self, tool: ToolDefinition) -> JsonObject:
        """Return one of the request's `tools`, with as much of the schema as its SDK keeps.

        Of a parameter the SDK keeps `type`, `items`, `enum` and `description`. References are
        therefore replaced by what they stand for, and `anyOf` of a type and null by both types.
        """
        schema = inlined(tool.parameters)
        named = {name: _flat(found) for name, found in schema["properties"].items()}
        return super().tool_definition(replace(tool, parameters={**schema, "properties": named}))

    def render_result(self, call: Call, call_id: str) -> JsonObject:
        """Return the tool message that answers `call`; there are no ids."""
        del call_id
        answer = call.answer
        name = call.name or _UNNAMED
        if answer.provider == self.name and answer.native is not None:
            message = copy(answer.native)
            if "tool_name" in message:  # older clients name no tool
                message["tool_name"] = name
            if answer.note:
                message["content"] = f"{answer.text}\n{answer.note}"
            return message
        return {"role": "tool", "content": answer_text(answer), "tool_name": name}


ADAPTER: Final = OllamaAdapter()


# writing


def _name_results(messages: list[JsonObject], changes: list[Change]) -> None:
    """Name the tools of a turn's results where one names its own: they may have been moved."""
    for place, message in enumerate(messages, 1):
        names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
        results = zip(names, messages[place : place + len(names)], strict=False)
        unnamed = [(name, result) for name, result in results if "tool_name" not in result]
        if len(unnamed) < len(names):
            for name, result in unnamed:
                result["tool_name"] = name
                changes.append(Change("added", "OL01", f"a result names its tool: {name}"))


# reading


def _as_base64(image: object) -> object:
    if isinstance(image, memoryview):
        return b64encode(image.tobytes()).decode()
    return b64encode(image).decode() if isinstance(image, bytes | bytearray) else image


# writing


def _shown(part: JsonValue) -> Image | None:
    """Return the image of a part in the form of Chat Completions."""
    if not isinstance(part, dict) or part.get("type") != "image_url":
        return None
    return image_of(members_of(part.get("image_url")).get("url"))


def _name(call: Call, changes: list[Change]) -> str:
    if not call.name:
        why = f"a tool without a name is {_UNNAMED!r} here"
        changes.append(Change("re-keyed", "name", why, call.id))
    return call.name or _UNNAMED


# tools


def _flat(schema: JsonObject) -> JsonObject:
    """Return the schema of a parameter without `anyOf`, where it is a type or null."""
    options: JsonValue = schema.get("anyOf")
    values: JsonValue = schema.get("enum")
    if is_json_list(options):
        types = [found for found in options if is_json_object(found) and found != {"type": "null"}]
        if len(types) == 1 and "type" in types[0] and len(options) > 1:
            others = {key: value for key, value in schema.items() if key != "anyOf"}
            return {**types[0], "type": [types[0]["type"], "null"], **others}
    if "type" in schema or not is_json_list(values):
        return schema
    return {"type": "string", **schema} if all(isinstance(v, str) for v in values) else schema
