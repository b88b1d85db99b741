"""Session logs of agents: Codex CLI, Gemini CLI, OpenHands, pydantic-ai, openai-agents."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from support.foreign_logs import GEMINI, PYDANTIC, V0, codex, item
from support.importing import AT, Importer, clock, states

from eventstore import EventStore, Failed
from eventstore.importers import import_files, read
from eventstore.importers.programs.event_folder import with_event_folders

# Codex CLI


def test_a_rollout_of_codex_is_recognised_by_its_items(importer: Importer) -> None:
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


def test_items_of_codex_with_forms_of_their_own_are_calls(importer: Importer) -> None:
    """A shell, a patch and a computer are called with what they are asked, and answered."""
    printed = {"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 2}}
    patch = {"type": "delete_file", "path": "a.py"}
    shot = {"type": "computer_screenshot", "image_url": "https://example.com/a.png"}
    tools = importer.lines(
        "rollout.jsonl",
        codex("session_meta", 0, id="session-1", cwd="/"),
        item("message", 0, role="user", content=[{"type": "input_text", "text": "go"}]),
        item("shell_call", 1, call_id="a", action={"commands": ["make"]}),
        item("shell_call_output", 2, call_id="a", output=[printed]),
        item("apply_patch_call", 3, call_id="b", operation=patch),
        item("apply_patch_call_output", 4, call_id="b", status="completed", output="done"),
        item("computer_call", 5, call_id="c", action={"type": "wait"}),
        item("computer_call_output", 6, call_id="c", output=shot),
        item("apply_patch_call", 7, call_id="d", operation=patch),
    )
    assert states(tools) == [
        ("shell", "Failed"),
        ("apply_patch", "Completed"),
        ("computer", "Completed"),
        ("apply_patch", "Pending"),
    ]
    assert tools[0].call.arguments == {"commands": ["make"]}
    assert tools[1].call.arguments == patch


def _said(role: str, seconds: float, text: str) -> dict[str, Any]:
    return item("message", seconds, role=role, content=[{"type": "input_text", "text": text}])


def test_turns_that_codex_rolled_back_are_a_conversation_of_their_own(importer: Importer) -> None:
    """Codex shows them to the model no more; what it put before a turn goes with the turn."""
    made = {"name": "exec_command", "arguments": "{}"}
    tools = importer.lines(
        "rollout.jsonl",
        codex("session_meta", 0, id="s", cwd="/"),
        _said("user", 0, "<environment_context>\n</environment_context>"),
        _said("user", 1, "one"),
        _said("assistant", 2, "first"),
        _said("developer", 3, "a new mode"),
        _said("user", 3, "two"),
        item("function_call", 4, call_id="a", **made),
        item("function_call_output", 5, call_id="a", output="Exit code: 0"),
        codex("event_msg", 6, type="thread_rolled_back", num_turns=1),
        _said("user", 7, "three"),
        item("function_call", 8, call_id="b", **made),
        item("function_call_output", 9, call_id="b", output="Exit code: 1"),
    )
    assert importer.ids == ["s", "s/rolled-back-1"]
    assert [(tool.call.id, tool.status.name) for tool in tools] == [
        ("b", "Failed"),
        ("a", "Completed"),
    ]
    assert [text for _, text in importer.said()][1:] == [
        "one",
        "first",
        "three",
        "a new mode",
        "two",
    ]


def test_rolling_back_more_turns_than_there_are_keeps_what_stood_before(importer: Importer) -> None:
    """Nothing is rolled back where there is no turn, or none is named."""
    importer.lines(
        "rollout.jsonl",
        codex("session_meta", 0, id="s", cwd="/"),
        codex("event_msg", 0, type="thread_rolled_back", num_turns=1),
        _said("developer", 0, "the rules"),
        _said("user", 1, "one"),
        codex("event_msg", 2, type="thread_rolled_back", num_turns=0),
        codex("event_msg", 3, type="thread_rolled_back", num_turns=9),
        _said("user", 4, "two"),
    )
    assert [text for _, text in importer.said()] == ["the rules", "two", "one"]


def test_a_thread_of_codex_that_was_reverted_has_one_more_file(importer: Importer) -> None:
    """Newer versions go on in a file that begins later and repeats nothing."""
    head = codex("session_meta", 0, id="s", cwd="/")
    importer.lines("rollout-1-s.jsonl", {**head, "ordinal": 0}, _said("user", 1, "one"))
    importer.lines("rollout-2-s_t.jsonl", {**head, "ordinal": 9}, _said("user", 2, "two"))
    assert importer.ids == ["s", "s/t"]


@pytest.mark.parametrize(
    ("output", "state"),
    [
        (
            "Process exited with code 0\nOutput:\nProcess exited with code 7",
            "Completed",
        ),
        ("Exit code: 0\nOutput:\nExit code: 2\n", "Completed"),
        ("Chunk ID: 1\nProcess exited with code 7\nOutput:\nExit code: 0", "Failed"),
        ("unsupported custom tool call: apply_patch", "Failed"),
        ("unable to locate image at `/a.png`: No such file or directory", "Failed"),
        ("write_stdin failed: Unknown process id 3", "Failed"),
        ("tool call error: tool call failed for `s/t`", "Failed"),
        ("exec command rejected by user", "Rejected"),
    ],
)
def test_the_head_of_a_result_of_codex_tells_a_failure(
    importer: Importer, output: str, state: str
) -> None:
    """A command may print what looks like the head of another."""
    tools = importer.lines(
        "rollout.jsonl",
        item("function_call", 1, name="exec_command", arguments="{}", call_id="a"),
        item("function_call_output", 2, call_id="a", output=output),
    )
    assert states(tools) == [("exec_command", state)]


def test_a_sub_agent_of_codex_has_a_conversation_of_its_own(importer: Importer) -> None:
    """Its `session_id` is that of the session which began it, and it repeats that one's header."""
    words = [{"type": "input_text", "text": "look"}]
    spawn = {"thread_spawn": {"parent_thread_id": "root", "depth": 1}}
    root = codex("session_meta", 0, id="root", session_id="root", source="cli")
    own = codex("session_meta", 1, id="child", session_id="root", source={"subagent": spawn})
    importer.lines("root.jsonl", root, item("message", 0, role="user", content=words))
    importer.lines("child.jsonl", own, root, item("message", 1, role="user", content=words))
    assert importer.ids == ["root", "child"]
    (transcript,) = read(importer.folder / "child.jsonl").transcripts()
    assert transcript.parent_id == "root"


