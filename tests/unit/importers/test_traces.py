"""Traces: OpenTelemetry spans as OTLP, Tempo, Jaeger and the console write them, and Langfuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import foreign_logs as logs
from support.foreign_logs import (
    CALLS,
    DONE,
    OBSERVATIONS,
    RESULTS,
    WORDS,
    chat,
    export,
    span,
    value,
)
from support.importing import AT, Importer, clock, states

from eventstore import Completed, Failed, Tool, ToolCompleted
from eventstore.importers import SourceError, read


def test_spans_with_messages_are_read_once(importer: Importer) -> None:
    """Requests repeat what was said: only the new is told, results have their tools' spans."""
    tools = importer.document(
        "trace.json",
        export(
            chat(5, 6, [WORDS, CALLS, RESULTS], DONE),
            span("execute_tool find", 2, 3.5, gen_ai__tool__call__id="a"),
            span(
                "execute_tool find",
                2,
                4,
                gen_ai__tool__call__id="b",
                status={"code": "STATUS_CODE_ERROR", "message": "it broke"},
            ),
            chat(0, 1, [WORDS], CALLS, gen_ai__system_instructions=[{"type": "text"}]),
        ),
    )
    assert importer.ids == ["c"]
    assert states(tools) == [("find", "Completed"), ("find", "Failed")]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 3_500_000)
    assert list(importer.said()) == [("user", "go"), ("assistant", "done")]
    events = [recorded.event for recorded in importer.store.conversation("c").events()]
    assert next(e.duration for e in events if isinstance(e, ToolCompleted)) == 1_500_000


def test_spans_without_messages_tell_their_calls(importer: Importer) -> None:
    """Conversations are told apart; a span without any stands with its parent's, or its trace."""
    tools = importer.lines(
        "spans.jsonl",
        export(
            span("invoke_agent", 0, 9, spanId="root", gen_ai__conversation__id="one"),
            span(
                "execute_tool f",
                1,
                2,
                "root",
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__call__arguments='{"n":1}',
                gen_ai__tool__call__result='{"content":[{"type":"text","text":"x"}],"isError":true}',
            ),
            span("other", 3, 9, spanId="other", gen_ai__conversation__id="two"),
        ),
        export(
            span(
                "g",
                4,
                5,
                "other",
                openinference__span__kind="TOOL",
                tool__name="g",
                input__value='{"n":2}',
                output__value="y",
            ),
            span("GET /", 6, 7, "other"),
        ),
    )
    assert importer.ids == ["one", "two"]
    assert states(tools) == [("f", "Failed"), ("g", "Completed")]
    assert [tool.call.arguments for tool in tools] == [{"n": 1}, {"n": 2}]


FLAT = {
    "gen_ai__prompt__0__role": "user",
    "gen_ai__prompt__0__content": "go",
    "gen_ai__completion__0__role": "assistant",
    "gen_ai__completion__0__tool_calls__0__id": "a",
    "gen_ai__completion__0__tool_calls__0__name": "find",
    "gen_ai__completion__0__tool_calls__0__arguments": '{"n":1}',
}
OPEN_INFERENCE = {
    "llm__input_messages__0__message__role": "user",
    "llm__input_messages__0__message__content": "go",
    "llm__output_messages__0__message__role": "assistant",
    "llm__output_messages__0__message__tool_calls__0__tool_call__id": "a",
    "llm__output_messages__0__message__tool_calls__0__tool_call__function__name": "find",
    "llm__output_messages__0__message__tool_calls__0__tool_call__function__arguments": '{"n":1}',
}
EVENTS = [
    {"name": "gen_ai.user.message", "attributes": [{"key": "content", "value": value("go")}]},
    {
        "name": "gen_ai.choice",
        "attributes": [
            {
                "key": "message",
                "value": value(
                    json.dumps(
                        {
                            "tool_calls": [
                                {"id": "a", "function": {"name": "find", "arguments": '{"n":1}'}}
                            ]
                        }
                    )
                ),
            }
        ],
    },
]


