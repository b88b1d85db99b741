"""Sessions of Cline and of what grew out of it (Roo Code, Kilo Code), in Anthropic's blocks.

In editors a task is the list `TASK/api_conversation_history.json`. With some providers its results
are blocks, with others texts of the next message: `[TOOL …] Result:`. Older versions let the model
write its calls as XML in its words; those are known by their results. The command line keeps
`SESSION.messages.json`, a document, where one result is a list with a `success` for each part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeGuard

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_object
from eventstore.importers.reading.about import About, Listing
from eventstore.importers.reading.dialogue import Dialogue, call_of
from eventstore.importers.reading.file_format import FileContent, Unit
from eventstore.importers.reading.json_members import (
    items,
    member,
    objects,
    parts_as_text,
    text,
    text_of,
)
from eventstore.importers.reading.times import time_of
from eventstore.importers.reading.transcript import Transcript
from eventstore.providers.model import ParsedCall

_MARKER = "] Result:"

_FAILED: Final = re.compile(
    r"\A\s*(?:Command failed\b|Command execution was not successful"
    r"|The tool execution failed\b|\{\"status\":\s*\"error\""
    r"|Exit code: (?!0\b)\d|Command executed[^\n]*\bexit code (?!0\b)\d)"
)
"""How the text of a result of the editors' form begins where the call failed."""

_TAG: Final = re.compile(r"<(\w{1,100})>")

_DENIED: Final = re.compile(r"\A\s*(?:The user denied this operation|\{\"status\":\s*\"denied\")")

_OPENINGS = ("<task>", "<environment_details>", "<user_message>", "<feedback>")
"""How the first text of a task begins, and those that the program adds."""

_EXTENSIONS: Final = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code")

_PLACES: Final = (
    *(
        f"{{config}}/{editor}/User/globalStorage/{extension}/tasks/*/api_conversation_history.json"
        for editor in ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
        for extension in _EXTENSIONS
    ),
    "~/.cline/data/tasks/*/api_conversation_history.json",
)


_LISTING: Final = Listing(call=r'"type":\s{0,9}"tool_use",\s{0,99}"id":\s{0,9}"([^"\\]{1,200})"')


