"""Agents' own sessions: every call of a file is in the log, with its end and its times."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.importing import Importer, clock, states
from support.program_files import DROID, DROID_STREAM, PI, path_of, pi, pi_said, values_of

from eventstore import EventStore
from eventstore.domain.events import RunStarted, ToolCompleted
from eventstore.importers import described, discover, import_file, import_sessions
from eventstore.importers.programs.opencode import children_of
from eventstore.importers.reading.problems import SourceError
from projections import model_history


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("opencode-1.18.33.export.json", {"Completed": 4, "Failed": 4}),
        ("qwen-code-0.24.4.jsonl", {"Completed": 4, "Failed": 4}),
        ("copilot-cli-1.0.102.events.jsonl", {"Completed": 3, "Failed": 4}),
        ("kimi-code-2.1.0.wire.jsonl", {"Completed": 4, "Failed": 4}),
        ("continue-1.5.47.session.json", {"Completed": 2, "Failed": 4}),
        ("cline-vscode-2026-04.api_conversation_history.json", {"Completed": 1, "Failed": 1}),
        ("cline-cli-3.0.65.messages.json", {"Completed": 2, "Failed": 4}),
    ],
)
def test_every_call_of_a_file_has_its_end_and_its_times(
    name: str, ends: dict[str, int], importer: Importer
) -> None:
    """Ends are those that the program's own marks say; a second import adds nothing."""
    tools = importer.file(path_of(name))
    assert importer.problems == []
    assert Counter(tool.status.name for tool in tools) == ends
    events = [each for one in importer.ids for each in importer.store.conversation(one).events()]
    timeless = {each.call_id for each in events if each.call_id and not each.occurred_at}
    assert not timeless or name.startswith("continue")


# OpenCode


def opencode(*parts: dict[str, Any], **session: Any) -> dict[str, Any]:
    """Return an export with one message of the model."""
    info = {"id": "m1", "role": "assistant", "time": {"created": 1_795_752_549_874}}
    return {"info": {"id": "ses_1"} | session, "messages": [{"info": info, "parts": [*parts]}]}


def opencode_call(call_id: str, **state: Any) -> dict[str, Any]:
    """Return a part that is a call."""
    given = {"input": {"command": "make"}} | state
    return {"type": "tool", "tool": "bash", "callID": call_id, "state": given}


def test_a_call_of_opencode_ends_as_its_state_says(importer: Importer) -> None:
    """Refusals of a person or a rule are rejections; of an interrupted call no end is known."""
    refused = "The user rejected permission to use this specific tool call."
    ruled = (
        "The user has specified a rule which prevents you from using this specific tool call. []"
    )
    tools = importer.document(
        "export.json",
        opencode(
            opencode_call("a", status="error", error=refused),
            opencode_call("b", status="error", error=ruled),
            opencode_call("c", status="error", error="No file: the user rejected permission"),
            opencode_call("d", status="error", error="aborted", metadata={"interrupted": True}),
            opencode_call("e", status="running"),
            opencode_call("f", status="completed", output="fine: exit 3", metadata={"exit": None}),
        ),
    )
    assert [status for _, status in states(tools)] == [
        *("Rejected", "Rejected", "Failed", "Pending", "Pending", "Completed")
    ]


def test_a_sub_agent_of_opencode_names_its_parent(importer: Importer) -> None:
    """The parent's file has the call that started it."""
    importer.document("child.json", opencode({"type": "text", "text": "One file."}, parentID="p"))
    first = next(iter(importer.store.conversation("ses_1").events())).event
    assert getattr(first, "parent_conversation_id", None) == "p"
    messages = values_of("opencode-1.18.33.export.json")["messages"]
    assert list(children_of(messages)) == [("ses_de4ce07f3ffe6f1HkAeYkbHsUE", "call_5f547744cf")]


def test_a_session_of_opencode_that_has_grown_adds_its_new_parts(importer: Importer) -> None:
    """A call whose end was not known gets it, though a later one ended before."""
    times = {"start": 1_795_752_550_000, "end": 1_795_752_551_000}
    late = times | {"end": 1_795_752_559_000}
    done = opencode_call("b", status="completed", output="b", time=times)
    importer.document("x.json", opencode(opencode_call("a", status="running"), done))
    ended = opencode_call("a", status="completed", output="a", time=late)
    tools = importer.document("x.json", opencode(ended, done))
    assert [(tool.call.id, tool.status.name) for tool in tools] == [
        ("a", "Completed"),
        ("b", "Completed"),
    ]
    ends = [each.event for each in importer.store.conversation("ses_1").events()]
    assert [each.duration for each in ends if isinstance(each, ToolCompleted)] == [
        *(1_000_000, 9_000_000)
    ]


