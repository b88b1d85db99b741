"""The library's own formats keep the contract that is shipped for those of users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import chat_exports as chats
from support import foreign_logs as logs
from support.program_databases import goose_request, goose_response
from support.program_files import DROID, DROID_STREAM, PI, values_of
from support.tiers import rounds

from eventstore import EventStore
from eventstore.domain.json_types import is_json_object
from eventstore.importers import Transcript, import_file, source
from eventstore.importers.reading.file_format import FileContent, FileFormat, Unit
from eventstore.testing import ImporterContract

DATA = Path(__file__).parents[2] / "data" / "frameworks"


def named(name: str) -> FileFormat:
    """Return a format of the library."""
    return next(each for each in source.FORMATS if each.name == name)


class BuiltIn(ImporterContract):
    """The files of each format are damaged more often in the long tier."""

    damaged_copies = rounds(40, 1000)


class TestCodex(BuiltIn):
    """Rollouts of Codex CLI."""

    file_format = named("codex")
    files = (
        (
            [
                logs.codex("session_meta", 0, id="s"),
                logs.item(
                    "message", 1, role="user", content=[{"type": "input_text", "text": "go"}]
                ),
                logs.item("function_call", 1, name="f", arguments="{}", call_id="a"),
                logs.item("function_call_output", 2, call_id="a", output={"content": "x"}),
            ],
            {"s": 3},
        ),
    )


class TestGemini(BuiltIn):
    """Sessions of Gemini CLI."""

    file_format = named("gemini-cli")
    files = (
        ({"sessionId": "s", "projectHash": "h", "messages": logs.GEMINI}, {"s": 6}),
        (
            values_of("gemini-cli-0.61.0-exit-codes.jsonl"),
            {"43ce8be0-8814-4c95-84bc-f70873a1c31f": 16},
        ),
    )


class TestOpenCode(BuiltIn):
    """What OpenCode exports."""

    file_format = named("opencode")
    files = ((values_of("opencode-1.18.33.export.json"), {"ses_de4cea442ffer5kE09UDdS6LTL": 19}),)


class TestQwen(BuiltIn):
    """Sessions of Qwen Code."""

    file_format = named("qwen-code")
    files = (
        (
            values_of("qwen-code-0.24.4.jsonl"),
            {"30707d98-ac1c-468f-a215-edbfaee162e0": 19},
        ),
    )


class TestCopilot(BuiltIn):
    """Sessions of GitHub Copilot CLI."""

    file_format = named("copilot-cli")
    files = (
        (
            values_of("copilot-cli-1.0.102.events.jsonl"),
            {"32ef77d9-0391-471a-b418-29582f52893e": 16},
        ),
    )


class TestKimi(BuiltIn):
    """Sessions of Kimi Code."""

    file_format = named("kimi-code")
    files = ((values_of("kimi-code-2.1.0.wire.jsonl"), {"given": 19}),)


class TestContinue(BuiltIn):
    """Sessions of Continue."""

    file_format = named("continue")
    files = (
        (
            values_of("continue-1.5.47.session.json"),
            {"4a40c626-d129-4f83-ba2a-3ec3bde9f1fd": 13},
        ),
    )


class TestCline(BuiltIn):
    """Tasks of Cline in an editor."""

    file_format = named("cline")
    files = ((values_of("cline-vscode-2026-04.api_conversation_history.json")[:-1], {"given": 7}),)


class TestClineCli(BuiltIn):
    """Sessions of Cline's command line."""

    file_format = named("cline-cli")
    files = ((values_of("cline-cli-3.0.65.messages.json"), {"1795753212444_8bk6o": 15}),)


class TestPi(BuiltIn):
    """Sessions of pi."""

    file_format = named("pi")
    files = ((PI, {"s": 6}),)


class TestDroid(BuiltIn):
    """Sessions of Factory Droid, and its stream."""

    file_format = named("droid")
    files = ((DROID, {"s": 4}), (DROID_STREAM, {"s": 7}))


class TestOpenHands(BuiltIn):
    """Trajectories of OpenHands."""

    file_format = named("openhands")
    files = (([{"instance_id": "i", "history": logs.V0}], {"i": 9}), (logs.V0, {"given": 9}))


class TestPydanticAi(BuiltIn):
    """Messages of pydantic-ai."""

    file_format = named("pydantic-ai")
    files = ((logs.PYDANTIC, {"given": 6}),)


class TestInspect(BuiltIn):
    """Logs of inspect_ai."""

    file_format = named("inspect")
    files = (({"eval": {"task": "t"}, "samples": [logs.sample()]}, {"given/1/epoch-2": 6}),)


class TestLangfuse(BuiltIn):
    """Traces of Langfuse."""

    file_format = named("langfuse")
    files = (([{"trace": {"id": "t"}, "observations": logs.OBSERVATIONS}], {"t": 6}),)


class TestOpenTelemetry(BuiltIn):
    """Spans of OpenTelemetry."""

    file_format = named("otlp")
    files = (
        (
            [logs.export(logs.chat(0, 1, [logs.WORDS], logs.CALLS), logs.span("f", 1, 2))],
            {"c": 2},
        ),
    )


class TestPhoenix(BuiltIn):
    """Spans of Phoenix, as rows of its data frame and as its client gives them."""

    file_format = named("otlp")
    files = (
        (logs.phoenix_rows(), {"trace-t": 5}),
        ([*map(logs.phoenix_span, logs.phoenix_rows())], {"trace-t": 5}),
    )


class TestLangSmith(BuiltIn):
    """Runs of LangSmith."""

    file_format = named("langsmith")
    files = ((logs.langsmith_runs(), {"thread": 4}),)
    grows = False  # a run is exported when its children are