@pytest.mark.parametrize(
    "fields",
    [FLAT, OPEN_INFERENCE, {"events": EVENTS}],
    ids=["traceloop", "open-inference", "events"],
)
def test_messages_of_other_conventions_are_read(importer: Importer, fields: dict[str, Any]) -> None:
    """Messages stand in flat attributes, or in the events of the span."""
    tools = importer.document(
        "trace.json",
        export(
            span("outer", 0, 9, spanId="outer", **FLAT),
            span("chat", 0, 1, "outer", **fields),
            span(
                "execute_tool find",
                2,
                3,
                gcp__vertex__agent__tool_call_args='{"n":1}',
                gcp__vertex__agent__tool_response="x",
            ),
        ),
    )
    assert importer.ids == ["trace-t"]
    assert states(tools) == [("find", "Completed")]
    assert list(importer.said()) == [("user", "go")]


def test_the_forms_of_tempo_jaeger_and_the_console_are_read(importer: Importer) -> None:
    """Jaeger's times are microseconds, the console's are text."""
    tool = span("execute_tool f", 1, 2, gen_ai__tool__call__id="a")
    tempo = {"batches": [{"instrumentationLibrarySpans": [{"spans": [tool]}]}]}
    tags = [{"key": "gen_ai.operation.name", "value": "execute_tool"}]
    jaeger = {
        "traceID": "u",
        "spanID": "1",
        "operationName": "execute_tool g",
        "startTime": AT,
        "duration": 500,
        "tags": [*tags, {"key": "error", "value": True}],
        "logs": [{"fields": [{"key": "exception.message", "value": "it broke"}]}],
    }
    console = {
        "name": "execute_tool h",
        "context": {"trace_id": "v", "span_id": "1"},
        "parent_id": None,
        "start_time": clock(0),
        "end_time": clock(1),
        "status": {"status_code": "UNSET"},
        "attributes": {"gen_ai.tool.name": "h", "gen_ai.tool.call.id": "b"},
    }
    tools = importer.lines(
        "all.jsonl", tempo, {"data": [{"traceID": "u", "spans": [jaeger]}]}, console
    )
    assert importer.ids == ["trace-t", "trace-u", "trace-v"]
    assert states(tools) == [("f", "Completed"), ("g", "Failed"), ("h", "Completed")]
    assert [tool.ended_at for tool in tools] == [AT + 2_000_000, AT + 500, AT + 1_000_000]


def test_spans_that_a_console_printed_are_read_under_any_suffix(importer: Importer) -> None:
    """Each stands over several lines, one after the other; other text is no span."""
    spans = [
        {
            "name": f"execute_tool {name}",
            "context": {"trace_id": "v", "span_id": name},
            "start_time": clock(0),
            "end_time": clock(1),
            "attributes": {"gen_ai.tool.name": name, "gen_ai.tool.call.id": name},
        }
        for name in ("f", "g")
    ]
    printed = "\n".join(json.dumps(each, indent=4) for each in spans)
    for suffix in ("json", "txt", "log"):
        path = importer.folder / f"spans.{suffix}"
        path.write_text(printed)
        tools = importer.file(path)
        assert states(tools)[:2] == [("f", "Completed"), ("g", "Completed")], suffix
    path = importer.folder / "two.json"
    path.write_text('{"a": 1,\n "b": 2}\n{"a": 1}')
    with pytest.raises(SourceError, match=r"two\.json is not JSON \(Extra data"):
        list(read(path).transcripts())


# Phoenix


@pytest.mark.parametrize("form", ["rows", "list", "spans", "page"])
def test_spans_of_phoenix_are_read_in_each_form(importer: Importer, form: str) -> None:
    """Rows of a data frame have columns; its client gives spans with flat attributes."""
    rows = logs.phoenix_rows()
    if form in ("spans", "page"):
        rows = [logs.phoenix_span(row) for row in rows]
    if form == "rows":
        tools = importer.lines("spans.jsonl", *rows)
    else:
        tools = importer.document("spans.json", {"data": rows} if form == "page" else rows)
    assert importer.ids == ["trace-t"]
    assert states(tools) == [("find", "Failed")]
    assert tools[0].call.arguments == {"q": "x"}
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 500_000, AT + 1_500_000)
    assert list(importer.said()) == [("system", "You find."), ("user", "go"), ("assistant", "Oh.")]


# LangSmith


