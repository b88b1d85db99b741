"""Logs as other programs write them, made by hand."""

from __future__ import annotations

import json
from typing import Any

from support.importing import AT, clock


def codex(kind: str, seconds: float, **payload: Any) -> dict[str, Any]:
    """Return a record of a rollout."""
    return {"timestamp": clock(seconds), "type": kind, "payload": payload}


def item(kind: str, seconds: float, **fields: Any) -> dict[str, Any]:
    """Return an item of a response in a rollout."""
    return codex("response_item", seconds, type=kind, **fields)


def gemini_call(name: str, status: str, **response: Any) -> dict[str, Any]:
    """Return a call as Gemini CLI writes it, with its result."""
    result = [{"functionResponse": {"id": name, "name": name, "response": response}}]
    return {
        "id": name,
        "name": name,
        "args": {"n": 1},
        "status": status,
        "timestamp": clock(9),
        "result": result if response else [],
    }


GEMINI: list[dict[str, Any]] = [
    {"id": "1", "timestamp": clock(0), "type": "user", "content": [{"text": "go"}]},
    {"id": "2", "timestamp": clock(1), "type": "info", "content": "a notice"},
    {
        "id": "3",
        "timestamp": clock(2),
        "type": "gemini",
        "content": "I look.",
        "toolCalls": [
            gemini_call("good", "success", output="here"),
            gemini_call("bad", "error", error="gone"),
            gemini_call("no", "cancelled", error="the user refused"),
            gemini_call("open", "executing"),
        ],
    },
]


def v0(number: int, source: str, **fields: Any) -> dict[str, Any]:
    """Return an event of V0."""
    return {"id": number, "timestamp": clock(number).rstrip("Z"), "source": source, **fields}


def metadata(call_id: str, arguments: str) -> dict[str, Any]:
    """Return what an event of V0 knows of its call."""
    made = {"id": call_id, "function": {"name": "execute_bash", "arguments": arguments}}
    response = {"id": "r", "choices": [{"message": {"tool_calls": [made]}}]}
    return {"tool_call_id": call_id, "function_name": "execute_bash", "model_response": response}


V0 = [
    v0(0, "agent", action="system", args={"content": "You are."}),
    v0(1, "user", action="message", args={"content": "fix it"}),
    v0(
        2,
        "agent",
        action="run",
        args={"command": "ls", "thought": "look"},
        tool_call_metadata=metadata("a", '{"command":"ls","security_risk":"LOW"}'),
    ),
    v0(
        3,
        "agent",
        observation="run",
        cause=2,
        content="no such file",
        extras={"metadata": {"exit_code": 2}},
        tool_call_metadata=metadata("a", "{}"),
    ),
    v0(4, "agent", action="read", args={"path": "x"}, tool_call_metadata=metadata("b", "{}")),
    v0(5, "user", observation="user_rejected", content="no", extras={}, cause=4)
    | {"tool_call_metadata": metadata("b", "{}")},
    v0(6, "agent", action="browse", args={"url": "u", "thought": ""}),
    v0(7, "agent", observation="browse", cause=6, content="a page", extras={}),
    v0(8, "agent", observation="error", content="the model erred", extras={}),
    v0(9, "environment", observation="agent_state_changed", content="", extras={}),
]