class TestGoose(BuiltIn):
    """Sessions of Goose in lines."""

    file_format = named("goose")
    files = (
        (
            [
                {"working_dir": "/p", "description": "t", "message_count": 2},
                {"role": "assistant", "created": 1_735_787_045, "content": [goose_request("a")]},
                {
                    "role": "user",
                    "created": 1_735_787_046,
                    "content": [goose_response("a", "gone", isError=True)],
                },
            ],
            {"given": 2},
        ),
    )


def saved(name: str) -> Any:
    """Return what a framework wrote."""
    messages: Any = json.loads((DATA / name).read_text())
    return messages


class TestAiSdkInterface(BuiltIn):
    """Messages of the AI SDK's interface."""

    file_format = named("ai-sdk-ui")
    files = (
        ({"messages": saved("ai-sdk-7.0.173.ui-messages.json")}, {"given": 10}),
        (saved("ai-sdk-7.0.173.ui-messages.json"), {"given": 10}),
    )
    grows = False  # a message is written anew as its calls end


class TestAiSdk(BuiltIn):
    """Messages of the AI SDK for the model."""

    file_format = named("ai-sdk")
    files = (
        (saved("ai-sdk-7.0.173.model-messages.json")[1:3], {"given": 2}),
        ({"id": "c", "messages": saved("ai-sdk-7.0.173.model-messages.json")}, {"c": 4}),
    )


class TestOpenAiAgentsForJavaScript(BuiltIn):
    """Sessions and runs of openai-agents for JavaScript."""

    file_format = named("openai-agents-js")
    files = (
        (saved("openai-agents-js-0.20.0.items.json")[1:5], {"given": 4}),
        (saved("openai-agents-js-0.20.0.runstate.json"), {"given": 4}),
    )


class TestLlamaIndex(BuiltIn):
    """Messages of LlamaIndex, and a chat store."""

    file_format = named("llama-index")
    files = (
        (saved("llama-index-core-0.14.25.messages.json"), {"given": 5}),
        ({"store": {"ann": saved("llama-index-core-0.14.25.messages.json")}}, {"given": 5}),
    )


class TestSemanticKernel(BuiltIn):
    """Chat histories of Semantic Kernel."""

    file_format = named("semantic-kernel")
    files = ((saved("semantic-kernel-1.45.0.chat-history.json"), {"given": 6}),)


class TestAgentFramework(BuiltIn):
    """Histories and sessions of Microsoft's Agent Framework."""

    file_format = named("agent-framework")
    files = (
        (
            saved("agent-framework-1.23.0.session.json"),
            {"4a9b6346-e628-4695-ac6c-750a0a88ec46": 5},
        ),
        (
            saved("agent-framework-1.23.0.session.json")["state"]["in_memory"]["messages"],
            {"given": 5},
        ),
    )


class TestHaystack(BuiltIn):
    """Messages of Haystack."""

    file_format = named("haystack")
    files = ((saved("haystack-ai-3.4.1.messages.json"), {"given": 5}),)


class TestAutoGen(BuiltIn):
    """States of AutoGen's agents."""

    file_format = named("autogen")
    files = ((saved("autogen-agentchat-0.7.5.state.json"), {"given": 2}),)


class TestLangChain(BuiltIn):
    """Messages that LangChain serialised."""

    file_format = named("langchain")
    files = (
        (
            [
                {"type": "human", "data": {"content": "go"}},
                {"type": "ai", "data": {"content": "", "tool_calls": [logs.LANGCHAIN_CALL]}},
                {
                    "type": "tool",
                    "data": {"content": "gone", "tool_call_id": "a", "status": "error"},
                },
            ],
            {"given": 3},
        ),
    )


class TestOpenWebUi(BuiltIn):
    """Chats of Open WebUI."""

    file_format = named("open-webui")
    files = ((chats.open_webui(chats.OUTPUT), {"c1": 10}),)
    grows = False


class TestLibreChat(BuiltIn):
    """Conversations of LibreChat."""

    file_format = named("librechat")
    files = ((chats.librechat("messagesTree"), {"l1": 10, "l1/left-1": 1}),)
    grows = False


class LosesLines:
    """A format that passes over every second line."""

    name = "lines"

    def looks_like(self, value: object, unit: Unit) -> bool:
        """Return whether a line is of the format."""
        return unit == "line" and is_json_object(value) and "said" in value

    def read(self, content: FileContent) -> Iterator[Transcript]:
        """Yield the conversation."""
        said = [value["said"] for _, value in content.values if is_json_object(value)]
        messages = [{"role": "user", "content": text} for text in said[::2]]
        yield Transcript(content.unused_name(content.stem), "openai", messages)


def test_a_format_that_loses_messages_is_noticed(tmp_path: Path) -> None:
    """The number of messages of each conversation is known."""

    class Losing(ImporterContract):
        file_format = LosesLines()

    with pytest.raises(AssertionError, match="given"):
        Losing().test_its_conversations_are_imported(
            [{"said": "a"}, {"said": "b"}], {"given": 2}, tmp_path
        )


def test_a_conversation_that_cannot_be_imported_holds_up_no_other(tmp_path: Path) -> None:
    """Its id can be in no database, or its times are none."""

    class Odd(LosesLines):
        def read(self, content: FileContent) -> Iterator[Transcript]:
            for name, times in (("a", [None]), ("\ud800", [None]), ("b", [10**30]), ("c", [None])):
                yield Transcript(name, "openai", [{"role": "user", "content": "x"}], times=times)

    path = tmp_path / "given.jsonl"
    path.write_text('{"said": "a"}\n')
    with EventStore.open("sqlite://") as store:
        done = import_file(store, path, provider=Odd())
        assert done.ids == ["a", "c"]
        assert ["surrogate" in str(done.refused[0]), "9999" in str(done.refused[1])] == [True, True]
