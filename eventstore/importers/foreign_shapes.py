"""The names of files that cannot be imported, by their shape, so that none is taken for another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eventstore.domain.json_types import JsonObject, JsonValue, is_json_list, is_json_object
from eventstore.importers.reading.file_format import FileContent
from eventstore.importers.reading.json_members import member, objects, text
from eventstore.importers.reading.problems import SourceError

MAX_NAMED_MEMBERS = 5
"""Members of an unknown object that are named."""


def foreign_shape(value: object) -> str | None:
    """Return what a value is, if it is known to be of a form that cannot be imported."""
    if is_json_list(value):
        first: JsonValue = value[0] if value else None
        if isinstance(first, str) and first.startswith("client.beta.sessions."):
            return "a recording of Anthropic's managed agents"
        return foreign_shape(first) if is_json_object(first) else None
    if not is_json_object(value):
        return None
    return next((name for name, is_such in _SHAPES.items() if is_such(value)), None)


def described(value: object) -> str:
    """Return what a value looks like, in a few words."""
    if known := foreign_shape(value):
        return known
    if is_json_list(value):
        return f"a list of {described(value[0])}" if value else "an empty list"
    if is_json_object(value):
        names = ", ".join(f"{name[:40]!r}" for name in list(value)[:MAX_NAMED_MEMBERS])
        return f"an object with {names}" if names else "an empty object"
    return f"{type(value).__name__} values"


def refuse_unread(content: FileContent) -> None:
    """Refuse a file most of whose values so far could not be read: it is another program's.

    Raises:
        SourceError: it is one.
    """
    unread, taken = content.unread_count, content.taken_count
    if content.unit != "file" and 2 * unread > taken:
        first = content.first_unread
        seen = "" if first is None else f": the first looks like {described(first)}"
        raise SourceError(
            f"{unread:,} of {taken:,} {content.unit}s are in a form that is not known{seen}; "
            "see `toolledger import --help` for the files that are read"
        )


_SHAPES: Final[dict[str, Callable[[JsonObject], bool]]] = {
    "an export of toolledger (`toolledger restore` reads it)": lambda value: (
        {"conversation_id", "version", "tag", "event"} <= value.keys()
    ),
    "a data set of ShareGPT's form": lambda value: any(
        "from" in each and "value" in each for each in objects(value, "conversations")
    ),
    "messages of a thread of OpenAI's Assistants": lambda value: text(value, "object").startswith(
        "thread."
    ),
    "conversations exported from ChatGPT": lambda value: (
        is_json_object(value.get("mapping")) and "current_node" in value
    ),
    "conversations exported from Claude.ai": lambda value: is_json_list(value.get("chat_messages")),
    "a chat of GitHub Copilot in VS Code": lambda value: (
        is_json_list(value.get("requests")) and "responderUsername" in value
    ),
    "a transcript of Cursor, which has neither ids nor results of its calls": lambda value: (
        value.get("role") in ("user", "assistant")
        and is_json_list(member(value, "message").get("content"))
        and value.keys().isdisjoint(("type", "uuid", "content"))
    ),
    "a conversation of Kiro or Amazon Q": lambda value: any(
        is_json_object(each.get("user")) and is_json_object(each.get("assistant"))
        for each in objects(value, "history")
    ),
    "an archive of HTTP requests (HAR)": lambda value: is_json_list(
        member(value, "log").get("entries")
    ),
    "a log of what was asked of Gemini CLI, without calls": lambda value: (
        {"sessionId", "messageId", "message"} <= value.keys() and isinstance(value["message"], str)
    ),
    "a history of prompts, without calls": lambda value: (
        {"session_id", "ts", "text"} <= value.keys()
        or {"display", "pastedContents"} <= value.keys()
    ),
    "the output of `gemini --output-format stream-json` (its session files are read)": (
        lambda value: value.get("type") == "init" and {"session_id", "model"} <= value.keys()
    ),
    "the output of `codex exec --json` (its rollouts are read)": lambda value: (
        value.get("type") == "thread.started" and "thread_id" in value
    ),
    "a span as Gemini CLI keeps it in a file of its own": lambda value: "_spanContext" in value,
    "a file of an older OpenCode with one message or part (`opencode export` prints sessions)": (
        lambda value: "sessionID" in value and text(value, "id").startswith(("msg_", "prt_"))
    ),
    "messages of Goose": lambda value: any(
        part.get("type") in ("toolRequest", "toolResponse") for part in objects(value, "content")
    ),
    "logs or metrics of OpenTelemetry, without spans": lambda value: (
        "resourceLogs" in value or "resourceMetrics" in value
    ),
}
