"""The streams of Gemini: each chunk is a response that brings further parts.

A text continues in the next chunk. A part with a signature stays by itself: Gemini checks it as it
was. With `stream_function_call_arguments` a call comes in pieces too, see `partial_arguments`.
"""

from __future__ import annotations

from eventstore.domain.json_types import JsonObject, JsonValue
from eventstore.providers.gemini.partial_arguments import PartialArguments
from eventstore.providers.responses import refuse_further
from eventstore.providers.sdk_objects import plain_event

_SIGNATURES = ("thoughtSignature", "thought_signature")
_REASONS = ("finishReason", "finish_reason")
_CALLS = ("functionCall", "function_call")
_TEXT_MEMBERS = frozenset({"text", "thought"})


class Response:
    """The first candidate of a response, from its chunks."""

    def __init__(self) -> None:
        self._envelope: JsonObject = {}
        self._candidate: JsonObject = {}
        self._parts: list[JsonObject] = []
        self._call = PartialArguments()

    @property
    def is_finished(self) -> bool:
        """Whether a chunk has given the reason for the end, or none has a candidate."""
        if not self._candidate and not self._parts:
            return bool(self._envelope)
        return any(self._candidate.get(key) is not None for key in _REASONS)

    @property
    def envelope(self) -> JsonObject:
        """A response that says nothing."""
        return {**self._envelope, "candidates": [self._candidate] if self._candidate else []}

    def add(self, event: object) -> None:
        """Take in a chunk."""
        chunk = plain_event(event)
        candidates: JsonValue = chunk.pop("candidates", None)
        self._envelope |= chunk
        for candidate in candidates if isinstance(candidates, list) else ():
            if not isinstance(candidate, dict):
                continue
            refuse_further("candidates", candidate.get("index"))
            content: JsonValue = candidate.pop("content", None)
            self._candidate |= candidate
            parts: JsonValue = content.get("parts") if isinstance(content, dict) else None
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict):
                    self._add_part(part)

    def response(self) -> JsonObject | None:
        """Return the response as far as it came."""
        parts = [*self._parts, *self._call.unfinished()]
        if not parts:
            return None
        content = {"role": "model", "parts": parts}
        return {**self._envelope, "candidates": [{**self._candidate, "content": content}]}

    def _add_part(self, part: JsonObject) -> None:
        key = next((key for key in _CALLS if isinstance(part.get(key), dict)), None)
        if key is not None:
            self._parts += self._call.add(part, key)
        elif part.keys() <= _TEXT_MEMBERS:
            self._add_text(part)
        else:
            self._parts.append(part)

    def _add_text(self, part: JsonObject) -> None:
        last = self._parts[-1] if self._parts else {}
        is_open = "text" in last and last.keys() <= _TEXT_MEMBERS
        if is_open and bool(last.get("thought")) == bool(part.get("thought")):
            last["text"] = f"{last['text']}{part.get('text') or ''}"
        elif part.get("text"):
            self._parts.append(part)
