"""Ends as they were: a mark counts at its own place in the form, and a refusal is no failure."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.foreign_logs import codex, item
from support.importing import Importer, clock, states
from support.program_files import path_of

from eventstore import RunEnded, ToolRejected
from eventstore.importers.programs.denials import Denials
from projections import model_history

# what a text quotes


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("meta=None content=['isError=True'] structuredContent=None isError=False", "Completed"),
        ("meta=None content=['gone'] structuredContent=None isError=True", "Failed"),
        (
            "meta=None content=['is_error=True'] is_error=False result_type='complete'",
            "Completed",
        ),
        (
            "meta=None content=['gone'] is_error=True result_type='complete'",
            "Failed",
        ),
        (f"meta=None content=['{'isError=True ' * 20_000}'] isError=False", "Completed"),
        ("the log says: Error: gone", "Completed"),
        ("Error: gone", "Failed"),
    ],
)
def test_a_result_of_mcp_failed_if_its_own_mark_says_so(
    importer: Importer, said: str, state: str
) -> None:
    """The mark stands behind all that the tool said."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": said},
    ]
    assert states(importer.document("chat.json", messages)) == [("f", state)]


@pytest.mark.parametrize(
    ("name", "said", "display", "state"),
    [
        ("run_shell_command", "Output: x\nExit Code: 3\nProcess Group PGID: 8", "x", "Failed"),
        (
            "run_shell_command",
            "<untrusted_context>\nOutput: x\nExit Code: 3\n</untrusted_context>",
            "x",
            "Failed",
        ),
        (
            "run_shell_command",
            "Stdout: x\nError: (none)\nExit Code: 1\nSignal: (none)\nProcess Group PGID: 8",
            "x",
            "Failed",
        ),
        ("run_shell_command", "Output: x\nProcess Group PGID: 8", "x", "Completed"),
        ("run_shell_command", "Output: x\nExit Code: 0\nSignal: (none)", "x", "Completed"),
        (
            "run_shell_command",
            "Output: Exit Code: 3\nmore\nProcess Group PGID: 8",
            "Exit Code: 3\nmore",
            "Completed",
        ),
        (
            "run_shell_command",
            "Output: x\nExit Code: 3\nProcess Group PGID: 8",
            "x\nExit Code: 3",
            "Completed",
        ),
        ("run_shell_command", "Output: (empty)\nExit Code: 3\nProcess Group PGID: 8", "", "Failed"),
        ("read_file", "Output: x\nExit Code: 3\nProcess Group PGID: 8", "x", "Completed"),
    ],
)
def test_a_command_of_gemini_cli_fails_by_its_exit_code(
    importer: Importer, name: str, said: str, display: str, state: str
) -> None:
    """The status is `success` whatever the code; the output may have the like in it."""
    call = {
        "id": "a",
        "name": name,
        "args": {},
        "status": "success",
        "timestamp": clock(3),
        "resultDisplay": display,
        "result": [{"functionResponse": {"id": "a", "name": name, "response": {"output": said}}}],
    }
    message = {
        "id": "2",
        "timestamp": clock(2),
        "type": "gemini",
        "content": "",
        "toolCalls": [call],
    }
    header = {"sessionId": "s", "projectHash": "h"}
    assert states(importer.lines("session.jsonl", header, message)) == [(name, state)]


# mini-swe-agent


def test_a_submission_of_mini_swe_agent_completes_the_command_that_hands_it_in(
    importer: Importer,
) -> None:
    """Its result says that it was not executed, as do those of the commands after it."""
    ids = ("a", "b", "c")
    calls = [{"id": each, "function": {"name": "bash", "arguments": "{}"}} for each in ids]
    results = [
        {
            "role": "tool",
            "tool_call_id": each,
            "content": "{}",
            "extra": {"returncode": code, "exception_info": said, "timestamp": 1_735_787_046.0},
        }
        for each, code, said in (
            ("a", 0, ""),
            ("b", -1, "action was not executed"),
            ("c", -1, "action was not executed"),
        )
    ]
    run = {
        "trajectory_format": "mini-swe-agent-1.1",
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": calls},
            *results,
            {"role": "exit", "content": "a patch", "extra": {"exit_status": "Submitted"}},
        ],
    }
    tools = importer.document("run.traj.json", run)
    assert [tool.status.name for tool in tools] == ["Completed", "Completed", "Failed"]
    assert [tool.ended_at for tool in tools] == [1_735_787_046_000_000] * 3
    assert tools[1].response is not None
    assert tools[1].response.result == "a patch"


