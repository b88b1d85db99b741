"""Saved states of autogen: of an agent, or of a team, whose agents have a conversation each."""

from __future__ import annotations

from typing import Final

from eventstore.domain.json_types import JsonObject
from eventstore.importers.frameworks.saved_messages import ANY, SavedMessages, time_of_message
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.json_members import objects, text

_CONTEXT: Final = ("llm_context", "messages")
_AGENT: Final = ("agent_states", ANY, "agent_state")
_ROLES: Final = {
    "UserMessage": "user",
    "SystemMessage": "system",
    "AssistantMessage": "assistant",
    "FunctionExecutionResultMessage": "tool",
}


class AutogenStates(SavedMessages):
    """The file format: a state, or the messages of a model context."""

    name = "autogen"
    about = About(
        program="AutoGen",
        files="saved states of agents and teams, `.json`",
        failures="marked",
        times="none",
        lost="the thread of a team, which repeats what its agents said",
        tried="0.7.5",
        on="2026-11-28",
    )
    roots = (
        ("messages",),
        _CONTEXT,
        ("agent_state", *_CONTEXT),
        (*_AGENT, *_CONTEXT),
        ("inner_team_state", *_AGENT, *_CONTEXT),
        (*_AGENT, "inner_team_state", *_AGENT, *_CONTEXT),
    )

    def is_message(self, value: JsonObject) -> bool:
        """Return whether a value is a message of a model context."""
        return text(value, "type") in _ROLES and "role" not in value and "content" in value

    def add(self, dialogue: Dialogue, message: JsonObject) -> None:
        """Add what a message says, calls and answers."""
        time = time_of_message(message)
        role = _ROLES.get(text(message, "type"), "user")
        content = objects(message, "content")
        if role == "tool":
            for each in content:
                dialogue.answer(
                    text(each, "call_id"),
                    each.get("content"),
                    time,
                    name=text(each, "name"),
                    is_error=each.get("is_error") is True,
                )
        elif role == "assistant" and content:
            made = [
                call_of(each.get("id"), each.get("name"), each.get("arguments")) for each in content
            ]
            dialogue.reply(message.get("thought"), made, time)
        elif role == "assistant":
            dialogue.reply(message.get("content"), (), time)
        else:
            dialogue.say(role, message.get("content"), time)
