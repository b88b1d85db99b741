"""Session logs of agents: Codex CLI, Gemini CLI, OpenHands, pydantic-ai, openai-agents."""

from __future__ import annotations

import json
from typing import Any

from support.importing import AT, Importer, clock, states

# Codex CLI


def codex(kind: str, seconds: float, **payload: Any) -> dict[str, Any]:
    """Return a record of a rollout."""
    return {"timestamp": clock(seconds), "type": kind, "payload": payload}


def item(kind: str, seconds: float, **fields: Any) -> dict[str, Any]:
    """Return an item of a response in a rollout."""
    return codex("response_item", seconds, type=kind, **fields)


def test_a_rollout_of_codex_is_told_by_its_items(importer: Importer) -> None:
    """Exit codes tell failures, of either form of output; events that repeat items are not told."""
    words = [{"type": "input_text", "text": "list"}]
    failed = json.dumps({"output": "no", "metadata": {"exit_code": 2, "duration_seconds": 0.25}})
    tools = importer.lines(
        "rollout.jsonl",
        codex("session_meta", 0, id="session-1", cwd="/"),
        codex("event_msg", 0, type="user_message", message="list"),
        item("message", 0, role="user", content=words),
        item("reasoning", 1, summary=[]),
        item("function_call", 1, name="shell", arguments='{"command":["ls"]}', call_id="a"),
        item("custom_tool_call", 1, name="apply_patch", input="*** Begin", call_id="b"),
        item("function_call_output", 2, call_id="a", output=failed),
        item("custom_tool_call_output", 3, call_id="b", output=[{"type": "input_text"}]),
        item("local_shell_call", 4, call_id="c", action={"command": ["id"]}),
        item("function_call_output", 5, call_id="c", output="Exit code: 1\nWall time: 0\nno"),
        codex(
            "event_msg",
            6,
            type="mcp_tool_call_end",
            call_id="d",
            duration={"secs": 1, "nanos": 5000},
            invocation={"server": "s", "tool": "t", "arguments": {}},
            result={"Ok": {"content": [{"type": "text", "text": "x"}], "isError": True}},
        ),
        item("function_call", 7, name="shell", arguments="{}", call_id="e"),
        item("function_call_output", 8, call_id="e", output={"content": "ok", "success": True}),
    )
    assert importer.ids == ["session-1"]
    assert states(tools) == [
        ("shell", "Failed"),
        ("apply_patch", "Completed"),
        ("local_shell", "Failed"),
        ("mcp__s__t", "Failed"),
        ("shell", "Completed"),
    ]
    assert [(tool.turn, tool.index) for tool in tools[:2]] == [(1, 0), (1, 1)]
    assert tools[1].call.arguments == {"input": "*** Begin"}
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 2_000_000)


# Gemini CLI


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


GEMINI = [
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
GEMINI_STATES = [
    ("good", "Completed"),
    ("bad", "Failed"),
    ("no", "Rejected"),
    ("open", "Pending"),
]


def test_a_session_of_gemini_cli_is_not_taken_for_messages(importer: Importer) -> None:
    """All its calls are found, with their results; notices of the program are left out."""
    head = {"sessionId": "s", "projectHash": "h", "startTime": clock(0)}
    tools = importer.document("session.json", {**head, "messages": GEMINI})
    assert importer.ids == ["s"]
    assert states(tools) == GEMINI_STATES
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 2_000_000, AT + 9_000_000)
    assert list(importer.said()) == [("user", "go"), ("assistant", "I look.")]


def test_a_session_of_gemini_cli_in_lines_is_patched(importer: Importer) -> None:
    """A message that is written again replaces the earlier, and a rewind takes messages back."""
    tools = importer.lines(
        "session.jsonl",
        {"sessionId": "s", "projectHash": "h", "kind": "main"},
        GEMINI[0],
        {"$set": {"lastUpdated": clock(1)}},
        {**GEMINI[2], "toolCalls": []},
        GEMINI[2],
        {"id": "9", "type": "user", "content": "undone"},
        {"$rewindTo": "9"},
    )
    assert states(tools) == GEMINI_STATES
    assert list(importer.said()) == [("user", "go"), ("assistant", "I look.")]


# OpenHands


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


