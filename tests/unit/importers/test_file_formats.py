"""The seam of the importers: a table of formats, each of which recognises and reads its values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.foreign_logs import export, span
from support.importing import AT, Importer, clock, states

from eventstore.importers.reading.file_format import FileContent, FileFormat, Unit
from eventstore.importers.reading.problems import Problem, Problems, SourceError
from eventstore.importers.reading.transcript import Transcript
from eventstore.importers.source import FORMATS, PROVIDERS, read
from eventstore.providers.registry import PROVIDERS as MESSAGE_FORMS

MESSAGE = {"role": "user", "content": "Hello."}
RECORD = {"type": "user", "uuid": "1", "sessionId": "s", "message": MESSAGE}


def content(unit: Unit, *values: object, name: str | None = None) -> FileContent:
    """Return the content of a file with these values."""
    return FileContent(
        iter(enumerate(values, 1)),
        unit,
        file_stem="file",
        name=name,
        provider=None,
        problems=Problems(),
    )


class Sentences:
    """A format as another module would add it: each line is what the user said."""

    name = "sentences"

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is text."""
        return unit == "line" and isinstance(value, str)

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield one conversation for each line."""
        for number, value in content.values:
            if self.looks_like(value, content.unit):
                message = {"role": "user", "content": value}
                yield Transcript(content.unused_name(content.stem), "openai", [message])
            else:
                content.report("not a sentence", number)


@pytest.mark.parametrize(
    ("value", "unit", "names"),
    [
        (MESSAGE, "line", ["messages"]),
        (MESSAGE, "item", ["messages"]),
        (MESSAGE, "file", []),
        ({"messages": [MESSAGE]}, "line", ["conversations"]),
        ({"messages": [MESSAGE]}, "file", ["conversations"]),
        ([MESSAGE], "line", ["conversations"]),
        ([MESSAGE], "item", []),
        (RECORD, "line", ["claude-code"]),
        (RECORD, "item", ["claude-code"]),
        (RECORD, "file", []),
        ("text", "line", []),
        (None, "item", []),
    ],
)
def test_a_value_is_recognised_by_one_format_or_none(
    value: object, unit: Unit, names: list[str]
) -> None:
    """Therefore the order of the formats does not matter for a file of one format."""
    assert [each.name for each in FORMATS if each.looks_like(value, unit)] == names


def test_formats_have_names_of_their_own() -> None:
    """A caller may pass each but those of plain messages, which go by their provider."""
    names = [each.name for each in FORMATS]
    assert len(set(names)) == len(names)
    assert set(names) - set(PROVIDERS) == {"conversations", "messages"}
    assert set(PROVIDERS) - set(names) == set(MESSAGE_FORMS)


def test_a_format_is_one_class() -> None:
    """A format gets numbered values, names for its conversations, and a list of faults."""
    added: FileFormat = Sentences()
    given = content("line", "Hello.", 5, "Bye.")
    assert [each.id for each in added.read(given)] == ["file", "file#2"]
    assert given.problems.kept == [Problem("not a sentence", 2, 2)]


@pytest.mark.parametrize(
    ("unit", "problem"),
    [
        ("line", "line 1: not a message: it has no role"),
        ("item", "item 1 is not a message: it has"),
    ],
)
def test_a_fault_is_placed_by_line_or_by_item(unit: Unit, problem: str) -> None:
    """The place is a line number or an item number, as the file has them."""
    given = content(unit, 5, MESSAGE)
    for transcript in FORMATS[-1].read(given):
        assert list(transcript.messages) == [MESSAGE]
    assert [str(each)[: len(problem)] for each in given.problems.kept] == [problem]


OPENAI = [
    {
        "role": "assistant",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f"}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "Error: gone"},
]
GEMINI = [
    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]},
]
RESPONSES = [
    {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "x"},
]
BEDROCK = [
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "x"}]}}]},
]
OLLAMA = [
    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
    {"role": "tool", "tool_name": "f", "content": "x"},
]


@pytest.mark.parametrize(
    ("messages", "key", "status"),
    [
        (OPENAI, "messages", "Failed"),
        (GEMINI, "contents", "Completed"),
        (RESPONSES, "input", "Completed"),
        (BEDROCK, "messages", "Completed"),
        (OLLAMA, "messages", "Completed"),
    ],
    ids=["openai", "gemini", "responses", "bedrock", "ollama"],
)
def test_messages_of_every_provider_are_imported(
    importer: Importer, messages: list[Any], key: str, status: str
) -> None:
    """A file may be a list, a request, or lines; the form is told by the messages."""
    for tools in (
        importer.document("list.json", messages),
        importer.document("request.json", {key: messages}),
        importer.lines("lines.jsonl", *messages),
    ):
        assert states(tools) == [("f", status)]
        assert importer.problems == []
    assert importer.ids == ["list", "request", "lines"]


def test_times_beside_messages_are_kept(importer: Importer) -> None:
    """A program that writes a message a line often adds one."""
    timed = [{**message, "timestamp": clock(n)} for n, message in enumerate(RESPONSES)]
    (tool,) = importer.lines("lines.jsonl", *timed)
    assert (tool.requested_at, tool.ended_at) == (AT, AT + 1_000_000)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"conversation_id": "c", "version": 1, "tag": "message", "event": {}}, "of toolledger"),
        ({"conversations": [{"from": "human", "value": "hi"}]}, "of ShareGPT's form"),
        ({"object": "thread.message", "role": "user"}, "a thread of OpenAI's Assistants"),
        ({"mapping": {}, "current_node": "1"}, "exported from ChatGPT"),
        ({"chat_messages": []}, "exported from Claude.ai"),
        ({"requests": [], "responderUsername": "GitHub Copilot"}, "Copilot in VS Code"),
        ({"log": {"entries": []}}, "HTTP requests (HAR)"),
        ({"resourceLogs": []}, "without spans"),
        ({"sessionId": "s", "messageId": 0, "message": "hi"}, "what was asked of Gemini CLI"),
        ({"session_id": "s", "ts": 1, "text": "hi"}, "a history of prompts"),
        ({"display": "hi", "pastedContents": {}}, "a history of prompts"),
        ({"type": "init", "session_id": "s", "model": "m"}, "gemini --output-format stream-json"),
        ({"type": "thread.started", "thread_id": "t"}, "codex exec --json"),
        ({"_spanContext": {}, "attributes": {}}, "a span as Gemini CLI keeps it"),
        ({"name": "x", "version": 1}, "an object with 'name', 'version'"),
        ({"messages": [{"type": "gemini"}]}, "an object with 'messages'"),
    ],
)
def test_a_file_in_no_known_form_is_named_for_what_it_looks_like(
    importer: Importer, value: dict[str, Any], what: str
) -> None:
    """Nothing is imported, whether the file is a document, a list or lines."""
    for write in (importer.document, lambda name, given: importer.document(name, [given])):
        with pytest.raises(SourceError, match=re.escape(what)):
            write("file.json", value)
    with pytest.raises(SourceError, match=re.escape(what)):
        importer.lines("file.jsonl", value, value)
    with pytest.raises(SourceError, match="Anthropic's managed agents"):
        importer.lines("file.jsonl", ["client.beta.sessions.create", {}])
    assert list(importer.store.conversations()) == []


def test_lines_like_messages_do_not_hide_what_a_file_is(importer: Importer) -> None:
    """A stream of Gemini CLI has its calls in other lines; the caller may insist on messages."""
    head = {"type": "init", "session_id": "s", "model": "m"}
    with pytest.raises(SourceError, match="stream-json"):
        importer.lines("file.jsonl", head, MESSAGE)
    insisted = read(importer.folder / "file.jsonl", "openai")
    assert [transcript.id for transcript in insisted.transcripts()] == ["file"]


def test_spans_after_metrics_in_one_file_are_read(importer: Importer) -> None:
    """A collector writes all its signals to one file."""
    traced = span("execute_tool find", 1, 2, gen_ai__tool__call__id="a")
    tools = importer.lines("signals.jsonl", {"resourceMetrics": []}, export(traced))
    assert states(tools) == [("find", "Completed")]
