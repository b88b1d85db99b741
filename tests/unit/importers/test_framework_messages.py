"""Messages and states that frameworks save: `tests/data/frameworks` holds those they wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.importing import AT, Importer, clock, states

from eventstore.importers import SourceError, import_file
from projections import model_history

DATA = Path(__file__).parents[2] / "data" / "frameworks"


def sample(name: str) -> Any:
    """Return what a framework wrote."""
    return json.loads((DATA / name).read_text())


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        (
            "ai-sdk-7.0.173.ui-messages.json",
            ["Completed", "Failed", "Failed", "Failed", "Pending"],
        ),
        ("ai-sdk-7.0.173.model-messages.json", ["Failed"]),
        ("openai-agents-js-0.20.0.items.json", ["Failed", "Completed"]),
        ("openai-agents-js-0.20.0.runstate.json", ["Completed", "Pending"]),
        ("llama-index-core-0.14.25.messages.json", ["Completed", "Completed"]),
        ("semantic-kernel-1.45.0.chat-history.json", ["Failed", "Completed", "Failed", "Failed"]),
        ("agent-framework-1.23.0.history.jsonl", ["Failed", "Completed"]),
        ("agent-framework-1.23.0.session.json", ["Failed", "Completed"]),
        ("haystack-ai-3.4.1.messages.json", ["Failed", "Completed"]),
        ("autogen-agentchat-0.7.5.state.json", ["Pending", "Pending"]),
    ],
)
def test_every_call_of_a_file_is_in_the_log_with_its_end(
    importer: Importer, name: str, ended: list[str]
) -> None:
    """By the marks of its framework; nothing of the file is left over."""
    assert [status for _, status in states(importer.file(DATA / name))] == ended
    assert (importer.problems, importer.findings) == ([], [])
    chat = importer.store.conversation(importer.ids[0])
    shown = str(model_history(chat.events()).render("openai"))
    for member in ("toolCallId", "block_type", "tool_kwargs", "content_type", "tool_call_result"):
        assert member not in shown


def tool_part(state: str, **fields: Any) -> dict[str, Any]:
    """Return a call in a message of the AI SDK's interface."""
    return {"type": "tool-f", "toolCallId": state, "state": state, "input": {"n": 1}} | fields


UI = {
    "input-streaming": ({}, "Pending"),
    "input-available": ({}, "Pending"),
    "approval-requested": ({"approval": {"id": "1"}}, "Pending"),
    "approval-responded": ({"approval": {"id": "1", "approved": True}}, "Pending"),
    "output-available": ({"output": [1]}, "Completed"),
    "output-error": ({"errorText": "gone"}, "Failed"),
    "output-denied": ({"approval": {"id": "1", "approved": False, "reason": "no"}}, "Rejected"),
}


@pytest.mark.parametrize("state", UI)
def test_the_state_of_a_part_says_how_its_call_ended(importer: Importer, state: str) -> None:
    """One that waits, or runs, stays open."""
    fields, status = UI[state]
    message = {"id": "m", "role": "assistant", "parts": [tool_part(state, **fields)]}
    tools = importer.document("chat.json", {"id": "chat", "messages": [message]})
    assert (importer.ids, states(tools)) == (["chat"], [("f", status)])
    assert tools[0].call.arguments == {"n": 1}


def test_a_message_of_the_interface_is_read_step_by_step(importer: Importer) -> None:
    """Parts that are no call, and no words, are left out; a steering message is the user's."""
    parts = [
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "I look."},
        tool_part("output-available", output="a", preliminary=True, toolCallId="1"),
        {"type": "dynamic-tool", "toolName": "g", "toolCallId": "2", "state": "output-available"}
        | {"input": {}, "output": "b"},
        tool_part("approval-responded", approval={"approved": False}, toolCallId="3"),
        {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "Hurry."}]},
        {"type": "step-start"},
        {"type": "data-note", "data": {"tool_call": {"name": "x"}}},
        {"type": "reasoning-file", "mediaType": "image/png", "url": "data:,"},
        {"type": "custom", "kind": "openai.thing"},
        {"type": "text", "text": "Done."},
    ]
    asked = {"role": "user", "parts": [{"type": "text", "text": "go"}], "createdAt": clock(0)}
    tools = importer.lines("chat.jsonl", asked, {"role": "assistant", "parts": parts})
    assert states(tools) == [("f", "Pending"), ("g", "Completed"), ("f", "Rejected")]
    assert list(importer.said()) == [
        ("user", "go"),
        ("assistant", "I look."),
        ("user", "Hurry."),
        ("assistant", "[reasoning-file]\n[custom]\nDone."),
    ]
    first = next(iter(importer.store.conversation("chat").events()))
    assert first.occurred_at == AT