def test_runs_of_langsmith_are_read(importer: Importer) -> None:
    """A call is found by its id, or by what it was given; one that asks somebody waits."""
    tools = importer.lines("runs.jsonl", *logs.langsmith_runs())
    assert importer.ids == ["thread"]
    assert [(tool.call.id, tool.status.name) for tool in tools] == [
        ("good", "Completed"),
        ("bad", "Failed"),
        ("open", "Pending"),
        ("asks", "Pending"),
    ]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 2_000_000, AT + 4_000_000)
    assert isinstance(tools[1].status, Failed)
    assert tools[1].status.failure.message.startswith("ValueError('gone')\nTraceback")
    assert list(importer.said()) == [("user", "go"), ("assistant", "I look.")]


def test_runs_of_langsmith_may_stand_in_one_another(importer: Importer) -> None:
    """Its client gives a run with its children so; a run without a thread has its trace's id."""
    root, *inner = logs.langsmith_runs()
    root["extra"] = None
    importer.document("run.json", root | {"child_runs": inner})
    assert importer.ids == ["trace-root"]
    importer.document("page.json", {"runs": [root | {"id": "other", "trace_id": "u"}, *inner]})
    assert importer.ids == ["trace-root", "trace-root"]


def test_a_provider_s_own_answer_in_a_run_of_langsmith_is_read(importer: Importer) -> None:
    """A wrapped client has messages and an answer as its provider writes them."""
    call = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    model = logs.run(
        "llm",
        "m",
        1,
        2,
        inputs={"messages": [{"role": "user", "content": "go"}]},
        outputs={"choices": [{"index": 0, "message": said}]},
    )
    text = logs.run("llm", "n", 3, 4, outputs={"generations": [[{"text": "Done."}]]})
    tools = importer.document(
        "runs.json", [model, logs.run("tool", "t", 2, 3, outputs={"output": "x"}), text]
    )
    assert states(tools) == [("find", "Completed")]
    assert list(importer.said()) == [("user", "go"), ("assistant", "Done.")]


# Langfuse


def test_a_trace_of_langfuse_pairs_its_tools_by_name_and_arguments(importer: Importer) -> None:
    """Its observations have no ids of calls; a failure has its level."""
    tools = importer.document("trace.json", {"trace": {"id": "t"}, "observations": OBSERVATIONS})
    assert importer.ids == ["t"]
    assert states(tools) == [("find", "Failed"), ("find", "Completed")]
    assert [tool.ended_at for tool in tools] == [AT + 4_000_000, AT + 3_000_000]
    assert list(importer.said()) == [("user", "go"), ("user", "thanks"), ("assistant", "done")]


def test_observations_in_lines_are_grouped_by_their_trace(importer: Importer) -> None:
    """Each trace is a conversation."""
    lines = [{**each, "traceId": name} for name in "tu" for each in OBSERVATIONS]
    assert len(importer.lines("observations.jsonl", *lines)) == 4
    assert importer.ids == ["t", "u"]


def test_traces_of_the_ai_sdk_and_of_strands_are_read(importer: Importer) -> None:
    """One has its messages in parts of its own, the other its calls in events of spans."""
    prompt = [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "a", "toolName": "f", "input": {"n": 1}}
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "a",
                    "toolName": "f",
                    "output": {"type": "text", "value": "x"},
                }
            ],
        },
    ]
    events = [
        {"name": name, "attributes": [{"key": key, "value": value(given)}]}
        for name, key, given in (
            ("gen_ai.tool.message", "content", '{"n":2}'),
            ("gen_ai.choice", "message", '[{"text":"gone"}]'),
        )
    ]
    tools = importer.document(
        "trace.json",
        export(
            span("ai.doGenerate", 0, 1, ai__prompt__messages=json.dumps(prompt))
            | {
                "attributes": [
                    {"key": "ai.prompt.messages", "value": value(json.dumps(prompt))},
                    {"key": "ai.response.text", "value": value("done")},
                ]
            },
            span("execute_tool g", 2, 3, tool__status="error", events=events),
        ),
    )
    assert states(tools) == [("f", "Completed"), ("g", "Failed")]
    assert tools[1].call.arguments == {"n": 2}
    assert list(importer.said()) == [("user", "go"), ("assistant", "done")]


