"""Mistral: message lists in, `{"messages": [...]}` out.

Like OpenAI Chat Completions, but for chunks of content (thinking among them), arguments that may be
objects, and its order: system messages come before the assistant's, the assistant speaks between
results and the user, and the last message is the user's, a result, or a prefix for the model to
continue. A member that the API does not know is left out. An id of its own goes back as it is;
another becomes 9 letters and digits, which older models ask for.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.domain.messages import Audio, Document, Image, Part
from eventstore.domain.own_texts import OPENING, RECEIVED
from eventstore.providers import chat_completions as chat
from eventstore.providers.adapter_protocol import ResponseMembers
from eventstore.providers.client_members import ClientMembers
from eventstore.providers.identifiers import call_ids, nine_characters, sanitized
from eventstore.providers.json_values import copy, members_of
from eventstore.providers.media import document_of, image_of, url_of
from eventstore.providers.media_of_results import without_media
from eventstore.providers.mistral.members import drop_unknown_members
from eventstore.providers.mistral.shapes import FOREIGN_ID, Calls, Message, System
from eventstore.providers.model import Change, Turn
from eventstore.providers.parts_as_text import plain_text
from eventstore.providers.shapes import misshapen_message

_MAX_ID: Final = 9
_MAX_NAME: Final = 64
_AUDIO_STARTS: Final = {"UklGR": "audio/wav", "SUQz": "audio/mp3"}
"""How the base64 of a sound begins, by its format."""
_OWN_MEMBERS: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "prefix"})


class MistralAdapter(chat.ChatCompletionsAdapter):
    """Reads and writes the messages of Mistral's chat completions."""

    name = "mistral"
    image_details = frozenset({"auto", "low", "high"})
    portable_members = (_OWN_MEMBERS | {"name", "is_error"}) - {"prefix"}

    client_members = ClientMembers(added=frozenset({"parsed"}))
    response_members = ResponseMembers(
        finish_reason=(("choices", "finish_reason"), ("finish_reason",)),
        said=(("choices", "message"),),
        input=(("usage", "prompt_tokens"),),
        output=(("usage", "completion_tokens"),),
        cached=(("usage", "prompt_tokens_details", "cached_tokens"),),
        reasoning=(("usage", "completion_tokens_details", "reasoning_tokens"),),
    )

    def call_id(self, given: object) -> str | None:
        """Return the id of a call, or None; the SDK writes "null" for a call without one."""
        return given if isinstance(given, str) and given not in ("", "null") else None

    def is_well_formed(self, message: JsonObject, role: str) -> bool:
        """Return whether a message may go back as it is."""
        content, name = message.get("content"), message.get("name")
        if role != "assistant":
            is_named = role != "tool" or name is None or _is_name(name)
            return is_named and _is_content(content, role)
        if content is not None and not _is_content(content, role):
            return False
        calls: list[JsonValue] | None = message.get("tool_calls")
        if not calls:
            return calls in (None, []) and bool(content)
        return misshapen_message({"tool_calls": calls}, Calls) is None and all(
            map(_is_callable, calls)
        )

    def media(self, part: JsonObject) -> Image | Document | None:
        """Return the image or document that a chunk shows."""
        if part.get("type") == "document_url":
            return document_of(part.get("document_url"), part.get("document_name"))
        if part.get("type") != "image_url":
            return None
        shown: JsonValue = part.get("image_url")
        held = shown if isinstance(shown, dict) else {"url": shown}
        return image_of(held.get("url"), held.get("detail"))

    def audio(self, part: JsonObject) -> Audio | None:
        """Return the sound that a chunk holds; none at an address, or of an unknown format."""
        held: JsonValue = part.get("input_audio") if part.get("type") == "input_audio" else None
        if not isinstance(held, str):
            return None
        kinds = (kind for start, kind in _AUDIO_STARTS.items() if held.startswith(start))
        kind = next(kinds, None)
        return None if kind is None else Audio(held, kind)

    def audio_part(self, audio: Audio) -> JsonObject | None:
        """Return the chunk that plays a sound."""
        return {"type": "input_audio", "input_audio": audio.data}

    def result_parts(self, native: JsonObject) -> tuple[Part, ...]:
        """Return what a well-formed result shows."""
        return tuple(self.parse_parts(native))

    def request_ids(self, turns: Sequence[Turn], changes: list[Change]) -> list[list[str]]:
        """Return Mistral's own ids, and others of 9 letters and digits; they differ in a turn."""
        ids: list[list[str]] = []
        for turn in turns:
            own = {call.provider_id for call in turn.calls} if turn.provider == self.name else ()
            legal = partial(_legal_id, own)
            ids += call_ids([turn], _MAX_ID, changes, per_turn=True, sanitizer=legal)
        return ids

    def _add_turns(
        self,
        messages: list[JsonObject],
        turns: Sequence[Turn],
        ids: Sequence[list[str]],
        changes: list[Change],
    ) -> None:
        begun = len(messages)
        super()._add_turns(messages, turns, ids, changes)
        for message in messages[begun:]:
            drop_unknown_members(message, changes)

    def render_turn(
        self,
        turn: Turn,
        shown: chat.VisibleCalls,
        before: Sequence[JsonObject],
        changes: list[Change],
    ) -> JsonObject | None:
        """Return the message for a turn; None if the turn is empty."""
        if turn.role == "assistant":
            return self._assistant(turn, shown, changes)
        if turn.role in ("system", "developer"):
            return self._system(turn, before[-1]["role"] if before else None, changes)
        return self._message(turn, changes)

    def _message(self, turn: Turn, changes: list[Change]) -> JsonObject | None:
        native = turn.own_message(self.name)
        if native is not None:
            return copy(native)
        content = self.content(turn.parts, turn.role, changes)
        if content is None:
            return None
        return {**self._copied_extras(turn), "role": turn.role, "content": content}

    def _system(self, turn: Turn, before: str | None, changes: list[Change]) -> JsonObject | None:
        if before in ("assistant", "tool"):
            said = plain_text(turn.parts, changes)
            changes.append(Change("moved", "MI03", "a later system message became a user's text"))
            return {"role": "user", "content": f"[system] {said}"} if said else None
        native = turn.own_message(self.name)
        if native is not None:
            return copy(native)
        content = self.content(without_media(turn.parts, changes), "system", changes)
        return None if content is None else {"role": "system", "content": content}

    def _assistant(
        self, turn: Turn, shown: chat.VisibleCalls, changes: list[Change]
    ) -> JsonObject | None:
        whole = len(shown) == len(turn.calls)
        native = turn.own_message(self.name)
        if whole and native is not None and len(native.get("tool_calls") or ()) == len(shown):
            return chat.with_call_ids(native, shown)
        parts = turn.parts if whole else chat.without_thinking(turn.parts, self.name, changes)
        content = self.content(without_media(parts, changes), "assistant", changes)
        extras = self._copied_extras(turn) if whole else {}
        if not shown:
            return None if content is None else {**extras, "role": "assistant", "content": content}
        calls = [chat.function_tool_call(call, name, _MAX_NAME, changes) for call, name in shown]
        return {**extras, "role": "assistant", "content": content or "", "tool_calls": calls}

    def _copied_extras(self, turn: Turn) -> JsonObject:
        if turn.provider != self.name:
            return {}
        return copy(chat.unknown_members(members_of(turn.native), _OWN_MEMBERS))

    def document_part(self, document: Document, changes: list[Change]) -> JsonObject:
        """Return the chunk that shows a document."""
        del changes
        name = {"document_name": document.name} if document.name else {}
        return {"type": "document_url", "document_url": url_of(document), **name}

    def takes_part(self, part: JsonObject, role: str) -> bool:
        """Return whether a message of `role` may hold such a chunk."""
        return _is_content([part], role)

    def finish(
        self, turns: Sequence[Turn], messages: list[JsonObject], changes: list[Change]
    ) -> None:
        """Let the list begin, continue and end with the roles that the API takes there."""
        del turns
        _begin_with_user(messages, changes)
        _bridge_results(messages, changes)
        _end_with_prefix(messages, changes)


