"""Messages that LangChain has serialised: `messages_to_dict`, `dumps`, and `model_dump`."""

from __future__ import annotations

from typing import Final

from eventstore.domain.json_types import JsonObject
from eventstore.importers.frameworks.saved_messages import ANY, SavedMessages, time_of_message
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue
from eventstore.importers.reading.json_members import items, member, text
from eventstore.importers.reading.traced_messages import items_of

_KINDS: Final = frozenset({"human", "ai", "system", "tool", "function", "chat", "developer"})
_CLASSES: Final = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
}
_MARKS: Final = frozenset({"additional_kwargs", "response_metadata"})


class LangChainMessages(SavedMessages):
    """The file format: messages, or an object that holds them."""

    name = "langchain"
    about = About(
        program="LangChain",
        files="serialised messages, as JSON",
        failures="marked",
        times="none",
        kept="calls whose arguments are not JSON, as the model wrote them",
        lost="reasoning, usage, artifacts of results",
        tried="1.8.3 (Python), 1.4.0 (npm)",
        on="2026-11-28",
    )
    roots = (("messages",), ("store", ANY), ("values", "messages"), ("kwargs", "messages"))

    def is_message(self, value: JsonObject) -> bool:
        """Return whether a value is a message in one of the three forms."""
        return bool(_plain(value))

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add what a message says, calls and answers."""
        time = time_of_message(message)
        for item in items_of([_plain(message) or message]):
            dialogue.add(item, time)


def _plain(value: JsonObject) -> JsonObject:
    """Return the members of a message with its type; an empty object for anything else."""
    kind = text(value, "type")
    data = member(value, "data")
    if kind.removesuffix("MessageChunk").lower() in _KINDS and "content" in data:
        return {**data, "type": _known(kind)}
    path = items(value, "id")
    name = path[-1] if path and isinstance(path[-1], str) else ""
    name = name.removesuffix("Chunk")
    if kind == "constructor" and "lc" in value and name in _CLASSES:
        return {**member(value, "kwargs"), "type": _CLASSES[name]}
    if "role" not in value and "content" in value and _MARKS & value.keys():
        return {**value, "type": _known(kind)} if _known(kind) in _KINDS else {}
    return {}


def _known(kind: str) -> str:
    return kind.removesuffix("MessageChunk").lower()