# Gemini CLI


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


def test_a_session_of_gemini_cli_that_was_resumed_is_read_once(importer: Importer) -> None:
    """Its messages are written again, with results as messages of the user between them."""
    result = {"functionResponse": {"id": "good", "name": "good", "response": {"output": "here"}}}
    answer = {"id": "3_response", "timestamp": clock(30), "type": "user", "content": [result]}
    call = {"functionCall": {"id": "good", "name": "good", "args": {"n": 1}}}
    again = {**GEMINI[2], "content": [{"text": "I look."}, call]}
    tools = importer.lines(
        "session.jsonl",
        {"sessionId": "s", "projectHash": "h", "kind": "main"},
        GEMINI[0],
        GEMINI[2],
        {**answer, "id": "4"},
        {"$set": {"messages": [GEMINI[0], again, answer, {**answer, "id": "4"}]}},
        {"id": "5", "type": "user", "content": [{"text": "again"}]},
    )
    assert importer.ids == ["s"]
    assert states(tools) == GEMINI_STATES
    assert list(importer.said()) == [
        ("user", "go"),
        ("assistant", "I look."),
        ("user", "again"),
    ]


def test_calls_that_gemini_cli_took_back_are_a_conversation_of_their_own(
    importer: Importer,
) -> None:
    """A rewind to a message that is not there takes all back."""
    tools = importer.lines(
        "session.jsonl",
        {"sessionId": "s", "projectHash": "h", "kind": "main"},
        *GEMINI,
        {"$rewindTo": "gone"},
        {"id": "9", "type": "user", "content": "anew"},
    )
    assert importer.ids == ["s", "s/taken-back-1"]
    assert states(tools) == GEMINI_STATES
    assert next(importer.said()) == ("user", "anew")


# OpenHands


def test_events_of_openhands_v0_are_read(importer: Importer) -> None:
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


def test_events_of_openhands_v1_are_read(importer: Importer) -> None:
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


def test_calls_over_acp_are_recorded_once_with_their_last_state(importer: Importer) -> None:
    """The SDK writes an event at the beginning and the end of a call; an interrupt ends none."""

    def event(kind: str, seconds: float, **fields: Any) -> dict[str, Any]:
        return {"kind": kind, "timestamp": clock(seconds), "source": "agent", **fields}

    def call(call_id: str, seconds: float, status: str, **fields: Any) -> dict[str, Any]:
        made = {"title": "Run make", "tool_kind": "execute", "raw_input": {"command": "make"}}
        own = {"tool_call_id": call_id, "status": status, "is_error": status == "failed"}
        return event("ACPToolCallEvent", seconds, **made, **own, **fields)

    said = [{"type": "content", "content": {"type": "text", "text": "exit 2"}}]
    tools = importer.lines(
        "events.jsonl",
        event("MessageEvent", 0, llm_message={"role": "user", "content": "Build it."}),
        call("a", 1, "in_progress"),
        call("a", 3, "failed", content=said),
        call("b", 4, "completed", raw_output="built"),
        call("c", 5, "in_progress"),
        event("InterruptEvent", 6),
        event("HookExecutionEvent", 7, hook_event_type="Stop", exit_code=0),
    )
    assert [tool.status.name for tool in tools] == ["Failed", "Completed", "Pending"]
    assert [tool.call.name for tool in tools] == ["execute"] * 3
    assert [tool.call.arguments for tool in tools] == [{"command": "make"}] * 3
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 3_000_000)
    assert not importer.problems