@pytest.mark.parametrize(
    ("extra", "ended"),
    [
        ({"exit_status": "Submitted"}, ("completed", None)),
        ({"exit_status": "LimitsExceeded"}, ("terminated", "LimitsExceeded")),
        ({"exit_status": "OSError", "exception_str": "no disk"}, ("error", "no disk")),
    ],
)
def test_a_run_of_mini_swe_agent_ends_as_its_file_says(
    importer: Importer, extra: dict[str, Any], ended: tuple[str, str | None]
) -> None:
    """The last message says it; what it hands in was the output of a command."""
    run = {
        "trajectory_format": "mini-swe-agent-1.1",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "exit", "content": "a patch", "extra": extra},
        ],
    }
    importer.document("run.traj.json", run)
    events = [recorded.event for recorded in importer.store.conversation("run").events()]
    assert isinstance(events[-1], RunEnded)
    failure = events[-1].failure
    assert (events[-1].reason, failure.message if failure else None) == ended
    assert list(importer.said()) == [("user", "go")]


def test_a_run_of_mini_swe_agent_that_was_stopped_did_not_run_what_is_left(
    importer: Importer,
) -> None:
    """Without a submission, an action that was not executed has failed."""
    made = {"id": "a", "function": {"name": "bash", "arguments": "{}"}}
    said = {"returncode": -1, "exception_info": "action was not executed"}
    run = {
        "trajectory_format": "mini-swe-agent-1.1",
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "a", "content": "{}", "extra": said},
            {"role": "user", "content": "Stop."},
        ],
    }
    assert states(importer.document("run.traj.json", run)) == [("bash", "Failed")]


# Claude Code


def refused(**marks: Any) -> dict[str, Any]:
    """Return a record with the result of a call, and marks of a denial."""
    said = marks.pop("said", "It was not allowed.")
    block = {"type": "tool_result", "tool_use_id": "a", "content": said, "is_error": True}
    return {"message": {"role": "user", "content": [block]}, **marks}


CONFIG = {"decision": "reject", "source": "config", "reasonCode": "unknown"}


@pytest.mark.parametrize(
    ("record", "who"),
    [
        (refused(toolDenialKind="user-rejected"), "human"),
        (refused(toolDenialKind="user-rejected", permissionDecision=CONFIG), "rule"),
        (refused(permissionDecision={"decision": "reject", "source": "user_reject"}), "human"),
        (refused(toolDenialKind="permission-rule"), "rule"),
        (
            refused(toolDenialKind="permission-rule", permissionDecision={"source": "hook"}),
            "hook",
        ),
        (
            refused(toolDenialKind="permission-rule", said="PreToolUse:Bash hook error: [x]: no"),
            "hook",
        ),
        (refused(toolDenialKind="automode-blocked"), "gate"),
        (refused(toolDenialKind="a kind of tomorrow"), "human"),
        (refused(toolDenialKind="permission-rule", toolDenialAfterRun=True), False),
        (refused(toolDenialKind="interrupted", said="The user doesn't want to take th"), False),
        (refused(toolDenialKind="cancelled", said="Permission prompt was aborted."), True),
        (refused(toolDenialKind="cancelled"), False),
        (refused(permissionDecision={"decision": "accept", "source": "config"}), False),
        (refused(said="The user doesn't want to proceed with this tool use. No."), True),
        (refused(said="Claude requested permissions to use Bash, but you haven't"), "rule"),
        (refused(said="Permission to use Bash with command rm has been denied."), "rule"),
        (refused(said="cat: x: Permission to use Bash with command rm has been denied."), False),
        (refused(said="Permission denied"), False),
    ],
)
def test_a_denial_of_claude_code_names_who_refused(record: Any, who: bool | str) -> None:
    """The marks of the record decide; the beginning of the text does in older versions."""
    denials = Denials()
    denials.add(record)
    block = record["message"]["content"][0]
    assert denials(block) == who
    assert denials({**block, "is_error": False}) is False


