"""Sessions of Gemini CLI: a JSON document, or in newer versions a header and a message a line.

A call stands in the model's message together with its result; its time is that of its end. The
message is written again when its calls have ended: its words and its calls are two pieces of it, so
that a session that was imported in between continues. What was taken back or replaced later is a
conversation of its own where calls ran in it. A history that was compressed continues with its
summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from eventstore.domain.json_types import JsonObject, is_json_object
from eventstore.importers.programs.gemini_compressions import (
    KIND,
    compaction_of,
    compression,
    is_compressed,
    words_of,
)
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import member, objects, text, text_of
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript

_EXIT_CODE = re.compile(
    r"^Exit Code: (-?\d+)(?:\n(?:Signal|Background PIDs|Process Group PGID): [^\n]*)*"
    r"(?:\n</untrusted_context>)?\s*\Z",
    re.MULTILINE,
)
"""What the shell's tool says below the output of a command, which may have the like in it."""

_TYPES = ("user", "gemini", "info", "error", "warning")


class GeminiSessions:
    """The file format: a session is a document, or the lines of a file."""

    name = "gemini-cli"
    about = About(
        program="Gemini CLI",
        files="sessions, `.json` and `.jsonl`",
        failures="marked, exit codes",
        places=(
            "$GEMINI_CLI_HOME/.gemini/tmp/*/chats/session-*.json",
            "$GEMINI_CLI_HOME/.gemini/tmp/*/chats/session-*.jsonl",
            "~/.gemini/tmp/*/chats/session-*.json",
            "~/.gemini/tmp/*/chats/session-*.jsonl",
        ),
        listing=Listing(
            call=r'"id":\s{0,9}"([^"\\]{1,200})",\s{0,99}"name":\s{0,9}"[^"\\]{1,200}",\s{0,99}"args":',
            id=r'"sessionId":\s{0,9}"([^"\\]{1,200})"',
            companions=("../logs.json",),
        ),
        kept="compressions; calls that were taken back or replaced, as conversations",
        lost="thoughts, token counts, notices",
        tried="0.61.0",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a session, or the header of one."""
        if unit == "item" or not is_json_object(value):
            return False
        return "sessionId" in value and ("projectHash" in value or _has_messages(value))

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session."""
        session = _Session()
        for number, value in content.values:
            if not is_json_object(value) or not session.add(value):
                content.report("not a message of a session", number)
        name = content.name or text(session.header, "sessionId") or content.stem
        transcript = _dialogue_of(session.messages).transcript(name)
        transcript.part_id = f"{name}/{content.file_stem}"  # a resumed session has more files
        yield transcript
        for number, messages in enumerate(session.taken_back, 1):
            yield _dialogue_of(messages).transcript(f"{name}/taken-back-{number}", name)


def _has_messages(value: JsonObject) -> bool:
    return any(each.get("type") == "gemini" for each in objects(value, "messages"))


_Messages: TypeAlias = dict[str, JsonObject]
"""Messages by their ids."""


class _Session:
    """The messages of a session so far, by their ids."""

    def __init__(self) -> None:
        self.header: JsonObject = {}
        self.messages: _Messages = {}
        self.taken_back: list[_Messages] = []
        self._later_ids: dict[str, str] = {}  # messages in a compressed history: id to its own

    def add(self, value: JsonObject) -> bool:
        """Take in a line, or the document; return whether it is one."""
        if "sessionId" in value:
            self.header = self.header or value
            self._take(objects(value, "messages"))
        elif "$set" in value:
            if "messages" in member(value, "$set"):
                self._replace(objects(member(value, "$set"), "messages"))
        elif "$rewindTo" in value:
            self._rewind(value["$rewindTo"])
        elif value.get("type") in _TYPES:
            self._take([value])
        else:
            return False
        return True

    def _take(self, new: list[JsonObject]) -> None:
        """Add messages; one that is written again replaces the earlier."""
        for message in new:
            self.messages[text(message, "id") or f"message-{len(self.messages)}"] = message

    def _replace(self, new: list[JsonObject]) -> None:
        """Take in the history as it is now: compressed, or without what was taken back."""
        names = {self._later_ids.get(text(each, "id"), text(each, "id")) for each in new}
        if is_compressed(new) and not names & self.messages.keys():
            self._compress(new)
            return
        before, past = list(self.messages.items()), 0
        for place, (name, message) in enumerate(before, 1):
            if name in names and message.get("type") == KIND:
                past = place
        self.messages = dict(before[:past])
        self._take([each for each in new if text(each, "id") not in self._later_ids])
        self._put_aside({i: each for i, each in before if i not in self.messages})

    def _compress(self, new: list[JsonObject]) -> None:
        name = f"{KIND}-{len(self.messages)}"
        self.messages[name] = compression(new, self.messages)
        self._later_ids |= dict.fromkeys((text(each, "id") for each in new), name)

    def _rewind(self, to: object) -> None:
        """Take back the message with this id and what follows it; all if no message has the id."""
        names = list(self.messages)
        start = names.index(to) if isinstance(to, str) and to in names else 0
        if (own := self._later_ids.get(str(to), "")) in self.messages:
            start = names.index(own) + 1
        self._put_aside({name: self.messages.pop(name) for name in names[start:]})

    def _put_aside(self, messages: _Messages) -> None:
        if any(objects(each, "toolCalls") for each in messages.values()):
            self.taken_back.append(messages)


def _dialogue_of(messages: _Messages) -> Dialogue:
    dialogue = Dialogue()
    numbers: dict[str, int] = {}
    for name, message in messages.items():
        numbers[name] = len(dialogue)
        _add_message(dialogue, message, numbers)
    return dialogue


def _add_message(dialogue: Dialogue, message: JsonObject, numbers: Mapping[str, int]) -> None:
    time = time_of(message.get("timestamp"))
    said = words_of(message.get("content"))
    if message.get("type") == KIND:
        dialogue.add(compaction_of(message, numbers), time)
    elif message.get("type") == "user":
        dialogue.say("user", said, time)
    elif message.get("type") == "gemini":
        made = objects(message, "toolCalls")
        calls = [call_of(call.get("id"), call.get("name"), call.get("args")) for call in made]
        message_id = text(message, "id") or f"message-{len(dialogue)}"
        dialogue.reply(said, (), time, message_id)
        dialogue.reply("", calls, time, message_id)
        for call in made:
            _answer(dialogue, call)


def _answer(dialogue: Dialogue, call: JsonObject) -> None:
    status = call.get("status")
    if status not in ("success", "error", "cancelled"):
        return  # it waits, or runs
    result = _result(call)
    dialogue.answer(
        text(call, "id"),
        result or call.get("resultDisplay"),
        time_of(call.get("timestamp")),
        name=text(call, "name"),
        is_error=status == "error" or _exits_with_failure(call, result),
        rejected=status == "cancelled",
    )


def _exits_with_failure(call: JsonObject, result: str) -> bool:
    """Return whether a call of the shell ended with another exit code than 0, which is `success`.

    `resultDisplay` is the output alone: the code stands after it.
    """
    if call.get("name") != "run_shell_command":
        return False
    shown = f": {text(call, 'resultDisplay')}\n"
    start = result.find(shown)
    code = _EXIT_CODE.search(result, start + len(shown) - 1 if start >= 0 else 0)
    return code is not None and int(code[1]) != 0


def _result(call: JsonObject) -> str:
    responses = [member(part, "functionResponse", "response") for part in objects(call, "result")]
    outputs = [
        text(each, "output", "error") or (text_of(each) if each else "") for each in responses
    ]
    return "\n".join(filter(None, outputs)) or text(call, "result")
