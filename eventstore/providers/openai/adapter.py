"""OpenAI Chat Completions: message lists in, `{"messages": [...]}` out.

Many compatible servers take the same format. A tool message has no error flag: an imported result
is a completion unless it has `is_error`, which some clients add, or the caller says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from eventstore.domain.calls import FunctionCall, repeats_a_key
from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Audio, Document, Image, Opaque, Part, Text
from eventstore.domain.nesting import nests_too_deeply
from eventstore.providers import chat_completions as chat
from eventstore.providers.adapter_protocol import FormatSignature, ResponseMembers, ResultTest
from eventstore.providers.call_arguments import function_call
from eventstore.providers.client_members import ClientMembers
from eventstore.providers.identifiers import call_ids, sanitized, shortened, tool_name
from eventstore.providers.json_values import as_text, copy, copy_json, members_of
from eventstore.providers.kept_messages import KeptMessages
from eventstore.providers.litellm_members import (
    is_of_litellm,
    signed_parts,
    without_own_members,
)
from eventstore.providers.media import document_of, file_name, image_of, url_of
from eventstore.providers.model import (
    Call,
    Change,
    NativeMessage,
    ParsedCall,
    ParsedItem,
    ParsedMessage,
    Rendered,
    Turn,
)
from eventstore.providers.openai.shapes import CLIENT_CALL_MEMBERS, CLIENT_MEMBERS, PARTS
from eventstore.providers.parts_as_text import described, part_label

_MAX_ID: Final = 40
_MAX_NAME: Final = 64
_MAX_CALLS: Final = 128

_ROLES: Final = {**chat.ROLES, "developer": "developer", "bot": "assistant"}

_KINDS_BESIDE_CONTENT: Final = {
    "reasoning_content": "reasoning",
    "reasoning": "reasoning",
    "audio": "audio",
    "refusal": "refusal",
}
"""Members of an assistant's message beside its content, and what kind of part each is."""
_BESIDE_CONTENT: Final = frozenset(_KINDS_BESIDE_CONTENT)
_ARGUMENTS: Final = {"function": "arguments", "custom": "input"}
_OWN_MEMBERS: Final = frozenset({"role", "content", "tool_calls", "function_call", "tool_call_id"})
_PLAIN_MEMBERS: Final = frozenset({"role", "content"})
_NO_MEMBERS: Final[JsonObject] = {}

_AUDIO_FORMATS: Final = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}

_NOT_IN_NAMES: Final = re.compile(r"[\s<|\\/>]")  # characters that a speaker's name may not have

_decode_object = msgspec.json.Decoder(JsonObject).decode


