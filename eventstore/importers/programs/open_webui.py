"""Chats that Open WebUI exports: a list of chats, or one, each a tree of messages.

1. The conversation is the way to the current message. Other branches are conversations of their
   own.
2. An assistant's message has its calls and results as items of OpenAI Responses in `output`. Older
   ones have them in their text, as `<details type="tool_calls">` with escaped attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.reading.about import About
from eventstore.importers.reading.dialogue import ERROR_TEXT, Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, parsed, text, text_of
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_OPENED: Final = re.compile(r'<details type="(tool_calls|reasoning)"([^<>]*)>')
"""The beginning of a call, or of thinking, in a text; the signs `<` and `>` in it are escaped."""
_CLOSED: Final = "</details>"
_ATTRIBUTE: Final = re.compile(r'\b(\w{1,40})="([^"]*)"')
_SUMMARY: Final = re.compile(r"\A\s*<summary>[^<]*</summary>")
_CODE: Final = "open_webui:code_interpreter"


class OpenWebUiChats:
    """The file format: a chat is an item, or the document."""

    name = "open-webui"
    about = About(
        program="Open WebUI",
        files="exported chats, `.json`",
        failures="marked; text in older chats",
        times="of messages, in whole seconds",
        kept="other branches, code that ran",
        lost="thinking, files, sources",
        tried="the forms of 0.12.4",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a chat."""
        del unit
        return is_json_object(value) and bool(_history(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield each chat before its abandoned branches."""
        for number, value in content.values:
            history = _history(value) if is_json_object(value) else {}
            if not is_json_object(value) or not history:
                content.report("not a chat of Open WebUI", number)
                continue
            name = content.unused_name(_name_of(value, content))
            main, *others = _branches(history)
            yield _dialogue_of(main).transcript(name, error_pattern=ERROR_TEXT)
            for left, branch in enumerate(others, 1):
                if dialogue := _dialogue_of(branch):
                    yield dialogue.transcript(f"{name}/left-{left}", name, ERROR_TEXT)


def _history(value: JsonObject) -> JsonObject:
    """Return the tree of a chat, which some exports have outside of `chat`."""
    found = member(value, "chat", "history") or member(value, "history")
    return found if "currentId" in found and member(found, "messages") else {}


def _name_of(value: JsonObject, content: FileContent) -> str:
    own = text(value, "id") or text(member(value, "chat"), "id")
    if content.unit == "file":
        return content.name or own or content.stem
    return f"{content.name}/{own}" if content.name and own else own or content.stem


def _branches(history: JsonObject) -> list[list[JsonObject]]:
    """Return the messages of each branch: first those on the way to the current one."""
    held = member(history, "messages")
    messages = {key: each for key in held if is_json_object(each := held[key])}
    way: dict[str, JsonObject] = {}
    at = text(history, "currentId") or next(reversed(messages), "")
    while at in messages and at not in way:
        way[at] = messages[at]
        at = text(messages[at], "parentId")
    others: dict[str, list[JsonObject]] = {}
    roots: dict[str, str] = {}
    for key, message in messages.items():
        if key not in way:  # a parent stands before its children
            parent = text(message, "parentId")
            roots[key] = roots.get(parent, key)
            others.setdefault(roots[key], []).append(message)
    return [[*way.values()][::-1], *others.values()]


def _dialogue_of(messages: list[JsonObject]) -> Dialogue:
    dialogue = Dialogue()
    for number, message in enumerate(messages, 1):
        time = time_of(message.get("timestamp"))
        output = objects(message, "output")
        if message.get("role") != "assistant":
            dialogue.say(text(message, "role"), message.get("content"), time)
        elif output:
            for item in output:
                _add_item(dialogue, item, time)
        else:
            own = text(message, "id") or f"message-{number}"
            _add_text(dialogue, text_of(message.get("content")), own, time)
    return dialogue


def _add_item(dialogue: Dialogue, item: JsonObject, time: int | None) -> None:
    kind, call_id = text(item, "type"), text(item, "call_id", "id")
    if kind == "message":
        said = "".join(text(part, "text") for part in objects(item, "content"))
        dialogue.reply_piece(said, (), time)
    elif kind == "function_call":
        made = call_of(call_id, item.get("name"), item.get("arguments"))
        dialogue.reply_piece("", [made], time)
    elif kind == "function_call_output":
        shown: JsonValue = item.get("output")
        words = "".join(text(part, "text") for part in objects(item, "output"))
        status = item.get("status")
        dialogue.answer(
            call_id,
            words or (shown if isinstance(shown, str) else ""),
            time,
            is_error=status == "failed",
            rejected=status == "rejected",
        )
    elif kind == _CODE:
        dialogue.reply_piece("", [call_of(call_id, "code_interpreter", _code(item))], time)
        if item.get("output") is not None:
            dialogue.answer(call_id, item["output"], time)


def _code(item: JsonObject) -> JsonObject:
    return {key: item[key] for key in ("lang", "code") if key in item}


def _add_text(dialogue: Dialogue, said: str, own: str, time: int | None) -> None:
    """Add a text with the calls that stand in it, without its thinking."""
    end = calls = 0
    while (opened := _OPENED.search(said, end)) is not None:
        closed = said.find(_CLOSED, opened.end())
        if closed < 0:
            break
        dialogue.reply_piece(said[end : opened.start()].strip(), (), time)
        end = closed + len(_CLOSED)
        if opened[1] == "tool_calls":
            calls += 1
            facts = {key: unescape(value) for key, value in _ATTRIBUTE.findall(opened[2])}
            facts.setdefault("id", f"{own}-{calls}")
            _add_call(dialogue, facts, said[opened.end() : closed], time)
    dialogue.reply_piece(said[end:].strip(), (), time)


def _add_call(dialogue: Dialogue, facts: dict[str, str], inside: str, time: int | None) -> None:
    made = call_of(facts["id"], facts.get("name"), parsed(facts.get("arguments") or "{}"))
    dialogue.reply_piece("", [made], time)
    if facts.get("done") == "true":
        shown = unescape(_SUMMARY.sub("", inside, count=1).strip())
        dialogue.answer(facts["id"], parsed(facts.get("result") or shown), time)
