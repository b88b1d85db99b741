"""The library's own formats keep the contract that is shipped for those of users."""

from __future__ import annotations

from support import foreign_logs as logs
from support.tiers import rounds

from eventstore.importers import source
from eventstore.importers.file_format import FileFormat
from eventstore.testing import ImporterContract


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
            ["s"],
        ),
    )


class TestGemini(BuiltIn):
    """Sessions of Gemini CLI."""

    file_format = named("gemini-cli")
    files = (({"sessionId": "s", "projectHash": "h", "messages": logs.GEMINI}, ["s"]),)


class TestOpenHands(BuiltIn):
    """Trajectories of OpenHands."""

    file_format = named("openhands")
    files = (([{"instance_id": "i", "history": logs.V0}], ["i"]), (logs.V0, ["given"]))


class TestPydanticAi(BuiltIn):
    """Messages of pydantic-ai."""

    file_format = named("pydantic-ai")
    files = ((logs.PYDANTIC, ["given"]),)


class TestInspect(BuiltIn):
    """Logs of inspect_ai."""

    file_format = named("inspect")
    files = (({"eval": {"task": "t"}, "samples": [logs.sample()]}, ["given/1/epoch-2"]),)


class TestLangfuse(BuiltIn):
    """Traces of Langfuse."""

    file_format = named("langfuse")
    files = (([{"trace": {"id": "t"}, "observations": logs.OBSERVATIONS}], ["t"]),)


class TestOpenTelemetry(BuiltIn):
    """Spans of OpenTelemetry."""

    file_format = named("otlp")
    files = (
        (
            [logs.export(logs.chat(0, 1, [logs.WORDS], logs.CALLS), logs.span("f", 1, 2))],
            ["c"],
        ),
    )