@pytest.mark.parametrize("holder", ["parts", "toolInvocations"])
def test_messages_of_the_interface_before_version_5_are_read(
    importer: Importer, holder: str
) -> None:
    """Their calls are in a part of their own, or beside the text."""
    made = {"toolCallId": "1", "toolName": "f", "args": {"n": 1}, "state": "result", "result": "x"}
    open_call = {"toolCallId": "2", "toolName": "f", "args": {}, "state": "call"}
    calls = [made, open_call]
    held: list[Any] = calls
    if holder == "parts":
        held = [{"type": "tool-invocation", "toolInvocation": each} for each in calls]
    message = {"role": "assistant", "content": "I look.", holder: held}
    tools = importer.document("chat.json", [{"role": "user", "content": "go"}, message])
    assert states(tools) == [("f", "Completed"), ("f", "Pending")]


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ({"output": {"type": "text", "value": "x"}}, "Completed"),
        ({"output": {"type": "json", "value": {"error": "no mark"}}}, "Completed"),
        ({"output": {"type": "content", "value": [{"type": "text", "text": "x"}]}}, "Completed"),
        ({"output": {"type": "error-text", "value": "x"}}, "Failed"),
        ({"output": {"type": "error-json", "value": {}}}, "Failed"),
        ({"output": {"type": "execution-denied", "reason": "no"}}, "Rejected"),
        ({"result": "x"}, "Completed"),
        ({"result": "x", "isError": True}, "Failed"),
    ],
)
def test_the_type_of_an_output_says_how_its_call_ended(
    importer: Importer, output: dict[str, Any], status: str
) -> None:
    """Versions before 5 have a result, and a mark."""
    made = {"type": "tool-call", "toolCallId": "1", "toolName": "f"}
    made |= {"input": {"n": 1}} if "output" in output else {"args": {"n": 1}}
    asked = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "1"}
    result = {"type": "tool-result", "toolCallId": "1", "toolName": "f", **output}
    tools = importer.document(
        "chat.json",
        [
            {"role": "assistant", "content": [made, asked]},
            {"role": "tool", "content": [{"type": "tool-approval-response"}, result]},
        ],
    )
    assert [(each.call.arguments, each.status.name) for each in tools] == [({"n": 1}, status)]


@pytest.mark.parametrize("has_result", [True, False])
def test_a_person_who_denied_a_call_did_so_whatever_its_result_says(
    importer: Importer, *, has_result: bool
) -> None:
    """A later version writes the reason as an error's text; before, there is no result yet."""
    made = {"type": "tool-call", "toolCallId": "1", "toolName": "f", "input": {}}
    asked = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "1"}
    answer = {"type": "tool-approval-response", "approvalId": "a", "approved": False}
    output = {"type": "error-text", "value": "not today"}
    result = {"type": "tool-result", "toolCallId": "1", "toolName": "f", "output": output}
    said = [answer | {"reason": "not today"}, *([result] if has_result else [])]
    messages = [{"role": "assistant", "content": [made, asked]}, {"role": "tool", "content": said}]
    assert states(importer.document("list.json", messages)) == [("f", "Rejected")]
    assert states(importer.lines("lines.jsonl", *messages)) == [("f", "Rejected")]


def test_the_agents_of_a_team_have_a_conversation_each(importer: Importer) -> None:
    """A state of AutoGen: failures are marked, the thread of the team is a copy."""
    made = [{"id": "1", "arguments": '{"n":1}', "name": "f"}]
    ended = [{"content": "gone", "name": "f", "call_id": "1", "is_error": True}]
    context = [
        {"type": "SystemMessage", "content": "You sell."},
        {"type": "UserMessage", "content": "go", "source": "user"},
        {"type": "AssistantMessage", "content": made, "thought": "Hm.", "source": "a"},
        {"type": "FunctionExecutionResultMessage", "content": ended},
        {"type": "AssistantMessage", "content": "Sorry.", "source": "a"},
    ]
    agent = {"type": "AssistantAgentState", "llm_context": {"messages": context}}
    states_of = {
        "manager": {"type": "RoundRobinManagerState", "message_thread": []},
        "ann": {"type": "ChatAgentContainerState", "agent_state": agent},
        "bob": {"type": "ChatAgentContainerState", "agent_state": agent},
    }
    tools = importer.document("team.json", {"type": "TeamState", "agent_states": states_of})
    assert importer.ids == ["team/ann", "team/bob"]
    assert states(tools) == [("f", "Failed"), ("f", "Failed")]