ROME = {"function_call": {"name": "find", "args": {"n": 1}}}
FOUND = {"function_response": {"name": "find", "response": {"found": True}}}


ASKED = ("user", {"text": "go"})


def _contents(*parts: tuple[str, dict[str, Any]]) -> str:
    """Return a request to Gemini as Google's ADK writes it."""
    config = {"system_instruction": "You find."}
    contents = [{"role": role, "parts": [part]} for role, part in parts]
    return json.dumps({"config": config, "contents": contents})


def _answered(part: dict[str, Any]) -> str:
    return json.dumps({"content": {"role": "model", "parts": [part]}, "finish_reason": "STOP"})


def _result(tool: Tool) -> object:
    assert isinstance(tool.status, Completed)
    return tool.status.response.result


def test_calls_of_the_adk_have_the_ids_of_their_runs(importer: Importer) -> None:
    """Its requests have Gemini's contents in snake case, and no ids; they end after the runs."""
    tools = importer.document(
        "trace.json",
        export(
            span(
                "call_llm",
                0,
                4,
                gcp__vertex__agent__llm_request=_contents(ASKED),
                gcp__vertex__agent__llm_response=_answered(ROME),
            ),
            span(
                "execute_tool find",
                2,
                3,
                gen_ai__tool__call__id="adk-1",
                gcp__vertex__agent__tool_call_args='{"n": 1}',
                gcp__vertex__agent__tool_response='{"found": true}',
            ),
            span(
                "call_llm",
                5,
                6,
                gcp__vertex__agent__llm_request=_contents(ASKED, ("model", ROME), ("user", FOUND)),
                gcp__vertex__agent__llm_response=_answered({"text": "here"}),
            ),
        ),
    )
    assert [(tool.call.id, tool.status.name) for tool in tools] == [("adk-1", "Completed")]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 2_000_000, AT + 3_000_000)
    reported = [("system", "You find."), ("user", "go"), ("assistant", "here")]
    assert list(importer.said()) == reported


def test_contents_without_spans_of_tools_pair_calls_and_results(importer: Importer) -> None:
    """Two calls of one name without ids are two calls, each with its own result."""
    other = {"function_call": {"name": "find", "args": {"n": 2}}}
    gone = {"function_response": {"name": "find", "response": {"found": False}}}
    contents = (ASKED, ("model", ROME), ("user", FOUND), ("model", other), ("user", gone))
    tools = importer.document(
        "trace.json",
        export(
            span("call_llm", 5, 6, gcp__vertex__agent__llm_request=_contents(*contents)),
        ),
    )
    given = [(tool.call.arguments, tool.status.name, _result(tool)) for tool in tools]
    assert given == [
        ({"n": 1}, "Completed", '{"found":true}'),
        ({"n": 2}, "Completed", '{"found":false}'),
    ]


def test_calls_alone_are_an_answer_of_the_ai_sdk(importer: Importer) -> None:
    """A list of calls is an answer, in an observation of Langfuse and in the span's attribute."""
    made = [{"toolCallId": "a", "toolName": "find", "input": '{"n":1}'}]
    observed = {"traceId": "t", "level": "DEFAULT", "startTime": clock(0), "endTime": clock(1)}
    tools = importer.document(
        "observed.json",
        [
            {**observed, "id": "1", "type": "GENERATION", "output": json.dumps(made)},
            {
                **observed,
                "id": "2",
                "type": "TOOL",
                "name": "execute_tool find",
                "startTime": clock(2),
                "input": '{"n":1}',
                "output": "{}",
                "metadata": json.dumps(
                    {
                        "attributes": {
                            "gen_ai.tool.call.id": "a",
                            "gcp.vertex.agent.tool_response": '{"found": true}',
                        }
                    }
                ),
            },
        ],
    )
    assert [(tool.call.id, tool.call.name, _result(tool)) for tool in tools] == [
        ("a", "find", '{"found": true}')
    ]
    spans = importer.document(
        "spans.json",
        export(
            span(
                "ai.generateText.doGenerate",
                0,
                1,
                ai__response__text="hm",
                ai__response__toolCalls=json.dumps(made),
            ),
        ),
    )
    assert [tool.call.id for tool in spans] == ["a"]
