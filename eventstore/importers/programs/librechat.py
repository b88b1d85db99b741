"""Conversations that LibreChat exports: messages in a list, or as a tree.

A message of the assistant has parts, in their order: texts, and calls with their outputs. Where
branches were exported, the conversation is the way to the last message.
"""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.branches import Branches
from eventstore.importers.reading.dialogue import ERROR_TEXT, Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_NO_PARENT = "00000000-0000-0000-0000-000000000000"


class LibreChatConversations:
    """The file format: a conversation is an item, or the document."""

    name = "librechat"
    about = About(
        program="LibreChat",
        files="exported conversations, `.json`",
        failures="text",
        kept="other branches, where they were exported",
        lost="thinking, files",
        tried="the export of August 2026",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a conversation."""
        del unit
        if not is_json_object(value) or "conversationId" not in value:
            return False
        return any("isCreatedByUser" in each for each in _messages_of(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield each conversation before its abandoned branches."""
        for number, value in content.values:
            if not is_json_object(value) or not self.looks_like(value, content.unit):
                content.report("not a conversation of LibreChat", number)
                continue
            own = text(value, "conversationId")
            named = f"{content.name}/{own}" if content.name and own else own or content.stem
            if content.unit == "file" and content.name:
                named = content.name
            name = content.unused_name(named)
            branches: Branches[JsonObject] = Branches()
            for message in _messages_of(value):
                parent: JsonValue = message.get("parentMessageId")
                known = None if parent == _NO_PARENT else parent
                branches.add(message, text(message, "messageId"), known)
            yield _dialogue_of(branches.main()).transcript(name, error_pattern=ERROR_TEXT)
            for left, branch in enumerate(branches.abandoned(), 1):
                if dialogue := _dialogue_of(branch):
                    yield dialogue.transcript(f"{name}/left-{left}", name, ERROR_TEXT)


def _messages_of(value: JsonObject) -> list[JsonObject]:
    """Return the messages in their order; those of a tree stand in `children` of others."""
    found: list[JsonObject] = []
    waiting = [*objects(value, "messages"), *objects(value, "messagesTree")][::-1]
    while waiting:
        message = waiting.pop()
        found.append(message)
        waiting += objects(message, "children")[::-1]
    return found


def _dialogue_of(messages: list[JsonObject]) -> Dialogue:
    dialogue = Dialogue()
    for number, message in enumerate(messages, 1):
        time = time_of(message.get("createdAt"))
        parts = objects(message, "content")
        if message.get("isCreatedByUser") is True:
            words = "\n".join(filter(None, map(_text_of, parts)))
            dialogue.say("user", text(message, "text") or words, time)
        elif parts:
            for place, part in enumerate(parts, 1):
                _add_part(dialogue, part, f"message-{number}-{place}", time)
        else:
            dialogue.reply_piece(text(message, "text"), (), time)
    return dialogue


def _add_part(dialogue: Dialogue, part: JsonObject, own: str, time: int | None) -> None:
    call = member(part, "tool_call")
    if not call:
        dialogue.reply_piece(_text_of(part), (), time)
        return
    function = member(call, "function") or member(call, "code_interpreter")
    given: JsonValue = call.get("args", function.get("arguments", function.get("input")))
    name = text(call, "name") or text(function, "name") or text(call, "type")
    call_id = text(call, "id") or own
    dialogue.reply_piece("", [call_of(call_id, name, given)], time)
    output: JsonValue = call.get("output", function.get("output", function.get("outputs")))
    if output or (output is not None and call.get("progress") == 1):
        dialogue.answer(call_id, output, time)


def _text_of(part: JsonObject) -> str:
    """Return the words of a part: of a text, or of an error that stands in place of one."""
    if text(part, "type") not in ("text", "error"):
        return ""
    return text(part, "text", "error") or text(member(part, "text"), "value")