def test_a_chat_store_of_llama_index_holds_conversations_by_their_keys(importer: Importer) -> None:
    """A memory holds such a store."""
    said = sample("llama-index-core-0.14.25.messages.json")
    store = {"store": {"ann": said, "bob": said}, "class_name": "SimpleChatStore"}
    assert len(importer.document("store.json", store)) == 4
    assert importer.ids == ["store/ann", "store/bob"]
    memory = {"chat_store": {"store": {"chat_history": said}}, "token_limit": 9}
    assert states(importer.document("memory.json", memory))[0] == ("boom", "Completed")


def test_a_call_that_a_person_did_not_approve_is_rejected(importer: Importer) -> None:
    """As agent-framework, and openai-agents for JavaScript, write it."""
    made = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    shell = {"type": "shell_tool_call", "call_id": "2", "commands": ["false"]}
    output = {"type": "shell_command_output", "stdout": "", "exit_code": 1}
    contents = [
        {"role": "assistant", "contents": [made, shell]},
        {"role": "assistant", "contents": [{"type": "function_approval_request", "id": "a"}]},
        {
            "role": {"type": "role", "value": "user"},
            "contents": [
                {"type": "function_approval_response", "approved": False, "function_call": made}
            ],
        },
        {
            "role": "tool",
            "contents": [{"type": "shell_tool_result", "call_id": "2", "outputs": [output]}],
        },
    ]
    tools = importer.lines("history.jsonl", *contents)
    assert states(tools) == [("f", "Rejected"), ("shell", "Failed")]
    items = [
        {"type": "function_call", "callId": "1", "name": "f", "arguments": "{}"},
        {"type": "shell_call", "callId": "2", "action": {"commands": ["false"]}},
        {"type": "apply_patch_call", "callId": "3", "operation": {"type": "delete_file"}},
        {"type": "reasoning", "content": []},
        {"type": "function_call_result", "callId": "1", "name": "f"}
        | {"output": {"type": "text", "text": "Tool execution was not approved."}},
        {
            "type": "shell_call_output",
            "callId": "2",
            "output": [{"stdout": "", "outcome": {"type": "exit", "exitCode": 1}}],
        },
        {"type": "apply_patch_call_output", "callId": "3", "status": "completed", "output": "ok"},
    ]
    tools = importer.document("items.json", items)
    ended = ["Rejected", "Failed", "Completed"]
    assert states(tools) == list(zip(["f", "shell", "apply_patch"], ended, strict=True))


CALL = {"name": "f", "args": {"n": 1}, "id": "1", "type": "tool_call"}
BAD = {"name": "f", "args": '{"n": ', "id": "2", "type": "invalid_tool_call"}
SAID: list[tuple[str, dict[str, Any]]] = [
    ("human", {"content": "go"}),
    ("ai", {"content": "", "tool_calls": [CALL], "invalid_tool_calls": [BAD]}),
    ("tool", {"content": "gone", "tool_call_id": "1", "status": "error"}),
    ("tool", {"content": "not JSON", "tool_call_id": "2", "status": "error"}),
]
CLASSES = {"human": "HumanMessage", "ai": "AIMessageChunk", "tool": "ToolMessage"}


@pytest.mark.parametrize("form", ["to_dict", "dumps", "model_dump"])
def test_messages_that_langchain_serialised_are_read(importer: Importer, form: str) -> None:
    """A call whose arguments are not JSON was made, too, and has its end."""
    written: list[Any] = []
    for kind, members in SAID:
        if form == "to_dict":
            written.append({"type": kind, "data": {**members, "type": kind}})
        elif form == "dumps":
            path = ["langchain", "schema", "messages", CLASSES[kind]]
            written.append({"lc": 1, "type": "constructor", "id": path, "kwargs": members})
        else:
            written.append({**members, "type": kind, "additional_kwargs": {}})
    for tools in (
        importer.document("list.json", written),
        importer.document("object.json", {"messages": written}),
        importer.lines("lines.jsonl", *written),
    ):
        assert [(each.id, each.status.name) for each in tools] == [("1", "Failed"), ("2", "Failed")]
    assert importer.findings == []


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "parts": [tool_part("output-available"), {"type": "new_tool_call"}]},
        {"role": "assistant", "content": [{"type": "tool-call"}, {"type": "tool-swap-call"}]},
        {"role": "assistant", "contents": [{"type": "new_tool_result", "call_id": "1"}]},
        {"role": "assistant", "blocks": [{"block_type": "text"}, {"block_type": "tool_result"}]},
    ],
)
def test_a_part_like_a_call_that_is_not_known_is_refused(
    importer: Importer, message: dict[str, Any]
) -> None:
    """A version of tomorrow may have it; the log would be without it."""
    path = importer.folder / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "go"}, message]))
    with pytest.raises(SourceError, match="looks like a call"):
        import_file(importer.store, path)
    assert list(importer.store.conversations()) == []