def part(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a part of a message of pydantic-ai."""
    return {"part_kind": kind, **fields}


LANGCHAIN_CALL = {"name": "find", "args": {"n": 1}, "id": "a", "type": "tool_call"}
"""A call in a message of LangChain."""

PYDANTIC = [
    {
        "kind": "request",
        "parts": [
            part("system-prompt", content="You are.", timestamp=clock(0)),
            part("user-prompt", content="go", timestamp=clock(0)),
        ],
    },
    {
        "kind": "response",
        "timestamp": clock(1),
        "parts": [
            part("text", content="I look."),
            part("tool-call", tool_name="find", args='{"n":1}', tool_call_id="a"),
            part("tool-call", tool_name="find", args={"n": 2}, tool_call_id="b"),
            part("tool-call", tool_name="find", args=None, tool_call_id="c"),
        ],
    },
    {
        "kind": "request",
        "parts": [
            part("tool-return", tool_name="find", content={"x": 1}, tool_call_id="a")
            | {"timestamp": clock(2)},
            part("retry-prompt", tool_name="find", content="again", tool_call_id="b"),
            part("tool-return", tool_name="find", content="no", tool_call_id="c", outcome="denied"),
        ],
    },
]


def tool_message(call_id: str, kind: str | None = None) -> dict[str, Any]:
    """Return a result in a sample, with an error of some kind."""
    message = {"role": "tool", "tool_call_id": call_id, "function": "bash", "content": "out"}
    return message | ({"error": {"type": kind, "message": f"a {kind}"}} if kind else {})


def sample(**fields: Any) -> dict[str, Any]:
    """Return a sample of a log."""
    made = [
        {"id": name, "function": "bash", "arguments": {"cmd": f"attachment://{name}"}}
        for name in "ab"
    ]
    return {
        "id": 1,
        "epoch": 2,
        "attachments": {"a": "ls", "b": "id"},
        "messages": [
            {"id": "m0", "role": "user", "content": "go"},
            {"id": "m1", "role": "assistant", "content": "", "tool_calls": made},
            tool_message("a"),
            tool_message("b", "timeout"),
            tool_message("c", "approval"),
        ],
        "events": [
            {"event": "sample_init", "timestamp": clock(0)},
            {
                "event": "model",
                "timestamp": clock(1),
                "completed": clock(2),
                "output": {"choices": [{"message": {"id": "m1"}}]},
            },
            {
                "event": "tool",
                "id": "a",
                "timestamp": clock(3),
                "completed": clock(4),
                "working_time": 0.5,
            },
        ],
        **fields,
    }


def nanoseconds(seconds: float) -> str:
    """Return a time after `AT` as OTLP writes it."""
    return str(AT * 1000 + round(seconds * 1_000_000_000))


def value(given: Any) -> dict[str, Any]:
    """Return a value as OTLP writes it."""
    if isinstance(given, list):
        return {"arrayValue": {"values": [value(each) for each in given]}}
    if isinstance(given, dict):
        pairs = [{"key": key, "value": value(each)} for key, each in given.items()]
        return {"kvlistValue": {"values": pairs}}
    return {"intValue": str(given)} if isinstance(given, int) else {"stringValue": given}


def span(name: str, start: float, end: float, parent: str = "", **fields: Any) -> dict[str, Any]:
    """Return a span; its attributes have a `__` for each dot in their names."""
    own = {"status", "events", "spanId"}
    attributes = {key.replace("__", "."): v for key, v in fields.items() if key not in own}
    return {
        "traceId": "t",
        "spanId": fields.get("spanId", f"{name}-{start}"),
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": nanoseconds(start),
        "endTimeUnixNano": nanoseconds(end),
        "status": fields.get("status", {}),
        "events": fields.get("events", []),
        "attributes": [{"key": key, "value": value(each)} for key, each in attributes.items()],
    }


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    """Return an export of spans."""
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def reported(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the form of the GenAI conventions."""
    return {"role": role, "parts": list(parts)}


WORDS = reported("user", {"type": "text", "content": "go"})


CALLS = reported(
    "assistant",
    {"type": "tool_call", "id": "a", "name": "find", "arguments": {"n": 1}},
    {"type": "tool_call", "id": "b", "name": "find", "arguments": {"n": 2}},
)


RESULTS = reported(
    "tool",
    {"type": "tool_call_response", "id": "a", "response": "here"},
    {"type": "tool_call_response", "id": "b", "response": "gone"},
)


DONE = reported("assistant", {"type": "text", "content": "done"})


def chat(start: float, end: float, inputs: list[Any], *outputs: Any, **more: Any) -> dict[str, Any]:
    """Return the span of a request to a model."""
    return span(
        "chat m",
        start,
        end,
        gen_ai__conversation__id="c",
        gen_ai__input__messages=json.dumps(inputs),
        gen_ai__output__messages=json.dumps(outputs),
        **more,
    )


def observation(kind: str, name: str, start: float, end: float, **fields: Any) -> dict[str, Any]:
    """Return an observation."""
    return {
        "id": f"{name}-{start}",
        "type": kind,
        "name": name,
        "startTime": clock(start),
        "endTime": clock(end),
        "level": "DEFAULT",
        **fields,
    }


OPENAI_CALL = {"id": "a", "type": "function", "function": {"name": "find", "arguments": '{"n":1}'}}


OBSERVATIONS = [
    observation("TOOL", "running tool: find", 2, 3, input={"n": 2}, output="two"),
    observation("TOOL", "find", 2, 4, input='{"n":1}', level="ERROR", statusMessage="it broke"),
    observation(
        "GENERATION",
        "chat",
        0,
        1,
        input=[
            {"role": "user", "content": "go"},
            {"role": "tool", "content": {"type": "function", "function": {"name": "find"}}},
        ],
        output=json.dumps(
            {
                "role": "assistant",
                "content": "",
                "additional_kwargs": {
                    "tool_calls": [
                        OPENAI_CALL,
                        {**OPENAI_CALL, "id": "b"}
                        | {"function": {"name": "find", "arguments": '{"n":2}'}},
                    ]
                },
            }
        ),
    ),
    observation("GENERATION", "chat", 5, 6, input="thanks", output={"content": "done"}),
    observation("SPAN", "other", 0, 9),
]


def run(kind: str, own: str, start: float, end: float | None, **fields: Any) -> dict[str, Any]:
    """Return a run of LangSmith; its parent is the run `root`."""
    given: dict[str, Any] = {
        "id": own,
        "trace_id": "root",
        "dotted_order": f"1Zroot.2Z{own}",
        "parent_run_id": "root",
        "name": "find" if kind == "tool" else kind,
        "run_type": kind,
        "start_time": clock(start).rstrip("Z"),
        "end_time": None if end is None else clock(end).rstrip("Z"),
        "error": None,
        "inputs": {},
        "outputs": None,
        "extra": {"metadata": {}},
    }
    return given | fields


def serialised(kind: str, content: str, **fields: Any) -> dict[str, Any]:
    """Return a message as LangChain serialises it."""
    names = ["langchain", "schema", "messages", kind]
    return {
        "lc": 1,
        "type": "constructor",
        "id": names,
        "kwargs": {"content": content, **fields},
    }


def langsmith_runs() -> list[dict[str, Any]]:
    """Return the runs of an agent with four calls: good, failed, without an end, and paused."""
    calls = [
        {"name": "find", "args": {"q": each}, "id": each, "type": "tool_call"}
        for each in ("good", "bad", "open", "asks")
    ]
    asked = {"messages": [[serialised("HumanMessage", "go", type="human")]]}
    answer = serialised("AIMessage", "I look.", type="ai", tool_calls=calls)
    said = {"type": "tool", "content": "here", "tool_call_id": "good", "status": "success"}
    broke = "ValueError('gone')Traceback (most recent call last):\n  File"
    paused = "GraphInterrupt((Interrupt(value='may I?'),))Traceback (most recent call last):"
    root = run("chain", "root", 0, 9) | {"parent_run_id": None}
    root["extra"] = {"metadata": {"thread_id": "thread"}}
    return [
        root,
        run("llm", "m", 1, 2, inputs=asked, outputs={"generations": [[{"message": answer}]]}),
        run("tool", "t1", 3, 4, inputs={"q": "good"}, outputs={"output": said}),
        run("chain", "tools", 3, 5),
        run("tool", "t2", 3, 5, inputs={"input": "{'q': 'bad'}"}, error=broke)
        | {"parent_run_id": "tools", "extra": {"tool_call_id": "bad"}},
        run("tool", "t3", 3, None, inputs={"q": "open"}),
        run("tool", "t4", 3, 6, inputs={"q": "asks"}, error=paused),
    ]


def phoenix_row(kind: str, own: str, start: float, **attributes: Any) -> dict[str, Any]:
    """Return a span as a row of Phoenix's data frame; `__` in a name stands for a dot."""
    columns = {f"attributes.{key.replace('__', '.')}": value for key, value in attributes.items()}
    return {
        "name": kind.lower(),
        "span_kind": kind,
        "parent_id": None,
        "start_time": AT // 1000 + int(start * 1000),
        "end_time": AT // 1000 + int(start * 1000) + 500,
        "status_code": "OK",
        "status_message": "",
        "events": [],
        "context.span_id": own,
        "context.trace_id": "t",
        "attributes.llm.model_name": None,
        **columns,
    }


def phoenix_rows() -> list[dict[str, Any]]:
    """Return the spans of a model with a call, and of the tool, which failed."""
    call = {
        "tool_call.id": "a",
        "tool_call.function.name": "find",
        "tool_call.function.arguments": '{"q":"x"}',
    }
    parts = [{"message_content.type": "text", "message_content.text": "go"}]
    asked = [
        {"message.role": "system", "message.content": "You find."},
        {"message.role": "user", "message.contents": parts},
    ]
    answered = [{"message.role": "assistant", "message.tool_calls": [call]}]
    said = {"message.role": "tool", "message.tool_call_id": "a", "message.content": "it broke"}
    return [
        phoenix_row("LLM", "1", 0, llm__input_messages=asked, llm__output_messages=answered),
        phoenix_row("TOOL", "2", 1, tool__name="find", input__value='{"q":"x"}')
        | {"status_code": "ERROR", "status_message": "ValueError: it broke"},
        phoenix_row("LLM", "3", 2, llm__input_messages=[*asked, *answered, said])
        | {
            "attributes.llm.output_messages": [
                {"message.role": "assistant", "message.content": "Oh."}
            ]
        },
    ]


def phoenix_span(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as Phoenix's client gives the span: attributes are flat, times are text."""
    flat: dict[str, Any] = {}

    def put(key: str, value: Any) -> None:
        if isinstance(value, list):
            for number, each in enumerate(value):
                for name, inner in each.items():
                    put(f"{key}.{number}.{name}", inner)
        elif value is not None:
            flat[key] = value

    for key, value in row.items():
        if key.startswith("attributes."):
            put(key.removeprefix("attributes."), value)
    kept = ("name", "span_kind", "parent_id", "status_code", "status_message", "events")
    span = {key: row[key] for key in kept}
    span["context"] = {"trace_id": row["context.trace_id"], "span_id": row["context.span_id"]}
    times = {key: clock(row[key] / 1000 - AT / 1e6) for key in ("start_time", "end_time")}
    return span | times | {"attributes": flat}