class OpenAIAdapter(chat.ChatCompletionsAdapter):
    """Reads and writes the messages of Chat Completions."""

    name = "openai"
    image_details = frozenset({"auto", "low", "high", "original"})
    signature = FormatSignature(
        calls=("tool_calls",),
        message_calls=("function_call",),
        result_roles=("tool", "function"),
        part_types=("image_url", "input_audio", "file", "refusal"),
    )
    portable_members = _OWN_MEMBERS | _BESIDE_CONTENT | {"is_error"}

    client_members: ClientMembers | None = ClientMembers(
        added=CLIENT_MEMBERS, added_to_calls=CLIENT_CALL_MEMBERS
    )
    response_members = ResponseMembers(
        finish_reason=(("choices", "finish_reason"), ("finish_reason",)),
        said=(("choices", "message"),),
        input=(("usage", "prompt_tokens"),),
        output=(("usage", "completion_tokens"),),
        cached=(("usage", "prompt_tokens_details", "cached_tokens"),),
        reasoning=(("usage", "completion_tokens_details", "reasoning_tokens"),),
    )

    def parse(
        self, messages: Iterable[JsonValue], is_error: ResultTest, is_rejection: ResultTest
    ) -> Iterator[ParsedItem]:
        """Yield the items of messages, taking one message after the other."""
        for message in messages:
            if isinstance(message, dict):
                item = self.parse_message(message, is_error, is_rejection)
                if item is not None:
                    yield item
            elif isinstance(message, str):
                native = {"role": "user", "content": message}
                parts = tuple(self.parse_parts(native))
                yield ParsedMessage("user", parts, native=native, well_formed=True)
            elif message is not None:
                yield ParsedMessage("user", (Text(as_text(message)),))

    def parse_message(
        self, message: JsonObject, is_error: ResultTest, is_rejection: ResultTest
    ) -> ParsedItem | None:
        """Return the item that a message is; None if it is empty."""
        if "role" not in message:
            message = chat.message_in_response(message)
        given = message.get("role")
        role = _ROLES.get(given) if isinstance(given, str) else None
        if role is None:
            role = _role_by_members(message)
        if role == "tool":
            return self.parse_result(message, is_error, is_rejection)
        content = message.get("content")
        is_plain = (
            "name" not in message if role != "assistant" else message.keys() == _PLAIN_MEMBERS
        )
        if is_plain and given == role and type(content) is str:
            said = (Text(content),) if content else ()
            return ParsedMessage(role, said, (), message, well_formed=True)
        well_formed = (
            given == role
            and self.is_well_formed(message, role)
            and _is_speaker(message.get("name"))
        )
        parts = tuple(self.parse_parts(message))
        calls: tuple[ParsedCall, ...] = ()
        if role == "assistant":
            made = _well_formed_calls(message) if well_formed else None
            well_formed = made is not None
            calls = tuple(self.parse_calls(message)) if made is None else made
            if is_of_litellm(message):
                shown, _ = without_own_members(message)
                beside = (*signed_parts(message), *self._parts_beside_content(shown))
                parts = (*beside, *parts, *self._images(message))
            elif not _BESIDE_CONTENT.isdisjoint(message):
                parts = (*self._parts_beside_content(message), *parts)
        if parts or calls or well_formed or chat.unknown_members(message, _OWN_MEMBERS):
            return ParsedMessage(role, parts, calls, message, well_formed)
        return None

    def free_texts(self, native: NativeMessage) -> dict[int, str]:
        """Return the inputs of the calls of custom tools, by their places."""
        texts: dict[int, str] = {}
        place = -1
        calls: list[JsonValue] = members_of(native).get("tool_calls") or []
        for call in calls:
            if not isinstance(call, dict):
                continue
            place += 1
            custom: JsonValue = call.get("custom")
            if isinstance(custom, dict) and not isinstance(call.get("function"), dict):
                texts[place] = as_text(custom.get("input"))
        return texts

    def parse_calls(self, message: JsonObject) -> Iterator[ParsedCall]:
        """Yield the calls of a message, also those of custom tools and in the former format."""
        calls: JsonValue = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, dict):
                continue
            function: JsonValue = call.get("function")
            custom: JsonValue = call.get("custom")
            if isinstance(function, dict):
                name, arguments = function.get("name"), function.get("arguments")
            elif isinstance(custom, dict):
                name, arguments = custom.get("name"), custom.get("input")
            else:
                name, arguments = call.get("name"), call.get("arguments")
            yield ParsedCall(self.call_id(call.get("id")), function_call(name, arguments))
        legacy: JsonValue = message.get("function_call")
        if isinstance(legacy, dict):
            yield ParsedCall(None, function_call(legacy.get("name"), legacy.get("arguments")))

    def parse_part(self, item: JsonValue) -> Iterator[Part]:
        """Yield what a part says or shows, also one in the format of Responses."""
        part = members_of(item)
        kind = part.get("type")
        if kind in ("input_text", "output_text"):
            if part.get("text"):
                yield Text(as_text(part["text"]))
        elif kind == "input_image" and (
            image := image_of(part.get("image_url"), part.get("detail"))
        ):
            yield image
        else:
            yield from super().parse_part(item)

    def is_well_formed(self, message: JsonObject, role: str) -> bool:
        """Return whether a message may go back as it is; calls and speaker are not looked at."""
        content: JsonValue = message.get("content")
        if isinstance(content, list):
            if not _are_parts(content, role):
                return False
        elif content is not None and not isinstance(content, str):
            return False
        if role != "assistant":
            return content is not None
        if message.get("function_call") is not None:
            return False
        calls: JsonValue = message.get("tool_calls")
        if calls is None:
            return content is not None or bool(message.get("refusal") or message.get("audio"))
        return isinstance(calls, list) and bool(calls)

    def _parts_beside_content(self, message: JsonObject) -> Iterator[Opaque]:
        """Yield the parts of an assistant message outside its content."""
        for key, kind in _KINDS_BESIDE_CONTENT.items():
            said = message.get(key)
            if said:
                yield Opaque(self.name, {"type": kind, key: said})

    def _images(self, message: JsonObject) -> Iterator[Part]:
        """Yield the images that a model made, which litellm has beside the content."""
        images: JsonValue = message.get("images")
        for image in images if isinstance(images, list) else ():
            yield from self.parse_part(image)

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a part shows."""
        kind = part.get("type")
        shown: JsonValue = part.get(kind) if kind in ("image_url", "file") else None
        if not isinstance(shown, dict):
            return None
        if kind == "file":
            return document_of(shown.get("file_data"), shown.get("filename"))
        return image_of(shown.get("url"), shown.get("detail"))

    def render_next(self, turns: Sequence[Turn], kept: KeptMessages) -> Rendered:
        """Return the messages for `turns`, of which none makes more calls than the API takes."""
        if max([len(turn.calls) for turn in turns], default=0) <= _MAX_CALLS:
            return super().render_next(turns, kept)
        split = [part for turn in turns for part in _with_few_calls(turn, self.name)]
        rendered = super().render_next(split, kept)
        if len(split) > len(turns):
            why = f"a message has at most {_MAX_CALLS} calls"
            rendered.changes.append(Change("moved", "OA04", why))
        return rendered

    def audio(self, part: JsonObject) -> Audio | None:
        """Return the sound that a part holds."""
        held: JsonValue = part.get("input_audio") if part.get("type") == "input_audio" else None
        if not isinstance(held, dict) or not isinstance(held.get("data"), str):
            return None
        return Audio(held["data"], f"audio/{held.get('format')}")

    def audio_part(self, audio: Audio) -> JsonObject | None:
        """Return the part that plays a sound in one of the two formats that the API takes."""
        form = _AUDIO_FORMATS.get(audio.media_type)
        if form is None:
            return None
        return {"type": "input_audio", "input_audio": {"data": audio.data, "format": form}}

    def request_ids(self, turns: Sequence[Turn], changes: list[Change]) -> list[list[str]]:
        """Return ids of at most 40 characters, different within a turn."""
        return call_ids(turns, _MAX_ID, changes, per_turn=True, sanitizer=shortened)

    def render_turn(
        self,
        turn: Turn,
        shown: chat.VisibleCalls,
        before: Sequence[JsonObject],
        changes: list[Change],
    ) -> JsonObject | None:
        """Return the message for a turn; None if the turn is empty."""
        del before
        if turn.role == "assistant":
            return self._assistant(turn, shown, changes)
        native = turn.own_message(self.name)
        if native is not None:
            return copy_json(native)
        content = self._content(turn, changes)
        extras = _copied_extras(turn, changes) if turn.provider == self.name else {}
        if content is None:
            return None
        return {**extras, "role": turn.role, "content": content}

    def _assistant(
        self, turn: Turn, shown: chat.VisibleCalls, changes: list[Change]
    ) -> JsonObject | None:
        if turn.provider == self.name and isinstance(turn.native, dict):
            turn = self.for_provider(turn, turn.native, changes)
        native = turn.own_message(self.name)
        if native is not None and len(native.get("tool_calls") or ()) == len(shown):
            return chat.with_call_ids(native, shown)
        own = turn.provider == self.name
        extras = _copied_extras(turn, changes) if own and len(shown) == len(turn.calls) else {}
        extras.pop("role", None)
        content = self._content(turn, changes, extras)
        if not shown:
            if content is None and not (extras.get("refusal") or extras.get("audio")):
                if not extras:
                    return None
                content = ""
            return {"role": "assistant", "content": content, **extras}
        calls = [_call(call, name, changes) for call, name in shown]
        return {"role": "assistant", "content": content, "tool_calls": calls, **extras}

    def for_provider(self, turn: Turn, native: JsonObject, changes: list[Change]) -> Turn:
        """Return a turn without the members that litellm has for itself."""
        if not is_of_litellm(native):
            return turn
        plain, names = without_own_members(native)
        if names:
            why = f"{', '.join(names)} of a message of litellm are for litellm alone"
            changes.append(Change("dropped", "litellm", why))
        return msgspec.structs.replace(turn, native=plain)

    def _content(
        self, turn: Turn, changes: list[Change], extras: JsonObject = _NO_MEMBERS
    ) -> str | list[JsonObject] | None:
        """Return the content without the parts that are members beside it."""
        parts: Sequence[Part] = turn.parts
        if extras or not turn.is_plain_text:
            said = [*self._parts_beside_content(extras)] if extras else []
            parts = [
                part
                for part in parts
                if part not in said and not self._is_only_beside_content(part)
            ]
        texts = [part.text for part in parts if isinstance(part, Text)]
        if len(texts) == len(parts) <= 1:  # one text is a plain string
            return texts[0] if texts else None
        return self.render_parts(parts, turn.role, changes) or None

    def _is_only_beside_content(self, part: Part) -> bool:
        """Return whether a part of this API cannot be in content, only beside it."""
        return (
            isinstance(part, Opaque)
            and part.provider == self.name
            and members_of(part.data).get("type") in ("reasoning", "audio")
        )

    def render_part(self, part: Part, role: str, changes: list[Change]) -> JsonObject | None:
        """Return the item of a content that shows a part; None if nothing can."""
        if isinstance(part, Image | Document) and role != "user":
            changes.append(Change("wrapped", "OA11", f"only a user shows {part_label(part)}s here"))
            return {"type": "text", "text": described(part)}
        return super().render_part(part, role, changes)

    def document_part(self, document: Document, changes: list[Change]) -> JsonObject:
        """Return the part that shows a document."""
        if document.data is None:
            changes.append(Change("wrapped", "document", "an address of a document became text"))
            return {"type": "text", "text": described(document)}
        file = {"filename": file_name(document), "file_data": url_of(document)}
        return {"type": "file", "file": file}

    def takes_part(self, part: JsonObject, role: str) -> bool:
        """Return whether a message of `role` may hold such a part."""
        return part.get("type") in PARTS[role]


ADAPTER: Final = OpenAIAdapter()


# reading


def _role_by_members(message: JsonObject) -> str:
    if message.get("tool_calls"):
        return "assistant"
    return "tool" if "tool_call_id" in message else "user"


def _well_formed_calls(message: JsonObject) -> tuple[ParsedCall, ...] | None:
    """Return the calls of a message; None if one of them is not well formed."""
    made: list[ParsedCall] = []
    calls: list[JsonValue] = message.get("tool_calls") or []
    for call in calls:
        if not isinstance(call, dict):
            return None
        kind = call.get("type")
        body: JsonValue = call.get(kind) if kind in ("function", "custom") else None
        if not (isinstance(kind, str) and isinstance(body, dict)):
            return None
        call_id, name, given = call.get("id"), body.get("name"), body.get(_ARGUMENTS[kind])
        if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(given, str)):
            return None
        if sanitized(name, _MAX_NAME) != name:
            return None
        try:
            arguments = None if nests_too_deeply(given) else _decode_object(given)
        except ValueError:
            arguments = None
        if arguments is not None and not repeats_a_key(given, arguments):
            function = FunctionCall(name, arguments)
        elif kind == "function":
            return None
        else:
            function = function_call(name, given)
        made.append(ParsedCall(call_id or None, function))
    return tuple(made)


def _is_speaker(name: object) -> bool:
    """Return whether the API accepts it as the name of a speaker."""
    return name is None or (isinstance(name, str) and bool(name) and not _NOT_IN_NAMES.search(name))


def _are_parts(content: list[JsonValue], role: str) -> bool:
    """Return whether a content of parts may stand in a message of `role`."""
    return bool(content) and all(
        part.get("type") in PARTS[role]
        and (part["type"] != "text" or isinstance(part.get("text"), str))
        for part in map(members_of, content)
    )


# writing


def _with_few_calls(turn: Turn, provider: str) -> Iterator[Turn]:
    """Yield a turn, or several where it makes more calls than the API takes in a message."""
    calls = [call for call in turn.calls if not call.hidden] if len(turn.calls) > _MAX_CALLS else []
    if len(calls) <= _MAX_CALLS:
        yield turn
        return
    first = msgspec.structs.replace(turn, calls=calls[:_MAX_CALLS], well_formed=False)
    own = turn.provider == provider
    first.native = {**members_of(turn.native), "tool_calls": []} if own else None
    yield first
    for start in range(_MAX_CALLS, len(calls), _MAX_CALLS):
        yield Turn("assistant", (), calls[start : start + _MAX_CALLS], version=turn.version)


def _call(call: Call, name: str, changes: list[Change]) -> JsonObject:
    if call.free_text is None:
        return chat.function_tool_call(call, name, _MAX_NAME, changes)
    custom = {"name": tool_name(call, _MAX_NAME, changes), "input": call.free_text}
    return {"id": name, "type": "custom", "custom": custom}


def _copied_extras(turn: Turn, changes: list[Change]) -> JsonObject:
    extras = copy(chat.unknown_members(members_of(turn.native), _OWN_MEMBERS))
    given = extras.get("name")
    if not _is_speaker(given):
        name = _NOT_IN_NAMES.sub("_", given) if isinstance(given, str) else ""
        changes.append(Change("re-keyed", "OA07", f"the speaker {given!r} is {name!r} here"))
        extras["name"] = name
        if not name:
            del extras["name"]
    return extras