# Qwen Code


def qwen(
    kind: str, uuid: str, parent: str | None, *parts: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Return a record of a session."""
    role = "model" if kind == "assistant" else "user"
    message = {"message": {"role": role, "parts": [*parts]}} if parts else {}
    known = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "timestamp": clock(1)}
    return {**known, "type": kind, **message, **more}


def qwen_end(call_id: str, **end: Any) -> dict[str, Any]:
    """Return the record of a call's end."""
    response = {"id": call_id, "name": "shell", "response": {"error": "no"}}
    return qwen(
        *("tool_result", f"end-{call_id}", None), {"functionResponse": response}, toolCallResult=end
    )


def test_a_call_of_qwen_that_was_refused_is_rejected(importer: Importer) -> None:
    """By a person or a rule; one that was stopped while it ran has no known end."""
    calls = [{"functionCall": {"id": name, "name": "shell", "args": {}}} for name in "abcd"]
    ends: list[dict[str, Any]] = [
        qwen_end("a", status="cancelled", executionStatus="not_started"),
        qwen_end("b", status="error", errorType="execution_denied"),
        qwen_end("c", status="cancelled", executionStatus="cancelled"),
        qwen_end("d", status="error", errorType="shell_execute_error"),
    ]
    chained = [end | {"parentUuid": "1"} for end in ends[:1]] + [
        end | {"parentUuid": before["uuid"]} for before, end in pairwise(ends)
    ]
    tools = importer.lines(
        "s.jsonl",
        qwen("user", "0", None, {"text": "go"}),
        qwen("assistant", "1", "0", {"text": "I think.", "thought": True}, *calls),
        *chained,
    )
    assert [status for _, status in states(tools)] == [
        *("Rejected", "Rejected", "Pending", "Failed")
    ]
    assert list(importer.said())[:1] == [("user", "go")]


def test_turns_that_were_taken_back_in_qwen_are_a_conversation_of_their_own(
    importer: Importer,
) -> None:
    """The record of the rewind hangs on the one before the turn; an import may have had it."""
    call = {"functionCall": {"id": "a", "name": "shell", "args": {}}}
    before = [
        qwen("user", "0", None, {"text": "one"}),
        qwen("assistant", "1", "0", {"text": "first"}),
        qwen("user", "2", "1", {"text": "two"}),
        qwen("assistant", "3", "2", call),
    ]
    importer.lines("s.jsonl", *before)
    importer.ids.clear()
    importer.lines(
        "s.jsonl",
        *before,
        qwen("system", "4", "1", subtype="rewind", systemPayload={}),
        qwen("user", "5", "4", {"text": "three"}),
    )
    assert importer.ids == ["s/s", "s/taken-back-1"]
    assert [said for _, said in importer.said()] == ["one", "first", "three", "two"]


def test_a_sub_agent_of_qwen_is_linked_to_its_call(importer: Importer) -> None:
    """Its file names the session; its id ends with that of the call."""
    own = {"agentId": "general-purpose-call_4", "agentName": "general-purpose"}
    importer.lines("agent-x.jsonl", qwen("user", "0", None, {"text": "count"}, **own))
    assert importer.ids == ["s/general-purpose-call_4"]
    first = next(iter(importer.store.conversation(importer.ids[0]).events())).event
    assert isinstance(first, RunStarted)
    assert (first.parent_conversation_id, first.parent_call_id) == ("s", "call_4")


def test_telemetry_alone_is_refused_as_that_of_qwen(importer: Importer) -> None:
    """A file without messages is no success."""
    path = importer.folder / "s.jsonl"
    path.write_text(json.dumps(qwen("system", "1", None, subtype="ui_telemetry", systemPayload={})))
    with pytest.raises(SourceError, match="Qwen Code"):
        import_file(importer.store, path)


# GitHub Copilot CLI


def copilot(kind: str, agent: str = "", **data: Any) -> dict[str, Any]:
    """Return an event of a session."""
    known = {"id": "e", "parentId": None, "timestamp": clock(1), "type": kind, "data": data}
    return known | ({"agentId": agent} if agent else {})


def test_a_sub_agent_of_copilot_is_linked_to_its_call(importer: Importer) -> None:
    """Its events stand between those of its parent."""
    request = {"name": "task", "arguments": {}}
    tools = importer.lines(
        "events.jsonl",
        copilot("session.start", sessionId="s"),
        copilot("user.message", content="go"),
        copilot("assistant.message", content="", toolRequests=[{"toolCallId": "t", **request}]),
        copilot("tool.execution_start", toolCallId="t", toolName="task"),
        copilot("subagent.started", "x", toolCallId="t", agentName="counter"),
        copilot("user.message", "x", content="count"),
        copilot(
            *("assistant.message", "x"),
            content="One.",
            toolRequests=[{"toolCallId": "a", **request}],
            parentToolCallId="t",
        ),
        copilot("tool.execution_complete", "x", toolCallId="a", success=True, result={}),
        copilot("tool.execution_complete", toolCallId="t", success=True, result={"content": "One"}),
        copilot("subagent.completed", "x", toolCallId="t", agentName="counter"),
    )
    assert importer.ids == ["s", "s/x"]
    assert states(tools) == [("task", "Completed"), ("task", "Completed")]
    first = next(iter(importer.store.conversation("s/x").events())).event
    assert isinstance(first, RunStarted)
    assert (first.parent_conversation_id, first.parent_call_id) == ("s", "t")


def test_a_call_of_copilot_that_was_not_allowed_is_rejected(importer: Importer) -> None:
    """The error has a code for it, or the permission says who did not allow it."""
    requests = [{"toolCallId": name, "name": "bash", "arguments": {}} for name in "abc"]
    error = {"message": "no", "code": "failure"}
    tools = importer.lines(
        "events.jsonl",
        copilot("assistant.message", content="", toolRequests=requests),
        copilot("permission.completed", toolCallId="a", result={"kind": "denied-by-rules"}),
        copilot("tool.execution_complete", toolCallId="a", success=False, error=error),
        copilot(
            "tool.execution_complete",
            toolCallId="b",
            success=False,
            error=error | {"code": "rejected"},
        ),
        copilot("tool.execution_complete", toolCallId="c", success=False, error=error),
    )
    assert [status for _, status in states(tools)] == ["Rejected", "Rejected", "Failed"]


# Kimi Code


def kimi(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a record of an agent."""
    return {"type": kind, "agentId": "main", "time": 1_795_753_275_583, **fields}


def kimi_step(step: str, **event: Any) -> dict[str, Any]:
    """Return a record of a piece of a step."""
    return kimi("context.append_loop_event", event={"stepUuid": step, **event})


def kimi_prompt(said: str) -> dict[str, Any]:
    """Return a record of what a person asked."""
    message = {"role": "user", "content": said, "origin": {"kind": "user"}}
    return kimi("context.append_message", message=message)


def test_prompts_that_were_undone_in_kimi_are_a_conversation_of_their_own(
    importer: Importer,
) -> None:
    """With what followed them; what a person did not allow is rejected."""
    made = {"type": "tool.call", "name": "Bash", "args": {}}
    refused = {"output": "not run", "isError": True}
    tools = importer.lines(
        "wire.jsonl",
        {"type": "metadata", "protocol_version": "1.5", "created_at": 1},
        kimi("runtime.set_binding"),
        kimi_prompt("one"),
        kimi_step("a", type="content.part", part={"type": "text", "text": "first"}),
        kimi_prompt("two"),
        kimi_step("b", toolCallId="b", **made),
        kimi("permission.record_approval_result", toolCallId="b", result={"decision": "rejected"}),
        kimi_step("b", type="tool.result", toolCallId="b", result=refused),
        kimi("context.undo", count=1),
        kimi_prompt("three"),
    )
    assert importer.ids == ["wire", "wire/undone-1"]
    assert states(tools) == [("Bash", "Rejected")]
    assert [said for _, said in importer.said()] == ["one", "first", "three", "two"]


def test_a_session_of_kimi_is_named_for_its_folder(importer: Importer) -> None:
    """All files have one name; that of a sub-agent names its session as its parent."""
    for agent in ("main", "agent-0"):
        folder = importer.folder / "session_1" / "agents" / agent
        folder.mkdir(parents=True)
        records = [kimi_prompt("go") | {"agentId": agent}]
        (folder / "wire.jsonl").write_text("".join(map(json.dumps, records)))
        importer.file(folder / "wire.jsonl")
    assert importer.ids == ["session_1", "session_1/agent-0"]
    first = next(iter(importer.store.conversation("session_1/agent-0").events())).event
    assert isinstance(first, RunStarted)
    assert first.parent_conversation_id == "session_1"


# Continue


def test_a_call_of_continue_ends_as_its_state_says(importer: Importer) -> None:
    """A cancelled call was refused by a person; a call that was only made is open."""
    made = [
        {"id": name, "function": {"name": "Bash", "arguments": "{}"}} for name in ("a", "b", "c")
    ]
    names = zip("abc", ("canceled", "generated", "done"), strict=True)
    ends = [{"toolCallId": name, "status": status} for name, status in names]
    message = {"role": "assistant", "content": "", "toolCalls": made}
    other = {"role": "tool", "toolCallId": "b", "content": "ok"}  # of other versions
    tools = importer.document(
        "s.json",
        {
            "sessionId": "s",
            "history": [
                {"message": {"role": "user", "content": "go"}},
                {"message": message, "toolCallStates": ends},
                {"message": other},
            ],
        },
    )
    assert [status for _, status in states(tools)] == ["Rejected", "Completed", "Completed"]


# Cline


def cline(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    """Return a message of a task."""
    return {"role": role, "content": [*blocks], "ts": 1_777_370_400_000}


def cline_call(call_id: str, name: str = "execute_command") -> dict[str, Any]:
    """Return a block that makes a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def cline_text(said: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": said}


TASK = cline_text("<task>\nStart it.\n</task>")


def test_a_text_right_after_its_call_is_its_result(importer: Importer) -> None:
    """The result begins with the name of the tool; a text that only quotes one is a text."""
    tools = importer.document(
        "task.json",
        [
            cline("user", TASK),
            cline("assistant", cline_call("a"), cline_call("b", "read_file"), cline_call("c")),
            cline(
                "user",
                cline_text("[execute_command for 'a\nb'] Result:\nThe user denied this operation."),
                cline_text("He said: [read_file] Result: Command failed with exit code 1"),
                cline_text("[execute_command for 'c'] Result:\nIt says: Command failed"),
            ),
            cline("user", cline_text("[read_file for 'x'] Result:\nlate")),
        ],
    )
    assert [(tool.call.id, tool.status.name) for tool in tools] == [
        *(("a", "Rejected"), ("b", "Pending"), ("c", "Completed"))
    ]
    assert [said for _, said in importer.said()][-1] == "[read_file for 'x'] Result:\nlate"


def test_a_call_that_stands_as_xml_in_the_words_is_known_by_its_result(importer: Importer) -> None:
    """Older versions had no calls of the provider's."""
    written = (
        "I write it.\n<write_to_file>\n<path>a.html</path>\n<content>\n<b>x</b>\n</content>\n"
        "</write_to_file>"
    )
    tools = importer.document(
        "t.json",
        [
            cline("user", TASK),
            cline("assistant", cline_text(written)),
            cline("user", cline_text("[write_to_file for 'a.html'] Result:\n\nSaved.")),
            cline("assistant", cline_text("<execute_command>\n<command>ls</command>")),
            cline("user", cline_text("[execute_command for 'ls'] Result:\nCommand failed.")),
        ],
    )
    assert states(tools) == [("write_to_file", "Completed"), ("execute_command", "Failed")]
    assert [tool.call.arguments for tool in tools] == [
        {"path": "a.html", "content": "<b>x</b>"},
        {"command": "ls"},
    ]


def test_a_result_that_is_a_block_ends_its_call(importer: Importer) -> None:
    """With other providers; the error is marked, or stands at the beginning."""
    ends: list[dict[str, Any]] = [
        {"is_error": True, "content": "gone"},
        {"content": [cline_text("The tool execution failed with the following error: x")]},
        {"content": "Command execution was not successful, inspect it.\nExit code: 1"},
        {"content": '{"status":"denied","message":"no"}'},
        {"content": "fine"},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": f"{number}"} | end for number, end in enumerate(ends)
    ]
    calls = [cline_call(f"{number}") for number in range(len(ends))]
    tools = importer.document(
        "t.json", [cline("user", TASK), cline("assistant", *calls), cline("user", *results)]
    )
    assert [status for _, status in states(tools)] == [
        *("Failed", "Failed", "Failed", "Rejected", "Completed")
    ]


def test_a_task_of_cline_is_named_for_its_folder(importer: Importer) -> None:
    """All tasks have one file name."""
    folder = importer.folder / "1777370400000"
    folder.mkdir()
    path = folder / "api_conversation_history.json"
    path.write_text(json.dumps([cline("user", TASK)]))
    importer.file(path)
    assert importer.ids == ["1777370400000"]


# Factory Droid


@pytest.mark.parametrize("lines", [DROID, DROID_STREAM], ids=["session", "stream"])
def test_calls_of_droid_are_read_from_sessions_and_streams(
    lines: list[dict[str, Any]], importer: Importer
) -> None:
    """The end of a stream repeats the last answer, which is added once."""
    tools = importer.lines("x.jsonl", *lines)
    assert (importer.ids, importer.problems) == (["s"], [])
    assert states(tools) == [("Execute", "Completed"), ("Execute", "Failed")]
    assert [tool.call.arguments for tool in tools] == [{"command": "ls"}, {"command": "id"}]
    assert [said for _, said in importer.said()].count("Done.") <= 1


# What is refused


@pytest.mark.parametrize(
    ("name", "text", "program"),
    [
        (
            "a.jsonl",
            '{"role":"assistant","message":{"content":[{"type":"tool_use","name":"Shell"}]}}',
            "Cursor",
        ),
        ("a.json", '{"history":[{"user":{},"assistant":{"ToolUse":{}}}]}', "Kiro or Amazon Q"),
        ("a.log", "\n# aider chat started at 2026-11-28 10:00:00\n\n#### go\n", "aider"),
    ],
)
def test_files_that_are_not_read_are_refused_by_the_name_of_their_program(
    name: str, text: str, program: str, importer: Importer
) -> None:
    """An import never succeeds without the calls of its file."""
    path = importer.folder / name
    path.write_text(text)
    with pytest.raises(SourceError, match=program):
        import_file(importer.store, path)


# pi


def test_a_branch_that_was_left_in_pi_is_a_conversation_of_its_own(importer: Importer) -> None:
    """The same holds where a person came back to the first branch."""
    tools = importer.lines(
        "s.jsonl",
        *PI,
        pi_said("7", "2", "assistant", content=[{"type": "text", "text": "Another way."}]),
        pi_said("8", "6", "user", content="back"),
    )
    assert importer.ids == ["s", "s/left-1"]
    assert states(tools) == [("bash", "Completed"), ("bash", "Failed")]
    assert [said for _, said in importer.said()] == [
        "You help.\n\nBe brief.",
        "one",
        "I look.",
        "Ran `pwd`\n/",
        "back",
        "Another way.",
    ]


def test_entries_of_pi_that_name_no_other_stand_in_their_order(importer: Importer) -> None:
    """The first version had no tree."""
    plain = [{k: v for k, v in each.items() if k not in ("id", "parentId")} for each in PI[1:]]
    tools = importer.lines("s.jsonl", PI[0], *plain)
    assert importer.ids == ["s"]
    assert states(tools) == [("bash", "Completed"), ("bash", "Failed")]


PLACED = {
    ".cline/data/sessions/1795753212444_8bk6o/1795753212444_8bk6o.messages.json": (
        "cline-cli-3.0.65.messages.json",
        "cline-cli:1795753212444_8bk6o",
        6,
    ),
    ".cline/data/tasks/1777370400000/api_conversation_history.json": (
        "cline-vscode-2026-04.api_conversation_history.json",
        "cline:1777370400000",
        2,
    ),
    ".continue/sessions/4a40c626-d129-4f83-ba2a-3ec3bde9f1fd.json": (
        "continue-1.5.47.session.json",
        "continue:4a40c626-d129-4f83-ba2a-3ec3bde9f1fd",
        6,
    ),
    ".copilot/session-state/32ef77d9-0391-471a-b418-29582f52893e/events.jsonl": (
        "copilot-cli-1.0.102.events.jsonl",
        "copilot-cli:32ef77d9-0391-471a-b418-29582f52893e",
        7,
    ),
    ".kimi-code/sessions/wd_proj_1/ses_2/agents/main/wire.jsonl": (
        "kimi-code-2.1.0.wire.jsonl",
        "kimi-code:ses_2",
        8,
    ),
    ".qwen/projects/-home-dev-proj/chats/30707d98-ac1c-468f-a215-edbfaee162e0.jsonl": (
        "qwen-code-0.24.4.jsonl",
        "qwen-code:30707d98-ac1c-468f-a215-edbfaee162e0",
        8,
    ),
}
"""Where a file lies in a home folder, its name, and calls."""


@pytest.mark.parametrize("place", [*PLACED])
def test_a_session_is_found_where_its_program_keeps_it(
    place: str, tmp_path: Path, store: EventStore
) -> None:
    """Its id and its calls are those of the import."""
    file, name, calls = PLACED[place]
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_bytes(path_of(file).read_bytes())
    (session,) = discover(tmp_path).sessions
    shown = described(session)
    assert (shown.name, shown.calls) == (name, calls)
    (done,) = import_sessions(store, [session])
    assert (done.ids[0], done.refused) == (session.id, [])
    assert len(store.conversation(session.id).tools) == calls


# Compactions


def shown(importer: Importer) -> list[str]:
    """Return the words that the model would see next in the first conversation."""
    request = model_history(importer.store.conversation(importer.ids[0])).render("openai")
    return [each["content"] for each in request["messages"]]


def test_a_compaction_is_a_boundary(importer: Importer) -> None:
    """A compaction of pi hides what is before it, but for what it keeps."""
    importer.lines(
        "s.jsonl",
        PI[0],
        pi_said("1", None, "user", content="one"),
        pi_said("2", "1", "user", content="two"),
        pi("compaction", "3", "2", summary="So far: one.", firstKeptEntryId="2"),
        pi_said("4", "3", "user", content="three"),
    )
    assert shown(importer) == ["So far: one.", "two", "three"]


def test_a_compression_of_qwen_is_a_boundary(importer: Importer) -> None:
    """The model's new history stands in the place of all before."""
    contents = [{"role": "user", "parts": [{"text": "So far: one."}]}]
    importer.lines(
        "s.jsonl",
        qwen("user", "0", None, {"text": "one"}),
        qwen(
            *("system", "1", "0"),
            subtype="chat_compression",
            systemPayload={"compressedHistory": contents},
        ),
        qwen("user", "2", "1", {"text": "two"}),
    )
    assert shown(importer) == ["So far: one.", "two"]


def test_a_compaction_of_copilot_is_a_boundary(importer: Importer) -> None:
    """Where it succeeded."""
    importer.lines(
        "events.jsonl",
        copilot("user.message", content="one"),
        copilot("session.compaction_complete", success=False, error="no"),
        copilot("session.compaction_complete", success=True, summaryContent="So far: one."),
        copilot("user.message", content="two"),
    )
    assert shown(importer) == ["So far: one.", "two"]


def test_a_compaction_of_kimi_keeps_what_was_asked_last(importer: Importer) -> None:
    """Before the summary; the first prompts, too, where the record says how many."""
    importer.lines(
        "wire.jsonl",
        *map(kimi_prompt, ("one", "two", "three", "four")),
        kimi(
            "context.apply_compaction",
            contextSummary="So far.",
            keptUserMessageCount=2,
            compactedCount=4,
            keptHeadUserMessageCount=1,
        ),
        kimi_prompt("five"),
    )
    assert shown(importer) == ["one", "four", "So far.", "five"]


def test_a_compaction_of_opencode_keeps_its_tail(importer: Importer) -> None:
    """One that failed is no boundary."""

    def said(name: str, role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
        return {"info": {"id": name, "role": role, **info}, "parts": [*parts]}

    def words(text: str) -> dict[str, Any]:
        return {"type": "text", "text": text}

    compaction = {"type": "compaction", "auto": True, "tail_start_id": "2"}
    messages = [
        said("1", "user", words("one")),
        said("2", "user", words("two")),
        said("3", "user", compaction),
        said("4", "assistant", words("half"), summary=True, error={"name": "APIError"}),
        said("5", "assistant", words("So far: one."), summary=True),
        said("6", "user", words("three")),
    ]
    importer.document("x.json", {"info": {"id": "ses_1"}, "messages": messages})
    assert shown(importer) == ["So far: one.", "two", "three"]