def test_a_denied_call_of_claude_code_is_a_rejection(importer: Importer) -> None:
    """The rejection is the log's own event, with who refused."""
    used = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "make publish"}}
    lines = [
        {"type": "user", "message": {"role": "user", "content": "Publish it."}},
        {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [used]}},
        {"type": "user", **refused(toolDenialKind="user-rejected", permissionDecision=CONFIG)},
    ]
    for number, line in enumerate(lines):
        parent = str(number - 1) if number else None
        line |= {"uuid": str(number), "parentUuid": parent, "sessionId": "s", "timestamp": clock(1)}
    assert states(importer.lines("s.jsonl", *lines)) == [("Bash", "Rejected")]
    events = [recorded.event for recorded in importer.store.conversation("s").events()]
    rejected = next(event for event in events if isinstance(event, ToolRejected))
    assert (rejected.source, rejected.reason) == ("rule", "It was not allowed.")


def test_records_of_its_requests_that_claude_code_keeps_are_silent(importer: Importer) -> None:
    """Its own records have a `message`, too, which nobody said; unknown ones are named."""
    said = {"type": "user", "message": {"role": "user", "content": "go"}, "uuid": "1"}
    own = ("api-request", "api-request-blob", "api-request-shape", "atis-latch", "tools-used")
    records = [{"type": kind, "sessionId": "s", "message": {"role": "user"}} for kind in own[:3]]
    records += [
        {"type": kind, "sessionId": "s"} for kind in (*own[3:], "cost-state", "last-prompt")
    ]
    importer.lines("s.jsonl", {**said, "sessionId": "s"}, *records)
    assert importer.problems == []
    odd = {"type": "odd", "sessionId": "t", "message": {}}
    importer.lines("t.jsonl", {**said, "uuid": "2", "sessionId": "t"}, odd)
    assert importer.problems == ["line 2: a record of type odd, whose message is not known"]


# Codex CLI


def event(kind: str, **fields: Any) -> dict[str, Any]:
    """Return an event of a rollout."""
    return codex("event_msg", 2, type=kind, **fields)


def completed(kind: str, **fields: Any) -> dict[str, Any]:
    """Return the event of a command or a patch that ended."""
    return event("item_completed", item={"type": kind, "id": "a", **fields})


@pytest.mark.parametrize(
    ("mark_event", "output", "state"),
    [
        (completed("CommandExecution", status="failed", exit_code=3), "Output:\nx", "Failed"),
        (completed("CommandExecution", status="completed", exit_code=0), "Error: x", "Completed"),
        (completed("CommandExecution", status="declined"), "no", "Rejected"),
        (completed("FileChange", status="declined"), "patch rejected by user", "Rejected"),
        (completed("FileChange", status="failed"), "x", "Failed"),
        (completed("Plan", status="failed"), "x", "Completed"),
        (event("patch_apply_end", call_id="a", status="declined"), "x", "Rejected"),
        (event("exec_command_end", call_id="a", exit_code=1), "x", "Failed"),
        ({**event("x"), "payload": {"type": {}}}, "x", "Completed"),
        (
            {**event("x"), "payload": {"type": "item_completed", "item": {"type": []}}},
            "x",
            "Completed",
        ),
        (event("token_count"), "patch rejected by user", "Rejected"),
        (event("token_count"), "a\nExit code: 3\nb", "Completed"),
        (
            event("token_count"),
            "Chunk ID: 1\nWall time: 0 seconds\nProcess exited with code 3\nOutput:\nb",
            "Failed",
        ),
    ],
)
def test_the_event_of_a_call_of_codex_tells_its_end(
    importer: Importer, mark_event: dict[str, Any], output: str, state: str
) -> None:
    """A patch or a command that a person declined is rejected; without an event the text tells."""
    tools = importer.lines(
        "rollout.jsonl",
        item("function_call", 1, name="exec_command", arguments="{}", call_id="a"),
        mark_event,
        item("function_call_output", 3, call_id="a", output=output),
    )
    assert states(tools) == [("exec_command", state)]