class ClineTasks:
    """The file format of the editors: a list of messages."""

    name = "cline"
    about = About(
        program="Cline, Roo Code, Kilo Code",
        files="tasks of the editors, `api_conversation_history.json`",
        failures="marked, text",
        places=_PLACES,
        listing=_LISTING,
        lost="thinking; calls that stand as XML in the text and have no result",
        tried="2026-04",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a message of a task."""
        return unit != "file" and is_task_message(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the task."""
        messages: list[JsonObject] = []
        for number, value in content.values:
            if is_json_object(value) and value.get("role") in ("user", "assistant"):
                messages.append(value)
            else:
                content.report("not a message of Cline", number)
        name = content.stem
        if content.name is None and name == "api_conversation_history" and content.folders:
            name = content.folders[0]
        yield _dialogue_of(messages).transcript(name)


class ClineSessions:
    """The file format of the command line: a session is a document."""

    name = "cline-cli"
    about = About(
        program="Cline CLI",
        files="sessions, `.messages.json`",
        failures="marked",
        places=("~/.cline/data/sessions/*/*.messages.json",),
        listing=_LISTING,
        lost="thinking",
        tried="3.0.65",
        on="2026-11-28",
    )

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a value is a session."""
        return unit != "item" and is_session(value)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the session."""
        for number, value in content.values:
            if not is_json_object(value):
                content.report("not a session of Cline", number)
                continue
            name = content.name or text(value, "sessionId") or content.stem
            if dialogue := _dialogue_of(objects(value, "messages"), text(value, "system_prompt")):
                yield dialogue.transcript(content.unused_name(name))


def is_session(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value is a session of the command line."""
    if not is_json_object(value) or not text(value, "sessionId"):
        return False
    known = {"updated_at", "agent"} <= value.keys() or "sessionId" in member(value, "origin")
    return known and any("role" in each for each in objects(value, "messages"))


def is_task_message(value: object) -> TypeGuard[JsonObject]:
    """Return whether a value is a message of a task: other lists hold Anthropic's blocks, too."""
    if not is_json_object(value) or value.get("role") not in ("user", "assistant"):
        return False
    if "modelId" in member(value, "modelInfo"):
        return True
    said = (text(block, "text") for block in objects(value, "content"))
    return value["role"] == "user" and any(each.startswith(_OPENINGS) for each in said)


def _dialogue_of(messages: Iterable[JsonObject], system: str = "") -> Dialogue:
    dialogue = Dialogue()
    dialogue.say("system", system)
    waiting: list[ParsedCall] = []  # calls of the message before, in their order
    given = [*messages]
    for number, (message, following) in enumerate(zip(given, [*given[1:], {}], strict=True)):
        time = time_of(message.get("ts"))
        blocks = _blocks(message)
        if message.get("role") == "assistant":
            said = _texts(blocks)
            waiting = [_call(block) for block in blocks if block.get("type") == "tool_use"]
            waiting = waiting or [*_written_calls(said, _blocks(following), number)]
            dialogue.reply(said, waiting, time)
        else:
            _add_user(dialogue, blocks, waiting, time)
            waiting = []
    return dialogue


def _blocks(message: JsonObject) -> list[JsonObject]:
    content: JsonValue = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return objects(message, "content")


def _texts(blocks: Iterable[JsonObject]) -> str:
    return parts_as_text(each for each in blocks if each.get("type") in ("text", "image", "file"))


def _call(block: JsonObject) -> ParsedCall:
    return call_of(block.get("id"), block.get("name"), block.get("input"))


def _written_calls(said: str, answers: Iterable[JsonObject], number: int) -> Iterator[ParsedCall]:
    """Yield the calls that stand as XML in a text, and have a result in the next message."""
    for place, block in enumerate(answers):
        tool = _answered_tool(block)
        _, found, rest = said.partition(f"<{tool}>")
        if tool and found:
            arguments = dict(_elements(rest.partition(f"</{tool}>")[0]))
            yield call_of(f"{tool}-{number}-{place}", tool, {**arguments})


def _elements(xml: str) -> Iterator[tuple[str, str]]:
    """Yield names and contents of the elements of a call, which may hold any text."""
    start = 0
    while (tag := _TAG.search(xml, start)) is not None:
        end = xml.find(f"</{tag[1]}>", tag.end())
        if end < 0:
            return
        yield tag[1], xml[tag.end() : end].strip("\n")
        start = end + len(tag[1]) + 3


def _add_user(
    dialogue: Dialogue, blocks: list[JsonObject], waiting: list[ParsedCall], time: int | None
) -> None:
    """Add the results in a message before what else it says."""
    said: list[JsonObject] = []
    open_calls = list(waiting)
    for block in blocks:
        if block.get("type") == "tool_result":
            call_id = text(block, "tool_use_id")
            open_calls = [call for call in open_calls if call.id != call_id]
            _add_result(dialogue, block, call_id, time)
        elif (call := _answered_by(block, open_calls)) is not None:
            open_calls.remove(call)
            _add_text(dialogue, call, text(block, "text").partition(_MARKER)[2], time)
        else:
            said.append(block)
    dialogue.say("user", _texts(said), time)


def _answered_by(block: JsonObject, calls: list[ParsedCall]) -> ParsedCall | None:
    """Return the call whose result a text is."""
    tool = _answered_tool(block)
    return next((call for call in calls if call.call.name == tool), None)


def _answered_tool(block: JsonObject) -> str:
    """Return the tool whose result a text is, which begins with its name; empty for another."""
    head, found, _ = text(block, "text").partition(_MARKER)
    return head[1:].split(" ", 1)[0] if found and head.startswith("[") else ""


def _add_text(dialogue: Dialogue, call: ParsedCall, said: str, time: int | None) -> None:
    result = said.lstrip("\n")
    rejected = bool(_DENIED.match(result))
    failed = not rejected and bool(_FAILED.match(result))
    dialogue.answer(call.id, result, time, is_error=failed, rejected=rejected)


def _add_result(dialogue: Dialogue, block: JsonObject, call_id: str, time: int | None) -> None:
    content: JsonValue = block.get("content")
    parts = items(block, "content")
    ends = [part["success"] for part in parts if is_json_object(part) and "success" in part]
    said = text_of(content)
    rejected = bool(_DENIED.match(said))
    failed = block.get("is_error") is True or False in ends or bool(_FAILED.match(said))
    dialogue.answer(
        call_id,
        said,
        time,
        name=text(block, "name"),
        is_error=failed and not rejected,
        rejected=rejected,
    )
