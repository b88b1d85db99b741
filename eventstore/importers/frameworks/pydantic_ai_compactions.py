"""Compactions in messages of pydantic-ai: a summary that stands for the messages before it.

A summary that its provider alone can read hides nothing: for another one, what was before it stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventstore.domain.json_types import JsonObject
from eventstore.domain.messages import Opaque
from eventstore.importers.reading.dialogue import Dialogue, spoken
from eventstore.importers.reading.json_members import member, text
from eventstore.providers.model import ParsedCompaction, ParsedMessage


def add_compactions(dialogue: Dialogue, parts: Sequence[JsonObject], time: int | None) -> None:
    """Add the compactions among the parts of a message, which come before the others."""
    for part in parts:
        if part.get("part_kind") == "compaction":
            _add(dialogue, part, time)


def _add(dialogue: Dialogue, part: JsonObject, time: int | None) -> None:
    summary = tuple(spoken("user", part.get("content")))
    details = member(part, "provider_details")
    if summary:
        dialogue.add(ParsedCompaction(summary), time)
    elif text(details, "encrypted_content"):
        item = {"type": "compaction", "id": text(part, "id"), **details}
        dialogue.add(ParsedMessage("assistant", (Opaque("openai-responses", item),)), time)