ADAPTER: Final = MistralAdapter()


# reading


def _is_content(content: JsonValue, role: str) -> bool:
    if isinstance(content, str):
        return True
    if content is None:
        return False
    return misshapen_message({"content": content}, System if role == "system" else Message) is None


def _is_callable(call: JsonValue) -> bool:
    """Return whether a call whose types are right has an id and a legal name."""
    made = members_of(call)
    return isinstance(made.get("id"), str) and _is_name(members_of(made["function"]).get("name"))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and sanitized(name, _MAX_NAME) == name


# writing


def _legal_id(own: Container[str | None], text: str, most: int) -> str:
    kept = text in own and not FOREIGN_ID.fullmatch(text)
    return text if kept else nine_characters(text, most)


def _begin_with_user(messages: list[JsonObject], changes: list[Change]) -> None:
    """Let the user speak first: results of calls in the very first message are not counted."""
    first = messages[0] if messages else {}
    if first.get("role") == "assistant" and (first.get("tool_calls") or len(messages) == 1):
        changes.append(Change("added", "MI02", "a conversation starts with the user"))
        messages.insert(0, {"role": "user", "content": OPENING})


def _bridge_results(messages: list[JsonObject], changes: list[Change]) -> None:
    """Let the assistant speak between results and what the user says next."""
    for place in range(len(messages) - 1, 0, -1):
        if messages[place]["role"] == "user" and messages[place - 1]["role"] == "tool":
            changes.append(Change("added", "MI03", "the user may not speak right after results"))
            messages.insert(place, {"role": "assistant", "content": RECEIVED})


def _end_with_prefix(messages: list[JsonObject], changes: list[Change]) -> None:
    """Let the list end with a message that the model can continue."""
    for message in messages:
        if not isinstance(message.get("prefix"), bool | None):
            changes.append(Change("dropped", "MI03", "a prefix is true or false"))
            del message["prefix"]
    for message in messages[:-1]:
        if message.get("prefix"):
            changes.append(Change("dropped", "MI03", "only the last message can be a prefix"))
            del message["prefix"]
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant" and not last.get("prefix"):
        changes.append(Change("added", "MI03", "the last message is a prefix to continue from"))
        last["prefix"] = True
    elif last.get("role") == "system":
        changes.append(Change("added", "MI03", "the last message is the user's"))
        messages.append({"role": "user", "content": OPENING})
