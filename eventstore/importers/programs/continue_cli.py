"""Sessions of Continue, as its command line keeps them: a JSON document.

A call stands in the model's message, and its state and result beside it. The file has no times.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCall

_ENDED = ("done", "errored", "canceled")


class ContinueSessions:
    """The file format: a session is a document."""

    name = "continue"
    about = About(
        program="Continue",
        files="sessions, `.json`",
        failures="marked",
        times="none",
        places=(
            "$CONTINUE_GLOBAL_DIR/sessions/*-*-*.json",
            "~/.continue/sessions/*-*-*.json",
        ),
        listing=Listing(call=r'"toolCallId":\s{0,9}"([^"\\]{1,200})"'),
        lost="thinking, context items",
        tried="1.5.47",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a session."""
        if unit == "item" or not is_json_object(value) or "sessionId" not in value:
            return False
        return any("message" in each for each in objects(value, "history"))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session."""
        for number, value in content.values:
            if not is_json_object(value):
                content.report("not a session of Continue", number)
                continue
            name = content.name or text(value, "sessionId") or content.stem
            if dialogue := _dialogue_of(objects(value, "history")):
                yield dialogue.transcript(content.unused_name(name))


def _dialogue_of(history: list[JsonObject]) -> Dialogue:
    dialogue = Dialogue()
    answered: set[str] = set()
    for item in history:
        message = member(item, "message")
        role = text(message, "role")
        if role == "assistant":
            states = objects(item, "toolCallStates")
            made = objects(message, "toolCalls") or [member(state, "toolCall") for state in states]
            dialogue.reply(message.get("content"), [_call(each) for each in made])
            ended = [state for state in states if state.get("status") in _ENDED]
            answered.update(text(state, "toolCallId") for state in ended)
            for state in ended:
                _add_result(dialogue, state)
        elif role == "tool":  # how other versions write a result
            call_id = text(message, "toolCallId")
            if call_id not in answered:
                dialogue.answer(call_id, message.get("content"))
        elif role != "thinking":
            dialogue.say(role, message.get("content"))
    return dialogue


def _call(made: JsonObject) -> ParsedCall:
    function = member(made, "function")
    return call_of(made.get("id"), function.get("name"), function.get("arguments"))


def _add_result(dialogue: Dialogue, state: JsonObject) -> None:
    said = (text(each, "content") for each in objects(state, "output"))
    dialogue.answer(
        text(state, "toolCallId"),
        "\n".join(filter(None, said)),
        is_error=state.get("status") == "errored",
        rejected=state.get("status") == "canceled",
    )