def test_events_of_openhands_v0_are_told(importer: Importer) -> None:
    """An action has the arguments that the model wrote; exit codes and refusals are recognised."""
    tools = importer.document("trajectory.json", V0)
    assert states(tools) == [
        ("execute_bash", "Failed"),
        ("execute_bash", "Rejected"),
        ("browse", "Completed"),
    ]
    assert tools[0].call.arguments == {"command": "ls", "security_risk": "LOW"}
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 2_000_000, AT + 3_000_000)
    assert ("user", "the model erred") in list(importer.said())


def test_runs_of_openhands_are_conversations_each(importer: Importer) -> None:
    """A line of an evaluation's output is named by its instance; pairs of events are taken."""
    pairs = [[V0[2], V0[3]]]
    tools = importer.lines(
        "output.jsonl", {"instance_id": "i-1", "history": V0}, {"history": pairs, "error": None}
    )
    assert importer.ids == ["i-1", "output/2"]
    assert len(tools) == 4


def test_events_of_openhands_v1_are_told(importer: Importer) -> None:
    """A result without its action in the file tells of its call, too."""

    def event(kind: str, seconds: float, **fields: Any) -> dict[str, Any]:
        return {"kind": kind, "timestamp": clock(seconds), "source": "agent", **fields}

    def result(call_id: str, kind: str = "ObservationEvent", **fields: Any) -> dict[str, Any]:
        return event(kind, 5, tool_call_id=call_id, tool_name="terminal", **fields)

    made = {"id": "a", "name": "terminal", "arguments": '{"command":"ls"}'}
    words = [{"type": "text", "text": "done"}]
    tools = importer.lines(
        "events.jsonl",
        event("SystemPromptEvent", 0, system_prompt={"type": "text", "text": "You are."}),
        event("MessageEvent", 1, llm_message={"role": "user", "content": words}),
        event("ActionEvent", 2, tool_call_id="a", tool_name="terminal", tool_call=made, thought=[]),
        result("a", observation={"content": words, "is_error": False, "exit_code": 1}),
        event("ActionEvent", 3, tool_call_id="b", tool_name="terminal", action={"kind": "X"}),
        result("b", "UserRejectObservation", rejection_reason="no"),
        result("c", "AgentErrorEvent", error="bad arguments"),
        result("d", observation={"content": words, "is_error": False}),
        event("MessageEvent", 6, llm_message={"role": "assistant", "content": words}),
        event("ConversationStateUpdateEvent", 7, key="stats"),
    )
    assert [tool.status.name for tool in tools] == ["Failed", "Rejected", "Failed", "Completed"]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 2_000_000, AT + 5_000_000)
    assert list(importer.said())[-1] == ("assistant", "done")


# pydantic-ai


def part(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a part of a message of pydantic-ai."""
    return {"part_kind": kind, **fields}


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


def test_messages_of_pydantic_ai_are_told(importer: Importer) -> None:
    """A request for another try is a failure, and a denied call is a rejection."""
    tools = importer.document("messages.json", PYDANTIC)
    assert [tool.status.name for tool in tools] == ["Completed", "Failed", "Rejected"]
    assert [tool.call.arguments for tool in tools] == [{"n": 1}, {"n": 2}, {}]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 2_000_000)
    assert next(importer.said()) == ("system", "You are.")


def test_a_list_a_line_is_a_conversation(importer: Importer) -> None:
    """Such files have a run of pydantic-ai on each line."""
    assert len(importer.lines("runs.jsonl", PYDANTIC, PYDANTIC)) == 6
    assert importer.ids == ["runs/1", "runs/2"]


# openai-agents


def test_a_saved_run_of_openai_agents_is_told(importer: Importer) -> None:
    """A call that waits for an approval is open, and is told once."""
    made = {"type": "function_call", "name": "pay", "arguments": "{}", "call_id": "a", "id": "1"}
    tools = importer.document(
        "run.json",
        {
            "$schemaVersion": "1.9",
            "original_input": "pay it",
            "generated_items": [
                {"type": "tool_call_item", "raw_item": made},
                {"type": "tool_approval_item", "raw_item": made},
            ],
        },
    )
    assert states(tools) == [("pay", "Pending")]


def test_an_answer_of_openai_responses_is_told(importer: Importer) -> None:
    """The time of its items is that of the answer."""
    made = {"type": "function_call", "name": "pay", "arguments": "{}", "call_id": "a", "id": "1"}
    (tool,) = importer.document(
        "answer.json",
        {"id": "resp_1", "object": "response", "created_at": AT // 1_000_000, "output": [made]},
    )
    assert importer.ids == ["resp_1"]
    assert (tool.status.name, tool.requested_at) == ("Pending", AT)
