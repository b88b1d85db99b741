"""Files of requests: every form in which they are saved, and which provider each is for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eventstore.importers.reading.problems import SourceError
from eventstore.importers.recorded_requests import RequestFile

USER = {"role": "user", "content": "hello"}
TOOL = {"role": "tool", "tool_call_id": "c", "content": "12"}
GEMINI = {"role": "user", "parts": [{"text": "hello"}]}


def found(path: Path, provider: str | None = None) -> list[tuple[str, str, list[Any]]]:
    """Return the requests of a file: id, provider and messages."""
    requests = RequestFile(path, provider).requests()
    return [(each.id, each.provider, each.messages) for each in requests]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file to be written."""
    return tmp_path / "sample.json"


@pytest.mark.parametrize(
    ("value", "provider", "messages"),
    [
        ([USER], "openai", [USER]),
        ({"messages": [USER]}, "openai", [USER]),
        ({"messages": [USER], "system": "Be brief."}, "anthropic", [USER]),
        ({"messages": [USER], "provider": "mistral"}, "mistral", [USER]),
        ({"messages": [USER], "provider": "somebody"}, "openai", [USER]),
        ({"contents": [GEMINI]}, "gemini", [GEMINI]),
        ({"input": [USER], "model": "o"}, "openai-responses", [USER]),
        ({"input": "hello"}, "openai-responses", [USER]),
        ({"method": "POST", "body": {"messages": [TOOL]}}, "openai", [TOOL]),
        ({"custom_id": "1", "params": {"messages": [USER], "system": "x"}}, "anthropic", [USER]),
        ([GEMINI], "gemini", [GEMINI]),
        (
            [{"type": "function_call_output", "call_id": "c", "output": "1"}],
            "openai-responses",
            [{"type": "function_call_output", "call_id": "c", "output": "1"}],
        ),
        (
            [USER, {"role": "tool", "tool_name": "f", "content": "1"}],
            "ollama",
            [USER, {"role": "tool", "tool_name": "f", "content": "1"}],
        ),
        (
            [{"role": "user", "content": [{"text": "hello"}]}],
            "bedrock",
            [{"role": "user", "content": [{"text": "hello"}]}],
        ),
        (
            [{"role": "user", "content": [{"type": "tool_result"}]}],
            "anthropic",
            [{"role": "user", "content": [{"type": "tool_result"}]}],
        ),
    ],
)
def test_a_request_is_read_in_every_form(
    path: Path, value: Any, provider: str, messages: list[Any]
) -> None:
    """A request of any provider is read; a provider that the form names is believed."""
    path.write_text(json.dumps(value))
    assert found(path) == [("sample", provider, messages)]


def test_a_provider_that_is_named_is_believed(path: Path) -> None:
    """If a request has several lists, the list of the named provider is taken."""
    path.write_text(json.dumps({"messages": [USER], "contents": [GEMINI]}))
    assert found(path, "gemini") == [("sample", "gemini", [GEMINI])]
    assert found(path, "bedrock") == [("sample", "bedrock", [USER])]
    assert found(path, "openai-responses") == [("sample", "openai-responses", [USER])]


def test_several_requests_are_distinguished(tmp_path: Path) -> None:
    """Requests have their own ids, or their places; a value that is not a request is a problem."""
    values = [{"messages": [USER], "id": "first"}, [TOOL], {"input": []}, {"said": 1}, [1]]
    path = tmp_path / "many.json"
    path.write_text(json.dumps(values))
    lines = tmp_path / "many.jsonl"
    lines.write_text("\n".join(json.dumps(value) for value in values) + "\n{broken")
    for file, place, problems in ((path, "item", 2), (lines, "line", 3)):
        source = RequestFile(file)
        ids = [request.id for request in source.requests()]
        assert ids == ["first", f"{place} 2", f"{place} 3"]
        assert len(source.problems) == problems


def test_a_file_with_a_message_per_line_is_a_request(tmp_path: Path) -> None:
    """This holds for a file whose name says nothing about its form, too."""
    text = "\n".join(json.dumps(message) for message in (USER, TOOL))
    for name in ("log.jsonl", "log"):
        path = tmp_path / name
        path.write_text(text)
        assert found(path) == [("log", "openai", [USER, TOOL])]
    path.write_text(json.dumps([USER], indent=1))
    assert found(path) == [("log", "openai", [USER])]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (
            {"sessionId": "s", "projectHash": "p", "messages": []},
            "is a log of gemini-cli, and holds no requests: `toolledger import` reads it",
        ),
        (
            [{"run_type": "llm", "trace_id": "t"}],
            "is a log of langsmith, and holds no requests: `toolledger import` reads it",
        ),
        (
            [{"type": "user", "uuid": "u", "sessionId": "s", "message": USER}],
            "is a log of claude-code, and holds no requests: `toolledger import` reads it",
        ),
        ([{"object": "thread.message"}], "is messages of a thread of OpenAI's Assistants"),
    ],
)
def test_the_log_of_a_program_is_not_taken_for_a_request(
    path: Path, value: Any, named: str
) -> None:
    """The error names the program; with a provider's name the file is read as it stands."""
    lines = value if isinstance(value, list) else [value]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path.write_text(json.dumps(value))
    for each in (path, path.with_suffix(".jsonl")):
        with pytest.raises(SourceError, match=re.escape(named)):
            found(each)
    if isinstance(value, dict):
        assert found(path, "openai")[0][1:] == ("openai", [])


@pytest.mark.parametrize("text", ["[]", "{}", "1", "[[]]", '{"messages": "hello"}', "[1, 2]"])
def test_a_file_without_messages_is_refused(path: Path, text: str) -> None:
    """The error says which forms can be read."""
    path.write_text(text)
    with pytest.raises(SourceError, match=r"holds no messages.*messages, contents, input"):
        found(path)


def test_a_file_nested_too_deeply_is_refused(path: Path) -> None:
    """The error is one line, not a traceback of the interpreter."""
    path.write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(SourceError, match="JSON"):
        found(path)