# large results that are kept in a file beside the session


def session_with_a_large_result(folder: Path, path: str) -> Path:
    """Write a session whose only result is in a file, and return the session's own folder."""
    shown = f"Output too large (9KB). Full output saved to: {path}\n\nPreview (first 2KB):\nab\n..."
    used = {"type": "tool_use", "id": "a", "name": "Bash", "input": {}}
    said = f"<persisted-output>\n{shown}\n</persisted-output>"
    result = {"type": "tool_result", "tool_use_id": "a", "content": said}
    lines = [
        {"type": "user", "message": {"role": "user", "content": "go"}},
        {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [used]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ]
    for number, line in enumerate(lines):
        parent = str(number - 1) if number else None
        line |= {"uuid": str(number), "parentUuid": parent, "sessionId": "s"}
    (folder / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = folder / "s" / "tool-results"
    results.mkdir(parents=True)
    return results


def test_a_large_result_of_claude_code_is_followed_to_its_file(importer: Importer) -> None:
    """The log has the whole; the next prompt shows the beginning, as the model was shown."""
    results = session_with_a_large_result(importer.folder, "/gone/s/tool-results/b1.txt")
    whole = "ab\n" * 3_000 + "Error: the disk is full\n"
    (results / "b1.txt").write_text(whole)
    (tool,) = importer.file(importer.folder / "s.jsonl")
    assert tool.response is not None
    assert (tool.response.result, importer.problems) == (whole, [])
    chat = importer.store.conversation("s")
    prompt = json.dumps(model_history(chat.events()).render("anthropic"))
    assert "Preview (first 2KB)" in prompt
    assert "the disk is full" not in prompt


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/p/s/tool-results/none.txt", "none.txt is not there"),
        ("/p/s/tool-results/link.txt", "link.txt is a link that leads out of the folder"),
        ("/p/s/tool-results/large.txt", "large.txt is larger than 1,000,000 bytes"),
        ("/p/s/tool-results/pipe.txt", "pipe.txt is not a regular file"),
        ("C:\\p\\tool-results\\none.txt", "none.txt is not there"),
        ("../../secret.txt", "secret.txt is not there"),
        ("/p/s/tool-results/..", None),
        ("/etc/passwd", None),
    ],
)
def test_only_a_session_s_own_results_are_followed(
    importer: Importer, path: str, problem: str | None
) -> None:
    """Nothing outside of the folder is opened, nothing that is no file, nothing too large."""
    results = session_with_a_large_result(importer.folder, path)
    secret = importer.folder / "secret.txt"
    secret.write_text("SECRET")
    (results / "link.txt").symlink_to(secret)
    (results / "large.txt").write_bytes(b"x" * 1_000_001)
    os.mkfifo(results / "pipe.txt")
    (tool,) = importer.file(importer.folder / "s.jsonl")
    assert tool.response is not None
    assert tool.response.result.startswith("<persisted-output>")
    named = [] if problem is None else [f"tool-results/{problem}: only its beginning was imported"]
    assert importer.problems == named


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("gemini-cli-0.61.0-exit-codes.jsonl", (7, 3, 4, 0)),
        ("mini-swe-agent-2.4.6-submitted.traj.json", (5, 3, 2, 0)),
        ("claude-code-2.1.332-denied.jsonl", (2, 1, 0, 1)),
    ],
)
def test_the_calls_of_a_session_end_as_in_its_program(
    importer: Importer, name: str, counts: tuple[int, ...]
) -> None:
    """Sessions in the forms of real programs: all calls, completed, failed and rejected ones."""
    ends = [tool.status.name for tool in importer.file(path_of(name))]
    states_of = ("Completed", "Failed", "Rejected")
    assert (len(ends), *map(ends.count, states_of)) == counts
    assert importer.problems == []
