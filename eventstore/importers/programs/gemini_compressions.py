"""Compressions of Gemini CLI and Qwen Code: the history is told again, with a summary before it.

The summary, and the model's thanks for it, stand for what was before; what was said last follows
them. The program gives new ids to all of it, so a message is known again by its words and calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.importers.reading.dialogue import spoken
from eventstore.importers.reading.json_members import items, member, objects, text, text_of
from eventstore.providers.model import ParsedCompaction, ParsedMessage

KIND = "compression"
"""The type of what stands for a compression among the messages of a session."""

_SUMMARY = "<state_snapshot>"
_STANDING = 2
"""The messages that take the place of others: the summary, and the thanks."""


def is_compressed(history: Sequence[JsonObject]) -> bool:
    """Return whether a history that is told again begins with a summary."""
    first = history[0] if history else {}
    return first.get("type") == "user" and _SUMMARY in words_of(first.get("content"))


def compression(history: Sequence[JsonObject], before: Mapping[str, JsonObject]) -> JsonObject:
    """Return what stands for a compression; `before` are the messages until then, by their ids."""
    summary = (n for n, each in enumerate(history) if _SUMMARY in words_of(each.get("content")))
    end = next(summary, len(history)) + _STANDING
    kept = history[end:]
    words = {words_of(each.get("content")) for each in kept} - {""}
    calls = {call for each in kept for call in _calls_in(each)}
    first: str | None = None
    for name, message in reversed(list(before.items())):
        if words_of(message.get("content")) not in words and calls.isdisjoint(_calls_in(message)):
            break
        first = name
    said: list[JsonValue] = [*history[:end]]
    return {"type": KIND, "said": said, "kept": first, "timestamp": history[0].get("timestamp")}


def compaction_of(compressed: JsonObject, numbers: Mapping[str, int]) -> ParsedCompaction:
    """Return the compaction of a compression; `numbers` are those of the items, by message."""
    return ParsedCompaction(
        tuple(message for each in objects(compressed, "said") for message in _standing(each)),
        end=numbers.get(text(compressed, "kept")),
        trigger=KIND,
    )


def words_of(content: JsonValue) -> str:
    """Return the words of a message; its calls and results stand elsewhere."""
    if isinstance(content, list):
        parts = objects({"parts": content}, "parts")
        return "\n".join(filter(None, (text(part, "text") for part in parts)))
    return text_of(content)


def _standing(message: JsonObject) -> list[ParsedMessage]:
    role = "user" if message.get("type") == "user" else "assistant"
    return [*spoken(role, words_of(message.get("content")))]


def _calls_in(message: JsonObject) -> set[str]:
    """Return the ids of the calls that a message makes or answers."""
    parts = [*objects(message, "content"), *items(message, "toolCalls")]
    named = [text(part, "id") for part in objects(message, "toolCalls")]
    for part in parts:
        named += [text(member(part, name), "id") for name in ("functionCall", "functionResponse")]
    return {*filter(None, named)}