@pytest.mark.parametrize("name", ["{0}.json", "event-{0:05}-1f-a.json"])
def test_a_folder_of_events_is_one_conversation(
    importer: Importer, name: str, tmp_path: Path
) -> None:
    """OpenHands keeps a file for each event; they are read in the order of their numbers."""
    folder = tmp_path / "3f2a" / "events"
    folder.mkdir(parents=True)
    for number, event in enumerate([V0[0], *[V0[1]] * 8, *V0[2:]], 1):
        (folder / name.format(number)).write_text(json.dumps(event))
    (folder / name.format(2)).write_text("{")
    tools = importer.file(folder)
    assert importer.ids == ["3f2a"]
    assert [tool.status.name for tool in tools] == ["Failed", "Rejected", "Completed"]
    assert importer.problems == [f"{name.format(2)} is not JSON"]


def test_the_files_of_event_folders_are_not_read_one_by_one(tmp_path: Path) -> None:
    """The folder stands for them, and for what the program keeps beside it."""
    kept = tmp_path / "one" / "events" / "0.json"
    other = tmp_path / "two" / "events" / "0.json"
    for path, value in ((kept, V0[0]), (other, {"role": "user", "content": "hi"})):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(value))
    beside = tmp_path / "one" / "event_cache" / "0-25.json"
    files = [beside, kept, tmp_path / "one" / "base_state.json", other, tmp_path / "chat.json"]
    assert with_event_folders(files) == [tmp_path / "chat.json", kept.parent, other]


def test_only_regular_files_inside_a_folder_are_opened(store: EventStore, tmp_path: Path) -> None:
    """Anything else is told by its name: it may lead anywhere, and give data without end."""
    folder = tmp_path / "logs" / "chat" / "events"
    folder.mkdir(parents=True)
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(V0[1]))
    (folder / "0.json").symlink_to(outside)
    (folder / "1.json").write_text(json.dumps(V0[1]))
    (folder / "2.json").symlink_to(folder / "1.json")
    (folder / "3.json").symlink_to(folder / "4.json")
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(folder / "5.json"))
    (done,) = import_files(store, [folder])
    assert (done.added, done.refused) == (2, [])
    assert done.problems == [
        "0.json is a link that leads out of the folder",
        "3.json is a link to nothing",
        "5.json is not a regular file",
    ]
    for name in ("a.json", "b.json"):
        (tmp_path / "logs" / name).symlink_to(outside)
    *refused, known = import_files(store, [tmp_path / "logs"])
    assert known.skipped == 2
    assert [each.path.removeprefix(f"{tmp_path}/logs/") for each in refused] == ["a.json", "b.json"]
    assert all("leads out of the folder: name it" in str(each.refused[0]) for each in refused)


# pydantic-ai


def test_messages_of_pydantic_ai_are_read(importer: Importer) -> None:
    """A request for another try is a failure, and a denied call is a rejection."""
    tools = importer.document("messages.json", PYDANTIC)
    assert [tool.status.name for tool in tools] == ["Completed", "Failed", "Rejected"]
    assert [tool.call.arguments for tool in tools] == [{"n": 1}, {"n": 2}, {}]
    assert (tools[0].requested_at, tools[0].ended_at) == (AT + 1_000_000, AT + 2_000_000)
    assert next(importer.said()) == ("system", "You are.")


def test_a_call_that_pydantic_ai_asks_for_again_is_a_failure(importer: Importer) -> None:
    """Newer versions write it as a return; a list of errors has a `type` and is no text."""
    error = {"type": "int_parsing", "loc": ["n"], "msg": "not an integer"}
    made = {"part_kind": "tool-call", "tool_name": "find", "args": {"n": "x"}, "tool_call_id": "a"}
    reported = {"part_kind": "tool-return", "tool_name": "find", "tool_call_id": "a"}
    tools = importer.document(
        "messages.json",
        [
            {"kind": "response", "parts": [made], "timestamp": clock(0)},
            {"kind": "request", "parts": [{**reported, "content": [error], "outcome": "retried"}]},
        ],
    )
    assert states(tools) == [("find", "Failed")]
    assert isinstance(tools[0].status, Failed)
    assert "not an integer" in tools[0].status.failure.message


def pydantic_run(state: str, *outcomes: str) -> list[Any]:
    """Return a response with calls, and a request with what their returns say."""
    names = [f"{n}" for n, _ in enumerate(outcomes or ("none",))]
    made = [
        {"part_kind": "tool-call", "tool_name": "pay", "args": {}, "tool_call_id": name}
        for name in names
    ]
    ended = [
        {"part_kind": "tool-return", "tool_name": "pay", "tool_call_id": name}
        | {"content": "The tool call was interrupted before a result was produced."}
        | {"outcome": outcome}
        for name, outcome in zip(names, outcomes, strict=False)
    ]
    response = {"kind": "response", "parts": made, "state": state, "timestamp": clock(0)}
    return [response, *([{"kind": "request", "parts": ended}] if ended else [])]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("success", "Completed"),
        ("failed", "Failed"),
        ("retried", "Failed"),
        ("denied", "Rejected"),
        ("interrupted", "Pending"),
    ],
)
def test_the_outcome_of_a_return_is_the_end_of_its_call(
    importer: Importer, outcome: str, status: str
) -> None:
    """One that was interrupted has none: it may have taken effect."""
    (tool,) = importer.document("messages.json", pydantic_run("complete", outcome))
    assert tool.status.name == status


def test_calls_of_a_response_that_was_cut_off_never_ran(importer: Importer) -> None:
    """Whether their returns were made up afterwards, or not; unless one of them has ended."""
    for name, outcomes in (("bare", ()), ("mended", ("interrupted", "interrupted"))):
        tools = importer.document(f"{name}.json", pydantic_run("interrupted", *outcomes))
        assert tools
        for tool in tools:
            assert isinstance(tool.status, Failed)
            assert tool.status.failure.code == "broken_off"
            assert not tool.in_doubt
    ran = pydantic_run("interrupted", "success", "interrupted")
    assert [each.status.name for each in importer.document("ran.json", ran)] == [
        "Completed",
        "Pending",
    ]


@pytest.mark.parametrize("given", [{"args_dict": {"n": 1}}, {"args_json": '{"n": 1}'}, {"n": 1}])
def test_arguments_of_2024_are_read(importer: Importer, given: Any) -> None:
    """An object of one member held them then."""
    made = {"part_kind": "tool-call", "tool_name": "find", "args": given, "tool_call_id": "a"}
    (tool,) = importer.document("messages.json", [{"kind": "response", "parts": [made]}])
    assert tool.call.arguments == {"n": 1}


def test_a_list_a_line_is_a_conversation(importer: Importer) -> None:
    """Such files have a run of pydantic-ai on each line."""
    assert len(importer.lines("runs.jsonl", PYDANTIC, PYDANTIC)) == 6
    assert importer.ids == ["runs/1", "runs/2"]


# openai-agents


def test_a_saved_run_of_openai_agents_is_read(importer: Importer) -> None:
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


def test_shells_and_approvals_of_a_saved_run_are_calls(importer: Importer) -> None:
    """The output of the shell is in the run, and so is the answer to the MCP server."""
    shell = {"type": "shell_call", "call_id": "a", "action": {"commands": ["make"]}}
    printed = {"stdout": "done", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    asked = {"id": "m", "name": "f", "server_label": "s", "arguments": "{}"}
    said = {
        "tool_call_item": shell,
        "tool_call_output_item": {"type": "shell_call_output", "call_id": "a", "output": [printed]},
        "mcp_approval_request_item": {"type": "mcp_approval_request", **asked},
        "mcp_approval_response_item": {
            "type": "mcp_approval_response",
            "approval_request_id": "m",
            "approve": False,
        },
    }
    tools = importer.document(
        "run.json",
        {
            "$schemaVersion": "1.13",
            "original_input": "build it",
            "generated_items": [{"type": kind, "raw_item": raw} for kind, raw in said.items()],
        },
    )
    assert states(tools) == [("shell", "Completed"), ("mcp_approval_request", "Rejected")]


def test_an_answer_of_openai_responses_is_read(importer: Importer) -> None:
    """The time of its items is that of the answer."""
    made = {"type": "function_call", "name": "pay", "arguments": "{}", "call_id": "a", "id": "1"}
    (tool,) = importer.document(
        "answer.json",
        {"id": "resp_1", "object": "response", "created_at": AT // 1_000_000, "output": [made]},
    )
    assert importer.ids == ["resp_1"]
    assert (tool.status.name, tool.requested_at) == ("Pending", AT)


def test_a_rollout_of_the_first_versions_of_codex_is_read(importer: Importer) -> None:
    """Its lines are the items themselves, after a header; only the header has a time."""
    tools = importer.lines(
        "rollout.jsonl",
        {"id": "s", "timestamp": clock(0), "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "a"},
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": '{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.1}}',
        },
    )
    assert (importer.ids, importer.problems) == (["s"], [])
    assert states(tools) == [("shell", "Failed")]
